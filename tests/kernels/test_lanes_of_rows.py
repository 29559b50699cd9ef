"""Axes of few positions with few lanes: the lanes of all rows side by side, or no kernel."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan.kernels import repeating, tuning
from jscan.kernels.layout import Geometry
from jscan.kernels.tuning import Shape, Tuning
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine
from tests.functions import affine
from tests.kernels.test_held import run
from tests.kernels.test_lowering import calls, cuda_program

WAYS = tuple(itertools.product((False, True), repeat=2))
every_way = pytest.mark.parametrize(("reverse", "exclusive"), WAYS)
by_auto = pytest.mark.parametrize(
    "strategy",
    [
        Engine("auto-interpreted", "auto", (), interpreted=True),
        pytest.param(Engine("auto-gpu", "auto", (), gpu=True), marks=pytest.mark.gpu),
    ],
    ids=lambda e: e.name,
)
# Rows of lanes that fill words, and do not; positions that fill a tile, and do not.
SHAPES = ((67, 2, 2), (260, 3, 1), (33, 5, 7), (41, 8, 3), (97, 7, 1), (19, 12, 28), (5, 16, 31))
every_shape = pytest.mark.parametrize("shape", SHAPES)
every_kind = pytest.mark.parametrize("segmented", [None, "own", "rows", "shared"])


@pytest.fixture
def chosen(monkeypatch):
    """What is taken side by side by the rules."""
    told: list[Any] = []
    told_apart = repeating.lanes_of_rows

    def recorded(*how: Any) -> Any:
        told.append(how)
        return told_apart(*how)

    monkeypatch.setattr("jscan.kernels.repeating.lanes_of_rows", recorded)
    return told


@pytest.fixture
def side_by_side(monkeypatch, chosen):
    """Makes all lanes of all rows be scanned so, and tells whether any are."""
    monkeypatch.setattr("jscan.kernels.tuning.suits_lanes_of_rows", lambda _: True)
    monkeypatch.setattr("jscan.kernels.tuning.suits_no_kernel", lambda _: False)
    return chosen


def flags_of(shape: tuple[int, ...], segmented: str | None) -> tuple[Any, Any]:
    """Head flags as they are given, and one for each element; the middle dimension is scanned."""
    if segmented is None:
        return None, None
    given = head_flags(
        {"own": shape, "rows": shape[:2], "shared": shape[1:2]}[segmented], share=0.3
    )
    tall = {"own": given, "rows": given[..., None], "shared": given[..., None]}[segmented]
    return given, np.broadcast_to(tall, shape)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "int64", "complex64"])
@every_way
@every_kind
@every_shape
@by_auto
def test_sums(side_by_side, strategy, shape, segmented, reverse, exclusive, dtype):
    x = np.random.default_rng(3).integers(-2, 3, shape).astype(dtype)
    given, flags = flags_of(shape, segmented)
    way: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    with jax.enable_x64(True):
        found = run(strategy, None, lambda x: jscan.cumsum(x, segments=given, **way), x)
    want = reference.scan(np.add, x, identity=0, flags=flags, **way)
    np.testing.assert_array_equal(found, want.astype(dtype))
    assert side_by_side


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@every_way
@every_kind
@every_shape
@by_auto
def test_logaddexp(side_by_side, strategy, shape, segmented, reverse, exclusive, dtype):
    """Steep ones too, which a sum of exponentials under one maximum would lose."""
    rng = np.random.default_rng(5)
    x = np.asarray(rng.normal(size=shape) * 40, jnp.dtype(dtype))
    given, flags = flags_of(shape, segmented)
    way: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    with jax.enable_x64(True):
        found = run(strategy, None, lambda x: jscan.cumlogsumexp(x, segments=given, **way), x)
    want = reference.scan(np.logaddexp, x, identity=-np.inf, flags=flags, **way)
    unit = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), want, rtol=4 * unit, atol=4 * unit)
    assert side_by_side


@every_way
@every_kind
@every_shape
@by_auto
def test_two_leaves_of_bytes(side_by_side, strategy, shape, segmented, reverse, exclusive):
    rng = np.random.default_rng(7)
    x = tuple(rng.integers(-1, 2, shape).astype("int8") for _ in range(2))
    given, flags = flags_of(shape, segmented)
    way: dict[str, Any] = {"axis": 1, "reverse": reverse}
    way |= {"exclusive": True, "identity": (np.int8(1), np.int8(0))} if exclusive else {}

    def call(*x: Any) -> Any:
        return jscan.associative_scan(affine, x, segments=given, **way)

    found = run(strategy, None, call, *x)
    for result, want in zip(found, reference.scan(affine, x, flags=flags, **way), strict=True):
        np.testing.assert_array_equal(result, want.astype("int8"))
    assert side_by_side


@by_auto
def test_what_is_not_side_by_side(side_by_side, strategy):
    """A start, and a leaf that its lanes share, have tiles of rows."""
    x = np.arange(67 * 3 * 2, dtype=np.float32).reshape(67, 3, 2) % 5
    first, shared = np.ones((67, 2), np.float32), x[:, :, :1]
    begun = run(
        strategy, None, lambda x, h0: jscan.linear_recurrence(x, x, h0=h0, axis=1), x, first
    )
    mixed = run(strategy, None, lambda a, x: jscan.linear_recurrence(a, x, axis=1), shared, x)
    h, k = first, np.zeros_like(first)
    for n in range(3):
        h, k = x[:, n] * h + x[:, n], shared[:, n] * k + x[:, n]
        np.testing.assert_array_equal(begun[:, n], h)
        np.testing.assert_array_equal(mixed[:, n], k)
    assert not side_by_side


@by_auto
def test_mapped_over_rows_with_flags_that_they_share(chosen, strategy):
    """Flags of each element that repeat for every mapped row, in front of the lanes or behind."""
    x = np.random.default_rng(9).integers(-2, 3, (4, 9, 3, 2)).astype("int8")
    flags = head_flags((9, 3, 2), share=0.3)
    for mapped in (0, 3):
        moved = np.moveaxis(x, 0, mapped)
        scan = jax.vmap(lambda x, f: jscan.cumsum(x, axis=1, segments=f), (mapped, None), mapped)
        found = run(strategy, None, scan, moved, flags)
        for number in range(4):
            want = reference.scan(np.add, x[number], axis=1, identity=0, flags=flags)
            np.testing.assert_array_equal(np.take(found, number, mapped), want.astype("int8"))
    assert chosen


@pytest.mark.parametrize("shape", [(40, 3, 3), (40, 5, 1), (7, 3, 4, 2, 2)])
@by_auto
def test_gradients_by_the_rules(chosen, strategy, shape):
    axis = 2 if len(shape) > 3 else 1
    x = np.random.default_rng(11).normal(size=shape)

    def total(x: Any, method: str) -> Any:
        return jnp.sum(jnp.sin(jscan.cumlogsumexp(x, axis=axis, reverse=True, method=method)))

    with jax.enable_x64(True):
        found = run(strategy, None, jax.grad(lambda x: total(x, "auto")), x)
        want = jax.grad(lambda x: total(x, "xla"))(x)
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)
    assert chosen


@by_auto
def test_packed_flags_and_offsets(chosen, strategy):
    x = np.random.default_rng(13).integers(-2, 3, (50, 5, 4)).astype("int8")
    shared = np.array([True, False, True, True, False])
    words = np.packbits(shared, bitorder="little")
    described = (
        lambda: jscan.Segments.from_packed(jnp.asarray(words), 5),
        lambda: jscan.Segments.from_offsets(jnp.asarray([0, 2, 3, 5], jnp.int32), 5),
        lambda: jscan.Segments.from_ids(jnp.asarray([0, 0, 1, 2, 2], jnp.int32)),
    )
    want = reference.scan(
        np.add, x, axis=1, identity=0, flags=np.broadcast_to(shared[None, :, None], x.shape)
    )
    for segments in described:

        def scan(x: Any, segments: Any = segments) -> Any:
            return jscan.cumsum(x, axis=1, segments=segments())

        np.testing.assert_array_equal(run(strategy, None, scan, x), want.astype("int8"))
    assert len(chosen) > 0


def test_programs_of_a_row_are_neighbours():
    """A tile's predecessors in its row have lower numbers either way."""
    g = Geometry(3, 50, 5, 1, 8, 4, reverse=False, exclusive=False)
    for by_row in (False, True):
        g = dataclasses.replace(g, row_by_row=by_row)
        places = [tuple(map(int, g.place(jnp.int32(p)))) for p in range(g.programs)]
        assert len(set(places)) == g.programs == 3 * 7 * 2
        for lanes, row in itertools.product(range(2), range(3)):
            along = [tile for block, each, tile in places if (block, each) == (lanes, row)]
            assert along == [*range(7)]
        slowest = [each for _, each, _ in places] if by_row else [tile for _, _, tile in places]
        assert slowest == sorted(slowest)


LOGADDEXP: dict[str, Any] = {"equations": 9, "long_steps": True, "logaddexp": True}


def shape_of(n: int, inner: int, width: int, leaves: int = 1, **more: Any) -> Shape:
    """Rows enough of a light operator, unless told otherwise."""
    how: dict[str, Any] = {"segmented": more.get("own_flags", False), "equations": 1}
    return Shape(2**20, n, inner, width, leaves, **how | more)


def test_where_lanes_are_side_by_side():
    """Where measured, and nowhere else."""
    suits = tuning.suits_lanes_of_rows
    assert suits(shape_of(3, 3, 8, **LOGADDEXP))
    assert not suits(shape_of(16, 20, 8, **LOGADDEXP))
    assert suits(shape_of(8, 2, 2, **LOGADDEXP))
    assert not suits(shape_of(8, 3, 2, **LOGADDEXP))
    assert suits(shape_of(4, 2, 4, **LOGADDEXP))
    assert not suits(shape_of(8, 3, 4, **LOGADDEXP))
    assert suits(shape_of(3, 2, 8, 2, complex=True, **LOGADDEXP))
    assert not suits(shape_of(3, 2, 16, 2, complex=True, **LOGADDEXP))
    assert suits(shape_of(4, 4, 1, own_flags=True))
    assert not suits(shape_of(4, 4, 1))
    assert suits(shape_of(5, 3, 1))
    assert suits(shape_of(16, 12, 2, 2, equations=3))  # two leaves of a byte
    assert suits(shape_of(3, 4, 2, own_flags=True))
    assert not suits(shape_of(3, 4, 2, own_flags=True, exclusive=True))
    assert suits(shape_of(9, 16, 4, 2, equations=3))  # of two
    assert not suits(shape_of(3, 2, 4))
    assert not suits(shape_of(17, 4, 1, own_flags=True))
    assert not suits(shape_of(4, 1, 1, own_flags=True))
    assert not suits(shape_of(4, 32, 1, own_flags=True))
    assert not suits(shape_of(3, 3, 8, tile=Tuning(4, 64, 1, 1), **LOGADDEXP))
    assert not suits(shape_of(3, 4, 1, own_flags=True, roots=True))
    assert not suits(dataclasses.replace(shape_of(3, 3, 8, **LOGADDEXP), outer=1))
    far = dataclasses.replace(shape_of(3, 3, 8, **LOGADDEXP), outer=2**28)  # beyond 32 bits
    assert not suits(far)


def test_where_lanes_alone_are_side_by_side():
    suits = tuning.suits_lanes_of_rows
    assert suits(shape_of(3, 1, 8, **LOGADDEXP))
    assert suits(shape_of(12, 1, 8, own_flags=True, **LOGADDEXP))
    assert not suits(shape_of(12, 1, 8, **LOGADDEXP))
    assert not suits(shape_of(3, 1, 8, segmented=True, **LOGADDEXP))  # flags that rows share
    assert suits(shape_of(5, 1, 2, **LOGADDEXP))
    assert not suits(shape_of(4, 1, 2, **LOGADDEXP))
    assert suits(shape_of(3, 1, 8, 2, complex=True, **LOGADDEXP))
    assert not suits(shape_of(4, 1, 8, 2, complex=True, **LOGADDEXP))
    assert suits(shape_of(3, 1, 4, own_flags=True, **LOGADDEXP))
    assert not suits(shape_of(3, 1, 4, **LOGADDEXP))
    assert suits(shape_of(3, 1, 8, exclusive=True, **LOGADDEXP))
    assert not suits(shape_of(5, 1, 2, exclusive=True, **LOGADDEXP))
    assert not suits(shape_of(3, 1, 1, own_flags=True))


def test_where_no_kernel_runs():
    suits = tuning.suits_no_kernel
    assert suits(shape_of(2, 1, 8, own_flags=True))
    assert suits(shape_of(2, 1, 8, own_flags=True, exclusive=True))
    assert suits(shape_of(2, 1, 16, 4, complex=True, own_flags=True))  # recurrences of complex64
    assert not suits(shape_of(2, 1, 16, 2, complex=True, own_flags=True))  # sums of complex128
    assert suits(shape_of(2, 2, 2, own_flags=True))
    assert not suits(shape_of(2, 2, 2, own_flags=True, exclusive=True))
    assert not suits(shape_of(2, 2, 1, own_flags=True))
    assert suits(shape_of(2, 1, 4, own_flags=True, **LOGADDEXP))
    assert not suits(shape_of(2, 1, 4, own_flags=True, exclusive=True, **LOGADDEXP))
    assert suits(shape_of(2, 1, 4, own_flags=True))
    assert not suits(dataclasses.replace(shape_of(2, 1, 4, own_flags=True), outer=2**20 + 1))
    assert not suits(shape_of(2, 1, 4, own_flags=True, exclusive=True))
    assert suits(shape_of(2, 1, 3, 2, even=False, narrowest=1))
    assert not suits(shape_of(2, 1, 5, 2, even=False, narrowest=1))
    assert not suits(shape_of(3, 1, 8, own_flags=True))


def test_tiles_of_such_lanes():
    wide = shape_of(3, 3, 8, **LOGADDEXP).of_all_rows()
    assert (wide.outer, wide.n, wide.inner) == (1, 3, 3 * 2**20)
    assert tuning.lanes_of_rows(wide) == Tuning(4, 128, 1, 1)
    assert tuning.lanes_of_rows(shape_of(4, 4, 1).of_all_rows()) == Tuning(4, 256, 1, 1)
    few = shape_of(2, 3, 4, **LOGADDEXP)
    assert tuning.lanes_of_rows(few.of_all_rows()).lanes >= 32


@pytest.mark.parametrize(
    ("inner", "dtype", "call", "own", "count"),
    [
        (1, "int64", jscan.cumsum, True, 0),
        (1, "float32", jscan.cumsum, True, 0),
        (1, "float32", jscan.cumsum, False, 1),
        (1, "float16", jscan.cumsum, True, 1),
        (2, "float32", jscan.cumsum, True, 0),
        (2, "float32", jscan.cumsum, False, 1),
        (2, "uint8", jscan.cumsum, True, 1),
        (3, "float32", jscan.cumsum, True, 1),
        (1, "float64", jscan.cumlogsumexp, False, 0),
        (1, "float32", jscan.cumlogsumexp, True, 0),
        (1, "float32", jscan.cumlogsumexp, False, 1),
        (2, "float32", jscan.cumlogsumexp, False, 0),
        (2, "bfloat16", jscan.cumlogsumexp, False, 1),
    ],
)
def test_two_positions_that_xla_combines(inner, dtype, call, own, count):
    """One loop of XLA's, and no kernel, where that is faster."""
    with jax.enable_x64(True):
        x = jax.ShapeDtypeStruct((2**20, 2, inner), jnp.dtype(dtype))
        flags = jax.ShapeDtypeStruct(x.shape, jnp.bool_)
        given = (x, flags) if own else (x,)

        def scan(x: Any, flags: Any = None) -> Any:
            return call(x, axis=1, segments=flags)

        assert calls(cuda_program(scan, *given)) == count


def test_two_positions_by_a_named_method():
    """A method that is asked for is taken."""
    x = jax.ShapeDtypeStruct((2**10, 2, 2), jnp.float32)
    program = cuda_program(lambda x: jscan.cumlogsumexp(x, axis=1, method="block"), x)
    assert calls(program) == 1
