"""What the answers should be, computed another way, and how far a result is from them.

Every check takes the result and the operands and returns one number: how many elements differ
where the arithmetic is exact, the worst error elsewhere. NaN anywhere makes it fail.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


@dataclasses.dataclass(frozen=True)
class Check:
    """A check, the largest value it may return, and what that value is."""

    error: Callable[..., jax.Array]
    bound: float = 0.0
    measures: str = "elements that differ"
    x64: bool = False


def _differing(result: jax.Array, wanted: jax.Array) -> jax.Array:
    return jnp.sum(result != wanted, dtype=jnp.int32)


def _in_dtype(x: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Whole numbers rounded once, from float32, or wrapped, as jscan documents."""
    if jnp.issubdtype(dtype, jnp.floating) and x.dtype == jnp.int32:
        return x.astype(jnp.float32).astype(dtype)
    return x.astype(dtype)


@functools.cache
def sum_of_integers(
    axis: int = 0, reverse: bool = False, exclusive: bool = False, x64: bool = False
) -> Check:
    """Against an integer lax.cumsum."""

    def error(result: jax.Array, x: jax.Array) -> jax.Array:
        whole = x.astype(jnp.int64 if x64 else jnp.int32)
        wanted = lax.cumsum(whole, axis, reverse)
        return _differing(result, _in_dtype(wanted - whole if exclusive else wanted, result.dtype))

    return Check(error, x64=x64)


def _maximum(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, lax.cummax(x.astype(jnp.int32)).astype(result.dtype))


def _log_sum_exp(result: jax.Array, x: jax.Array) -> jax.Array:
    wanted = jnp.log(lax.cumsum(jnp.exp(x.astype(jnp.float64))))
    return jnp.max(jnp.abs(result - wanted))


def _exclusive_or(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, lax.associative_scan(lax.bitwise_xor, x))


def _segmented_sum(result: jax.Array, x: jax.Array, heads: jax.Array) -> jax.Array:
    """The sum up to each element less the sum before its segment's head."""
    is_head = jnp.broadcast_to(heads != 0, x.shape)
    is_head = is_head.at[..., 0].set(True).reshape(-1)
    whole = x.astype(jnp.int32).reshape(-1)
    sums = lax.cumsum(whole)
    head = lax.cummax(jnp.where(is_head, jnp.arange(whole.size, dtype=jnp.int32), 0))
    wanted = sums - (sums - whole)[head]
    return _differing(result.reshape(-1), wanted.astype(result.dtype))


def _any_so_far(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, lax.cummax(x.astype(jnp.int32)) != 0)


def _product_of_signs(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, _parity(x).astype(result.dtype))


def _parity(x: jax.Array) -> jax.Array:
    """The cumulative product of -1 and 1, by counting those below 0."""
    return 1 - 2 * (lax.cumsum((x < 0).astype(jnp.int32)) & 1)


def _complex_sum(result: jax.Array, x: jax.Array) -> jax.Array:
    sums = (lax.cumsum(part.astype(jnp.int32)) for part in (x.real, x.imag))
    return _differing(result, lax.complex(*(s.astype(jnp.float32) for s in sums)))


def _last_writes(result: jax.Array, x: jax.Array) -> jax.Array:
    last = lax.cummax(jnp.where(x != 0, jnp.arange(x.size, dtype=jnp.int32), 0))
    return _differing(result, x[last])


def _products_of_turns(result: tuple[jax.Array, ...], *entries: jax.Array) -> jax.Array:
    """A turn behind a reflection goes the other way round, so turns are summed with signs."""
    whole = [x.astype(jnp.int32) for x in entries]
    cosine, sine = whole[0], whole[2]
    turn = jnp.where(sine == 0, 1 - cosine, 2 - sine)
    sign = whole[0] * whole[3] - whole[1] * whole[2]
    product = _parity(sign)
    turned = lax.cumsum(product * sign * turn) & 3
    odd = turned & 1 == 1
    cosine, sine = jnp.where(odd, 0, 1 - turned), jnp.where(odd, 2 - turned, 0)
    wanted = (cosine, -product * sine, sine, product * cosine)
    return sum(
        (_differing(x, w.astype(x.dtype)) for x, w in zip(result, wanted, strict=True)),
        start=jnp.int32(0),
    )


def _recurrence(result: jax.Array, slopes: jax.Array, offsets: jax.Array) -> jax.Array:
    """With slopes of -1 and 1 and s their running product, h = s · cumsum(s · b)."""
    product = _parity(slopes)
    wanted = product * lax.cumsum(product * offsets.astype(jnp.int32))
    return _differing(result, wanted.astype(result.dtype))


def _both_recurrences(
    result: tuple[jax.Array, jax.Array], slopes: jax.Array, offsets: jax.Array
) -> jax.Array:
    """The products of slopes too."""
    products, values = result
    wrong = _differing(products, _parity(slopes).astype(products.dtype))
    return wrong + _recurrence(values, slopes, offsets)


def _segmented_recurrence(
    result: jax.Array, slopes: jax.Array, offsets: jax.Array, heads: jax.Array
) -> jax.Array:
    """The same, less what had been summed before the segment's head."""
    product = _parity(slopes)
    terms = product * offsets.astype(jnp.int32)
    sums, place = lax.cumsum(terms), jnp.arange(terms.size, dtype=jnp.int32)
    head = lax.cummax(jnp.where(heads != 0, place, 0))
    wanted = product * (sums - (sums - terms)[head])
    return _differing(result, wanted.astype(result.dtype))


def _moments(result: tuple[jax.Array, ...], _: jax.Array, x: jax.Array, __: jax.Array) -> jax.Array:
    """Textbook moments in float64 from exact sums of x and of x squared."""
    count, mean, squares = (leaf.astype(jnp.float64) for leaf in result)
    whole = x.astype(jnp.int32)
    n = jnp.arange(1, whole.size + 1, dtype=jnp.float64)
    first, second = (lax.cumsum(v).astype(jnp.float64) for v in (whole, whole * whole))
    wanted = second - first * first / n
    errors = (
        jnp.abs(count - n) / n,
        jnp.abs(mean - first / n),
        jnp.abs(squares - wanted) / jnp.maximum(wanted, 1.0),
    )
    return jnp.max(jnp.stack([jnp.max(e) for e in errors]))


def _shifted(x: jax.Array, axis: int) -> jax.Array:
    """The element before each one, and 0 before the first."""
    n = x.shape[axis]
    padded = lax.pad(x, jnp.zeros((), x.dtype), [(int(d == axis), 0, 0) for d in range(x.ndim)])
    return lax.slice_in_dim(padded, 0, n, axis=axis)


@functools.cache
def recurrence_and_gradient(axis: int = 0) -> Check:
    """With slopes of -1 and 1 and s their running product, all in whole numbers.

    h = s · cumsum(s · b); the cotangents of h that reach t add up to λ = s · cumsum(s · h̄) from the
    end; b̄ = λ, and ā[t] = λ[t] h[t-1], which floats round once, summed where a is shared.
    """

    def error(
        result: tuple[jax.Array, ...], slopes: jax.Array, offsets: jax.Array, cotangent: jax.Array
    ) -> jax.Array:
        product = 1 - 2 * (lax.cumsum((slopes < 0).astype(jnp.int32), axis) & 1)
        h = product * lax.cumsum(product * offsets.astype(jnp.int32), axis)
        back = product * lax.cumsum(product * cotangent.astype(jnp.int32), axis, reverse=True)
        by_slope = back * _shifted(h, axis)
        shared = [d for d, size in enumerate(slopes.shape) if size != h.shape[d]]
        by_slope = jnp.sum(by_slope, shared, dtype=jnp.int32, keepdims=True)
        wanted = [h, by_slope, back]
        return sum(
            (_differing(x, w.astype(x.dtype)) for x, w in zip(result, wanted, strict=True)),
            start=jnp.int32(0),
        )

    return Check(error)


def _turned(x: tuple[jax.Array, jax.Array], quarters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Real and imaginary part, multiplied by i as often as that."""
    re, im = x
    quarters = quarters & 3
    parts = [re, -im, -re, im], [im, re, -im, -re]
    real, imaginary = (jnp.select([quarters == k for k in range(4)], z) for z in parts)
    return real, imaginary


def _complex_recurrence_and_gradient(
    result: tuple[jax.Array, ...], slopes: jax.Array, offsets: jax.Array, cotangent: jax.Array
) -> jax.Array:
    """The same with slopes that are powers of i: s = i^e, and 1 / s takes the place of s."""

    def parts(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x.real.astype(jnp.int32), x.imag.astype(jnp.int32)

    def sums(x: tuple[jax.Array, jax.Array], reverse: bool) -> tuple[jax.Array, jax.Array]:
        return lax.cumsum(x[0], reverse=reverse), lax.cumsum(x[1], reverse=reverse)

    re, im = parts(slopes)
    e = lax.cumsum(jnp.where(im == 0, 1 - re, 2 - im))
    h = _turned(sums(_turned(parts(offsets), -e), False), e)
    back = _turned(sums(_turned(parts(cotangent), e), True), -e)
    before = [_shifted(x, 0) for x in h]
    by_slope = (
        back[0] * before[0] - back[1] * before[1],
        back[0] * before[1] + back[1] * before[0],
    )
    wrong = jnp.int32(0)
    for found, wanted in zip(result, (h, by_slope, back), strict=True):
        wrong += _differing(found, lax.complex(*(x.astype(jnp.float32) for x in wanted)))
    return wrong


def _segmented_product_and_gradient(
    result: tuple[jax.Array, ...], x: jax.Array, heads: jax.Array, cotangent: jax.Array
) -> jax.Array:
    """With factors of -1 and 1 x̄[t] is x[t] times the sum of ȳ y from t to its segment's end."""
    factor, place = x.astype(jnp.int32), jnp.arange(x.size, dtype=jnp.int32)
    is_head = (heads != 0).at[0].set(True)
    is_last = jnp.roll(is_head, -1)
    product = 1 - 2 * (lax.cumsum((x < 0).astype(jnp.int32)) & 1)
    y = product * (product * factor)[lax.cummax(jnp.where(is_head, place, 0))]
    terms = cotangent.astype(jnp.int32) * y
    sums = lax.cumsum(terms)
    last = lax.cummin(jnp.where(is_last, place, x.size), reverse=True)
    gradient = factor * (sums[last] - sums + terms)
    return sum(
        (_differing(r, w.astype(r.dtype)) for r, w in zip(result, (y, gradient), strict=True)),
        start=jnp.int32(0),
    )


def _product_and_gradient(
    result: tuple[jax.Array, ...], x: jax.Array, cotangent: jax.Array
) -> jax.Array:
    one_segment = jnp.zeros(x.shape, jnp.uint8)
    return _segmented_product_and_gradient(result, x, one_segment, cotangent)


def _maximum_and_gradient(
    result: tuple[jax.Array, ...], x: jax.Array, cotangent: jax.Array
) -> jax.Array:
    """No two elements are alike: all cotangents up to the next record are the last record's."""
    y = lax.cummax(x.astype(jnp.int32))
    is_record = y == x.astype(jnp.int32)
    place = jnp.arange(x.size, dtype=jnp.int32)
    is_last = jnp.roll(is_record, -1).at[-1].set(True)
    last = lax.cummin(jnp.where(is_last, place, x.size), reverse=True)
    whole = cotangent.astype(jnp.int32)
    sums = lax.cumsum(whole)
    gradient = jnp.where(is_record, sums[last] - sums + whole, 0)
    return sum(
        (_differing(r, w.astype(r.dtype)) for r, w in zip(result, (y, gradient), strict=True)),
        start=jnp.int32(0),
    )


def _log_sum_exp_and_gradient(
    result: tuple[jax.Array, ...], x: jax.Array, cotangent: jax.Array
) -> jax.Array:
    """x̄[t] = Σ ȳ[s] exp(x[t] - y[s]) from t on; its error as a share of the same sum of |ȳ|."""
    y, gradient = (leaf.astype(jnp.float64) for leaf in result)
    wide, sign = x.astype(jnp.float64), cotangent.astype(jnp.float64)
    wanted = jnp.log(lax.cumsum(jnp.exp(wide)))
    weights = jnp.exp(-wanted)
    sums, sizes = (lax.cumsum(v * weights, reverse=True) for v in (sign, jnp.abs(sign)))
    errors = jnp.abs(gradient - jnp.exp(wide) * sums) / (jnp.exp(wide) * sizes)
    return jnp.maximum(jnp.max(jnp.abs(y - wanted)), jnp.max(errors))


@functools.cache
def same_as(reference: Callable[..., Any]) -> Check:
    """Against another way to compute all of it."""

    def error(result: Any, *operands: jax.Array) -> jax.Array:
        wanted = reference(*operands)
        return jnp.sum(jnp.stack(jax.tree.leaves(jax.tree.map(_differing, result, wanted))))

    return Check(error)


def _differences(result: jax.Array, x: jax.Array, bounds: jax.Array) -> jax.Array:
    """Each segment's sum as that up to its end less that up to its beginning."""
    sums = lax.cumsum(x.astype(jnp.int32))
    sums = jnp.concatenate([jnp.zeros_like(sums[:1]), sums])
    return _differing(result, _in_dtype(sums[bounds[1:]] - sums[bounds[:-1]], result.dtype))


def _sums_by_ids(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    bounds = jnp.searchsorted(ids, jnp.arange(result.shape[0] + 1, dtype=ids.dtype))
    return _differences(result, x, bounds)


def _sums_by_flags(result: jax.Array, x: jax.Array, flags: jax.Array) -> jax.Array:
    ids = lax.cumsum(flags.at[0].set(True).astype(jnp.int32)) - 1
    return _sums_by_ids(result, x, ids)


def _sums_by_runs(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    changes = jnp.concatenate([jnp.ones(1, jnp.bool_), ids[1:] != ids[:-1]])
    return _sums_by_flags(result, x, changes)


def _sums_by_unsorted_ids(result: jax.Array, x: jax.Array, ids: jax.Array) -> jax.Array:
    ids, x = lax.sort((ids, x), num_keys=1)
    return _sums_by_ids(result, x, ids)


def _whole_sum(result: jax.Array, x: jax.Array) -> jax.Array:
    return _differing(result, _in_dtype(jnp.sum(x.astype(jnp.int32)), result.dtype))


def _last_write(result: jax.Array, x: jax.Array) -> jax.Array:
    last = jnp.max(jnp.where(x != 0, jnp.arange(x.size, dtype=jnp.int32), -1))
    return _differing(result, x[last])


maximum = Check(_maximum)
log_sum_exp = Check(_log_sum_exp, 1e-4, "worst absolute error", x64=True)
exclusive_or = Check(_exclusive_or)
segmented_sum = Check(_segmented_sum)
recurrence = Check(_recurrence)
both_recurrences = Check(_both_recurrences)
segmented_recurrence = Check(_segmented_recurrence)
any_so_far = Check(_any_so_far)
product_of_signs = Check(_product_of_signs)
complex_sum = Check(_complex_sum)
last_writes = Check(_last_writes)
products_of_turns = Check(_products_of_turns)
complex_recurrence_and_gradient = Check(_complex_recurrence_and_gradient)
segmented_product_and_gradient = Check(_segmented_product_and_gradient)
product_and_gradient = Check(_product_and_gradient)
maximum_and_gradient = Check(_maximum_and_gradient)
# Derived for `inputs.slopes_of_logs` of 2^24 elements. A cotangent fades by exp(-2^-15) an element,
# so it has come past 2^15 factors on average. A factor, an exponential near 1, is off by 2^-23 at
# most (two units in the last place), and its product with others rounds by 2^-24: 3 · 2^-9. Results
# y, which hardly exceed 2^9 and are rounded by 2^-16 in some thirty steps, add 2^-11 to an exponent
# once where factors are made of them and once where the element meets them: 2^-10.
log_sum_exp_and_gradient = Check(
    _log_sum_exp_and_gradient,
    3 * 2.0**-9 + 2.0**-10,
    "worst error, absolute and of the gradient against its sum of magnitudes",
    x64=True,
)
moments = Check(_moments, 1e-3, "worst relative error of count, mean and deviation", x64=True)
sums_by_ids = Check(_sums_by_ids)
sums_by_flags = Check(_sums_by_flags)
sums_by_runs = Check(_sums_by_runs)
sums_by_offsets = Check(_differences)
sums_by_unsorted_ids = Check(_sums_by_unsorted_ids)
whole_sum = Check(_whole_sum)
last_write = Check(_last_write)
