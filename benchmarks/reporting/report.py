"""What became of cases: a table for the terminal, and entries of JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from benchmarks.cases.case import Aim, Case, Unit
from benchmarks.measuring.measure import Outcome, Stopwatch, Times
from benchmarks.reporting import terminal


def line(outcome: Outcome) -> str:
    """A line about a case that is done."""
    times = f"{outcome.times.median:10.1f} µs" if outcome.times else " " * 13
    return f"{outcome.case.name:55s} {times}  {_answer(outcome)}"


def score(
    aim: Aim, outcome: Outcome, bandwidth: float, outcomes: Sequence[Outcome]
) -> float | None:
    """The number that is compared with the target; None where what it refers to is missing."""
    case, times = outcome.case, outcome.times
    if times is None:
        return None
    if aim.unit == "us":
        return times.median
    if aim.unit == "share":
        return share(case, times, bandwidth)
    if aim.unit == "speedup":
        peers = [outcome.peers.get(name) for name in aim.against]
        timed = [peer.median for peer in peers if isinstance(peer, Times)]
        return min(timed) / times.median if timed else None
    if aim.unit == "memory":
        allocated = [outcome.peer_temporaries.get(name) for name in aim.against]
        known = [each for each in allocated if each is not None]
        own = outcome.temporaries
        return own / min(known) if known and own is not None else None
    others = [(o.case, o.times) for o in outcomes if o.case.name in aim.against and o.times]
    if not others:
        return None
    if aim.unit == "ratio":
        return min(theirs.median for _, theirs in others) / times.median
    best = max(share(other, theirs, bandwidth) for other, theirs in others)
    return share(case, times, bandwidth) / best


def share(case: Case, times: Times, bandwidth: float) -> float:
    """The time at copy speed as a share of the time it took."""
    return case.bytes / bandwidth / times.median


def verdict(aim: Aim, number: float | None) -> str:
    """Which of target and floor the number meets."""
    if aim.target is None or aim.floor is None:
        return "no target"
    if number is None:
        return "unknown"
    sign = -1 if aim.unit in ("us", "memory") else 1
    if sign * number >= sign * aim.target:
        return "target"
    return "floor" if sign * number >= sign * aim.floor else "below"


def show_cases(outcomes: Sequence[Outcome], stopwatch: Stopwatch | None) -> None:
    """The table of a suite: a line for each case, and one for each further aim."""
    rows = []
    for outcome in outcomes:
        case, times = outcome.case, outcome.times
        took = ["", ""]
        if times is not None:
            spread = (max(times.calls) - min(times.calls)) / times.median
            took = [f"{times.median:.1f}", f"{100 * spread:.1f} %"]
        peers = ", ".join(_peer(case, *peer, stopwatch) for peer in outcome.peers.items())
        for number, aim in enumerate(case.aims):
            *figures, meets = _aimed(aim, outcome, outcomes, stopwatch)
            if outcome.failure:
                meets = "FAILED"
            elif not outcome.is_right:
                meets = "WRONG"
            if number == 0:
                rows.append([case.name, *took, *figures, meets, _answer(outcome), peers])
            else:
                rows.append([f"  {_what(aim)}", "", "", *figures, meets, "", ""])
    columns = [
        "case",
        "GPU µs",
        "spread",
        "measured",
        "target",
        "floor",
        "meets",
        "answer",
        "peers",
    ]
    terminal.table("Share of copy speed, where no unit is given", columns, rows)
    if stopwatch is not None:
        copies = stopwatch.copies
        terminal.say(
            f"copy: {copies.median:.1f} µs for {stopwatch.words} words, "
            f"{stopwatch.bandwidth / 1e6:.2f} TB/s ({min(copies.calls):.1f} to "
            f"{max(copies.calls):.1f} µs over {len(copies.calls)} calls)"
        )


def _aimed(
    aim: Aim, outcome: Outcome, outcomes: Sequence[Outcome], stopwatch: Stopwatch | None
) -> list[str]:
    """What was measured of an aim, target, floor, and which of them that meets."""
    measured, meets = "", "not timed"
    if outcome.times is not None and stopwatch is not None:
        number = score(aim, outcome, stopwatch.bandwidth, outcomes)
        measured, meets = _number(aim.unit, number), verdict(aim, number)
    return [measured, _number(aim.unit, aim.target), _number(aim.unit, aim.floor), meets]


def _what(aim: Aim) -> str:
    """The words for what an aim measures."""
    if aim.unit == "share":
        return "share of copy speed"
    if aim.unit == "us":
        return "time"
    one = len(aim.against) == 1
    if aim.unit == "speedup":
        return f"speed against {aim.against[0] if one else 'the fastest peer'}"
    if aim.unit == "memory":
        return f"memory against {aim.against[0] if one else 'the peer with the least'}"
    other = aim.against[0] if one else f"the best of {len(aim.against)} cases"
    return f"{'speed' if aim.unit == 'ratio' else 'share'} against {other}"


def as_json(
    suite: str,
    outcomes: Sequence[Outcome],
    stopwatch: Stopwatch | None,
    environment: dict[str, Any],
) -> dict[str, Any]:
    """The content of a suite's file."""
    bandwidth = stopwatch.bandwidth if stopwatch else None
    entries = []
    for outcome in outcomes:
        case = outcome.case
        first, *further = (_aim_as_json(aim, outcome, bandwidth, outcomes) for aim in case.aims)
        entry: dict[str, Any] = {
            "name": case.name,
            "line": case.line,
            "group": case.group,
            "at": case.at,
            "bytes": case.bytes,
            **first,
            "also": further,
            "answer": {
                "right": outcome.is_right,
                "error": outcome.error,
                "bound": case.check.bound,
                "measures": case.check.measures,
            },
            "failure": outcome.failure,
        }
        if outcome.times is not None and bandwidth is not None:
            entry |= _timed(case, outcome.times, bandwidth)
            entry["temporaries"] = _rounded(outcome.temporaries)
        entry["peers"] = {name: _peer_as_json(outcome, name, bandwidth) for name in outcome.peers}
        entries.append(entry)
    copy = None
    if stopwatch is not None:
        copy = {
            "bytes": 8 * stopwatch.words,
            "bytes_per_second": round(stopwatch.bandwidth * 1e6),
            **stopwatch.copies.as_json(),
        }
    return {"suite": suite, "environment": environment, "copy": copy, "cases": entries}


def _aim_as_json(
    aim: Aim, outcome: Outcome, bandwidth: float | None, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    entry: dict[str, Any] = dataclasses.asdict(aim)
    if outcome.times is not None and bandwidth is not None:
        number = score(aim, outcome, bandwidth, outcomes)
        entry["score"] = _rounded(number)
        entry["meets"] = verdict(aim, number)
    return entry


def _peer_as_json(outcome: Outcome, name: str, bandwidth: float | None) -> dict[str, Any]:
    peer = outcome.peers[name]
    if isinstance(peer, str):
        return {"why_not": peer}
    entry = _timed(outcome.case, peer, bandwidth)
    entry["temporaries"] = _rounded(outcome.peer_temporaries.get(name))
    if name in outcome.peer_errors:  # a library outside JAX, by its own clock
        error = outcome.peer_errors[name]
        entry |= {"clock": "CUDA events", "error": error if math.isfinite(error) else str(error)}
    return entry


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _timed(case: Case, times: Times, bandwidth: float | None) -> dict[str, Any]:
    portion = round(share(case, times, bandwidth), 4) if bandwidth else None
    return {**times.as_json(), "share": portion}


def _number(unit: Unit, number: float | None) -> str:
    if number is None:
        return "–"
    if unit == "us":
        return f"{number:.1f} µs"
    return f"{number:.3f}" if unit == "share" else f"{number:.2f} ×"


def _peer(case: Case, name: str, peer: Times | str, stopwatch: Stopwatch | None) -> str:
    if isinstance(peer, str) or stopwatch is None:
        return f"{name} –"
    if case.unit in ("us", "speedup"):
        return f"{name} {peer.median:.1f} µs"
    return f"{name} {share(case, peer, stopwatch.bandwidth):.3f}"


def _answer(outcome: Outcome) -> str:
    if outcome.failure:
        return outcome.failure.splitlines()[0][:60]
    if outcome.error is None:
        return ""
    bound = outcome.case.check.bound
    if outcome.is_right:
        return "exact" if bound == 0 else f"{outcome.error:.1e} ≤ {bound:.0e}"
    return f"{outcome.error:g} > {bound:g}"
