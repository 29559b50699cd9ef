"""``python -m benchmarks.readme``: writes the README's table of figures from a committed result."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks import machine

RESULT = machine.REPOSITORY / "benchmarks" / "results" / "core-nvidia-h200.json"
README = machine.REPOSITORY / "README.md"
START, END = "<!-- figures -->", "<!-- /figures -->"


def figure(entry: dict[str, Any], unit: str) -> str:
    """A case's or a peer's measured value, in the unit of its target."""
    if unit == "time" or "share" not in entry:
        return f"{entry['median_us']:.1f} µs"
    return f"{entry['share']:.2f}"


def row(case: dict[str, Any]) -> str:
    """One line of the table."""
    unit = "time" if case["median_us"] < 10 else "share"
    peers = ", ".join(
        f"`{name}` {figure(peer, unit)}" for name, peer in (case["peers"] or {}).items()
    )
    return f"| {case['name']} | {case['median_us']:.1f} | {figure(case, unit)} | {peers} |"


def table(result: dict[str, Any]) -> str:
    """The Markdown between the markers."""
    environment = result["environment"]
    copied = result["copy"]["bytes_per_second"] / 1e12
    return "\n".join(
        [
            f"One {environment['device']}, driver {environment['driver']}, "
            f"jax {environment['jax']}, {environment['date'][:10]}. Copy speed, which is "
            f"`x + 1` on 2^28 32-bit words, was {copied:.2f} TB/s. GPU time; small scans in",
            "microseconds, the others as a share of copy speed.",
            "",
            "| case | µs | jscan | others |",
            "|---|---|---|---|",
            *(row(case) for case in result["cases"]),
        ]
    )


def main() -> int:
    """Rewrites what stands between the markers."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(START)
    _, after = rest.split(END)
    figures = table(json.loads(RESULT.read_text(encoding="utf-8")))
    README.write_text(f"{before}{START}\n{figures}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
