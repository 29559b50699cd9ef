"""Calls by chance: a public function with arguments that were drawn, and what it moves."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from benchmarks.cases.case import Build, Operation, call
from benchmarks.cases.walk import checks, values
from benchmarks.cases.walk.operators import DTYPES
from benchmarks.cases.walk.shapes import Shape


@dataclasses.dataclass(frozen=True)
class Operand:
    """An array, and what makes it: a function of a salt, its shape and its dtype.

    Of ``rows`` the last axis stays the last one where a batch is added.
    """

    shape: tuple[int, ...]
    dtype: str
    make: Operation = values.zeros
    rows: bool = False

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        return math.prod(self.shape) * int(jnp.dtype(self.dtype).itemsize)

    @property
    def build(self) -> Build:
        """What makes it of a salt."""
        return call(self.make, shape=self.shape, dtype=self.dtype)

    @property
    def is_floating(self) -> bool:
        """Whether it has a derivative."""
        return bool(jnp.issubdtype(self.dtype, jnp.inexact))


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A call that was drawn.

    Attributes:
      function: the public function.
      words: what the call was given, as its name says it.
      shape: of what is worked along.
      dtype: of what is worked on.
      operator: the name of the operator.
      direction: whether it is reversed, exclusive or segmented.
      run: the call, of all operands.
      leaves: the operands that are worked on.
      others: operands behind them: what describes segments, ids, masks.
      results: what comes out.
      slopes: what the second pass of a gradient reads: leaves by their numbers, and "results".
      peers: the same by others.
      reference: the same in plain JAX.
      steps: a check of a scan by its definition.
      moved: the arrays that have to be read or written, if not all operands and results once.
      again: the operands behind the leaves that the second pass reads, if not all of them.
      transformation: what was made of the call, and "" where it is called itself.
    """

    function: str
    words: tuple[str, ...]
    shape: Shape
    dtype: str
    operator: str
    direction: str
    run: Operation
    leaves: tuple[Operand, ...]
    others: tuple[Operand, ...]
    results: tuple[Operand, ...]
    slopes: tuple[int | str, ...] = ()
    peers: Mapping[str, Operation] = dataclasses.field(default_factory=dict)
    reference: Operation | None = None
    steps: Operation | None = None
    moved: tuple[Operand, ...] | None = None
    again: tuple[Operand, ...] | None = None
    transformation: str = ""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All operands in their order."""
        return (*self.leaves, *self.others)

    @property
    def size(self) -> int:
        """The elements of the largest operand."""
        return max(math.prod(operand.shape) for operand in self.operands)

    @property
    def check(self) -> Operation | None:
        """What looks at the result and the operands, and says how far the answer is off."""
        if self.steps is not None or self.reference is None:
            return self.steps
        return call(checks.from_plain_jax, self.reference)

    @property
    def moves(self) -> tuple[Operand, ...]:
        """The arrays that any implementation has to read or write, as often as it has to."""
        return (*self.operands, *self.results) if self.moved is None else self.moved

    @property
    def bytes(self) -> int:
        """The bytes of these."""
        return total(self.moves)


def total(arrays: tuple[Operand, ...]) -> int:
    """The bytes of some arrays."""
    return sum(array.bytes for array in arrays)


PERIODS = (1, 2, 10, 30, 100, 1000, 10**4, 10**5)
"""How long segments are on average, where there is more than one."""


@dataclasses.dataclass(frozen=True)
class Division:
    """Segments by chance: what the operand that describes them is, and how many there are."""

    form: str = ""
    word: str = ""
    operands: tuple[Operand, ...] = ()
    count: int = 0


def divided(
    rng: random.Random, shape: Shape, *, forms: tuple[str, ...] = ("flags", "ids", "bounds")
) -> Division:
    """Segments of an axis, shared by all rows or each row's own."""
    n = shape.length
    form = rng.choices(forms, [6, 2, 2, 2][: len(forms)])[0]
    period = n if rng.random() < 0.12 else rng.choice([p for p in PERIODS if p <= n])
    said = "one segment" if period >= n else f"segments of {period}"
    own = len(shape.extents) > 1 and rng.random() < 0.5
    if form == "flags":
        dtype = rng.choices(["bool", "uint8", "int32"], [6, 2, 2])[0]
        return flagged(shape, period, dtype, own=own, late=rng.random() < 0.15)
    count = values.count_of(period, n)
    if form == "bits":
        per_million = 0 if period >= n else round(10**6 / period)
        words = Operand((-(-n // 32),), "uint32", call(values.words, per_million), True)
        return Division(form, f"{said} by bits", (words,))
    if form == "ids":
        own = own and shape.axis == len(shape.extents) - 1
        dtype = rng.choice(["int32", "int32", "int16", "uint8"])
        rows = Operand(shape.extents if own else (n,), dtype, call(values.ids, period), True)
        return Division(form, f"{said} by {dtype} ids" + " of each row" * own, (rows,), count)
    form = rng.choice(["lengths", "offsets"])
    described = values.lengths if form == "lengths" else values.bounds
    size = count + (form == "offsets")
    row = Operand((size,), "int32", call(described, period, n), True)
    return Division(form, f"{said} by {form}", (row,), count)


def flagged(
    shape: Shape, period: int, dtype: str = "bool", *, own: bool = False, late: bool = False
) -> Division:
    """Segments of such a length on average by flags, perhaps in the second half alone."""
    n = shape.length
    per_million = 0 if period >= n else round(10**6 / period)
    make = call(values.late_marks if late else values.marks, per_million)
    heads = Operand(shape.extents if own else (n,), dtype, make)
    count = n if period == 1 else 1 + math.ceil(n / period + 6 * math.sqrt(n / period))
    said = "one segment" if period >= n else f"segments of {period}"
    where = " in the second half" * late + f" by {dtype} flags" + " of each row" * own
    return Division("flags", said + where, (heads,), min(count, n))


def dtype_of(rng: random.Random, allowed: tuple[str, ...]) -> str:
    """A dtype of these, the common ones more often."""
    return rng.choices(allowed, [DTYPES[dtype] for dtype in allowed])[0]


def leaf(extents: tuple[int, ...], dtype: str, kind: str) -> Operand:
    """An array of a kind of values."""
    return Operand(extents, dtype, values.KINDS[kind])


def direction_of(reverse: bool, exclusive: bool, segmented: bool) -> str:
    """How a scan goes along its axis, as a group of a table."""
    told = ("segmented", segmented), ("exclusive", exclusive), ("reversed", reverse)
    return " ".join(word for word, holds in told if holds) or "forwards"


@dataclasses.dataclass(frozen=True)
class Way:
    """How a scan goes along its axis."""

    reverse: bool
    exclusive: bool
    division: Division

    @property
    def how(self) -> dict[str, Any]:
        """Named arguments, where they are not left out."""
        told = {"reverse": self.reverse, "exclusive": self.exclusive}
        return {name: True for name, holds in told.items() if holds}

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments in words."""
        return (*self.how, *filter(None, [self.division.word]))

    @property
    def direction(self) -> str:
        """The same as a group of a table."""
        return direction_of(self.reverse, self.exclusive, bool(self.division.form))

    @property
    def has_tree(self) -> bool:
        """Whether `lax.associative_scan` does the same without further passes."""
        return not self.exclusive and self.division.form in ("", "flags")


def way_of(rng: random.Random, shape: Shape, exclusive: float = 0.2) -> Way:
    """A way along an axis by chance, exclusive with this probability."""
    forms = ("flags", "ids", "bounds", "bits")
    division = divided(rng, shape, forms=forms) if rng.random() < 0.45 else Division()
    return Way(rng.random() < 0.35, rng.random() < exclusive, division)
