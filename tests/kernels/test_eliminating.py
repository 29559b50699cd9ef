"""Tridiagonal systems that a kernel solves whole, beside full matrices with pivots."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan.kernels import tuning
from jscan.kernels.tuning.whole import LONGEST_BESIDE_LANES, MOST
from jscan.plain.elimination import Factors, Matrix
from jscan.primitives import tiled
from tests import tridiagonal
from tests.api.test_tridiagonal import DOMINATED
from tests.engines import by_kernel
from tests.kernels.test_lowering import calls, cuda_program

SHAPES = [
    ((1,), 0),
    ((2,), 0),
    ((5, 2), 1),
    ((3, 64), 1),
    ((2, 257), 1),  # rows end in the tile
    ((70, 3), 1),  # several rows to a program, and rows that are none
    ((33, 5), 0),  # lanes that are none
    ((2, 130, 3), 1),
    ((8, 40), 0),
]


def system(shape: tuple[int, ...], axis: int, kind: Any, dtype: Any = np.float32) -> list[Any]:
    """Diagonals of a kind, others for each system, and right-hand sides."""
    rng = np.random.default_rng([*shape, axis])
    others, n = [size for d, size in enumerate(shape) if d != axis], shape[axis]
    rows = [np.stack([np.asarray(x) for x in kind(rng, n)]) for _ in range(int(np.prod(others)))]
    diagonals = np.moveaxis(np.stack(rows).reshape(*others, 3, n), -2, 0)
    given = [np.moveaxis(x, -1, axis) for x in diagonals]
    return [jnp.asarray(x, dtype) for x in (*given, rng.uniform(-1, 1, shape))]


def residual(given: list[Any], x: Any, axis: int, *, in_sum: bool = False) -> float:
    """The worst one of all systems, in eps."""
    moved = [np.moveaxis(np.asarray(y), axis, 0).reshape(y.shape[axis], -1) for y in (*given, x)]
    return tridiagonal.residual(moved[:4], moved[4], in_sum=in_sum)


@by_kernel
@pytest.mark.parametrize("kind", DOMINATED)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_the_residual_is_what_is_promised(shape, axis, kind, strategy):
    given = system(shape, axis, kind)
    with strategy.active():
        x = jax.jit(lambda *given: jscan.tridiagonal_solve(*given, axis=axis))(*given)
    assert residual(given, x, axis) < 4


@by_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), [((3, 64), 1), ((2, 257), 1), ((33, 5), 0)])
def test_transposed_systems(shape, axis, dtype, strategy):
    """The solution of one system is that of the other with its diagonals moved."""
    with jax.enable_x64(True):
        given = below, middle, above, right = system(shape, axis, DOMINATED[1], dtype)
        moved = jnp.roll(above, 1, axis), middle, jnp.roll(below, -1, axis), right

        def factors(*matrix: Any) -> Factors:
            below, middle, above = matrix
            return Factors.of(Matrix(below, middle, above, axis))

        with strategy.active():
            x = jax.jit(lambda *given: factors(*given[:3]).solve_transposed(given[3]))(*given)
            y = jax.jit(lambda *given: factors(*given[:3]).solve(given[3]))(*moved)
        np.testing.assert_array_equal(x, y)
        expected = tridiagonal.solved(*(np.asarray(z, np.float64) for z in moved), axis=axis)
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(x, expected, rtol=300 * eps, atol=10 * eps)


@by_kernel
def test_derivatives_and_batches(strategy):
    """By kernels and by scans; a batch of right-hand sides of one matrix shares its pivots."""
    given = system((3, 17), 1, DOMINATED[1])

    def loss(*given: Any) -> Any:
        x = jscan.tridiagonal_solve(*given, axis=1, periodic=True)
        return jnp.sum(x * jnp.cos(jnp.arange(51, dtype=x.dtype).reshape(3, 17)))

    def both() -> Any:
        sides = jnp.stack([given[3], 2 * given[3]])
        below, middle, above = given[:3]
        many = jax.vmap(lambda b: jscan.tridiagonal_solve(below, middle, above, b, axis=1))(sides)
        each = jax.vmap(jscan.tridiagonal_solve)(*given)
        return many, each, jax.grad(loss, (0, 1, 2, 3))(*given)

    expected = jax.jit(both)()
    with strategy.active():
        found = jax.jit(both)()
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6), found, expected
    )


@by_kernel
def test_one_system_that_is_singular_is_alone(strategy):
    """And what is outside of the matrix, or of the axis, counts nowhere."""
    below, middle, above, right = system((3, 40), 1, DOMINATED[0])
    middle = middle.at[1].set(0.0)
    below, above = below.at[:, 0].set(jnp.nan), above.at[:, -1].set(jnp.inf)
    with strategy.active():
        x = jax.jit(lambda *given: jscan.tridiagonal_solve(*given, axis=1))(
            below, middle, above, right
        )
    assert not np.isfinite(x[1]).all()
    given = [y[::2] for y in (below.at[:, 0].set(0), middle, above.at[:, -1].set(0), right)]
    assert residual(given, x[::2], 1) < 4


@by_kernel
def test_elements_near_the_ends_of_float32(strategy):
    for size in (1e-30, 1e30, 8e37):
        given = [x * np.float32(size) for x in system((2, 100), 1, DOMINATED[0])]
        with strategy.active():
            x = jax.jit(lambda *given: jscan.tridiagonal_solve(*given, axis=1))(*given)
        assert residual(given, x, 1) < 4


@by_kernel
@pytest.mark.parametrize(("lanes", "rows", "warps"), [(1, 1, 1), (1, 8, 2), (4, 1, 1), (16, 1, 4)])
def test_any_cut(lanes, rows, warps, strategy):
    shape, axis = ((5, 29), 1) if lanes == 1 else ((29, 21), 0)
    given = system(shape, axis, DOMINATED[1])
    cut = tuning.Tuning(length=32, lanes=lanes, warps=warps, window=1, rows=rows)
    assert tuning.systems(shape, axis, 4, cut) is not None

    def solve(*given: Any) -> Any:
        below, middle, above, right = given
        factors = Factors.of(Matrix(below, middle, above, axis))
        with tiled(cut):
            return factors.solve(right)

    with strategy.active():
        x = jax.jit(solve)(*given)
    assert residual(given, x, axis) < 4


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "fits"),
    [
        ((3, MOST), 1, np.float32, True),
        ((3, MOST + 1), 1, np.float32, False),
        ((3, MOST), 1, np.float64, False),
        ((3, MOST - 1), 1, np.float32, False),
        ((3, MOST // 2 - 1), 1, np.float32, True),
        ((3, MOST // 2), 1, np.float64, True),
        ((3, MOST // 2 - 1), 1, np.float64, False),
        ((LONGEST_BESIDE_LANES, 1000), 0, np.float32, True),
        ((LONGEST_BESIDE_LANES + 1, 1000), 0, np.float32, False),
        ((2, 2**20), 0, np.float64, True),
        ((100, 7), 1, np.complex64, False),
    ],
)
def test_what_fits_a_tile(shape, axis, dtype, fits):
    with jax.enable_x64(True):
        given = [jax.ShapeDtypeStruct(shape, dtype)] * 4
        program = cuda_program(lambda *x: jscan.tridiagonal_solve(*x, axis=axis), *given)
    assert whole_systems(program) == fits
    assert calls(program) == (2 if fits else 3)  # of the pivots, one that XLA drops where it fits


def whole_systems(program: str) -> int:
    """How many kernels solve systems whole."""
    return program.count('name = "jscan_eliminate"')


def gradient_of(**how: Any) -> Any:
    def loss(*x: Any) -> Any:
        return jscan.tridiagonal_solve(*x, **how).sum()

    return jax.grad(loss, (0, 1, 2, 3))


@pytest.mark.parametrize(("shape", "axis"), [((1000, 64), 0), ((64, 6000), 1)])
def test_pivots_of_what_fits_no_tile_are_found_once(shape, axis):
    """Three kernels, two more for a gradient; periodic, two for another right side."""
    given = [jax.ShapeDtypeStruct(shape, np.float32)] * 4
    for periodic, counts in ((False, (3, 5)), (True, (5, 9))):
        how: dict[str, Any] = {"axis": axis, "periodic": periodic}
        program = cuda_program(lambda *x, how=how: jscan.tridiagonal_solve(*x, **how), *given)
        assert (whole_systems(program), calls(program)) == (0, counts[0])
        program = cuda_program(gradient_of(**how), *given)
        assert (whole_systems(program), calls(program)) == (0, counts[1])


def test_a_batch_of_right_hand_sides_shares_pivots():
    """Though each of them has as many elements as the matrix."""
    matrix = [jax.ShapeDtypeStruct((600,), np.float32)] * 3
    sides = jax.ShapeDtypeStruct((8, 600), np.float32)
    only_sides = None, None, None, 0
    many = jax.vmap(jscan.tridiagonal_solve, only_sides)
    program = cuda_program(many, *matrix, sides)
    assert (whole_systems(program), calls(program)) == (0, 3)

    def loss(*given: Any) -> Any:
        return many(*given).sum()

    program = cuda_program(jax.grad(loss, (0, 1, 2, 3)), *matrix, sides)
    assert (whole_systems(program), calls(program)) == (0, 5)


@pytest.mark.gpu
@pytest.mark.parametrize("periodic", [False, True])
def test_only_the_kernels_of_systems_run_on_a_gpu(periodic):
    """XLA drops what computes factors that no kernel reads."""
    given = system((7, 4096), 1, DOMINATED[1])
    how: dict[str, Any] = {"axis": 1, "periodic": periodic}
    count = 2 if periodic else 1
    for function, expected in (
        (lambda *x: jscan.tridiagonal_solve(*x, **how), count),
        (gradient_of(**how), 2 * count),
    ):
        text = jax.jit(function).lower(*given).compile().as_text()
        assert text is not None
        assert text.count("jscan_eliminate(") + text.count('name = "jscan_eliminate"') >= 1
        kernels = [line for line in text.splitlines() if "custom_call_target=" in line]
        assert len(kernels) == expected, kernels
