"""Inputs, made on the device.

Whole numbers in floating-point dtypes, small enough that every partial result is exact, let an
answer be compared with integer arithmetic bit for bit.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from benchmarks.cases.case import Build
from benchmarks.cases.operations import changes
from jscan import Segments

Shape = tuple[int, ...]
Arrays = tuple[jax.Array, ...]

LOG_RANGE = 512.0  # nats; exponentials of it are float64 numbers


def draw(seed: int | jax.Array, shape: Shape, choices: int) -> jax.Array:
    """Whole numbers from 0, all below ``choices``; a seed's are the same in every call."""
    bits = jax.random.bits(jax.random.key(seed), shape, jnp.uint32)
    return (bits % choices).astype(jnp.int32)


def joined(*builds: Build) -> Arrays:
    """The operands of several builders, one after another."""
    return tuple(operand for build in builds for operand in build())


def signs(shape: Shape, dtype: DTypeLike) -> Arrays:
    """-1, 0 and 1: a walk whose sums stay within 2^24 for every length measured here."""
    return ((draw(0, shape, 3) - 1).astype(dtype),)


def cotangents(shape: Shape) -> Arrays:
    """-1, 0 and 1, drawn apart from every other operand."""
    return ((draw(15, shape, 3) - 1).astype(jnp.float32),)


def eights(shape: Shape, dtype: DTypeLike) -> Arrays:
    """-8 to 8, whose sums stay within 2^24 for every length measured here."""
    return ((draw(7, shape, 17) - 8).astype(dtype),)


def numbers(n: int) -> Arrays:
    """Whole float32 numbers below 2^20, hardly any two of them alike."""
    return (draw(8, (n,), 2**20).astype(jnp.float32),)


def wide_integers(n: int) -> Arrays:
    """Whole float64 numbers of 36 bits, whose sums stay within 2^53 but not within float32."""
    x = jax.random.randint(jax.random.key(1), (n,), -(2**36), 2**36, jnp.int64)
    return (x.astype(jnp.float64),)


def rising(n: int) -> Arrays:
    """A noisy ramp of whole numbers below 2^24, whose maximum changes all the way."""
    ramp = jnp.arange(n, dtype=jnp.int32) >> 6
    return ((ramp + draw(2, (n,), 2**16)).astype(jnp.float32),)


def falling(n: int) -> Arrays:
    """The same downwards, whose minimum changes all the way."""
    return (-rising(n)[0],)


def climbing(n: int) -> Arrays:
    """Whole numbers below n, no two alike, whose maximum changes in every 256 of them."""
    place = jnp.arange(n, dtype=jnp.int32)
    shuffled = (place * 167) & 255  # 167 is odd: a permutation of 256 numbers
    return ((place - (place & 255) + shuffled).astype(jnp.float32),)


def complex_signs(n: int) -> Arrays:
    """Real and imaginary parts -1, 0 and 1, whose sums stay within 2^24."""
    parts = (draw(seed, (n,), 3) - 1 for seed in (0, 23))
    return (lax.complex(*(x.astype(jnp.float32) for x in parts)),)


def words(n: int) -> Arrays:
    """All 32 bits at random."""
    bits = jax.random.bits(jax.random.key(4), (n,), jnp.uint32)
    return (lax.bitcast_convert_type(bits, jnp.int32),)


def rare_bits(n: int) -> Arrays:
    """0, but for some 128 numbers of one bit each."""
    there = draw(24, (n,), max(n // 128, 1)) == 0
    return (jnp.where(there, jnp.int32(1) << draw(25, (n,), 32), 0),)


def rare_gaps(n: int) -> Arrays:
    """The same with all bits reversed."""
    return (~rare_bits(n)[0],)


def rare_writes(n: int) -> Arrays:
    """Some thirty random int32 numbers, and 0 everywhere else."""
    written = draw(9, (n,), max(n // 32, 1)) == 0
    return (jnp.where(written, 1 + draw(10, (n,), 2**30), 0),)


def normal(n: int) -> Arrays:
    """Normal deviates."""
    return (jax.random.normal(jax.random.key(3), (n,), jnp.float32),)


def slopes_of_logs(n: int) -> Arrays:
    """Normal deviates on a ramp of `LOG_RANGE` from end to end, and cotangents of -1 and 1."""
    ramp = jnp.arange(n, dtype=jnp.float32) * (LOG_RANGE / n)
    return ramp + normal(n)[0], (2 * draw(15, (n,), 2) - 1).astype(jnp.float32)


def factors(shape: Shape) -> Arrays:
    """-1 and 1, whose products neither grow nor vanish however many there are."""
    return ((2 * draw(6, shape, 2) - 1).astype(jnp.float32),)


def reflections(shape: Shape, slopes_shape: Shape | None = None) -> Arrays:
    """Slopes -1 and 1, offsets -1, 0 and 1: a recurrence whose values are whole numbers."""
    return *factors(slopes_shape or shape), *signs(shape, jnp.float32)


def quarter_turns(n: int) -> Arrays:
    """Matrices of two by two, row after row: quarter turns, half of them reflected first.

    Products are such matrices again, however many there are.
    """
    turn, sign = draw(26, (n,), 4), 1 - 2 * draw(27, (n,), 2)
    cosine = jnp.where(turn & 1 == 1, 0, 1 - turn)
    sine = jnp.where(turn & 1 == 1, 2 - turn, 0)
    entries = (cosine, -sign * sine, sine, sign * cosine)
    return tuple(x.astype(jnp.float32) for x in entries)


def turns(shape: Shape, slopes_shape: Shape | None = None) -> Arrays:
    """Coefficients 1, i, -1 and -i; rare terms and cotangents of parts -1, 0 and 1.

    One in 64 is not 0, so that a product of two walks has parts below 2^24 at every length here.
    """

    def less(a: jax.Array, b: jax.Array) -> jax.Array:
        return a.astype(jnp.float32) - b.astype(jnp.float32)

    def rare(seed: int) -> jax.Array:
        there = draw(seed, shape, 64) == 0
        parts = (jnp.where(there, draw(seed + i, shape, 3) - 1, 0) for i in (1, 2))
        return lax.complex(*(x.astype(jnp.float32) for x in parts))

    k = draw(16, slopes_shape or shape, 4)
    return lax.complex(*(less(k == i, k == i + 2) for i in (0, 1))), rare(17), rare(20)


def turns_alone(shape: Shape, slopes_shape: Shape | None = None) -> Arrays:
    """The same without cotangents."""
    return turns(shape, slopes_shape)[:2]


def permutations(n: int, k: int) -> Arrays:
    """Matrices of k by k that permute and change signs, as do their products."""
    table = jnp.array([*itertools.permutations(range(k))])
    places = table[draw(37, (n,), len(table))]
    signs = (1 - 2 * draw(38, (n, k), 2)).astype(jnp.float32)
    return (jax.nn.one_hot(places, k, dtype=jnp.float32) * signs[..., None],)


def systems(n: int, k: int) -> Arrays:
    """Such matrices; terms, then cotangents, of -1, 0 and 1."""
    return *permutations(n, k), *signs((n, k), jnp.float32), *cotangents((n, k))


def continued(elements: Build) -> Arrays:
    """The elements behind the first one, and that one, which comes before them."""
    (x,) = elements()
    return x[1:], x[0]


def samples(n: int) -> Arrays:
    """The moments of single samples 0, 1 and 2: count 1, mean the sample, no deviation."""
    one, zero = jnp.ones(n, jnp.float32), jnp.zeros(n, jnp.float32)
    return one, draw(0, (n,), 3).astype(jnp.float32), zero


def mask(n: int, density: float) -> Arrays:
    """Booleans, true with this probability."""
    return mask_of((n,), density)


def mask_of(shape: Shape, density: float) -> Arrays:
    """The same in a shape."""
    return (jax.random.uniform(jax.random.key(11), shape) < density,)


def room(n: int, density: float) -> int:
    """A size that all true elements of such a mask find room in, six standard deviations more."""
    return min(n, round(n * density + 6 * math.sqrt(n * density)))


def tenths(n: int) -> Arrays:
    """Signs in int8, of which a tenth is 0 and as many are negative as positive."""
    drawn = draw(28, (n,), 20)
    return (jnp.where(drawn < 2, 0, 1 - 2 * (drawn & 1)).astype(jnp.int8),)


def lengths(n: int, count: int) -> Arrays:
    """Whole float32 numbers, and as many lengths by chance, whose sum is n."""
    (ids,) = sorted_ids(n, count)
    bounds = jnp.searchsorted(ids, jnp.arange(count + 1, dtype=jnp.int32))
    return *numbers(count), jnp.diff(bounds).astype(jnp.int32)


def dominated(shape: Shape) -> Arrays:
    """Tridiagonal systems whose rows are dominated by the diagonal by a tenth or more, and b."""
    below, above, right, more = (
        jax.random.uniform(jax.random.key(29 + i), shape, minval=-1.0) for i in range(4)
    )
    least = 1.125 * (jnp.abs(below) + jnp.abs(above))
    # Of 2^24 numbers one or two are 0, whose sign would leave a row without a diagonal.
    return below, jnp.where(more < 0, -1, 1) * (least + jnp.abs(more)), above, right


def _flags(shape: Shape, dtype: DTypeLike, density: jax.Array) -> jax.Array:
    return (jax.random.uniform(jax.random.key(5), shape) < density).astype(dtype)


def flagged(shape: Shape, heads_shape: Shape, dtype: DTypeLike, density: jax.Array) -> Arrays:
    """-1, 0 and 1 in float32, and heads of a density."""
    heads = _flags(heads_shape, dtype, density)
    return *signs(shape, jnp.float32), heads


def heads_by_chance(shape: Shape, dtype: DTypeLike, density: jax.Array) -> Arrays:
    """Heads of a density."""
    return (_flags(shape, dtype, density),)


def words_of_heads(n: int, density: float) -> Arrays:
    """Heads of a density, of a bit each."""
    flags = _flags((n,), jnp.bool_, jnp.float32(density))
    return (Segments.from_flags(flags).packed(),)


def ids_of_runs(shape: Shape, dtype: DTypeLike, mean: int) -> Arrays:
    """Ids of runs along the last axis, of so many elements on average; numbers wrap."""
    heads = (draw(16, shape, mean) == 0).astype(jnp.int32)
    return (jnp.cumsum(heads, len(shape) - 1).astype(dtype),)


def flagged_reflections(n: int, density: jax.Array) -> Arrays:
    """Slopes -1 and 1, offsets -1, 0 and 1, and heads of a density."""
    return *reflections((n,)), _flags((n,), jnp.uint8, density)


def flagged_factors(n: int, density: jax.Array) -> Arrays:
    """-1 and 1, heads of a density, and cotangents."""
    heads = _flags((n,), jnp.uint8, density)
    return *factors((n,)), heads, *cotangents((n,))


def random_ids(n: int, count: int) -> Arrays:
    """Ids of ``count`` segments, each element's by chance."""
    return (draw(12, (n,), count),)


def sorted_ids(n: int, count: int) -> Arrays:
    """The same, sorted: segments of n / count elements on average."""
    return (lax.sort(random_ids(n, count)[0]),)


def runs(n: int, count: int) -> Arrays:
    """The same with other ids, in no order."""
    return (sorted_ids(n, count)[0] * jnp.int32(-1640531527),)  # odd, so none become alike


def heads(n: int, count: int) -> Arrays:
    """Head flags of the same segments, as booleans."""
    return (changes(*sorted_ids(n, count)),)


def offsets(n: int, count: int) -> Arrays:
    """Offsets of the same segments: count + 1 of them."""
    (ids,) = sorted_ids(n, count)
    return (jnp.searchsorted(ids, jnp.arange(count + 1, dtype=jnp.int32)),)


def even(n: int, length: int) -> Arrays:
    """Ids of segments of one length; the last may be shorter."""
    return (jnp.arange(n, dtype=jnp.int32) // length,)


def short(n: int, count: int) -> Arrays:
    """Ids of segments of 10 to 50 elements, of which at most ``count`` are needed."""
    return (_repeated(10 + draw(13, (count,), 41), n),)


def half_and_short(n: int, count: int) -> Arrays:
    """Ids of a segment of half of the elements, and of others of 10 to 50."""
    some = 10 + draw(13, (count,), 41)
    return (_repeated(jnp.concatenate([jnp.full(1, n // 2, jnp.int32), some]), n),)


def zipf(n: int, count: int) -> Arrays:
    """Ids of segments of which the longest has a fourteenth of 2^26 elements.

    Their lengths are as 1, 1/2, 1/3 and so on (Zipf's law), in random order; the last one has what
    is left by rounding.
    """
    return (_repeated(_zipf(n, count), n),)


def half_and_zipf(n: int, count: int) -> Arrays:
    """Ids of segments of which one, in the middle, has half of the elements.

    The lengths of the others are as 1, 1/2, 1/3 and so on (Zipf's law), in random order.
    """
    lengths = _zipf(n // 2, count - 1)
    before, behind = jnp.split(lengths, [count // 2])
    half = n - jnp.sum(lengths, keepdims=True)
    return (_repeated(jnp.concatenate([before, half, behind]), n),)


def heads_of(n: int, ids: Build) -> Arrays:
    """-1, 0 and 1 in float32, and uint8 head flags of the segments of these ids."""
    flags = changes(*ids()).astype(jnp.uint8)
    return *signs((n,), jnp.float32), flags


def _zipf(elements: int, count: int) -> jax.Array:
    """Lengths of ``count`` segments, which together have hardly more elements."""
    shares = 1 / jax.random.permutation(jax.random.key(14), jnp.arange(1.0, count + 1))
    return jnp.maximum(elements * shares / jnp.sum(shares) - 1, 1).astype(jnp.int32)


def _repeated(lengths: jax.Array, n: int) -> jax.Array:
    segments = jnp.arange(lengths.size, dtype=jnp.int32)
    return jnp.repeat(segments, lengths, total_repeat_length=n)
