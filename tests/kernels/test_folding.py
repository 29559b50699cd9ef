"""Tiles of rows that threads fold, against a sequential loop."""

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
from jscan.kernels.tuning import Rows, Shape, Tuning, folded
from tests import reference
from tests.cases import head_flags
from tests.functions import affine
from tests.kernels.test_held import by_kernel, check_leaves, run
from tests.kernels.test_start import AFFINE, Call, integers

every_cut = pytest.mark.parametrize(
    "cut",
    [
        Tuning(256, 1, warps=1, window=8, fold=8),
        Tuning(512, 1, warps=1, window=32, fold=16),
        Tuning(128, 1, warps=2, window=64, fold=4),
    ],
    ids=lambda cut: f"{cut.length} by {cut.fold}",
)
# One row of whole tiles, one that ends inside of a word, rows of whole words and others.
every_shape = pytest.mark.parametrize("shape", [(1, 1024), (1, 1001), (3, 640), (7, 333), (2, 531)])
every_way = pytest.mark.parametrize(
    ("reverse", "exclusive"), [(False, False), (True, False), (False, True), (True, True)]
)


@pytest.mark.sweep
@pytest.mark.parametrize("segmented", [None, "own", "shared", "wide", "bits"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "int64"])
@every_way
@every_cut
@every_shape
@by_kernel
def test_maxima_and_sums(strategy, shape, cut, reverse, exclusive, dtype, segmented):
    """Of numbers sums, of bytes the greatest."""
    x = np.random.default_rng(shape[0]).integers(0, 2, shape).astype(dtype)
    form: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    flags = heads = None
    if segmented:
        flags = head_flags(shape if segmented == "own" else shape[1:], share=0.05)
        heads = flags
        if segmented == "wide":  # of which a byte is zero, and no number positive
            heads = flags.astype(np.int32) * -256
        if segmented == "bits":
            heads = jscan.Segments.from_packed(np.packbits(flags, bitorder="little"), shape[1])
    of_bytes = x.dtype.itemsize == 1
    function, combine = (jscan.cummax, np.maximum) if of_bytes else (jscan.cumsum, np.add)

    def call(x: Any) -> Any:
        return function(x, segments=heads, **form)

    with jax.enable_x64(dtype == "int64"):
        found = run(strategy, cut, call, x)
    least = np.iinfo(dtype).min if dtype == "int8" else 0
    expected = reference.scan(combine, x, identity=np.asarray(least, dtype), flags=flags, **form)
    reference.assert_equal(found, expected.astype(dtype))


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex64"])
@pytest.mark.parametrize("reverse", [False, True])
@every_cut
@every_shape
@by_kernel
def test_what_does_not_commute(strategy, shape, cut, reverse, dtype, segmented):
    a, b = (integers(shape, 1) % 2).astype(dtype), (integers(shape, 2) % 3).astype(dtype)
    flags = head_flags(shape[1:], share=0.2)  # so that halves are exact
    form: dict[str, Any] = {"axis": 1, "reverse": reverse}
    if not segmented:
        a[:, ::16] = 0
    heads = flags if segmented else None

    def call(a: Any, b: Any) -> Any:
        return jscan.linear_recurrence(a, b, segments=heads, **form)

    expected = reference.scan(affine, (a, b), flags=heads, **form)[1]
    reference.assert_equal(run(strategy, cut, call, a, b), expected.astype(dtype))


@every_way
@every_cut
@every_shape
@by_kernel
def test_starts(strategy, shape, cut, reverse, exclusive):
    one = (shape[0], 1)
    how: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    start, is_open = integers(one, 1) * 1000, integers(one, 2) > -5
    Call(jnp.add, [integers(shape)], [start], (0,), None, is_open, **how).check(strategy, cut)
    a, b = integers(shape, 1) % 2, integers(shape, 2)
    how["used"] = (False, True)
    Call(affine, [a, b], [start, start + 1], AFFINE, **how).check(strategy, cut)


@pytest.mark.parametrize("exclusive", [False, True])
@every_cut
@every_shape
@by_kernel
def test_leaves_of_several_dtypes(strategy, shape, cut, exclusive):
    check_leaves(strategy, cut, shape, axis=1, exclusive=exclusive)


@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_tiles_in_which_a_row_begins_are_walked(strategy, reverse):
    """Rows one behind the other, longer than three tiles."""
    cut = Tuning(128, 1, warps=1, window=8, strip=64, fold=8)
    x = integers((5, 1001)).astype(np.int8)

    def call(x: Any) -> Any:
        return jscan.cumsum(x, axis=1, reverse=reverse)

    expected = reference.scan(np.add, x, axis=1, reverse=reverse)
    reference.assert_equal(run(strategy, cut, call, x), expected.astype(np.int8))


@pytest.mark.parametrize("cut", [Tuning(64, 1, 1, 8, fold=f) for f in (3, 12, 64, 128)])
def test_folds_that_no_tile_has(cut):
    """A given cut that cannot be folded is worked through otherwise."""
    x = integers((1, 300))
    with primitives.interpreted(), primitives.tiled(cut):
        found = np.asarray(jax.jit(lambda x: jscan.cumsum(x, axis=1))(x))
    reference.assert_equal(found, np.cumsum(x, axis=1, dtype=x.dtype))


def test_derivatives_by_segments():
    """Slopes are read otherwise, and not folded."""
    a, b, flags = np.full(300, 0.5, np.float32), np.ones(300, np.float32), np.arange(300) % 50 == 0

    def slopes(b: Any) -> Any:
        return jax.grad(lambda b: jscan.linear_recurrence(a, b, segments=flags).sum())(b)

    with primitives.interpreted(), primitives.tiled(Tuning(128, 1, 1, 8, fold=4)):
        found = np.asarray(jax.jit(slopes)(b))
    left = 49 - np.arange(300) % 50
    np.testing.assert_allclose(found, 2 - 0.5 ** left.astype(np.float32), rtol=1e-6)


def shape_of(n: int, outer: int = 1, **what: Any) -> Shape:
    """The shape of an int8 sum of rows, or of what is said."""
    how: dict[str, Any] = {"width": 1, "leaves": 1, "segmented": False, "equations": 1}
    return Shape(outer, n, 1, **{**how, **what})


def test_what_is_folded():
    chosen = Tuning(1024, 1, 1, 32)
    one = shape_of(2**24)
    assert folded(one, chosen, Rows()) is chosen  # which is held
    for rows in (Rows(reverse=True), Rows(reverse=True, walks=True)):
        assert folded(one, chosen, rows) == Tuning(4096, 1, 1, 32, fold=16)
    assert folded(shape_of(2**24 + 1), chosen, Rows()) == Tuning(4096, 1, 1, 32, fold=16)
    long_rows = folded(shape_of(2**25), chosen, Rows(row=2**20 - 1, walks=True))
    assert long_rows == Tuning(4096, 1, 1, 32, strip=512, fold=16)
    by_flags = folded(shape_of(2**24, segmented=True), chosen, Rows(flags=4))
    assert by_flags == Tuning(2048, 1, 1, 32, fold=8)
    words = shape_of(2**24, width=4, segmented=True)
    assert folded(words, chosen, Rows(flags=1)) == Tuning(1024, 1, 1, 32, fold=4)
    apart, lie = dataclasses.replace(words, outer=2**9, n=2**15), Rows(flags=1, reverse=True)
    assert folded(apart, chosen, lie) is chosen
    odd = dataclasses.replace(words, n=2**25 - 2)
    assert folded(odd, chosen, dataclasses.replace(lie, row=2**15 - 1)) == Tuning(
        512, 1, 1, 32, fold=4
    )
    turned = dataclasses.replace(words, exclusive=True)
    assert folded(turned, chosen, lie) is chosen
    wide = shape_of(2**24, width=8, segmented=True)
    of_integers = dataclasses.replace(wide, integers=True)
    assert folded(of_integers, chosen, lie) == Tuning(512, 1, 1, 32, fold=4)
    assert folded(of_integers, chosen, Rows(flags=1)) == Tuning(512, 1, 1, 32, fold=8)
    assert folded(wide, chosen, Rows(flags=1)) == Tuning(1024, 1, 1, 32, fold=4)
    for left in (
        shape_of(2**24 - 1),
        shape_of(2**24, width=4, leaves=4),
        shape_of(2**24, width=4, equations=30, long_steps=True),
        shape_of(1500, outer=16000),
        shape_of(2**24, width=8, leaves=2, segmented=True),
        dataclasses.replace(one, tile=chosen),
        dataclasses.replace(one, inner=2),
    ):
        assert folded(left, chosen, Rows(flags=1)) is chosen


@pytest.mark.parametrize("flags", [0, 1, 4])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("row", [0, 7, 300, 5001, 2**15, 2**20 + 1])
def test_every_chosen_fold_can_be_one(row, reverse, exclusive, flags):
    kinds = ((1, 1), (2, 1), (2, 2), (3, 2), (4, 1), (4, 2), (6, 2), (7, 3), (8, 1), (16, 2))
    lie = Rows(row=row, walks=row > 5000 and not flags, flags=flags, reverse=reverse)
    ways = itertools.product((1, 3, 9), (False, True), (1, 16))
    for (width, leaves), (equations, whole, outer) in itertools.product(kinds, ways):
        how: dict[str, Any] = {"width": width, "leaves": leaves, "equations": equations}
        shape = shape_of(2**25, segmented=flags > 0, exclusive=exclusive, integers=whole, **how)
        if not row:
            shape = dataclasses.replace(shape, outer=outer, n=2**25 // outer)
        found = folded(shape, Tuning(1024, 1, 1, 32), lie)
        assert found.length % max(2 * found.fold, 1) == 0
        assert found.window == 32 * found.warps
        assert found.length * shape.width <= 16384 * found.warps
        assert found.length <= shape.n
