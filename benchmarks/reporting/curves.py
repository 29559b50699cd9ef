"""Results read as curves: a panel for each group, in it a curve for each strategy and peer.

A case says where it stands by its ``line`` (the curve), its ``group`` (the panel) and what curves
run over, its ``at``. Cases that lack one of these are in no curve.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from jscan.arguments.choices import METHODS

DEVICE = "nvidia-h200"
"""Whose results are shown."""

Result = dict[str, Any]
"""What a suite wrote."""

Results = dict[str, Result]
"""What has been measured, by suite."""

Place = float | str
"""A number (of elements, programs, heads, ...), or a name where there is nothing to count."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One measurement of a curve.

    Attributes:
      at: where on the curve it is.
      microseconds: the median of one call.
      share: of copy speed; None where there was no copy to compare with.
      bytes: that any implementation has to move.
      error: the largest, where it is errors that were measured, not times.
    """

    at: Place
    microseconds: float = math.nan
    share: float | None = None
    bytes: int = 0
    error: float | None = None


@dataclasses.dataclass(frozen=True)
class Curve:
    """Measurements of one implementation in one panel, in the order of their places."""

    name: str
    is_peer: bool
    points: tuple[Point, ...] = ()

    def point(self, at: Place) -> Point | None:
        """The point at a place, if something was measured there."""
        return next((point for point in self.points if point.at == at), None)


Panels = dict[str, list[Curve]]
"""Curves by group: jscan's first, in the order in which ``method=`` has them, then the peers'."""


def panels(result: Result) -> Panels:
    """All curves of a result; none where no case says where it stands."""
    found: dict[str, dict[tuple[bool, str], dict[Place, Point]]] = {}
    for case in result.get("cases", ()):
        if not case.get("line") or not case.get("group") or case.get("at") is None:
            continue
        curves = found.setdefault(case["group"], {})
        peers = [(True, name, peer) for name, peer in case.get("peers", {}).items()]
        for is_peer, name, entry in ((False, case["line"], case), *peers):
            if "median_us" not in entry:
                continue
            point = Point(case["at"], entry["median_us"], entry.get("share"), case["bytes"])
            points = curves.setdefault((is_peer, name), {})
            # Each strategy's case may time the same peer again, whose best time then counts.
            best = points.get(point.at)
            if best is not None and not is_peer:
                raise ValueError(f"{case['name']}: {name} of {case['group']} is there twice")
            if best is None or point.microseconds < best.microseconds:
                points[point.at] = point
    return {
        group: [
            Curve(name, is_peer, tuple(sorted(points.values(), key=_order)))
            for (is_peer, name), points in sorted(curves.items(), key=lambda item: rank(*item[0]))
        ]
        for group, curves in found.items()
        if curves
    }


def rank(is_peer: bool, name: str) -> tuple[bool, int]:
    """By which curves are ordered; equal ones stay as they are."""
    return is_peer, METHODS.index(name) if name in METHODS else len(METHODS)


FAMILIES = {
    "lax.associative_scan": "lax.associative_scan",
    "lax.": "lax.cumsum, ...",
    "jax.ops.": "jax.ops",
    "jscan.": "jscan, another way",
    "torch.": "PyTorch",
    "cupy.": "CuPy",
    "cub.": "CUB",
    "cuda.compute.": "cuda.compute",
}
"""Whose a peer is by how its name begins, where every name cannot have a look of its own."""


def family(peer: str) -> str:
    """Whose a peer is; what it is called, if it is one of several families or of none."""
    named = (name for start, name in FAMILIES.items() if peer.startswith(start))
    return peer if peer in FAMILIES.values() else next(named, "jax.numpy")


def _order(point: Point) -> float:
    """Numbers ascend; names stay in the order of the results."""
    return 0.0 if isinstance(point.at, str) else point.at


def places(curves: Iterable[Curve]) -> list[Place]:
    """Everywhere that one of the curves was measured, in order."""
    found = list(dict.fromkeys(point.at for curve in curves for point in curve.points))
    numbers = [at for at in found if not isinstance(at, str)]
    return sorted(numbers) if len(numbers) == len(found) else found


def labels(found: Sequence[Place]) -> list[str]:
    """Places as tables and axes have them: powers of two as such if there are long arrays."""
    numbers = [at for at in found if not isinstance(at, str)]
    least = 2**10 if max(numbers, default=0) >= 2**17 else 2**17
    return [_label(at, least) for at in found]


def _label(at: Place, least: int) -> str:
    if isinstance(at, str):
        return at
    number = int(at)
    if number != at:
        return f"{at:g}"
    if number >= least and number.bit_count() == 1:
        return f"2^{number.bit_length() - 1}"
    power = len(str(number)) - 1
    return f"10^{power}" if power > 4 and number == 10**power else str(number)


def milliseconds(number: float) -> str:
    """A time with three digits or four."""
    return f"{number:.{3 if number < 1 else 2 if number < 10 else 0}f}"


def load_all(folder: pathlib.Path) -> Results:
    """What every suite has measured that has been run."""
    return {
        file.name.removesuffix(f"-{DEVICE}.json"): json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob(f"*-{DEVICE}.json"))
    }


def path(folder: pathlib.Path, suite: str) -> pathlib.Path:
    """Where a suite's result is."""
    return folder / f"{suite}-{DEVICE}.json"
