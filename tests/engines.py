"""The implementations that one test body runs for, in one list.

A test with an `engine` parameter runs once for every entry of ENGINES. To add a strategy, add
its line here. `method` goes into the call under test; `interpreted` runs the kernel's body
through JAX instead of a GPU; `gpu` marks the case as one for a real device. `builder` names what
builds the kernels there; with the environment's JSCAN_ENGINE, all tests run on another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import jscan
from jscan import engines, primitives
from jscan.kernels import tuning

# Around warps, and around the powers of two that tiles are made of (the sizes of Thrust's suite).
SMALL = (0, 1, 2, 3, 4, 5, 8, 10, 13, 16, 17, 30, 31, 32, 33, 63, 64, 65, 127, 128, 129)
MIDDLE = (255, 256, 257, 511, 512, 513, 1000, 1023, 1024, 1025, 1337)
TILES = (2047, 2048, 2049, 3000, 3968, 4095, 4096, 4097, 8191, 8192, 8193, 10_000, 12_289)
LARGE = (65_537, 1_000_003, 10_000_000)  # for tests whose answer has a closed form


@dataclass(frozen=True)
class Engine:
    """One way to run a scan: the `method` to ask for, and where its kernel runs."""

    name: str
    method: str
    sizes: tuple[int, ...]
    large_sizes: tuple[int, ...] = ()
    breadth: tuple[str, ...] = ()  # the markers of tests with many cases that it runs
    automatic: bool = False  # whether it runs functions that choose their method themselves
    sized: bool = False  # runs only tests that have a size, besides automatic ones
    interpreted: bool = False
    gpu: bool = False
    builder: str | None = None  # of kernels: `jscan.engine`; None for the default
    tile: tuning.Tuning | None = None  # instead of the table's, to see many tiles in few elements

    def runs(self, markers: set[str], sized: bool) -> bool:
        """Whether a test with these markers is affordable on this engine, and news there."""
        if "automatic" in markers:
            costly = {"sweep", "grid"} if self.interpreted else set() if self.gpu else {"grid"}
            return self.automatic and not markers & costly
        if self.sized and not sized:
            return False
        return not markers & {"sweep", "grid"} - set(self.breadth)

    @property
    def longest(self) -> int:
        """The longest row that a test compares element by element."""
        return self.sizes[-1]

    @contextlib.contextmanager
    def active(self) -> Iterator[Engine]:
        """Makes calls with this engine's method run on it."""
        with contextlib.ExitStack() as stack:
            if self.interpreted:
                stack.enter_context(primitives.interpreted())
            if self.builder is not None:
                stack.enter_context(jscan.engine(self.builder))
            if self.tile is not None:
                stack.enter_context(primitives.tiled(self.tile))
            yield self


# For tests that take no engine's method, but run where it runs.
on_engines = pytest.mark.usefixtures("engine")

STRATEGIES = (
    "lookback",
    "serial_lookback",
    "chained",
    "repeatable",
    "reduce_then_scan",
    "scan_then_propagate",
)
"""The methods of kernels for rows that no tile holds."""

every_strategy = pytest.mark.parametrize(
    "strategy",
    [
        *(
            Engine(f"{name}-interpreted", name, (), interpreted=True)
            for name in (*STRATEGIES, "block")
        ),
        *(
            pytest.param(Engine(f"{name}-gpu", name, (), gpu=True), marks=pytest.mark.gpu)
            for name in (*STRATEGIES, "block")
        ),
    ],
    ids=lambda e: e.name,
)
"""For tests with tiles of their own."""

_FIRST = (
    # The fallback has no tiles, and its compilation grows with the logarithm of the size.
    Engine("xla", "xla", (*SMALL, 257), LARGE[:1], breadth=("sweep",), automatic=True),
    # What "auto" takes on a CPU: axes longer than 8 one element after another, floats in stretches.
    Engine("auto", "auto", (0, 1, 2, 8, 9, 17, 65, 129, 257, 1337), LARGE[:1], breadth=("sweep",)),
    Engine("block-interpreted", "block", (0, 1, 2, 31, 33, 257), interpreted=True),
    # Left to itself it takes whole rows as a block, and only the longest of these by lookback.
    Engine(
        "lookback-interpreted",
        "lookback",
        (0, 1, 33, 4097, 12_289),
        interpreted=True,
        automatic=True,
        sized=True,
    ),
    Engine(
        "lookback-interpreted-in-small-tiles",
        "lookback",
        (63, 64, 65, 300),
        interpreted=True,
        tile=tuning.Tuning(length=64, lanes=1, warps=1, window=4, strip=16),
    ),
    Engine(
        "two-passes-interpreted-in-small-tiles",
        "reduce_then_scan",
        (63, 65, 300),
        interpreted=True,
        sized=True,
        tile=tuning.Tuning(length=64, lanes=1, warps=1, window=4, strip=16),
    ),
    *(
        Engine(
            f"{name}-interpreted-in-small-tiles",
            name,
            (63, 65, 300),
            interpreted=True,
            sized=True,
            # Totals of so short tiles outgrow one, too.
            tile=tuning.Tuning(length=16, lanes=1, warps=1, window=4),
        )
        for name in ("serial_lookback", "chained", "scan_then_propagate")
    ),
    Engine(
        "repeatable-interpreted-in-small-tiles",
        "repeatable",
        (63, 65, 300),
        interpreted=True,
        sized=True,
        tile=tuning.Tuning(length=16, lanes=1, warps=1, window=2),
    ),
    Engine("block-gpu", "block", SMALL + MIDDLE, breadth=("sweep", "grid"), gpu=True),
    Engine(
        "lookback-gpu",
        "lookback",
        SMALL + MIDDLE + TILES,
        LARGE,
        breadth=("sweep", "grid"),
        gpu=True,
    ),
    Engine(
        "two-passes-gpu",
        "reduce_then_scan",
        SMALL[::4] + MIDDLE[::4] + TILES[::2],
        LARGE,
        breadth=("sweep",),
        gpu=True,
    ),
    *(
        Engine(
            f"{name}-gpu",
            name,
            SMALL[::6] + MIDDLE[::6] + TILES[::4],
            LARGE,
            gpu=True,
        )
        for name in ("serial_lookback", "chained", "repeatable", "scan_then_propagate")
    ),
    Engine("auto-gpu", "auto", SMALL + MIDDLE + TILES, LARGE, gpu=True, automatic=True),
)


def _on_the_second() -> Iterator[Engine]:
    """The engines for a GPU with kernels that jax-triton builds, where the others' are not.

    They leave tests with many cases to a run with JSCAN_ENGINE=jax-triton. They are where jax can
    run on a GPU, and say what is missing there.
    """
    plugins = map(importlib.util.find_spec, ("jax_cuda13_plugin", "jax_cuda12_plugin"))
    if engines.choice().name != "pallas" or not any(plugins):
        return
    for engine in _FIRST:
        if engine.gpu:
            name = f"{engine.name}-by-jax-triton"
            yield dataclasses.replace(engine, name=name, builder="jax-triton", breadth=())


ENGINES = (*_FIRST, *_on_the_second())

by_kernel = pytest.mark.parametrize(
    "strategy",
    [
        Engine("interpreted", "auto", (), interpreted=True),
        *(
            pytest.param(Engine(name, "auto", (), gpu=True, builder=name), marks=pytest.mark.gpu)
            for name in ("pallas", "jax-triton")
        ),
    ],
    ids=lambda strategy: strategy.name,
)
"""A test with a `strategy`: interpreted, and on a GPU by both engines."""
