"""The work of the papers' figures, measured on the device that is there.

On a GPU a call's kernels are added up, which the papers' clocks did as well; a simulation, whose
pauses between kernels count, is timed by the wall clock there. On a CPU everything is, and the
fastest of many calls counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from benchmarks.cases import papers
from benchmarks.cases.case import Operation
from benchmarks.cases.papers import FIGURES, Figure, Work
from benchmarks.measuring import cpu, machine, measure

CALLS = 9
NO_GPU = "needs a GPU"
AGREES = 1e-4
"""How far jscan's result and another's may be apart, as a share of the largest number in them."""


def measured(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What each work takes, or why that is not known."""
    on_gpu = machine.has_gpu()
    for name in names:
        yield {"work": name, **_tried(papers.work(name), on_gpu)}


def _tried(work: Work, on_gpu: bool) -> dict[str, Any]:
    if work.on_gpus and not on_gpu:
        return {"why_not": NO_GPU}
    try:
        with jax.enable_x64(False):
            return _timed(work, on_gpu)
    except Exception as error:  # the other works are worth having
        return {"why_not": machine.told(error)}


def _timed(work: Work, on_gpu: bool) -> dict[str, Any]:
    operands = jax.jit(work.build, static_argnums=0)(on_gpu)
    runs: dict[str, Operation] = {"jscan": work.jscan, **work.peers}
    compiled = {name: jax.jit(run).lower(*operands).compile() for name, run in runs.items()}
    results = {name: jax.tree.leaves(run(*operands)) for name, run in compiled.items()}
    if on_gpu and not work.whole:
        seconds = {name: _of_kernels(run, operands) for name, run in compiled.items()}
    else:
        fewest = cpu.by_turns(compiled, operands)
        seconds = {name: 1e-3 * milliseconds for name, milliseconds in fewest.items()}
    apart = max(cpu.difference(results["jscan"], results[name]) for name in work.peers)
    clock = "GPU" if on_gpu and not work.whole else "wall"
    return {"seconds": seconds, "clock": clock, "difference": apart, "agrees": apart <= AGREES}


def _of_kernels(run: Any, operands: Sequence[jax.Array]) -> float:
    """Seconds of the kernels of the median call."""
    jax.block_until_ready(run(*operands))
    calls = measure.gpu_time(run, operands, CALLS)
    return 1e-3 * statistics.median(sum(ms for _, ms in kernels) for kernels in calls)


def is_right(entry: Mapping[str, Any]) -> bool:
    """Whether results agree, or it was known that this device has none."""
    return bool(entry.get("agrees", entry.get("why_not") == NO_GPU))


def rows(found: Sequence[Mapping[str, Any]], on_gpu: bool) -> list[dict[str, Any]]:
    """The published figures, each beside the same figure here."""
    by_work = {entry["work"]: entry for entry in found}
    return [
        _row(figure, by_work[figure.work.name], on_gpu)
        for figure in FIGURES
        if figure.work.name in by_work
    ]


def _row(figure: Figure, entry: Mapping[str, Any], on_gpu: bool) -> dict[str, Any]:
    paper = figure.paper
    row: dict[str, Any] = {
        "work": figure.work.name,
        "year": paper.year,
        "paper": paper.title,
        "source": paper.source,
        "said": figure.said,
        "unit": figure.unit,
        "then": figure.value,
        "then_on": paper.device,
    }
    if "seconds" not in entry:
        return row | {"now": None, "why_not": entry["why_not"]}
    seconds = entry["seconds"]
    peers = {name: took for name, took in seconds.items() if name != "jscan"}
    now = figure.of_seconds(seconds["jscan"], peers, on_gpu)
    others = {name: figure.of_seconds(took, peers, on_gpu) for name, took in peers.items()}
    return row | {
        "now": now,
        "times_better": None if now is None else figure.times_better(now),
        "others": {name: other for name, other in others.items() if name != figure.of},
    }
