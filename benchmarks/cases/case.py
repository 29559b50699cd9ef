"""One measurement: what is run, on what, how many bytes it must move, and what is hoped for.

Every suite is a list of `Case`; everything that measures, reports and writes takes such a list.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal

import jax

from jscan.kernels.tuning import Tuning

Operation = Callable[..., Any]
"""A plain function of arrays, which can be jitted, lowered and compared under one name."""

Build = Callable[..., tuple[jax.Array, ...]]
"""A function that makes operands on the device."""

Unit = Literal["share", "us", "ratio", "share ratio", "speedup", "memory"]
"""A share of copy speed; microseconds; speed, or the share of copy speed, as a ratio to the best of
other cases; speed as a ratio to the fastest of some peers; what the program allocates as a ratio to
the least of some peers."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A function with its first arguments and some named ones; equal calls are one program."""

    function: Operation
    told: tuple[Hashable, ...]
    how: tuple[tuple[str, Hashable], ...]

    def __call__(self, *operands: Any, **how: Any) -> Any:
        """The function's result for all arguments."""
        return self.function(*self.told, *operands, **dict(self.how), **how)


def call(function: Operation, *told: Any, **how: Any) -> Call:
    """Tells a function what its operands do not say, all of it hashable.

    Unlike partial objects, calls of the same are equal.
    """
    return Call(function, told, tuple(how.items()))


@dataclasses.dataclass(frozen=True)
class Inputs:
    """A builder of operands and its arguments."""

    build: Build
    args: tuple[float, ...] = ()
    x64: bool = False


def made(build: Build, *told: Any, args: tuple[float, ...] = (), x64: bool = False) -> Inputs:
    """The inputs that a function of `benchmarks.cases.inputs` makes of what it is told."""
    return Inputs(call(build, *told), args, x64)


@dataclasses.dataclass(frozen=True)
class Check:
    """A function of result and operands, the largest value it may return, what that value is."""

    error: Callable[..., jax.Array]
    bound: float = 0.0
    measures: str = "elements that differ"
    x64: bool = False


@dataclasses.dataclass(frozen=True)
class Aim:
    """What is hoped for of a measurement.

    Attributes:
      target: what is hoped for, in `unit`; None where nothing has been said.
      floor: what it must not fall behind, in `unit`.
      unit: of target and floor.
      against: the names of the cases that a ratio refers to, or of the peers that the last two do.
    """

    target: float | None
    floor: float | None
    unit: Unit = "share"
    against: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Peer:
    """An operation of a library other than JAX, and the axis that it runs along."""

    library: str
    operation: str
    axis: int = 0

    @property
    def name(self) -> str:
        """The name that it has among peers."""
        return f"{self.library}.{self.operation}"


def others(*names: str, axis: int = 0) -> tuple[Peer, ...]:
    """Operations by what they are called beside other peers."""
    found = (name.rpartition(".") for name in names)
    return tuple(Peer(library, operation, axis) for library, _, operation in found)


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

    def by(
        self, method: str, name: str, group: str, at: float | str, line: str = "", **fields: Any
    ) -> Case:
        """The same by one method, after which its curve is named unless ``line`` says otherwise.

        The peers stand beside "auto" alone.
        """
        if method != "auto":
            fields |= {"peers": {}, "outside": ()}
            if method != "xla":
                fields["elsewhere"] = call(self.run, method="auto")
        run = call(self.run, method=method)
        fields |= {"group": group, "at": at, "line": line or method}
        return dataclasses.replace(self, name=name, run=run, **fields)

    @property
    def aims(self) -> tuple[Aim, ...]:
        """All aims, the first one first."""
        return Aim(self.target, self.floor, self.unit, self.against), *self.also

    @property
    def portable(self) -> Case:
        """The case alone, in a form that runs without a GPU."""
        run = self.elsewhere or self.run
        return dataclasses.replace(self, run=run, tuning=None, peers={}, outside=())

    @property
    def relatives(self) -> frozenset[str]:
        """The names of the cases that its aims refer to."""
        ratios = [aim for aim in self.aims if aim.unit in ("ratio", "share ratio")]
        return frozenset(name for aim in ratios for name in aim.against)


def length(exponent: int, shrink: int) -> tuple[int, str]:
    """2^exponent, divided by 2^shrink but not below 2^10, and how to write it."""
    exponent = max(exponent - shrink, 10)
    return 1 << exponent, f"2^{exponent}"


def number(n: int) -> str:
    """How a size is written: as a power of two where it is one."""
    return f"2^{n.bit_length() - 1}" if n.bit_count() == 1 else str(n)


def shrunk(n: int, shrink: int) -> int:
    """A size divided by 2^shrink, but not to less than 2^10 where it is more."""
    return max(n >> shrink, min(n, 2**10))
