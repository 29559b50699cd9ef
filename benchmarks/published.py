"""``python -m benchmarks papers``: the work that papers on scans measured, beside their figures."""

from __future__ import annotations

import argparse
import sys

from benchmarks.cases.papers import WORKS
from benchmarks.measuring import machine, papers
from benchmarks.reporting import terminal, then_and_now


def asked(options: argparse.Namespace) -> int:
    """Measures the work on the device that is there; 1 if an answer was wrong or a work failed."""
    names = [name for name in WORKS if options.only in name]
    if not names:
        sys.exit(f"no work's name contains {options.only!r}")
    on_gpu = machine.has_gpu()
    company = {} if on_gpu else machine.company()
    found = []
    with terminal.progress("measuring", len(names)) as advance:
        for entry in papers.measured(names):
            found.append(entry)
            advance("")
    rows = papers.rows(found, on_gpu)
    then_and_now.show(rows)
    environment = machine.record(options.commit) | company
    if options.out or not options.only:
        path = options.out or then_and_now.RESULTS / f"papers-{machine.device_name()}.json"
        content = {"suite": "papers", "environment": environment, "works": found, "rows": rows}
        terminal.write(path, content)
    wrong = [entry for entry in found if not papers.is_right(entry)]
    for entry in wrong:
        terminal.say(f"WRONG OR FAILED: {entry}")
    return 1 if wrong else 0
