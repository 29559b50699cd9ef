"""Prefix networks as graphs: levels, nodes and fan-out, and what a scan makes of them."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jscan import networks
from tests.api.networks import CASES, Case, every_network

pytestmark = pytest.mark.sweep


def counted(case: Case, n: int) -> list[int]:
    """Returns how many elements each call of the operator gets in a scan of n."""
    calls = []

    def add(a: jax.Array, b: jax.Array) -> jax.Array:
        assert a.shape == b.shape
        calls.append(a.shape[0])
        return a + b

    jax.eval_shape(functools.partial(case.scan, add), jax.ShapeDtypeStruct((n,), jnp.int32))
    return calls


def longest_path(levels: list[list[tuple[int, int]]], n: int) -> int:
    """Returns how many nodes the longest way from an input to an output has."""
    lengths = [0] * n
    for level in levels:
        after = {t: 1 + max(lengths[s], lengths[t]) for s, t in level if s != t}
        for t, length in after.items():
            lengths[t] = length
    return max(lengths, default=0)


# --- depth and size -----------------------------------------------------------------------------


@every_network
def test_depth_and_size_count_calls_and_elements(case):
    for n in (*range(71), 250, 256, 257):
        calls = counted(case, n)
        assert calls == [len(level) for level in case.levels(n)], n
        assert networks.depth(case.function, n, **case.options) == len(calls), n
        assert networks.size(case.function, n, **case.options) == sum(calls), n


@every_network
def test_depth_size_and_fan_out_at_powers_of_two(case):
    for m in range(case.slack + 3, 11):
        n = 2**m
        assert networks.depth(case.function, n, **case.options) == case.depth(m)
        assert networks.size(case.function, n, **case.options) == case.size(n, m)
        readers = [Counter(w for node in level for w in set(node)) for level in case.levels(n)]
        assert max(max(of_level.values()) for of_level in readers) == case.fan_out(n)


@every_network
def test_depth_is_the_longest_path_or_one_more(case):
    for n in (*range(300), 1000, 1024, 1025):
        levels = case.levels(n)
        path = longest_path(levels, n)
        assert (n - 1).bit_length() <= len(levels) or n == 0
        if n & (n - 1) == 0 or case.name not in ("brent_kung", "ladner_fischer"):
            assert len(levels) == path, n
        else:
            assert path <= len(levels) <= path + 1, n
        assert len(levels) + sum(map(len, levels)) >= 2 * n - 2  # Snir's bound


@pytest.mark.parametrize("k", range(9))
def test_ladner_fischer_keeps_its_promises_for_any_length(k):
    function = networks.ladner_fischer
    for n in range(1, 300):
        depth, size = (f(function, n, slack=k) for f in (networks.depth, networks.size))
        assert depth == len(networks.levels(function, n, slack=k))
        assert depth <= (n - 1).bit_length() + k
        assert size < 2 * n + 2 * n / 2**k
        assert size <= networks.size(networks.sklansky, n)


def test_slack_leads_from_the_least_depth_to_the_tree_of_brent_and_kung():
    sizes = [networks.size(networks.ladner_fischer, 1024, slack=k) for k in range(9)]
    assert sizes == sorted(sizes, reverse=True)
    for m in range(2, 11):
        tree = [sorted(level) for level in networks.levels(networks.brent_kung, 2**m)]
        for k in (m - 2, m, 50):
            late = networks.levels(networks.ladner_fischer, 2**m, slack=k)
            assert [sorted(level) for level in late] == tree


def test_ladner_fischer_is_smaller_than_sklansky_from_15_on():
    for n in range(300):
        size = networks.size(networks.ladner_fischer, n)
        assert (size < networks.size(networks.sklansky, n)) == (n >= 15)


# --- wires --------------------------------------------------------------------------------------


@every_network
def test_levels_join_neighbouring_ranges_up_to_all_prefixes(case):
    for n in (*range(300), 1000, 1024, 1025):
        first = list(range(n))  # the wire of t holds the total of first[t] to t
        for level in case.levels(n):
            assert len({t for _, t in level}) == len(level)
            after = list(first)
            for s, t in level:
                assert 0 <= s <= t < n
                if s < t:
                    assert first[t] == s + 1, n
                    after[t] = first[s]
            first = after
        assert first == [0] * n


def picture(levels: list[list[tuple[int, int]]], n: int) -> str:
    """Returns the picture of a network, as the documentation of its function has it."""
    first = list(range(n))
    lines = [first]
    for level in levels:
        cells: list[Any] = ["|"] * n
        for s, t in level:
            cells[t] = "." if s == t else first[s]
        first = [f if c in ("|", ".") else c for f, c in zip(first, cells, strict=True)]
        lines.append(cells)
    return "\n".join("".join(f"{cell:>3}" for cell in line) for line in lines)


@pytest.mark.parametrize("name", sorted({case.name for case in CASES.values()}))
def test_documentation_has_the_picture_of_the_network(name):
    function = getattr(networks, name)
    documented = inspect.getdoc(function)
    assert documented is not None
    lines = [line for line in documented.splitlines() if line.startswith("    ")]
    drawn = inspect.cleandoc(picture(networks.levels(function, 16), 16)).splitlines()
    assert [line.strip() for line in lines[: len(drawn)]] == [line.strip() for line in drawn]
