"""Tiles in groups, in every order: whatever the timing, a total has one grouping; and the kernel.

pytest -s tests/protocol/test_groups.py    prints the sizes of what has been explored
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

import jscan
from jscan import operators
from jscan.kernels import tuning
from jscan.kernels.steps import Step
from tests.cases import head_flags
from tests.protocol import group_mistakes
from tests.protocol.exploration import Launch, explore
from tests.protocol.group_mistakes import GROUP_MISTAKES
from tests.protocol.groups import Grouped
from tests.protocol.model import Row
from tests.protocol.schedules import Kernel, Schedule
from tests.protocol.test_protocol import by_dispatch, rows, told
from tests.protocol.turns import wander
from tests.protocol.word_by_word import same

SIZES = [(2, 2), (2,), (1,), (3, 2), (2, 2, 2)]
by_size = pytest.mark.parametrize("sizes", SIZES, ids=str)


def letters(total: str) -> str:
    """A total without its brackets."""
    return "".join(letter for letter in total if letter.isalpha())


@by_size
def test_what_is_right_is_all_that_is_before(sizes):
    protocol = Grouped.of(*sizes)
    for row in rows(8):
        for tile in range(1, row.tiles):
            assert letters(protocol.before(row, tile)) == row.before(tile)


@by_dispatch
@by_size
@pytest.mark.parametrize("pieces", [1, 2])
def test_every_interleaving_ends_and_is_right(request, sizes, pieces, dispatch):
    tiles = 2 * math.prod(sizes) + 1 if dispatch[1] else 6
    tiles = min(tiles, 9 if dispatch[1] else 5 if pieces > 1 else 6)
    result = explore(Launch(Grouped.of(*sizes, pieces=pieces), Row(tiles), *dispatch))
    assert result.verdict == "right", result
    told(request.node.callspec.id, [result], f"{tiles} tiles")


@by_dispatch
@by_size
def test_every_pattern_of_restarts(request, sizes, dispatch):
    tiles = 8 if dispatch[1] == 2 else 5
    launches = [Launch(Grouped.of(*sizes), row, *dispatch) for row in rows(tiles)]
    results = [explore(launch) for launch in launches]
    assert {result.verdict for result in results} == {"right"}
    told(request.node.callspec.id, results, f"{len(results)} patterns of restarts")


@pytest.mark.parametrize("restarts", [(), (1,), (2, 3)])
@pytest.mark.parametrize("how", [{"copies": 2}, {"keeps": True}])
def test_copies_of_words_and_looks_that_go_on(restarts, how):
    row = Row(5, frozenset(restarts))
    assert explore(Launch(Grouped.of(2, 2, **how), row, slots=3)).verdict == "right"


def test_nine_tiles_that_all_run_at_once():
    """Three supergroups: a prefix is made of a prefix."""
    assert explore(Launch(Grouped.of(2, 2), Row(9))).verdict == "right"


@pytest.mark.parametrize("restarts", [(), (1,)])
def test_writes_may_land_in_any_order(restarts):
    row = Row(3, frozenset(restarts))
    launch = Launch(Grouped.of(2, pieces=2), row, in_order=False, reordered=True)
    assert explore(launch).verdict == "right"


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_few_programs_in_any_order_wait_for_ever(slots):
    """The same limit as lookback's: it needs the hardware to dispatch in order."""
    launch = Launch(Grouped.of(2, 2), Row(6), in_order=False, slots=slots)
    assert explore(launch).verdict == "stuck"


@pytest.mark.parametrize("mistake", GROUP_MISTAKES, ids=lambda mistake: mistake.name)
def test_mistakes_are_found_where_the_right_protocol_passes(mistake):
    found = explore(mistake.launch)
    print(f"\n{mistake.name}: {found.fault}, after {len(found.steps)} steps", end="")
    assert found.verdict == mistake.verdict
    assert explore(mistake.right).verdict == "right"


def test_no_mistake_is_left_out():
    wrong = {p for p in Grouped.__subclasses__() if p.__module__ == group_mistakes.__name__}
    assert {mistake.protocol for mistake in GROUP_MISTAKES} == wrong


@pytest.mark.parametrize("pieces", [1, 2])
def test_looks_may_be_taken_for_one_operation(pieces):
    assert same(Launch(Grouped.of(2, pieces=pieces), Row(3), in_order=False))


@pytest.mark.parametrize("seed", range(8))
def test_random_schedules_of_many_tiles(seed):
    rng = random.Random(seed)
    tiles, share = rng.randint(30, 50), rng.choice([0, 0.1, 0.3])
    row = Row(tiles, frozenset(t for t in range(1, tiles) if rng.random() < share))
    slots = (None, 1, 2, 5)[seed % 4]
    for sizes, keeps in itertools.product([(2, 2), (3, 4), (8, 2), (2,) * 5], (False, True)):
        launch = Launch(Grouped.of(*sizes, copies=sizes[0], keeps=keeps), row, slots=slots)
        *_, last = wander(launch, seed)
        assert last.after.step is Step.STORE


# --- the kernel: floats, by schedules that find them in every state -----------------------------

N = 120


def scan(name: str, method: str, **how: Any) -> Any:
    """A scan of floats by an operator of one leaf, of two, or of three."""

    def run(*arrays: Any) -> Any:
        leaves, flags = arrays[: LEAVES[name]], arrays[LEAVES[name] :]
        options = {**how, "method": method, "segments": flags[0] if flags else None}
        if name == "sum":
            return jscan.cumsum(leaves[0], **options)
        if name == "logaddexp":
            return jscan.cumlogsumexp(leaves[0], **options)
        fn: Any = {"product": operators.mul, "affine": operators.affine, "Welford": joined_moments}[
            name
        ]
        return jscan.associative_scan(fn, leaves if len(leaves) > 1 else leaves[0], **options)

    return run


LEAVES = {"sum": 1, "product": 1, "logaddexp": 1, "affine": 2, "Welford": 3}


def joined_moments(a: Any, b: Any) -> Any:
    """Counts, means and sums of squares of two samples, as those of both."""
    (n, mean, m2), (count, other, squares) = a, b
    total = n + count
    delta = other - mean
    return (
        total,
        mean + delta * count / total,
        m2 + squares + delta * delta * n * count / total,
    )


def operands(name: str, segmented: bool) -> list[Any]:
    """Floats whose sums round."""
    rng = np.random.default_rng(7)
    x: list[Any] = [rng.normal(size=N).astype(np.float32) for _ in range(LEAVES[name])]
    if name in ("product", "affine"):
        x[0] = 1 + x[0] / 8
    if name == "Welford":
        x[0] = np.ones(N, np.float32)
        x[2] = np.zeros(N, np.float32)
    return [*x, *([head_flags((N,), share=0.02)] if segmented else [])]


def bits_of_schedules(name: str, method: str, seeds: int, **how: Any) -> set[bytes]:
    """The results' bytes in so many schedules."""
    segmented = how.pop("segmented", False)
    arrays = operands(name, segmented)
    tile = tuning.Tuning(length=8, lanes=1, warps=1, window=4)
    kernel = Kernel(scan(name, method, **how), *arrays, tile=tile)
    found = set()
    for seed in range(seeds):
        schedule = Schedule(seed, in_order=True, slots=(None, 1, 3)[seed % 3])
        results = kernel.run(arrays, schedule, None)
        found.add(b"".join(np.asarray(x).tobytes() for x in results))
    return found


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("sum", {}),
        ("affine", {"segmented": True, "reverse": True}),
    ],
)
def test_floats_have_the_same_bits_in_every_schedule(name, how):
    assert len(bits_of_schedules(name, "repeatable", 5, **how)) == 1


def test_those_of_lookback_depend_on_the_schedule():
    """The test finds what it looks for."""
    assert len(bits_of_schedules("sum", "lookback", 5)) > 1


def bits_of_totals(
    fn: Any, leaves: int, method: str, seeds: int, lengths: tuple[int, ...]
) -> set[bytes]:
    """The bytes of totals of segments of these lengths, in so many schedules."""
    count, n = len(lengths), sum(lengths)
    ids = np.repeat(np.arange(count, dtype=np.int32), lengths)
    rng = np.random.default_rng(3)
    x = [(1 + rng.normal(size=n) / 8).astype(np.float32) for _ in range(leaves)]

    def totals(*arrays: Any) -> Any:
        *elems, ids = arrays
        how: Any = {"segments": jscan.Segments.from_ids(ids), "num_segments": count}
        return jscan.reduce(fn, (*elems,) if leaves > 1 else elems[0], method=method, **how)

    tile = tuning.Tuning(length=8, lanes=1, warps=1, window=4, strip=4)
    kernel, found = Kernel(totals, *x, ids, tile=tile), set()
    for seed in range(seeds):
        schedule = Schedule(seed, in_order=True, slots=(None, 1, 3)[seed % 3])
        results = kernel.run([*x, ids], schedule, None)
        found.add(b"".join(np.asarray(x).tobytes() for x in results))
    return found


LENGTHS = [(150,), (3, 94, 1, 52), (40, 0, 40, 40, 30)]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(("fn", "leaves"), [(operators.add, 1), (operators.affine, 2)])
def test_totals_of_segments_have_the_same_bits_in_every_schedule(fn, leaves, lengths):
    assert len(bits_of_totals(fn, leaves, "repeatable", 8, lengths)) == 1


def test_totals_by_lookback_depend_on_the_schedule():
    assert len(bits_of_totals(operators.add, 1, "lookback", 8, LENGTHS[0])) > 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("form", [{}, {"reverse": True}, {"exclusive": True}])
def test_floats_of_every_form_have_the_same_bits(name, segmented, form):
    if name == "Welford" and form.get("exclusive"):
        form = {**form, "identity": (0.0, 0.0, 0.0)}
    found = bits_of_schedules(name, "repeatable", 100, segmented=segmented, **form)
    assert len(found) == 1
