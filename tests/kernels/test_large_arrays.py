"""Arrays of 2^32 elements, which a GPU alone can hold, and one test at a time.

Where tests run in several processes on one device, a process runs all of these: `-n 16 --dist
loadgroup`. The others share what it leaves them.
"""

from __future__ import annotations

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.heads import before, segment_starts
from jscan.kernels import tuning

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.xdist_group("large"),
    pytest.mark.usefixtures("one_region"),
]

LONG = 2**32 + 17
MOST = 36 * 2**30  # bytes that a test holds: 26 GB in three arrays, and what XLA takes besides


@pytest.fixture(scope="module")
def one_region():
    """Makes the allocator take all memory that these tests need as one region.

    It keeps the regions that it once took and joins no two of them. Taken as tests ask for them,
    regions of 4 GB would be of no use to an array of 8 GB, and the device would be full of them.
    """
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # others hold too much for now
        jnp.zeros(MOST, jnp.int8).block_until_ready()


@functools.partial(jax.jit, static_argnames=("reverse", "exclusive"))
def differences(y, x, heads=None, *, reverse=False, exclusive=False):
    """How many elements of a sum along the last axis do not follow from their neighbours.

    None do if and only if the sum is right: by induction, from the first element on.
    """
    starts = jnp.arange(x.shape[-1], dtype=jnp.uint64) == 0
    if heads is not None:
        starts = segment_starts(heads, axis=0, reverse=reverse)
        starts = jnp.flip(starts) if reverse else starts
    if reverse:
        x, y = jnp.flip(x, -1), jnp.flip(y, -1)
    moved = [before(array, axis=x.ndim - 1) for array in (x, y)]
    behind = moved[0] + moved[1] if exclusive else moved[1]
    want = jnp.where(starts, jnp.zeros_like(x), behind)
    return jnp.sum(y != (want if exclusive else want + x), dtype=jnp.int64)


@functools.partial(jax.jit, static_argnums=0)
def mixed_bytes(shape):
    """Elements of which no two tiles have the same."""
    count = jnp.arange(np.prod(shape), dtype=jnp.uint64)
    mixed = (count * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56)
    return jax.lax.bitcast_convert_type(mixed.astype(jnp.uint8), jnp.int8).reshape(shape)


@functools.partial(jax.jit, static_argnums=(0, 1))
def rare_heads(n, distance):
    """About one head in so many elements."""
    mixed = jnp.arange(n, dtype=jnp.uint64) * np.uint64(0xD1B54A32D192ED03)
    return mixed < np.uint64(2**64 // distance)


@pytest.mark.parametrize("form", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("distance", [None, 10, 10**7])
def test_more_than_32_bits_along_the_axis(form, distance):
    reverse, exclusive = map(bool, form)
    x = mixed_bytes((LONG,))
    heads = None if distance is None else rare_heads(LONG, distance)
    y = jscan.cumsum(x, 0, reverse, exclusive=exclusive, segments=heads)
    assert differences(y, x, heads, reverse=reverse, exclusive=exclusive) == 0


@pytest.mark.parametrize("method", ["serial_lookback", "reduce_then_scan", "scan_then_propagate"])
@pytest.mark.parametrize("distance", [None, 10**7])
def test_every_strategy_takes_more_than_32_bits(method, distance):
    x = mixed_bytes((LONG,))
    heads = None if distance is None else rare_heads(LONG, distance)
    assert differences(jscan.cumsum(x, segments=heads, method=method), x, heads) == 0


def test_a_constant_has_a_closed_form():
    @jax.jit
    def wrong(y):
        want = (3 * (jnp.arange(LONG, dtype=jnp.uint64) + 1)).astype(jnp.uint8)
        return jnp.sum(jax.lax.bitcast_convert_type(want, jnp.int8) != y, dtype=jnp.int64)

    assert wrong(jscan.cumsum(jnp.full((LONG,), 3, jnp.int8))) == 0


@pytest.mark.parametrize("method", ["auto", "reduce_then_scan"])
@pytest.mark.parametrize("shape", [(2**20, 4099), (2**31 + 5, 2), (3, 2**31 - 2**19)])
def test_rows_of_more_than_32_bits_in_all(shape, method):
    x = mixed_bytes(shape)
    assert differences(jscan.cumsum(x, -1, method=method), x) == 0


@pytest.mark.parametrize("method", ["auto", "lookback", "reduce_then_scan"])
@pytest.mark.parametrize("shape", [(4099, 2**20), (2, 2**31 + 5), (2**31 + 5, 2)])
def test_lanes_of_more_than_32_bits_in_all(shape, method):
    x = mixed_bytes(shape)

    @jax.jit
    def wrong(y, x):
        return jnp.sum(y != before(y, axis=0) + x, dtype=jnp.int64)

    assert wrong(jscan.cumsum(x, 0, method=method), x) == 0


def test_two_to_the_24_tiles():
    n = 2**32
    x = mixed_bytes((n,))
    with primitives.tiled(tuning.Tuning(length=256, lanes=1, warps=1, window=32)):
        assert differences(jscan.cumsum(x, method="lookback"), x) == 0


@pytest.mark.parametrize("method", ["auto", "scan_then_propagate", "reduce_then_scan"])
@pytest.mark.parametrize("kind", ["ids", "flags"])
def test_segments_of_more_than_32_bits(kind, method):
    length = 2**25 - 3
    count = -(-LONG // length)

    @jax.jit
    def described():
        place = jnp.arange(LONG, dtype=jnp.uint64)
        if kind == "flags":
            return jscan.Segments.from_flags(place % length == 0)
        return jscan.Segments.from_ids((place // length).astype(jnp.uint8))

    sums = jscan.reduce(
        jnp.add,
        jnp.ones((LONG,), jnp.int8),
        identity=np.int8(0),
        segments=described(),
        num_segments=count,
        method=method,
    )
    want = np.full(count, length)
    want[-1] = LONG - (count - 1) * length
    np.testing.assert_array_equal(sums, want.astype(np.int8))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_of_more_than_31_bits(reverse):
    n = 2**31 + 2**20 + 7

    @jax.jit
    def operands():
        a = (mixed_bytes((n,)) | 1).astype(jnp.int32)
        return a, jnp.flip(a) * 77

    @jax.jit
    def wrong(h, a, b):
        if reverse:
            a, b, h = jnp.flip(a), jnp.flip(b), jnp.flip(h)
        return jnp.sum(h != a * before(h, axis=0) + b, dtype=jnp.int64)

    a, b = operands()
    assert wrong(jscan.linear_recurrence(a, b, reverse=reverse), a, b) == 0


def test_more_elements_than_32_bit_addresses():
    rows, n = 5, 2**29 + 3
    x = jnp.ones((rows, n), jnp.int8)
    y = jscan.cumsum(x, axis=1)
    want = (jnp.arange(1, n + 1) & 255).astype(jnp.uint8).astype(jnp.int8)
    assert int(jnp.sum(y != want[None, :], dtype=jnp.int64)) == 0
