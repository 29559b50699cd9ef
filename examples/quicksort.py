"""Two sorts that are made of scans: a quicksort of all segments at once, and a split radix sort.

Both are those of Sengupta, Harris, Zhang and Owens, "Scan Primitives for GPU Computing" (2007). A
pass of quicksort works on all segments together, of which there is one to begin with:

    5 3 7 4 6       5 5 5 5 5    distribute          the first key of each segment is its pivot
    5 3 4 | 7 6     5 5 5 | 7 7  split_and_segment   keys that are greater go behind the others
    3 4 | 5 | 6 | 7              split_and_segment   and so do equal ones, in every other pass

and so on until the keys are in order. Where the pivot is the greatest key of a segment, nothing is
greater, and where it is the least, all others are at least equal: one of two passes cuts any
segment whose keys differ. A pass of the radix sort splits all keys by one of their bits, from the
lowest to the highest, and each split keeps the order of the one before.

    python examples/quicksort.py                     2^20 keys of 32 bits; on a GPU 2^22
    python examples/quicksort.py --length 4194304
    python examples/quicksort.py --plot passes.png   with a picture of the passes

Each sorts keys of three kinds, beside `jnp.sort` and NumPy. The exit status is 0 only if all keys
are where NumPy has them. The extra `examples` brings matplotlib, which draws the picture.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import jscan

BITS = 32
LENGTHS = {"cpu": 2**20, "gpu": 2**22}
REPEATS = 3
DRAWN = 64
"""How many keys are in the picture: those of six bits."""

State = tuple[jax.Array, jscan.Segments, jax.Array]
"""Keys, the segments that are left to sort, and the number of passes so far."""


def beginning(keys: jax.Array) -> State:
    """One segment, which holds all keys."""
    whole = jscan.Segments.from_flags(jnp.arange(keys.shape[0]) == 0)
    return keys, whole, jnp.int32(0)


def quicksort_pass(state: State) -> State:
    """Each segment cut in two around its first key."""
    keys, segments, passes = state
    pivot = jscan.distribute(keys, segments=segments)
    behind = jnp.where(passes % 2 == 0, keys > pivot, keys >= pivot)
    return *jscan.split_and_segment(keys, behind, segments), passes + 1


def unsorted(state: State) -> jax.Array:
    """Whether keys are out of order, and passes could help: two for each key always do."""
    keys, _, passes = state
    return jnp.any(keys[1:] < keys[:-1]) & (passes < 2 * keys.shape[0])


@jax.jit
def quicksort(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The keys in order, and the passes that it took."""
    keys, _, passes = lax.while_loop(unsorted, quicksort_pass, beginning(keys))
    return keys, passes


def radix_pass(bit: Any, keys: jax.Array) -> jax.Array:
    """Keys with a bit behind those without; of the sign it is the other way."""
    has_bit = (keys >> bit & 1) == 1
    return jscan.split(keys, has_bit != (bit == BITS - 1))


@jax.jit
def radix_sort(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The keys in order, and the passes that it took."""
    return lax.fori_loop(0, BITS, radix_pass, keys), jnp.int32(BITS)


SORTS: dict[str, Callable[[Any], Any]] = {
    "quicksort by jscan": quicksort,
    "radix sort by jscan": radix_sort,
    "jnp.sort": jax.jit(jnp.sort),
    "numpy.sort": np.sort,
}


def kinds_of_keys(length: int) -> dict[str, np.ndarray]:
    """Keys of 32 bits: of all values, of few, and in order."""
    random = np.random.default_rng(0)
    ends = np.iinfo(np.int32)
    spread = random.integers(ends.min, ends.max, length, np.int32, endpoint=True)
    few = random.integers(-8, 8, length, np.int32)
    return {"any integers": spread, "sixteen values": few, "in order already": np.sort(spread)}


def seconds_of(sort: Callable[[Any], Any], keys: Any) -> float:
    """The median time of a few calls."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(sort(keys))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def sort_all(kind: str, keys: np.ndarray) -> list[str]:
    """Sort keys in every way, print how long each took, and return what is wrong."""
    print(f"{kind:22} {'time':>10}  {'keys a second':>15}  passes")
    expected, wrong = np.sort(keys), []
    for name, sort in SORTS.items():
        own = keys if sort is np.sort else jnp.asarray(keys)
        result, *passes = jax.device_get(jax.tree.leaves(sort(own)))
        seconds = seconds_of(sort, own)
        counted = "".join(f"  {count:6}" for count in passes)
        print(
            f"{name:22} {1e3 * seconds:7.2f} ms  {len(keys) / seconds / 1e6:7.1f} million{counted}"
        )
        for t in np.flatnonzero(result != expected)[:1]:
            wrong.append(f"{kind}, {name}: key {t} is {result[t]}, not {expected[t]}")
    print()
    return wrong


def draw(axes: Axes, title: str, orders: Sequence[Any]) -> None:
    """A line for each key, from its place in one order to its place in the next."""
    places = np.argsort(np.array(orders), axis=1)
    for key, color in enumerate(colormaps["viridis"](np.linspace(0, 1, DRAWN))):
        axes.plot(places[:, key], range(len(orders)), color=color, linewidth=1.4)
    axes.set(title=title, xlabel="place", xlim=(-1, DRAWN), ylim=(len(orders) - 0.6, -0.4))


def save_picture(path: Path) -> None:
    """The way of every key through the passes of both sorts."""
    keys = jnp.asarray(np.random.default_rng(0).permutation(DRAWN).astype(np.int32))
    states = [beginning(keys)]
    while unsorted(states[-1]):
        states.append(quicksort_pass(states[-1]))
    by_bits = [keys]
    for bit in range((DRAWN - 1).bit_length()):
        by_bits.append(radix_pass(bit, by_bits[-1]))

    figure = Figure(figsize=(9, 6), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, "quicksort, and where segments begin", [keys for keys, _, _ in states])
    for i, (_, segments, _) in enumerate(states):
        heads = np.flatnonzero(segments.flags)
        left.vlines(heads - 0.5, i - 0.25, i + 0.25, color="black", linewidth=1)
    draw(right, "radix sort, a bit in each pass", by_bits)
    left.set_ylabel("passes")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=90, format="png")
    # A palette makes it a fifth as large: where lines cross there are thousands of colours.
    Image.open(drawn).convert("RGB").quantize(128).save(path, "PNG", optimize=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sort keys of every kind in every way, print the times, and check the results."""
    parser = argparse.ArgumentParser(description="Sorts that are made of scans.")
    parser.add_argument("--length", type=int, help="keys (default: 2^22 on a GPU, 2^20 elsewhere)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    device, picture = jax.devices()[0], options.plot
    length = (
        LENGTHS.get(device.platform, LENGTHS["cpu"]) if options.length is None else options.length
    )
    if length < 1:
        parser.error("there has to be a key at least")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")

    print(f"{length} keys of {BITS} bits\n")
    wrong = [line for own in kinds_of_keys(length).items() for line in sort_all(*own)]
    if picture is not None:
        save_picture(picture)
    print(f"ran on {device.device_kind}; jscan {jscan.__version__}, jax {jax.__version__}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if wrong else 'all keys are where NumPy has them'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
