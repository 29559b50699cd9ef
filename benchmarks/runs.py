"""What the command line does: measures suites, tries them without a GPU, compares on a CPU."""

from __future__ import annotations

import argparse
import functools
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import machine, measure, outside, overhead, report
from benchmarks.case import Case
from benchmarks.measure import Outcome, Stopwatch
from benchmarks.programs import Program, compile_all, copy_program, plan, programs_of
from benchmarks.suites import STUDIES, SUITES

RESULTS = machine.REPOSITORY / "benchmarks" / "results"
COPY_WORDS = 2**28
SMALL = 14  # by this power of two a dry run divides the sizes of what it computes


def run(options: argparse.Namespace, suite: str) -> int:
    """Measures every case of a suite on the GPU."""
    chosen = _chosen(SUITES[suite].cases(options.shrink), options.only)
    outside.start([peer for case in chosen for peer in case.outside])
    words = max(COPY_WORDS >> options.shrink, 2**12)
    copy = copy_program(words)
    programs = [copy, *programs_of(chosen)]
    start = time.monotonic()
    with report.progress("compiling", len(set(programs))) as advance:
        executables = compile_all(programs, lambda: advance(""))
    report.say(f"{len(executables)} programs compiled in {time.monotonic() - start:.0f} s")
    copied = executables[copy]
    if isinstance(copied, Exception):
        raise copied
    stopwatch = Stopwatch(copied, words)
    with report.progress("measuring", len(chosen)) as advance:
        outcomes = measure.run_all(
            chosen,
            executables,
            stopwatch,
            options.rounds,
            options.iterations,
            lambda outcome: advance(report.line(outcome)),
        )
    stopwatch.time_copy(1, options.iterations)
    environment = machine.record(options.commit)
    report.show_cases(outcomes, stopwatch)
    _show_environment(environment)
    report.write(_path(options, suite), report.as_json(suite, outcomes, stopwatch, environment))
    return _status(outcomes)


def everything(options: argparse.Namespace) -> int:
    """Measures every suite, then errors, calls and compilation, and writes a file for each.

    A suite whose turn comes after the budget is spent is left out.
    """
    begin = time.monotonic()
    status = 0
    took = []
    for name in (*SUITES, *STUDIES, *OVERHEAD):
        start = time.monotonic()
        if start - begin > options.budget:
            took.append(f"{name} left out")
            status = 1
            continue
        report.say(f"\n{name}")
        try:
            one = _ways(name)(options, name)
        except Exception as error:  # the other suites are worth having
            report.say(f"{name} FAILED: {type(error).__name__}: {error}")
            one = 1
        status = max(status, one)
        took.append(f"{name} {time.monotonic() - start:.0f} s")
        report.say(took[-1])
    report.say(", ".join(took))
    return status


def _ways(suite: str) -> Callable[[argparse.Namespace, str], int]:
    """What measures a suite."""
    if suite in STUDIES:
        return study
    return run if suite in SUITES else compare


def study(options: argparse.Namespace, name: str) -> int:
    """Finds out what is no list of cases, on this machine; ``--out`` is the folder of its file."""
    one = STUDIES[name]
    seconds = min(options.budget, one.seconds) if options.suite == "all" else options.budget
    content = {
        "suite": name,
        "environment": machine.record(options.commit),
        **one.result(seconds),
    }
    one.show(content)
    _show_environment(content["environment"])
    report.write(_path(options, name), content)
    wrong = one.wrong(content)
    for line in wrong:
        report.say(f"WRONG OR FAILED: {line}")
    return 1 if wrong else 0


def dry_run(options: argparse.Namespace, suites: Sequence[str]) -> int:
    """Lowers every case for CUDA as it is, and checks its answer here on small operands.

    Where the operation needs a GPU the answer is that of the same operation by another method.
    """
    status = 0
    for suite in suites:
        outcomes = _tried(options, suite)
        report.show_cases(outcomes, None)
        path = _path(options, suite) if options.out else None
        if path is not None:
            content = report.as_json(suite, outcomes, None, machine.record(options.commit))
            report.write(path, content)
        status = max(status, _status(outcomes))
    report.say(
        "Dry run: every case was lowered for CUDA at its full size; answers are of small "
        "operands on this machine, those of strategies that need a GPU by the default method; "
        "nothing was timed."
    )
    return status


def _tried(options: argparse.Namespace, suite: str) -> list[Outcome]:
    cases = SUITES[suite].cases
    full = cases(0)
    chosen = _chosen(full, options.only)
    small = [
        case.portable
        for case, original in zip(cases(options.shrink or SMALL), full, strict=True)
        if original in chosen
    ]
    executables = compile_all(programs_of(small), lambda: None)
    outcomes = []
    with report.progress("lowering and checking", len(chosen)) as advance:
        computed = measure.run_all(small, executables, None, 1, 1, lambda _: None)
        for case, outcome in zip(chosen, computed, strict=True):
            outcome.case = case
            outcome.failure = _lowering_failure(case) or outcome.failure
            for name in (*case.peers, *(peer.name for peer in case.outside)):
                outcome.peers[name] = "not timed"
            outcomes.append(outcome)
            advance(report.line(outcome))
    return outcomes


def compare(options: argparse.Namespace, suite: str) -> int:
    """What a call and a compilation cost beside lax, on this machine."""
    content: dict[str, Any] = {"suite": suite, "environment": machine.record(options.commit)}
    if suite in ("core", "latency"):
        content["latency"] = overhead.latency()
        overhead.show_ratios("A call at 2^20, by the wall clock", content["latency"])
    if suite in ("core", "compile"):
        content["compile"] = overhead.compile_times()
        overhead.show_ratios("Trace, lower and compile at 2^20", content["compile"])
        content["sizes"] = overhead.program_sizes()
        overhead.show_sizes(content["sizes"])
    if suite in ("strategies", "all"):
        content["lengths"] = overhead.by_length()
        overhead.show_ratios("A call by the wall clock", content["lengths"])
    _show_environment(content["environment"])
    report.write(_path(options, suite), content)
    return 0


OVERHEAD = ("latency", "compile")
"""The suites that are measured on any machine."""


def _path(options: argparse.Namespace, suite: str) -> pathlib.Path:
    """The file to write: ``--out``, which of all suites or a study is the folder, or the usual."""
    file = f"{suite}-{machine.device_name()}.json"
    if options.out is None:
        return RESULTS / file
    path: pathlib.Path = options.out
    return path / file if options.suite in ("all", *STUDIES) else path


def _chosen(cases: Sequence[Case], only: str) -> list[Case]:
    """The cases named, and those that their ratios refer to."""
    named = [case for case in cases if only in case.name]
    if not named:
        sys.exit(f"no case's name contains {only!r}")
    needed = {case.name for case in named}.union(*(case.relatives for case in named))
    return [case for case in cases if case.name in needed]


def _lowering_failure(case: Case) -> str | None:
    try:
        failures = (_why_not_lowered(program) for program in plan(case).programs())
        return next((failure for failure in failures if failure), None)
    except Exception as error:  # reported with the case, whatever it is
        return machine.told(error)


@functools.cache
def _why_not_lowered(program: Program) -> str | None:
    try:
        program.lower_for_cuda()
    except Exception as error:  # reported with the case, whatever it is
        return machine.told(error)
    return None


def _show_environment(environment: dict[str, Any]) -> None:
    report.say(", ".join(f"{name} {value}" for name, value in environment.items() if value))


def _status(outcomes: Sequence[Outcome]) -> int:
    bad = [outcome for outcome in outcomes if not outcome.is_right]
    for outcome in bad:
        why = outcome.failure or f"{outcome.case.check.measures}: {outcome.error}"
        report.say(f"WRONG OR FAILED: {outcome.case.name}: {why}")
    return 1 if bad else 0
