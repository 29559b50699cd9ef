"""Shallow water in a basin, by tridiagonal systems of its rows and then of its columns.

Kass and Miller, "Rapid, Stable Fluid Dynamics for Computer Graphics" (1990), let the surface h of
water of depth d swing by  ∂²h/∂t² = g ∇·(d ∇h).  Water flows between two cells by the slope that
the surface has after the step, so that a step of any size is stable. With k = g Δt² / Δx², and
d[i+½] the depth between cells i and i+1, which is 0 at a wall, each row is a tridiagonal system,

    h[i] + k d[i-½] (h[i] - h[i-1]) + k d[i+½] (h[i] - h[i+1]) = 2 h'[i] - h"[i]

where h' and h" are the surface one and two steps before. Its solution is the right side of another
system for each column. Sengupta, Harris, Zhang and Owens, "Scan Primitives for GPU Computing"
(2007), solve these by scans, as `jscan.tridiagonal_solve` does.

A step ends with the flows that the two solutions say, each of which is taken from one cell and
given to the next. They are kept from step to step, in the place of h", so that no volume is lost
however many steps there are: rounding that the solutions have stays in the flows.

    python examples/shallow_water.py                     grids of 128 × 128 and of 512 × 512 cells
    python examples/shallow_water.py --cells 64 --frames 20
    python examples/shallow_water.py --plot water.png    frames of each, and of the first water.gif

A hill of water sinks in a basin with a shoal, over which waves are slow. A step is timed with
`jax.lax.linalg.tridiagonal_solve` and SciPy's banded solver as well. The exit status is 0 only if
steps agree with SciPy's in double precision, and the volume is what it was. The extra `examples`
brings SciPy, and matplotlib, which draws the pictures.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from matplotlib import colormaps
from matplotlib.figure import Figure
from PIL import Image
from scipy.linalg import solve_banded

import jscan

GRAVITY = 9.81  # m/s²
WIDTH = 100.0  # m
DEPTH = 2.0  # m, at rest, where there is no shoal
COURANT = 0.25
"""The cells that a wave passes in a step. More are as stable, and damp short waves more."""
SPREAD = COURANT**2 / DEPTH
"""g Δt² / Δx² in 1/m, since a wave's speed is the root of g d."""
FRAMES_OF_WAVE = 64
"""In how many frames a wave crosses the basin."""
LOOKS = 8
"""How many frames SciPy makes a step from."""
TOLERANCE = 1e-6
"""Of the highest surface and of the hill's volume. Steps differ from SciPy's by a ninth of it, and
the volume by a twentieth: roundings of the surface add up."""
JSCAN, LAX = "jscan.tridiagonal_solve", "lax.linalg.tridiagonal_solve"
SCIPY = "scipy.linalg.solve_banded"

Solver = Callable[[jax.Array, jax.Array, jax.Array, jax.Array, int], jax.Array]


class Water(NamedTuple):
    """Water in motion, ``(cells, cells)`` each.

    Attributes:
      surface: how high it stands above its rest.
      flows: along each axis, what a cell gets from the next one in a step.
    """

    surface: Any
    flows: tuple[Any, Any]


def by_jscan(dl: Any, d: Any, du: Any, b: Any, axis: int) -> jax.Array:
    """Systems along an axis, by scans."""
    return jscan.tridiagonal_solve(dl, d, du, b, axis=axis)


def by_lax(dl: Any, d: Any, du: Any, b: Any, axis: int) -> jax.Array:
    """The same by the solver of jax, whose systems run along the last axis but one."""
    dl, d, du, b = (jnp.moveaxis(x, axis, -1) for x in (dl, d, du, b))
    return jnp.moveaxis(lax.linalg.tridiagonal_solve(dl, d, du, b[..., None])[..., 0], -1, axis)


SOLVERS: dict[str, Solver] = {JSCAN: by_jscan, LAX: by_lax}


def basin(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The depth at rest, and a hill of water."""
    x = (np.arange(cells) + 0.5) * WIDTH / cells

    def bump(column: float, row: float, radius: float) -> np.ndarray:
        far = (x - column) ** 2 + (x[:, None] - row) ** 2
        return np.exp(-far / (2 * radius**2))

    depth = DEPTH - 1.7 * bump(58, 55, 12)
    return depth.astype(np.float32), (0.6 * bump(22, 30, 5)).astype(np.float32)


def steps_of_frame(cells: int) -> int:
    """The steps from one frame to the next."""
    return math.ceil(cells / COURANT / FRAMES_OF_WAVE)


def gains(flow: Any, axis: int) -> Any:
    """What each cell gets from both sides along an axis; nothing flows behind the last cell."""
    return flow - jnp.roll(flow, 1, axis)


def step(solve: Solver, rest: jax.Array, water: Water) -> Water:
    """The water a step later: rows, then columns."""
    surface, flows = water.surface, [*water.flows]
    depth = jnp.maximum(rest + surface, 0)
    moved = surface + (gains(flows[0], 0) + gains(flows[1], 1))
    for axis in (1, 0):
        place = lax.broadcasted_iota(jnp.int32, depth.shape, axis)
        between = (depth + jnp.roll(depth, -1, axis)) / 2
        after = jnp.where(place == depth.shape[axis] - 1, 0, SPREAD * between)
        before = jnp.roll(after, 1, axis)
        level = solve(-before, 1 + before + after, -after, moved, axis)
        flow = after * (jnp.roll(level, -1, axis) - level)
        flows[axis] += flow
        moved += gains(flow, axis)
    return Water(surface + (gains(flows[0], 0) + gains(flows[1], 1)), (flows[0], flows[1]))


@partial(jax.jit, static_argnums=0)
def advanced(solve: Solver, rest: jax.Array, water: Water, steps: int) -> Water:
    """The water so many steps later."""
    return lax.fori_loop(0, steps, lambda _, water: step(solve, rest, water), water)


def surface_by_scipy(rest: jax.Array, water: Water) -> np.ndarray:
    """The surface a step later as Kass and Miller have it, in double precision."""
    surface, *flows = (np.asarray(x, np.float64) for x in (water.surface, *water.flows))
    moved = sum(flow - np.roll(flow, 1, axis) for axis, flow in enumerate(flows))
    depth, right = np.maximum(np.asarray(rest) + surface, 0), 2 * surface - (surface - moved)
    for axis in (1, 0):
        deep = np.moveaxis(depth, axis, -1)
        after = SPREAD * (deep + np.roll(deep, -1, -1)) / 2
        after[:, -1] = 0
        # Nothing joins the end of a row with the start of the next, so all are one system.
        after, side = after.ravel(), np.moveaxis(right, axis, -1).ravel()
        before = np.roll(after, 1)
        bands = np.stack([-before, 1 + before + after, -after])
        right = np.moveaxis(solve_banded((1, 1), bands, side).reshape(deep.shape), -1, axis)
    return right


def seconds_of(run: Callable[[], Any]) -> tuple[float, Any]:
    """The time of a call, and its result."""
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    return time.perf_counter() - start, result


class Record(NamedTuple):
    """Seconds of a step, and how far it is off, for each solver."""

    times: dict[str, list[float]]
    off: dict[str, float]


def compare(record: Record, rest: jax.Array, water: Water, steps: int) -> None:
    """Takes a step by every solver, and times those that the simulation does not."""
    seconds, expected = seconds_of(partial(surface_by_scipy, rest, water))
    record.times[SCIPY].append(seconds)
    for name, solve in SOLVERS.items():
        found = np.asarray(advanced(solve, rest, water, 1).surface)
        off = np.abs(found - expected).max() / np.abs(expected).max()
        record.off[name] = float(np.maximum(record.off[name], off))  # NaN, if either is
    seconds, _ = seconds_of(partial(advanced, by_lax, rest, water, steps))
    record.times[LAX].append(seconds / steps)


def simulate(cells: int, count: int) -> tuple[list[np.ndarray], list[str]]:
    """Frames of the surface in a grid, and what is wrong; prints steps per second."""
    depth, hill = basin(cells)
    rest, still = jnp.asarray(depth), jnp.zeros_like(depth)
    water, frames = Water(jnp.asarray(hill), (still, still)), [hill]
    steps, look_every = steps_of_frame(cells), -(-count // LOOKS)
    record = Record({name: [] for name in (JSCAN, LAX, SCIPY)}, dict.fromkeys(SOLVERS, 0.0))
    for i in range(count):
        if i % look_every == 0:
            compare(record, rest, water, steps)
        seconds, water = seconds_of(partial(advanced, by_jscan, rest, water, steps))
        record.times[JSCAN].append(seconds / steps)
        frames.append(np.asarray(water.surface))

    before, after = (np.sum(surface, dtype=np.float64) for surface in (hill, frames[-1]))
    change = float(after / before - 1)
    print(f"{cells} × {cells} cells, {count * steps} steps")
    for name, times in record.times.items():
        off = f"  off by {record.off[name]:.1e}" if name in record.off else ""
        print(f"  {name:28} {1 / np.median(times):8.1f} steps a second{off}")
    print(f"  volume: changed by {change:.1e} of the hill's\n")
    wrong = {f"a step of {name} is off by {off:.1e}": off for name, off in record.off.items()}
    wrong[f"the volume changed by {change:.1e} of the hill's"] = abs(change)
    return frames, [
        f"{cells} × {cells} cells: {line}" for line, off in wrong.items() if not off <= TOLERANCE
    ]


def shaded(surface: np.ndarray) -> np.ndarray:
    """Colours of the water in light from the upper left, paler where it is shallow."""
    cells = len(surface)
    rest, _ = basin(cells)
    colors = colormaps["GnBu"](0.8 - 0.45 * (1 - rest / DEPTH))[..., :3]
    falls = -sum(np.gradient(surface, WIDTH / cells))
    lit = np.clip(colors - 0.3 * np.tanh(20 * falls)[..., None], 0, 1)
    return (255 * lit).round().astype(np.uint8)


def save_pictures(path: Path, grids: dict[int, list[np.ndarray]]) -> None:
    """Some frames of each grid in a sheet, and all of the first one in an animation."""
    count = len(next(iter(grids.values())))
    shown = np.linspace(0, count - 1, 5).astype(int)
    figure = Figure(figsize=(10, 2.2 * len(grids)), layout="constrained")
    rows = figure.subplots(len(grids), len(shown), squeeze=False)
    for row, (cells, frames) in zip(rows, grids.items(), strict=True):
        seconds = steps_of_frame(cells) * COURANT * WIDTH / cells / math.sqrt(GRAVITY * DEPTH)
        for axes, i in zip(row, shown, strict=True):
            axes.imshow(shaded(frames[i]))
            axes.set(xticks=[], yticks=[], title=f"{i * seconds:.1f} s")
        row[0].set_ylabel(f"{cells} × {cells}")
    figure.savefig(path, dpi=80, format="png")

    images = [shaded(frame) for frame in next(iter(grids.values()))]
    palette = Image.fromarray(np.vstack([images[i] for i in shown])).quantize(128)
    first, *rest = (
        Image.fromarray(image).quantize(palette=palette, dither=Image.Dither.NONE)
        for image in images
    )
    moving = path.with_suffix(".gif")
    first.save(moving, save_all=True, append_images=rest, duration=80, loop=0, optimize=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Let the water move in every grid, print how fast, and check it."""
    parser = argparse.ArgumentParser(description="Shallow water by tridiagonal systems.")
    parser.add_argument(
        "--cells", type=int, nargs="+", default=[128, 512], help="sides of grids (default: both)"
    )
    parser.add_argument("--frames", type=int, default=64, help="how many (default: 64)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save pictures")
    options = parser.parse_args(arguments)
    if min(options.cells) < 2 or options.frames < 1:
        parser.error("there have to be two cells and a frame at least")
    if options.plot is not None and not options.plot.parent.is_dir():
        parser.error(f"cannot write {options.plot}: there is no such folder")

    grids, wrong = {}, []
    for cells in options.cells:
        grids[cells], found = simulate(cells, options.frames)
        wrong += found
    if options.plot is not None:
        save_pictures(options.plot, grids)
    kind = jax.devices()[0].device_kind
    print(f"ran on {kind}; jscan {jscan.__version__}, jax {jax.__version__}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    agree = "steps are SciPy's, and the volume is what it was"
    print(f"check: {'FAILED' if wrong else agree}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
