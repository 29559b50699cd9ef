"""The suite `static`: its table, its file, and what differs between two of its reports."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.measuring.static import Looks
from benchmarks.reporting import terminal

COLUMNS = (
    *("kernel", "engine", "warps", "registers", "spilled", "loads", "stores"),
    *("shared accesses", "shared bytes", "instructions"),
)
MORE = 1.1
"""So many times the registers are more, and accesses of one so many times the width narrower."""


def show(report: Sequence[Looks]) -> None:
    """Prints a line for each kernel; accesses to the GPU's memory as count × bytes."""
    rows = []
    for looks in report:
        accesses = f"{looks.shared_loads} + {looks.shared_stores}"
        told = (
            *(looks.engine, looks.warps, looks.registers, looks.spilled),
            *(_widths(looks.loads), _widths(looks.stores)),
            *(accesses, looks.shared, looks.instructions),
        )
        rows.append([_title(looks), *map(str, told)])
    terminal.table("kernels", COLUMNS, rows)


def badness(looks: Looks) -> tuple[float, ...]:
    """An order of kernels: those that spill first, then those of narrow accesses."""
    widths = [_mean_width(counts) for counts in (looks.loads, looks.stores) if counts]
    return (-looks.spilled, min(widths, default=16.0), -looks.registers)


def _title(looks: Looks) -> str:
    number = f" {looks.number + 1}" if looks.number else ""
    return f"{looks.call}: {looks.kernel.removeprefix('jscan_')}{number}"


def _full(looks: Looks) -> str:
    return f"{_title(looks)}, {looks.engine}"


def _widths(counts: Mapping[str, int]) -> str:
    return " ".join(f"{count}×{width}" for width, count in counts.items()) or "0"


# --- the file -----------------------------------------------------------------------------------


def write(path: pathlib.Path, report: Sequence[Looks], versions: Mapping[str, str]) -> None:
    """Writes the report, a line for each kernel, so that a change shows as the lines it changes."""
    lines = [json.dumps(dataclasses.asdict(looks), ensure_ascii=False) for looks in report]
    head = json.dumps({"suite": "static", "environment": versions}, ensure_ascii=False)
    kernels = ",\n".join(lines)
    terminal.write_text(path, f'{head[:-1]}, "kernels": [\n{kernels}\n]}}\n')


def read(path: pathlib.Path) -> tuple[list[Looks], dict[str, str]]:
    """A report, and the versions that it was made with."""
    content = json.loads(path.read_text())
    return [Looks(**line) for line in content["kernels"]], content["environment"]


# --- two reports --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Difference:
    """What differs, in words, and whether it is for the worse."""

    text: str
    worse: bool


def differences(before: Sequence[Looks], after: Sequence[Looks]) -> list[Difference]:
    """What differs between reports of the same calls.

    It is worse if a kernel spills more than before, or at all if it is new; if it needs more
    registers by `MORE`, unless it spills less for that; if its accesses are narrower by `MORE`; or
    if a call has no kernel any more.
    """
    old, new = ({looks.key: looks for looks in report} for report in (before, after))
    found = []
    for key, looks in new.items():
        if key not in old:
            spills = bool(looks.spilled)
            told = f"is new, and spills {looks.spilled}" if spills else "is new"
            found.append(Difference(f"{_full(looks)} {told}", spills))
        elif dataclasses.replace(old[key], text=looks.text) != looks:
            changes = list(_changes(old[key], looks))
            told = ", ".join(change.text for change in changes)
            worse = any(change.worse for change in changes)
            found.append(Difference(f"{_full(looks)}: {told}", worse))
    kept = {(looks.call, looks.engine) for looks in after}
    for key, looks in old.items():
        if key not in new:
            none = (looks.call, looks.engine) not in kept
            told = "is gone, and the call has no kernel" if none else "is gone"
            found.append(Difference(f"{_full(looks)} {told}", none))
    return found


def _changes(old: Looks, new: Looks) -> Iterator[Difference]:
    """What differs between two kernels."""
    for field in dataclasses.fields(Looks):
        was, is_now = getattr(old, field.name), getattr(new, field.name)
        if was == is_now or field.name == "text":
            continue
        worse = False
        if field.name == "spilled":
            worse = is_now > was
        elif field.name == "registers":
            worse = is_now > MORE * was and new.spilled >= old.spilled
        elif field.name in ("loads", "stores"):
            worse = MORE * _mean_width(is_now) < _mean_width(was)
            was, is_now = _widths(was), _widths(is_now)
        name = field.name.replace("_", " ")
        yield Difference(f"{name} {was} → {is_now}{' (WORSE)' if worse else ''}", worse)


def _mean_width(counts: Mapping[str, int]) -> float:
    """The bytes of an access, on average."""
    total = sum(counts.values())
    return sum(int(width) * count for width, count in counts.items()) / total if total else 0.0
