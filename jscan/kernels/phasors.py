"""Numbers that are known by their complex logarithms, in real arithmetic.

    combined     log(exp x + exp y), the operator of complex `logaddexp`
    term         exp x, of a real part that is not large
    logarithm    log z, its imaginary part between -pi and pi

These are functions of scalars. An operator of `jnp.logaddexp` takes a dozen times the instructions:
it has the library's functions, for arguments of any size, two quotients and a remainder.

Phases are known up to multiples of 2 pi, and counted modulo pi: x = k pi + r with |r| <= pi / 2,
where sine and cosine are short polynomials. In float32 a phase of `VAGUE` or more counts as 0.
"""

from __future__ import annotations

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language

Pair: TypeAlias = tuple[jax.Array, jax.Array]
"""The real and the imaginary part of a complex number."""

VAGUE = 2.0**22
"""Numbers of float32 that are larger are half a radian and more apart."""

# pi in three parts, whose products with a number of half turns are exact but for the last one's.
_PI = {
    "float32": (3.140625, 9.67502593994140625e-4, 1.50995799097837643e-7),
    "float64": (3.141592502593994, 1.5099578831723193e-07, 1.0780605716316238e-14),
}

# sin(x) / x and cos(x) in powers of x^2 for |x| < 1.65, and atan(x) / x for x <= 1, highest power
# first. Minimax fits; absolute errors 6e-9, 4e-10 and 1.4e-8 before roundings.
_SINE = (
    2.573935189198779e-06,
    -0.000197923116816247,
    0.008332753596065766,
    -0.16666638594116479,
    0.9999999619115045,
)
_COSINE = (
    -2.5900239942435683e-07,
    2.475133402029477e-05,
    -0.0013888183192209743,
    0.0416666217934823,
    -0.4999999895570658,
    0.9999999996061176,
)
_ARCTANGENT = (
    0.0029035550657677816,
    -0.016283018049146385,
    0.04303938392491182,
    -0.07533677390098903,
    0.10654677998741954,
    -0.14207133802767777,
    0.19993054124120507,
    -0.3333309395796523,
    0.9999999863667739,
)


def exp(x: jax.Array) -> jax.Array:
    """The exponential of x <= 0, exact enough as a term of a sum that is not much smaller."""
    if x.dtype != jnp.float32:
        return jnp.exp(x)
    return language.fast_exp2(x * np.float32(np.log2(np.e)))


def log(x: jax.Array) -> jax.Array:
    """The logarithm of x >= 0, to 2^-22 absolutely where it is small."""
    if x.dtype != jnp.float32:
        return jnp.log(x)
    return language.fast_log2(x) * np.float32(np.log(2))


def combined(ar: jax.Array, ai: jax.Array, br: jax.Array, bi: jax.Array) -> Pair:
    """log(exp a + exp b): minus infinity leaves the other as it is, with a phase below 2 pi.

    Infinity, NaN and an infinite phase make NaN. Of the larger one's exponential the sum is
    1 + t exp(i p) with t <= 1, and

        |1 + t exp(i p)|^2 = (1 - t)^2 + 4 t cos(p / 2)^2
         1 + t cos p       =  1 - t    + 2 t cos(p / 2)^2

    where nothing cancels. The phase turns by no more than a quarter.
    """
    swap = ar < br
    high, low = lax.select(swap, br, ar), lax.select(swap, ar, br)
    own, other = _half(lax.select(swap, bi, ai)), _half(lax.select(swap, ai, bi))
    _, half = _turned(other - own)
    cosine, sine = _cosine(half), _sine(half)
    depth = (low - high) + (high - high)  # NaN where the larger one is infinite
    nothing = (high == -np.inf) & (low == -np.inf)
    t = exp(lax.select(nothing, jnp.full_like(depth, -np.inf), depth))
    rest, twice = 1 - t, 2 * t * cosine
    size, angle = _polar(language.fma(twice, cosine, rest), twice * sine)
    _, phase = _turned(language.fma(jnp.full_like(angle, 0.5), angle, own))
    return high + size, phase + phase


def term(re: jax.Array, im: jax.Array) -> Pair:
    """exp(re + i im) for re <= 0."""
    turns, rest = _turned(_certain(im))
    # An odd number of half turns changes the sign of both.
    half = jnp.floor(turns * 0.5)
    parity = language.fma(jnp.full_like(turns, 2), half, turns, minus=True)
    one = jnp.ones_like(turns)
    size = exp(re) * language.fma(one + one, parity, one, minus=True)
    return size * _cosine(rest), size * _sine(rest)


def logarithm(re: jax.Array, im: jax.Array) -> Pair:
    """log(re + i im)."""
    size, angle = _polar(jnp.abs(re), im)
    straight = (jnp.full_like(angle, pi) for pi in (np.pi, -np.pi))
    other = lax.select(im > 0, *straight) - angle
    return size, lax.select(re < 0, other, angle)


def _polar(x: jax.Array, y: jax.Array) -> Pair:
    """The logarithm and the angle of x + i y for x >= 0; of 0 minus infinity and 0."""
    height = jnp.abs(y)
    steep = x < height
    big, small = lax.select(steep, height, x), lax.select(steep, x, height)
    ratio = small / lax.select(big == 0, jnp.ones_like(big), big)
    size = log(big) + log(language.fma(ratio, ratio, jnp.ones_like(ratio))) * 0.5
    angle = _arctangent(ratio)
    angle = lax.select(steep, jnp.full_like(angle, np.pi / 2) - angle, angle)
    return size, lax.select(y < 0, -angle, angle)


def _half(phase: jax.Array) -> jax.Array:
    """Half of a phase, modulo pi."""
    return _turned(_certain(phase) * 0.5)[1]


def _certain(phase: jax.Array) -> jax.Array:
    """A phase, or 0 where it says nothing; NaN where it is infinite."""
    if phase.dtype != jnp.float32:
        return phase
    return lax.select(jnp.abs(phase) < VAGUE, phase, phase - phase)


def _turned(x: jax.Array) -> Pair:
    """K and x - k pi for the whole number k that makes it smallest."""
    turns = jnp.floor(x * (1 / np.pi) + 0.5)
    for part in _PI[x.dtype.name]:
        x = language.fma(turns, jnp.full_like(turns, part), x, minus=True)
    return turns, x


def _sine(x: jax.Array) -> jax.Array:
    return jnp.sin(x) if x.dtype != jnp.float32 else x * _polynomial(_SINE, x * x)


def _cosine(x: jax.Array) -> jax.Array:
    return jnp.cos(x) if x.dtype != jnp.float32 else _polynomial(_COSINE, x * x)


def _arctangent(x: jax.Array) -> jax.Array:
    """The arctangent of x in [0, 1]."""
    return jnp.arctan(x) if x.dtype != jnp.float32 else x * _polynomial(_ARCTANGENT, x * x)


def _polynomial(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    total = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = language.fma(total, x, jnp.full_like(x, coefficient))
    return total
