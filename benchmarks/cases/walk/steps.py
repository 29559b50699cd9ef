"""Steps of a walk: calls as cases, with what tables group them by."""

from __future__ import annotations

import dataclasses
import re

from benchmarks.cases.case import Aim, Case, Check, Inputs, call
from benchmarks.cases.walk import checks, values
from benchmarks.cases.walk.calls import Drawn

TREES = 2**28
"""The most bytes that a call moves whose counterpart is `lax.associative_scan`: a tree of slices,
which takes several times the memory, and as many seconds to compile as it has levels."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A case of a walk, its number, and what it is grouped by in tables.

    ``kind`` is that of a call which is listed, and not drawn.
    """

    number: int
    case: Case
    drawn: Drawn
    kind: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """What a table groups it by."""
        drawn = self.drawn
        return {
            "function": drawn.function,
            "operator": drawn.operator,
            "dtype": drawn.dtype,
            "shape": drawn.shape.kind,
            "elements": _size_class(drawn.size),
            "axis": _where(drawn),
            "direction": drawn.direction,
            "segments": _found(r"one segment|segments of \d+", drawn),
            "described by": _found(
                r"(?<=by )(\w+ )?(flags|ids|lengths|offsets)( of each row)?", drawn
            ),
            "kind": self.kind,
            "transformation": drawn.transformation or "none",
        }


def _found(pattern: str, drawn: Drawn) -> str:
    """What of a call's words is like this, or nothing."""
    match = re.search(pattern, " ".join(drawn.words))
    return match[0] if match else ""


def step_of(number: int, drawn: Drawn, kind: str = "", aim: Aim | None = None) -> Step:
    """The step of a call, of which something may be hoped for."""
    dtypes = {x.dtype for x in (*drawn.operands, *drawn.results)}
    x64 = bool(dtypes & {"float64", "int64", "uint64", "complex128"})
    inputs = Inputs(call(values.made, tuple(x.build for x in drawn.operands)), x64=x64)
    case = Case(
        f"{number}: {_name(drawn)}",
        inputs,
        drawn.run,
        Check(drawn.check or call(checks.from_plain_jax, drawn.run), _bound(drawn), x64=x64),
        drawn.bytes,
        target=aim.target if aim else None,
        floor=aim.floor if aim else None,
        peers={name: peer for name, peer in drawn.peers.items() if _runs(name, drawn)},
    )
    return Step(number, case, drawn, kind)


def _bound(drawn: Drawn) -> float:
    return checks.BOUND if any(x.is_floating for x in drawn.results) else 0.0


def _runs(peer: str, drawn: Drawn) -> bool:
    """Whether a counterpart can be compiled, and run in the time of a walk.

    Scattered sums of complex64, 32 rows of 418 into 210 or 2^28 into half as many, end the process
    as XLA compiles them (jaxlib 0.11.2, H200).
    """
    if peer.startswith("jax.ops") and any(x.dtype[:7] == "complex" for x in drawn.leaves):
        return False
    levels = drawn.shape.length.bit_length()
    return "associative_scan" not in peer or drawn.bytes * levels <= TREES * 25


def _name(drawn: Drawn) -> str:
    words = ", ".join(map(str, drawn.words))
    of = f"{drawn.transformation} of " if drawn.transformation else ""
    shape = f"{drawn.shape.extents} axis {drawn.shape.axis}"
    return f"{of}{drawn.function} {drawn.dtype} {shape}" + (f", {words}" if words else "")


def _size_class(size: int) -> str:
    """How many elements there are, roughly."""
    below = next((exponent for exponent in (16, 20, 22, 24, 26) if size < 2**exponent), None)
    return "2^26 and more" if below is None else f"below 2^{below}"


def _where(drawn: Drawn) -> str:
    extents, axis = drawn.shape.extents, drawn.shape.axis
    if len(extents) == 1:
        return "only"
    return "last" if axis == len(extents) - 1 else "first" if axis == 0 else "middle"
