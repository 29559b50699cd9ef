"""Rounding errors of sums: the bound of every strategy, and the suite that measures them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from benchmarks.__main__ import main
from benchmarks.cases import summands
from benchmarks.measuring import accuracy, errors, machine, rounding
from benchmarks.measuring.programs import compile_all
from benchmarks.reporting import accuracy_table
from jscan import networks
from jscan.kernels import tuning
from tests import reference
from tests.engines import Engine

LENGTH = 300
TILE = tuning.Tuning(length=16, lanes=1, warps=1, window=4, strip=4)
NAMES = (
    "lookback",
    "serial_lookback",
    "chained",
    "repeatable",
    "reduce_then_scan",
    "scan_then_propagate",
)
ENGINES = [
    Engine("xla", "xla", (LENGTH,)),
    *(
        Engine(f"{name}-interpreted", name, (LENGTH,), interpreted=True, tile=TILE)
        for name in NAMES
    ),
    Engine("xla-gpu", "xla", (LENGTH,), gpu=True),
    *(Engine(f"{name}-gpu", name, (2**20 + 1,), gpu=True) for name in NAMES),
]
MARKED = [pytest.param(e, id=e.name, marks=[pytest.mark.gpu] if e.gpu else []) for e in ENGINES]
SIGNED = [each.name for each in summands.INPUTS if not each.rises]


@pytest.fixture
def strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The strategy to test, active for the length of the test, and not block for short rows."""
    monkeypatch.setattr(tuning, "block", lambda _: None)
    with request.param.active() as active:
        yield active


def depth(strategy):
    """What the strategy's additions cannot be deeper than, where it runs."""
    tile = rounding.TRITON if strategy.gpu else rounding.INTERPRETED
    return rounding.depth(strategy.method, strategy.longest, tile, cut=strategy.tile)


@functools.cache
def inputs(n, dtype=jnp.float32):
    """Every input of the suite, in NumPy."""
    return [np.asarray(x) for x in jax.jit(summands.builder(n, dtype))()]


def exact(x):
    """Sums of elements and of sizes: a float64 loop, which is exact on inputs of the suite."""
    wide = reference.widen(x)
    return np.cumsum(wide), np.cumsum(np.abs(wide))


@pytest.mark.parametrize("strategy", MARKED, indirect=True)
def test_sums_of_every_input_are_within_the_bound_of_their_strategy(strategy):
    scan = jax.jit(lambda x: jscan.cumsum(x, method=strategy.method))
    bound = rounding.EPS * rounding.bound(depth(strategy), strategy.longest)
    for summand, x in zip(summands.INPUTS, inputs(strategy.longest), strict=True):
        sums, sizes = exact(x)
        y = reference.widen(scan(x))
        reference.assert_within(y, sums, bound * sizes)
        if summand.rises:  # what steps back there does so by less than its two errors
            assert (y[:-1] - y[1:] <= bound * (sizes[:-1] + sizes[1:])).all()
            # Errors of earlier sums are bounded by less, so the largest so far is no worse.
            reference.assert_within(np.maximum.accumulate(y), sums, bound * sizes)
        if summand.name == "all 1":
            np.testing.assert_array_equal(y, sums)  # every partial sum is a float32


@pytest.mark.parametrize(
    "strategy", [case for case in MARKED if "serial" not in str(case.id)], indirect=True
)
def test_additions_are_as_deep_as_the_bound_says(strategy):
    zeros = jnp.zeros(strategy.longest, jnp.int32)
    counted = int(jax.jit(rounding.counted(strategy.method))(zeros))
    assert counted <= depth(strategy)
    if not strategy.gpu:  # tiles are scanned by pairs; one too long for its elements is less deep
        assert counted >= depth(strategy) - 2


def test_depths_of_lengths_that_are_measured():
    """Of 2^28 float32: 65536 tiles, 8192 fat ones, 2098 parts of 125 strips, levels of tiles."""
    n = 2**28
    assert rounding.depth("xla", n) == 54
    for method in ("auto", "lookback", "serial_lookback"):
        assert rounding.depth(method, n) == 4096 // 32 + 6 + 65535
    assert rounding.depth("chained", n) == 32768 // 32 + 6 + 8191
    strip, scan_of_totals = 1024 // 32 + 6, 4096 // 32 + 6
    assert rounding.depth("reduce_then_scan", n) == strip + 124 + scan_of_totals + 125
    tile = 4096 // 32 + 6
    assert rounding.depth("scan_then_propagate", n) == (tile + (tile + 6 + 1)) + 1
    assert rounding.depth("block", 1024) == 1024 // 32 + 6
    assert [rounding.depth("block", k) for k in (0, 1, 2)] == [0, 0, 1]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 31, 1000])
def test_the_depth_of_pairs(n):
    counted = jax.jit(rounding.counted("xla"))(jnp.zeros(n, jnp.int32))
    assert int(counted) == rounding.of_pairs(n) == rounding.depth("xla", n)


def test_a_bound_is_half_an_eps_for_each_addition():
    assert rounding.bound(0, 1) == 0
    assert rounding.bound(1, 2) == 0.5
    assert 500 < rounding.bound(1000, 10_000) < 500.1
    # A loop's additions are as many as there are, and no order makes more of them.
    assert rounding.bound(2**28 - 1, 2**28) == (2**28 - 1) / 2


# monotony

FALLS = np.array([2**24, 0, 0, 0, 3, 0, 1.125, 0], np.float32)
"""The seventh sum is ((2^24 + 3) + 1.125), which rounds up twice, the eighth 2^24 + (3 + 1.125)."""


@pytest.mark.parametrize("method", ["xla", "block"])
def test_a_sum_of_what_is_not_negative_may_fall(method):
    with Engine(method, method, (), interpreted=method == "block").active():
        y = np.asarray(jscan.cumsum(FALLS, method=method))
    assert y[6:].tolist() == [2**24 + 6, 2**24 + 4]
    assert (np.diff(np.cumsum(FALLS)) >= 0).all(), "a loop's never does: a + b >= a, rounded or not"


def test_sklansky_networks_never_fall():
    """Each level puts a total in front of sums that do not fall, and keeps that total before them.

    Rounding keeps order, so that t + y_i <= t + y_j where y_i <= y_j, and t <= t + y_0. In others
    neighbours are made by different trees.
    """
    rng = np.random.default_rng(0)
    rows = np.exp2(rng.uniform(-20, 20, (2000, 17))).astype(np.float32)
    for network in (networks.kogge_stone, networks.brent_kung, networks.han_carlson):
        assert falls(network, rows), network
    assert not falls(networks.sklansky, rows)


def falls(network, rows):
    """Whether one of the sums is below the one before it."""
    sums = jax.jit(functools.partial(network, jnp.add, axis=1))(rows)
    return bool((np.diff(sums) < 0).any())


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_sums_of_integers_never_fall(dtype):
    x = np.random.default_rng(0).integers(0, 3, 100).astype(dtype)
    assert (np.diff(np.asarray(jscan.cumsum(x)).astype(int)) >= 0).all()


# the inputs


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize(
    "place", range(len(summands.INPUTS)), ids=lambda k: summands.INPUTS[k].name
)
def test_float64_holds_every_partial_sum(place, dtype):
    n, summand = 4096, summands.INPUTS[place]
    x = inputs(n, dtype)[place]
    assert x.dtype == dtype
    quantum = summand.quantum_of(x.dtype)
    quanta = reference.widen(x) / quantum
    np.testing.assert_array_equal(quanta, np.round(quanta))
    sums, sizes = exact(x)
    whole = np.cumsum(quanta.astype(np.int64))
    np.testing.assert_array_equal(sums / quantum, whole)
    # Behind the first elements inputs are alike over any length, so longer ones add up in step.
    rest = sizes[-1] - sizes[3]
    factor = 2.0**28 / n * summand.scale(2**28, x.dtype) / summand.scale(n, x.dtype)
    assert sizes[3] + rest * factor < 2**53 * quantum
    assert np.abs(sums).max() <= summand.largest(n) * summand.scale(n, x.dtype)
    assert summand.rises == bool((np.asarray(x) >= 0).all())


@pytest.mark.parametrize("summand", summands.INPUTS, ids=lambda each: each.name)
def test_sums_of_float16_stay_finite(summand):
    for exponent in accuracy.EXPONENTS:
        n = 2**exponent
        assert summand.largest(n) * summand.scale(n, jnp.float16) <= 2**15
        assert summand.scale(n, jnp.float32) == 1


# the statistics


def statistics(y, sums, sizes):
    found = jax.jit(errors.found)(y, jnp.array(sums, float), jnp.array(sizes, float))
    return {name: float(value) for name, value in found.items()}


def test_errors_of_results_made_by_hand():
    eps = 2.0**-23
    y = jnp.array([1, 2, 2 - eps, 4, 3, jnp.inf], jnp.float32)
    found = statistics(y, [1, 2, 2, 4 + 8 * eps, 3, 3], [1, 4, 4, 8, 16, 16])
    assert found == {
        "max_eps": 1.0,  # of 8 eps in 8
        "mean_eps": pytest.approx((1 / 4 + 1.0) / 6),
        "max_ulps": 2.0,  # neighbours of 4 are 4 eps apart
        "steps_back": 2,
        "step_back_ulps": 2**23 / 4,  # from 4 to 3
        "not_finite": 1,
    }


def test_errors_of_halves_are_in_their_own_spacings():
    y = jnp.array([256, 258, 256], jnp.bfloat16)
    found = statistics(y, [256, 257, 258], [256, 257, 258])
    assert found["max_ulps"] == 1.0
    assert found["max_eps"] == pytest.approx(2**23 * 2 / 258)
    assert (found["steps_back"], found["step_back_ulps"]) == (1, 1.0)


def test_sums_that_are_zero_have_no_spacing():
    found = statistics(jnp.array([0, 1, 0.5], jnp.float32), [0, 1, 0], [0, 1, 2])
    assert found["max_ulps"] == 0.0
    assert found["max_eps"] == 2**23 / 4


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_spacings(dtype):
    x = jnp.array([1, -1.5, 3, 1000, 2.0**-10, 0], dtype)
    wide = x.astype(jnp.float64)
    below = reference.widen(jnp.nextafter(x, jnp.zeros_like(x)))
    above = reference.widen(jnp.nextafter(x, jnp.full_like(x, jnp.inf) * jnp.sign(x)))
    expected = np.abs(above - wide)[:-1]
    np.testing.assert_array_equal(errors.spacing(wide, dtype)[:-1], expected)
    assert (np.abs(wide - below)[:-1] <= expected).all()
    info = jnp.finfo(dtype)
    assert float(errors.spacing(wide, dtype)[-1]) == float(info.smallest_normal) * float(info.eps)


# the suite


@pytest.fixture
def short(monkeypatch):
    """A suite of two short lengths, as on a machine without a GPU."""
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    monkeypatch.setattr(accuracy, "EXPONENTS", (3, 5, 40))


@pytest.mark.usefixtures("short")
def test_the_suite_writes_its_file_and_finds_nothing_wrong(tmp_path, capsys):
    assert main(["accuracy", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == f"accuracy-{machine.device_name()}.json"
    content = json.loads(path.read_text())
    assert "all 0.1" in capsys.readouterr().out
    assert {"device", "driver", "jax", "numpy", "torch"} <= content["environment"].keys()
    assert [entry["counted"] for entry in content["depths"]] == [4, 8]
    found = content["errors"]
    assert {entry["n"] for entry in found} == {8, 32}
    assert {entry["n"] for entry in found if entry["dtype"] == "float16"} == {8}
    subjects = {"xla", "precise=True", "lax.cumsum", "lax.associative_scan", "float32 loop"}
    assert subjects == set(accuracy_table.each("subject", found)) - {"torch.cumsum"}
    assert all("steps_back" in e for e in found if e["input"] not in SIGNED)
    assert not any("steps_back" in e for e in found if e["input"] in SIGNED)
    own = [e for e in found if e["subject"] in ("xla", "precise=True", "float32 loop")]
    assert all(entry["max_eps"] <= entry["bound_eps"] for entry in own)
    assert all(
        entry["max_output_eps"] > 0
        for entry in own
        if entry["dtype"] == "float16" and entry["max_eps"]
    )

    own[0]["within_bound"] = False
    content["depths"][0]["counted"] = 5
    assert len(accuracy.beyond(content)) == 2


@pytest.mark.usefixtures("short")
def test_no_length_is_begun_when_time_is_up():
    content = accuracy.result(-1.0)
    assert content["left_out"] == [8, 32]
    assert content["errors"] == content["depths"] == []
    accuracy.show(content)
    assert accuracy.beyond(content) == ["nothing was measured"]


def test_exact_sums_by_xla_are_those_by_numpy(monkeypatch):
    size = accuracy.Size(512, "float32")
    executables = compile_all([size.exact], lambda: None)
    for summand, values in zip(summands.INPUTS, inputs(size.n), strict=True):
        x = jnp.asarray(values)
        by_numpy = accuracy.exact_sums(summand, x, size, executables)
        monkeypatch.setattr(accuracy, "BY_NUMPY", 0)
        by_xla = accuracy.exact_sums(summand, x, size, executables)
        monkeypatch.undo()
        for a, b in zip(by_numpy, by_xla, strict=True):
            np.testing.assert_array_equal(a, b)


def test_sums_that_float64_does_not_hold_are_refused():
    size = accuracy.Size(4, "float32")
    with pytest.raises(ValueError, match="all 1: sums of 4 elements are not exact"):
        accuracy.exact_sums(summands.INPUTS[2], jnp.full(4, 2.0**52, jnp.float32), size, {})


@pytest.mark.usefixtures("short")
def test_a_failing_strategy_is_reported_and_another_library_is_not(monkeypatch):
    monkeypatch.setattr(accuracy, "EXPONENTS", (3,))
    monkeypatch.setattr(accuracy, "_by_program", lambda *_: 1 / 0)
    content = accuracy.result(60)
    failed = {e["subject"] for e in content["errors"] if "why_not" in e}
    assert failed >= {"xla", "lax.cumsum"}
    wrong = accuracy.beyond(content)
    assert wrong
    ours = ("xla, ", "precise=True, ")
    assert all(line.startswith(ours) and "ZeroDivisionError" in line for line in wrong)
