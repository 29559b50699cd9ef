"""Kernels as text in Triton's language: what the text computes, by Triton's interpreter."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import bits, operators, primitives
from jscan.arguments.descriptors import known_heads
from jscan.kernels import absent, engines, flagging, language, tuning
from tests import reference
from tests.engines import STRATEGIES
from tests.kernels import test_products, triton_interpreter
from tests.kernels.test_source import INTEGERS, mapping, written

FLOATS = ("float16", "float32", "float64")  # the interpreter has no bfloat16
TINY = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-13}


def edges(dtype, turn, n=64):
    """Numbers at which functions turn, then random ones."""
    rng, dtype = np.random.default_rng(turn), jnp.dtype(dtype)
    if dtype == np.bool_:
        return rng.random(n) < 0.5
    if dtype.kind == "f":
        info = np.finfo(dtype)
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, np.inf, -np.inf, np.nan]
        special += [float(info.max), float(info.min), 3.7, -3.7, 127.6, -128.9, 255.5]
        special += [2.0**31, -(2.0**31), 2.0**33, 2.0**63, 2.0**64, 1e3, 0.99, -0.99]
        with np.errstate(over="ignore"):
            numbers = [np.asarray(special), rng.normal(size=n - len(special)) * 3]
            return np.roll(np.concatenate(numbers).astype(dtype), 7 * turn)
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    turning = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, least, most - 1, most]
    random = rng.integers(least, most, n - len(turning), dtype, endpoint=True)
    return np.roll(np.concatenate([np.asarray(turning, object), random]).astype(dtype), 7 * turn)


def computed(fn, *arrays):
    """What the text of a function computes of arrays, and what lax does."""
    expected = np.asarray(jax.jit(fn)(*arrays))
    n = len(arrays[0])

    def of_bytes(*values):
        pairs = zip(values, arrays, strict=True)
        return fn(*(v != np.uint8(0) if a.dtype == np.bool_ else v for v, a in pairs))

    dtypes = [*(a.dtype.name for a in arrays), expected.dtype.name]
    program = written(mapping(of_bytes, n), dtypes, n)
    result = np.zeros(n, expected.dtype)
    triton_interpreter.run(program, [*arrays, result])
    return result, expected


def compare(fn, *dtypes, near=0.0):
    """Compares them bit by bit, or as close as ``near``."""
    found, expected = computed(fn, *(edges(d, turn) for turn, d in enumerate(dtypes)))
    if near:
        least = 2 * float(np.finfo(found.dtype).tiny)
        np.testing.assert_allclose(
            found.astype(float), expected.astype(float), rtol=near, atol=least
        )
        return
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        number = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min"])
def test_arithmetic(name, dtype):
    compare(getattr(lax, name), dtype, dtype)


OF_OPERATIONS = {
    **{name: (getattr(lax, name), 2) for name in ("add", "sub", "mul", "div", "rem")},
    **{name: (getattr(lax, name), 2) for name in ("max", "min", "pow", "atan2", "lt", "ne")},
    **{name: (getattr(lax, name), 1) for name in ("neg", "abs", "sign", "square", "is_finite")},
    **{name: (getattr(lax, name), 1) for name in ("exp", "tanh", "logistic", "floor", "round")},
    "clamp": (lax.clamp, 3),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), 1),
    "convert": (lambda x: lax.convert_element_type(x, np.int64), 1),
    "select": (lambda x, y: lax.select(x < y, x, y), 2),
    "fma": (language.fma, 3),
    "fma, minus": (lambda x, y, z: language.fma(x, y, z, minus=True), 3),
}
"""Functions of floats, and how many they take."""


@pytest.mark.parametrize("name", OF_OPERATIONS)
def test_operands_that_are_operations_keep_together(name):
    fn, count = OF_OPERATIONS[name]
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 64)) * 3
    for makes in (lambda x, y: (x + y, x - y, y - x), lambda x, y: (x * y, y / x, -x)):
        found, expected = computed(lambda x, y: fn(*makes(x, y)[:count]), x, y)  # noqa: B023
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name, dtype):
    compare(getattr(lax, name), dtype, dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_signs_choices_and_bounds(dtype):
    for fn in (lax.neg, lax.sign, lax.square):
        compare(fn, dtype)
    if not dtype.startswith("u"):
        compare(lax.abs, dtype)
    compare(lambda x: lax.integer_pow(x, 5), dtype, near=TINY.get(dtype, 0))
    compare(lambda x, y: lax.select(x < y, x, y), dtype, dtype)
    compare(lax.clamp, dtype, dtype, dtype)
    compare(lambda x, y: lax.select_n(lax.lt(x, y).astype(jnp.int32) * 2, x, y, -y), dtype, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_of_integers(dtype):
    def divisor(y):
        return jnp.where((y == 0) | (y == jnp.asarray(-1).astype(y.dtype)), jnp.ones_like(y), y)

    compare(lambda x, y: lax.div(x, divisor(y)), dtype, dtype)
    compare(lambda x, y: lax.rem(x, divisor(y)), dtype, dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name, dtype):
    compare(getattr(lax, name), dtype, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_and_more(dtype):
    for shift in (lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical):
        compare(shift, dtype, dtype)
        for count in (0, 3, 7, 40, 100):
            compare(lambda x: shift(x, np.asarray(count).astype(x.dtype)), dtype)  # noqa: B023


@pytest.mark.parametrize("dtype", INTEGERS)
def test_counts_of_bits(dtype):
    compare(lax.population_count, dtype)
    compare(lax.clz, dtype)
    if not dtype.startswith("u"):
        compare(lax.bitwise_not, dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, "bool"])
def test_conversions(dtype, target):
    compare(lambda x: lax.convert_element_type(x, jnp.dtype(target)), dtype)


@pytest.mark.parametrize(
    ("dtype", "target"),
    [("float32", "int32"), ("float32", "uint32"), ("float64", "int64"), ("int16", "float16")],
)
def test_bits_as_another_type(dtype, target):
    compare(lambda x: lax.bitcast_convert_type(x, jnp.dtype(target)), dtype)


LIBRARY = (
    *("exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "erf", "logistic", "ceil", "floor"),
)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", LIBRARY)
def test_functions_of_the_library(name, dtype):
    compare(getattr(lax, name), dtype, near=3 * TINY[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_floats(dtype):
    near = TINY[dtype]
    compare(lax.div, dtype, dtype, near=near)
    compare(lax.rem, dtype, dtype, near=near)
    compare(lax.atan2, dtype, dtype, near=near)
    compare(lax.pow, dtype, dtype, near=30 * near)
    compare(lax.is_finite, dtype)
    compare(lambda x: lax.integer_pow(x, -2), dtype, near=near)
    compare(lambda x: lax.integer_pow(x, 0), dtype)
    for method in lax.RoundingMethod:
        compare(lambda x: lax.round(x, method), dtype)  # noqa: B023
    for name in ("sin", "cos", "tan", "lgamma"):
        fn = getattr(lax, name)
        compare(lambda x: fn(jnp.where(jnp.abs(x) < 30, x, 1)), dtype, near=60 * near)  # noqa: B023
    for name in ("atanh", "erf_inv", "erfc"):
        compare(getattr(lax, name), dtype, near=60 * near)
    if dtype != "float16":
        compare(lax.nextafter, dtype, dtype)


def test_branches_and_loops():
    """A switch in a loop that swaps what it carries, in a branch, with constants as results."""

    def body(program, refs):
        del program
        place = [(lax.iota(jnp.int32, 8), 1)]
        x = language.load(refs[0], place)

        def step(carry):
            i, left, right, tile = carry
            found = lax.switch(
                lax.rem(i, np.int32(3)),
                [lambda: (tile + left, i), lambda: (tile, np.int32(7)), lambda: (-tile, -left)],
            )
            return i + np.int32(1), right, left + found[1], found[0]

        def turning(tile):
            start = (np.int32(0), np.int32(1), jnp.sum(x, dtype=jnp.int32), tile)
            return lax.while_loop(lambda c: (c[0] < 6) & (c[1] < 1000), step, start)[1:]

        result = lax.cond(jnp.max(x) > 3, turning, lambda tile: (np.int32(5),) * 2 + (tile,), x)
        language.store(refs[1], place, result[2] + result[0] * np.int32(10) + result[1])

    def expected(x):
        if x.max() <= 3:
            return x + 55
        i, left, right, tile = 0, 1, int(x.sum()), x
        while i < 6 and left < 1000:
            found = [(tile + left, i), (tile, 7), (-tile, -left)][i % 3]
            i, left, right, tile = i + 1, right, left + found[1], found[0]
        return tile + left * 10 + right

    program = written(body, ("int32", "int32"))
    for x in (np.arange(8, dtype=np.int32), np.arange(-8, 0, dtype=np.int32)):
        result = np.zeros(8, np.int32)
        triton_interpreter.run(program, [x, result])
        np.testing.assert_array_equal(result, expected(x))


# --- kernels ------------------------------------------------------------------------------------


@pytest.fixture
def interpreter(monkeypatch):
    """Kernels in small tiles, run by Triton's interpreter."""
    made = triton_interpreter.Engine()
    monkeypatch.setattr(engines, "running", lambda: made)
    tile = tuning.Tuning(length=16, lanes=1, warps=1, window=4)
    with primitives.interpreted(), primitives.tiled(tile):
        yield made


N = 67


def numbers(dtype):
    """A row, and flags of it."""
    rng = np.random.default_rng(3)
    x, flags = rng.integers(-9, 9, N).astype(dtype), rng.random(N) < 0.1
    return (x * np.complex64(1 + 2j) if dtype == "complex64" else x), flags


SCANNED = [
    *((method, "int32") for method in STRATEGIES),
    *(("lookback", dtype) for dtype in ("int8", "int64", "float32", "complex64")),
]


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    ("method", "dtype", "segmented"),
    [
        # By default half of the cases: whole rows and segments in turn.
        pytest.param(*case, segmented, marks=[pytest.mark.thorough] * ((place + segmented) % 2))
        for place, case in enumerate(SCANNED)
        for segmented in (False, True)
    ],
)
def test_scans_of_every_strategy(method, dtype, segmented):
    x, flags = numbers(dtype)
    segments = flags if segmented else None
    for how in ({}, {"reverse": True}, {"exclusive": True}):
        found = jscan.cumsum(x, segments=segments, method=method, **how)
        expected = reference.scan(np.add, x, flags=segments, identity=0, **how)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("n", "length"), [(75, 16), (300, 128)])
def test_matrices_are_read_as_they_lie(n, length):
    """Of one number a word, and of four."""
    x = np.random.default_rng(5).integers(-3, 4, (n, 2, 2)).astype(np.int32)
    with primitives.tiled(tuning.Tuning(length=length, lanes=1, warps=1, window=4)):
        found = jscan.associative_scan(jnp.matmul, x, method="lookback")
    want = x.copy()
    for t in range(1, len(x)):
        want[t] = want[t - 1] @ x[t]
    np.testing.assert_array_equal(found, want)


@pytest.mark.usefixtures("interpreter")
def test_sums_in_pairs_are_rounded_once():
    x = np.asarray([0.1, 1e6, -1e6, 3e-5] * 16, np.float32)
    right = np.cumsum(x.astype(np.float64)).astype(np.float32)
    for method in ("lookback", "repeatable"):
        found = jscan.cumsum(x, method=method, precise=True)
        np.testing.assert_array_equal(found, right)
        found = jscan.segment_sum(
            x, np.repeat(np.arange(2), (35, 29)), 2, True, method=method, precise=True
        )
        totals = [np.float32(part.astype(np.float64).sum()) for part in (x[:35], x[35:])]
        np.testing.assert_array_equal(found, totals)


@pytest.mark.usefixtures("interpreter")
def test_reductions_ranks_and_derivatives():
    x, flags = numbers("float32")
    starts = np.flatnonzero(flags | (np.arange(N) == 0))
    totals = jscan.reduce(operators.add, x, segments=flags, num_segments=N, method="lookback")[
        : len(starts)
    ]
    np.testing.assert_array_equal(totals, np.add.reduceat(x, starts))
    np.testing.assert_array_equal(jscan.enumerate(flags), np.cumsum(flags) - flags)
    order = np.argsort(flags, kind="stable")
    np.testing.assert_array_equal(jscan.split(x, flags), x[order])
    gradient = jax.grad(lambda x: jnp.sum(jscan.cumsum(x) * np.arange(N, dtype=np.float32)))(x)
    np.testing.assert_array_equal(gradient, np.cumsum(np.arange(N)[::-1])[::-1])
    half = np.full(N, 0.5, np.float32)
    found = jscan.linear_recurrence(half, x)
    expected = reference.scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (half, x))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("inner", [(), (6,)])
def test_reductions_by_a_plan(monkeypatch, inner):
    monkeypatch.setattr(absent, "LEAST", 0)
    monkeypatch.setattr(absent, "IDS", 0)
    rng = np.random.default_rng(4)
    x, ids = rng.integers(-9, 9, (N, *inner)).astype(np.float32), rng.integers(-1, 40, N)
    tile = tuning.Tuning(length=16, lanes=4 if inner else 1, warps=1, window=2, strip=8, together=2)
    with primitives.tiled(tile):
        totals = jscan.segment_sum(x, jscan.SegmentPlan(ids, 39), method="lookback")
    expected = reference.reduce_by_segments(np.add, x, ids, 39, identity=0)
    reference.assert_equal(totals, expected)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64"])
def test_moves_by_strips(dtype):
    x, flags = numbers(dtype)
    tile = tuning.Tuning(length=32, lanes=1, warps=1, window=2, strip=16)
    with primitives.tiled(tile):
        packed = jscan.pack(x, flags, size=20, fill_value=7)
        parted = jscan.split(x, flags)
        [places] = jscan.nonzero(flags, size=20)
    filled = np.concatenate([x[flags], np.full(20, 7)])[:20]
    np.testing.assert_array_equal(packed, filled)
    np.testing.assert_array_equal(parted, np.concatenate([x[~flags], x[flags]]))
    found = np.concatenate([np.flatnonzero(flags), np.zeros(20)])[:20]
    np.testing.assert_array_equal(places, found)


@pytest.mark.product
@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("width", [None, 3])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64"])
def test_products_of_sparse_matrices(dtype, width):
    given = test_products.drawn(dtype, width=width)
    tile = tuning.Tuning(length=16, lanes=1 if width is None else 4, warps=1, window=2, strip=8)
    with primitives.tiled(tile):
        found = test_products.product(*given)
    np.testing.assert_array_equal(found, test_products.looped(*given, pair="sum-product"))


@pytest.mark.product
@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("shape", [(4100,), (3, 1370), (2, 2048)], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64"])
def test_flags_of_ids(monkeypatch, dtype, shape):
    """Bytes that are written four in a word, and words of bits, in tiles with ends and without."""
    monkeypatch.setattr(flagging, "LEAST", 1)
    ids = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    expected = known_heads(ids, runs=True)
    with jax.enable_x64(True):
        how = {"axis": ids.ndim - 1, "interpret": False}
        given = jnp.asarray(ids)
        found = jax.jit(lambda ids: flagging.heads_of_runs(ids, **how))(given)
        words = jax.jit(lambda ids: flagging.words_of_runs(ids, **how))(given)
        own = bits.packed(jnp.asarray(expected), np.dtype(np.uint8))
        n = shape[-1]
        unpacked = jax.jit(lambda words: flagging.unpacked(words, n=n, **how))(own)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(bits.known(words, ids.size), expected.reshape(-1))
    np.testing.assert_array_equal(unpacked, expected)
