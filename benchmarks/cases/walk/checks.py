"""Whether an answer is right: each result follows from the one before it, or is that of plain JAX.

A scan is checked by its definition at all of its elements, in one pass over what it reads and
writes, so that large ones are checked too: ``y[t]`` is ``fn(y[t-1], x[t])``, but for the first
element of a segment. Other calls are compared with plain JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.cases.case import Operation
from benchmarks.cases.walk.operations import numbers_of
from jscan.operators import float_limits

BOUND = 64.0
"""How many spacings of its dtype a float may be off, at the size of the largest."""

Arrays = Sequence[jax.Array]


def from_plain_jax(reference: Operation, result: Any, *operands: jax.Array) -> jax.Array:
    """The largest difference of a result from that of a reference."""
    return _largest(jax.tree.leaves(result), jax.tree.leaves(reference(*operands)))


def from_step_to_step(
    operator: Operation,
    before: tuple[Any, ...] | None,
    leaves: int,
    form: str,
    axis: int,
    reverse: bool,
    result: Any,
    *operands: jax.Array,
) -> jax.Array:
    """The largest difference of a scan's results from what their neighbours make them.

    ``before`` stands in the place of the first element, where the scan is exclusive.
    """
    ys = [_as_combined(y) for y in jax.tree.leaves(result)]
    n, rank = ys[0].shape[axis], ys[0].ndim
    xs = [lax.expand_dims(x, range(x.ndim, rank)) for x in map(_as_combined, operands[:leaves])]
    early, late = (0, n - 1), (1, n)

    def cut(arrays: Arrays, part: tuple[int, int]) -> list[jax.Array]:
        return [lax.slice_in_dim(x, *part, axis=axis) for x in arrays]

    earlier, later = (late, early) if reverse else (early, late)
    read = cut(xs, later if before is None else earlier)
    stepped = jax.tree.leaves(operator(_tree(cut(ys, earlier)), _tree(read)))
    restarts = _restarts(form, axis, rank, n, operands[leaves:])

    def begun(read: Arrays) -> list[jax.Array]:
        """What a segment begins with; a recurrence, with the last of what it reads."""
        if before is None:
            return list(read[-len(ys) :])
        return [jnp.full_like(x, value) for value, x in zip(before, read, strict=True)]

    pairs = zip(begun(read), stepped, strict=True)
    wanted = [jnp.where(restarts, new, old) for new, old in pairs]
    end = (n - 1, n) if reverse else (0, 1)
    dtypes = [y.dtype for y in jax.tree.leaves(result)]
    steps = _largest(cut(ys, later), wanted, dtypes)
    # The first element alone may be near zero by chance, beside what it is summed with.
    first = _largest(cut(ys, end), begun(cut(xs, end)), dtypes, xs[-len(ys) :])
    return jnp.maximum(steps, first)


def recur(h: Any, read: Any) -> jax.Array:
    """The step of a linear recurrence."""
    a, b = read
    result: jax.Array = a * h + b
    return result


def left_over(axis: int, periodic: bool, result: Any, *operands: jax.Array) -> jax.Array:
    """The largest residual of a tridiagonal system, in spacings at the largest right-hand side."""
    dl, d, du, b, x = map(_as_combined, (*operands, *jax.tree.leaves(result)))
    before, after = jnp.roll(x, 1, axis), jnp.roll(x, -1, axis)
    if not periodic:
        places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
        before = jnp.where(places == 0, jnp.zeros_like(x), before)
        after = jnp.where(places == x.shape[axis] - 1, jnp.zeros_like(x), after)
    return _largest([dl * before + d * x + du * after], [b], [operands[-1].dtype])


def worst_row(
    check: Operation,
    in_axes: tuple[int | None, ...],
    out_axes: tuple[int, ...],
    result: Any,
    *operands: jax.Array,
) -> jax.Array:
    """The largest of what a check says of each row."""
    leaves = tuple(jax.tree.leaves(result))
    return jnp.max(jax.vmap(check, in_axes=(out_axes, *in_axes))(leaves, *operands))


def _tree(leaves: Sequence[Any]) -> Any:
    return tuple(leaves) if len(leaves) > 1 else leaves[0]


def _as_combined(x: jax.Array) -> jax.Array:
    """Half precision in float32."""
    half = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4
    return x.astype(jnp.float32) if half else x


def _restarts(form: str, axis: int, rank: int, length: int, given: Arrays) -> jax.Array:
    """Whether a segment begins between two neighbours, for all but one along the axis."""
    if not form:
        return jnp.zeros((1,) * rank, jnp.bool_)
    (array,) = given
    if form == "bits":
        array, form = _unpacked(array, length), "flags"
    along = axis if array.ndim == rank else 0
    if form == "flags":
        restarts = lax.slice_in_dim(array, 1, None, axis=along).astype(jnp.bool_)
    else:
        numbers = array if form == "ids" else numbers_of(form, length, array)
        ends = lax.slice_in_dim(numbers, 1, None, axis=along)
        restarts = ends != lax.slice_in_dim(numbers, 0, -1, axis=along)
    if restarts.ndim < rank:
        restarts = lax.expand_dims(restarts, [d for d in range(rank) if d != axis])
    return restarts


def _unpacked(words: jax.Array, length: int) -> jax.Array:
    """Flags of a bit each, the least significant first, as flags of an element each."""
    width = 8 * words.dtype.itemsize
    bits = words[:, None] >> jnp.arange(width, dtype=words.dtype)[None]
    return (bits & 1).reshape(-1)[:length]


def _largest(
    found: Arrays,
    wanted: Arrays,
    dtypes: Sequence[Any] | None = None,
    sized: Arrays | None = None,
) -> jax.Array:
    """The largest difference of leaves, in spacings of their dtypes at the largest size of each.

    That is the largest of what is ``wanted``, or of what it is ``sized`` by.
    """
    dtypes = dtypes or [x.dtype for x in found]
    each = zip(found, wanted, dtypes, sized or wanted, strict=True)
    return jnp.max(jnp.stack([_difference(*leaf) for leaf in each]))


def _difference(x: jax.Array, wanted: jax.Array, dtype: Any, sized: jax.Array) -> jax.Array:
    if x.size == 0:
        return jnp.float32(0)
    if not jnp.issubdtype(dtype, jnp.inexact):
        return jnp.sum(x != wanted).astype(jnp.float32)
    x, wanted, sized = map(_as_combined, (x, wanted, sized))
    size = jnp.max(jnp.where(jnp.isfinite(sized), jnp.abs(sized), 0))
    same = (x == wanted) | (jnp.isnan(x) & jnp.isnan(wanted))
    off = jnp.max(jnp.where(same, 0, jnp.abs(x - wanted)))
    eps = float(float_limits(dtype).eps)
    return (off / jnp.maximum(size, 1e-30) / eps).astype(jnp.float32)
