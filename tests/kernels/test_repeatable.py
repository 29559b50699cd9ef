"""The same bits every time: of scans and reductions by ``method="repeatable"``.

tests/protocol/test_groups.py runs the kernel by schedules that no GPU can be made to choose. Here a
GPU runs it as it comes, alone and beside others; and the order of a plan is held against that of
sorted elements, which takes none.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import compensation, operators, primitives
from jscan.kernels import strategies, tuning
from tests.kernels.test_faults import BUSY
from tests.kernels.test_lowering import cuda_program

METHOD = "repeatable"


def joined_moments(a: Any, b: Any) -> Any:
    """Counts, means and sums of squares of two samples, as those of both."""
    (n, mean, m2), (count, other, squares) = a, b
    total = n + count
    delta = other - mean
    share = count / total
    return total, mean + delta * share, m2 + squares + delta * delta * n * share


def scan_of(name: str, x: jax.Array, **how: Any) -> Any:
    """A scan of floats, all of whose results are made from ``x``."""
    how = {"method": METHOD, **how}
    if name == "sum":
        return jscan.cumsum(x, **how)
    if name == "logaddexp":
        return jscan.cumlogsumexp(x, **how)
    near_one = 1 + x / 4096
    if name == "product":
        return jscan.cumprod(near_one, **how)
    if name == "affine":
        return jscan.associative_scan(operators.affine, (near_one, x), **how)
    ones = jnp.ones_like(x)
    return jscan.associative_scan(joined_moments, (ones, x, 0 * x), **how)


NAMES = ("sum", "product", "logaddexp", "affine", "Welford")
FORMS: dict[str, dict[str, Any]] = {
    "whole": {},
    "reversed": {"reverse": True},
    "segmented": {"segmented": True},
    "segmented, reversed": {"segmented": True, "reverse": True},
    "rows": {"axis": 1},
    "lanes": {"axis": 0},
}


@jax.jit
def fingerprint(arrays: Any) -> jax.Array:
    """A number that differs where a bit does, but for one case in 2^32: sums wrap in any order."""
    found = jnp.uint32(0)
    for x in jax.tree.leaves(arrays):
        bits = jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(-1)
        weights = jax.lax.iota(jnp.uint32, bits.size) * jnp.uint32(2654435761) | jnp.uint32(1)
        found = found * jnp.uint32(31) + jnp.sum(bits * weights, dtype=jnp.uint32)
    return found


@functools.cache
def runner(name: str, form: str) -> Callable[..., jax.Array]:
    """A scan of an array, by flags if there are any, and what its bits amount to."""
    how = {name: value for name, value in FORMS[form].items() if name != "segmented"}
    return jax.jit(lambda x, flags: fingerprint(scan_of(name, x, segments=flags, **how)))


def launcher(name: str, form: str, n: int) -> Callable[[], int]:
    """A function that runs a scan of so many elements, and returns what its bits amount to."""
    shape = {"rows": (16, n // 16), "lanes": (n // 64, 64)}.get(form, (n,))
    x, flags = jax.random.normal(jax.random.key(n), shape), None
    if "segmented" in FORMS[form]:
        flags = jax.random.uniform(jax.random.key(1), shape) < 1e-5
    return lambda: int(runner(name, form)(x, flags))


@contextlib.contextmanager
def beside_a_busy_process() -> Iterator[None]:
    """Another process takes turns with ours: tiles wait for tiles that do not run just then."""
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], env=environment, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline().strip() == "busy"
            yield
            assert other.poll() is None, "the other process ended early"
        finally:
            other.kill()


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_runs_have_the_same_bits(name, form):
    run = launcher(name, form, 2**22 + 64)
    assert len({run() for _ in range(20)}) == 1


MANY = [
    *(("sum", form) for form in FORMS),
    *((name, form) for name in NAMES[1:] for form in ("whole", "segmented, reversed")),
    ("affine", "lanes"),
    ("logaddexp", "rows"),
]
"""Scans of 2^28 elements, which take a second to compile and run a hundred times, or two."""


@pytest.mark.gpu
@pytest.mark.thorough
@pytest.mark.parametrize(("name", "form"), MANY)
def test_a_hundred_runs_of_many_elements_have_the_same_bits(name, form):
    """Alone, on eight threads, and with operands and words in other places of memory."""
    run = launcher(name, form, 2**28)
    found = {run() for _ in range(60)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found |= set(pool.map(lambda _: run(), range(40)))
    beside = jnp.ones(2**24 + 12345)
    found.add(launcher(name, form, 2**28)())
    assert beside.size
    assert len(found) == 1


@pytest.mark.gpu
@pytest.mark.thorough
def test_a_hundred_runs_beside_a_busy_process_have_the_same_bits():
    with beside_a_busy_process():
        for name, form in (*MANY[:3], ("affine", "lanes"), ("Welford", "segmented, reversed")):
            run = launcher(name, form, 2**26)
            assert len({run() for _ in range(100)}) == 1, (name, form)


@pytest.mark.gpu
def test_the_sets_of_bits_of_this_device(record_property):
    """What there is to compare between kinds of devices: printed with -s, and in the report."""
    for name in NAMES:
        bits = launcher(name, "whole", 2**22)()
        record_property(f"{jax.devices()[0].device_kind}, {name}", bits)
        print(f"\n{jax.devices()[0].device_kind}, {name}: {bits:08x}", end="")


# --- totals in pairs ----------------------------------------------------------------------------


def ulps_of_tenths(n: int, **how: Any) -> float:
    """The largest error of sums of 0.1, in neighbours of float32."""
    x = np.full(n, 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    found = np.asarray(jscan.cumsum(jnp.asarray(x), **how), np.float64)
    return float(np.max(np.abs(found - exact) / np.spacing(exact.astype(np.float32))))


def test_a_chain_of_many_links_rounds_once():
    """A tile's 8 numbers are rounded 3 times, what is before them once, and both together once."""
    tile = tuning.Tuning(length=8, lanes=1, warps=1, window=4)
    with primitives.interpreted(), primitives.tiled(tile):
        assert ulps_of_tenths(4001, method=METHOD) < 1.5
        assert ulps_of_tenths(4001, method="lookback") > 15


@pytest.mark.product
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(2, 33), (5, 47), (3, 64), (1, 50)])
def test_all_tiles_tell_alike(shape, reverse):
    """Those too in which no row begins, of rows that begin inside of memory's words."""
    tile = tuning.Tuning(length=16, lanes=1, warps=1, window=4, strip=16)
    x = np.random.default_rng(0).integers(0, 3, shape).astype(np.float32)
    with primitives.interpreted(), primitives.tiled(tile):
        found = jscan.cumsum(jnp.asarray(x), axis=1, reverse=reverse, method=METHOD)
    kept = slice(None, None, -1 if reverse else 1)
    np.testing.assert_array_equal(np.asarray(found)[:, kept], np.cumsum(x[:, kept], 1))


@pytest.mark.gpu
@pytest.mark.parametrize("n", [2**22, 2**25 + 7, 2**28])
def test_sums_of_many_elements_are_as_near_as_those_of_jax(n):
    x = jnp.full(n, 0.1, jnp.float32)
    exact = np.arange(1, n + 1) * np.float64(np.float32(0.1))

    def error(y: Any) -> float:
        return float(np.max(np.abs(np.asarray(y, np.float64) - exact) / exact))

    assert error(jscan.cumsum(x, method=METHOD)) <= error(jax.lax.cumsum(x))


def test_links_keep_the_sign_of_zeros():
    pairs = [(jnp.asarray(np.float32(x)), jnp.float32(0)) for x in (-0.0, 0.0, 1.0, -1.0)]
    signs = [
        [bool(jnp.signbit(compensation.linked((x, zero), (y, zero))[0])) for y, zero in pairs]
        for x, zero in pairs
    ]
    expected = [[bool(jnp.signbit(x + y)) for y, _ in pairs] for x, _ in pairs]
    assert signs == expected


# --- reductions by segments ---------------------------------------------------------------------


def lengths_of(kind: str, n: int) -> Any:
    """The lengths of segments of so many elements: some that many tiles share, some short ones."""
    if kind == "one":
        return [n]
    short = [n // 4 // 1000] * 1000
    return [n // 4, *short, n - n // 4 - sum(short)]


@pytest.mark.gpu
@pytest.mark.parametrize("inner", [(), (64,)])
@pytest.mark.parametrize("kind", ["one", "some"])
@pytest.mark.parametrize("precise", [False, True])
def test_sums_by_sorted_ids_have_the_same_bits(kind, inner, precise):
    n = 2**24 // math.prod(inner) + 5
    lengths = np.asarray(lengths_of(kind, n))
    ids = jnp.asarray(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
    x = jax.random.normal(jax.random.key(0), (n, *inner))

    def totals(x: Any, ids: Any) -> Any:
        how: dict[str, Any] = {"method": METHOD, "precise": precise}
        return fingerprint(jscan.segment_sum(x, ids, len(lengths), True, **how))

    run = jax.jit(totals)
    assert len({int(run(x, ids)) for _ in range(50)}) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["flags", "whole"])
def test_reductions_by_an_operator_have_the_same_bits(kind):
    n = 2**22 + 5
    a, b = (jax.random.normal(jax.random.key(k), (n,)) for k in range(2))
    flags = jax.random.uniform(jax.random.key(2), (n,)) < 1e-5

    def totals(a: Any, b: Any, flags: Any) -> Any:
        how: dict[str, Any] = {"segments": flags, "num_segments": 64} if kind == "flags" else {}
        elems = 1 + a / 4096, b
        return fingerprint(jscan.reduce(operators.affine, elems, method=METHOD, **how))

    run = jax.jit(totals)
    assert len({int(run(a, b, flags)) for _ in range(50)}) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("inner", [(), (128,)])
def test_sums_of_unsorted_ids_by_a_plan_have_the_same_bits(inner):
    n, count = 2**20, 1000
    x = jax.random.normal(jax.random.key(0), (n, *inner))
    ids = jax.random.randint(jax.random.key(1), (n,), 0, count)
    plan = jscan.SegmentPlan(ids, count)
    run = jax.jit(lambda x, plan: fingerprint(jscan.segment_sum(x, plan, method=METHOD)))
    assert len({int(run(x, plan)) for _ in range(50)}) == 1


@pytest.fixture
def interpreted():
    """Kernels in small tiles, interpreted."""
    tile = tuning.Tuning(length=16, lanes=1, warps=1, window=2, strip=8)
    with primitives.interpreted(), primitives.tiled(tile):
        yield


@pytest.mark.usefixtures("interpreted")
def test_a_plan_combines_elements_as_sorted_ones_are():
    """So its order is that of elements in each segment, and nothing of it is a scatter's."""
    rng = np.random.default_rng(0)
    x, ids = rng.normal(size=300).astype(np.float32), rng.integers(-1, 9, 300)
    order = np.argsort(ids, kind="stable")
    by_plan = jscan.segment_sum(x, jscan.SegmentPlan(ids, 9), method=METHOD)
    in_order = order[ids[order] >= 0]
    drops = 300 - len(in_order)
    kept = np.concatenate([x[in_order], np.zeros(drops, np.float32)])
    numbers = np.concatenate([ids[in_order], np.full(drops, 9)])
    in_a_row = jscan.segment_sum(kept, numbers, 9, True, method=METHOD)
    np.testing.assert_array_equal(by_plan, in_a_row)
    wide = np.zeros(9)
    np.add.at(wide, ids[ids >= 0], x[ids >= 0].astype(np.float64))
    np.testing.assert_allclose(by_plan, wide, rtol=1e-5, atol=1e-5)


def test_ids_that_are_not_sorted_need_a_plan():
    with pytest.raises(ValueError, match="indices_are_sorted"):
        jscan.segment_sum(np.ones(4, np.float32), [1, 0, 1, 0], 2, method=METHOD)


@pytest.mark.parametrize(("dtype", "kernel"), [("float32", "repeatable"), ("int32", "lookback")])
def test_one_line_makes_it_the_default_of_floats(monkeypatch, dtype, kernel):
    x = jax.ShapeDtypeStruct((2**20,), dtype)
    sums = functools.partial(jscan.cumsum, exclusive=True)
    assert "jscan_lookback" in cuda_program(sums, x)
    monkeypatch.setattr(strategies, "BY_DEFAULT", METHOD)
    assert f"jscan_{kernel}" in cuda_program(lambda x: sums(x), x)
