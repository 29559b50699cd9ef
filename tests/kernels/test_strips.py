"""Beside lanes: a whole axis that threads walk by strips, and strips that are read twice."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import flagging, tuning
from jscan.kernels.strips import Part
from jscan.kernels.tuning import Tuning, by_strips
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine
from tests.functions import affine
from tests.kernels.test_held import check_leaves, check_sums, run
from tests.kernels.test_lowering import cuda_program
from tests.kernels.test_start import AFFINE, Call, integers

by_kernel = pytest.mark.parametrize(
    "strategy",
    [
        Engine("interpreted", "auto", (), interpreted=True),
        pytest.param(Engine("gpu", "auto", (), gpu=True), marks=pytest.mark.gpu),
    ],
    ids=lambda e: e.name,
)
WALKED = Tuning(256, 64, warps=1, window=1, strip=16)
TWICE = Tuning(64, 64, warps=1, window=2, strip=16)
every_cut = pytest.mark.parametrize(
    "cut",
    [
        WALKED,
        Tuning(208, 32, 1, 1, strip=8),
        Tuning(256, 64, warps=1, window=1, strip=16, ahead=True),
        TWICE,
        Tuning(32, 128, 4, 4, strip=8),
    ],
    ids=["walked", "walked-32", "ahead", "twice", "twice-128"],
)
# The axis ends inside of a strip, with one, and long before a tile does.
every_shape = pytest.mark.parametrize("shape", [(131, 67), (192, 64), (200, 3, 40)])
every_way = pytest.mark.parametrize(
    ("reverse", "exclusive"), [(False, False), (True, False), (False, True), (True, True)]
)


@pytest.mark.parametrize("segmented", [None, "own", "shared", "wide"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32"])
@every_way
@every_cut
@every_shape
@by_kernel
def test_sums(strategy, shape, cut, reverse, exclusive, dtype, segmented):
    check_sums(strategy, cut, shape, dtype, segmented, reverse=reverse, exclusive=exclusive)


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@every_cut
@by_kernel
def test_what_does_not_commute(strategy, cut, reverse, bits):
    shape = (3, 150, 37)
    a, b = integers(shape, 1) % 2, integers(shape, 2)
    flags = head_flags((150,), share=0.05)
    heads = jscan.Segments.from_flags(flags)
    if bits:
        heads = jscan.Segments.from_packed(heads.packed(), 150)

    def call(a: Any, b: Any) -> Any:
        return jscan.linear_recurrence(a, b, axis=1, segments=heads, reverse=reverse)

    form: dict[str, Any] = {"axis": 1, "reverse": reverse, "flags": flags}
    expected = reference.scan(affine, (a, b), **form)[1]
    reference.assert_equal(run(strategy, cut, call, a, b), expected.astype(b.dtype))


@every_way
@every_cut
@by_kernel
def test_starts(strategy, cut, reverse, exclusive):
    shape, one = (131, 40), (1, 40)
    how: dict[str, Any] = {"axis": 0, "reverse": reverse, "exclusive": exclusive}
    start, is_open = integers(one, 1) * 1000, integers(one, 2) > -5
    Call(jnp.add, [integers(shape)], [start], (0,), None, is_open, **how).check(strategy, cut)
    a, b = integers(shape, 1) % 2, integers(shape, 2)
    how["used"] = (False, True)
    Call(affine, [a, b], [start, start + 1], AFFINE, **how).check(strategy, cut)


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@every_cut
@by_kernel
def test_logaddexp(strategy, cut, reverse, segmented):
    shape = (131, 70)
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32) * 30
    flags = head_flags(shape[:1], share=0.05) if segmented else None

    def call(x: Any) -> Any:
        return jscan.cumlogsumexp(x, axis=0, segments=flags, reverse=reverse)

    wide = x.astype(np.float64)
    expected = reference.scan(np.logaddexp, wide, axis=0, flags=flags, reverse=reverse)
    found = run(strategy, cut, call, x).astype(np.float64)
    reference.assert_within(found, expected, 64 * 2.0**-23 * np.maximum(1, np.abs(expected)))


@pytest.mark.parametrize("exclusive", [False, True])
@every_cut
@by_kernel
def test_leaves_of_several_dtypes(strategy, cut, exclusive):
    check_leaves(strategy, cut, (131, 70), axis=0, exclusive=exclusive)


@pytest.mark.parametrize(
    ("cut", "kernel", "strips"), [(WALKED, "jscan_parts", 1), (TWICE, "jscan_lookback", 2)]
)
def test_strips_are_taken(cut, kernel, strips, monkeypatch):
    """An axis that is walked has one part; a tile that is read twice has a part in each variant."""
    made = []
    begins = Part.__init__

    def noted(self: Any, *given: Any) -> None:
        made.append(self)
        begins(self, *given)

    monkeypatch.setattr(Part, "__init__", noted)
    with primitives.tiled(cut):
        text = cuda_program(lambda x: jscan.cumsum(x, axis=0), jnp.ones((131, 67), jnp.int32))
    assert kernel in text
    assert len(made) == strips


@pytest.mark.parametrize(
    "cut",
    [
        Tuning(16, 32, 1, 2, strip=32),
        Tuning(64, 32, 1, 1, strip=48),
        Tuning(32, 32, 1, 2, strip=24),
        Tuning(64, 64, 1, 1, strip=16, chunk=8),
        Tuning(64, 32, 1, 1, rows=2, strip=16),
    ],
)
def test_strips_that_no_tile_has(cut):
    """A given cut that is not of whole strips is worked through otherwise."""
    x = integers((4, 50, 40))
    with primitives.interpreted(), primitives.tiled(cut):
        found = np.asarray(jax.jit(lambda x: jscan.cumsum(x, axis=1))(x))
    reference.assert_equal(found, np.cumsum(x, axis=1, dtype=x.dtype))


def test_many_leaves_under_exponentials():
    def combine(a: Any, b: Any) -> Any:
        top = jnp.maximum(a[0], b[0])
        left, right = jnp.exp(a[0] - top), jnp.exp(b[0] - top)
        pairs = zip(a[1:], b[1:], strict=True)
        return (top, *(x * left + y * right for x, y in pairs))

    leaves = [jax.ShapeDtypeStruct((8, 32768), np.dtype(np.float32))] * 65
    with primitives.interpreted():
        call = jax.jit(lambda *x: jscan.associative_scan(combine, x, axis=0))
        assert len(call.lower(*leaves).out_info) == 65


def shape_of(inner: int, n: int = 300, **what: Any) -> tuning.Shape:
    """The shape of a float32 sum beside so many lanes, or of what is said."""
    how: dict[str, Any] = {"width": 4, "leaves": 1, "segmented": False, "equations": 1}
    return tuning.Shape(1, n, inner, **{**how, **what})


def test_axes_are_walked_where_there_are_lanes_enough():
    assert tuning.down_lanes(shape_of(63488)) is None
    assert tuning.down_lanes(shape_of(2**16)) == Tuning(304, 64, 1, 1, strip=16)
    assert tuning.down_lanes(shape_of(2**20)) == Tuning(304, 128, 1, 1, strip=8)
    for other in ({"n": 8}, {"n": 5000}, {"n": 600, "long_steps": True}):
        assert tuning.down_lanes(shape_of(2**20, **other)) is None
    for width, leaves in ((1, 1), (2, 1), (2, 2), (4, 1), (5, 2), (8, 1), (8, 2), (12, 3), (16, 2)):
        for inner in (40, 143, 2**17 + 1, 2**18):
            for segmented in (False, True):
                found = tuning.down_lanes(
                    shape_of(inner, width=width, leaves=leaves, segmented=segmented)
                )
                assert (found is not None) == (inner > 143)
                if found is not None:
                    assert found.length >= 300
                    assert found.length % found.strip == 0
                    # What a thread reads at once fits its registers.
                    each = found.strip * found.lanes // (32 * found.warps)
                    assert each * max(leaves, width // 4) <= 128


def test_segmented_lanes_are_held_or_read_twice():
    def cut(**what: Any) -> Tuning:
        shape = shape_of(1024, n=80000, segmented=True, **what)
        return tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)

    assert cut(width=2).held
    assert cut(width=2, leaves=2, own_flags=True).held
    assert cut(width=2, leaves=2).strip
    assert cut(width=1).strip
    assert cut(width=2, selects=True).held
    assert cut(width=2, selects=True, own_flags=True).strip
    assert cut(width=2, equations=3).strip
    assert cut(width=4, equations=6).held
    assert cut(width=8, equations=6) == tuning.lookback(
        shape_of(1024, n=80000, width=8, segmented=True, equations=6)
    )


def test_long_axes_of_some_lanes_are_read_twice():
    def cut(inner: int, n: int = 2**20, outer: int = 1, **what: Any) -> Tuning:
        shape = dataclasses.replace(shape_of(inner, n, **what), outer=outer)
        return tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)

    by_segments = {"segmented": True}
    of_32, of_64 = (Tuning(256, lanes, warps=1, window=2, strip=16) for lanes in (32, 64))
    assert cut(17, width=2, **by_segments) == cut(31, width=1, outer=32) == of_32
    assert cut(50, width=2, leaves=2, equations=3) == cut(41, width=1) == of_64
    assert cut(41, **by_segments) == cut(41, width=1, **by_segments) == of_64
    assert cut(17, width=2, long_steps=True, equations=26, outer=100, **by_segments) == of_32
    others = [
        *(cut(17), cut(32, width=2), cut(17, n=2**13, width=2), cut(17, outer=33, width=2)),
        *(cut(41), cut(41, width=2, own_flags=True, **by_segments), cut(17, **by_segments)),
    ]
    assert of_32 not in others
    assert of_64 not in others


@pytest.mark.parametrize(
    ("shape", "differ"),
    [((2, 70, 41), True), ((1, 70, 41), True), ((2, 70, 1), False), ((1, 70, 1), False)],
)
def test_lanes_have_flags_of_their_own_where_these_differ_beside_the_axis(shape, differ):
    flags = jnp.zeros(shape, bool)
    marks = flagging.Marks("flags", flags, 1, shape[1], False)
    assert marks.differ_beside(1, (2, 70, 41)) == differ


@pytest.mark.parametrize("lanes", [17, 50])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@by_kernel
def test_some_lanes(strategy, reverse, segmented, lanes):
    """Tiles of 256 positions, of which a lane has strips of its own."""
    cut = Tuning(256, 32 if lanes == 17 else 64, warps=1, window=2, strip=16)
    shape, form = (600, lanes), {"axis": 0, "reverse": reverse}
    a, b = integers(shape, 1) % 2, integers(shape, 2)
    flags = head_flags(shape, share=0.01) if segmented else None
    x = jnp.asarray(np.random.default_rng(3).normal(size=shape), jnp.bfloat16)

    def call(a: Any, b: Any, x: Any) -> Any:
        how = {"segments": flags, **form}
        return jscan.linear_recurrence(a, b, **how), jscan.cumlogsumexp(x, **how)

    found, logarithms = run(strategy, cut, call, a, b, x)
    expected = reference.scan(affine, (a, b), flags=flags, **form)[1]
    reference.assert_equal(found, expected.astype(b.dtype))
    wide = np.asarray(x, np.float64)
    expected = reference.scan(np.logaddexp, wide, flags=flags, **form)
    bound = 2.0**-7 * np.maximum(1, np.abs(expected))
    reference.assert_within(np.asarray(logarithms, np.float64), expected, bound)


@pytest.mark.parametrize(
    "shape",
    [(300, 70000), (70, 131075), (2, 40, 40000), (500, 300, 143), (200003, 41), (300007, 28)],
)
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.gpu
def test_cuts_that_are_chosen(reverse, segmented, dtype, shape):
    axis = len(shape) - 2
    x = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    flags = head_flags(shape[axis : axis + 1], share=0.05) if segmented else None
    chosen = by_strips.down_lanes(tuning.Shape(1, 300, 70000, 4, 1, False, equations=1))
    assert chosen is not None
    with jax.enable_x64(True):
        form: dict[str, Any] = {"axis": axis, "reverse": reverse}
        call = jax.jit(lambda x: jscan.cummax(x, segments=flags, **form))
        found = np.asarray(call(jnp.asarray(x)))
    reference.assert_equal(found, reference.scan(np.maximum, x, flags=flags, **form))
