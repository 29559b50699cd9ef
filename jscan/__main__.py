"""What runs here, whether it is right, and how fast it is: to paste into a report of a mistake."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence

from jscan.report import here, self_test, speeds, terminal
from jscan.report.self_test import Outcome
from jscan.report.speeds import Speed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 1 if a check fails."""
    parser = argparse.ArgumentParser(prog="python -m jscan", description=__doc__)
    parser.add_argument("--no-speed", action="store_true", help="leave out the table of speeds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    described = here.described()
    if not options.json:
        print("\n".join(terminal.columns_to_the_left(described.items())), flush=True)
    with terminal.progress(len(self_test.listed())) as advance:
        outcomes, seconds = self_test.run(advance)
    failed = [outcome for outcome in outcomes if outcome.why_wrong is not None]
    if not options.json:
        print("\n".join(["", *of_checks(outcomes, seconds)]), flush=True)
    measured = []
    if not options.no_speed:
        with terminal.progress(len(speeds.PAIRS)) as advance:
            measured = speeds.measured(advance)
        if not options.json:
            print("\n".join(["", *of_speeds(measured)]))
    if options.json:
        report = {
            "here": described,
            "self_test": {
                "seconds": round(seconds, 2),
                "checks": [outcome.check.name for outcome in outcomes],
                "failed": {outcome.check.name: outcome.why_wrong for outcome in failed},
            },
            "speeds": [dataclasses.asdict(speed) for speed in measured],
        }
        print(json.dumps(report, indent=1))
    return 1 if failed else 0


def of_checks(outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """A line for each family, and one for each check that failed."""
    lines = []
    for family in dict.fromkeys(outcome.family for outcome in outcomes):
        of = [outcome for outcome in outcomes if outcome.family == family]
        names = " ".join(dict.fromkeys(outcome.check.of for outcome in of))
        wrong = [outcome for outcome in of if outcome.why_wrong is not None]
        lines.append(f"  {'FAILED' if wrong else 'ok':6}  {family:15}  {names}")
        lines += [f"          {each.check.name}: {each.why_wrong}" for each in wrong]
    right = sum(outcome.why_wrong is None for outcome in outcomes)
    title = f"self-test: {right} of {len(outcomes)} calls agree with loops, in {seconds:.1f} s"
    return [title, *lines]


def of_speeds(measured: Sequence[Speed]) -> list[str]:
    """A table, below a line that says of what."""
    rows = [["", "jscan", "JAX", "times as fast", "beside"]]
    for speed in measured:
        times = [speed.ours, speed.theirs]
        cells = [t if isinstance(t, str) else f"{t:.0f} µs" for t in times]
        both = [t for t in times if not isinstance(t, str)]
        ratio = f"{both[1] / both[0]:.2f}" if len(both) == 2 else ""
        rows.append([speed.name, *cells, ratio, speed.counterpart])
    title = f"speeds: {speeds.length()} elements of float32, the fastest of a few"
    return [title, *("  " + line for line in terminal.columns(rows))]


if __name__ == "__main__":
    sys.exit(main())
