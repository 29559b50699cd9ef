"""An operator that is called: what it returns is checked, and errors name the public function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np
from jax.typing import DTypeLike

from jscan.arguments.arrays import as_numbers
from jscan.operators import Operator


class Leaf(Protocol):
    """A leaf of an operand: an array, or what is known of one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of its elements."""


PyTree: TypeAlias = Any
"""A pytree of arrays."""

Function: TypeAlias = Callable[[PyTree, PyTree], PyTree]
"""An operator as it is written: a function of two pytrees that returns another."""


def apply(
    caller: str,
    fn: Function,
    left: Sequence[Any],
    right: Sequence[Any],
    treedef: jax.tree_util.PyTreeDef,
) -> list[Any]:
    """The leaves of what ``fn`` makes of two pytrees, given their leaves.

    Errors that ``fn`` itself raises pass through. Results that are no arrays, or no pytree like the
    operands, raise.
    """
    operands = jax.tree.unflatten(treedef, left), jax.tree.unflatten(treedef, right)
    try:
        result = fn(*operands)
    except jax.errors.TracerArrayConversionError as error:
        name = getattr(fn, "__name__", type(fn).__name__)
        if isinstance(fn, np.ufunc):
            message = f"fn is numpy.{name}, which takes no traced arrays; use jax.numpy.{name}"
        else:
            message = f"fn, {name}, calls NumPy on its arguments, which are traced; use jax.numpy"
        raise TypeError(f"{caller}: {message}") from error
    except (TypeError, ValueError) as error:
        if isinstance(fn, Operator):
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"{caller}: elems does not suit fn; {error}") from error
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            # The call itself failed: no frame of fn is in the traceback.
            raise TypeError(f"{caller}: fn must take two pytrees like elems; {error}") from error
        raise
    values, structure = jax.tree.flatten(result)
    if not _corresponds(structure, treedef):
        raise ValueError(
            f"{caller}: fn must return a pytree like elems, {treedef}; it returned {structure}"
        )
    for i, value in enumerate(values):
        if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
            raise ValueError(
                f"{caller}: fn must return arrays of the shapes it is given; leaf {i} is the "
                f"number {value!r}"
            )
        if not isinstance(value, jax.Array):
            as_numbers(caller, f"what fn returns, leaf {i},", value)
    return values


def _corresponds(left: jax.tree_util.PyTreeDef, right: jax.tree_util.PyTreeDef) -> bool:
    """Whether two pytrees have the same structure; lists and tuples of any kind are alike."""
    if left == right:
        return True
    nodes = left.node_data(), right.node_data()
    if not all(node is not None and issubclass(node[0], (list, tuple)) for node in nodes):
        return False
    children = left.children(), right.children()
    return len(children[0]) == len(children[1]) and all(map(_corresponds, *children))


def checked(
    caller: str,
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
) -> Function:
    """``fn`` on whole arrays, with its results checked at every call."""
    dtypes = [leaf.dtype for leaf in leaves]

    def call(left: PyTree, right: PyTree) -> PyTree:
        operands = jax.tree.leaves(left)
        results = apply(caller, fn, operands, jax.tree.leaves(right), treedef)
        check_results(caller, [jax.typeof(x) for x in results], operands, dtypes)
        return jax.tree.unflatten(treedef, results)

    return call


def check_results(
    caller: str, results: Sequence[Leaf], operands: Sequence[Leaf], dtypes: Sequence[DTypeLike]
) -> None:
    """Raise where an operator's results do not match its operands.

    ``dtypes`` are those of the scanned leaves: a result may have the dtype of its leaf, too, where
    operands have the accumulation dtype.
    """
    for i, (result, operand, dtype) in enumerate(zip(results, operands, dtypes, strict=True)):
        if result.shape != operand.shape:
            raise ValueError(
                f"{caller}: fn must return leaves of the shapes it is given; leaf {i} went in as "
                f"{operand.shape} and came out as {result.shape}"
            )
        if result.dtype not in (operand.dtype, dtype):
            raise TypeError(
                f"{caller}: fn must return leaves of the dtypes it is given; leaf {i} went in as "
                f"{operand.dtype} and came out as {result.dtype}"
            )
