"""One measurement: what is run, on what, how many bytes it must move, and what is hoped for.

Every suite is a list of `Case`; everything that measures, reports and writes takes such a list.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from benchmarks.answers import Check
from benchmarks.inputs import Build
from benchmarks.operations import Operation
from benchmarks.outside import Peer
from jscan.kernels.tuning import Tuning

Unit = Literal["share", "us", "ratio", "share ratio", "speedup"]
"""A share of copy speed; microseconds; speed, or the share of copy speed, as a ratio to the best of
other cases; speed as a ratio to the fastest of some peers."""


@dataclasses.dataclass(frozen=True)
class Inputs:
    """A builder of operands and its arguments."""

    build: Build
    args: tuple[float, ...] = ()
    x64: bool = False


@dataclasses.dataclass(frozen=True)
class Aim:
    """What is hoped for of a measurement.

    Attributes:
      target: what is hoped for, in `unit`; None where nothing has been said.
      floor: what it must not fall behind, in `unit`.
      unit: of target and floor.
      against: the names of the cases that a ratio refers to, or of the peers that a speedup does.
    """

    target: float | None
    floor: float | None
    unit: Unit = "share"
    against: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Case:
    """One measurement.

    Attributes:
      name: of the case, unique in its list.
      inputs: its operands; consecutive cases with equal inputs share them.
      run: the operation on them.
      check: of its answer.
      bytes: that any implementation has to move.
      target: of its first aim, as are the next two and `against`.
      floor: see `Aim`.
      unit: see `Aim`.
      peers: the same operation by others.
      against: see `Aim`.
      also: further aims of the same measurement.
      outside: the same operation by libraries other than JAX.
      elsewhere: what a dry run computes where `run` needs a GPU: the same by another method.
      tuning: the cut that is forced on `run`; the chosen one where it is None.
      line: the curve that the measurement is a point of, as a figure names it.
      group: the panel of that curve.
      at: where on the curve it is: a number, or a name where there is nothing to count.
    """

    name: str
    inputs: Inputs
    run: Operation
    check: Check
    bytes: int
    target: float | None = None
    floor: float | None = None
    unit: Unit = "share"
    peers: Mapping[str, Operation] = dataclasses.field(default_factory=dict)
    against: tuple[str, ...] = ()
    also: tuple[Aim, ...] = ()
    outside: tuple[Peer, ...] = ()
    elsewhere: Operation | None = None
    tuning: Tuning | None = None
    line: str = ""
    group: str = ""
    at: float | str | None = None

    @property
    def aims(self) -> tuple[Aim, ...]:
        """All of them."""
        return Aim(self.target, self.floor, self.unit, self.against), *self.also

    @property
    def portable(self) -> Case:
        """The case alone, in a form that runs without a GPU."""
        run = self.elsewhere or self.run
        return dataclasses.replace(self, run=run, tuning=None, peers={}, outside=())

    @property
    def relatives(self) -> frozenset[str]:
        """The names of the cases that its aims refer to."""
        return frozenset(
            name
            for aim in self.aims
            if aim.unit in ("ratio", "share ratio")
            for name in aim.against
        )


def length(exponent: int, shrink: int) -> tuple[int, str]:
    """2^exponent, divided by 2^shrink but not below 2^10, and how to write it."""
    exponent = max(exponent - shrink, 10)
    return 1 << exponent, f"2^{exponent}"
