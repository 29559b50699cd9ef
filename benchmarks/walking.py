"""What ``python -m benchmarks walk`` does: draws cases, takes them, says what was found."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.cases.walk.drawing import LARGEST, Step, step
from benchmarks.measuring import machine, static, walk
from benchmarks.measuring.walk import Copies, Taken
from benchmarks.reporting import static_table, terminal, walk_table
from jscan import engines

RESULTS = machine.REPOSITORY / "benchmarks" / "results" / "walk"
CASES = 300
SECONDS = 450.0


def add_to(walk: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    walk.add_argument("--seed", type=int, default=0, help="which walk; a number")
    walk.add_argument("--cases", type=int, default=CASES, help="how many cases at most")
    walk.add_argument(
        "--seconds", type=float, default=SECONDS, help="after which no further case is taken"
    )
    walk.add_argument("--only", type=int, help="the number of the one case to take")
    walk.add_argument(
        "--largest", type=_size, default=LARGEST, help="the most elements, as a number or 2^k"
    )
    walk.add_argument("--plan", action="store_true", help="print the calls, and do nothing else")
    checks = "check answers: scans by their definition, others by plain JAX, up to 64 MB"
    walk.add_argument("--check", action="store_true", help=checks)
    walk.add_argument(
        "--dry-run", action="store_true", help="lower the calls for CUDA, without a GPU"
    )
    walk.add_argument(
        "--static", action="store_true", help="compile the kernels for sm_90, without a GPU"
    )
    walk.add_argument("--engine", choices=static.ENGINES, help="of --static: one engine's kernels")
    walk.add_argument("--jobs", type=int, default=4, help="of --static: processes")
    walk.add_argument(
        "--show",
        nargs="+",
        type=pathlib.Path,
        metavar="FILE",
        help="tables of the results in these files together",
    )


def _size(text: str) -> int:
    base, _, exponent = text.partition("^")
    return int(base) ** int(exponent or 1)


def asked(options: argparse.Namespace) -> int:
    """Does what the command line says; 1 if something was wrong or failed."""
    if options.show:
        return show(options)
    if options.plan:
        return plan(options)
    if options.static:
        return look(options)
    if options.dry_run:
        return lower(options)
    return run(options)


def _numbers(options: argparse.Namespace) -> list[int]:
    return list(range(options.cases)) if options.only is None else [options.only]


def _steps(options: argparse.Namespace) -> Iterator[Step]:
    for number in _numbers(options):
        yield step(options.seed, number, options.largest)


def show(options: argparse.Namespace) -> int:
    """Prints the tables of files."""
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in options.show]
    walk_table.show(list(itertools.chain.from_iterable(content["cases"] for content in contents)))
    return 0


def plan(options: argparse.Namespace) -> int:
    """Prints what is drawn."""
    for each in _steps(options):
        peers = ", ".join(each.case.peers) or "nothing"
        terminal.say(f"{each.case.name}; {each.case.bytes / 1e6:.1f} MB, beside {peers}")
    return 0


def run(options: argparse.Namespace) -> int:
    """Takes the walk on this machine; times are those of a CUDA GPU, and there are none without."""
    timed = machine.has_gpu()
    start = time.monotonic()
    copies = Copies() if timed else None
    stopwatch = copies.stopwatch() if copies else None
    if copies and stopwatch:
        copies.time(stopwatch)
    environment = machine.record(options.commit)
    left = options.seconds - (time.monotonic() - start)
    walked: list[Taken] = []
    for taken in walk.taken(_steps(options), left, stopwatch, options.check):
        if copies:
            taken.copy = copies.microseconds(taken.step.case.bytes)
        walked.append(taken)
        terminal.say(walk_table.line(taken))
    if copies and stopwatch:
        copies.time(stopwatch)
    for taken in walked:
        taken.copy = copies.microseconds(taken.step.case.bytes) if copies else None
    wanted: dict[str, Any] = {"seed": options.seed, "asked": len(_numbers(options))}
    content = walk_table.as_json(walked, copies, environment, wanted)
    path = options.out
    if path is None and timed and options.only is None:
        path = RESULTS / f"{machine.device_name()}-seed-{options.seed}.json"
    if path is not None:
        terminal.write(path, content)
    walk_table.show(content["cases"])
    terminal.say(f"{len(walked)} of {wanted['asked']} cases in {time.monotonic() - start:.0f} s")
    return 0 if all(taken.is_right for taken in walked) else 1


def lower(options: argparse.Namespace) -> int:
    """Lowers every case for CUDA, and prints what raises."""
    failed = 0
    for each in _steps(options):
        why = walk.why_not_lowered(each)
        if why is not None:
            failed += 1
            terminal.say(f"FAILED {each.case.name}: {why}")
    terminal.say(f"{len(_numbers(options))} cases lowered for CUDA, {failed} failed")
    return 1 if failed else 0


def look(options: argparse.Namespace) -> int:
    """Compiles the kernels of the cases by Triton, and lists them, the worst first."""
    missing = engines.why_no_triton()
    if missing is not None:
        terminal.say(f"walk --static: {missing}")
        return 2
    names = static.here() if options.engine is None else (options.engine,)
    of_number = functools.partial(walk.looks_of, options.seed, options.largest, names)
    kernels: list[static.Looks] = []
    failed = 0
    for found in static.measured(_numbers(options), options.jobs, of_number):
        if isinstance(found, str):
            failed += 1
            terminal.say(f"FAILED {found}")
        else:
            kernels += found
    kernels.sort(key=static_table.badness)
    static_table.show(kernels)
    if options.out is not None:
        static_table.write(options.out, kernels, static.versions())
    terminal.say(f"{len(kernels)} kernels of {options.cases} cases; {failed} cases failed")
    return 1 if failed else 0
