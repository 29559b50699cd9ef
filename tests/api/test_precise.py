"""Sums in compensated pairs, against sums of fractions, which are exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan import compensation, primitives
from jscan.kernels import tuning
from tests.cases import FORMS, form_name, head_flags

TILE = tuning.Tuning(length=16, lanes=1, warps=1, window=2, strip=8)
IN_KERNELS = (
    "repeatable",
    *(
        pytest.param(method, marks=pytest.mark.thorough)
        for method in ("lookback", "chained", "reduce_then_scan", "scan_then_propagate")
    ),
)
SLACK = 1e-4
"""Of a spacing: what is lost in pairs, beside the half that rounding once takes."""


def wide(n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Numbers of both signs over twelve orders of magnitude."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=n) * 10.0 ** rng.integers(-6, 6, n), np.float32)


def exact(
    x: np.ndarray[Any, Any],
    heads: np.ndarray[Any, Any] | None,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> list[Fraction]:
    """The sums, as fractions."""
    n = len(x)
    sums = [Fraction(0)] * n
    total = Fraction(0)
    for i in range(n - 1, -1, -1) if reverse else range(n):
        place = i + 1 if reverse else i
        if heads is not None and place < n and heads[place]:
            total = Fraction(0)
        before, total = total, total + Fraction(float(x[i]))
        sums[i] = before if exclusive else total
    return sums


def assert_rounded_once(found: Any, right: list[Fraction]) -> None:
    """Results are within half a spacing of the exact ones, but for very little."""
    found = np.asarray(found)
    for y, s in zip(found, right, strict=True):
        spacing = float(np.spacing(np.asarray(abs(float(s)), found.dtype)))
        assert abs(Fraction(float(y)) - s) <= Fraction(spacing) * Fraction(0.5 + SLACK), (y, s)


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Kernels in small tiles, interpreted."""
    with primitives.interpreted(), primitives.tiled(TILE):
        yield


@pytest.mark.parametrize("method", ["auto", pytest.param("xla", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_each_sum_is_rounded_once(method, form):
    reverse, exclusive, segmented = form
    x = wide(500)
    heads = head_flags((500,), share=0.01) if segmented else None
    how: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive}
    found = jscan.cumsum(x, segments=heads, method=method, precise=True, **how)
    assert_rounded_once(found, exact(x, heads, **how))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("method", IN_KERNELS)
def test_each_sum_is_rounded_once_in_kernels(method):
    x, heads = wide(300), head_flags((300,), share=0.02)
    assert_rounded_once(jscan.cumsum(x, method=method, precise=True), exact(x, None))
    how: dict[str, Any] = {"reverse": True, "exclusive": True}
    found = jscan.cumsum(x, segments=heads, method=method, precise=True, **how)
    assert_rounded_once(found, exact(x, heads, **how))


@pytest.mark.parametrize("reverse", [False, True])
def test_an_initial_value_is_one_more_element(reverse):
    x, init = wide(99), np.float32(1e5 / 3)
    longer = np.concatenate([x, [init]] if reverse else [[init], x])
    right = exact(longer, None, reverse=reverse)
    found = jscan.cumsum(x, reverse=reverse, init=init, precise=True)
    assert_rounded_once(found, right[:-1] if reverse else right[1:])


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_lanes(axis):
    x = np.stack([wide(70, seed) for seed in range(3)], 1 - axis)
    found = np.moveaxis(np.asarray(jscan.cumsum(x, axis, method="lookback", precise=True)), axis, 1)
    for row, sums in zip(np.moveaxis(x, axis, 1), found, strict=True):
        assert_rounded_once(sums, exact(row, None))


def test_the_last_of_many_is_their_exact_sum():
    """A plain sum of them is off by thousands of spacings."""
    x = wide(200_001)
    right = math.fsum(x.astype(np.float64))
    assert np.asarray(jscan.cumsum(x, precise=True))[-1] == np.float32(right)


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_sums_of_numbers_without_a_sign_never_fall(method):
    """Multiples of one power of two whose sum is at most 2^47 of it: pairs of these are exact."""
    rng = np.random.default_rng(0)
    x = (rng.integers(0, 2**23, 100_003) * 2.0**-23).astype(np.float32)
    found = np.asarray(jscan.cumsum(x, method=method, precise=True))
    assert (np.diff(found) >= 0).all()
    right = np.cumsum(x.astype(np.float64))  # without rounding
    np.testing.assert_array_equal(found, right.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_numbers_lose_nothing_from_the_bound_up(dtype):
    """Multiples of the smallest normal number, below which a CPU knows zero alone."""
    with jax.enable_x64(dtype == "float64"):
        smallest, digits = np.finfo(dtype).tiny, np.finfo(dtype).nmant
        rng = np.random.default_rng(0)
        multiples = rng.integers(2**digits, 2 ** (digits + 1), 3000) * rng.choice([-1, 0, 1], 3000)
        x = multiples.astype(dtype) * smallest
        right = np.array([float(s) for s in itertools.accumulate(map(int, multiples))], dtype)
        found = np.asarray(jscan.cumsum(x, precise=True))
        np.testing.assert_array_equal(found, right * smallest)


def test_infinities_come_out_as_of_a_plain_sum():
    for x in ([1, np.inf, 2, -np.inf, 3], [1, np.nan, 2], [1, 3e38, 3e38, -3e38], [-np.inf, 1]):
        given = np.array(x, np.float32)
        plain = jscan.cumsum(given)
        np.testing.assert_array_equal(jscan.cumsum(given, precise=True), plain)


MOST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    "x",
    [
        [3 * 2.0**103, -MOST],
        [-MOST, 3 * 2.0**103],
        [3 * 2.0**103, -MOST, 1, MOST, -1, -(2.0**104), 2.0**103],
        [MOST, 2.0**102, 2.0**102, 0, -(2.0**104)],  # rounds up to infinity, and comes back
    ],
)
def test_finite_sums_next_to_infinity_are_at_least_plain_ones(x):
    """A step between two numbers of which the sum is finite may overflow."""
    given = np.array(x, np.float32)
    sums, plain = jscan.cumsum(given, precise=True), jscan.cumsum(given)
    behind = jscan.cumsum(given[1:], init=given[0], precise=True)
    for found, right in ((sums, plain), (behind, plain[1:])):
        np.testing.assert_allclose(found, right, rtol=2.0**-23)


def test_a_pair_is_finite_where_the_plain_sum_is():
    """Of numbers next to infinity, and of what pairs that stand for them have lost."""
    near = [MOST * (1 - k * 2.0**-24) for k in range(0, 8, 2)]
    far = [m * 2.0**e for e in (102, 103, 126, 127) for m in (1.0, 1.5)]
    sizes = np.array([0, 1, *near, *far], np.float32)
    x, y = map(np.ravel, np.meshgrid(*[np.concatenate([sizes, -sizes])] * 2))
    for share in (-0.5, 0, 0.5):
        lost = [np.spacing(np.abs(a) / 2) * np.float32(share) for a in (x, y)]
        with np.errstate(over="ignore"):
            plain = x + y
        found, left = map(np.asarray, jax.jit(compensation.added)((x, lost[0]), (y, lost[1])))
        fits = np.isfinite(plain)
        np.testing.assert_array_equal(np.isfinite(found), fits)
        right = sum(a.astype(np.float64) for a in (x, y, *lost))
        off = np.abs(found - right)[fits]
        assert (off <= np.abs(plain - right)[fits]).all()
        kept = fits & np.isfinite(left)
        np.testing.assert_allclose((found + left.astype(np.float64))[kept], right[kept], 2.0**-46)
        # Only of the largest float itself and one of another sign is nothing known.
        assert (np.maximum(np.abs(x), np.abs(y))[fits & ~kept] == np.float32(MOST)).all()
        assert (x * np.sign(y) < 0)[fits & ~kept].all()


def test_sums_behind_an_overflow_of_a_step_are_plain_ones():
    elements = np.concatenate([[3 * 2.0**103, -MOST, MOST, -(2.0**103)], wide(50)])
    given, zero = jnp.asarray(elements, jnp.float32), jnp.float32(0)
    sums = given[0], zero
    for y in given[1:]:
        plain = sums[0] + y
        sums = compensation.added(sums, (y, zero))
        assert sums[0] == plain


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int32"])
def test_integers_are_exact_anyway(dtype):
    x = np.arange(100).astype(dtype)
    program = jax.make_jaxpr(lambda x: jscan.cumsum(x, precise=True))(x)
    assert str(program) == str(jax.make_jaxpr(jscan.cumsum)(x))


def test_other_floats():
    half = jnp.full(1000, 0.1, jnp.bfloat16)
    right = np.cumsum(np.asarray(half, np.float64))
    np.testing.assert_array_equal(
        jscan.cumsum(half, precise=True), jnp.asarray(right.astype(np.float32), jnp.bfloat16)
    )
    real, imaginary = wide(99), wide(99, 1)
    found = jscan.cumsum(real + np.complex64(1j) * imaginary, precise=True)
    assert_rounded_once(np.real(found), exact(real, None))
    assert_rounded_once(np.imag(found), exact(imaginary, None))


@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (3, 1), (1, 0)])
def test_nothing_and_one(shape):
    x = np.ones(shape, np.float32)
    for axis in range(len(shape)):
        for exclusive in (False, True):
            found = jscan.cumsum(x, axis, exclusive=exclusive, precise=True)
            np.testing.assert_array_equal(found, np.cumsum(x, axis) - x * exclusive)


def test_derivatives_are_those_of_a_plain_sum():
    x, heads = wide(50), head_flags((50,), share=0.1)
    weights = np.arange(50, dtype=np.float32)

    def total(x: Any, precise: bool) -> Any:
        return jnp.sum(weights * jscan.cumsum(x, segments=heads, reverse=True, precise=precise))

    plain, found = (jax.grad(total)(x, precise) for precise in (False, True))
    np.testing.assert_array_equal(found, plain)
    tangents = [
        jax.jvp(lambda x, p=p: jax.grad(lambda x: total(x * x, p))(x), (x,), (weights,))[1]
        for p in (False, True)
    ]
    np.testing.assert_array_equal(*tangents)


def test_rows_by_vmap():
    x = np.stack([wide(40, seed) for seed in range(3)])
    heads = head_flags((40,), share=0.1)
    found = jax.jit(jax.vmap(lambda x: jscan.cumsum(x, segments=heads, precise=True)))(x)
    for row, sums in zip(x, found, strict=True):
        assert_rounded_once(sums, exact(row, heads))
    shared = jax.vmap(lambda h: jscan.cumsum(x[0], segments=h, precise=True))(np.stack([heads] * 2))
    np.testing.assert_array_equal(shared, np.stack([found[0]] * 2))


@pytest.mark.parametrize("reverse", [False, True])
def test_an_axis_that_devices_share(reverse):
    mesh = Mesh(jax.devices(), ("i",))
    x = wide(8 * mesh.size)
    right = exact(x, None, reverse=reverse)

    def sums(x: Any, **how: Any) -> Any:
        return jscan.cumsum(x, reverse=reverse, precise=True, **how)

    by_hand = jax.shard_map(
        lambda x: sums(x, axis_name="i"), mesh=mesh, in_specs=P("i"), out_specs=P("i")
    )
    assert_rounded_once(by_hand(x), right)
    assert_rounded_once(jax.jit(sums)(jax.device_put(x, NamedSharding(mesh, P("i")))), right)


def test_no_operation_is_simplified_away():
    """What XLA makes of the sum of two pairs still has four differences."""
    program = jax.jit(lambda x: jscan.cumsum(x, method="xla", precise=True))
    text = program.lower(np.ones(2, np.float32)).compile().as_text()
    assert text is not None
    assert text.count(" subtract(") >= 4
