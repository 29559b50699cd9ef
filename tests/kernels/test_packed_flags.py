"""Kernels that read head flags as words of bits, against loops in NumPy and flags of bytes."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from benchmarks.measuring import triton_ir
from jscan import Segments, bits, kernels, operators, primitives
from jscan.kernels import marking, tuning
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine
from tests.kernels.test_lowering import cuda_program, h200

STRATEGIES = ("lookback", "chained", "reduce_then_scan", "scan_then_propagate", "repeatable")
INTERPRETED = [Engine(f"{s}-interpreted", s, (), interpreted=True) for s in STRATEGIES]
ON_A_GPU = [
    Engine(f"{s}-{name}", s, (), gpu=True, builder=builder)
    for s in ("block", *STRATEGIES)
    for name, builder in (("gpu", None), ("gpu-by-jax-triton", "jax-triton"))
]
every_engine = pytest.mark.parametrize(
    "strategy",
    [
        *(pytest.param(e, id=e.name) for e in INTERPRETED),
        pytest.param(Engine("block-interpreted", "block", (), interpreted=True), id="block"),
        *(pytest.param(e, id=e.name, marks=pytest.mark.gpu) for e in ON_A_GPU),
    ],
)
on_a_gpu = pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(INTERPRETED[0], id="lookback"),
        *(pytest.param(e, id=e.name, marks=pytest.mark.gpu) for e in ON_A_GPU),
    ],
)
every_word = pytest.mark.parametrize("word", ["uint8", "uint32"])
SHORT = tuning.Tuning(length=64, lanes=1, warps=1, window=4, strip=32)


def packed(flags, word):
    """Segments of the flags, by their words."""
    return Segments.from_packed(Segments.from_flags(flags).packed(word), flags.shape[-1])


def run(strategy, call, *operands):
    """The results of a call that takes a method, with short tiles on a machine without a GPU."""
    tile = SHORT if strategy.interpreted and strategy.method != "block" else None
    with strategy.active(), primitives.tiled(tile):
        found = jax.jit(functools.partial(call, method=strategy.method))(*operands)
    return jax.tree.map(np.asarray, found)


@pytest.mark.sweep
@every_word
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "own"), [((257,), True), ((192,), True), ((3, 96), True), ((4, 70), True)]
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@every_engine
def test_sums(strategy, dtype, shape, own, reverse, exclusive, word):
    rng = np.random.default_rng(shape[-1])
    x = rng.integers(-9, 9, shape).astype(dtype)
    flags = np.array(head_flags(shape if own else shape[-1:], share=0.05))
    how = {"axis": len(shape) - 1, "reverse": reverse, "exclusive": exclusive}

    def call(x, segments, method):
        return jscan.cumsum(x, segments=segments, method=method, **how)

    identity = x.dtype.type(0)
    expected = reference.scan(np.add, x, flags=flags, identity=identity, **how)
    result = run(strategy, call, x, packed(flags, word))
    reference.assert_equal(result, np.asarray(expected).astype(dtype))


@on_a_gpu
def test_flags_shared_by_rows_and_operators_of_two_leaves(strategy):
    rng = np.random.default_rng(3)
    a, b = rng.integers(-2, 3, (2, 3, 160)).astype(np.int32)
    flags = np.array(head_flags((160,), share=0.1))

    def call(a, b, segments, method):
        how = {"axis": 1, "segments": segments, "method": method}
        return jscan.linear_recurrence(a, b, **how), jscan.cummax(b, **how)

    recurrence, highest = run(strategy, call, a, b, packed(flags, "uint32"))
    _, expected = reference.scan(operators.affine, (a, b), axis=1, flags=flags)
    np.testing.assert_array_equal(recurrence, expected)
    np.testing.assert_array_equal(highest, reference.scan(np.maximum, b, axis=1, flags=flags))


def test_kernels_read_words():
    """Where they can; elsewhere words are spread out in memory first."""

    def sizes(shape, of_words, **how):
        words = jax.ShapeDtypeStruct(of_words, jnp.uint32)

        def call(x, words):
            axis = how.get("axis", 0)
            return jscan.cumsum(x, segments=Segments.from_packed(words, x.shape[axis]), **how)

        program = cuda_program(call, jax.ShapeDtypeStruct(shape, jnp.float32), words)
        [found] = re.findall(r"custom_call @\S*triton\S*\(.*\) .* : \((.*?)\) ->", program)
        return re.findall(r"tensor<(\d+)x(\w+)>", found)[1]

    n, words = 2**20, 2**15
    assert sizes((n,), (words,)) == (str(words), "ui32")
    assert sizes((n - 77,), (-(-(n - 77) // 32),), reverse=True)[1] == "ui32"
    assert sizes((64, 4096), (64, 128), axis=1) == (str(64 * 128), "ui32")
    assert sizes((2**14, 64), (2**9,), axis=0) == (str(2**14), "i1")


def test_each_bit_is_read_for_itself():
    """The assembler, of several bits at once, took one word's for another's (NOTES, "R2P")."""
    x, words = jax.ShapeDtypeStruct((4096,), jnp.int8), jax.ShapeDtypeStruct((128,), jnp.uint32)

    def call(x, words):
        return jscan.cummax(x, segments=Segments.from_packed(words, 4096))

    with h200():
        lowered = jax.jit(call).trace(x, words).lower(lowering_platforms=("cuda",))
    [kernel] = triton_ir.kernels_of(lowered)
    assert "%lanemask_lt" in kernel.text


@pytest.mark.parametrize("build", [Segments.from_offsets, Segments.from_lengths])
def test_bounds_become_words(build):
    """A scan by traced bounds reads and writes nothing of the axis's length but its operands."""
    n = 2**16

    def sums(x, given):
        return jscan.cumsum(x, segments=build(given, n))

    def flags(given):
        return build(given, n).flags

    given = jax.ShapeDtypeStruct((101,), jnp.int32)
    program = cuda_program(sums, jax.ShapeDtypeStruct((n,), jnp.float32), given)
    assert set(re.findall(rf"tensor<{n}x(\w+)>", program)) == {"f32"}
    assert program.count('"stablehlo.scatter"(') == 1
    assert re.search(rf"tensor<{n // 32}xui32>", program)
    # XLA makes one loop of what is behind the scatter: it reads words and writes flags.
    unpacked = cuda_program(flags, given).split('"stablehlo.scatter"(')[1]
    assert "custom_call" not in unpacked
    assert set(re.findall(rf"tensor<{n}x(\w+)>", unpacked)) <= {"ui32", "i1"}


def test_bits_of_many_bounds_are_made_as_these_are_read():
    """The reduction reads the bounds alone: nothing of their number is made of them before."""
    count = 2**20

    def sums(x, offsets):
        return jscan.cumsum(x, segments=Segments.from_offsets(offsets, 2**22))

    operands = (
        jax.ShapeDtypeStruct((2**22,), jnp.float32),
        jax.ShapeDtypeStruct((count,), "int32"),
    )
    program = cuda_program(sums, *operands)
    assert "stablehlo.scatter" not in program
    for made in ("compare", "select", "shift_left", "remainder", "pad"):
        assert f"stablehlo.{made}" not in program


@pytest.mark.product
@pytest.mark.parametrize("least", [0, marking.LEAST])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 200])
def test_words_of_bounds(monkeypatch, n, least):
    """By a reduction, which takes many, and by a scatter."""
    monkeypatch.setattr(marking, "LEAST", least)
    rng = np.random.default_rng(n)
    for bounds in (
        [0, n],
        [0, 0, n, n, n],
        [0, *np.sort(rng.integers(0, n, 20)), n],
        [0, *np.sort(rng.integers(0, n, 9)), n - 1],
    ):
        heads = np.zeros(n, bool)
        heads[[b for b in bounds if b < n]] = True
        given = jnp.array(bounds, jnp.int32)
        words = jax.jit(lambda b: kernels.words_of_bounds(b, axis=0, n=n, interpret=True))(given)
        np.testing.assert_array_equal(bits.known(words, n), heads)
        assert not bits.known(words, 32 * words.size)[n:].any()


@on_a_gpu
def test_scans_by_traced_bounds(strategy):
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, (3, 192)).astype(np.int32)
    bounds = np.sort(rng.integers(0, 193, (3, 12)))
    bounds[:, 0], bounds[:, -1] = 0, 192
    heads = np.zeros((3, 193), bool)
    heads[np.arange(3)[:, None], bounds] = True

    def call(x, bounds, method):
        def sums(x, bounds):
            return jscan.cumsum(x, segments=Segments.from_offsets(bounds, 192), method=method)

        return jax.vmap(sums)(x, bounds)

    result = run(strategy, call, x, bounds)
    np.testing.assert_array_equal(result, reference.scan(np.add, x, axis=1, flags=heads[:, :192]))


@pytest.mark.parametrize("rows", [False, True])
def test_words_are_mapped(rows):
    flags = np.array(head_flags((3, 70), share=0.2))
    x = np.arange(3 * 70, dtype=np.float32).reshape(3, 70)
    words = np.asarray(Segments.from_flags(flags).packed())

    def sums(x, words):
        return jscan.cumsum(x, segments=Segments.from_packed(words, 70))

    if rows:
        found = jax.vmap(sums)(x, words)
        expected = reference.scan(np.add, x, axis=1, flags=flags)
    else:
        found = jax.vmap(sums, (None, 0))(x[0], words)
        expected = reference.scan(np.add, np.broadcast_to(x[0], (3, 70)), axis=1, flags=flags)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("fn", [jnp.add, jnp.maximum], ids=["add", "maximum"])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("form", ["bits", "ids"])
def test_derivatives_are_those_of_flags(form, started, fn):
    flags = np.array(head_flags((35,), share=0.2))
    flags[0] = flags[0] or form == "ids"
    by_flags = Segments.from_flags(flags)
    segments = Segments.from_ids(by_flags.ids) if form == "ids" else packed(flags, "uint8")
    init = np.float64(0.5) if started else None
    x = np.random.default_rng(0).normal(size=35)

    def total(x, segments):
        y = jscan.associative_scan(fn, x, segments=segments, init=init)
        return jnp.sum(jnp.sin(y) * jnp.arange(35.0))

    slope = jax.jit(jax.value_and_grad(total))
    found, expected = (slope(x, s) for s in (segments, by_flags))
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-12), found, expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", ["uint8", "uint32", "ids", "offsets"])
def test_recurrences_begin_with_h0_beside_any_segments(form, reverse):
    flags = np.array(head_flags((2, 70), share=0.2))[0]
    a, b, h0 = np.random.default_rng(0).normal(size=(3, 70))
    by_flags = Segments.from_flags(flags)
    of_form = {
        "ids": lambda: Segments.from_ids(by_flags.ids),
        "offsets": lambda: Segments.from_offsets(by_flags.offsets(), 70),
    }
    segments = of_form[form]() if form in of_form else packed(flags, form)

    def slopes(a, b, h0, segments):
        def total(*given):
            h = jscan.linear_recurrence(*given, reverse=reverse, segments=segments)
            return jnp.sum(jnp.sin(h))

        return jax.value_and_grad(total, (0, 1, 2))(a, b, h0)

    found, expected = (jax.jit(slopes)(a, b, h0[0], s) for s in (segments, by_flags))
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-12), found, expected)


def test_a_sum_from_a_start_is_transposed_by_bits():
    flags = np.array(head_flags((35,), share=0.2))
    flags[0] = False
    words = np.array(Segments.from_flags(flags).packed())
    words[0] &= ~np.uint32(1)
    cotangent = np.random.default_rng(0).normal(size=35)

    def transposed(segments):
        def sums(x, init):
            return jscan.cumsum(x, segments=segments, init=init)

        return jax.linear_transpose(sums, cotangent, np.float64(0))(jnp.asarray(cotangent))

    every = Segments.from_packed(words, 35), Segments.from_flags(flags)
    found, expected = (jax.jit(transposed)(segments) for segments in every)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.product
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("spec", [(None, "x"), ("x", None)])
@pytest.mark.parametrize("form", ["bits", "offsets", "ids"])
def test_packed_flags_on_meshes(form, kind, spec):
    kinds = (getattr(jax.sharding.AxisType, kind),)
    mesh = jax.make_mesh((2,), ("x",), axis_types=kinds, devices=jax.devices()[:2])
    flags = np.array(head_flags((70,), share=0.2))
    x = np.arange(280, dtype=np.float32).reshape(4, 70)
    segments = Segments.from_flags(flags)
    builds = {
        "bits": (lambda words: Segments.from_packed(words, 70), segments.packed),
        "offsets": (lambda offsets: Segments.from_offsets(offsets, 70), segments.offsets),
        "ids": (Segments.from_ids, lambda: segments.ids),
    }
    build, made = builds[form]
    told = np.asarray(made())
    with jax.set_mesh(mesh):
        placed = jax.device_put(x, jax.NamedSharding(mesh, jax.P(*spec)))
        beside = jax.device_put(told, jax.NamedSharding(mesh, jax.P()))

        @jax.jit
        def sums(x, told):
            return jscan.cumsum(x, axis=1, segments=build(told))

        found = sums(placed, beside)
    np.testing.assert_array_equal(found, reference.scan(np.add, x, axis=1, flags=flags))
