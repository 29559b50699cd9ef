"""What the papers on scans measured, and the same work here.

A figure stands here only with where it was read. The reports of Sengupta, Harris and Garland (2008)
and of Sengupta, Harris, Garland and Owens (2011) have figures of the same kinds, which could not be
read for this list.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import counterparts, inputs, matrices, operations
from benchmarks.cases.case import Build, Operation, call
from benchmarks.cases.functions import ELEMENTS

Unit = Literal["ms", "MFLOP/s", "steps/s", "10⁹/s", "×"]
"""Milliseconds, of which fewer are better; work a second; times as fast as something older."""


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper, what it measured on, and where its figures were read."""

    year: int
    title: str
    device: str
    source: str


@dataclasses.dataclass(frozen=True)
class Work:
    """A piece of work, done by jscan and by what else there is in JAX.

    Attributes:
      name: what is done.
      build: the operands; it is told whether they are for a GPU.
      jscan: the call.
      peers: the same by others.
      amount: how much of what is counted a call does, operations, steps or elements: on a CPU, and
        on a GPU.
      on_gpus: whether a CPU cannot do it as the paper did.
      whole: whether a call is many kernels with pauses between them, which count.
    """

    name: str
    build: Callable[[bool], tuple[jax.Array, ...]]
    jscan: Operation
    peers: Mapping[str, Operation]
    amount: tuple[float, float] = (1.0, 1.0)
    on_gpus: bool = False
    whole: bool = False


@dataclasses.dataclass(frozen=True)
class Figure:
    """A published figure.

    Attributes:
      paper: where it was published.
      work: what was measured.
      value: the figure.
      unit: of the figure.
      said: what the paper compares, where a unit does not say it.
      of: what a figure of "×" refers to: milliseconds of an older one, or a peer's name.
    """

    paper: Paper
    work: Work
    value: float
    unit: Unit
    said: str = ""
    of: float | str | None = None

    def of_seconds(self, seconds: float, peers: Mapping[str, float], on_gpu: bool) -> float | None:
        """The same figure of a call that takes so long, and peers that take so long."""
        if self.unit == "ms":
            return 1e3 * seconds
        if self.unit == "×":
            older = peers.get(self.of) if isinstance(self.of, str) else self.of and 1e-3 * self.of
            return older / seconds if older else None
        scale = {"MFLOP/s": 1e6, "steps/s": 1.0, "10⁹/s": 1e9}[self.unit]
        return self.work.amount[on_gpu] / seconds / scale

    def times_better(self, now: float) -> float:
        """By how much a figure of today is better."""
        return self.value / now if self.unit == "ms" else now / self.value


SEGMENTED, SORTED = 2**20, 2**22
CELLS, STEPS = 128, 64
GRAVITY = 0.25
"""g Δt² / Δx² at a depth of 1."""


def _heads(on_gpu: bool) -> tuple[jax.Array, ...]:
    del on_gpu
    return inputs.flagged((SEGMENTED,), (SEGMENTED,), jnp.uint8, jnp.float32(0.01))


def _keys(on_gpu: bool) -> tuple[jax.Array, ...]:
    del on_gpu
    return inputs.words(SORTED)


def _elements(on_gpu: bool) -> tuple[jax.Array, ...]:
    del on_gpu
    return matrices.elements(*ELEMENTS)


def _water(on_gpu: bool) -> tuple[jax.Array, ...]:
    """A hill of water in a basin whose bed rises to one side."""
    del on_gpu
    place = jnp.linspace(-1.0, 1.0, CELLS)
    x, y = jnp.meshgrid(place, place)
    surface = 1.0 + 0.3 * jnp.exp(-40.0 * ((x + 0.3) ** 2 + y**2))
    return surface, 0.4 * (1.0 + x)


def _long(on_gpu: bool) -> tuple[jax.Array, ...]:
    return inputs.signs((2**28 if on_gpu else 2**24,), jnp.int32)


def radix_sort(keys: jax.Array) -> jax.Array:
    """Integers of 32 bits in order, by a split for each bit; of the sign it is the other way."""

    def by_bit(bit: jax.Array, keys: jax.Array) -> jax.Array:
        has_bit = ((keys >> bit) & 1) == 1
        result: jax.Array = jscan.split(keys, has_bit != (bit == 31))
        return result

    return lax.fori_loop(0, 32, by_bit, keys)


def water(solve: Callable[..., jax.Array], surface: jax.Array, bed: jax.Array) -> jax.Array:
    """The surface after so many steps of Kass and Miller (1990): rows, then columns."""

    def step(_: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        now, before = state
        after = 2 * now - before
        depth = jnp.maximum(now - bed, 0.0)
        for _axis in range(2):  # along the last axis; a transposition brings the other one there
            between = GRAVITY / 2 * (depth[:, 1:] + depth[:, :-1])
            left, right = (jnp.pad(between, ((0, 0), side)) for side in ((1, 0), (0, 1)))
            after = solve(-left, 1 + left + right, -right, after).T
            depth = depth.T
        return after, now

    return lax.fori_loop(0, STEPS, step, (surface, surface))[0]


def _solved(dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array) -> jax.Array:
    return jscan.tridiagonal_solve(dl, d, du, b, axis=-1)


def _segmented_backwards(x: jax.Array, heads: jax.Array) -> jax.Array:
    """By lax.associative_scan, where a segment's last element is a head from behind."""
    ends = jnp.roll(heads, -1).at[-1].set(1) != 0

    def join(a: Any, b: Any) -> Any:
        return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])

    result: jax.Array = lax.associative_scan(join, (ends, x), reverse=True)[1]
    return result


FORWARD = Work(
    "segmented sum of 2^20 elements",
    _heads,
    operations.segmented_sum,
    {"lax.associative_scan": operations.lax_segmented_sum},
)
BACKWARD = Work(
    "the same from behind",
    _heads,
    call(operations.segmented_sum, reverse=True),
    {"lax.associative_scan": _segmented_backwards},
)
SORT = Work("sort of 2^22 integers, by splits", _keys, radix_sort, {"jnp.sort": jnp.sort})
PRODUCT = Work(
    f"sparse product, {ELEMENTS[1]} entries in {ELEMENTS[0]} rows",
    _elements,
    jscan.csr_matvec,
    {"BCSR": counterparts.bcsr},
    (2.0 * ELEMENTS[1],) * 2,
)
WATER = Work(
    f"shallow water, {CELLS} × {CELLS}",
    _water,
    call(water, _solved),
    {"lax.linalg": call(water, counterparts.eliminated)},
    (float(STEPS),) * 2,
    whole=True,
)
SCAN = Work(
    "sum of 2^28 integers; on a CPU of 2^24",
    _long,
    jscan.cumsum,
    {"lax.cumsum": operations.lax_cumsum},
    (2.0**24, 2.0**28),
)
CHAIN = dataclasses.replace(
    SCAN,
    name="sum of 2^28 integers, beside a chain of tiles",
    jscan=call(jscan.cumsum, method="lookback"),
    peers={"chained": call(jscan.cumsum, method="chained")},
    on_gpus=True,
)

PRIMITIVES = Paper(
    2007,
    "Sengupta, Harris, Zhang and Owens, *Scan Primitives for GPU Computing*",
    "a GPU",
    "Graphics Hardware 2007, pages 97 to 106, as this project's plan quotes it",
)
MATRICES = Paper(
    2008,
    "Dotsenko, Govindaraju, Sloan, Boyd and Manferdelli, *Fast Scan Algorithms on Graphics "
    "Processors*",
    "GeForce 8800",
    "its abstract, ICS 2008, pages 205 to 213 (<https://hgpu.org/?p=1973>)",
)


def _lookback(device: str) -> Paper:
    return Paper(
        2016,
        "Merrill and Garland, *Single-pass Parallel Prefix Scan with Decoupled Look-back*",
        device,
        "a public summary of the report, NVR-2016-002: at second hand",
    )


FIGURES = (
    Figure(PRIMITIVES, FORWARD, 2.61, "ms"),
    Figure(PRIMITIVES, BACKWARD, 4.29, "ms"),
    Figure(PRIMITIVES, SORT, 165.0, "ms"),
    Figure(PRIMITIVES, PRODUCT, 215.0, "MFLOP/s"),
    Figure(PRIMITIVES, WATER, 1207.0, "steps/s"),
    Figure(
        MATRICES,
        FORWARD,
        10.0,
        "×",
        "as fast as scans of GPUs before, at the most; here as the 2.61 ms of 2007",
        2.61,
    ),
    Figure(_lookback("Tesla C2050"), SCAN, 14.4, "10⁹/s"),
    Figure(_lookback("Tesla K40"), SCAN, 26.8, "10⁹/s"),
    Figure(_lookback("Tesla M40"), SCAN, 31.0, "10⁹/s"),
    Figure(
        _lookback("three GPUs"),
        CHAIN,
        1.60,
        "×",
        "as fast as a chained scan (StreamScan), the harmonic mean over sizes; here at one size",
        "chained",
    ),
)
"""In the order of the page."""

WORKS = tuple(dict.fromkeys(figure.work.name for figure in FIGURES))
"""The names of all works, each once."""


def work(name: str) -> Work:
    """The work of a name."""
    return next(figure.work for figure in FIGURES if figure.work.name == name)


__all__ = ["FIGURES", "WORKS", "Build", "Figure", "Paper", "Work", "radix_sort", "water", "work"]
