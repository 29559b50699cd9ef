"""Fuzzing: what an example is made of, and how many there are.

An example is a *form* and *data*. A form is all that is static: operator, pytree, dtypes, shape,
axis, kind of segments, direction, transformation, where the operands come from, method. It decides
which program is compiled, which takes half a second; so forms come from a finite pool, and are
told by their numbers. Data are values, heads and lengths, and take no compilation: hypothesis
draws them freely, as seeds, densities and flavours.

    JSCAN_FUZZ_EXAMPLES    the number of examples of all test_fuzz*.py together, 3000 if not set

The pool grows with that number. Unset, the examples are the same in every run; where it is set they
are random, and a failure prints the form, the data and the blob that repeats them (`pytest
--hypothesis-seed=...` repeats a whole run). `-m gpu` runs as many on a GPU: strategies for real.

    JSCAN_FUZZ_EXAMPLES=100000 python -m pytest tests/fuzz
    JSCAN_FUZZ_EXAMPLES=20000 python -m pytest -m gpu -n 16 tests/fuzz

The examples are dealt out to `PARTS` equal parts, each a test with forms of its own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from jscan.kernels import tuning
from tests.cases import FLAG_DTYPES
from tests.fuzz import operators as fuzz_operators

PARTS = 50
EXAMPLES = int(os.environ.get("JSCAN_FUZZ_EXAMPLES", "3000"))
PER_PART = -(-EXAMPLES // PARTS)
# Examples of one program: they take about as long as its compilation.
PER_FORM = {"here": 50, "interpreted": 160, "gpu": 40, "devices": 20}

# How many of the parts each suite has: in plain JAX, in interpreted kernels, and of those on a GPU.
SUITES = {
    "scans": (16, 7, 24),
    "reductions": (7, 2, 12),
    "recurrences": (3, 1, 4),
    "vectors": (2, 2, 4),
    "derivatives": (4, 0, 4),
    "zeros": (3, 0, 2),
    "devices": (3, 0, 0),
}
METHODS = (
    "block",
    "lookback",
    "chained",
    "repeatable",
    "reduce_then_scan",
    "scan_then_propagate",
    "serial_lookback",
)


@dataclasses.dataclass(frozen=True)
class Lying:
    """How arrays lie over devices.

    Attributes:
      manner: "Auto" or "Explicit", the kind of the mesh's axes; or "shard_map", inside of which the
        call is told how its axis goes on.
      sizes: those of the mesh's axes, whose names are "a", "b", and "c".
      entries: for each dimension the names of the mesh axes that divide it.
      shared: whether what describes one row of segments is on all devices.
    """

    manner: str
    sizes: tuple[int, ...]
    entries: tuple[tuple[str, ...], ...]
    shared: bool

    def parts(self, dimension: int) -> int:
        """Into how many parts a dimension is divided."""
        sizes = dict(zip("abc", self.sizes, strict=False))
        return math.prod(sizes[name] for name in self.entries[dimension])


@dataclasses.dataclass(frozen=True)
class Form:
    """All that is static in an example. A field that a suite has no use for is ignored by it."""

    suite: str
    number: int
    subject: str
    function: str
    dtypes: tuple[str, ...]
    tree: str
    shape: tuple[int, ...]
    axis: int
    segments: str
    flag_dtype: str
    count: int  # segments in lengths and offsets
    wanted: int  # segments to return
    reverse: bool
    exclusive: bool
    identity: str
    wrapper: str
    mapped: tuple[bool, ...]  # each leaf, and what describes the segments
    batch_at: int
    source: str
    method: str
    tile: tuning.Tuning | None
    lying: Lying | None = None
    block: tuple[int, ...] = ()  # what a recurrence multiplies by, where it is no number

    @property
    def batch(self) -> int | None:
        """The size of the axis that is mapped or looped over."""
        return 3 if self.wrapper in ("vmap", "loop") else None

    @property
    def n(self) -> int:
        """The length of the axis."""
        return self.shape[self.axis]

    @property
    def along(self) -> int:
        """The axis, counted from 0."""
        return self.axis % len(self.shape)

    @property
    def continues(self) -> bool:
        """Whether a scan starts from one of its own elements, as if it went on behind it.

        Numbers of segments do not tell whether the first element is flagged, which ends that one.
        """
        if self.segments != "none" and not self.reverse:
            return False
        whole = self.lying is None or self.lying.manner != "shard_map"
        scans = self.suite == "scans" and self.function in ("cumulative", "associative_scan")
        return scans and whole and self.n > 0 and random.Random(self.number + 2).random() < 0.25

    def spread(self, leaf: int) -> tuple[int, ...]:
        """The dimensions along which the program broadcasts a leaf."""
        if self.source != "spread":
            return ()
        draw = random.Random(4 * self.number + leaf)
        return tuple(d for d, size in enumerate(self.shape) if size and draw.random() < 0.5)

    @property
    def precise(self) -> bool:
        """Whether sums are made in pairs."""
        scans = self.suite == "scans" and self.function == "cumulative"
        sums = (scans or self.function == "segment") and self.subject == "add"
        return sums and random.Random(self.number + 3).random() < 0.4

    @property
    def operator(self) -> fuzz_operators.Subject:
        """The operator."""
        return fuzz_operators.BY_NAME[self.subject]


@dataclasses.dataclass(frozen=True)
class Data:
    """What is free in an example."""

    seed: int
    flavour: str  # of values
    heads: str  # how many there are

    def generator(self, form: Form) -> np.random.Generator:
        """Random numbers, others for each form."""
        return np.random.default_rng([self.seed, form.number])


DATA = st.builds(
    Data,
    seed=st.integers(0, 2**32 - 1),
    flavour=st.sampled_from(("any", "small", "sparse", "special")),
    heads=st.sampled_from(("some", "few", "many", "none", "all", "ends")),
)
HEADS = {"none": 0.0, "few": 0.05, "some": 0.2, "many": 0.6, "all": 1.0, "ends": 0.0}


def heads(rng: np.random.Generator, shape: tuple[int, ...], how: str) -> Any:
    """Random head flags along the last axis."""
    flags = rng.random(shape) < HEADS[how]
    if how == "ends" and shape[-1]:
        flags[..., [0, -1]] = True
    return flags


@functools.lru_cache(maxsize=64)
def form_of(suite: str, place: str, number: int) -> Form:
    """Form `number` of a suite, the same in every run."""
    draw = random.Random(f"{suite} {place} {number}")
    interpreted, gpu = place == "interpreted", place == "gpu"
    subjects = [s for s in fuzz_operators.SUBJECTS if suite != "reductions" or not s.trailing]
    if interpreted:  # a kernel takes minutes to compile there (tests/kernels/test_walking.py)
        subjects = [s for s in subjects if s.name != "large blocks"]
    method = METHODS[number % len(METHODS)] if interpreted else "auto"
    function, segments = "", draw.choice(SEGMENTS)
    subject = subjects[(number // 2 + number) % len(subjects)]
    if suite == "scans":
        function = draw.choice(("associative_scan", "cumulative"))
    elif suite == "reductions":
        function = draw.choice(("reduce", "reduce", "segment"))
        if function == "segment":
            subject = fuzz_operators.BY_NAME[draw.choice(("add", "mul", "max", "min"))]
            segments = draw.choice(("sorted", "neighbours", "unsorted", "planned"))
            if interpreted and segments != "planned":
                segments = "sorted"
    if gpu and not subject.trailing and segments != "unsorted":
        method = draw.choice((*METHODS, "auto", "auto", "auto"))
    elif method == "auto" and draw.random() < 0.2:
        method = "xla"
    shape, axis = _shape(draw, suite, place, method)
    if interpreted and subject.name == "blocks":  # matmul drops dimensions of 1: no kernel's then
        shape = tuple(max(size, 2) for size in shape)
    if function == "segment":
        shape, axis = (shape[axis], *(shape[:axis] + shape[axis + 1 :])), 0
    trailing = bool(subject.trailing)
    negative = draw.random() < 0.3 and not trailing and function != "segment"
    dtypes = _dtypes(draw, subject, 1 if function in ("cumulative", "segment") else None)
    if function == "cumulative" and (not subject.cumulative or dtypes[0] == "bool"):
        function = "associative_scan"
    wrapper = draw.choice(
        ("jit",) if interpreted else ("call", "jit", "jit", "vmap", "loop", "cond")
    )
    if wrapper == "call" and gpu:
        wrapper = "vmap"
    mapped = [draw.random() < 0.6 for _ in range(len(dtypes) + 1)]
    mapped[draw.randrange(len(dtypes))] |= segments == "none" or not any(mapped)
    if subject.name == "written":  # what is not written is zero, in every row
        mapped[:2] = [any(mapped[:2])] * 2
    rows_of_segments = segments in FULL and trailing
    return Form(
        suite=suite,
        number=number,
        subject=subject.name,
        function=function,
        dtypes=dtypes,
        tree=draw.choice(("tuple", "dict", "nested", "bare")),
        shape=shape,
        axis=axis - len(shape) if negative else axis,
        segments="row" if rows_of_segments else segments,
        flag_dtype=draw.choice(FLAG_DTYPES),
        count=draw.choice((1, 3, 5)),
        wanted=draw.choice((0, 1, 4, 7)),
        reverse=draw.random() < 0.5,
        exclusive=draw.random() < 0.5,
        identity=draw.choice(("scalars", "scalars", "arrays")) if method in ("auto", "xla") else "",
        wrapper=wrapper,
        mapped=tuple(mapped),
        batch_at=draw.choice((0, 1)),
        source=draw.choice(SOURCES if suite in ("scans", "reductions") else SOURCES[:-1]),
        method=method,
        tile=_tile(draw, place, method, shape, axis),
    )


FULL = ("flags", "rows", "packed", "rows of ids")
"""Kinds of segments that each row has its own of."""

SEGMENTS = (
    "none",
    "none",
    "flags",
    "row",
    "rows",
    "packed",
    "ids",
    "rows of ids",
    "lengths",
    "offsets",
)
"""Flags as the elements lie, or one row of them; ``Segments`` of flags, packed or not, or of ids
with rows, of one row of ids, of lengths, of offsets."""

SOURCES = ("whole", "whole", "slice", "transposed", "misaligned", "donated", "aliased", "spread")
"""Operands as they are; slices at odd places of longer arrays; transposed; from memory that is
aligned to nothing; given away; one array as several operands; of scans and reductions also ones
that the program broadcasts."""

SIZES = (0, 1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 33, 65)


def _shape(draw: random.Random, suite: str, place: str, method: str) -> tuple[tuple[int, ...], int]:
    """A shape and its axis: many lengths, and few elements beside them."""
    sizes: tuple[int, ...] = SIZES
    if place == "interpreted":
        sizes = (1, 17, 33) if method == "block" else (17, 17, 17, 33, 33, 65)
    elif place == "gpu":
        sizes = (*SIZES, 128, 255, 257, 1000, 1025)
        sizes = sizes if method == "block" else (*sizes, 2049, 3000)
    n = draw.choice(sizes) or draw.choice(sizes)  # empty axes are soon told
    few = 40 if place == "gpu" and n < 300 and suite == "scans" else 3
    outer = [draw.choice((1, 2, 3, few)) for _ in range(draw.choice((0, 0, 1)))]
    inner = [draw.choice((1, 2, 3, 5, few)) for _ in range(draw.choice((0, 0, 1)))]
    if draw.random() < 0.03 and place == "here":
        inner = [0]
    return (*outer, n, *inner), len(outer)


def _dtypes(
    draw: random.Random, subject: fuzz_operators.Subject, leaves: int | None
) -> tuple[str, ...]:
    """The dtypes of the leaves."""
    if subject.leaves:
        return subject.kinds(draw.choice(subject.dtypes))
    count = leaves or draw.choice((1, 1, 2, 3))
    return tuple(draw.choice(subject.dtypes) for _ in range(count))


def _tile(
    draw: random.Random, place: str, method: str, shape: tuple[int, ...], axis: int
) -> tuning.Tuning | None:
    """Tiles so small that there are several, or the table's."""
    if method == "block" or place == "here" or (place == "gpu" and draw.random() < 0.6):
        return None
    inner = math.prod(shape[axis + 1 :])
    lanes = min(4, tuning.next_power_of_2(inner)) if inner > 1 else 1
    length = 64 if place == "gpu" else 8 if lanes > 1 else 16
    if method == "lookback" and lanes == 1 and draw.random() < 0.4:
        length = 64
    if 1 < inner <= 8 and draw.random() < 0.4:  # woven, at once or in strips that are read twice
        lanes, strip = tuning.next_power_of_2(inner), draw.choice((0, 32))
        return tuning.Tuning(strip * 2 or 32, lanes, warps=1, window=4, strip=strip, woven=2)
    if lanes > 1 and method == "auto" and draw.random() < 0.4:  # walked, as one tile
        long, ahead = -(-shape[axis] // 8) * 8 or 8, draw.random() < 0.5
        return tuning.Tuning(long, 32, warps=1, window=1, strip=8, ahead=ahead)
    strip = draw.choice((length // 2, length))
    fold = draw.choice((0, 0, 2, 4, 8)) if lanes == 1 else 0
    return tuning.Tuning(length, lanes, warps=1, window=4, strip=strip, fold=fold)


def fuzzed(
    suite: str, special: Callable[[Form], Form] = lambda form: form
) -> Callable[[Callable[[Form, Data, str], None]], Any]:
    """Makes a check of a form and data the parts of a suite, whose forms may be ``special``."""

    def decorate(check: Callable[[Form, Data, str], None]) -> Any:
        def test(place: str, part: int, parts: int, choice: int, data: Data) -> None:
            pool = _pool(suite, place)
            form = special(form_of(suite, place, part + parts * (choice % pool)))
            note(f"place={place!r}, {form}")
            check(form, data, place)

        test.__doc__ = check.__doc__
        drawn = given(choice=st.integers(0, PER_PART - 1), data=DATA)(test)
        chosen = settings(
            max_examples=PER_PART,
            derandomize="JSCAN_FUZZ_EXAMPLES" not in os.environ,
            print_blob=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(drawn)
        return pytest.mark.parametrize(("place", "part", "parts"), list(_parts(suite)))(chosen)

    return decorate


def _pool(suite: str, place: str) -> int:
    """How many forms a part has."""
    return max(1, PER_PART // PER_FORM.get(suite, PER_FORM[place]))


def forms(place: str) -> list[Form]:
    """All forms of a run."""
    which = ("here", "interpreted", "gpu").index(place)
    return [
        form_of(suite, place, part + parts[which] * choice)
        for suite, parts in SUITES.items()
        for part in range(parts[which])
        for choice in range(_pool(suite, place))
    ]


def _parts(suite: str) -> Iterator[Any]:
    for place, parts in zip(("here", "interpreted", "gpu"), SUITES[suite], strict=True):
        marks = [pytest.mark.gpu] if place == "gpu" else []
        for part in range(parts):
            yield pytest.param(place, part, parts, id=f"{place}-{part}", marks=marks)
