"""Operators on small blocks, taken apart into operators on scalars.

An operator may work element by element along the leading dimensions of its leaves, the scanned axis
among them, and mix what is in their trailing ones: products of matrices, sums over them. Each
number of an element's block then is a leaf of an operator on scalars, which `taken_apart` finds by
walking through the jaxpr with arrays of scalars in the place of arrays:

    a leaf (n, 2, 2)        an array (1, 2, 2) of scalars        leaves (n,), four of them
    x @ y                   x00 y00 + x01 y10, ...               one operator of eight scalars

Elements of more numbers than a few are scanned so by kernels alone: plain JAX, derivatives in it
and several devices take the operator `Whole`, as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend import core

from jscan import extent
from jscan.called import Function, Leaf, apply
from jscan.combine import TRACED_LENGTH, Combine, accumulation_dtype, scalar_jaxpr
from jscan.jaxprs import Keyed, bound, evaluate, has_custom_rules, scalar_structure, structure
from jscan.unrolled import ALIKE, Unfit, Walk, constant

MOST_LEAVES = 24
"""The most numbers in an element of which a thread keeps several, and plain JAX makes a loop."""

MOST_WORDS = 64
"""The most words of 32 bits in an element of more numbers: a thread combines two that it keeps."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Whole(Keyed):
    """An operator on blocks as data, for plain JAX; equal and hashed by what it computes.

    Attributes:
      jaxpr: the blocks of a left element, then those of a right one, to blocks in the accumulation
        dtypes; without calls.
    """

    jaxpr: core.ClosedJaxpr

    def __post_init__(self) -> None:
        constants = tuple(scalar_structure(x) for x in self.jaxpr.consts)
        self.keep_key((structure(self.jaxpr.jaxpr), constants))

    def __call__(self, left: Sequence[jax.Array], right: Sequence[jax.Array]) -> list[jax.Array]:
        """Combine elements whose numbers lie along the last dimension; the others are alike."""
        leading = left[0].shape[:-1]
        pairs = zip([*left, *right], self.jaxpr.in_avals, strict=True)
        given = [x.reshape(*leading, *aval.shape) for x, aval in pairs]

        def run(*operands: jax.Array) -> list[jax.Array]:
            return evaluate(self.jaxpr.jaxpr, [*self.jaxpr.consts, *operands], [_varying])

        combined: Callable[..., list[jax.Array]] = run
        for _ in leading:  # one by one, so that none is merged with one that devices divide
            combined = jax.vmap(combined)
        return [y.reshape(x.shape) for y, x in zip(combined(*given), left, strict=True)]


def _varying(eqn: core.JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """The rule of an equation whose constants vary over mesh axes as its other operands do."""
    return bound(eqn, extent.vary_alike(operands))


class Apart(NamedTuple):
    """An operator on blocks, taken apart.

    Attributes:
      combine: the operator on scalars: the numbers of the first leaf's block, then of the second's.
      leading: how many dimensions come before the blocks.
      whole: the operator on blocks, where these have more numbers than `MOST_LEAVES`.
    """

    combine: Combine
    leading: int
    whole: Whole | None


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
        counts = [math.prod(shape[leading:]) for shape in shapes]
        is_wide = sum(counts) > MOST_LEAVES
        words = sum(n * _words(x.dtype) for n, x in zip(counts, leaves, strict=True))
        if is_wide and words > MOST_WORDS:
            most = MOST_LEAVES if words > sum(counts) else MOST_WORDS
            return f"its elements have {sum(counts)} numbers, of which kernels take {most}"
        try:
            return _apart(caller, fn, leaves, treedef, axis, leading, is_wide=is_wide)
        except Unfit as unfit:
            reason = str(unfit)
        except Exception as error:  # of any kind: the whole operator runs, and raises what it does
            reason = f"it raises {type(error).__name__} when it is taken apart"
    return reason


def _words(dtype: np.dtype) -> int:
    """The 32-bit words that a number takes while it is combined."""
    return -(-accumulation_dtype(dtype).itemsize // 4)


def _apart(
    caller: str,
    fn: Function,
    leaves: Sequence[Leaf],
    treedef: jax.tree_util.PyTreeDef,
    axis: int,
    leading: int,
    *,
    is_wide: bool,
) -> Apart:
    """The operator on scalars, and whole where it ``is_wide``. Raises `Unfit`."""
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
    combine = Combine(scalar_jaxpr(on_scalars, kinds * 2), None, name, None)
    if is_wide and len(combine.jaxpr.eqns) <= 2 * len(kinds):
        raise Unfit(f"it does little with the {len(kinds)} numbers of its elements")
    whole = _whole(flat, shapes, dtypes, leading) if is_wide else None
    return Apart(combine, leading, whole)


def _whole(
    flat: Callable[..., list[Any]],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[np.dtype],
    leading: int,
) -> Whole:
    """An operator on arrays as one on the blocks of two elements."""
    blocks = [shape[leading:] for shape in shapes]
    alone = [jax.ShapeDtypeStruct(s, d) for s, d in zip(blocks, dtypes, strict=True)]

    def on_blocks(*operands: jax.Array) -> list[jax.Array]:
        results = flat(*(lax.expand_dims(x, range(leading)) for x in operands))
        each = zip(results, blocks, dtypes, strict=True)
        return [lax.convert_element_type(y, d).reshape(s) for y, s, d in each]

    closed = jax.make_jaxpr(on_blocks)(*alone, *alone)
    inlined = functools.partial(evaluate, closed.jaxpr, rules=[bound])
    return Whole(jax.make_jaxpr(lambda *xs: inlined([*closed.consts, *xs]))(*alone, *alone))
