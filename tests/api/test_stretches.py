"""Scans beside many lanes on a CPU, of which each stretch has a loop of its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jscan
from jscan.plain.serial import BY_LANES, Walk
from jscan.plain.steps import SHORTEST
from tests import reference
from tests.cases import head_flags
from tests.devices.layouts import mesh_of
from tests.functions import affine, last_write

LENGTHS = (9, SHORTEST, SHORTEST + 1, SHORTEST + 2, 2 * SHORTEST + 1, 335)
"""Axes of no stretch behind the first element, of one that is whole, of that and a single element,
of two, and of several and a rest."""


def walked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the walks from here on have loops of stretches."""
    taken: list[bool] = []
    run = Walk.run

    def seen(self: Walk, *given: Any) -> Any:
        taken.append(self.has_loops_of_stretches)
        return run(self, *given)

    monkeypatch.setattr(Walk, "run", seen)
    return taken


@pytest.mark.parametrize("segmented", [None, "own", "shared"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_lanes_are_what_a_loop_makes_of_them(n, reverse, exclusive, segmented, monkeypatch):
    """Of small whole numbers, so that floats are exact, and every order shows."""
    taken = walked(monkeypatch)
    shape = (2, n, BY_LANES) if n < 100 else (n, BY_LANES + 3)
    axis = len(shape) - 2
    x = np.random.default_rng(n).integers(-2, 3, shape).astype(np.float32)
    flags = None
    if segmented:
        flags = head_flags(shape if segmented == "own" else shape[: axis + 1], share=0.05)
    form: dict[str, Any] = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    zero = np.float32(0)
    for function in (np.add, last_write):
        plain = jnp.add if function is np.add else last_write
        found = jscan.associative_scan(plain, x, segments=flags, identity=zero, **form)
        wanted = reference.scan(function, x, flags=flags, identity=zero, **form)
        reference.assert_equal(np.asarray(found), np.asarray(wanted, np.float32))
    # Up to 64 elements have no prefix, and an exclusive scan hands on its result as it is.
    assert taken == [n > SHORTEST and not exclusive] * 2


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_starts_come_before_the_first_stretch(reverse, exclusive, segmented, monkeypatch):
    taken = walked(monkeypatch)
    x = np.random.default_rng(5).integers(-2, 3, (200, BY_LANES)).astype(np.float32)
    first = np.arange(BY_LANES, dtype=np.float32)
    flags = head_flags((200,), share=0.05) if segmented else None
    form: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive}
    found = jscan.cumsum(x, 0, segments=flags, init=first, **form)
    restarts = reference.restarts(flags, 200, 0, reverse, continues=True)
    total, wanted = first, np.empty_like(x)
    for i in range(200)[:: -1 if reverse else 1]:
        before = np.zeros_like(first) if restarts[i] else total
        total = before + x[i]
        wanted[i] = before if exclusive else total
    reference.assert_equal(np.asarray(found), wanted)
    assert taken == [not exclusive]


def test_leaves_of_which_all_are_carried(monkeypatch):
    """An affine operator, both of whose leaves are wanted, beside lanes."""
    taken = walked(monkeypatch)
    rng = np.random.default_rng(6)
    slopes = rng.choice([-1, 1], (300, BY_LANES)).astype(np.float32)
    terms = rng.integers(-2, 3, (300, BY_LANES)).astype(np.float32)
    found = jscan.associative_scan(affine, (slopes, terms))
    wanted = reference.scan(affine, (slopes, terms), axis=0)
    for actual, expected in zip(found, wanted, strict=True):
        reference.assert_equal(np.asarray(actual), np.asarray(expected, np.float32))
    assert taken == [True]


def test_lanes_are_rounded_as_stretches_are():
    """By no more than half an eps of the sizes for each of 3 √n additions; a loop has n."""
    n = 20000
    x = np.full((n, BY_LANES), 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64), 0)
    found = np.asarray(jscan.cumsum(x, 0), np.float64)
    assert np.max(np.abs(found - exact) / exact) <= 3 * np.sqrt(n) * np.finfo(np.float32).eps / 2


def test_integers_have_no_stretches(monkeypatch):
    taken = walked(monkeypatch)
    x = np.ones((300, BY_LANES), np.int32)
    reference.assert_equal(np.asarray(jscan.cumsum(x, 0)), np.cumsum(x, 0, dtype=np.int32))
    assert taken == [False]


@pytest.mark.parametrize("varies", ["lanes", "flags", "start"])
def test_lanes_of_several_devices(varies, monkeypatch):
    """Inside of `shard_map`, where what a loop carries has to vary as what it is made of does."""
    taken = walked(monkeypatch)
    rng = np.random.default_rng(8)
    lanes, flags = 4 * BY_LANES, rng.random((200, 4 * BY_LANES)) < 0.05
    x = rng.integers(-2, 3, (200, lanes)).astype(np.float32)
    first = np.arange(lanes, dtype=np.float32)
    if varies != "lanes":  # the same lanes on all devices
        x, first = np.tile(x[:, :BY_LANES], 4), np.tile(first[:BY_LANES], 4)
    divided, given = P(None, "a"), (x, flags, first)
    specs = {"lanes": (divided, divided, P("a")), "flags": (P(), divided, P())}
    into = specs.get(varies, (P(), P(), P("a")))

    def part(x: Any, flags: Any, first: Any) -> Any:
        return jscan.cumsum(x, 0, segments=flags, init=first)

    parts = (slice(None) if "a" in spec else slice(BY_LANES) for spec in into)
    operands = [array[..., p] for array, p in zip(given, parts, strict=True)]
    run = jax.shard_map(part, mesh=mesh_of(4), in_specs=into, out_specs=divided)
    found = jax.jit(run)(*operands)
    whole = [
        array if "a" in s else np.tile(array, 4) for array, s in zip(operands, into, strict=True)
    ]
    assert taken == [True]
    reference.assert_equal(np.asarray(found), np.asarray(part(*whole)))
