"""Elements that move in the kernel that counts marks, against NumPy."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives, ranks
from jscan.kernels import tuning
from tests.engines import by_kernel
from tests.kernels.test_lowering import cuda_program

STRIPS = tuning.Tuning(length=256, lanes=1, warps=1, window=4, strip=64)
WARPS = tuning.Tuning(length=1024, lanes=1, warps=4, window=128, strip=128)
BYTES = tuning.Tuning(length=512, lanes=1, warps=1, window=4, strip=128)
"""Strips of which marks that are bytes are counted in bytes."""
LANES = tuning.Tuning(length=32, lanes=8, warps=1, window=4)


def of_row(x, marks, fill, size):
    """A row that is packed to a size, or split where nothing fills."""
    head, rest = x[marks], x[~marks]
    return np.concatenate([rest, head] if fill is None else [head, np.full(len(x), fill)])[:size]


def expected(x, marks, fill, axis, size):
    """Every row of x along the axis."""
    x, marks = (np.moveaxis(a, axis, -1) for a in np.broadcast_arrays(x, marks))
    found = np.empty((*x.shape[:-1], size), x.dtype)
    for at in np.ndindex(x.shape[:-1]):
        found[at] = of_row(x[at], marks[at], fill, size)
    return np.moveaxis(found, -1, axis)


@pytest.mark.parametrize(
    ("shape", "axis", "tile", "share", "dtypes", "of_marks"),
    [
        ((1337,), 0, STRIPS, 0.5, ["int8", "complex64"], "bool"),
        ((1337,), 0, WARPS, 0.02, ["bool"], "uint8"),
        ((2048,), 0, BYTES, 0.5, ["float32"], "bool"),
        ((2101,), 0, BYTES, 0.7, ["float32"], "int8"),
        ((3, 513), 1, STRIPS, 0.98, ["float32"], "int32"),
        ((3, 257, 5), 1, LANES, 0.5, ["complex64"], "bool"),
        ((700,), 0, None, 0.5, ["bfloat16"], "bool"),
        *(
            pytest.param((n,), 0, tile, share, ["float32"], "bool", marks=pytest.mark.thorough)
            for n in (1, 2, 64, 257, 1025, 4099)
            for tile in (STRIPS, WARPS)
            for share in (0, 0.5, 1)
        ),
    ],
)  # fmt: skip
@by_kernel
def test_moves(strategy, shape, axis, tile, share, dtypes, of_marks):
    rng = np.random.default_rng(0)
    marks = rng.random(shape) < share
    leaves = [jnp.asarray(rng.integers(-50, 50, shape)).astype(dtype) for dtype in dtypes]
    given = jnp.asarray(marks).astype(of_marks) * jnp.asarray(3).astype(of_marks)
    n = shape[axis]
    with strategy.active(), primitives.tiled(tile):
        for x in leaves:
            values, fill = np.asarray(x), np.asarray(7).astype(x.dtype)
            for size in (max(1, n // 3), n + 5):
                found = ranks.move(x, given, jnp.asarray(fill), axis=axis, size=size)
                behind = [(0, max(size - n, 0) if d == axis else 0) for d in range(len(shape))]
                wanted = expected(values, marks, fill, axis, min(size, n))
                wanted = np.pad(wanted, behind, constant_values=fill)
                np.testing.assert_array_equal(found, wanted)
            found = ranks.move(x, given, axis=axis)
            np.testing.assert_array_equal(found, expected(values, marks, None, axis, n))


@by_kernel
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64", "int4", "float8_e5m2"])
def test_elements_of_any_width_move(dtype, strategy):
    """Those that no kernel reads are gathered."""
    rng = np.random.default_rng(1)
    marks = rng.random(300) < 0.4
    with jax.enable_x64(True), strategy.active(), primitives.tiled(STRIPS):
        x = jnp.asarray(rng.integers(-8, 8, 300)).astype(dtype)
        both = jscan.pack((x, marks), marks, size=150, fill_value=1), jscan.split(x, marks)
    (packed, which), parted = both
    count = min(marks.sum(), 150)
    wide = np.asarray(x.astype("complex128"))
    filled = np.concatenate([wide[marks], np.ones(300)])[:150]
    np.testing.assert_array_equal(packed.astype("complex128"), filled)
    assert packed.dtype == parted.dtype == x.dtype
    np.testing.assert_array_equal(which, np.ones(150, bool))
    assert count == 150 or which[count:].all()
    np.testing.assert_array_equal(
        parted.astype("complex128"), np.concatenate([wide[~marks], wide[marks]])
    )


@by_kernel
@pytest.mark.parametrize("mapped", ["values", "marks", "fills", "all"])
def test_batches_of_what_is_mapped(mapped, strategy):
    """What is not mapped is read in place."""
    rng = np.random.default_rng(2)
    x, marks, fills = rng.normal(size=(3, 300)), rng.random((3, 300)) < 0.5, np.arange(3.0)
    axes = [0 if mapped in (name, "all") else None for name in ("values", "marks", "fills")]
    given = [a if d == 0 else a[0] for a, d in zip((x, marks, fills), axes, strict=True)]
    given = [a.astype(np.float32) if a.dtype != bool else a for a in given]

    def packed(x, marks, fill):
        return jscan.pack(x, marks, size=200, fill_value=fill)

    with strategy.active(), primitives.tiled(STRIPS):
        found = jax.vmap(packed, axes)(*given)
    for row in range(3):
        own, which, fill = (a[row] if d == 0 else a for a, d in zip(given, axes, strict=True))
        np.testing.assert_array_equal(found[row], of_row(own, which, fill, 200))


@by_kernel
def test_first_elements_of_runs_move(strategy):
    x = np.sort(np.random.default_rng(3).integers(0, 90, 700)).astype(np.int32)
    with strategy.active(), primitives.tiled(STRIPS):
        values, count = jscan.unique_sorted(x, size=100, fill_value=-1)
        parted, lengths = jscan.partition(x, x - 40)
    assert count == len(np.unique(x))
    np.testing.assert_array_equal(values[:count], np.unique(x))
    np.testing.assert_array_equal(values[count:], -1)
    np.testing.assert_array_equal(parted, x)
    np.testing.assert_array_equal(lengths, [(x < 40).sum(), (x == 40).sum(), (x > 40).sum()])


SPECIAL = {
    "float32": [
        np.nan,
        np.nan,
        0.0,
        -0.0,
        0.0,
        1e-40,
        2e-40,
        2e-40,
        -1e-40,
        np.inf,
        -np.inf,
        -np.nan,
    ],
    "float64": [np.nan, np.nan, -0.0, 0.0, 5e-324, 1e-323, 1e-323, np.inf, np.inf, -np.nan, 1.0],
    "float16": [np.nan, -np.nan, 0.0, -0.0, 6e-8, 1.2e-7, 1.2e-7, -6e-8, np.inf, 65504.0],
    "bfloat16": [np.nan, 0.0, -0.0, 1e-40, 1e-40, 2e-40, np.inf, -np.inf, -np.inf],
}


@by_kernel
@pytest.mark.parametrize("dtype", SPECIAL)
@pytest.mark.parametrize("tile", [None, STRIPS], ids=["whole", "strips"])
def test_runs_of_floats_are_compared_by_the_kernel(dtype, tile, strategy):
    """What is no number equals what is none, zeros are equal, and subnormal numbers differ."""
    few = np.repeat(np.asarray(SPECIAL[dtype]).astype(jnp.dtype(dtype)), 3)
    x = np.tile(few, 30)
    wide = x.astype(np.float64)
    same = (wide[1:] == wide[:-1]) | (np.isnan(wide[1:]) & np.isnan(wide[:-1]))
    begins = np.flatnonzero(np.concatenate([[True], ~same]))
    with jax.enable_x64(True), strategy.active(), primitives.tiled(tile):
        values, count = jscan.unique_sorted(jnp.asarray(x), size=len(begins) + 3, fill_value=7)
        first, lengths, again = jscan.run_length_encode(jnp.asarray(x), size=len(begins))
    assert count == again == len(begins)
    expected = np.append(x[begins], np.full(3, 7, x.dtype))
    bits = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(np.asarray(values).view(bits), expected.view(bits))
    np.testing.assert_array_equal(np.asarray(first).view(bits), x[begins].view(bits))
    np.testing.assert_array_equal(lengths, np.diff(np.append(begins, len(x))))


@by_kernel
@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1337])
@pytest.mark.parametrize("size", [0, 3, 2000])
def test_runs_are_counted_whatever_is_returned(n, size, strategy):
    x = np.sort(np.random.default_rng(n).integers(0, 50, n)).astype(np.int32)
    with strategy.active(), primitives.tiled(STRIPS):
        values, count = jscan.unique_sorted(x, size=size)
        *_, again = jscan.run_length_encode(x, size=size)
        rows, counts = jax.vmap(lambda x: jscan.unique_sorted(x, size=size))(np.stack([x, x // 7]))
    wanted = [np.unique(x), np.unique(x // 7)]
    assert count == again == counts[0] == len(wanted[0])
    assert counts[1] == len(wanted[1])
    for row, found in zip(wanted, rows, strict=True):
        np.testing.assert_array_equal(found[: len(row)], row[:size])
    np.testing.assert_array_equal(values, rows[0])


@by_kernel
@pytest.mark.parametrize("dtype", ["int32", "float32", "int16", "float64"])
@pytest.mark.parametrize("shape", [(2048,), (2101,), (3, 1028), (2, 1030)])
def test_runs_that_are_compared_by_quarters(dtype, shape, strategy):
    """Three of four neighbours are in registers, where a row begins as memory's words do."""
    rng = np.random.default_rng(12)
    x = np.sort(rng.integers(0, shape[-1] // 3, shape), -1).astype(dtype)
    x[..., 0] = 0  # what lies in front of a row is no neighbour
    encode = functools.partial(jscan.run_length_encode, size=shape[-1])
    unique = functools.partial(jscan.unique_sorted, size=shape[-1])
    for _ in shape[:-1]:
        encode, unique = jax.vmap(encode), jax.vmap(unique)
    with jax.enable_x64(True), strategy.active(), primitives.tiled(BYTES):
        results = [np.asarray(y) for y in (*encode(x), *unique(x))]
    for at in np.ndindex(shape[:-1]):
        values, lengths, count, again, total = (y[at] for y in results)
        wanted, often = np.unique(x[at], return_counts=True)
        assert count == total == len(wanted)
        for found in (values, again):
            np.testing.assert_array_equal(found[: len(wanted)], wanted)
            np.testing.assert_array_equal(found[len(wanted) :], 0)
        np.testing.assert_array_equal(lengths[: len(wanted)], often)


@by_kernel
def test_a_gradient_of_runs_goes_back_to_first_elements(strategy):
    x = np.repeat(np.arange(1.0, 60.0, dtype=np.float32), 7)

    def loss(x):
        return jnp.sum(jscan.unique_sorted(x, size=50)[0] ** 2)

    with strategy.active(), primitives.tiled(STRIPS):
        slope = jax.grad(loss)(x)
    np.testing.assert_array_equal(slope[::7][:50], 2 * x[::7][:50])
    assert np.count_nonzero(slope) == 50


def of_parts(x, signs):
    """A row in three parts."""
    return np.concatenate([x[signs < 0], x[signs == 0], x[signs > 0]])


@pytest.mark.parametrize(
    ("shape", "tile", "dtype", "of_signs"),
    [
        ((1337,), STRIPS, "float32", "int8"),
        ((4099,), WARPS, "int8", "int32"),
        ((2101,), BYTES, "float32", "int8"),
        ((2048,), BYTES, "float32", "int8"),
        ((700,), None, "complex64", "int16"),
        ((2,), STRIPS, "float32", "int8"),
        ((1025,), STRIPS, "float16", "uint32"),
        ((513,), STRIPS, "int64", "int64"),
        ((300,), STRIPS, "complex128", "bool"),
        ((300,), STRIPS, "int4", "int4"),
        ((3, 700), STRIPS, "float32", "int8"),
        ((3, 60), None, "float32", "int8"),
        *(
            pytest.param((n,), tile, "float32", "int8", marks=pytest.mark.thorough)
            for n in (1, 64, 65, 255, 256, 257, 1024, 8193, 20_001)
            for tile in (STRIPS, WARPS, None)
        ),
    ],
)  # fmt: skip
@by_kernel
def test_parts_by_signs(strategy, shape, tile, dtype, of_signs):
    rng = np.random.default_rng(7)
    low = 0 if of_signs in ("bool", "uint32") else -1
    chosen = rng.integers(low, 2, shape)
    with jax.enable_x64(True), strategy.active(), primitives.tiled(tile):
        signs = jnp.asarray(chosen * (1 if of_signs == "bool" else 5)).astype(of_signs)
        x = jnp.asarray(rng.integers(-8, 8, shape)).astype(dtype)
        y, lengths = jscan.partition(x, signs, axis=-1)
        values, found = (np.asarray(a.astype("complex128")) for a in (x, y))
    assert y.dtype == x.dtype
    for at in np.ndindex(shape[:-1]):
        np.testing.assert_array_equal(found[at], of_parts(values[at], chosen[at]))
        np.testing.assert_array_equal(lengths[at], [(chosen[at] == s).sum() for s in (-1, 0, 1)])


@by_kernel
@pytest.mark.parametrize("share", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.01, 0.98, 0.01)])
def test_parts_that_have_few_elements_or_none(strategy, share):
    signs = np.random.default_rng(8).choice([-1, 0, 1], 1500, p=share).astype(np.int8)
    x = np.arange(1500, dtype=np.float32)
    with strategy.active(), primitives.tiled(STRIPS):
        y, _ = jscan.partition(x, signs)
    np.testing.assert_array_equal(y, of_parts(x, signs))


@by_kernel
@pytest.mark.parametrize("mapped", ["values", "signs", "both"])
def test_batches_of_parts(strategy, mapped):
    rng = np.random.default_rng(9)
    x, signs = rng.normal(size=(3, 300)).astype(np.float32), rng.integers(-1, 2, (3, 300), np.int8)
    axes = [0 if mapped in (name, "both") else None for name in ("values", "signs")]
    given = [a if d == 0 else a[0] for a, d in zip((x, signs), axes, strict=True)]
    with strategy.active(), primitives.tiled(STRIPS):
        found, _ = jax.vmap(lambda x, signs: jscan.partition(x, signs), axes)(*given)
    for row in range(3):
        own, which = (a[row] if d == 0 else a for a, d in zip(given, axes, strict=True))
        np.testing.assert_array_equal(found[row], of_parts(own, which))


@by_kernel
def test_leaves_that_share_signs_are_taken_in_one_order(strategy):
    rng = np.random.default_rng(10)
    signs = rng.integers(-1, 2, 600, np.int8)
    x = rng.normal(size=600).astype(np.float32), rng.normal(size=(600, 3)).astype(np.float32)
    with strategy.active(), primitives.tiled(STRIPS):
        found, _ = jscan.partition(x, signs)
    for y, leaf in zip(found, x, strict=True):
        np.testing.assert_array_equal(y, of_parts(leaf, signs))


@by_kernel
def test_a_gradient_of_parts_goes_back_to_their_elements(strategy):
    rng = np.random.default_rng(11)
    signs = rng.integers(-1, 2, 600, np.int8)
    weights = rng.normal(size=600).astype(np.float32)
    x = jnp.arange(600.0, dtype=jnp.float32)

    def loss(x):
        return jnp.sum(jscan.partition(x, signs)[0] ** 2 * weights)

    places = of_parts(np.arange(600), signs)
    expected = np.empty(600, np.float32)
    expected[places] = 2 * places * weights
    with strategy.active(), primitives.tiled(STRIPS):
        np.testing.assert_allclose(jax.grad(loss)(x), expected, rtol=1e-6)
        tangent = jax.jvp(lambda x: jscan.partition(x, signs)[0], (x,), (jnp.asarray(weights),))[1]
    np.testing.assert_array_equal(tangent, weights[places])


def test_a_gradient_moves_back_without_a_scatter():
    x, mask = (jax.ShapeDtypeStruct((5000,), "float32") for _ in range(2))

    def loss(x, mask):
        return jnp.sum(jscan.pack(x, mask > 0, size=4000) ** 2)

    assert "stablehlo.scatter" not in cuda_program(jax.grad(loss), x, mask)


def test_beside_what_is_linear_anything_moves():
    """Each array is transposed by itself."""
    mask = np.random.default_rng(5).random(40) < 0.5
    other = jnp.arange(40.0)

    def product(x):
        y, factor = jscan.split((x, other), mask)
        return y * factor

    [back] = jax.linear_transpose(product, other)(jnp.ones(40))
    np.testing.assert_array_equal(back, other)
