"""The real kernels under schedules that no GPU can be made to choose, beside the protocol's model.

Every access of a program to the words is checked against the model's, and every result against the
sequential scan. Loads outside of a mask return random bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators
from jscan.kernels import tuning
from jscan.kernels.lookback import Lookback
from jscan.kernels.state import PREFIX, TileState
from jscan.kernels.steps import Step
from tests import reference
from tests.cases import FORMS, form_name, head_flags
from tests.functions import affine, last_flagged
from tests.protocol.groups import Grouped
from tests.protocol.model import Protocol, Row, chained, lookback
from tests.protocol.schedules import Kernel, Model, Schedule

LENGTH = 4  # of a tile


@dataclasses.dataclass(frozen=True)
class Case:
    """A scan, and how it is cut."""

    method: str
    operator: str = "sum"
    dtype: str = "int32"
    shape: tuple[int, ...] = (24,)
    axis: int = 0
    window: int = 2
    lanes: int = 1
    reverse: bool = False
    exclusive: bool = False
    segmented: bool = False

    def __str__(self) -> str:
        forms = [name for name in ("reverse", "exclusive", "segmented") if getattr(self, name)]
        cut = [*map(str, self.shape), f"window{self.window}", f"lanes{self.lanes}"]
        return "-".join([self.method, self.operator.replace(" ", "_"), self.dtype, *cut, *forms])

    @property
    def n(self) -> int:
        """The length of a row."""
        return self.shape[self.axis]

    @property
    def operands(self) -> list[Any]:
        """The leaves, and the flags if any."""
        rng = np.random.default_rng(len(str(self)))
        leaves = [rng.integers(-9, 9, self.shape, self.dtype) for _ in range(2)]
        if self.operator == "sum":
            del leaves[1]
        if self.operator == "last write":
            leaves[0] = rng.random(self.shape) < 0.2
            leaves[1] *= leaves[0]  # what is not written is zero, as in the identity
        return [*leaves, *([head_flags(self.shape, share=0.07)] if self.segmented else [])]

    @property
    def form(self) -> dict[str, bool]:
        """Reverse, exclusive."""
        return {"reverse": self.reverse, "exclusive": self.exclusive}

    def scan(self, *operands: Any) -> Any:
        """The scan."""
        *leaves, flags = operands if self.segmented else (*operands, None)
        options: dict[str, Any] = {**self.form, "segments": flags, "method": self.method}
        if self.operator == "sum":
            return jscan.cumsum(leaves[0], self.axis, **options)
        fn: Any = {"affine": operators.affine, "last write": last_flagged}[self.operator]
        return jscan.associative_scan(fn, (*leaves,), axis=self.axis, **options)

    def expected(self) -> list[Any]:
        """The sequential scan."""
        operands = self.operands
        flags = operands.pop() if self.segmented else None
        fn: Any = {"sum": np.add, "affine": affine, "last write": last_flagged}[self.operator]
        identity: Any = {"sum": 0, "affine": (1, 0), "last write": (False, 0)}[self.operator]
        elems = operands[0] if len(operands) == 1 else (*operands,)
        form = {**self.form, "axis": self.axis, "identity": identity, "flags": flags}
        return jax.tree.leaves(reference.scan(fn, elems, **form))

    def kernel(self) -> Kernel:
        """The kernel that runs it."""
        tile = tuning.Tuning(length=LENGTH, lanes=self.lanes, warps=1, window=self.window)
        return Kernel(self.scan, *self.operands, tile=tile)

    def model(self) -> Model | None:
        """What its programs should do; None where a program has several lanes, and as many models.

        Nor is there one where the last tile's restarts are random, being outside of the row.
        """
        if self.lanes > 1 or (self.segmented and self.n % LENGTH):
            return None
        outer, inner = np.prod(self.shape[: self.axis], dtype=int), self.shape[self.axis + 1 :]
        flags = self.operands[-1] if self.segmented else np.zeros(self.shape, bool)
        starts = reference.restarts(flags, self.n, self.axis, self.reverse).reshape(self.n, -1)
        starts = starts[::-1] if self.reverse else starts
        if self.exclusive:
            starts = np.concatenate([starts[:1], starts[:-1]])
        tiles = -(-self.n // LENGTH)
        padded = np.pad(starts, [(0, tiles * LENGTH - self.n), (0, 0)])
        restarts = np.asarray(padded.reshape(tiles, LENGTH, -1).any(1)).T
        rows = [Row(tiles, frozenset(np.flatnonzero(row).tolist())) for row in restarts]
        assert len(rows) == outer * np.prod(inner, dtype=int)
        return Model(self.protocol(), rows, int(np.prod(inner, dtype=int)))

    def protocol(self) -> Protocol:
        """The protocol that it follows."""
        per_leaf = np.dtype(self.dtype).itemsize // 4
        pieces = {"sum": 1, "affine": 2, "last write": 1}[self.operator] * per_leaf
        pieces += self.operator == "last write"
        if self.method == "chained":
            return chained(pieces)
        if self.method == "repeatable":
            inner = math.prod(self.shape[self.axis + 1 :])
            sizes = tuning.group_sizes(self.window, inner)
            copies = tuning.copies(sizes, inner)
            return Grouped(self.window, pieces, sizes=sizes, copies=copies, keeps=True)
        return lookback(1 if self.method == "serial_lookback" else self.window, pieces)


def schedules(method: str, seeds: Iterable[int]) -> list[Schedule]:
    """Orders in which programs start, and numbers of them that run at a time."""
    found = []
    for seed in seeds:
        slots = (None, 1, 2, 3)[seed % 4]
        # Without tickets programs of lower numbers start first, unless all of them run.
        in_order = seed % 3 != 0 if method == "chained" or slots is None else True
        found.append(Schedule(seed, in_order, slots))
    return found


def check(case: Case, seeds: int) -> None:
    """Runs a case by random schedules."""
    kernel, model, expected = case.kernel(), case.model(), case.expected()
    for schedule in schedules(case.method, range(seeds)):
        results = kernel.run(case.operands, schedule, model)
        for actual, right in zip(results, expected, strict=True):
            reference.assert_equal(actual, right)


CASES = [
    Case("lookback"),
    Case("lookback", segmented=True),
    Case("lookback", "affine", window=4, shape=(30,)),
    Case("lookback", "affine", segmented=True, reverse=True),
    # What was not written is no identity of the last write: exclusive scans of it are no kernel.
    Case("lookback", "last write", segmented=True),
    Case("lookback", "affine", exclusive=True, segmented=True),
    Case("lookback", dtype="int64", window=4),
    Case("lookback", shape=(2, 16, 2), axis=1, segmented=True, exclusive=True),
    Case("lookback", shape=(18, 6), lanes=4, segmented=True),
    Case("serial_lookback", "affine"),
    Case("serial_lookback", dtype="int64", segmented=True),
    Case("repeatable", "affine", shape=(48,), window=4, segmented=True),
    Case("repeatable", "affine", shape=(2, 40), axis=1, window=4, reverse=True),
    Case("repeatable", shape=(80,), window=8),
    Case("repeatable", shape=(40, 2), window=4, segmented=True),
    Case("repeatable", dtype="int64", shape=(40,), exclusive=True, segmented=True),
    Case("repeatable", "affine", shape=(18, 6), window=4, lanes=4),
    Case("chained"),
    Case("chained", "affine", segmented=True, reverse=True),
    Case("chained", shape=(2, 16), axis=1),
    Case("chained", dtype="int64", shape=(12, 6), lanes=4),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_access_is_the_models_and_every_result_right(case):
    check(case, 5)


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=str)
def test_more_schedules(case):
    check(case, 300)


@pytest.mark.thorough
@pytest.mark.parametrize("operator", ["sum", "affine", "last write"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("method", ["lookback", "serial_lookback", "chained", "repeatable"])
@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_every_form(method, operator, dtype, form):
    reverse, exclusive, segmented = form
    for window, n in ((2, 40), (8, 72)):
        case = Case(method, operator, dtype, (n,), window=window)
        check(
            dataclasses.replace(case, reverse=reverse, exclusive=exclusive, segmented=segmented), 20
        )


@pytest.mark.parametrize("method", ["lookback", "serial_lookback", "chained", "repeatable"])
@pytest.mark.parametrize("window", [2, 4])
def test_segment_reductions(method, window):
    """They talk by the same words; which of their tiles look back is their own affair."""
    x = np.random.default_rng(0).integers(-9, 9, 64)
    tile = tuning.Tuning(length=8, lanes=1, warps=1, window=window, strip=4)
    for seed, lengths in enumerate([(3, 58, 3), (8, 1, 23, 0, 24, 8)]):
        count = len(lengths)
        ids = np.repeat(np.arange(count, dtype=np.int32), lengths)

        def sums(x: Any, ids: Any, count: int = count) -> Any:
            return jscan.segment_sum(x, ids, count, indices_are_sorted=True, method=method)

        kernel = Kernel(sums, x, ids, tile=tile)
        expected = reference.reduce_by_segments(np.add, x, ids, count, identity=0)
        for schedule in schedules(method, range(100 * seed, 100 * seed + 4)):
            [result] = kernel.run([x, ids], schedule, None)
            reference.assert_equal(result.reshape(count), expected)


def no_aggregates(publish: Any) -> Any:
    """Tiles that publish their prefix alone: results are right, but late."""

    def changed(state: Any, words: Any, tile: Any, tag: Any, values: Any, mask: Any = None) -> None:
        told = tag == PREFIX
        publish(state, words, tile, tag, values, told if mask is None else told & mask)

    return changed


def all_prefixes(publish: Any) -> Any:
    """Tiles that publish their aggregates as PREFIX."""

    def changed(state: Any, words: Any, tile: Any, tag: Any, values: Any, mask: Any = None) -> None:
        publish(state, words, tile, jnp.full_like(tag, PREFIX), values, mask)

    return changed


def published_twice(publish: Any) -> Any:
    """Tiles that publish everything twice."""

    def changed(*operands: Any) -> None:
        publish(*operands)
        publish(*operands)

    return changed


def shifted(peek: Any) -> Any:
    """Tiles that leave out their neighbour."""
    return lambda search, end: peek(search, end - np.int32(1))


def looked_twice(peek: Any) -> Any:
    """Tiles that look twice for nothing."""

    def changed(search: Any, end: Any) -> Any:
        tags, *_ = peek(search, end)
        return peek(search, end + jnp.min(tags) * np.int32(0))

    return changed


def never_empty(nearest: Any) -> Any:
    """Tiles that take what has not been published for what has."""
    return lambda search, tags: (nearest(search, tags)[0], jnp.zeros_like(tags, bool).any(axis=0))


CHANGES = [
    (TileState, "publish", no_aggregates, True),
    (TileState, "publish", all_prefixes, False),
    (TileState, "publish", published_twice, True),
    (Lookback, "peek", shifted, False),
    (Lookback, "peek", looked_twice, True),
    (Lookback, "_nearest", never_empty, False),
]


@pytest.mark.parametrize(
    ("place", "name", "change", "harmless"), CHANGES, ids=[c[2].__name__ for c in CHANGES]
)
def test_a_kernel_that_departs_from_the_model_is_found(monkeypatch, place, name, change, harmless):
    """Also where its results are right."""
    case = Case("lookback", shape=(16,))
    monkeypatch.setattr(place, name, change(getattr(place, name)))
    kernel, [expected] = case.kernel(), case.expected()

    def right(seed: int, model: Model | None) -> bool:
        try:
            [result] = kernel.run(case.operands, Schedule(seed), model)
        except AssertionError:
            return False
        return bool((np.asarray(result) == expected).all())

    assert all(right(seed, None) for seed in range(10)) == harmless
    assert not all(right(seed, case.model()) for seed in range(10))


@pytest.mark.parametrize(
    "protocol",
    [lookback(3), lookback(2, pieces=2), chained(), Protocol(window=2, aggregates=False)],
)
def test_a_model_that_departs_from_the_kernel_is_found(protocol):
    case = Case("lookback", shape=(16,))
    model = case.model()
    assert model is not None
    with pytest.raises(AssertionError):
        case.kernel().run(case.operands, Schedule(0), dataclasses.replace(model, protocol=protocol))


@pytest.mark.parametrize("method", ["lookback", "chained"])
def test_the_names_of_steps_are_all_that_they_add(monkeypatch, method):
    case = Case(method, segmented=True)
    named = str(case.kernel().program)
    monkeypatch.setattr(Step, "marked", lambda _: contextlib.nullcontext())
    assert str(case.kernel().program) == named
