"""The vector primitives on random input, against loops over elements, on every engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments
from tests import reference
from tests.cases import INTEGERS, NUMBERS, head_flags, values
from tests.engines import on_engines

pytestmark = pytest.mark.automatic


def split_row(mask, flags):
    """The places of a row's elements after a split of each segment, and where parts then begin."""
    order: list[int] = []
    heads: list[bool] = []
    starts = np.flatnonzero(reference.restarts(flags, len(mask), 0, reverse=False))
    for start, stop in itertools.pairwise([*starts, len(mask)]):
        for wanted in (False, True):
            part = [t for t in range(start, stop) if (mask[t] != 0) == wanted]
            order += part
            heads += [t == part[0] for t in part]
    return np.array(order, int), np.array(heads, bool)


def split_rows(x, mask, flags, axis):
    """Every row of x along the axis split, and the heads: along the last axis, once if shared."""
    rows = np.moveaxis(x, axis, -1)
    shared = mask.ndim == flags.ndim == 1
    mask, flags = (
        np.broadcast_to(np.moveaxis(each, axis, -1) if each.ndim > 1 else each, rows.shape)
        for each in (mask, flags)
    )
    moved, heads = np.empty_like(rows), np.empty(rows.shape, bool)
    for at in np.ndindex(rows.shape[:-1]):
        order, heads[at] = split_row(mask[at], flags[at])
        moved[at] = rows[at][order]
    one = (0,) * (rows.ndim - 1)
    return np.moveaxis(moved, -1, axis), heads[one] if shared else heads


def packed(x, mask, size, fill_value=0):
    """What is marked, cut or filled to a size."""
    kept = x[mask != 0][:size]
    fill = np.asarray(fill_value).astype(x.dtype)
    return np.concatenate([kept, np.full((size - len(kept), *kept.shape[1:]), fill)])


@dataclass(frozen=True)
class Call:
    """A call of a vector primitive on (x, mask, segments, axis), and the same by a loop."""

    name: str
    call: Callable[..., Any]
    expected: Callable[..., Any]

    def check(self, *cases: tuple[Any, ...], axis: int = 0) -> None:
        """Compares the two for each (x, mask, flags), or with these flags in another form too."""
        program = jax.jit(lambda *operands: self.call(*operands, axis))
        for x, mask, flags, *segments in cases:
            actual = program(x, mask, *(segments or [flags]))
            assert_same(actual, self.expected(x, mask, flags, axis))


def assert_same(actual, expected):
    """Asserts that two pytrees hold the same values in the same dtypes."""
    for got, want in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert got.dtype == want.dtype
        reference.assert_equal(got, want)


def enumerate_call(reverse, segmented):
    """One way to call jscan.enumerate, of a mask that may have fewer axes than x."""

    def call(x, mask, segments, axis):
        del x
        along = axis if mask.ndim > 1 else 0
        given = segments if segmented else None
        return jscan.enumerate(mask, along, reverse=reverse, segments=given)

    def expected(x, mask, flags, axis):
        del x
        count = reference.scan(
            np.add,
            (mask != 0).astype(int),
            axis=axis if mask.ndim > 1 else 0,
            reverse=reverse,
            exclusive=True,
            identity=0,
            flags=flags if segmented else None,
        )
        return count.astype("int32")

    return Call("enumerate", call, expected)


def distribute_call(reverse, segmented):
    """One way to call jscan.distribute."""

    def call(x, mask, segments, axis):
        del mask
        given = segments if segmented else None
        return jscan.distribute(x, axis, reverse=reverse, segments=given)

    def expected(x, mask, flags, axis):
        del mask
        options = {"axis": axis, "reverse": reverse, "flags": flags if segmented else None}
        return reference.scan(lambda first, _: first, x, **options).astype(x.dtype)

    return Call("distribute", call, expected)


def pack_call(x, mask, segments, axis):
    """jscan.pack to three quarters of the elements, by rows where the mask is one."""
    del segments
    rows = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, axis, 0), x) if mask.ndim == 1 else x
    return jscan.pack(rows, mask, size=mask.size * 3 // 4)


def pack_expected(x, mask, flags, axis):
    del flags
    rows = np.moveaxis(x, axis, 0) if mask.ndim == 1 else x
    return packed(rows, mask, mask.size * 3 // 4)


def split_call(x, mask, segments, axis):
    del segments
    return jscan.split(x, mask, axis)


def split_expected(x, mask, flags, axis):
    del flags
    whole = np.zeros(x.shape[axis], bool)
    return split_rows(x, mask, whole, axis)[0]


def split_and_segment_call(x, mask, segments, axis):
    """The values and the head flags of their segments."""
    y, parts = jscan.split_and_segment(x, mask, segments, axis)
    return y, parts.flags


WAYS = tuple(itertools.product((False, True), repeat=2))  # reverse, segmented
ENUMERATE = {way: enumerate_call(*way) for way in WAYS}
DISTRIBUTE = {way: distribute_call(*way) for way in WAYS}
PACK = Call("pack", pack_call, pack_expected)
SPLIT = Call("split", split_call, split_expected)
SPLIT_AND_SEGMENT = Call("split_and_segment", split_and_segment_call, split_rows)
MOVES = (DISTRIBUTE[False, True], PACK, SPLIT, SPLIT_AND_SEGMENT)
EACH = (ENUMERATE[False, False], *MOVES)


def of(calls):
    """A test for each of some calls."""
    return pytest.mark.parametrize("call", calls, ids=lambda call: call.name)


def masks(shape, dtype="bool", seed=7):
    """Random truth values; true ones of an integer dtype are not all equal to one."""
    return head_flags(shape, dtype, seed, share=0.5)


def row(n):
    """An input of one row."""
    return values("cumsum", (n,), "int32"), masks((n,)), head_flags((n,))


@pytest.mark.product
@on_engines
@of(EACH)
@pytest.mark.parametrize("n", [0, 1, 33])
def test_short_rows(call, n):
    call.check(row(n))


@of([ENUMERATE[False, False], PACK, SPLIT])
def test_a_row_of_several_tiles(call, engine):
    call.check(row(engine.longest))


@on_engines
@pytest.mark.grid
@of(EACH)
def test_sizes(call, size):
    call.check(row(size))


def test_segments_of_a_row_that_no_block_holds(engine):
    ENUMERATE[False, True].check(row(3 * engine.longest))


@on_engines
@pytest.mark.sweep
@of([*ENUMERATE.values(), *DISTRIBUTE.values(), PACK, SPLIT, SPLIT_AND_SEGMENT])
def test_masks_and_segments_that_are_all_alike(call):
    x, mask, flags = row(40)
    everywhere, nowhere = np.ones(40, bool), np.zeros(40, bool)
    call.check(*itertools.product([x], [mask, everywhere, nowhere], [flags, everywhere, nowhere]))


@on_engines
@pytest.mark.sweep
@of(EACH)
@pytest.mark.parametrize("axis", [-3, 2])
@pytest.mark.parametrize("one_row", [False, True], ids=["mask-of-the-shape", "mask-of-a-row"])
def test_the_first_and_the_last_axis(call, axis, one_row):
    shape = (3, 5, 4)
    marked = (shape[axis],) if one_row else shape
    x = values("cumsum", shape, "float32")
    call.check((x, masks(marked), head_flags(marked, share=0.3)), axis=axis)


@on_engines
@of(EACH)
def test_the_axis_in_the_middle(call):
    x = values("cumsum", (2, 33, 3), "int16")
    call.check((x, masks(x.shape), head_flags(x.shape)), axis=1)


@pytest.mark.parametrize("mask_of_a_row", [False, True])
def test_a_row_of_one_kind_beside_rows_of_the_other(mask_of_a_row):
    x = values("cumsum", (4, 9), "int32")
    mask, flags = (
        (masks((9,)), head_flags((4, 9))) if mask_of_a_row else (masks((4, 9)), head_flags((9,)))
    )
    SPLIT_AND_SEGMENT.check((x, mask, flags), axis=1)


@of(EACH)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 1)])
def test_rows_of_nothing_and_of_one_element(call, shape):
    call.check((values("cumsum", shape, "int32"), masks(shape), head_flags(shape)), axis=1)


@on_engines
@of([ENUMERATE[False, False], SPLIT])
def test_masks_of_every_dtype(call):
    x, heads, marked = np.arange(50), head_flags((50,)), {}
    for dtype in ("bool", *INTEGERS):
        mask = marked[dtype] = masks((50,), dtype)
        if dtype != "bool":
            # Only the highest bit: the sign, where there is one.
            mask[::3] = np.iinfo(dtype).min or np.iinfo(dtype).max // 2 + 1
    actual = jax.jit(lambda marked: jax.tree.map(lambda m: call.call(x, m, heads, 0), marked))(
        marked
    )
    for dtype, mask in marked.items():
        assert_same(actual[dtype], call.expected(x, mask, heads, 0))


def check_leaves(call, x):
    """Compares what becomes of each leaf of a list with what becomes of it alone."""
    n = len(x[0])
    mask, flags = masks((n,)), head_flags((n,))
    actual = jax.jit(lambda x: call.call(x, mask, flags, 0))(x)
    moved = actual[0] if call is SPLIT_AND_SEGMENT else actual
    expected = [jax.tree.leaves(call.expected(leaf, mask, flags, 0))[0] for leaf in x]
    assert_same(moved, expected)


@pytest.mark.sweep
@on_engines
@of(MOVES)
def test_values_of_every_dtype(call):
    check_leaves(call, [values("cumsum", (40,), dtype) for dtype in ("bool", *NUMBERS)])


@on_engines
@of(MOVES)
def test_leaves_of_different_shapes(call):
    shapes = {"bool": (9,), "float16": (9, 3), "complex64": (9, 2, 2)}
    check_leaves(call, [values("cumsum", shape, dtype) for dtype, shape in shapes.items()])


LENGTHS = ([2, 3, 1, 4, 2], [0, 0, 12, 0, 0], [12, 0, 0, 0, 0], [0, 3, 0, 9, 0], [0, 0, 0, 0, 12])


def described(kind, lengths):
    """Segments of some lengths built from one of the four descriptors, and their head flags."""
    ids = np.repeat(np.arange(len(lengths)), lengths)
    flags = np.diff(ids, prepend=-1) != 0
    given = {"flags": flags, "ids": ids, "lengths": lengths, "offsets": np.cumsum([0, *lengths])}
    return getattr(Segments, f"from_{kind}")(np.asarray(given[kind])), flags


@pytest.mark.parametrize("kind", ["flags", "ids", "lengths", "offsets"])
@of([ENUMERATE[True, True], DISTRIBUTE[False, True], SPLIT_AND_SEGMENT])
def test_segments_of_every_descriptor(call, kind):
    x, mask, _ = row(12)
    segments = [described(kind, lengths) for lengths in LENGTHS]
    call.check(*((x, mask, flags, given) for given, flags in segments))


@of([ENUMERATE[True, True], DISTRIBUTE[True, True], SPLIT_AND_SEGMENT])
def test_segments_of_ids_with_rows(call):
    x, flags = values("cumsum", (3, 20), "int32"), head_flags((3, 20), share=0.3)
    ids = Segments.from_ids(np.cumsum(flags, axis=1))
    call.check((x, masks(x.shape), flags, ids), axis=1)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_was_split_can_be_split_again(axis):
    x, flags = values("cumsum", (6, 6), "int32"), head_flags((6, 6))
    first, second = masks((6, 6)), masks((6, 6), seed=8)
    once, parts = jscan.split_and_segment(x, first, flags, axis)
    twice, _ = jscan.split_and_segment(once, second, parts, axis)
    moved, heads = split_rows(x, first, flags, axis)
    assert_same(twice, split_rows(moved, second, np.moveaxis(heads, -1, axis), axis)[0])


# pack

MARKED = np.random.default_rng(3).permutation(60) < 25


@on_engines
@pytest.mark.parametrize("asked", [None, 0, 7, 25, 26, 60, 95])
def test_pack_to_every_size(asked):
    x = values("cumsum", (60,), "float32")
    actual = jscan.pack(x, MARKED, size=asked, fill_value=-1)
    assert_same(actual, packed(x, MARKED, 25 if asked is None else asked, -1))


@pytest.mark.parametrize("size", [0, 3])
def test_pack_of_nothing(size):
    assert_same(
        jscan.pack(np.ones((0, 2)), np.ones(0, bool), size=size, fill_value=4),
        np.full((size, 2), 4.0),
    )


@on_engines
@pytest.mark.parametrize("asked", [None, 5, 60])
def test_pack_by_a_mask_of_two_dimensions(asked):
    mask = MARKED.reshape(4, 15)
    x = {"matrix": values("cumsum", (4, 15), "int32"), "rows": values("cumsum", (4, 15, 3), "int8")}
    actual = jscan.pack(x, mask, size=asked)
    for name, leaf in x.items():
        assert_same(actual[name], packed(leaf, mask, asked or 25))


@pytest.mark.parametrize(
    ("dtype", "fill_value"),
    [
        ("bool", True),
        ("int8", -1),
        ("int64", -5),
        ("uint8", 255),
        ("uint16", 2**16 - 1),
        ("int32", 2.0),
        ("float16", -1),
        ("bfloat16", np.nan),
        ("float32", np.nan),
        ("float64", -np.inf),
        ("complex64", 1 - 2j),
        ("complex128", np.nan),
    ],
)
def test_what_pack_fills_with(dtype, fill_value):
    x = values("cumsum", (60, 2), dtype)
    actual = jscan.pack(x, MARKED, size=30, fill_value=fill_value)
    assert_same(actual, packed(x, MARKED, 30, fill_value))


@pytest.mark.parametrize("size", [None, 7, 60])
def test_pack_is_compress(size):
    x = values("cumsum", (60, 3), "float32")
    theirs = jnp.compress(MARKED, x, axis=0, size=size, fill_value=-7)
    assert_same(jscan.pack(x, MARKED, size=size, fill_value=-7), np.asarray(theirs))
