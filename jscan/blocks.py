"""Operators on small blocks, taken apart into operators on scalars.

An operator may work element by element along the leading dimensions of its leaves, the scanned axis
among them, and mix what is in their trailing ones: products of matrices, sums over them. Each
number of an element's block then is a leaf of an operator on scalars, which `taken_apart` finds by
walking through the jaxpr with arrays of scalars in the place of arrays:

    a leaf (n, 2, 2)        an array (1, 2, 2) of scalars        leaves (n,), four of them
    x @ y                   x00 y00 + x01 y10, ...               one operator of eight scalars
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jscan.called import Function, Leaf, apply
from jscan.combine import TRACED_LENGTH, Combine, accumulation_dtype, scalar_jaxpr
from jscan.jaxprs import evaluate, has_custom_rules
from jscan.unrolled import ALIKE, Unfit, Walk, constant

MOST_LEAVES = 24
"""The most numbers in an element. A program keeps several elements of them in registers."""


class Apart(NamedTuple):
    """An operator on blocks, taken apart.

    Attributes:
      combine: the operator on scalars: the numbers of the first leaf's block, then of the second's.
      leading: how many dimensions come before the blocks.
    """

    combine: Combine
    leading: int


def taken_apart(
    caller: str,
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    least: int = 0,
) -> Apart | str:
    """``fn`` on scalars, or why it cannot be had.

    At ``least`` so many dimensions are leading ones. Errors that ``fn`` raises are left to those
    who call it.
    """
    shapes = [leaf.shape for leaf in leaves]
    alike = [d for d, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) == 1]
    common = next((d for d, found in enumerate(alike) if d != found), len(alike))
    reason = "its leaves have no leading dimensions in common"
    for leading in range(common, max(axis, least - 1), -1):
        count = sum(math.prod(shape[leading:]) for shape in shapes)
        if count > MOST_LEAVES:
            return f"its elements have {count} numbers, of which kernels take {MOST_LEAVES}"
        try:
            return Apart(_on_scalars(caller, fn, leaves, treedef, axis, leading), leading)
        except Unfit as unfit:
            reason = str(unfit)
        except Exception as error:  # of any kind: the whole operator runs, and raises what it does
            reason = f"it raises {type(error).__name__} when it is taken apart"
    return reason


def _on_scalars(
    caller: str,
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    leading: int,
) -> Combine:
    """The operator on scalars. Raises `Unfit`."""
    dtypes = [accumulation_dtype(leaf.dtype) for leaf in leaves]
    shapes = [(*s[:axis], TRACED_LENGTH, *s[axis + 1 :]) for s in (leaf.shape for leaf in leaves)]
    pairs = zip(shapes, dtypes, strict=True)
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in pairs]

    def flat(*operands: Any) -> list[Any]:
        count = len(leaves)
        return apply(caller, fn, operands[:count], operands[count:], treedef)

    closed = jax.make_jaxpr(flat)(*arrays, *arrays)
    given = [(x.shape, accumulation_dtype(x.dtype)) for x in closed.out_avals]
    if given != [(x.shape, x.dtype) for x in arrays]:
        raise Unfit("it returns other shapes or dtypes than it is given")
    if closed.effects or has_custom_rules(closed.jaxpr):
        raise Unfit("it has effects, or derivative rules of its own")
    if any(isinstance(x, jax.core.Tracer) for x in closed.consts):
        raise Unfit("it closes over traced arrays")
    kinds = [
        dtype
        for s, dtype in zip(shapes, dtypes, strict=True)
        for _ in range(math.prod(s[leading:]))
    ]

    def on_scalars(*scalars: Any) -> list[Any]:
        walk = Walk(iter(scalars))
        operands = [walk.operand(x.shape, leading) for x in [*arrays, *arrays]]
        constants = [constant(np.asarray(x)) for x in closed.consts]
        results = evaluate(closed.jaxpr, [*constants, *operands], [walk.step], constant)
        found = []
        for result, shape, dtype in zip(results, shapes, dtypes, strict=True):
            if any(k != d for d, k in enumerate(result.kinds[:leading]) if k != ALIKE):
                raise Unfit("it moves leading dimensions")
            whole = np.broadcast_to(result.scalars, ([1] * leading) + [*shape[leading:]])
            found += [lax.convert_element_type(x, dtype) for x in whole.reshape(-1)]
        return found

    name = getattr(fn, "__name__", type(fn).__name__)
    return Combine(scalar_jaxpr(on_scalars, kinds * 2), None, name, None)
