"""The protocol of tiles that talk, in every order: the right one ends rightly, mistakes are found.

pytest -s tests/protocol/test_protocol.py    prints the sizes of what has been explored
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from jscan.kernels.steps import Step
from tests.protocol import mistakes
from tests.protocol.exploration import Exploration, Launch, explore
from tests.protocol.mistakes import MISTAKES
from tests.protocol.model import Protocol, Row, chained, lookback
from tests.protocol.turns import wander
from tests.protocol.word_by_word import same

TILES = 5
PIECES = {"": 1, ", 64 bits": 2}
PROTOCOLS = {
    **{f"serial lookback{size}": lookback(1, pieces) for size, pieces in PIECES.items()},
    **{f"lookback by 2{size}": lookback(2, pieces) for size, pieces in PIECES.items()},
    **{f"lookback by 3{size}": lookback(3, pieces) for size, pieces in PIECES.items()},
    **{f"chained{size}": chained(pieces) for size, pieces in PIECES.items()},
}
DISPATCHES: dict[str, tuple[bool, int | None]] = {
    "in order, 1 at a time": (True, 1),
    "in order, 2 at a time": (True, 2),
    "in order, 3 at a time": (True, 3),
    "in any order, all at once": (False, None),
}
by_protocol = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS.keys())
by_dispatch = pytest.mark.parametrize("dispatch", DISPATCHES.values(), ids=DISPATCHES.keys())


def rows(tiles: int) -> Iterator[Row]:
    """A row with every pattern of restarts, the first without any."""
    for count in range(tiles):
        for restarts in itertools.combinations(range(1, tiles), count):
            yield Row(tiles, frozenset(restarts))


def told(name: str, results: list[Exploration], launches: str) -> None:
    """Prints how much has been explored."""
    states, transitions, ways = (
        sum(getattr(r, field) for r in results)
        for field in ("states", "transitions", "interleavings")
    )
    print(f"\n{name}: {launches}: {states:,} states, {transitions:,} transitions, ", end="")
    print(f"{ways:.3g} interleavings", end="")


@by_dispatch
@by_protocol
def test_every_interleaving_ends_and_is_right(request, protocol, dispatch):
    results = []
    for tiles in range(1, TILES + 1):
        results.append(explore(Launch(protocol, Row(tiles), *dispatch)))
        assert results[-1].verdict == "right", results[-1]
    told(request.node.callspec.id, results[-1:], f"{TILES} tiles")


@by_dispatch
@by_protocol
def test_every_pattern_of_restarts(request, protocol, dispatch):
    results = []
    for row in rows(TILES):
        results.append(explore(Launch(protocol, row, *dispatch)))
        assert results[-1].verdict == "right", (row, results[-1])
    told(request.node.callspec.id, results, f"{len(results)} patterns of restarts")


@pytest.mark.parametrize("slots", [1, 2, 3, None])
@pytest.mark.parametrize("protocol", [chained(), chained(2), Protocol(window=2, tickets=True)])
def test_tickets_end_in_any_order_however_few_run(protocol, slots):
    # Any program may take any ticket, so that in order and in any order come to the same.
    for in_order in (True, False):
        launch = Launch(protocol, Row(TILES), in_order=in_order, slots=slots)
        assert explore(launch).verdict == "right"


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_without_tickets_few_programs_in_any_order_wait_for_ever(window, slots):
    """The limit that the kernel documents: it needs the hardware to dispatch in order."""
    launch = Launch(lookback(window), Row(TILES), in_order=False, slots=slots)
    assert explore(launch).verdict == "stuck"
    assert explore(Launch(lookback(window), Row(slots), in_order=False, slots=slots)).verdict == (
        "right"
    )


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("window", [1, 2])
def test_writes_may_land_in_any_order(window, pieces):
    for row in rows(3):
        launch = Launch(lookback(window, pieces), row, in_order=False, reordered=True)
        assert explore(launch).verdict == "right"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistakes_are_found_where_the_right_protocol_passes(mistake):
    found = explore(mistake.launch)
    print(f"\n{mistake.name}: {found.fault}, after {len(found.steps)} steps", end="")
    assert found.verdict == mistake.verdict
    assert explore(mistake.right).verdict == "right"


def test_no_mistake_is_left_out():
    wrong = {p for p in Protocol.__subclasses__() if p.__module__ == mistakes.__name__}
    assert {mistake.protocol for mistake in MISTAKES} == wrong


@pytest.mark.parametrize(
    "launch",
    [
        *(Launch(lookback(w, p), Row(3), in_order=False) for w in (1, 2) for p in (1, 2)),
        *(Launch(lookback(w), Row(4), in_order=False) for w in (1, 2, 3)),
        Launch(lookback(2), Row(4, frozenset([2])), in_order=False),
        Launch(lookback(1, 2), Row(3, frozenset([1])), in_order=False, reordered=True),
        Launch(chained(2), Row(4)),
        *(mistake.launch for mistake in MISTAKES if "piece" in mistake.name),
    ],
)
def test_looks_may_be_taken_for_one_operation(launch):
    assert same(launch)


def test_the_number_of_interleavings():
    """Of two tiles, both with a restart: start, publish, look, and one looks behind a publication.

    There are 20 orders of three steps and three, in 4 of which the second tile looks too early. In
    order there are 10, one of them too early.
    """
    row = Row(2, frozenset([1]))
    assert explore(Launch(lookback(1), row, in_order=False)).interleavings == 16
    assert explore(Launch(lookback(1), row)).interleavings == 9
    assert explore(Launch(lookback(1), row, slots=1)).interleavings == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_schedules_of_many_tiles(seed):
    wandering(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(20, 1000))
def test_more_random_schedules_of_many_tiles(seed):
    wandering(seed)


def wandering(seed: int) -> None:
    """Runs every protocol on a random row by a random schedule."""
    rng = random.Random(seed)
    tiles, share = rng.randint(6, 40), rng.choice([0, 0.1, 0.3])
    row = Row(tiles, frozenset(t for t in range(1, tiles) if rng.random() < share))
    slots = (None, 1, 2, 5)[seed % 4]
    for window, pieces in itertools.product((1, 3, 8, 32), (1, 2)):
        in_order = slots is not None or seed % 8 == 0
        launches = (
            Launch(lookback(window, pieces), row, in_order=in_order, slots=slots),
            Launch(chained(pieces), row, in_order=False, slots=slots),
        )
        for launch in launches:
            *_, last = wander(launch, seed)
            assert last.after.step is Step.STORE


@pytest.mark.thorough
@by_dispatch
@by_protocol
def test_six_tiles_with_every_pattern_of_restarts(request, protocol, dispatch):
    results = [explore(Launch(protocol, row, *dispatch)) for row in rows(6)]
    assert {result.verdict for result in results} == {"right"}
    told(request.node.callspec.id, results, f"{len(results)} patterns of restarts")
