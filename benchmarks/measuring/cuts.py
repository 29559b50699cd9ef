"""Which cuts the scans of a call get, without running them.

Two trees, or two versions of a rule, are compared by the calls whose cuts differ: these alone have
to be timed in both (`python -m benchmarks walk --cuts`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases.walk.steps import Step
from benchmarks.measuring import walk
from jscan.kernels import scanning
from jscan.kernels.tuning import Tuning

FIRST = ("length", "lanes", "warps", "window")
"""The parts of a cut that are said first, without their names."""
FAILED = "FAILED"


def said(cut: Tuning) -> str:
    """A cut as ``--cut`` takes it: its first parts, then those that are not as usual."""
    first = " ".join(str(getattr(cut, name)) for name in FIRST)
    usual = Tuning(cut.length, cut.lanes, cut.warps, cut.window)
    others = [
        f"{field.name}={int(getattr(cut, field.name))}"
        for field in dataclasses.fields(cut)
        if getattr(cut, field.name) != getattr(usual, field.name)
    ]
    return " ".join([first, *others])


@contextlib.contextmanager
def recorded() -> Iterator[list[Tuning]]:
    """The cuts of what is scanned meanwhile, whose kernels are left out: results are zeros."""
    found: list[Tuning] = []

    def left_out(scan: Any, cut: Any, *_: Any, **__: Any) -> list[jax.Array]:
        found.append(cut.tuned)
        return [jnp.zeros(size, dtype) for size, dtype in scan.written]

    run = scanning.run
    scanning.run = left_out
    try:
        yield found
    finally:
        scanning.run = run
        # What was traced meanwhile has no kernels.
        jax.clear_caches()


def of(step: Step) -> list[str]:
    """The cuts of a call's scans, one after another, or what lowering it raises."""
    jax.clear_caches()
    with recorded() as found:
        why_not = walk.why_not_lowered(step)
    return [said(cut) for cut in found] if why_not is None else [f"{FAILED}: {why_not}"]


def has_failed(cuts: Sequence[str]) -> bool:
    """Whether these are no cuts, but what lowering a call raised."""
    return any(cut.startswith(FAILED) for cut in cuts)


def read(path: pathlib.Path) -> dict[str, list[str]]:
    """The cuts of calls, by their names, in a file."""
    content = json.loads(path.read_text())
    if "cuts" not in content:
        raise ValueError(f"{path} holds no cuts: walk --cuts --out writes such a file")
    cuts: dict[str, list[str]] = content["cuts"]
    return cuts


def differing(before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> list[str]:
    """The calls in both whose cuts differ."""
    return [name for name, cuts in now.items() if name in before and before[name] != cuts]
