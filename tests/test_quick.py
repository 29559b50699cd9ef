"""The choice of the cases that run by default: which are, what each must show, and names."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import ENGINES
from tests.quick import Case, case_of, leave_to_the_thorough, quick


def table(*sizes, shown=()):
    """Every case of parameters of so many values; those at the places in `shown` must be shown."""
    return [
        Case(values, frozenset((i, values[i]) for i in shown))
        for values in itertools.product(*(range(size) for size in sizes))
    ]


def chosen(cases, turn=0):
    """The values of the quick ones."""
    flags = quick(cases, turn, every=4)
    return [case.values for case, own in zip(cases, flags, strict=True) if own]


def test_every_fourth_place_of_a_table_is_quick():
    assert chosen(table(9)) == [(0,), (4,), (8,)]
    assert chosen(table(4, 3)) == [(0, 0), (2, 2), (3, 1)]
    assert chosen(table(4, 3), turn=1) == [(0, 1), (1, 0), (3, 2)]


def test_what_is_parametrised_together_counts_once():
    assert chosen([Case(((i, i),)) for i in range(9)]) == [((0, 0),), ((4, 4),), ((8, 8),)]


def test_what_no_fourth_place_shows_is_quick_where_it_comes_first():
    assert chosen(table(2, 2, shown=[0])) == [(0, 0), (1, 0)]
    assert chosen(table(5, shown=[0])) == [(0,), (1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("turn", [0, 1])
def test_a_lonely_case_is_quick(turn):
    assert quick([Case(())], turn) == [True]
    assert quick(table(1, 1), turn) == [True]


def test_two_turns_run_half():
    cases = table(8, 5, 3)
    first, second = (set(chosen(cases, turn)) for turn in (0, 1))
    assert not first & second
    assert len(first) == len(second) == len(cases) / 4


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.booleans(), st.sampled_from([0, 1]))
def test_a_quarter_at_least_every_value_and_names_that_do_not_matter(sizes, all_shown, turn):
    shown = range(len(sizes)) if all_shown else [0]
    cases = table(*sizes, shown=shown)
    renamed = [Case(tuple(f"value {value}" for value in case.values), case.shown) for case in cases]
    assert quick(renamed, turn, 4) == quick(cases, turn, 4)
    found = chosen(cases, turn)
    assert found
    for i in shown:
        assert {values[i] for values in found} == set(range(sizes[i]))
    if max(sizes) >= 4:
        assert len(found) >= len(cases) // 4 - len(cases) // max(sizes)


@pytest.mark.parametrize(("reverse", "n"), [(False, 1), (True, 2)])
@pytest.mark.parametrize("unhashable", [[], [1]], ids=str)
def test_a_case_is_told_by_its_parameters(request, reverse, n, unhashable):
    case = case_of(request.node)
    assert case.values == ((id(unhashable),), (id(reverse), id(n)))
    assert case.shown == {("reverse", reverse), ("n", n), ("unhashable", id(unhashable))}


class Item(pytest.Item):
    """An item of no test."""

    callspec: SimpleNamespace

    def runtest(self):
        raise NotImplementedError


def item_of(session, function, params, marks):
    """An item of a function, with parameters and marks."""
    item = Item.from_parent(session, name=f"{function}[{params}]")
    item.callspec = SimpleNamespace(params=params)
    own = [] if "engine" in params else [*params]
    for mark in [*marks, pytest.mark.parametrize(own, [])]:
        item.add_marker(mark)
    return item


def test_functions_choose_by_themselves_and_only_among_cases_of_many(request):
    gpu, sweep, thorough = pytest.mark.gpu, pytest.mark.sweep, pytest.mark.thorough
    product = pytest.mark.product
    interpreted, compiled = (
        next(engine for engine in ENGINES if engine.interpreted is value) for value in (True, False)
    )
    functions: dict[str, list[Any]] = {
        "a sweep": [({"size": n}, sweep) for n in range(25)],
        "another": [({"size": n}, sweep) for n in (1, 2)],
        "with more on a GPU": [
            ({"size": 1}, sweep),
            ({"size": 2}, sweep, gpu),
            ({"size": 3}, sweep, gpu),
        ],
        "partly thorough": [({"size": 1}, sweep, thorough), ({"size": 2}, sweep)],
        "a product": [({"size": n}, product) for n in range(25)],
        "a product on a GPU": [({"size": n}, product, gpu) for n in range(3)],
        "no sweep": [({"size": n},) for n in range(4)],
        "interpreted": [({"engine": interpreted, "size": n},) for n in range(25)],
        "compiled": [({"engine": compiled, "size": n},) for n in range(2)],
    }
    items = {
        function: [item_of(request.session, function, params, marks) for params, *marks in cases]
        for function, cases in functions.items()
    }
    leave_to_the_thorough([item for of_one in items.values() for item in of_one], turn=0)
    assert {
        function: [item.get_closest_marker("thorough") is None for item in of_one]
        for function, of_one in items.items()
    } == {
        "a sweep": [True, *[False] * 23, True],
        "another": [True, False],
        "with more on a GPU": [True, True, False],
        "partly thorough": [False, True],
        "a product": [True, *[False] * 23, True],
        "a product on a GPU": [True] * 3,
        "no sweep": [True] * 4,
        "interpreted": [True, *[False] * 23, True],
        "compiled": [True, True],
    }
