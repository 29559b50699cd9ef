"""The choice of the cases that run by default, of tests that have many.

Many are the cases of a sweep (`@pytest.mark.sweep`), those of a costly product of parameters that
all engines run (`@pytest.mark.product`), those of a product of sweeps on a GPU
(`@pytest.mark.grid`), and those on interpreted kernels, which take seconds each. Of these the quick
ones run by default; the others are marked `thorough`, as are the cases that a test itself leaves to
the thorough, which play no part here. Among the cases of one test function (those for a GPU apart
from the others, since most machines skip them, and of a product those on interpreted kernels):

1. The place of a case is the sum of the positions of its values, one for each `parametrize`,
   counted from 0. Every 24th place is quick, of those for a GPU every fourth: 0, 24, 48, … on the
   oldest jax and 1, 25, 49, … on newer ones, so that two versions run a twelfth. In a table of
   two parameters the quick cases lie on diagonals: each value of the one meets a 24th of the
   values of the other.
2. Values of parameters that no such case has are shown by further cases, of which those that show
   most come first; sizes excepted, of which there are many.
3. If none is quick by then, the first is.
4. The first quick case is marked `first`: the cases marked so meet every such test once.

Names and files play no part, so that renaming or moving a test changes no choice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import pytest

from tests.engines import Engine

# The parameters of which not every value is in a quick case, since they have many.
SAMPLED = ("size", "large_size")


@dataclass(frozen=True)
class Case:
    """What tells a case from the others of its function."""

    values: tuple[Hashable, ...]  # one for each parametrize
    shown: frozenset[Hashable] = frozenset()  # its values of the parameters that are shown


EVERY, EVERY_ON_GPU = 24, 4
"""One of so many places is quick."""


def quick(cases: Sequence[Case], turn: int = 0, every: int = EVERY) -> list[bool]:
    """Whether each case of one function is quick; `turn` is the first place that is."""
    positions = [
        {value: position for position, value in enumerate(dict.fromkeys(column))}
        for column in zip(*(case.values for case in cases), strict=True)
    ]
    places = [
        sum(of[value] for of, value in zip(positions, case.values, strict=True)) for case in cases
    ]
    chosen = [place % every == turn for place in places]
    shown = {value for case, own in zip(cases, chosen, strict=True) if own for value in case.shown}
    missing = frozenset().union(*(case.shown for case in cases)) - shown
    while missing:
        number = max(range(len(cases)), key=lambda number: len(cases[number].shown & missing))
        chosen[number] = True
        missing -= cases[number].shown
    return chosen if any(chosen) else [True, *chosen[1:]]


def is_interpreted(item: pytest.Item) -> bool:
    """Whether a case runs interpreted kernels."""
    call = getattr(item, "callspec", None)
    engines = () if call is None else call.params.values()
    return any(isinstance(engine, Engine) and engine.interpreted for engine in engines)


def is_one_of_many(item: pytest.Item) -> bool:
    """Whether a test is a case of a sweep, of a product, or one on an interpreted kernel.

    On a GPU all cases of a product are quick, and those of a grid are many.
    """
    if getattr(item, "callspec", None) is None:
        return False
    marks = {marker.name for marker in item.iter_markers()}
    product = "grid" if "gpu" in marks else "product"
    return is_interpreted(item) or "sweep" in marks or product in marks


def _shown(value: object) -> Hashable:
    """What a value is told by: itself, or where it is, since some cannot be hashed."""
    return value if isinstance(value, (Engine, bool, int, str)) else id(value)


def case_of(item: pytest.Item) -> Case:
    """The case that an item is."""
    params = item.callspec.params  # type: ignore[attr-defined]  # what parametrize leaves
    together = []
    if "engine" in params:
        together.append([name for name in ("engine", "size", "large_size") if name in params])
    for marker in item.iter_markers("parametrize"):
        names = marker.args[0]
        together.append(names.replace(" ", "").split(",") if isinstance(names, str) else names)
    # A case has the very objects that its parametrize lists, of which some cannot be hashed.
    values = tuple(tuple(id(params[name]) for name in names) for names in together)
    return Case(
        values, frozenset((n, _shown(value)) for n, value in params.items() if n not in SAMPLED)
    )


def leave_to_the_thorough(items: Sequence[pytest.Item], turn: int) -> None:
    """Marks as thorough the cases of many that are not quick, and the first that is."""
    functions: dict[tuple[str, bool, bool], list[pytest.Item]] = {}
    for item in items:
        if is_one_of_many(item) and item.get_closest_marker("thorough") is None:
            function = item.nodeid.partition("[")[0]
            for_gpu = item.get_closest_marker("gpu") is not None
            apart = item.get_closest_marker("product") is not None and is_interpreted(item)
            functions.setdefault((function, for_gpu, apart), []).append(item)
    for (_, for_gpu, _), many in functions.items():
        every = EVERY_ON_GPU if for_gpu else EVERY
        chosen = quick([case_of(item) for item in many], turn, every)
        many[chosen.index(True)].add_marker(pytest.mark.first)
        for item, own in zip(many, chosen, strict=True):
            if not own:
                item.add_marker(pytest.mark.thorough)
