"""What the answers should be, computed another way, and how far a result is from them.

Every check takes the result and the operands and returns one number: how many elements differ
where the arithmetic is exact, the worst error elsewhere. NaN anywhere makes it fail.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.cases.case import Check, Operation, call
from benchmarks.cases.operations import changes, lax_scan

Leaves = tuple[jax.Array, ...]


def differing(result: Any, wanted: Any) -> jax.Array:
    """How many elements of all leaves differ from those wanted, in the dtypes of the result."""
    pairs = zip(jax.tree.leaves(result), jax.tree.leaves(wanted), strict=True)
    counts = [jnp.sum(x != _in_dtype(w, x.dtype), dtype=jnp.int32) for x, w in pairs]
    return sum(counts[1:], counts[0])


def _in_dtype(x: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Whole numbers rounded once, from float32, or wrapped, as jscan documents."""
    if jnp.issubdtype(dtype, jnp.floating) and x.dtype == jnp.int32:
        return x.astype(jnp.float32).astype(dtype)
    return x.astype(dtype)


def _whole(x: jax.Array) -> jax.Array:
    return x.astype(jnp.int32)


def _places(x: jax.Array) -> jax.Array:
    return jnp.arange(x.size, dtype=jnp.int32)


def sum_of_integers(
    axis: int = 0, reverse: bool = False, exclusive: bool = False, x64: bool = False
) -> Check:
    """Compares sums with those of lax.cumsum of whole numbers."""
    return Check(call(_sum_of_integers, axis, reverse, exclusive, x64), x64=x64)


def _sum_of_integers(
    axis: int, reverse: bool, exclusive: bool, x64: bool, result: jax.Array, x: jax.Array
) -> jax.Array:
    whole = x.astype(jnp.int64 if x64 else jnp.int32)
    wanted = lax.cumsum(whole, axis, reverse)
    return differing(result, wanted - whole if exclusive else wanted)


def same_as(reference: Operation) -> Check:
    """Compares all results with those of another function."""
    return Check(call(_same_as, reference))


def _same_as(reference: Operation, result: Any, *operands: jax.Array) -> jax.Array:
    return differing(result, reference(*operands))


exclusive_or = same_as(call(lax_scan, lax.bitwise_xor))


@Check
def maximum(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with maxima of whole numbers, which are the same."""
    return differing(result, lax.cummax(_whole(x)))


@functools.partial(Check, bound=1e-4, measures="worst absolute error", x64=True)
def log_sum_exp(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with the definition in float64."""
    wanted = jnp.log(lax.cumsum(jnp.exp(x.astype(jnp.float64))))
    return jnp.max(jnp.abs(result - wanted))


def _sums_from_heads(terms: jax.Array, is_head: jax.Array) -> jax.Array:
    """The sum up to each element less the sum before its segment's head."""
    sums = lax.cumsum(terms)
    head = lax.cummax(jnp.where(is_head, _places(terms), 0))
    return sums - (sums - terms)[head]


def _sums_to_ends(terms: jax.Array, is_last: jax.Array) -> jax.Array:
    """The sum from each element on to its segment's last one."""
    sums = lax.cumsum(terms)
    last = lax.cummin(jnp.where(is_last, _places(terms), terms.size), reverse=True)
    return sums[last] - sums + terms


@Check
def segmented_sum(result: jax.Array, x: jax.Array, heads: jax.Array) -> jax.Array:
    """Compares with sums of one long array, in which each row begins with a head."""
    is_head = jnp.broadcast_to(heads != 0, x.shape).at[..., 0].set(True)
    return differing(result.ravel(), _sums_from_heads(_whole(x).ravel(), is_head.ravel()))


@Check
def any_so_far(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with the maximum of 0 and 1."""
    return differing(result, lax.cummax(_whole(x)) != 0)


def _parity(x: jax.Array, axis: int = 0) -> jax.Array:
    """The cumulative product of -1 and 1, by counting those below 0."""
    return 1 - 2 * (lax.cumsum(_whole(x < 0), axis) & 1)


@Check
def product_of_signs(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with the parity of how many factors are negative."""
    return differing(result, _parity(x))


@Check
def complex_sum(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with sums of real and of imaginary parts."""
    return differing(result, _complex(tuple(lax.cumsum(_whole(part)) for part in (x.real, x.imag))))


def _complex(parts: Leaves) -> jax.Array:
    return lax.complex(*(part.astype(jnp.float32) for part in parts))


@Check
def last_writes(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with the element at the place of the last write so far."""
    return differing(result, x[lax.cummax(jnp.where(x != 0, _places(x), 0))])


@Check
def products_of_turns(result: Leaves, *entries: jax.Array) -> jax.Array:
    """Compares with sums of turns, signed: behind a reflection a turn goes the other way round."""
    whole = [_whole(x) for x in entries]
    turn = jnp.where(whole[2] == 0, 1 - whole[0], 2 - whole[2])
    sign = whole[0] * whole[3] - whole[1] * whole[2]
    product = _parity(sign)
    turned = lax.cumsum(product * sign * turn) & 3
    odd = turned & 1 == 1
    cosine, sine = jnp.where(odd, 0, 1 - turned), jnp.where(odd, 2 - turned, 0)
    return differing(result, (cosine, -product * sine, sine, product * cosine))


def _recurrence(slopes: jax.Array, offsets: jax.Array) -> jax.Array:
    """With slopes of -1 and 1 and s their running product, h = s · cumsum(s · b)."""
    product = _parity(slopes)
    return product * lax.cumsum(product * _whole(offsets))


@Check
def recurrence(result: jax.Array, slopes: jax.Array, offsets: jax.Array) -> jax.Array:
    """Compares with the form that has sums alone."""
    return differing(result, _recurrence(slopes, offsets))


@Check
def both_recurrences(result: Leaves, slopes: jax.Array, offsets: jax.Array) -> jax.Array:
    """Compares both results: products of slopes, and values."""
    return differing(result, (_parity(slopes), _recurrence(slopes, offsets)))


@Check
def segmented_recurrence(
    result: jax.Array, slopes: jax.Array, offsets: jax.Array, heads: jax.Array
) -> jax.Array:
    """Compares with the same form, whose sums start anew at every head."""
    product = _parity(slopes)
    return differing(result, product * _sums_from_heads(product * _whole(offsets), heads != 0))


_MOMENTS = "worst relative error of count, mean and deviation"


@functools.partial(Check, bound=1e-3, measures=_MOMENTS, x64=True)
def moments(result: Leaves, _: jax.Array, x: jax.Array, __: jax.Array) -> jax.Array:
    """Compares with textbook moments in float64, from exact sums of x and of x squared."""
    count, mean, squares = (leaf.astype(jnp.float64) for leaf in result)
    whole = _whole(x)
    n = jnp.arange(1, whole.size + 1, dtype=jnp.float64)
    first, second = (lax.cumsum(v).astype(jnp.float64) for v in (whole, whole * whole))
    wanted = second - first * first / n
    errors = (
        jnp.abs(count - n) / n,
        jnp.abs(mean - first / n),
        jnp.abs(squares - wanted) / jnp.maximum(wanted, 1.0),
    )
    return jnp.max(jnp.stack([jnp.max(e) for e in errors]))


def shifted(x: jax.Array, axis: int) -> jax.Array:
    """The element before each one, and 0 before the first."""
    padded = lax.pad(x, jnp.zeros((), x.dtype), [(int(d == axis), 0, 0) for d in range(x.ndim)])
    return lax.slice_in_dim(padded, 0, x.shape[axis], axis=axis)


def recurrence_and_gradient(axis: int = 0) -> Check:
    """With slopes of -1 and 1 and s their running product, all in whole numbers.

    h = s · cumsum(s · b); the cotangents of h that reach t add up to λ = s · cumsum(s · h̄) from the
    end; b̄ = λ, and ā[t] = λ[t] h[t-1], which floats round once, summed where a is shared.
    """
    return Check(call(_recurrence_and_gradient, axis))


def _recurrence_and_gradient(
    axis: int, result: Leaves, slopes: jax.Array, offsets: jax.Array, cotangent: jax.Array
) -> jax.Array:
    product = _parity(slopes, axis)
    h = product * lax.cumsum(product * _whole(offsets), axis)
    back = product * lax.cumsum(product * _whole(cotangent), axis, reverse=True)
    shared = [d for d, size in enumerate(slopes.shape) if size != h.shape[d]]
    by_slope = jnp.sum(back * shifted(h, axis), shared, dtype=jnp.int32, keepdims=True)
    return differing(result, (h, by_slope, back))


@Check
def segmented_product_and_gradient(
    result: Leaves, x: jax.Array, heads: jax.Array, cotangent: jax.Array
) -> jax.Array:
    """With factors of -1 and 1 x̄[t] is x[t] times the sum of ȳ y from t to its segment's end."""
    factor, product = _whole(x), _parity(x)
    is_head = (heads != 0).at[0].set(True)
    head = lax.cummax(jnp.where(is_head, _places(x), 0))
    y = product * (product * factor)[head]
    gradient = factor * _sums_to_ends(_whole(cotangent) * y, jnp.roll(is_head, -1))
    return differing(result, (y, gradient))


@Check
def product_and_gradient(result: Leaves, x: jax.Array, cotangent: jax.Array) -> jax.Array:
    """Compares with the same check of one segment."""
    one_segment = jnp.zeros(x.shape, jnp.uint8)
    return segmented_product_and_gradient.error(result, x, one_segment, cotangent)


@Check
def maximum_and_gradient(result: Leaves, x: jax.Array, cotangent: jax.Array) -> jax.Array:
    """No two elements are alike: all cotangents up to the next record are the last record's."""
    y = lax.cummax(_whole(x))
    is_record = y == _whole(x)
    sums = _sums_to_ends(_whole(cotangent), jnp.roll(is_record, -1).at[-1].set(True))
    return differing(result, (y, jnp.where(is_record, sums, 0)))


# Derived for `inputs.slopes_of_logs` of 2^24 elements. A cotangent fades by exp(-2^-15) an element,
# so it has come past 2^15 factors on average. A factor, an exponential near 1, is off by 2^-23 at
# most (two units in the last place), and its product with others rounds by 2^-24: 3 · 2^-9. Results
# y, which hardly exceed 2^9 and are rounded by 2^-16 in some thirty steps, add 2^-11 to an exponent
# once where factors are made of them and once where the element meets them: 2^-10.
@functools.partial(
    Check,
    bound=3 * 2.0**-9 + 2.0**-10,
    measures="worst error, absolute and of the gradient against its sum of magnitudes",
    x64=True,
)
def log_sum_exp_and_gradient(result: Leaves, x: jax.Array, cotangent: jax.Array) -> jax.Array:
    """x̄[t] = Σ ȳ[s] exp(x[t] - y[s]) from t on; its error as a share of the same sum of |ȳ|."""
    y, gradient = (leaf.astype(jnp.float64) for leaf in result)
    wide, sign = x.astype(jnp.float64), cotangent.astype(jnp.float64)
    wanted = jnp.log(lax.cumsum(jnp.exp(wide)))
    weights = jnp.exp(-wanted)
    sums, sizes = (lax.cumsum(v * weights, reverse=True) for v in (sign, jnp.abs(sign)))
    errors = jnp.abs(gradient - jnp.exp(wide) * sums) / (jnp.exp(wide) * sizes)
    return jnp.maximum(jnp.max(jnp.abs(y - wanted)), jnp.max(errors))


@Check
def sums_by_offsets(result: jax.Array, x: jax.Array, bounds: jax.Array) -> jax.Array:
    """Compares each segment's sum with that up to its end less that up to its beginning."""
    sums = lax.cumsum(_whole(x))
    sums = jnp.concatenate([jnp.zeros_like(sums[:1]), sums])
    return differing(result, sums[bounds[1:]] - sums[bounds[:-1]])


@Check
def sums_by_ids(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Compares by the bounds that sorted ids have."""
    bounds = jnp.searchsorted(ids, jnp.arange(result.shape[0] + 1, dtype=ids.dtype))
    return sums_by_offsets.error(result, x, bounds)


@Check
def sums_by_flags(result: jax.Array, x: jax.Array, flags: jax.Array) -> jax.Array:
    """Compares by counted flags, which are sorted ids."""
    return sums_by_ids.error(result, x, lax.cumsum(_whole(flags.at[0].set(True))) - 1)


@Check
def sums_by_runs(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Compares by flags of where ids change."""
    return sums_by_flags.error(result, x, changes(ids))


@Check
def sums_by_unsorted_ids(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    """Compares after a sort by ids."""
    ids, x = lax.sort((ids, x), num_keys=1)
    return sums_by_ids.error(result, x, ids)


@Check
def whole_sum(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with a sum of whole numbers."""
    return differing(result, jnp.sum(_whole(x)))


@Check
def last_write(result: jax.Array, x: jax.Array) -> jax.Array:
    """Compares with the element at the place of the last write."""
    return differing(result, x[jnp.max(jnp.where(x != 0, _places(x), -1))])
