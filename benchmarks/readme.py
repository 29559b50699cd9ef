"""``python -m benchmarks.readme``: writes the README's tables of figures from committed results."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks import machine

RESULTS = machine.REPOSITORY / "benchmarks" / "results"
README = machine.REPOSITORY / "README.md"


def figure(entry: dict[str, Any], unit: str) -> str:
    """A case's or a peer's measured value, in the unit of its target."""
    if unit == "time" or "share" not in entry:
        return f"{entry['median_us']:.1f} µs"
    return f"{entry['share']:.2f}"


def row(case: dict[str, Any]) -> str:
    """One line of the core's table."""
    unit = "time" if case["median_us"] < 10 else "share"
    peers = ", ".join(
        f"`{name}` {figure(peer, unit)}" for name, peer in (case["peers"] or {}).items()
    )
    return f"| {case['name']} | {case['median_us']:.1f} | {figure(case, unit)} | {peers} |"


def core(result: dict[str, Any]) -> str:
    """The table of scans."""
    return "\n".join(
        [
            f"{measured_on(result)} GPU time; small scans in",
            "microseconds, the others as a share of copy speed.",
            "",
            "| case | µs | jscan | others |",
            "|---|---|---|---|",
            *(row(case) for case in result["cases"]),
        ]
    )


def segments(result: dict[str, Any]) -> str:
    """The table of reductions, conversions and moves."""
    evenness = [
        f"{worst(result, unit):.2f} {what}"
        for unit, what in (("ratio", "by time"), ("share ratio", "by share of copy speed"))
    ]
    return "\n".join(
        [
            f"Reductions, conversions, pack and split. {measured_on(result)} GPU time, the",
            "share of copy speed at the bytes that each case has to move, and how many times as",
            "long others take. The slowest shape of segments against the fastest, of the "
            f"{len(compared(result, 'ratio'))} on 2^27",
            f"elements: {' and '.join(evenness)}.",
            "",
            "| case | µs | share | others |",
            "|---|---|---|---|",
            *(reduction_row(case) for case in result["cases"]),
        ]
    )


def reduction_row(case: dict[str, Any]) -> str:
    """One line of that table."""
    peers = ", ".join(
        f"`{name}` {times_as_long(peer, case)}" for name, peer in case["peers"].items()
    )
    return f"| {case['name']} | {case['median_us']:.1f} | {case['share']:.2f} | {peers} |"


def derivatives(result: dict[str, Any]) -> str:
    """The table of recurrences and gradients."""
    return "\n".join(
        [
            f"Recurrences and gradients. {measured_on(result)} GPU time of one call, the share of",
            "copy speed at the bytes that it has to move, how many times as long others take, and",
            "what the programs allocate beside operands and results, in multiples of one operand.",
            "",
            "| case | µs | share | others | temporaries | of others |",
            "|---|---|---|---|---|---|",
            *(
                f"{reduction_row(case)} {multiple(case)} | {multiples(case['peers'])} |"
                for case in result["cases"]
            ),
        ]
    )


def multiple(entry: dict[str, Any]) -> str:
    """A program's own memory in multiples of its largest operand."""
    number = entry.get("temporaries")
    return "–" if number is None else f"{number:.1f}"


def multiples(peers: dict[str, dict[str, Any]]) -> str:
    """That of the peers that were timed."""
    return ", ".join(multiple(peer) for peer in peers.values() if "median_us" in peer)


def times_as_long(peer: dict[str, Any], case: dict[str, Any]) -> str:
    """A peer's time as a multiple of the case's."""
    if "median_us" not in peer:
        return peer["why_not"].split(":")[0]
    return f"{peer['median_us'] / case['median_us']:.2f} ×"


def compared(result: dict[str, Any], unit: str) -> list[float]:
    """What each of the cases that are compared with each other scored."""
    return [
        aim["score"]
        for case in result["cases"]
        for aim in (case, *case["also"])
        if aim["unit"] == unit
    ]


def worst(result: dict[str, Any], unit: str) -> float:
    """The slowest of them against the fastest."""
    return min(compared(result, unit))


def measured_on(result: dict[str, Any]) -> str:
    """The machine, and what copy speed was on it."""
    environment = result["environment"]
    copied = result["copy"]["bytes_per_second"] / 1e12
    return (
        f"One {environment['device']}, driver {environment['driver']}, "
        f"jax {environment['jax']}, {environment['date'][:10]}. Copy speed, which is "
        f"`x + 1` on 2^28 32-bit words, was {copied:.2f} TB/s."
    )


# The mark before and behind a table, the result it is made from, and how.
TABLES = (
    ("figures", "core-nvidia-h200.json", core),
    ("figures of segments", "segments-nvidia-h200.json", segments),
    ("figures of derivatives", "derivatives-nvidia-h200.json", derivatives),
)


def main() -> int:
    """Rewrites what stands between the marks of every result that there is."""
    text = README.read_text(encoding="utf-8")
    for mark, file, table in TABLES:
        path = RESULTS / file
        if not path.exists():
            print(f"{path.name} has not been measured: its table stays as it is")
            continue
        start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
        before, rest = text.split(start)
        _, after = rest.split(end)
        figures = table(json.loads(path.read_text(encoding="utf-8")))
        text = f"{before}{start}\n{figures}\n{end}{after}"
    README.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
