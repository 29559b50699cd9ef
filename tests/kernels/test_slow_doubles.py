"""float64 under roots, exponentials and quotients, folded; many lanes of rows of odd lengths."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan.kernels import tuning
from jscan.kernels.tuning import Rows, Shape, Tuning
from tests import reference
from tests.cases import head_flags
from tests.functions import welford
from tests.kernels.test_held import by_kernel, run

LANES: dict[str, Any] = {"outer": 1, "n": 2**15, "leaves": 1, "segmented": False}


def hypotenuse(a: Any, b: Any) -> Any:
    return (jnp.sqrt(a[0] * a[0] + b[0] * b[0]),)


def soft_maximum(a: Any, b: Any) -> Any:
    top = jnp.maximum(a[0], b[0])
    return top, a[1] * jnp.exp(a[0] - top) + b[1] * jnp.exp(b[0] - top)


def leaves_of(operator: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(shape[1])
    x, ones = rng.uniform(0.5, 2, shape), np.ones(shape)
    return {hypotenuse: (x,), soft_maximum: (x, ones), welford: (ones, x, 0 * x)}[operator]


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "cut",
    [Tuning(length, 1, 1, 32, fold=fold) for length, fold in ((1024, 8), (512, 8), (256, 4))],
    ids=["1024 by 8", "512 by 8", "256 by 4"],
)
@pytest.mark.parametrize("shape", [(1, 2100), (3, 1301)])
@pytest.mark.parametrize("operator", [hypotenuse, soft_maximum, welford])
@by_kernel
def test_folded_doubles(strategy, operator, shape, cut, reverse, exclusive, segmented):
    leaves = leaves_of(operator, shape)
    form: dict[str, Any] = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    if exclusive:
        first = -np.inf if operator is soft_maximum else 0.0
        form["identity"] = (first, *(0.0 for _ in leaves[1:]))
    flags = head_flags(shape[1:], share=0.05) if segmented else None

    def call(*x: Any) -> Any:
        return jscan.associative_scan(operator, x, segments=flags, **form)

    with jax.enable_x64(True):
        found = run(strategy, cut, call, *leaves)
        wanted = reference.scan(operator, leaves, flags=flags, **form)
    for actual, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def test_which_doubles_are_folded():
    row: dict[str, Any] = {"outer": 1, "n": 2**25, "inner": 1, "segmented": False}

    def fold(of_row: int = 0, **what: Any) -> tuple[int, int]:
        shape = Shape(**(row | what))
        cut = tuning.folded(shape, tuning.lookback(shape), Rows(row=of_row))
        return cut.length, cut.fold

    roots: dict[str, Any] = {"width": 8, "leaves": 1, "equations": 4, "roots": True}
    assert fold(**roots) == fold(2**20, **roots) == (1024, 8)
    assert fold(50001, **roots) == (512, 4)
    assert fold(outer=2**9, n=2**16, **roots) == (512, 4)
    assert fold(segmented=True, **roots) == (1024, 4)
    pair: dict[str, Any] = {"width": 16, "leaves": 2, "equations": 7, "long_steps": True}
    assert fold(**pair) == fold(9999, **pair) == fold(**pair, exclusive=True) == (512, 8)
    assert fold(segmented=True, **pair) == (256, 4)
    assert fold(77, segmented=True, **pair) == (256, 2)
    three: dict[str, Any] = {"width": 24, "leaves": 3, "equations": 15}
    assert fold(**three) == fold(2**17 + 1, **three) == (512, 8)
    assert fold(segmented=True, **three) == (256, 4)
    assert fold(2**16, **three)[1] == fold(**{**three, "equations": 3})[1] == 0
    assert fold(complex=True, **pair)[1] == 0


def test_exclusive_folds_are_as_long():
    pair = Shape(1, 2**25, 1, 16, 2, segmented=False, equations=7, long_steps=True, exclusive=True)
    cut = Tuning(512, 1, 1, 32, fold=8)
    assert tuning.with_flags_in_front(pair, cut) is cut
    assert tuning.with_flags_in_front(pair, Tuning(512, 1, 1, 32)).length == 256


def test_logaddexp_beside_lanes_is_in_narrow_tiles():
    double: dict[str, Any] = {"width": 8, "equations": 10, "long_steps": True, "logaddexp": True}

    def tile(n: int, ways: Any = tuning.SCAN, **what: Any) -> tuple[int, int]:
        shape = Shape(**(LANES | double | {"outer": 9, "inner": 5000, "n": n} | what))
        cut = tuning.chosen(shape, "auto", ways)
        return cut.length, cut.lanes

    assert tile(2, segmented=True) == (2, 64)
    assert tile(7, segmented=True) == (8, 32)
    assert tile(31, segmented=True) == tile(17) == (32, 32)
    assert tile(2)[1] > 64
    assert tile(64)[0] == 64
    assert tile(40, segmented=True)[0] < 40
    for few in (2, 6, 16):
        assert tile(40, segmented=True, inner=few, outer=2**18)[0] == 64
    reduced = tile(31, tuning.REDUCTION, segmented=True)
    assert reduced == tile(31, tuning.REDUCTION, segmented=True, long_steps=False)
    many = Shape(**(LANES | double | {"inner": 2248155, "n": 31}))
    assert tuning.down_lanes(many) is None


def test_segments_of_many_uneven_leaves_beside_few_lanes():
    def cut(leaves: int) -> tuple[int, int]:
        shape = Shape(1, 2**20, 6, 4 * leaves - 3, leaves, segmented=True, equations=3, even=False)
        found = tuning.lookback(shape)
        return found.length, found.warps

    assert cut(2) == (128, 1)
    assert cut(20) == cut(300) == (32, 4)


def test_odd_lanes():
    def cut(inner: int, **what: Any) -> tuple[int, int, int]:
        found = tuning.lookback(Shape(**(LANES | {"inner": inner} | what)))
        return found.length, found.lanes, found.warps

    product: dict[str, Any] = {"width": 4, "leaves": 2, "equations": 6}
    assert cut(4111, **product) == (64, 32, 1)
    assert cut(1506, **product)[1:] == (128, 4)
    assert cut(1506, segmented=True, **product) == (32, 32, 1)
    assert cut(1024, **product)[1:] == (32, 1)
    recurrence: dict[str, Any] = {"width": 16, "leaves": 4, "complex": True, "equations": 8}
    assert cut(4501, **recurrence) == (32, 32, 1)
    place: dict[str, Any] = {"width": 12, "leaves": 2, "even": False, "narrowest": 4}
    assert cut(7993, equations=4, **place) == (64, 32, 1)
    assert cut(7993, equations=20, **place)[1:] == cut(7999, equations=20, **place)[1:] == (128, 4)
    assert cut(1000, equations=4, **place)[1:] == (32, 1)
    mixed: dict[str, Any] = {"leaves": 3, "even": False, "narrowest": 1, "equations": 3}
    assert cut(1255, width=9, segmented=True, **mixed) == (32, 64, 2)
    assert cut(1255, width=9, **mixed)[1:] == (128, 4)
    assert cut(1255, width=9, segmented=True, n=1024, **mixed)[1:] == (128, 4)
    assert cut(16384, width=13, **mixed)[1:] == (32, 1)
    logaddexp: dict[str, Any] = {
        "equations": 20,
        "long_steps": True,
        "logaddexp": True,
        "segmented": True,
    }
    assert cut(8389, width=4, **logaddexp) == (32, 32, 1)
    assert cut(8389, width=4, exclusive=True, **logaddexp) == (32, 64, 2)
    assert cut(8389, width=4, n=1024, **logaddexp) == (16, 128, 4)
    assert cut(8389, width=2, exclusive=True, **logaddexp) == (16, 32, 1)
    assert cut(8389, width=2, **logaddexp) == (16, 128, 4)
    welford_of_doubles: dict[str, Any] = {"width": 24, "leaves": 3, "equations": 15}
    assert cut(10281, segmented=True, **welford_of_doubles) == (16, 32, 1)
    assert cut(10281, segmented=True, integers=True, **welford_of_doubles)[1:] == (128, 4)


@pytest.mark.parametrize(
    ("n", "inner", "what", "cut"),
    [
        (2**14, 1733, {}, (64, 32, 1)),
        (2**14, 4531, {}, (64, 128, 2)),
        (2048, 4531, {}, (32, 64, 1)),
        (2048, 4531, {"own_flags": True}, (64, 128, 2)),
        (2**14, 4531, {"exclusive": True}, (32, 64, 1)),
        (2**14, 4531, {"integers": True}, (32, 64, 1)),
    ],
)
def test_sums_of_halves_beside_flags(n, inner, what, cut):
    shape = Shape(1, n, inner, 2, 1, segmented=True, equations=1, widened_sums=True, **what)
    found = tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)
    assert (found.length, found.lanes, found.warps) == cut
    assert found.held == 16


def test_three_halves_of_few_lanes_are_read_twice():
    shape = Shape(1, 2**20, 19, 6, 3, segmented=False, equations=3)
    found = tuning.as_read(shape, tuning.lookback(shape), reverse=False, exclusive=False)
    assert (found.length, found.lanes, found.strip) == (256, 32, 16)
    segmented = Shape(1, 2**20, 19, 6, 3, segmented=True, equations=3)
    found = tuning.as_read(segmented, tuning.lookback(segmented), reverse=False, exclusive=False)
    assert not found.strip
