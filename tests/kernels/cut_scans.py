"""Scans along the last axis but one whose cuts are looked at: results, a loop's, and the cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jscan
from jscan.kernels import strategies, tuning
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine


class Scan(NamedTuple):
    """What is scanned; segments are each lane's "own", or "shared" by all."""

    dtype: str
    leaves: int
    combine: Callable[[Any, Any], Any]
    shape: tuple[int, ...]
    segmented: str | None
    exclusive: bool = False


class Scanned(NamedTuple):
    """Results and a loop's, pair by pair, and the method and the cut of each scan on the way."""

    pairs: list[tuple[Any, Any]]
    cuts: list[tuple[str, tuning.Tuning]]


def add(a: Any, b: Any) -> Any:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def scanned(
    strategy: Engine, scan: Scan, monkeypatch: pytest.MonkeyPatch, *, reverse: bool
) -> Scanned:
    """Scans small numbers by the strategy's method and by a loop."""
    cuts: list[tuple[str, tuning.Tuning]] = []
    settled = strategies.settled

    def recorded(shape: Any, tuned: Any, method: str, **named: Any) -> tuning.Tuning:
        cut = settled(shape, tuned, method, **named)
        cuts.append((method, cut))
        return cut

    monkeypatch.setattr("jscan.kernels.scanning.settled", recorded)
    rng, axis, shape = np.random.default_rng(7), len(scan.shape) - 2, scan.shape
    values = tuple(rng.integers(-1, 2, shape).astype(scan.dtype) for _ in range(scan.leaves))
    if scan.dtype == "complex64":
        values = tuple(x + 1j * np.flip(x) for x in values)
    flags, form = None, dict[str, Any](axis=axis, reverse=reverse)
    if scan.segmented:
        flags = head_flags(shape if scan.segmented == "own" else shape[:-1], share=0.05)
    if scan.exclusive:
        form |= {"exclusive": True, "identity": tuple(np.zeros((), x.dtype) for x in values)}

    def call(*x: Any) -> Any:
        return jscan.associative_scan(
            scan.combine, x, segments=flags, method=strategy.method, **form
        )

    with jax.enable_x64(True), strategy.active():
        found = jax.tree.map(np.asarray, jax.jit(call)(*values))
        expected = reference.scan(scan.combine, values, flags=flags, **form)
    wanted = [one.astype(scan.dtype) for one in expected]
    return Scanned(list(zip(found, wanted, strict=True)), cuts)
