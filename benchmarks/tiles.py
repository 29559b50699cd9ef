"""Forced tiles and windows: the orderings that the literature reports, on one array."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax.numpy as jnp

from benchmarks import inputs, subjects
from benchmarks.case import Case, length
from benchmarks.subjects import Subject
from jscan.kernels.tuning import Tuning

CUTS = ((512, 1), (1024, 1), (2048, 1), (4096, 1), (8192, 1), (8192, 2))
WINDOWS = (1, 4, 8, 16, 32)
WAYS = ("operator transformation", "conditional indexing")
LANES = 32  # of a warp: a window has one word for each


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    return [*_lengths(shrink), *_windows(shrink), *_guarded(shrink)]


def _plural(warps: int) -> str:
    return "1 warp" if warps == 1 else f"{warps} warps"


def _lengths(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    subject = subjects.plain_sum(n)
    for method in ("chained", "lookback", "serial_lookback"):
        for tile, warps in CUTS:
            if method == "serial_lookback" and warps > 1:
                continue  # each warp would read the one word for itself
            window = LANES * warps if method == "lookback" else 1
            case = subject.case(
                f"sum, float32, {size}, {method}, tiles of {tile}, {_plural(warps)}",
                method,
                group="sum",
                at=tile,
                line=method if warps == 1 else f"{method}, {_plural(warps)}",
            )
            yield dataclasses.replace(case, tuning=Tuning(tile, 1, warps, window))


def _windows(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    subject = subjects.plain_sum(n)
    for tile in (2048, 4096):
        for window in WINDOWS:
            case = subject.case(
                f"sum, float32, {size}, lookback, tiles of {tile}, window of {window}",
                "lookback",
                group="window",
                at=window,
                line=f"tiles of {tile}",
            )
            yield dataclasses.replace(case, tuning=Tuning(tile, 1, 1, window))


def _guarded(shrink: int) -> Iterator[Case]:
    """The flag-value operator against steps that are guarded by where the last head is."""
    for density, heads in ((0.01, "1 %"), (0.3, "30 %")):
        for what, subject, size in _segmented(density, shrink):
            for tile in (512, 1024, 2048):
                for warps in (1, 4):
                    for guarded, way in enumerate(WAYS):
                        case = subject.case(
                            f"segmented {what}, heads {heads}, {size}, {way}, tiles of {tile}, "
                            f"{_plural(warps)}",
                            "lookback",
                            group=f"segmented {what}, heads {heads}, {_plural(warps)}",
                            at=tile,
                            line=way,
                        )
                        cut = Tuning(tile, 1, warps, LANES * warps, guarded=bool(guarded))
                        yield dataclasses.replace(case, tuning=cut)


def _segmented(density: float, shrink: int) -> Iterator[tuple[str, Subject, str]]:
    n, size = length(26, shrink)
    flagged = inputs.flagged((n,), (n,), jnp.uint8)
    yield "sum", subjects.segmented_sum(n, flagged, (density,)), size
    yield "affine", subjects.segmented_affine(n, density), size
