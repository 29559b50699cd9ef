"""A photograph blurred by boxes of any size, each at the cost of four reads a pixel.

The summed-area table of an image holds, at each pixel, the sum of all pixels above it and to its
left (Crow, 1984). Two scans make it, one down the columns and one along the rows. The sum of any
box is then a sum of four entries of the table, whatever the box' size:

    sums = cumsum(cumsum(image, 0), 1)
    box  = sums[below, right] - sums[above, right] - sums[below, left] + sums[above, left]

A box that reaches over the edge of the image is cut there, and its mean is that of its pixels in
the image. Pixels are integers, hence so is the table, and no sum is rounded. The photograph is that
of Grace Hopper which matplotlib brings along as sample data.

    python examples/summed_area.py                    the photograph, in four radii
    python examples/summed_area.py --plot blur.png    with a picture of them

Times stand beside those of a table by `jnp.cumsum`, of `jax.lax.reduce_window`, which reads each
pixel of a box, and of SciPy's uniform_filter, which walks along one axis, then the other. The exit
status is 0 only if all blurs agree with SciPy's and the table with NumPy's. The extra `examples`
brings SciPy and matplotlib.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import scipy.ndimage
from jax import lax
from matplotlib.figure import Figure
from matplotlib.image import imread

import jscan

RADII = (1, 4, 16, 64)
WINDOWED = 16  # the largest radius of boxes that are added up one by one
REPEATS = 5
TOLERANCE = 1e-3
"""Of 255 levels: float32 rounds a mean, and the share of a box in the image, to 2e-5 of them."""

Scan = Callable[[jax.Array, int], jax.Array]

SCANS: dict[str, Scan] = {"jscan.cumsum": jscan.cumsum, "jnp.cumsum": jnp.cumsum}
"""Scans along an axis, which tables are made by."""


def photograph() -> np.ndarray:
    """``(rows, columns, colours)`` of uint8."""
    path = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    return np.asarray(imread(path))


@functools.partial(jax.jit, static_argnums=0)
def summed_area(scan: Scan, image: jax.Array) -> jax.Array:
    """The table: ``(rows + 1, columns + 1, colours)`` of uint32, of which the first are 0.

    Sums wrap around where an image is large, and those of boxes below 2^24 pixels are right still.
    """
    table = scan(scan(image.astype(jnp.uint32), 0), 1)
    return jnp.pad(table, ((1, 0), (1, 0), (0, 0)))


@jax.jit
def box_means(table: jax.Array, radius: jax.Array) -> jax.Array:
    """The mean of the box around each pixel, ``2 radius + 1`` wide; a radius compiles nothing."""
    above, below = ends(table.shape[0] - 1, radius)
    left, right = ends(table.shape[1] - 1, radius)
    strips = table[below] - table[above]
    return mean_of(strips[:, right] - strips[:, left], radius)


def ends(size: int, radius: jax.Array | int) -> tuple[jax.Array, jax.Array]:
    """Where the box around each place of an axis begins and ends in it."""
    middle = jnp.arange(size, dtype=jnp.int32)
    return jnp.maximum(middle - radius, 0), jnp.minimum(middle + radius + 1, size)


def mean_of(sums: jax.Array, radius: jax.Array | int) -> jax.Array:
    """Sums of boxes by the number of their pixels that are in the image."""
    heights, widths = (
        behind - first for first, behind in (ends(n, radius) for n in sums.shape[:2])
    )
    pixels = (heights[:, None] * widths[None])[..., None]
    return sums.astype(jnp.float32) / pixels.astype(jnp.float32)


@functools.partial(jax.jit, static_argnums=1)
def box_means_by_windows(image: jax.Array, radius: int) -> jax.Array:
    """The same with every box added up by itself."""
    window = (2 * radius + 1, 2 * radius + 1, 1)
    around = ((radius, radius), (radius, radius), (0, 0))
    sums = lax.reduce_window(
        image.astype(jnp.int32), np.int32(0), lax.add, window, (1, 1, 1), around
    )
    return mean_of(sums, radius)


def box_means_by_scipy(image: np.ndarray, radius: int) -> np.ndarray:
    """The same by SciPy: means with zeros around the image, by the share of pixels inside."""

    def mean(x: np.ndarray) -> np.ndarray:
        how: dict[str, Any] = {"mode": "constant", "axes": (0, 1)}
        return scipy.ndimage.uniform_filter(x, 2 * radius + 1, **how)

    inside = mean(np.ones(image.shape[:2]))
    return mean(image.astype(np.float64)) / inside[..., None]


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What the first run gives, and the milliseconds of the fastest of those after it."""
    result = jax.block_until_ready(run())
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - start)
    return np.asarray(result), 1e3 * min(seconds)


def tables(image: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The table by jscan, and what is wrong with it; times are printed."""
    given = jnp.asarray(image)
    expected = np.pad(image.astype(np.uint32).cumsum(0).cumsum(1), ((1, 0), (1, 0), (0, 0)))
    found, wrong = {}, []
    print(f"{'a table by':24} {'time':>10}")
    for name, scan in SCANS.items():
        found[name], took = timed(functools.partial(summed_area, scan, given))
        print(f"{name:24} {took:7.2f} ms")
        off = int((found[name] != expected).sum())
        wrong += [f"the table by {name} has {off} wrong entries"] if off else []
    return found["jscan.cumsum"], wrong


def blurs(
    image: np.ndarray, table: np.ndarray, radii: Sequence[int]
) -> tuple[dict[int, np.ndarray], list[str]]:
    """The blurs by the table, and what is wrong with any; times are printed."""
    given, sums = jnp.asarray(image), jnp.asarray(table)
    wrong, found = [], {}
    print(f"\n{'a blur by':24}" + "".join(f"{f'radius {radius}':>13}" for radius in radii))
    ways: dict[str, Callable[[int], Any]] = {
        "four reads of the table": lambda radius: box_means(sums, jnp.int32(radius)),
        "lax.reduce_window": lambda radius: box_means_by_windows(given, radius),
        "scipy.ndimage": lambda radius: box_means_by_scipy(image, radius),
    }
    expected = {radius: box_means_by_scipy(image, radius) for radius in radii}
    for name, way in ways.items():
        row = ""
        for radius in radii:
            if name == "lax.reduce_window" and radius > WINDOWED:
                row += f"{'-':>13}"
                continue
            result, took = timed(functools.partial(way, radius))
            row += f"{took:10.2f} ms"
            off = float(np.abs(result - expected[radius]).max())
            if not off <= TOLERANCE:
                wrong.append(f"the blur of radius {radius} by {name} is off by {off:.3g}")
            if name == "four reads of the table":
                found[radius] = result
        print(f"{name:24}{row}")
    return found, wrong


def save_picture(path: Path, image: np.ndarray, blurred: dict[int, np.ndarray]) -> None:
    """The photograph and its blurs, side by side."""
    shown = {"the photograph": image, **{f"radius {r}": x for r, x in blurred.items()}}
    figure = Figure(figsize=(2 * len(shown), 2.7), layout="constrained")
    for axes, (title, x) in zip(figure.subplots(1, len(shown)), shown.items(), strict=True):
        axes.imshow(np.clip(np.rint(x), 0, 255).astype(np.uint8))
        axes.set_title(title)
        axes.set_axis_off()
    figure.savefig(path, dpi=70, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the table, blur by it in every radius, print times, and check all of it."""
    parser = argparse.ArgumentParser(description="Box blurs by a summed-area table.")
    parser.add_argument("--radii", type=int, nargs="+", default=RADII, help="of the boxes")
    parser.add_argument("--shrink", type=int, default=1, help="take each so manieth pixel")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    picture = options.plot
    if min(options.radii) < 0 or options.shrink < 1:
        parser.error("radii must not be negative, and --shrink must be at least 1")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")

    image = np.ascontiguousarray(photograph()[:: options.shrink, :: options.shrink])
    print(f"a photograph of {image.shape[0]} x {image.shape[1]} pixels\n")
    table, wrong = tables(image)
    blurred, more = blurs(image, table, options.radii)
    wrong += more
    if picture is not None:
        save_picture(picture, image, blurred)
    versions = f"jscan {jscan.__version__}, jax {jax.__version__}"
    print(f"\nran on {jax.devices()[0].device_kind}; {versions}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    agrees = "the table is that of NumPy, and the blurs are those of SciPy"
    print(f"check: {'FAILED' if wrong else agrees}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
