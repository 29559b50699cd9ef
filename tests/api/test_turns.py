"""Scans of a few rows on a CPU, whose loops combine the elements of a turn as a tree."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators
from jscan.pairs import operator_on
from jscan.plain.sequence import scan_in_sequence
from jscan.plain.serial import AT_ONCE
from jscan.plain.steps import Trees, most_of

LENGTHS = (9, 17, 66, 129, 1337)
"""Turns of eight and of four behind the first element, with every rest; stretches of 64."""


def left_zero(a, b):
    """The last of what is not zero: associative, not commutative, and exact."""
    return jnp.where(b == 0, a, b)


def composed(f, g):
    """Affine maps of integers, one behind the other."""
    return f[0] * g[0], g[0] * f[1] + g[1]


def loop(fn, leaves, heads, *, reverse, exclusive, start, identity):
    """The scan of one row by a loop, of leaves as lists of numbers."""
    n = len(leaves[0])
    shown: list[Any] = [None] * n
    before = start
    for i in range(n)[:: -1 if reverse else 1]:
        edge = i + 1 if reverse else i
        if heads is not None and edge < n and heads[edge]:
            before = None
        here = tuple(x[i] for x in leaves)
        now = here if before is None else fn(before, here)
        shown[i] = (identity if before is None else before) if exclusive else now
        before = now
    return [np.array(x) for x in zip(*shown, strict=True)]


def on_integers(f, g):
    return f[0] * g[0], g[0] * f[1] + g[1]


FORMS = [*itertools.product((False, True), (False, True))]
OPERATORS: dict[str, Any] = {
    "sum": (jnp.add, lambda a, b: (a[0] + b[0],), (0,), 1),
    "last": (left_zero, lambda a, b: (b[0] or a[0],), (0,), 1),
    "affine": (composed, on_integers, (1, 0), 2),
}


@pytest.mark.product
@pytest.mark.parametrize("is_segmented", [False, True], ids=["whole", "segmented"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", OPERATORS)
def test_rows_are_what_a_loop_makes_of_them(name, dtype, is_segmented):
    """Of small whole numbers, so that floats are exact too, and every order shows."""
    fn, plain, identity, count = OPERATORS[name]
    rng = np.random.default_rng(0)
    for n, (reverse, exclusive) in zip(itertools.cycle(LENGTHS), FORMS * 2, strict=False):
        # Slopes of one sign or the other keep compositions small.
        leaves = [rng.choice([-1, 1], n), rng.integers(-2, 3, n)][-count:]
        heads = rng.random(n) < 0.1 if is_segmented else None
        form: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive}
        given = tuple(jnp.asarray(x, dtype) for x in leaves)
        found = jscan.associative_scan(
            fn,
            given if count > 1 else given[0],
            segments=heads,
            identity=tuple(np.dtype(dtype).type(i) for i in identity)
            if count > 1
            else np.dtype(dtype).type(identity[0]),
            **form,
        )
        rows = [x.tolist() for x in leaves]
        wanted = loop(plain, rows, heads, start=None, identity=identity, **form)
        for x, y in zip(jax.tree.leaves(found), wanted, strict=True):
            np.testing.assert_array_equal(x, y, f"{n} elements, {form}")


@pytest.mark.parametrize("is_segmented", [False, True], ids=["whole", "segmented"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reversed"])
def test_a_start_comes_before_the_first_turn(reverse, is_segmented):
    rng = np.random.default_rng(1)
    for n, exclusive in itertools.product((9, 66, 129), (False, True)):
        x = rng.integers(-2, 3, n)
        heads = rng.random(n) < 0.1 if is_segmented else None
        form: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive}
        for dtype in ("float32", "int32"):
            start = np.dtype(dtype).type(5)
            found = jscan.cumsum(jnp.asarray(x, dtype), segments=heads, init=start, **form)
            [wanted] = loop(
                lambda a, b: (a[0] + b[0],), [x.tolist()], heads, start=(5,), identity=(0,), **form
            )
            np.testing.assert_array_equal(found, wanted, f"{n} elements of {dtype}, {form}")


@pytest.mark.parametrize("shape", [(2, 67), (3, 33), (67, 2), (33, 3)])
def test_few_rows_and_lanes_take_turns_side_by_side(shape):
    axis = int(shape[0] < shape[1])
    x = np.random.default_rng(2).integers(-2, 3, shape).astype(np.float32)
    np.testing.assert_array_equal(jscan.cumsum(x, axis), np.cumsum(x, axis))
    heads = np.random.default_rng(3).random(shape) < 0.1
    found = jscan.cumsum(x, axis, segments=heads, reverse=True)
    rows = zip(np.moveaxis(x, axis, -1), np.moveaxis(heads, axis, -1), strict=True)
    how: dict[str, Any] = {"reverse": True, "exclusive": False, "start": None, "identity": (0,)}
    wanted = [
        loop(lambda a, b: (a[0] + b[0],), [row.tolist()], flags, **how)[0] for row, flags in rows
    ]
    np.testing.assert_array_equal(np.moveaxis(np.asarray(found), axis, -1), wanted)


def test_a_sum_of_a_row_is_rounded_as_stretches_are():
    """By no more than half an eps of the sizes for each of 3 √n additions; a loop has n."""
    n = 10**5
    x = np.full(n, 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    bound = 3 * np.sqrt(n) * np.finfo(np.float32).eps / 2
    for form in ({}, {"segments": np.arange(n) == n // 3}):
        sizes = exact - np.where(np.arange(n) < n // 3, 0, exact[n // 3 - 1] if form else 0)
        found = np.asarray(jscan.cumsum(x, **form), np.float64)
        assert np.max(np.abs(found - sizes) / sizes) <= bound


def test_turns_beside_flags_are_shorter():
    combine = operator_on(operators.add, np.dtype("float32"))
    assert most_of(combine, segmented=False) == AT_ONCE
    assert most_of(combine, segmented=True) == AT_ONCE // 2


def test_single_rows_are_trees(monkeypatch):
    """That what is tested here is what runs."""
    taken = []
    turn = Trees.turn

    def seen(self, places, state):
        taken.append(places.count)
        return turn(self, places, state)

    monkeypatch.setattr(Trees, "turn", seen)
    combine = operator_on(operators.add, np.dtype("float32"))
    how: dict[str, Any] = {"axis": 0, "reverse": False, "exclusive": False, "segmented": False}
    scan_in_sequence(jnp.ones(100), combine=combine, used=(True,), **how)
    assert {*taken} == {1, AT_ONCE}


@pytest.mark.parametrize("lanes", [1, 4, 16, 24, 100])
def test_lanes_by_fast_operations_are_a_loop_and_exponentials_among_few_a_tree(lanes):
    """By logarithms they are a tree along an axis of many positions, however many they are."""
    x, short = jnp.ones((1024, lanes), jnp.float32), jnp.ones((300, lanes), jnp.float32)

    def has_loop(run: Any, x: Any = x) -> bool:
        lowered = jax.jit(run).trace(x).lower(lowering_platforms=("cpu",))
        return "stablehlo.while" in lowered.as_text()

    def size(x: Any) -> Any:
        return jscan.associative_scan(lambda a, b: jnp.sqrt(a * a + b * b), x)

    assert has_loop(jscan.cummax)
    assert has_loop(size) == (lanes >= 64)
    assert has_loop(jscan.cumlogsumexp, short) == (lanes >= 64)
    assert not has_loop(jscan.cumlogsumexp)
    backwards = functools.partial(jscan.cumlogsumexp, reverse=True)
    assert has_loop(backwards) == (lanes >= 64)
