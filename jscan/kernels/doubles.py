"""exp and log of float64 for sums of exponentials, without branches.

    exp x = 2^n (1 + r + r^2 P(r))       n = round(x / ln 2),  r = x - n ln 2
    log x = k ln 2 + f + f^2 Q(f)        x = 2^k (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2)

The library's functions branch for arguments of any kind. In a tile, whose elements are each other's
neighbours in the program, that is one piece of code behind the other and nothing beside: 65 million
elements took 44,208 instructions a program, 707 kB that no instruction cache holds (sm_90).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language

# P and Q, highest power first: interpolation at the zeros of Chebyshev polynomials. Errors before
# roundings are 1.6e-17 of exp x, and 1.2e-17 of log x.
_P = (
    2.510038549551032e-08,
    2.7620088445409746e-07,
    2.7557268459997064e-06,
    2.4801521295954376e-05,
    0.00019841269863053618,
    0.0013888888917213717,
    0.008333333333330062,
    0.04166666666662413,
    0.16666666666666669,
    0.5000000000000001,
)
_Q = (
    0.026259732716728084,
    -0.05944059440860856,
    0.06444760281642521,
    -0.05669667525177259,
    0.05686485886553315,
    -0.06202533701601668,
    0.06682387255926583,
    -0.07148424814093621,
    0.07691654031757877,
    -0.08332998805548063,
    0.09090921343144773,
    -0.10000011291116422,
    0.11111111107622851,
    -0.12499999789252761,
    0.1428571428268365,
    -0.16666666668632893,
    0.20000000000032103,
    -0.24999999999992903,
    0.3333333333333326,
    -0.5,
)
_LN2 = (0.6931471803691238, 1.9082149292705877e-10)
"""The logarithm of 2 in two parts, of which the first has zeros enough for products with n."""
_WHOLE = 1.5 * 2.0**52
"""To which a number is added, its fraction is rounded away and the low bits are a whole one."""
_LEAST = -708.0
"""The least exponent, of a number that is as good as 0 in a sum that is not much smaller than 1."""
_MANTISSA = 52
_BELOW = 0xFFFFF
"""Words below that of minus infinity, in the order of upper halves."""


def exp(x: jax.Array) -> jax.Array:
    """The exponential of x <= 0 or NaN; below 1e-307 it is 0."""
    vanishes = x < _LEAST
    inside = jnp.where(vanishes, jnp.full_like(x, _LEAST), x)
    shifted = language.fma(inside, _all(x, 1 / np.log(2)), _all(x, _WHOLE))
    # Its low bits are n. A compiler that took 1.5 2^52 off again would get x / ln 2 back.
    low = lax.convert_element_type(_bits(shifted), jnp.int32)
    whole_bits = lax.convert_element_type(low, jnp.int64)
    whole = _number(_words(x, _as_word(_WHOLE)) + whole_bits) - _WHOLE
    rest = language.fma(whole, _all(x, -_LN2[0]), inside)
    rest = language.fma(whole, _all(x, -_LN2[1]), rest)
    found = _polynomial((*_P, 1.0, 1.0), rest)
    power = lax.shift_left(whole_bits, _words(x, _MANTISSA))
    scale = _number(power + _words(x, _as_word(1.0)))
    return jnp.where(vanishes, jnp.zeros_like(x), found * scale)


def log(x: jax.Array) -> jax.Array:
    """The logarithm of x >= 0 or NaN, which is no subnormal number."""
    bits, places = _bits(x), _words(x, _MANTISSA)
    exponent = lax.shift_right_arithmetic(bits - _words(x, _as_word(np.sqrt(0.5))), places)
    rest = _number(bits - lax.shift_left(exponent, places)) - 1.0
    found = _polynomial((*_Q, 1.0), rest) * rest
    whole = _number(_words(x, _as_word(_WHOLE)) + exponent) - _WHOLE
    found = language.fma(whole, _all(x, np.log(2)), found)
    found = jnp.where(x == 0, jnp.full_like(x, -np.inf), found)
    return jnp.where(x < np.inf, found, x)


def halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The upper and the lower half of a number's bits, as words that order as numbers do.

    Upper halves do, and of equal ones lower halves. NaN is the greatest: with a sign it would be
    below minus infinity, from which words are counted, and comes round. (NaN whose upper half is
    that of minus infinity, which no arithmetic makes, does not.)

    The greatest of two numbers is some ten instructions, five of them on the units of float64, and
    two exchanges between threads; of two words it is one of each.
    """
    bits = _bits(x)
    high = lax.convert_element_type(lax.shift_right_arithmetic(bits, _words(x, 32)), jnp.int32)
    low = lax.convert_element_type(bits, jnp.int32)
    sign = _sign(high)
    upper = (high ^ _but_the_sign(sign)) - jnp.full_like(high, _BELOW)
    return upper, low ^ sign ^ _least_word(low)


def joined(high: jax.Array, low: jax.Array) -> jax.Array:
    """The number of its `halves`."""
    high = high + jnp.full_like(high, _BELOW)
    sign = _sign(high)
    upper = lax.convert_element_type(high ^ _but_the_sign(sign), jnp.int64)
    lower = lax.convert_element_type(low ^ sign ^ _least_word(low), jnp.int64)
    lower &= _words(lower, 2**32 - 1)
    return _number(lax.shift_left(upper, _words(upper, 32)) | lower)


def _sign(word: jax.Array) -> jax.Array:
    """All bits of a negative word, and none of others; an upper half has its number's sign."""
    return lax.shift_right_arithmetic(word, jnp.full_like(word, 31))


def _but_the_sign(word: jax.Array) -> jax.Array:
    return lax.shift_right_logical(word, jnp.full_like(word, 1))


def _least_word(like: jax.Array) -> jax.Array:
    return jnp.full_like(like, np.iinfo(np.int32).min)


def _polynomial(coefficients: Sequence[float], x: jax.Array) -> jax.Array:
    """The polynomial of x by its coefficients, that of the highest power first."""
    found = _all(x, coefficients[0])
    for each in coefficients[1:]:
        found = language.fma(found, x, _all(x, each))
    return found


def _all(like: jax.Array, value: float) -> jax.Array:
    return jnp.full_like(like, value)


def _words(like: jax.Array, value: int) -> jax.Array:
    return jnp.full(like.shape, value, jnp.int64)


def _as_word(number: float) -> int:
    """The bits of a number as a whole one."""
    return int(np.float64(number).view(np.int64))


def _bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x, jnp.int64)


def _number(bits: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(bits, jnp.float64)
