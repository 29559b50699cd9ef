"""Segments that are known: they stay so in every trace, compile nothing, and leak nothing."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import Segments, operators
from jscan.arguments import descriptors

DESCRIPTIONS = {
    "flags": [1, 0, 1, 0, 0],
    "ids": [4, 4, 7, 7, 7],
    "lengths": [2, 3],
    "offsets": [0, 2, 5],
}
every_kind = pytest.mark.parametrize("kind", DESCRIPTIONS)
MAKES = {"list": list, "NumPy": np.asarray, "JAX": jnp.asarray}
TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "grad": lambda f: jax.grad(lambda x: jnp.sum(f(x))),
    "vmap": lambda f: lambda x: jax.vmap(f)(x[None])[0],
    "jit of vmap": lambda f: jax.jit(lambda x: jax.vmap(f)(x[None])[0]),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(lambda row: jnp.sum(f(row))))(x[None])[0],
    "remat": jax.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
}
X = np.arange(1.0, 6)
SUMS = [1, 3, 3, 7, 12]


def build(kind, description=None):
    """Segments of lengths 2 and 3."""
    given = DESCRIPTIONS[kind] if description is None else description
    return getattr(Segments, f"from_{kind}")(given)


def running(x, segments):
    """Three scans of which the sum is one: all of them use the head flags."""
    y = jscan.cumsum(x, segments=segments)
    return y + 0 * jscan.cummax(x, segments=segments) + 0 * jscan.cumprod(x, segments=segments)


def compiled(caplog):
    """How many programs were compiled since the log was cleared."""
    return sum("Compiling" in record.getMessage() for record in caplog.records)


def searches(fn, *arguments):
    """How often a program scatters heads, when it is compiled; old XLA writes a loop instead."""
    program: Any = jax.jit(fn).lower(*arguments).compile()
    text: str = program.as_text()
    return text.count(" scatter(")


# known in every trace


@pytest.mark.product
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
@every_kind
def test_segments_made_in_one_trace_serve_in_another(kind, make):
    kept, description = [], make(DESCRIPTIONS[kind])

    @jax.jit
    def first(x):
        kept.append(build(kind, description))
        return running(x, kept[0])

    np.testing.assert_array_equal(first(X), SUMS)
    np.testing.assert_array_equal(running(X, kept[0]), SUMS)
    np.testing.assert_array_equal(jax.jit(lambda x: running(x, kept[0]))(X), SUMS)
    assert kept[0].num_segments == 2
    assert kept[0] == build(kind)


@pytest.mark.product
@pytest.mark.parametrize("disable_jit", [False, True], ids=["", "disable_jit"])
@every_kind
def test_one_object_passes_through_all_transformations(kind, disable_jit):
    segments = build(kind)
    with jax.disable_jit(disable_jit):
        for _ in range(2):
            for name, transformation in TRANSFORMATIONS.items():
                y = transformation(lambda x: running(x, segments))(X)
                expected = [2, 1, 3, 2, 1] if "grad" in name else SUMS
                np.testing.assert_array_equal(y, expected)


@every_kind
def test_no_trace_is_kept(kind):
    segments = build(kind)
    with jax.checking_leaks():
        for transformation in TRANSFORMATIONS.values():
            transformation(lambda x: running(x, segments))(X)
    np.testing.assert_array_equal(segments.ids, [0, 0, 1, 1, 1])


@every_kind
def test_views_are_of_the_trace_that_asks(kind):
    segments = build(kind)

    def views():
        return segments.flags, segments.ids, segments.lengths(2), segments.offsets(2)

    for _ in range(2):
        for flags, ids, lengths, offsets in (jax.jit(views)(), views()):
            np.testing.assert_array_equal(flags, [1, 0, 1, 0, 0])
            np.testing.assert_array_equal(ids, [0, 0, 1, 1, 1])
            np.testing.assert_array_equal(lengths, [2, 3])
            np.testing.assert_array_equal(offsets, [0, 2, 5])


# what is searched for, and when


def test_known_segments_compile_nothing(caplog):
    lengths = np.arange(2, 131)  # a length that no other test has compiled anything for
    with jax.log_compiles():
        for make in (list, np.asarray):
            segments = Segments.from_lengths(make(lengths))
            assert segments == Segments.from_offsets(make(np.append(0, np.cumsum(lengths))))
            assert segments.num_segments == len(lengths)
            assert "num_segments=129" in repr(segments)
            for view in (segments.flags, segments.ids, segments.lengths(), segments.offsets()):
                view.block_until_ready()
        assert compiled(caplog) == 0


def test_a_program_searches_once():
    segments = build("lengths")
    assert searches(lambda x: running(x, segments), X) <= 1
    assert searches(lambda x, v: running(x, Segments.from_lengths(v, 5)), X, np.array([2, 3])) <= 1


def test_a_compiler_does_not_count_places():
    segments = build("lengths")
    for numbers in (
        lambda: segments.ids,
        lambda: jscan.reduce(operators.add, X, segments=segments),
    ):
        assert "optimization_barrier" in jax.jit(numbers).lower().as_text()
    assert "optimization_barrier" not in jax.jit(lambda s: s.ids).lower(segments).as_text()


def test_a_program_that_is_handed_segments_does_not_search(caplog):
    segments = build("lengths")
    assert searches(running, X, segments) == 0
    program: Any = jax.jit(running)
    program(X, segments)
    with jax.log_compiles():
        for again in (segments, build("offsets"), Segments.from_lengths([4, 1])):
            program(X, again)
        assert not [r for r in caplog.records if "Compiling running" in r.getMessage()]
    assert program._cache_size() == 1


def test_scans_outside_of_jit_search_once(monkeypatch):
    calls = []
    find = descriptors.heads_of_bounds

    def counted(bounds):
        calls.append(bounds)
        return find(bounds)

    monkeypatch.setattr(descriptors, "heads_of_bounds", counted)
    segments = build("lengths")
    assert calls == []
    for _ in range(3):
        np.testing.assert_array_equal(running(X, segments), SUMS)
    assert len(calls) == 1


# a pytree


def test_the_structure_does_not_depend_on_what_was_found():
    fresh, used = build("lengths"), build("offsets")
    running(X, used)
    structures = {jax.tree.structure(s) for s in (fresh, used, jax.jit(lambda s: s)(used))}
    assert len(structures) == 1


@every_kind
def test_segments_are_carried_by_a_scan(kind):
    def step(segments, x):
        return build(kind), jscan.cumsum(x, segments=segments)

    last, sums = jax.jit(lambda x: lax.scan(step, build(kind), x))(np.stack([X, X]))
    np.testing.assert_array_equal(sums, [SUMS, SUMS])
    assert last == build(kind)


@every_kind
def test_a_branch_may_choose_segments(kind):
    def choose(first):
        return lax.cond(first, lambda: build(kind), lambda: jax.tree.map(jnp.asarray, build(kind)))

    assert jax.jit(choose)(True) == build(kind)


def test_segments_given_away_are_searched_for_again():
    segments = build("lengths")
    give = jax.jit(lambda s: jax.tree.map(jnp.logical_not, s.flags), donate_argnums=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        give(segments)
    np.testing.assert_array_equal(running(X, segments), SUMS)


def test_segments_are_read_by_every_device():
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((2,), ("rows",), auto, devices=jax.devices("cpu")[:2])
    segments, rows = build("lengths"), jax.sharding.PartitionSpec("rows")

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=rows, out_specs=rows)
    def sums(x):
        return jscan.cumsum(x, axis=1, segments=segments)

    np.testing.assert_array_equal(sums(np.stack([X, X])), [SUMS, SUMS])


def test_from_one_vmap_into_another():
    lengths = np.array([[2, 3], [5, 0], [0, 5]])
    x = np.stack([X, X, X])
    expected = [SUMS, np.cumsum(X), np.cumsum(X)]

    def sums(row, v):
        return jscan.cumsum(row, segments=Segments.from_lengths(v, total=5))

    np.testing.assert_array_equal(jax.vmap(sums)(x, lengths), expected)
    batch = jax.vmap(lambda v: Segments.from_lengths(v, total=5))(lengths)
    handed_on = jax.vmap(lambda row, segments: running(row, segments))(x, batch)
    np.testing.assert_array_equal(handed_on, expected)


@every_kind
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies(kind, again):
    segments = build(kind)
    running(X, segments)
    assert again(segments) == segments
    rebuilt = again(jax.jit(lambda s: s)(segments))
    np.testing.assert_array_equal(running(X, rebuilt), SUMS)


@pytest.mark.parametrize("kind", ["flags", "ids", "offsets"])
def test_what_was_handed_in_may_change_later(kind):
    given = np.array(DESCRIPTIONS[kind], np.int32)
    segments = getattr(Segments, f"from_{kind}")(given)
    given[:] = 0
    assert segments == build(kind)


# lists that hold traced numbers


@every_kind
def test_lists_of_traced_numbers(kind):
    def sums(x, numbers):
        total = () if kind in ("flags", "ids") else (5,)
        made = getattr(Segments, f"from_{kind}")([*numbers], *total)
        return jscan.cumsum(x, segments=made)

    numbers = [np.int32(number) for number in DESCRIPTIONS[kind]]
    np.testing.assert_array_equal(jax.jit(sums)(X, numbers), SUMS)


def test_a_list_of_traced_numbers_that_fit_no_dtype_is_named():
    with pytest.raises(ValueError, match=r"jscan\.Segments\.from_ids: ids has an integer that"):
        jax.jit(lambda k: Segments.from_ids([k, 2**70]).ids)(3)


def test_known_segments_are_moved_to_the_device_once():
    segments = build("lengths")
    sums = jax.jit(lambda x, segments: jscan.reduce(jnp.add, x, identity=0, segments=segments))
    x = jnp.asarray(X)
    first = sums(x, segments)
    with jax.transfer_guard("disallow"):
        again = sums(x, segments)
    np.testing.assert_array_equal(again, first)
