"""Tridiagonal systems: residuals, sizes, dtypes, matrices that are singular, and what runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import primitives
from tests import tridiagonal
from tests.kernels.test_lowering import array, calls, cuda_program

EPS = float(np.finfo(np.float32).eps)


def laplacian(_, n):
    """The one of a rod with both ends held: near to singular, and weakly dominated."""
    one = np.ones(n)
    return -one, 2 * one, -one


def of_both_signs(rng, n):
    """Dominated well, every element of either sign."""
    dl, du = rng.uniform(-1, 1, (2, n))
    return dl, (np.abs(dl) + np.abs(du) + 0.1) * rng.choice((-1, 1), n), du


def barely(rng, n):
    """Each diagonal is the sum of its neighbours."""
    dl, du = rng.uniform(-1, 1, (2, n)).astype(np.float32)
    return dl, (np.abs(dl) + np.abs(du)) * rng.choice((-1, 1), n), du


def of_many_sizes(rng, n):
    """Rows of which one is a trillion times another, as are elements of one row."""
    dl, du = 10.0 ** rng.uniform(-6, 6, (2, n))
    return dl, (dl + du) * 1.0001, -du


def sinking(_, n):
    """A convection without diffusion: the elements beside the diagonal are of opposite signs."""
    return -np.ones(n), 2 * np.ones(n), np.ones(n)


DOMINATED = (laplacian, of_both_signs, barely, of_many_sizes, sinking)
# What the residual may be, in eps: less is promised of long rows that are just dominated.
LONG = {laplacian: 4, of_both_signs: 4, barely: 64, of_many_sizes: 4, sinking: 4}


def floats(*values: Any) -> Any:
    """Values in float32."""
    return np.asarray(values, np.float32)


def system(kind: Callable[..., Any], n: int, columns: int = 2) -> list[Any]:
    """A matrix of a kind in float32 with right-hand sides: random ones, and one of a random x."""
    rng = np.random.default_rng([n, DOMINATED.index(kind)])
    diagonals = [x.astype(np.float32)[:, None] for x in kind(rng, n)]
    b = rng.uniform(-1, 1, (n, columns))
    wide = [x[:, 0].astype(np.float64) for x in diagonals]
    x = b[:, 0]
    ends = np.pad(x, 1)
    b[:, 0] = wide[0] * ends[:-2] + wide[1] * x + wide[2] * ends[2:]
    return [*diagonals, b.astype(np.float32)]


@pytest.mark.product
@pytest.mark.parametrize("kind", DOMINATED)
@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000])
def test_the_residual_is_what_the_docstring_promises(kind, n):
    given = system(kind, n)
    x = jscan.tridiagonal_solve(*given)
    assert tridiagonal.residual(given, x) < 4


@pytest.mark.parametrize("kind", DOMINATED)
def test_the_residual_of_long_rows_and_after_one_more_step(kind):
    dl, d, du, b = given = system(kind, 100_000)
    x = np.asarray(jscan.tridiagonal_solve(*given))
    assert tridiagonal.residual(given, x) < LONG[kind]
    ends = np.pad(x, ((1, 1), (0, 0)))
    left = b - (dl * ends[:-2] + d * x + du * ends[2:])
    x = x + np.asarray(jscan.tridiagonal_solve(dl, d, du, left))
    assert tridiagonal.residual(given, x) < 4


@pytest.fixture
def trees(monkeypatch):
    """On a CPU a scan is a loop; on a GPU it combines as a tree does."""
    scan = primitives.scan

    def in_trees(*leaves, **params):
        return scan(*leaves, **params | {"method": "xla"})

    monkeypatch.setattr(primitives, "scan", in_trees)


@pytest.mark.product
@pytest.mark.parametrize("kind", DOMINATED)
@pytest.mark.parametrize("n", [3, 1000])
@pytest.mark.usefixtures("trees")
def test_the_residual_of_trees_is_no_larger(kind, n):
    given = system(kind, n)
    x = jax.jit(lambda *given: jscan.tridiagonal_solve(*given))(*given)
    assert tridiagonal.residual(given, x) < 4


def with_columns_for_rows(kind: Callable[..., Any], n: int) -> list[Any]:
    """The system of a kind with the transposed matrix, whose columns are dominated."""
    dl, d, du, b = system(kind, n)
    return [np.roll(du, 1, 0), d, np.roll(dl, -1, 0), b]


@pytest.mark.parametrize("kind", DOMINATED)
@pytest.mark.parametrize("n", [3, 1000])
def test_the_residual_where_columns_are_dominated(kind, n):
    given = with_columns_for_rows(kind, n)
    x = jscan.tridiagonal_solve(*given)
    assert tridiagonal.residual(given, x, in_sum=True) < 4


@pytest.mark.parametrize("kind", DOMINATED)
@pytest.mark.parametrize("n", [3, 1000])
@pytest.mark.usefixtures("trees")
def test_the_residual_of_trees_where_columns_are_dominated(kind, n):
    given = with_columns_for_rows(kind, n)
    x = jax.jit(lambda *given: jscan.tridiagonal_solve(*given))(*given)
    assert tridiagonal.residual(given, x, in_sum=True) < 4


@pytest.mark.product
@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("in_sum", [False, True], ids=["rows", "columns"])
def test_the_residuals_of_many_small_systems(n, in_sum):
    """Dominated by a tenth, in rows or in columns, by elements that differ by 10^6."""
    rng, shape = np.random.default_rng(n), (n, 5000)
    dl, du = 10 ** rng.uniform(-3, 3, (2, *shape)) * rng.choice((-1, 1), (2, *shape))
    d = 1.1001 * (np.abs(dl) + np.abs(du)) * rng.choice((-1, 1), shape)
    if in_sum:
        dl, du = np.roll(du, 1, 0), np.roll(dl, -1, 0)
    given = [x.astype(np.float32) for x in (dl, d, du, rng.uniform(-1, 1, shape))]
    for periodic, promised in ((False, 4), (True, 8)):
        x = jscan.tridiagonal_solve(*given, periodic=periodic)
        assert tridiagonal.residual(given, x, periodic=periodic, in_sum=in_sum) < promised


@pytest.mark.parametrize("n", [100, 1000])
def test_a_pivot_is_one_number_wherever_it_is_computed(n):
    """Of a matrix without dominance too, and where products and sums become one instruction."""
    given = [x.astype(np.float32) for x in np.random.default_rng(0).standard_normal((4, n, 1))]
    with_fusions = {"xla_backend_optimization_level": 3}
    run = jax.jit(lambda *given: jscan.tridiagonal_solve(*given), compiler_options=with_fusions)
    assert tridiagonal.residual(given, run(*given)) < 4


def test_rows_and_columns_are_dominated_in_one_batch():
    """Each system has the pivots that it needs, though one array holds both."""
    rows, columns = system(of_many_sizes, 1000, 1), with_columns_for_rows(of_many_sizes, 1000)
    both = [np.concatenate([x, y[:, :1]], 1) for x, y in zip(rows, columns, strict=True)]
    x = np.asarray(jscan.tridiagonal_solve(*both))
    assert tridiagonal.residual(rows, x[:, :1]) < 4
    assert tridiagonal.residual([y[:, :1] for y in columns], x[:, 1:], in_sum=True) < 4


@pytest.mark.product
@pytest.mark.parametrize("kind", DOMINATED)
@pytest.mark.parametrize("n", [1, 2, 3, 1000])
def test_the_residual_of_a_periodic_system_is_small(kind, n):
    given = system(kind, n)
    if kind is laplacian:
        given[1] = given[1] * floats(1.01)  # it is singular where it is periodic
    x = jscan.tridiagonal_solve(*given, periodic=True)
    assert tridiagonal.residual(given, x, periodic=True) < 4


def test_nothing_cancels_in_the_solution_of_a_laplacian():
    """Elimination, which lax does too, loses what the condition number says: three digits here."""
    n = 1000
    dl, d, du, _ = system(laplacian, n)
    b = np.random.default_rng(1).uniform(0, 1, (n, 1)).astype(np.float32)
    exact = tridiagonal.eliminated(*[x.astype(np.float64) for x in (dl, d, du, b)])

    def error(x):
        return np.max(np.abs(np.asarray(x) - exact)) / np.max(np.abs(exact))

    assert error(jscan.tridiagonal_solve(dl, d, du, b)) < 50 * EPS
    dl[0], du[-1] = 0, 0
    lower, middle, upper = (jnp.asarray(x[:, 0]) for x in (dl, d, du))
    peer = jax.lax.linalg.tridiagonal_solve(lower, middle, upper, jnp.asarray(b))
    assert error(peer) > 500 * EPS


def test_an_excess_of_one_rounding_counts_in_full():
    """The system is as near to singular as float32 allows, and every digit of x is right."""
    rng, n = np.random.default_rng(3), 1000
    dl, du = (10.0 ** rng.uniform(-3, 0, (2, n))).astype(np.float32)
    dl[0] = du[-1] = 0
    # Twins just below a power of two are what a difference of two floats rounds worst.
    dl[500] = du[500] = np.nextafter(np.float32(1), np.float32(0))
    d = dl + du
    d = np.where(d < dl.astype(np.float64) + du, np.nextafter(d, floats(np.inf)), d)
    d[500] = 2
    b = rng.uniform(0, 1, n).astype(np.float32)
    a, c = dl.astype(np.float64), du.astype(np.float64)
    excess, v, x = d - a - c, np.zeros(n + 1), b.astype(np.float64)
    for i in range(n):  # nothing is subtracted, so all of float64's digits are right
        if i:
            x[i] += a[i] * x[i - 1]
        v[i] = excess[i] + (a[i] * v[i - 1] / (v[i - 1] + c[i - 1]) if i else 0)
        x[i] /= v[i] + c[i]
    for i in reversed(range(n - 1)):
        x[i] += c[i] / (v[i] + c[i]) * x[i + 1]
    np.testing.assert_allclose(jscan.tridiagonal_solve(-dl, d, -du, b), x, rtol=50 * EPS)


def test_what_flows_with_a_wind_is_right_in_every_digit():
    """Columns dominate, not rows, some of which are a thousand times their diagonal below it."""
    rng, n = np.random.default_rng(0), 1000
    wind = (10.0 ** rng.uniform(-3, 3, n)).astype(np.float32)
    dl, d = -np.roll(wind, 1), 1 + wind
    b = rng.uniform(0, 1, n).astype(np.float32)
    x = b.astype(np.float64)
    for i in range(n):
        x[i] = (x[i] - (dl[i] * x[i - 1] if i else 0)) / d[i]
    np.testing.assert_allclose(jscan.tridiagonal_solve(dl, d, 0.0, b), x, rtol=50 * EPS)


@pytest.mark.product
@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("kind", ["f", "c"])
def test_sizes_in_both_forms(n, periodic, kind):
    rng = np.random.default_rng(n)
    with jax.enable_x64(True):
        parts = rng.uniform(-1, 1, (2, 3, n, 1))
        dl, sign, du = parts[0] + (1j * parts[1] if kind == "c" else 0)
        d = (np.abs(dl) + np.abs(du) + 0.1) * sign / np.abs(sign)
        b = rng.uniform(-1, 1, (n, 2)).astype(d.dtype)
        x = jscan.tridiagonal_solve(dl, d, du, b, periodic=periodic)
        assert x.dtype == d.dtype
        assert x.shape == b.shape
        wanted = tridiagonal.solved(dl, d, du, b, periodic=periodic)
        np.testing.assert_allclose(x, wanted, rtol=1e-13, atol=1e-13)


def test_what_lax_takes_is_taken():
    rng = np.random.default_rng(0)
    dl, du = rng.uniform(-1, 1, (2, 4, 6)).astype(np.float32)
    dl[:, 0], du[:, -1] = 0, 0
    d, b = np.float32(3) + dl, rng.normal(size=(4, 6, 5)).astype(np.float32)
    lower, middle, upper, right = map(jnp.asarray, (dl, d, du, b))
    wanted = jax.lax.linalg.tridiagonal_solve(lower, middle, upper, right)
    np.testing.assert_allclose(
        jscan.tridiagonal_solve(dl, d, du, b, axis=-2), wanted, rtol=1e-5, atol=1e-6
    )


def test_elements_outside_of_the_matrix_do_not_count():
    rng = np.random.default_rng(0)
    dl, du, b = rng.uniform(-1, 1, (3, 6)).astype(np.float32)
    x = jscan.tridiagonal_solve(dl, 3.0, du, b)
    dl[0], du[-1] = np.nan, np.inf
    np.testing.assert_array_equal(jscan.tridiagonal_solve(dl, 3.0, du, b), x)

    @jax.jit
    def total(dl, du):
        return jscan.tridiagonal_solve(dl, 3.0, du, b).sum()

    slopes = jax.grad(total, (0, 1))(dl, du)
    assert np.isfinite(slopes).all()
    assert slopes[0][0] == slopes[1][-1] == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_solved_in_float32(dtype):
    given = [x.astype(dtype) for x in system(laplacian, 64)]
    x = jscan.tridiagonal_solve(*given)
    wide = jscan.tridiagonal_solve(*[x.astype(np.float32) for x in given])
    assert x.dtype == dtype
    np.testing.assert_array_equal(np.asarray(x), wide.astype(dtype))


def test_numbers_take_the_dtype_of_arrays():
    x = jscan.tridiagonal_solve(-1, 4, -1.0, floats(2, 4, 6))
    assert x.dtype == np.float32
    same = jscan.tridiagonal_solve(*floats([-1] * 3, [4] * 3, [-1] * 3, [2, 4, 6]))
    np.testing.assert_array_equal(x, same)


SINGULAR: dict[str, tuple[Any, Any, Any]] = {
    "a pivot of zero": (1.0, [1.0, 1.0, 3.0], 1.0),
    "a row of zeros": ([0.0, 0.0, 1.0], [1.0, 0.0, 3.0], [0.5, 0.0, 0.0]),
    "a diagonal that begins with zero": (1.0, [0.0, 3.0, 3.0], 1.0),
    "a rod with free ends": (-1.0, [1.0, 2.0, 1.0], -1.0),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_a_singular_system_is_seen_by_its_solution_alone(name):
    """The other system, beside it, is solved."""
    diagonals = [
        np.stack([np.broadcast_to(floats(x).reshape(-1), 3), floats(*[sound] * 3)], 1)
        for x, sound in zip(SINGULAR[name], (1, 4, 1), strict=True)
    ]
    given = [*diagonals, floats([1, 1], [2, 1], [4, 1])]
    x = np.asarray(jscan.tridiagonal_solve(*given))
    assert not np.isfinite(x[:, 0]).all()
    wanted = tridiagonal.solved(*[y[:, 1] for y in given])
    np.testing.assert_allclose(x[:, 1], wanted, rtol=1e-6)


def test_a_ring_with_nothing_to_hold_it_is_singular():
    x = jscan.tridiagonal_solve(-1.0, 2.0, -1.0, np.ones(4, np.float32), periodic=True)
    assert not np.isfinite(x).any()


def test_elements_near_the_ends_of_float32_neither_overflow_nor_underflow():
    for size in (1e-30, 1e30, 8e37):
        given = [x * np.float32(size) for x in system(laplacian, 1000)]
        x = jscan.tridiagonal_solve(*given)
        assert tridiagonal.residual(given, x) < 4


def test_a_gradient_is_one_more_solution_by_the_same_pivots():
    """Three kernels: one for the pivots, two for a solution; of a gradient two more."""
    row = array(2**16)

    def loss(*given):
        return jscan.tridiagonal_solve(*given).sum()

    assert calls(cuda_program(loss, row, row, row, row)) == 3
    assert calls(cuda_program(jax.grad(loss, (0, 1, 2, 3)), row, row, row, row)) == 5


def test_a_matrix_is_factored_once_for_all_right_hand_sides():
    shapes = [(4096, 1)] * 3 + [(4096, 64)]
    operands = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    assert calls(cuda_program(jscan.tridiagonal_solve, *operands)) == 3
