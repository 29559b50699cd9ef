"""The command line: ``python -m benchmarks core | segments | derivatives | latency | compile``."""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import core, derivatives, machine, measure, overhead, report, segments
from benchmarks.core import Case
from benchmarks.measure import Outcome, Stopwatch

RESULTS = machine.REPOSITORY / "benchmarks" / "results"
COPY_WORDS = 2**28
SUITES: dict[str, Callable[[int], list[Case]]] = {
    "core": core.cases,
    "segments": segments.cases,
    "derivatives": derivatives.cases,
}
"""The suites that are lists of cases, by how far their sizes are shrunk."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one suite; 1 if an answer was wrong or a case failed, 2 where it needs a GPU."""
    options = _parser().parse_args(arguments)
    start = time.monotonic()
    if options.suite in SUITES and options.dry_run:
        status = dry_run(options)
    elif options.suite in SUITES and machine.has_gpu():
        status = run(options)
    elif options.suite in SUITES and options.suite != "core":
        report.say("No CUDA GPU here: --dry-run lowers the cases and checks their answers.")
        status = 2
    else:
        if options.suite == "core":
            report.say("No CUDA GPU here: this is the CPU comparison, not the figures of the core.")
        status = compare(options)
    report.say(f"{time.monotonic() - start:.0f} s")
    return status


def run(options: argparse.Namespace) -> int:
    """Measures every case on the GPU."""
    chosen = _chosen(SUITES[options.suite](options.shrink), options.only)
    words = max(COPY_WORDS >> options.shrink, 2**12)
    copy = measure.copy_program(words)
    programs = [copy, *measure.programs_of(chosen)]
    start = time.monotonic()
    with report.progress("compiling", len(set(programs))) as advance:
        executables = measure.compile_all(programs, lambda: advance(""))
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
    report.write(
        options.out or RESULTS / f"{options.suite}-{machine.device_name()}.json",
        report.as_json(options.suite, outcomes, stopwatch, environment),
    )
    return _status(outcomes)


def dry_run(options: argparse.Namespace) -> int:
    """Lowers every case for CUDA as it is, and checks its answer here on small operands."""
    cases = SUITES[options.suite]
    chosen = _chosen(cases(0), options.only)
    small = [
        few
        for case, few in zip(cases(0), cases(options.shrink or 14), strict=True)
        if case in chosen
    ]
    outcomes = []
    with report.progress("lowering and checking", len(chosen)) as advance:
        for case, few in zip(chosen, small, strict=True):
            failure = _lowering_failure(case)
            executables = measure.compile_all(measure.programs_of([few]), lambda: None)
            (outcome,) = measure.run_all([few], executables, None, 1, 1, lambda _: None)
            outcome.case = case
            outcome.failure = failure or outcome.failure
            for name in case.peers:
                outcome.peers[name] = "not timed"
            outcomes.append(outcome)
            advance(report.line(outcome))
    report.say(
        "Dry run: every case was lowered for CUDA at its full size; answers are of small "
        "operands on this machine; nothing was timed."
    )
    report.show_cases(outcomes, None)
    if options.out:
        content = report.as_json(options.suite, outcomes, None, machine.record(options.commit))
        report.write(options.out, content)
    return _status(outcomes)


def compare(options: argparse.Namespace) -> int:
    """Costs of a call and of compiling beside lax.associative_scan, on this machine."""
    content: dict[str, Any] = {"suite": options.suite, "environment": machine.record()}
    if options.suite in ("core", "latency"):
        content["latency"] = overhead.latency()
        overhead.show_ratios("A call at 2^20, by the wall clock", content["latency"])
    if options.suite in ("core", "compile"):
        content["compile"] = overhead.compile_times()
        overhead.show_ratios("Trace, lower and compile at 2^20", content["compile"])
        content["sizes"] = overhead.program_sizes()
        overhead.show_sizes(content["sizes"])
    _show_environment(content["environment"])
    report.write(options.out or RESULTS / f"{options.suite}-{machine.device_name()}.json", content)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    suites = parser.add_subparsers(dest="suite", required=True)
    for name, what in (
        ("core", "the cases of the core on one GPU; the CPU comparison where there is none"),
        ("segments", "reductions, conversions, pack and split on one GPU"),
        ("derivatives", "recurrences and gradients of scans on one GPU"),
        ("latency", "the time of a call, beside lax.associative_scan"),
        ("compile", "the time to compile and the size of the program"),
    ):
        suite = suites.add_parser(name, help=what, description=what)
        suite.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
        suite.add_argument("--commit", help="the commit measured, where git cannot say")
        if name in SUITES:
            suite.add_argument("--only", default="", help="cases whose name contains this")
            suite.add_argument("--rounds", type=_positive, default=3, help="rounds of each case")
            suite.add_argument("--iterations", type=_positive, default=7, help="calls of a round")
            suite.add_argument(
                "--shrink",
                type=int,
                default=0,
                help="divide sizes by 2 to this power (in a dry run those of the answers: 14)",
            )
            suite.add_argument(
                "--dry-run", action="store_true", help="lower for CUDA and check, without a GPU"
            )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _chosen(cases: Sequence[Case], only: str) -> list[Case]:
    """The cases named, and those that their ratios refer to."""
    named = [case for case in cases if only in case.name]
    if not named:
        sys.exit(f"no case's name contains {only!r}")
    needed = {case.name for case in named}.union(*(case.relatives for case in named))
    return [case for case in cases if case.name in needed]


def _lowering_failure(case: Case) -> str | None:
    try:
        for program in measure.plan(case).programs():
            program.lower_for_cuda()
    except Exception as error:  # reported with the case, whatever it is
        return f"{type(error).__name__}: {error}"[:500]
    return None


def _show_environment(environment: dict[str, Any]) -> None:
    report.say(", ".join(f"{name} {value}" for name, value in environment.items() if value))


def _status(outcomes: Sequence[Outcome]) -> int:
    bad = [outcome for outcome in outcomes if not outcome.is_right]
    for outcome in bad:
        why = outcome.failure or f"{outcome.case.check.measures}: {outcome.error}"
        report.say(f"WRONG OR FAILED: {outcome.case.name}: {why}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
