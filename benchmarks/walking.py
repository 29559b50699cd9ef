"""What ``python -m benchmarks walk`` does: draws cases, takes them, says what was found."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from benchmarks.cases.walk import drawing, listed
from benchmarks.cases.walk.drawing import LARGEST
from benchmarks.cases.walk.steps import Step
from benchmarks.measuring import cpu, cuts, machine, static, walk
from benchmarks.measuring.walk import Copies, Taken
from benchmarks.reporting import static_table, terminal, walk_table
from jscan import engines
from jscan.kernels.tuning import Tuning

RESULTS = machine.REPOSITORY / "benchmarks" / "results" / "walk"
CASES = 300
SECONDS = 450.0
WRITTEN_EVERY = 25


def add_to(walk: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    walk.add_argument("--seed", type=int, default=0, help="which walk; a number")
    walk.add_argument("--cases", type=int, default=CASES, help="how many cases at most")
    walk.add_argument(
        "--seconds", type=float, default=SECONDS, help="after which no further case is taken"
    )
    walk.add_argument(
        "--only", type=int, nargs="+", metavar="NUMBER", help="the cases of these numbers alone"
    )
    cuts = "force a cut: length, lanes, warps and tiles a window, then NAME=NUMBER as in `Tuning`"
    walk.add_argument("--cut", type=_part, nargs="+", metavar="NUMBER", help=cuts)
    walk.add_argument(
        "--largest", type=_size, default=LARGEST, help="the most elements, as a number or 2^k"
    )
    kinds = "the calls that were slow once, with what is hoped for, in place of drawn ones"
    walk.add_argument("--listed", action="store_true", help=kinds)
    kinds = "scans alone, of 2^26 elements or so, untransformed"
    walk.add_argument("--scans", action="store_true", help=kinds)
    walk.add_argument("--plan", action="store_true", help="print the calls, and do nothing else")
    checks = "check answers: scans by their definition, others by plain JAX, up to 64 MB"
    walk.add_argument("--check", action="store_true", help=checks)
    walk.add_argument(
        "--dry-run", action="store_true", help="lower the calls for CUDA, without a GPU"
    )
    cuts = "say which cuts the scans of each call get, without a GPU"
    walk.add_argument("--cuts", action="store_true", help=cuts)
    walk.add_argument(
        "--static", action="store_true", help="compile the kernels for sm_90, without a GPU"
    )
    beside = "time the calls on a CPU by the wall clock, beside other plain JAX"
    walk.add_argument("--on-cpu", action="store_true", help=beside)
    walk.add_argument("--engine", choices=static.ENGINES, help="of --static: one engine's kernels")
    walk.add_argument("--jobs", type=int, default=4, help="of --static: processes")
    walk.add_argument(
        "--show",
        nargs="+",
        type=pathlib.Path,
        metavar="FILE",
        help="tables of the results in these files together",
    )
    walk.add_argument(
        "--compare",
        nargs="+",
        type=pathlib.Path,
        metavar="FILE",
        help="of --show: what is faster or slower than in these files; of --cuts: what differs",
    )


def _size(text: str) -> int:
    base, _, exponent = text.partition("^")
    return int(base) ** int(exponent or 1)


def _part(text: str) -> tuple[str, int]:
    """A number of a cut and its name, which is empty where the place tells."""
    name, _, number = text.rpartition("=")
    if name and name not in {field.name for field in dataclasses.fields(Tuning)}:
        raise argparse.ArgumentTypeError(f"{name!r} is no part of a cut")
    return name, int(number)


def asked(options: argparse.Namespace) -> int:
    """Does what the command line says; 1 if something was wrong or failed."""
    if options.show:
        return show(options)
    if options.plan:
        return plan(options)
    if options.static:
        return look(options)
    if options.cuts:
        return cut(options)
    if options.dry_run:
        return lower(options)
    if options.on_cpu:
        return on_cpu(options)
    return run(options)


def _numbers(options: argparse.Namespace) -> list[int]:
    if options.only is not None:
        return list(options.only)
    return list(range(len(listed.steps(options.largest)) if options.listed else options.cases))


def _step_of(options: argparse.Namespace) -> Callable[[int], Step]:
    """What finds a step by its number, in any process."""
    if options.listed:
        return functools.partial(listed.step, largest=options.largest)
    drawn = drawing.scan if options.scans else drawing.step
    return functools.partial(drawn, options.seed, largest=options.largest)


def _steps(options: argparse.Namespace) -> Iterator[Step]:
    for step in map(_step_of(options), _numbers(options)):
        if options.cut:
            forced = dataclasses.replace(step.case, tuning=_cut(options.cut))
            step = dataclasses.replace(step, case=forced)
        yield step


def _cut(parts: Sequence[tuple[str, int]]) -> Tuning:
    """The cut of numbers, and of numbers with names."""
    numbers: list[Any] = [number for name, number in parts if not name]
    named: dict[str, Any] = {name: number for name, number in parts if name}
    return Tuning(*numbers, **named)


def show(options: argparse.Namespace) -> int:
    """Prints the tables of files, or what differs from them in others."""
    shown = [entry for path in options.show for entry in walk_table.read(path)]
    if options.compare:
        before = [entry for path in options.compare for entry in walk_table.read(path)]
        walk_table.show_changes(before, shown)
    else:
        walk_table.show(shown)
    return 0


def plan(options: argparse.Namespace) -> int:
    """Prints what is drawn."""
    for each in _steps(options):
        peers = ", ".join(each.case.peers) or "nothing"
        terminal.say(f"{each.case.name}; {each.case.bytes / 1e6:.1f} MB, beside {peers}")
    return 0


def run(options: argparse.Namespace) -> int:
    """Takes the walk on this machine; times are those of a CUDA GPU, and there are none without.

    What there is, is written now and then, and at the end.
    """
    start = time.monotonic()
    timed, asked_for = machine.has_gpu(), len(_numbers(options))
    copies = Copies() if timed else None
    stopwatch = copies.stopwatch() if copies else None
    environment = machine.record(options.commit) | {"engine": engines.engine().name}
    usual = timed and options.only is None and not options.cut
    path = options.out or (_usual_path(options) if usual else None)

    def time_copies() -> None:
        if copies and stopwatch:
            copies.time(stopwatch)

    def content() -> dict[str, Any]:
        for taken in walked:
            taken.copy = copies.microseconds(taken.step.case.bytes) if copies else None
        what = {"seed": None if options.listed else options.seed, "asked": asked_for}
        what["scans"] = options.scans
        return walk_table.as_json(walked, copies, environment, what)

    time_copies()
    walked: list[Taken] = []
    left = options.seconds - (time.monotonic() - start)
    for taken in walk.taken(_steps(options), left, stopwatch, options.check):
        taken.copy = copies.microseconds(taken.step.case.bytes) if copies else None
        walked.append(taken)
        terminal.say(walk_table.line(taken))
        if path is not None and len(walked) % WRITTEN_EVERY == 0:
            terminal.write(path, content(), silent=True)
    time_copies()
    if path is not None:
        terminal.write(path, content())
    walk_table.show(content()["cases"])
    terminal.say(f"{len(walked)} of {asked_for} cases in {time.monotonic() - start:.0f} s")
    return 0 if all(taken.is_right for taken in walked) else 1


def on_cpu(options: argparse.Namespace) -> int:
    """Takes the walk on a CPU, beside other plain JAX; 1 if one was wrong or failed."""
    start = time.monotonic()
    entries: list[dict[str, Any]] = []
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        bandwidth = cpu.copy_speed()
        for step in _steps(options):
            if time.monotonic() - start > options.seconds:
                break
            entries.append(cpu.taken(step, bandwidth))
            terminal.say(cpu.line(entries[-1]))
    cpu.show_walk(entries)
    told = machine.record(options.commit) | machine.company()
    content = {"seed": options.seed, "largest": options.largest, "environment": told}
    if options.out is not None:
        terminal.write(options.out, content | {"cases": entries})
    wrong = cpu.wrong(entries)
    for text in wrong:
        terminal.say(f"WRONG OR FAILED: {text}")
    return 1 if wrong else 0


def _usual_path(options: argparse.Namespace) -> pathlib.Path:
    engine = engines.name_in_context()
    which = "listed" if options.listed else f"{'scans-' * options.scans}seed-{options.seed}"
    return RESULTS / ("-".join(filter(None, [machine.device_name(), engine, which])) + ".json")


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


def cut(options: argparse.Namespace) -> int:
    """Prints the cuts of every call, or those that differ from other files', and their numbers."""
    found: dict[str, list[str]] = {}
    numbers: dict[str, int] = {}
    for number, step in zip(_numbers(options), _steps(options), strict=True):
        found[step.case.name], numbers[step.case.name] = cuts.of(step), number
    shown, told = list(found), f"{len(found)} calls"
    before: dict[str, list[str]] = {}
    if options.compare:
        before = {name: of for path in options.compare for name, of in cuts.read(path).items()}
        shown = cuts.differing(before, found)
        missing = len(found.keys() - before.keys())
        told += f", {len(shown)} differ, {missing} are in no file"
    for name in shown:
        was = f"{'; '.join(before[name])} → " if before else ""
        terminal.say(f"{name}: {was}{'; '.join(found[name])}")
    if options.compare and shown:
        terminal.say(" ".join(["--only", *(str(numbers[name]) for name in shown)]))
    if options.out is not None:
        terminal.write(options.out, {"seed": options.seed, "cuts": found})
    failed = sum(cuts.has_failed(of) for of in found.values())
    terminal.say(f"{told}; {failed} failed")
    return 1 if failed else 0


def look(options: argparse.Namespace) -> int:
    """Compiles the kernels of the cases by Triton, and lists them, the worst first."""
    missing = engines.why_no_triton()
    if missing is not None:
        terminal.say(f"walk --static: {missing}")
        return 2
    names = static.here() if options.engine is None else (options.engine,)
    of_number = functools.partial(walk.looks_of, _step_of(options), names)
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
    terminal.say(f"{len(kernels)} kernels of {len(_numbers(options))} cases; {failed} cases failed")
    return 1 if failed else 0
