"""Tiles that share lanes, and are read and written by words that are shifted, against a loop."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import sliding, tuning
from jscan.kernels.layout import Geometry
from tests import reference
from tests.kernels.test_held import by_kernel, check_leaves, check_sums, run
from tests.kernels.test_start import Call, integers

TILES = {
    "bytes by sectors": (("int8", "uint8"), tuning.Tuning(16, 128, 1, 2, held=8, shared=32)),
    "bytes by words": (("int8",), tuning.Tuning(8, 64, 1, 2, shared=4)),
    "bytes by strips": (("int8",), tuning.Tuning(16, 64, 1, 2, strip=8, shared=32)),
    "halves by sectors": (("int16", "float16"), tuning.Tuning(16, 64, 1, 2, held=8, shared=16)),
    "halves by words": (("int16",), tuning.Tuning(8, 32, 1, 2, shared=2)),
    "words by sectors": (("int32", "float32"), tuning.Tuning(16, 32, 1, 2, held=16, shared=8)),
    "64 bits by sectors": (("int64",), tuning.Tuning(8, 16, 1, 2, shared=4)),
}
every_tile = pytest.mark.parametrize(
    ("dtype", "tile"),
    [pytest.param(d, tile, id=f"{d}-{name}") for name, (ds, tile) in TILES.items() for d in ds],
)
# Rows that begin at every byte of a word, or at every other one; an axis that ends inside of a
# tile, and one that does not; tiles that end with the lanes, before their last word, and behind it.
every_shape = pytest.mark.parametrize("shape", [(37, 97), (48, 131), (24, 254), (5, 67), (21, 240)])


@every_shape
@every_tile
@pytest.mark.parametrize("segmented", [None, "own", "shared"])
@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (True, False), (True, True)])
@pytest.mark.sweep
@by_kernel
def test_sums(strategy, reverse, exclusive, segmented, dtype, tile, shape):
    form: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive, "method": "lookback"}
    check_sums(strategy, tile, shape, dtype, segmented, **form)


@every_tile
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_many_rows(strategy, reverse, dtype, tile):
    """Rows of several arrays one behind the other, of which none has a multiple of a word."""
    x = np.random.default_rng(2).integers(0, 3, (3, 21, 131)).astype(dtype)

    def call(x: Any) -> Any:
        return jscan.cumsum(x, axis=1, reverse=reverse, method="lookback")

    with jax.enable_x64(dtype == "int64"):
        found = run(strategy, tile, call, x)
    expected = reference.scan(np.add, x, identity=np.zeros((), dtype), axis=1, reverse=reverse)
    reference.assert_equal(found, expected.astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "float16", "int32"])
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_what_does_not_commute(strategy, reverse, dtype):
    """Two leaves, of which one is the same for all lanes."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-1, 2, (40, 1)).astype(dtype), rng.integers(-1, 2, (40, 97)).astype(dtype)
    h, expected = np.zeros(97, dtype), np.empty_like(b)
    for t in range(39, -1, -1) if reverse else range(40):
        h = expected[t] = (a[t] * h + b[t]).astype(dtype)

    def call(a: Any, b: Any) -> Any:
        return jscan.linear_recurrence(a, b, axis=0, reverse=reverse, method="lookback")

    tile = next(tile for ds, tile in TILES.values() if dtype in ds)
    reference.assert_equal(run(strategy, tile, call, a, b), expected)


@pytest.mark.parametrize("tile", [tile for _, tile in TILES.values()], ids=list(TILES))
@pytest.mark.parametrize("exclusive", [False, True])
@by_kernel
def test_leaves_of_several_widths(strategy, exclusive, tile):
    """Booleans and bytes beside complex numbers, which are as wide as two words."""
    check_leaves(strategy, tile, (37, 97), axis=0, exclusive=exclusive)


@pytest.mark.parametrize("dtype", ["bool", "int8"])
@by_kernel
def test_halves_beside_bytes(strategy, dtype):
    """Words hold two of the wider leaf's elements, and the narrower one is read singly."""
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2, (37, 97)).astype(dtype), rng.integers(0, 3, (37, 97), np.int16)

    def combine(a: Any, b: Any) -> Any:
        return a[0] | b[0], a[1] + b[1]

    def call(x: Any, y: Any) -> Any:
        return jscan.associative_scan(combine, (x, y), axis=0, method="lookback")

    tile = TILES["halves by sectors"][1]
    found = run(strategy, tile, call, x, y)
    for actual, wanted in zip(found, reference.scan(combine, (x, y), axis=0), strict=True):
        reference.assert_equal(actual, wanted)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (True, True)])
@by_kernel
def test_starts(strategy, reverse, exclusive, dtype):
    x, start = (
        integers((37, 97), dtype=np.dtype(dtype)),
        integers((1, 97), 1, dtype=np.dtype(dtype)),
    )
    how: dict[str, Any] = {"axis": 0, "reverse": reverse, "exclusive": exclusive}
    tile = next(tile for ds, tile in TILES.values() if dtype in ds)
    Call(jnp.add, [x], [start], (0,), None, None, **how).check(strategy, tile)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("segmented", [None, "shared"])
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_threads_that_walk_down(strategy, reverse, segmented, dtype):
    """One program for all positions of its lanes, which tells nothing to others."""
    each = np.dtype(dtype).itemsize
    tile = tuning.Tuning(*(40, max(32, 128 // each), 1, 1), strip=8, ahead=True, shared=32 // each)
    check_sums(strategy, tile, (37, 291), dtype, segmented, reverse=reverse, method="auto")


def test_the_array_ends_inside_of_a_word():
    """Nothing is read behind it: the last word is made of single elements."""
    x = np.ones((5, 67), np.int8)  # 335 bytes
    tile = TILES["bytes by sectors"][1]
    with primitives.interpreted(), primitives.tiled(tile):
        found = jax.jit(lambda x: jscan.cumsum(x, axis=0, method="lookback"))(x)
    reference.assert_equal(np.asarray(found), np.cumsum(x, axis=0, dtype=np.int8))


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ({}, True),
        ({"rows": 2}, False),
        ({"lanes": 1, "inner": 1}, False),
        ({"lanes": 66}, False),
        ({"outer": 2**30}, False),
        ({"shared": 64}, False),
        ({"lanes": 32, "shared": 12}, False),  # no whole sectors of the wider elements
    ],
)
def test_what_cannot_share_lanes(changed, fits):
    g = {"outer": 1, "n": 100, "inner": 97, "rows": 1, "length": 16, "lanes": 64, "shared": 16}
    cut = Geometry(**{**g, **changed}, reverse=False, exclusive=False, mixed=False)
    assert sliding.fits(cut, {2, 4}) == fits


def chosen(shape: tuning.Shape) -> tuning.Tuning:
    """The cut of a scan by "auto" beside lanes."""
    down = tuning.down_lanes(shape)
    if down is not None:
        return down
    return tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=shape.exclusive)


# Bytes of an element over all leaves, leaves, complex or not; bytes that an access takes of a leaf.
ELEMENTS = {
    (1, 1, False): 1,
    (2, 1, False): 2,
    (2, 2, False): 1,
    (4, 2, False): 2,
    (4, 1, False): 4,
    (8, 1, False): 8,
    (8, 2, False): 4,
    (12, 3, False): 4,
    (16, 2, False): 8,
    (8, 2, True): 8,  # complex64
    (16, 2, True): 8,  # complex128, which is two arrays
}


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_cuts_that_are_chosen_share_whole_sectors(element):
    """None is chosen that tiles decline, or that splits the sectors of what is read."""
    width, leaves, is_complex = element
    sector = sliding.SECTOR // ELEMENTS[element]
    some = 0
    for (outer, n, inner), segmented, own in itertools.product(
        [(1, 40, 1000003), (16, 1024, 5305), (64, 2001, 302), (32, 8192, 213), (1, 3000, 30522)],
        (False, True),
        (False, True),
    ):
        shape = tuning.Shape(outer, n, inner, width, leaves, segmented, equations=1)
        shape = dataclasses.replace(shape, complex=is_complex, own_flags=own and segmented)
        cut = chosen(shape)
        if not cut.shared:
            continue
        some += 1
        tile: dict[str, Any] = {
            "rows": cut.rows,
            "length": cut.length,
            "lanes": cut.lanes,
            "shared": cut.shared,
        }
        g = Geometry(outer, n, inner, **tile, reverse=False, exclusive=False)
        assert cut.shared % sector == 0, shape
        assert not cut.chunk, shape
        for flags in (set(), {1}, {4}) if segmented else (set(),):
            assert sliding.fits(g, {ELEMENTS[element]} | flags), shape
    assert some
