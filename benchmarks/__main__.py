"""The command line: ``python -m benchmarks all``, or the name of a suite."""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Sequence

from benchmarks import machine, report, runs
from benchmarks.suites import STUDIES, SUITES

COMPARED = ("core", "strategies", "all")
"""What has a comparison to offer where there is no GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one suite or all; 1 if an answer was wrong or a case failed, 2 where it needs a GPU."""
    options = _parser().parse_args(arguments)
    start = time.monotonic()
    status = _run(options)
    report.say(f"{time.monotonic() - start:.0f} s")
    return status


def _run(options: argparse.Namespace) -> int:
    suite = options.suite
    if suite in runs.OVERHEAD:
        return runs.compare(options, suite)
    if suite in STUDIES:
        return runs.study(options, suite)
    if options.dry_run:
        return runs.dry_run(options, list(SUITES) if suite == "all" else [suite])
    if machine.has_gpu():
        return runs.everything(options) if suite == "all" else runs.run(options, suite)
    if suite in COMPARED:
        report.say(f"No CUDA GPU here: this is the CPU comparison, not the figures of {suite}.")
        return runs.compare(options, suite)
    report.say("No CUDA GPU here: --dry-run lowers the cases and checks their answers.")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    suites = parser.add_subparsers(dest="suite", required=True)
    for name, what in (
        ("all", "every suite on one GPU, a file for each; a CPU comparison where there is none"),
        *((name, suite.about) for name, suite in SUITES.items()),
        *((name, study.about) for name, study in STUDIES.items()),
        ("latency", "the time of a call, beside lax.associative_scan"),
        ("compile", "the time to compile and the size of the program"),
    ):
        suite = suites.add_parser(name, help=what, description=what)
        several = name == "all" or name in STUDIES
        out = "the folder to write to" if several else "the JSON file to write"
        suite.add_argument("--out", type=pathlib.Path, help=out)
        suite.add_argument("--commit", help="the commit measured, where git cannot say")
        if name not in (*runs.OVERHEAD, *STUDIES):
            _add_measuring(suite, all_suites=name == "all")
        if several:
            seconds, what = (540, "suite") if name == "all" else (STUDIES[name].seconds, "length")
            suite.add_argument(
                "--budget",
                type=_positive,
                default=seconds,
                help=f"seconds, after which no further {what} is begun",
            )
    return parser


def _add_measuring(suite: argparse.ArgumentParser, all_suites: bool) -> None:
    rounds, iterations = (1, 5) if all_suites else (3, 7)
    if all_suites:
        suite.set_defaults(only="")
    else:
        suite.add_argument("--only", default="", help="cases whose name contains this")
    suite.add_argument("--rounds", type=_positive, default=rounds, help="rounds of each case")
    suite.add_argument("--iterations", type=_positive, default=iterations, help="calls of a round")
    suite.add_argument(
        "--shrink",
        type=int,
        default=0,
        help=f"divide sizes by 2 to this power (in a dry run those of the answers: {runs.SMALL})",
    )
    suite.add_argument(
        "--dry-run", action="store_true", help="lower for CUDA and check, without a GPU"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


if __name__ == "__main__":
    sys.exit(main())
