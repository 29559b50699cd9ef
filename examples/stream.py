"""A recording that comes in blocks of any length, scanned as if it were there as a whole.

The blocks are those of a nerve cell's potential, `membrane.dat`, which matplotlib brings along as
sample data. Each sample gets

    mean      a mean that fades, h[t] = a h[t-1] + (1 - a) x[t]      linear_recurrence, from h0
    largest   the largest potential since the last rise              cummax by segments, from init
    rises     how often the potential has risen over a threshold     cumsum, from init

and of a block no more is kept than the last sample and three numbers, which the next one starts
from. A rise begins a segment: one at the first sample of a block drops the largest of those before.

    python examples/stream.py
    python examples/stream.py --longest 100 --seed 3

The exit status is 0 only if counts and largest potentials are those of a loop in NumPy over the
whole recording, and means within 1e-5 of them. The extra `examples` brings matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

import jscan

FADING = 0.99
THRESHOLD = 0.0
"""Standard deviations above the mean of the recording."""

TOLERANCE = 1e-5


class State(NamedTuple):
    """What goes on from one block to the next."""

    last: jax.Array
    mean: jax.Array
    largest: jax.Array
    rises: jax.Array


class Found(NamedTuple):
    """What each sample gets."""

    mean: jax.Array
    largest: jax.Array
    rises: jax.Array


def beginning(first: float) -> State:
    """The state before the first sample, which is no rise."""
    x = jnp.float32(first)
    return State(x, x, x, jnp.int32(0))


@jax.jit
def block(state: State, x: jax.Array) -> tuple[State, Found]:
    """What the samples of a block get, and the state behind it."""
    before = jnp.concatenate([state.last[None], x[:-1]])
    rise = (x > THRESHOLD) & (before <= THRESHOLD)
    fading = jnp.full(x.shape, FADING, x.dtype)
    found = Found(
        mean=jscan.linear_recurrence(fading, (1 - FADING) * x, state.mean),
        largest=jscan.cummax(x, init=state.largest, segments=rise),
        rises=jscan.cumsum(rise.astype(jnp.int32), init=state.rises),
    )
    return State(x[-1], *(y[-1] for y in found)), found


def blocks(x: np.ndarray, longest: int, seed: int) -> Iterator[np.ndarray]:
    """The recording in blocks; their lengths are of few kinds, since each is compiled for."""
    rng = np.random.default_rng(seed)
    kinds = np.unique(rng.integers(1, longest + 1, 8))
    place = 0
    while place < len(x):
        length = int(rng.choice(kinds))
        yield x[place : place + length]
        place += length


def in_numpy(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same, one sample after another."""
    mean = largest = last = np.float64(x[0])
    rises, found = 0, []
    for sample in x.astype(np.float64):
        rise = sample > THRESHOLD >= last
        mean = FADING * mean + (1 - FADING) * sample
        largest = sample if rise else max(largest, sample)
        rises, last = rises + rise, sample
        found.append((mean, largest, rises))
    return tuple(map(np.array, zip(*found, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Scan the blocks, and compare what was found with a loop."""
    parser = argparse.ArgumentParser(description="Scans of a recording that comes in blocks.")
    parser.add_argument("--longest", type=int, default=500, help="samples of a block, at most")
    parser.add_argument("--seed", type=int, default=0, help="for the lengths of blocks")
    options = parser.parse_args(arguments)
    if options.longest < 1:
        parser.error("a block has a sample at least")
    recording = Path(matplotlib.get_data_path(), "sample_data", "membrane.dat")
    raw = np.fromfile(recording, "<f4")
    x = (raw - raw.mean()) / raw.std()

    state, parts = beginning(x[0]), []
    for part in blocks(x, options.longest, options.seed):
        state, found = block(state, jnp.asarray(part))
        parts.append(found)
    mean, largest, rises = (np.concatenate(each) for each in zip(*parts, strict=True))
    expected = in_numpy(x)
    wrong = []
    if not np.allclose(mean, expected[0], rtol=0, atol=TOLERANCE):
        wrong.append("means")
    if not (largest == expected[1]).all():
        wrong.append("largest potentials")
    if not (rises == expected[2]).all():
        wrong.append("rises")

    print(f"{len(x)} samples in {len(parts)} blocks of at most {options.longest}")
    print(f"{state.rises} rises over the mean; the last mean is {state.mean:.4f}")
    device = jax.devices()[0].device_kind
    print(f"ran on {device}; jscan {jscan.__version__}, jax {jax.__version__}")
    print(f"check: {'FAILED: ' + ', '.join(wrong) if wrong else 'all are those of the whole'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
