"""jscan.reduce: every descriptor, axis, operator and identity, whole and by segments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jscan
from jscan import Segments, operators
from tests import reference
from tests.api.test_properties import SEEDS, words
from tests.cases import head_flags, highest, lowest, values
from tests.functions import affine, last_flagged, multiply_matrices
from tests.reference import assert_tree_equal


def writes(shape):
    """Values of which some are written; 0 where none is, as in the identity."""
    written, (value,) = head_flags(shape, share=0.4, seed=5), words(3, shape, 1)
    return written, np.where(written, value, np.uint32(0))


# What jscan is given, the same in NumPy, the identity, and elements of a shape.
OPERATORS: dict[str, Any] = {
    "affine": (operators.affine, affine, (1, 0), lambda shape: words(1, shape, 2)),
    "last write": (last_flagged, last_flagged, (False, 0), writes),
    "matrices": (
        multiply_matrices,
        multiply_matrices,
        (1, 0, 0, 1),
        lambda shape: words(2, shape, 4),
    ),
    "add": (operators.add, lambda a, b: (a[0] + b[0],), (0,), lambda shape: words(4, shape, 1)),
}
every_operator = pytest.mark.parametrize("name", OPERATORS)


def recurring(n):
    """Runs of three different ids, so that every id comes again after others."""
    rng = np.random.default_rng(n)
    return np.repeat(rng.permutation(np.arange(n) % 3), rng.integers(1, 7, n))[:n] * 50 - 1


def lengths(n):
    """Lengths of which the first, one in the middle and the last two are 0."""
    return np.array([0, 1, 3, n // 2, 0, n - n // 2 - 4, 0, 0])


DESCRIPTORS: dict[str, Any] = {
    "flags": lambda n: head_flags((n,)),
    "no flags": lambda n: np.zeros(n, "int8"),
    "flags of words": lambda n: Segments.from_flags(head_flags((n,), "int64", share=0.5)),
    "ids": lambda n: Segments.from_ids(recurring(n)),
    "narrow ids": lambda n: Segments.from_ids(recurring(n).astype("uint8")),
    "lengths": lambda n: Segments.from_lengths(lengths(n)),
    "offsets": lambda n: Segments.from_offsets(np.cumsum([0, *lengths(n)])),
}
every_descriptor = pytest.mark.parametrize("description", DESCRIPTORS)


def numbers_of(description, n):
    """Each element's segment, and how many segments there are, said without jscan."""
    if description in ("lengths", "offsets"):
        return np.repeat(np.arange(8), lengths(n)), 8
    if "ids" in description:
        ids = recurring(n)
        numbers = reference.numbers_of(np.diff(ids, prepend=ids[:1]) != 0)
    elif description == "no flags":
        numbers = np.zeros(n, int)
    else:
        share = 0.5 if "words" in description else 0.1
        numbers = reference.numbers_of(head_flags((n,), share=share))
    return numbers, int(numbers.max()) + 1


def check(name, shape, segments, numbers, count, *, axis=0, **options):
    """Compares the reduction of elements of a shape with the sequential loop."""
    fn, combine, identity, make = OPERATORS[name]
    elems = make(shape)
    # operators.* know their identity.
    given = {} if fn in (operators.affine, operators.add) else {"identity": identity}
    actual = jscan.reduce(fn, elems, axis, segments=segments, **given, **options)
    if segments is None:
        numbers, count = np.zeros(shape[axis], int), 1
    expected = reference.reduce_by_segments(
        combine, elems, numbers, count, identity=identity, axis=axis
    )
    if segments is None:
        expected = jax.tree.map(lambda leaf: np.squeeze(leaf, axis), expected)
    for leaf, given_leaf in zip(actual, elems, strict=True):
        assert isinstance(leaf, jax.Array)
        assert leaf.dtype == given_leaf.dtype
    assert_tree_equal(actual, expected)


def check_description(name, description, n, *, more=None, **options):
    """Checks one operator and one descriptor; `more` segments than there are, or fewer."""
    numbers, count = numbers_of(description, n)
    if more is not None:
        count = max(count + more, 0)
        options["num_segments"] = count
    check(name, (n,), DESCRIPTORS[description](n), numbers, count, **options)


def test_affine_maps_by_flags(engine):
    n = min(engine.longest, 300)
    check_description("affine", "flags", n, more=2, method=engine.method)


def test_sums_by_ids_that_recur(engine):
    n = min(engine.longest, 300)
    check_description("add", "ids", n, more=-3, method=engine.method)


def test_sums_by_lengths_of_which_some_are_zero(engine):
    n = min(engine.longest, 300)
    check_description("add", "lengths", n, more=2, method=engine.method)


@pytest.mark.sweep
@every_operator
def test_every_operator_by_flags(name, engine):
    check_description(name, "flags", 20, method=engine.method)


@pytest.mark.sweep
@every_descriptor
def test_affine_maps_by_every_descriptor(description, engine):
    check_description("affine", description, 10, method=engine.method)


@pytest.mark.grid
@every_operator
@every_descriptor
@pytest.mark.parametrize("n", [30, 1000, 5000])
def test_every_operator_by_every_descriptor(name, description, n, engine):
    check_description(name, description, min(n, engine.longest), method=engine.method)


@pytest.mark.sweep
@pytest.mark.parametrize("more", [-1000, -2, 5])
@every_descriptor
def test_more_segments_than_there_are_or_fewer(description, more, engine):
    check_description("add", description, 30, more=more, method=engine.method)


@pytest.mark.grid
@every_operator
@pytest.mark.parametrize("share", [0.001, 0.2])
def test_sizes(name, share, engine, size):
    flags = head_flags((size,), share=share)
    numbers = reference.numbers_of(flags)
    count = len(set(numbers.tolist()))
    check(name, (size,), flags, numbers, count, method=engine.method)


@pytest.mark.grid
@every_operator
def test_sizes_of_whole_reductions(name, engine, size):
    if size:
        check(name, (size,), None, None, None, method=engine.method)


def test_flags_of_every_row(engine):
    flags = head_flags((2, 50, 3), share=0.2)
    numbers = reference.numbers_of(flags, axis=1)
    check("add", flags.shape, flags, numbers, 20, axis=1, num_segments=20, method=engine.method)


@pytest.mark.sweep
@pytest.mark.parametrize(("axis", "name"), [(0, "add"), (1, "affine"), (-1, "add")])
def test_every_axis_of_three(axis, name, engine):
    shape = (4, 9, 5)
    options = {"axis": axis, "method": engine.method}
    row = head_flags((shape[axis],), share=0.3)
    check(name, shape, row, reference.numbers_of(row), 5, num_segments=5, **options)
    counts = [0, 3, 0, shape[axis] - 3, 0]
    numbers = np.repeat(np.arange(5), counts)
    check(name, shape, Segments.from_lengths(counts), numbers, 5, **options)
    flags = head_flags(shape, "int32", share=0.3)
    numbers = reference.numbers_of(flags, axis=axis)
    # The row of most segments says how many there are, where num_segments does not.
    heads = np.moveaxis(flags, axis, -1)
    count = np.max(reference.numbers_of(heads, axis=-1)) + 1
    check(name, shape, flags, numbers, 3, num_segments=3, **options)
    check(
        name,
        heads.shape,
        Segments.from_flags(heads),
        reference.numbers_of(heads, axis=-1),
        count,
        axis=-1,
        method=engine.method,
    )
    check(name, shape, None, None, None, **options)


def test_whole_affine_maps(engine):
    n = min(engine.longest, 300)
    check("affine", (2, n), None, None, None, axis=1, method=engine.method)


@pytest.mark.sweep
@every_operator
@pytest.mark.parametrize("n", [1, 2, 65])
def test_whole_reductions(name, n, engine):
    check(name, (n,), None, None, None, method=engine.method)


NAMED = {
    "add": (np.add, lambda _: 0),
    "mul": (np.multiply, lambda _: 1),
    "max": (np.maximum, lowest),
    "min": (np.minimum, highest),
    "bitwise_and": (
        np.bitwise_and,
        lambda dtype: -1 if np.dtype(dtype).kind == "i" else highest(dtype),
    ),
    "bitwise_or": (np.bitwise_or, lambda _: 0),
    "bitwise_xor": (np.bitwise_xor, lambda _: 0),
}


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (n, d)
        for n in NAMED
        for d in ("uint8", "int64", "bfloat16", "bool")
        if getattr(operators, n).takes(d)
    ],
)
def test_named_operators_of_every_dtype(name, dtype, engine):
    operator = getattr(operators, name)
    combine, identity = NAMED[name]
    x = values("cumsum", (12,), dtype)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        # Sums and products of ones, with signs, are not rounded.
        x = np.sign(x)
    counts = np.array([0, 3, 0, 6, 1, 2, 0])
    options = {"identity": identity(x.dtype)}
    numbers = np.repeat(np.arange(7), counts)
    by_segments = reference.reduce_by_segments(combine, x, numbers, 7, **options)
    [whole] = reference.reduce_by_segments(combine, x, np.zeros(12, int), 1, **options)
    segments = Segments.from_lengths(counts)
    actual = jscan.reduce(operator, x, segments=segments, method=engine.method)
    assert actual.dtype == x.dtype
    reference.assert_equal(actual, by_segments)
    reference.assert_equal(jscan.reduce(operator, x), whole)


def test_maximum_of_complex_numbers_is_that_of_its_scan():
    x = np.array([1j, 2, 1, 2 - 1j])
    assert jscan.associative_scan(jnp.maximum, x)[-1] == np.maximum.reduce(x)
    assert jscan.reduce(jnp.maximum, x) == np.maximum.reduce(x)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_log_of_a_sum_of_exponentials(dtype, engine):
    x = values("cumlogsumexp", (60,), dtype)
    x[15:25] = -np.inf
    numbers = np.repeat([0, 1, 3], [15, 10, 35])
    expected = reference.reduce_by_segments(np.logaddexp, x, numbers, 5, identity=-np.inf)
    # One combination rounds a number no larger than this a few times.
    size = np.max(np.abs(x[np.isfinite(x)].astype(float))) + np.log(60) + 1
    actual = jscan.reduce(
        operators.logaddexp,
        x,
        segments=Segments.from_lengths([15, 10, 0, 35, 0]),
        method=engine.method,
    )
    error = reference.bound(size, np.nan_to_num(expected, neginf=0), x.dtype, n=60, steps=8)
    reference.assert_within(actual, expected, error)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_combined_in_float32(dtype, engine):
    # Odd integers of eight bits: float32 adds any few exactly, bfloat16 hardly two.
    integers = np.random.default_rng(0).choice(np.arange(129, 256, 2), 128) / 64
    x = integers.astype(jnp.dtype(dtype))
    segments = Segments.from_lengths([100, 28])
    expected = np.array([np.sum(integers[:100]), np.sum(integers[100:])])

    def doubled(a, b):
        # A sum that is no machine operation of its own.
        return (a * 2 + b * 2) / 2

    for fn in (operators.add, doubled):
        options = {"identity": 0.0, "method": engine.method}
        by_segments = jscan.reduce(fn, x, segments=segments, **options)
        assert by_segments.dtype == x.dtype
        reference.assert_equal(by_segments, expected)
        reference.assert_equal(jscan.reduce(fn, x, **options), np.sum(integers))
    reference.assert_equal(jscan.reduce(operators.add, x), np.sum(integers))


@pytest.mark.sweep
def test_a_pytree_of_several_dtypes(engine):
    elems = {
        "a": values("cummax", (60,), "int8"),
        "b": (values("cummax", (60,), "float32"), [values("cummax", (60,), "bool")]),
    }
    flags = head_flags((60,))
    numbers = reference.numbers_of(flags)
    identity = {"a": -128, "b": (-np.inf, [False])}
    actual = jscan.reduce(
        operators.max, elems, segments=flags, num_segments=20, method=engine.method
    )
    expected = reference.reduce_by_segments(
        lambda a, b: jax.tree.map(np.maximum, a, b), elems, numbers, 20, identity=identity
    )
    assert jax.tree.map(lambda leaf: leaf.dtype, actual) == jax.tree.map(lambda x: x.dtype, elems)
    assert_tree_equal(actual, expected)
    whole = jscan.reduce(operators.max, elems, method=engine.method)
    assert_tree_equal(whole, jax.tree.map(lambda leaf: leaf.max(), elems))


# laws


@st.composite
def problems(draw: Any, names: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[str, Any, Any]:
    """An operator, elements in a random order, and head flags of a random density."""
    name, n = draw(st.sampled_from(names)), draw(st.sampled_from(sizes))
    rng = np.random.default_rng(draw(SEEDS))
    flags = rng.random(n) < rng.choice([0.0, 2 / n, 0.3, 1.0])
    order = rng.permutation(n)
    return name, jax.tree.map(lambda leaf: leaf[order], OPERATORS[name][-1]((n,))), flags


def check_laws(problem, method):
    """A reduction by flags is that of each segment by itself, however the segments are told."""
    name, elems, flags = problem
    fn, combine, identity, _ = OPERATORS[name]
    n = flags.size
    numbers = reference.numbers_of(flags)
    counts = np.bincount(numbers)
    expected = reference.reduce_by_segments(combine, elems, numbers, n, identity=identity)
    empty_first = np.concatenate([[0], counts, np.zeros(n - len(counts), int)])
    for segments, skipped in (
        (flags, 0),
        (Segments.from_ids(numbers % 2), 0),
        (Segments.from_lengths(empty_first), 1),
    ):
        actual = jscan.reduce(
            fn,
            elems,
            identity=identity,
            segments=segments,
            num_segments=n + skipped,
            method=method,
        )
        assert_tree_equal(jax.tree.map(lambda leaf, by=skipped: leaf[by:], actual), expected)
    # The totals of segments, reduced in their order, are the total.
    of_totals = jscan.reduce(fn, actual, identity=identity)
    assert_tree_equal(jscan.reduce(fn, elems, identity=identity, method=method), of_totals)


@given(problems(("affine", "last write"), (1, 12)))
def test_reductions_are_those_of_each_segment(problem):
    check_laws(problem, "auto")


@pytest.mark.gpu
@given(problems(("affine", "last write", "matrices"), (7, 33, 1000)))
def test_reductions_are_those_of_each_segment_in_a_block(problem):
    check_laws(problem, "block")


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["lookback", "auto"])
@given(problem=problems(("affine", "last write", "matrices"), (33, 4097, 9000)))
def test_reductions_are_those_of_each_segment_in_many_tiles(method, problem):
    check_laws(problem, method)
