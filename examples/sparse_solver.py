"""Heat in a plate with holes: conjugate gradients on a mesh, by products of a sparse matrix.

Steady heat u in a plate is harmonic. Its edge is at 0, and each of its round holes is held at a
temperature of its own. Linear elements on a triangle mesh make of it a symmetric system A u = b
whose matrix has a row for each free node, some seven entries long: those of the node and of its
neighbours. Conjugate gradients with Jacobi's preconditioner need nothing of A but its products and
its diagonal, and run as one `lax.while_loop` under `jit`:

    q = A p,   a = ρ / pᵀ q,   u += a p,   r -= a q,   ρ' = rᵀ (r / diagonal),   p = r / d + ρ'/ρ p

A p is `jscan.csr_matvec`. The same loop runs with the product of `jax.experimental.sparse.BCSR` and
with `jax.ops.segment_sum` of the products, and SciPy's own loop, which stops by the same rule.

    python examples/sparse_solver.py                    40,000 nodes
    python examples/sparse_solver.py --plot heat.png    with a picture of the heat

The exit status is 0 only if all of them stop after as many iterations (but for what rounding
decides), at the solution that SciPy factorises for. The extra `examples` brings SciPy and
matplotlib.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial
from jax import lax
from jax.experimental.sparse import BCSR
from matplotlib.figure import Figure

import jscan

WIDTH = 2.0  # of a plate of height 1
HOLES = ((0.35, 0.32, 0.16, 1.0), (0.95, 0.68, 0.2, -1.0), (1.55, 0.35, 0.18, 0.6))
"""The middle of each hole, its radius and its temperature."""
SETTLED = 1e-10  # of the norm of b, as the residual's
REPEATS = 3
TOLERANCE = 1e-6
"""Errors are at most the residual's by the matrix' condition, some 1e4 for the largest meshes."""
SLACK = 2
"""Iterations by which rounding, which decides in a sum's last bits, moves the end."""


@dataclasses.dataclass(frozen=True)
class Plate:
    """Places ``(nodes, 2)`` of a mesh, its triangles, and the temperature where it is held."""

    places: np.ndarray
    triangles: np.ndarray
    held: np.ndarray

    @property
    def free(self) -> np.ndarray:
        """The nodes that are not held."""
        return np.flatnonzero(np.isnan(self.held))


def plate_of(nodes: int) -> Plate:
    """A mesh of some ``nodes``: a grid shaken a little, and the rims of the holes."""
    step = np.sqrt(WIDTH / nodes)
    columns, rows = round(WIDTH / step) + 1, round(1 / step) + 1
    x, y = np.meshgrid(np.linspace(0, WIDTH, columns), np.linspace(0, 1, rows))
    on_edge = (x % WIDTH == 0) | (y % 1 == 0)
    shake = np.random.default_rng(0).uniform(-0.25, 0.25, (2, rows, columns))
    places = np.stack([x, y], -1) + step * np.where(on_edge, 0, shake).transpose(1, 2, 0)
    places, held = places.reshape(-1, 2), np.where(on_edge, 0, np.nan).reshape(-1)
    for *middle, radius, temperature in HOLES:
        outside = np.hypot(*(places - middle).T) > radius + step / 2
        turn = np.linspace(0, 2 * np.pi, max(round(2 * np.pi * radius / step), 8), endpoint=False)
        rim = middle + radius * np.stack([np.cos(turn), np.sin(turn)], -1)
        places = np.concatenate([places[outside], rim])
        held = np.concatenate([held[outside], np.full(len(rim), temperature)])
    triangles = scipy.spatial.Delaunay(places).simplices
    centres = places[triangles].mean(axis=1)
    inside = [np.hypot(*(centres - middle).T) < radius for *middle, radius, _ in HOLES]
    return Plate(places, triangles[~np.any(inside, axis=0)], held)


def system_of(plate: Plate) -> tuple[Any, np.ndarray]:
    """The matrix of the free nodes in compressed rows, and what the held ones give them."""
    corners = plate.places[plate.triangles]
    sides = np.roll(corners, 1, axis=1) - np.roll(corners, -1, axis=1)  # opposite each corner
    (ax, ay), (bx, by) = sides[:, 0].T, sides[:, 1].T
    area = abs(ax * by - ay * bx) / 2
    stiffness = np.einsum("tid,tjd->tij", sides, sides) / (4 * area[:, None, None])
    row, column = (np.broadcast_to(x, stiffness.shape).reshape(-1) for x in of_pairs(plate))
    nodes = len(plate.places)
    whole = scipy.sparse.csr_array((stiffness.reshape(-1), (row, column)), shape=(nodes, nodes))
    rows = whole[plate.free]
    return rows[:, plate.free].tocsr(), -(rows @ np.nan_to_num(plate.held))


def of_pairs(plate: Plate) -> tuple[np.ndarray, np.ndarray]:
    """The node of the row and that of the column, for each pair of a triangle's corners."""
    return plate.triangles[:, :, None], plate.triangles[:, None, :]


Product = Callable[[Any, jax.Array], jax.Array]


def by_jscan(matrix: Any, x: jax.Array) -> jax.Array:
    """The product of this package."""
    values, indices, offsets = matrix
    return jscan.csr_matvec(values, indices, offsets, x)


def by_bcsr(matrix: Any, x: jax.Array) -> jax.Array:
    """The product of `jax.experimental.sparse`."""
    count = matrix[2].shape[0] - 1
    product: jax.Array = BCSR(matrix, shape=(count, count)) @ x
    return product


def by_segment_sum(matrix: Any, x: jax.Array) -> jax.Array:
    """A gather, products in memory, and their sums; the row of each entry from the offsets."""
    values, indices, offsets = matrix
    count, entries = offsets.shape[0] - 1, values.shape[0]
    lengths = jnp.diff(offsets)
    rows = jnp.repeat(jnp.arange(count), lengths, total_repeat_length=entries)
    return jax.ops.segment_sum(values * x[indices], rows, count, indices_are_sorted=True)


PRODUCTS: dict[str, Product] = {
    "jscan.csr_matvec": by_jscan,
    "BCSR": by_bcsr,
    "jax.ops.segment_sum": by_segment_sum,
}


@functools.partial(jax.jit, static_argnums=0)
def solved(
    product: Product, matrix: Any, diagonal: jax.Array, b: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The solution by conjugate gradients from 0, and after how many iterations."""
    enough = SETTLED * jnp.linalg.norm(b)
    most = 10 * b.shape[0]

    def goes_on(state: tuple[Any, ...]) -> jax.Array:
        _, r, _, _, count = state
        return (jnp.linalg.norm(r) > enough) & (count < most)

    def again(state: tuple[Any, ...]) -> tuple[Any, ...]:
        u, r, p, before, count = state
        z = r / diagonal
        rho = r @ z
        p = z + jnp.where(count > 0, rho / before, 0) * p
        q = product(matrix, p)
        a = rho / (p @ q)
        return u + a * p, r - a * q, p, rho, count + 1

    nothing = jnp.zeros_like(b)
    start = nothing, b, nothing, jnp.ones((), b.dtype), 0
    end: tuple[Any, ...] = lax.while_loop(goes_on, again, start)
    return end[0], end[-1]


def solved_by_scipy(matrix: Any, b: np.ndarray) -> tuple[np.ndarray, int]:
    """The same by SciPy."""
    count = 0

    def counted(_: np.ndarray) -> None:
        nonlocal count
        count += 1

    jacobi = scipy.sparse.diags_array(1 / matrix.diagonal())
    how: dict[str, Any] = {"rtol": SETTLED, "atol": 0, "M": jacobi, "callback": counted}
    u, _ = scipy.sparse.linalg.cg(matrix, b, **how)
    return u, count


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What the first run gives, and the seconds of the fastest of those after it."""
    result = jax.block_until_ready(run())
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)


def disagreements(found: dict[str, tuple[Any, int]], expected: np.ndarray) -> list[str]:
    """Where a solution is not the factorised one, or iterations are not as many as SciPy's."""
    lines = []
    _, count = found["SciPy"]
    for name, (u, own) in found.items():
        off = float(np.abs(np.asarray(u) - expected).max())
        if not off <= TOLERANCE:
            lines.append(f"heat by {name} is off by {off:.3g}")
        if abs(own - count) > SLACK:
            lines.append(f"{name} takes {own} iterations, and SciPy {count}")
    return lines


def save_picture(path: Path, plate: Plate, heat: np.ndarray) -> None:
    """Heat and its level lines, and a part of the mesh."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    mesh = *plate.places.T, plate.triangles
    filled = left.tricontourf(*mesh, heat, levels=np.linspace(-1, 1, 41), cmap="RdBu_r")
    left.tricontour(*mesh, heat, levels=np.linspace(-0.9, 0.9, 19), colors="k", linewidths=0.4)
    figure.colorbar(filled, ax=left, label="temperature", ticks=[-1, -0.5, 0, 0.5, 1])
    x, y, radius, _ = HOLES[0]
    size = max(8 * np.sqrt(WIDTH / len(plate.places)), radius / 4)
    right.tripcolor(*mesh, heat, cmap="RdBu_r", clim=(-1, 1), edgecolors="k", linewidth=0.3)
    right.set(xlim=(x + radius - size, x + radius + size), ylim=(y - size, y + size))
    left.set_title("heat in a plate with held holes")
    right.set_title("the mesh at a rim")
    for axes in (left, right):
        axes.set_aspect("equal")
    figure.savefig(path, dpi=90, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Solve the system in every way, print times, and check all of it."""
    parser = argparse.ArgumentParser(description="Heat in a plate by conjugate gradients.")
    parser.add_argument("--nodes", type=int, default=40_000, help="of the mesh (default: 40000)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    picture = options.plot
    if options.nodes < 200:
        parser.error("there have to be 200 nodes at least, or none is free")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")
    jax.config.update("jax_enable_x64", True)

    plate = plate_of(options.nodes)
    matrix, b = system_of(plate)
    expected = scipy.sparse.linalg.spsolve(matrix.tocsc(), b)
    print(f"{len(plate.places)} nodes, {len(b)} free; {matrix.nnz} entries of the matrix\n")
    arrays = tuple(map(jnp.asarray, (matrix.data, matrix.indices, matrix.indptr)))
    given = arrays, jnp.asarray(matrix.diagonal()), jnp.asarray(b)
    found: dict[str, tuple[Any, int]] = {}
    print(f"{'conjugate gradients by':24} {'iterations':>10} {'time':>11} {'an iteration':>14}")
    ways: dict[str, Callable[[], Any]] = {
        name: functools.partial(solved, way, *given) for name, way in PRODUCTS.items()
    }
    ways["SciPy"] = functools.partial(solved_by_scipy, matrix, b)
    for name, run in ways.items():
        (u, count), seconds = timed(run)
        found[name] = u, int(count)
        each = 1e6 * seconds / max(int(count), 1)
        print(f"{name:24} {int(count):10} {1e3 * seconds:8.1f} ms {each:11.1f} µs")

    if picture is not None:
        heat = plate.held.copy()
        heat[plate.free] = found["jscan.csr_matvec"][0]
        save_picture(picture, plate, heat)
    versions = f"jscan {jscan.__version__}, jax {jax.__version__}, SciPy {scipy.__version__}"
    print(f"\nran on {jax.devices()[0].device_kind}; {versions}")
    wrong = disagreements(found, expected)
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if wrong else 'iterations and heat agree with those of SciPy'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
