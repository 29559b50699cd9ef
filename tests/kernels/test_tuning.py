"""The choice of tiles, for shapes of every kind: nothing here runs a kernel."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jscan
from jscan import operators
from jscan.kernels import strategies, tuning
from jscan.kernels.tuning import choose, holding, measured
from jscan.kernels.tuning.cut import Rule, first_match
from tests.kernels.test_lowering import cuda_program

SHAPES = [
    tuning.Shape(outer, n, inner, width, leaves, segmented, equations)
    for outer, n, inner, (width, leaves), segmented, equations in itertools.product(
        (1, 3, 300, 5000),
        (2, 100, 4097, 100_000, 2**18 + 1, 2**21, 2**30),
        (1, 2, 16, 64, 1000),
        ((1, 1), (4, 1), (5, 2), (8, 2), (12, 3), (16, 2), (16, 4), (64, 16)),
        (False, True),
        (1, 6, 60),
    )
]


def is_power_of_2(n: int) -> bool:
    """Whether a register tile can be so long."""
    return n > 0 and n.bit_count() == 1


@pytest.mark.parametrize("chosen", [tuning.lookback, tuning.serial, tuning.chain])
def test_tiles_of_rows(chosen):
    for shape in SHAPES:
        tuned = chosen(shape)
        assert is_power_of_2(tuned.length), shape
        assert is_power_of_2(tuned.lanes), shape
        # Warps that read the same words would see them at different times.
        words = tuned.window * tuned.lanes
        assert chosen is tuning.chain or tuned.warps == 1 or words >= 32 * tuned.warps, shape


@pytest.mark.parametrize("method", strategies.LOOKING)
@pytest.mark.parametrize("exclusive", [False, True])
def test_tiles_as_methods_take_them(method, exclusive):
    few_lanes = [
        dataclasses.replace(shape, inner=inner, long_steps=shape.equations == 60)
        for shape in SHAPES
        for inner in (shape.inner, *range(3, 16), 21)
        if inner == shape.inner or (shape.inner, shape.outer, shape.n) == (2, 1, 2**21)
    ]
    for shape in few_lanes:
        form = {"reverse": exclusive, "exclusive": exclusive, "may_weave": lambda _: True}
        tuned = strategies.settled(shape, tuning.lookback(shape), method, **form)
        if tuned.length >= shape.n:
            continue
        assert is_power_of_2(tuned.lanes), shape
        assert tuned.warps == 1 or tuned.window * tuned.lanes >= 32 * tuned.warps, (shape, tuned)
        if tuned.chunk:
            threads = 32 * tuned.warps
            assert tuned.length * tuned.lanes % (threads * tuned.chunk * tuned.together) == 0, shape


def test_parts_are_whole_strips():
    for shape in SHAPES:
        tuned = tuning.parts(shape)
        assert is_power_of_2(tuned.strip), shape
        assert tuned.length % tuned.strip == 0, shape
        # As many bytes at once as a warp's registers hold, and room for their scan.
        assert tuned.strip * tuned.lanes * shape.width <= 2**15, shape


@pytest.mark.parametrize("chosen", [tuning.tree, tuning.walks])
def test_every_level_of_a_reduction_leaves_less(chosen):
    for shape in SHAPES:
        tuned, left, levels = chosen(shape), shape.n, 0
        while left > tuned.length:
            assert is_power_of_2(tuned.strip), shape
            assert tuned.length % tuned.strip == 0, shape
            assert levels or tuned.strip * tuned.lanes * shape.width <= 2**15, shape
            before, left = left, 2 * -(-left // tuned.length)
            assert left < before, shape
            tuned = tuning.entries(left, tuned)
            levels += 1
        assert levels <= 10, shape


@pytest.mark.parametrize("kind", measured.MEASURED)
@pytest.mark.parametrize("table", ["few", "full"])
def test_every_rule_is_the_first_that_holds_for_some_shape(kind, table):
    rules = getattr(measured.MEASURED[kind], table)
    operands = [
        (1, 1),
        (2, 1),
        (2, 2),
        (4, 1),
        (4, 2),
        (8, 1),
        (8, 2),
        (8, 3),
        (12, 3),
        (16, 2),
        (16, 3),
        (16, 4),
    ]
    both, lengths = (False, True), (2**15, 2**17, 2**18, 2**19, 2**20, 2**21)
    of_operands = [
        tuning.Shape(1, n, 1, *pair, segmented, equations=1)
        for n, pair, segmented in itertools.product(lengths, [*operands, (24, 3)], both)
    ]
    kinds = ("integers", "widened_sums", "wide_extrema", "extrema")
    which = [dict(zip(kinds, x, strict=True)) for x in itertools.product(both, repeat=len(kinds))]
    of_kinds: list[dict[str, Any]] = [*which]
    shapes = [dataclasses.replace(x, **kind) for x in of_operands for kind in of_kinds]
    assert {first_match(rules, shape) for shape in shapes} - {None} == set(rules)


def test_the_first_rule_that_holds_is_taken():
    shape = tuning.Shape(2, 100, 1, 8, 2, segmented=True, equations=1)
    missed = [
        Rule(1, elements=199),
        Rule(2, widths=(9, 16)),
        Rule(3, widths=(1, 7)),
        Rule(4, operands=((8, 1), (4, 2))),
        Rule(5, segmented=False),
    ]
    held = [
        Rule(6, elements=200),
        Rule(7, widths=(5, 8)),
        Rule(8, operands=((8, 2),)),
        Rule(9, segmented=True),
        Rule(10),
    ]
    assert first_match(missed, shape) is None
    for rule in held:
        assert first_match([*missed, rule, *held], shape) is rule


@pytest.mark.parametrize("processors", [1, 20, 108, 160])
def test_a_device_that_nobody_measured_is_cut_by_its_multiprocessors(monkeypatch, processors):
    device = measured.MEASURED["NVIDIA H200"].resized(processors)
    monkeypatch.setattr(measured, "device", lambda: device)
    assert device.programs == 16 * processors
    for shape in SHAPES:
        cuts = [tuning.lookback(shape), tuning.strips(shape), tuning.parts(shape)]
        for tuned in cuts:
            assert tuned.length >= 1, shape
            assert is_power_of_2(tuned.lanes), shape
        assert is_power_of_2(cuts[0].length), shape
        columns = shape.outer * -(-shape.inner // cuts[2].lanes)
        parts = columns * -(-shape.n // cuts[2].length)
        assert parts <= max(device.programs, columns), shape


def test_a_measured_device_resized_to_itself_is_the_same():
    for device in measured.MEASURED.values():
        assert device.resized(device.processors) == device


def test_entries_of_forced_tiles_without_strips():
    tile = tuning.Tuning(64, lanes=4, warps=1, window=4)
    shape = dataclasses.replace(SHAPES[0], n=10_000, inner=8, tile=tile)
    assert tuning.entries(1000, tuning.walks(shape)).length >= 64


@pytest.mark.parametrize("method", ["scan_then_propagate", "reduce_then_scan"])
def test_wide_rows_of_wide_elements_are_reduced(method):
    """Once strips of two elements left two entries each, level after level without end."""

    def total(data, ids):
        return jscan.segment_sum(data, ids, 100, indices_are_sorted=True, method=method)

    data = jax.ShapeDtypeStruct((3000, 64), jnp.complex128)
    assert "jscan_reduce" in cuda_program(total, data, jax.ShapeDtypeStruct((3000,), jnp.int32))


def test_many_rows_are_one_part_each():
    """Two passes are one where nothing comes before a part."""
    x = jax.ShapeDtypeStruct((4096, 100_000), jnp.float32)
    program = cuda_program(lambda x: jscan.cumsum(x, 1, method="reduce_then_scan"), x)
    assert "jscan_parts" in program
    assert "jscan_part_totals" not in program


def test_complex_numbers_take_one_pass():
    x = jax.ShapeDtypeStruct((2**20,), jnp.complex64)
    assert "jscan_lookback" in cuda_program(jscan.cumsum, x)


def test_one_result_of_two_is_scanned_in_two_passes_where_operands_stay_in_the_cache():
    def last(a, b):
        return jscan.associative_scan(operators.affine, (a, b))[1]

    found = {
        n: "jscan_parts" in cuda_program(last, *[jax.ShapeDtypeStruct((n,), jnp.float32)] * 2)
        for n in (2**18, 2**20, 2**24)
    }
    assert found == {2**18: False, 2**20: True, 2**24: False}


@pytest.mark.parametrize(
    ("n", "width", "leaves", "segmented", "equations", "warps"),
    [
        (4096, 8, 2, True, 3, 4),  # 32 elements a thread, of two leaves and a flag
        (4096, 8, 2, False, 3, 4),
        (3000, 4, 1, True, 1, 4),
        (2048, 4, 1, True, 1, 1),
        (4096, 4, 1, False, 1, 1),
        (5000, 4, 1, False, 6, 8),
        (1500, 2, 1, True, 1, 1),
        (1536, 2, 1, True, 1, 2),
        (2500, 2, 1, True, 1, 2),
        (3000, 2, 1, True, 1, 4),
        (4096, 2, 1, False, 1, 1),
        (4096, 4, 2, True, 3, 4),
        (3000, 2, 2, True, 3, 1),  # rows of bytes that begin inside of words
        (4096, 2, 2, True, 3, 4),
        (3000, 8, 1, True, 1, 4),
        (1000, 8, 2, True, 3, 1),
    ],
)
def test_warps_of_rows_that_a_program_holds(n, width, leaves, segmented, equations, warps):
    shape = tuning.Shape(8192, n, 1, width, leaves, segmented=segmented, equations=equations)
    whole = tuning.block(shape)
    assert whole is not None
    assert (whole.rows, whole.warps) == (1, warps)


def test_exclusive_rows_of_halves_by_segments_have_as_many_warps_as_others():
    shape = tuning.Shape(8192, 2500, 1, 2, 1, segmented=True, equations=1, exclusive=True)
    whole = tuning.block(shape)
    assert whole is not None
    assert whole.warps == 4


@pytest.mark.parametrize(
    ("shape", "width", "leaves", "segmented", "equations", "cut"),
    [
        ((8, 8192, 1024), 12, 3, True, 10, (32, 32)),  # Welford's
        ((8, 8192, 1024), 12, 3, False, 10, (64, 32)),
        ((8, 8192, 1001), 12, 3, True, 3, (32, 64)),  # sums, least and greatest
        ((8, 8192, 1024), 4, 1, True, 4, (64, 32)),
        ((8, 8192, 1024), 4, 2, False, 6, (64, 64)),  # complex products
        ((8, 512, 64), 4, 1, True, 4, None),  # few
        ((8, 8192, 1001), 12, 3, False, 10, None),
        ((8, 8192, 1001), 4, 1, True, 4, None),
        ((8, 8192, 1024), 4, 1, True, 30, None),
    ],
)
def test_lanes_of_some_kinds_are_held(shape, width, leaves, segmented, equations, cut):
    outer, n, inner = shape
    lanes = tuning.Shape(outer, n, inner, width, leaves, segmented, equations)
    chosen = tuning.lookback(lanes)
    held = tuning.as_read(lanes, chosen, reverse=False, exclusive=False)
    assert held == chosen if cut is None else (held.length, held.lanes) == cut
    assert (held.held > 0) == (cut is not None)


@pytest.mark.parametrize(
    ("inner", "own", "cut"),
    [(30522, True, (32, 64, 0)), (30522, False, (256, 64, 8)), (94, True, None), (999, True, None)],
)
def test_halves_under_exponentials_by_segments(inner, own, cut):
    shape = tuning.Shape(1, 8192, inner, 2, 1, True, 14, long_steps=True, own_flags=own)
    chosen = tuning.lookback(shape)
    read = tuning.as_read(shape, chosen, reverse=False, exclusive=False)
    assert read == chosen if cut is None else (read.length, read.lanes, read.strip) == cut


@pytest.mark.parametrize(
    ("shape", "lanes", "strip", "ahead"),
    [
        ((1, 312, 218800), 128, 8, True),  # 855 programs of 256 lanes
        ((1, 312, 512000), 256, 8, True),
    ],
)
def test_halves_by_segments_are_walked_ahead(shape, lanes, strip, ahead):
    outer, n, inner = shape
    cut = tuning.down_lanes(tuning.Shape(outer, n, inner, 2, 1, segmented=True, equations=1))
    assert cut is not None
    assert (cut.lanes, cut.strip, cut.ahead) == (lanes, strip, ahead)


@pytest.mark.parametrize("n", [17, 36, 101, 128])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("inner", [2**16, 3 * 2**15, 2**16 + 4])
def test_a_thread_has_narrow_columns_whole(n, width, inner):
    shape = tuning.Shape(64, n, inner, width, 1, segmented=False, equations=1)
    whole = tuning.block(shape)
    assert whole is not None
    tile = tuning.columns(shape, whole)
    together = tile.lanes // (32 * tile.warps)
    assert inner % together == 0
    assert together * width >= 4
    assert n * together * width <= 600


@pytest.mark.parametrize(
    ("n", "width", "leaves", "long_steps", "elements"),
    [
        (256, 1, 1, False, 1024),
        (328, 2, 1, False, 1024),
        (256, 2, 1, False, 1024),
        (512, 2, 1, False, 1024),
        (271, 2, 1, True, 512),
        (482, 2, 2, False, 1024),
        (110, 2, 2, False, 512),
    ],
)
def test_a_program_of_narrow_rows_moves_enough(n, width, leaves, long_steps, elements):
    shape = tuning.Shape(2**20, n, 1, width, leaves, False, 1, long_steps=long_steps)
    tile = choose.block(shape)
    assert tile is not None
    assert (tile.rows * tile.length, tile.warps) == (elements, 1)


def test_tiles_of_long_functions():
    how: dict[str, Any] = {"segmented": False, "long_steps": True}
    for outer, n, expected in ((1, 2**26 + 1, (2048, 4)), (1024, 28996, (512, 1))):
        tuned = tuning.lookback(tuning.Shape(outer, n, 1, 8, 1, equations=12, **how))
        assert (tuned.length, tuned.warps) == expected
    for inner, lanes in ((4, 4), (12, 4), (13, 8)):
        few = tuning.Shape(1, 2**23, inner, 8, 1, equations=12, logaddexp=True, **how)
        assert tuning.lookback(few).lanes == lanes
    pairs = tuning.Shape(1, 2**26 + 1, 1, 8, 2, equations=70, complex=True, **how)
    tuned = tuning.lookback(pairs)
    assert (tuned.length, tuned.warps) == (2048, 4)
    way: dict[str, bool] = {"walks": True, "exclusive": False, "reverse": False}
    assert tuning.rows(pairs, 15971, **way) == tuning.Tuning(512, 1, 1, 32)
    assert tuning.rows(pairs, 2**20 + 1, **way).strip  # begins in few tiles, which are walked


def test_odd_lanes_in_few_columns():
    """Twice as long tiles wait for half as many."""
    how: dict[str, Any] = {"segmented": False, "equations": 1}
    plain = tuning.Tuning(128, 32, 1, 2)
    wide = tuning.Tuning(64, 64, 1, 2, held=16)
    for n, inner, expected in (
        (293659, 223, dataclasses.replace(wide, length=128, warps=2, window=4)),
        (152377, 223, wide),
        (293659, 359, wide),
    ):
        shape = tuning.Shape(1, n, inner, 2, 1, **how)
        assert holding._of_lanes(shape, plain) == expected
