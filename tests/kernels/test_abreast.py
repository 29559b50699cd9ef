"""Lanes that are scanned abreast, several in a word, against a loop."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from jscan.kernels import abreast, engines, tuning
from tests import reference
from tests.cases import head_flags
from tests.engines import by_kernel
from tests.functions import affine

TILES = {
    "held": tuning.Tuning(16, 8, 1, 2, held=8, abreast=True),
    "held, a word shared": tuning.Tuning(32, 16, 1, 2, held=16, shared=1, abreast=True),
    "strips": tuning.Tuning(32, 16, 1, 2, strip=8, shared=8, abreast=True),
    "plain": tuning.Tuning(16, 32, 1, 4, abreast=True),
}
every_tile = pytest.mark.parametrize("tile", TILES.values(), ids=TILES.keys())
# Rows that begin at every byte of a word, at every other one, and with words; an array that ends
# inside of a word; an axis that ends inside of a tile, and of a strip.
SHAPES = ((37, 97), (48, 132), (24, 66), (2, 40, 67))
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
FORMS: dict[str, dict[str, Any]] = {
    "forwards": {},
    "reversed by segments": {"reverse": True, "segmented": True},
    "exclusive by segments": {"exclusive": True, "segmented": True},
    "exclusive reversed": {"exclusive": True, "reverse": True},
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def last_write(a: Any, b: Any) -> Any:
    return jnp.where(b != 0, b, a)


def joined(a: Any, b: Any) -> Any:
    return a + b + a * b


OPERATORS: dict[str, Any] = {
    "sum": jnp.add,
    "greatest": jnp.maximum,
    "last write": last_write,
    "a + b + a b": joined,
}


def check(strategy: Any, tile: Any, combine: Any, leaves: Any, **form: Any) -> None:
    """A scan along the last axis but one, of narrow integers."""
    shape, segmented = leaves[0].shape, form.pop("segmented", False)
    form |= {"axis": len(shape) - 2}
    flags = head_flags(shape[:-1], share=0.1) if segmented else None
    if form.get("exclusive"):
        form["identity"] = tuple(np.zeros((), x.dtype) for x in leaves)
    one = len(leaves) == 1
    operator = (lambda a, b: (combine(a[0], b[0]),)) if one else combine

    def call(*x: Any) -> Any:
        return jscan.associative_scan(operator, x, segments=flags, method="lookback", **form)

    with strategy.active(), primitives.tiled(tile):
        found = jax.tree.map(np.asarray, jax.jit(call)(*leaves))
    expected = reference.scan(operator, leaves, flags=flags, **form)
    for x, wanted, leaf in zip(found, expected, leaves, strict=True):
        reference.assert_equal(x, wanted.astype(leaf.dtype))


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Any numbers of a dtype, of which a third are zero."""
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    x = rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    return np.where(rng.random(shape) < 0.3, 0, x).astype(dtype)


@pytest.mark.sweep
@every_form
@every_shape
@every_tile
@pytest.mark.parametrize("dtype", ["int8", "uint16"])
@by_kernel
def test_sums(strategy, dtype, tile, shape, form):
    check(strategy, tile, jnp.add, (numbers(shape, dtype),), **form)


@pytest.mark.sweep
@every_form
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@by_kernel
def test_operators(strategy, dtype, name, form):
    shape = (37, 97) if dtype.endswith("8") else (21, 131)
    check(strategy, TILES["held"], OPERATORS[name], (numbers(shape, dtype),), **form)


@every_form
@pytest.mark.parametrize("dtype", ["int8", "uint16"])
@pytest.mark.parametrize("tile", ["held", "strips"])
@by_kernel
def test_pairs(strategy, tile, dtype, form):
    leaves = numbers((37, 97), dtype), numbers((37, 97), dtype, 1)
    check(strategy, TILES[tile], affine, leaves, **form)


@pytest.mark.parametrize("lanes", [97, 100])
@by_kernel
def test_booleans(strategy, lanes):
    x = np.random.default_rng(0).random((37, lanes)) < 0.1
    with strategy.active(), primitives.tiled(TILES["held"]):
        found = jax.jit(lambda x: jscan.associative_scan(jnp.logical_or, x, method="lookback"))(x)
    reference.assert_equal(np.asarray(found), np.logical_or.accumulate(x, axis=0))


@by_kernel
def test_one_of_two_results(strategy):
    """Of a recurrence the coefficients' products are not written."""
    a, b = numbers((40, 97), "int8"), numbers((40, 97), "int8", 1)
    h, expected = np.zeros(97, np.int8), np.empty_like(b)
    for t in range(40):
        h = expected[t] = (a[t] * h + b[t]).astype(np.int8)
    with strategy.active(), primitives.tiled(TILES["held"]):
        call = jax.jit(lambda a, b: jscan.linear_recurrence(a, b, axis=0, method="lookback"))
        reference.assert_equal(np.asarray(call(a, b)), expected)


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_maxima_by_the_text_of_kernels(monkeypatch, dtype, segmented):
    """Comparisons spread the signs of places, by an instruction that Triton's interpreter takes."""
    from tests.kernels import triton_interpreter  # skips this test alone where Triton is missing

    made, rng, info = triton_interpreter.Engine(), np.random.default_rng(5), np.iinfo(dtype)
    monkeypatch.setattr(engines, "running", lambda: made)
    x = rng.integers(info.min, info.max, (24, 36), dtype, endpoint=True)
    flags = rng.random(24) < 0.1 if segmented else None
    with primitives.interpreted(), primitives.tiled(TILES["held"]):
        found = jscan.cummax(x, axis=0, segments=flags, method="lookback")
    reference.assert_equal(found, reference.scan(np.maximum, x, axis=0, flags=flags))


# --- what is chosen -----------------------------------------------------------------------------


def cut_of(
    monkeypatch: pytest.MonkeyPatch, strategy: Any, x: Any, call: Any
) -> tuple[Any, list[tuning.Tuning | None]]:
    """The result of a call by "auto", and the cut of lanes that it took or did not."""
    cuts: list[tuning.Tuning | None] = []
    lanes = abreast.lanes

    def recorded(*told: Any, **named: Any) -> Any:
        found = lanes(*told, **named)
        cuts.append(None if found is None else found.tuned)
        return found

    monkeypatch.setattr(abreast, "lanes", recorded)
    with strategy.active():
        return np.asarray(jax.jit(call)(x)), cuts


CHOSEN: dict[str, tuple[str, tuple[int, ...], str | None, dict[str, int]]] = {
    "whole sectors": ("int8", (300, 416), None, {"length": 64, "shared": 0}),
    "whole words": ("uint8", (300, 404), "shared", {"length": 64, "shared": 8}),
    "few columns": ("int8", (300, 403), None, {"length": 64, "shared": 1}),
    "few columns by segments": ("int8", (300, 403), "shared", {"length": 32, "shared": 1}),
    "many columns": ("int8", (13, 257, 403), None, {"length": 64, "shared": 8}),
    "halves": ("int16", (300, 208), "shared", {"length": 64, "shared": 0}),
}


@pytest.mark.parametrize("name", CHOSEN)
@by_kernel
def test_what_is_chosen(monkeypatch, strategy, name):
    dtype, shape, segmented, wanted = CHOSEN[name]
    axis, x = len(shape) - 2, numbers(shape, dtype)
    flags = head_flags(shape[:-1], share=0.05) if segmented else None
    call = lambda x: jscan.cumsum(x, axis=axis, segments=flags)  # noqa: E731
    found, [cut] = cut_of(monkeypatch, strategy, x, call)
    assert cut is not None
    assert {key: getattr(cut, key) for key in wanted} == wanted
    expected = reference.scan(np.add, x, identity=np.zeros((), dtype), axis=axis, flags=flags)
    reference.assert_equal(found, expected.astype(dtype))


@pytest.mark.parametrize("case", ["own flags", "a word"])
@by_kernel
def test_a_given_cut_that_cannot_be(strategy, case):
    """Flags of each lane's own, and lanes that fit one word, are scanned lane by lane."""
    shape = (40, 3) if case == "a word" else (40, 97)
    x, flags = numbers(shape, "int8"), head_flags(shape, share=0.1)
    with strategy.active(), primitives.tiled(TILES["held"]):
        call = jax.jit(lambda x: jscan.cumsum(x, segments=flags, method="lookback"))
        found = np.asarray(call(x))
    expected = reference.scan(np.add, x, identity=np.zeros((), "int8"), axis=0, flags=flags)
    reference.assert_equal(found, expected.astype("int8"))


def test_lanes_that_threads_walk_down():
    """Bytes of few positions, which tiles of words share lanes of; no others."""
    few = tuning.Shape(1, 40, 300003, width=1, leaves=1, segmented=True, equations=1, integers=True)
    suits = functools.partial(tuning.suits_words_of_lanes, walks=True, products=False)
    assert suits(few)
    assert tuning.down_lanes(few.abreast(4)) is not None
    assert not suits(dataclasses.replace(few, n=90))
    assert not suits(dataclasses.replace(few, width=2))
    assert not suits(dataclasses.replace(few, width=2, leaves=2))


@pytest.mark.parametrize("case", ["own flags", "few lanes", "floats", "division", "short"])
@by_kernel
def test_what_is_not(monkeypatch, strategy, case):
    """Flags of each lane's own, few bytes a row, floats, operators without places, short axes."""
    shape = {"few lanes": (300, 100), "short": (60, 416)}.get(case, (300, 416))
    x = numbers(shape, "int8").astype("float16" if case == "floats" else "int8")
    flags = head_flags(shape, share=0.05) if case == "own flags" else None
    fn = (lambda a, b: a // 2 + b // 2) if case == "division" else jnp.maximum
    call = lambda x: jscan.associative_scan(fn, x, segments=flags)  # noqa: E731
    _, cuts = cut_of(monkeypatch, strategy, x, call)
    assert cuts
    assert not any(cuts)
