"""Head flags that a kernel finds in ids, wide flags and words, against NumPy."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, bits, primitives
from jscan.arguments.descriptors import known_heads
from jscan.kernels import flagging, tuning
from tests import reference
from tests.engines import by_kernel
from tests.kernels.test_lowering import cuda_program

# The first engine's kernels are called here as they are, not by the rules that explain this once.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The Pallas Triton backend is deprecated:DeprecationWarning"
)
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SHAPES = [(1,), (33,), (4096,), (9001,), (3, 1370), (5, 64), (70, 1), (11, 3), (3, 4096), (700, 6)]
SHORT = tuning.Tuning(length=64, lanes=1, warps=1, window=4, strip=32)


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Kernels take arrays of any size."""
    monkeypatch.setattr(flagging, "LEAST", 1)


def ids_of(shape, dtype, seed=0):
    """Runs of a few elements; of wide dtypes numbers that differ in their high bits alone."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 2, shape)
    size = np.dtype(dtype).itemsize
    return ids.astype(dtype) << np.array(8 * size - 1, dtype) if size > 1 else ids.astype(dtype)


@pytest.mark.product
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@by_kernel
def test_heads_of_runs(strategy, dtype, shape):
    with jax.enable_x64(True), strategy.active():
        ids = ids_of(shape, dtype)
        how = {"axis": len(shape) - 1, "interpret": strategy.interpreted}
        expected = known_heads(ids, runs=True)
        found = jax.jit(lambda x: flagging.heads_of_runs(x, **how))(ids)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, expected)
        words = jax.jit(lambda x: flagging.words_of_runs(x, **how))(ids)
        assert words.shape == (-(-ids.size // 32),)
        by_bit = bits.known(words, 32 * words.size)
        np.testing.assert_array_equal(by_bit[: ids.size], expected.reshape(-1))
        assert not by_bit[ids.size :].any()


@pytest.mark.product
@pytest.mark.parametrize("shape", [(1,), (4097,), (2, 2048)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@by_kernel
def test_wide_flags(strategy, dtype, shape):
    with jax.enable_x64(True), strategy.active():
        flags = ids_of(shape, dtype)
        call = jax.jit(lambda x: flagging.one_byte(x, interpret=strategy.interpreted))
        found = np.asarray(call(flags))
        assert found.dtype.itemsize == 1
        np.testing.assert_array_equal(found.astype(bool), flags.astype(bool))


@pytest.mark.product
@pytest.mark.parametrize(
    "shape", [(1,), (33,), (4096,), (9001,), (3, 64), (1, 4100), (3, 70), (4, 1027)], ids=str
)
@pytest.mark.parametrize("word", ["uint8", "uint32"])
@by_kernel
def test_words_are_unpacked(strategy, word, shape):
    flags = np.random.default_rng(1).random(shape) < 0.3
    words = bits.packed(jnp.asarray(flags), np.dtype(word))
    how = {"axis": len(shape) - 1, "n": shape[-1], "interpret": strategy.interpreted}
    with strategy.active():
        run = jax.jit(lambda words: flagging.unpacked(words, **how))
        np.testing.assert_array_equal(run(words), flags)
        assert "jscan_flags" in str(jax.make_jaxpr(run)(words))


@pytest.mark.product
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "of_ids", "axis"),
    [
        ((515,), (515,), 0),
        ((3, 96), (3, 96), 1),
        ((3, 96), (96,), 1),
        ((4, 70), (4, 70), 1),
        ((4, 70), (70,), 1),
        ((96, 3), (96,), 0),
        ((96, 3), (3, 96), 0),
        ((2, 33, 3), (2, 33), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["lookback", "reduce_then_scan"])
@by_kernel
def test_scans_by_ids(strategy, method, shape, of_ids, axis, reverse):
    rng = np.random.default_rng(2)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    ids = rng.integers(0, 2, of_ids).astype(np.int16).repeat(3, -1)[..., : of_ids[-1]]
    heads = known_heads(ids, runs=True)
    flags = np.moveaxis(heads, -1, axis) if axis < len(of_ids) - 1 else heads
    how = {"axis": axis, "reverse": reverse}

    def call(x, ids):
        return jscan.cumsum(x, segments=Segments.from_ids(ids), method=method, **how)

    tile = SHORT if strategy.interpreted and axis == len(shape) - 1 else None
    with strategy.active(), primitives.tiled(tile):
        found = jax.jit(call)(x, ids)
    if flags.ndim < x.ndim and flags.ndim > 1:
        flags = np.broadcast_to(flags[..., None], shape)
    np.testing.assert_array_equal(found, reference.scan(np.add, x, flags=flags, **how))


@pytest.mark.parametrize("n", [1, 3, 31, 32, 33, 64, 631])
def test_flags_are_repeated_in_words(n):
    flags = np.random.default_rng(n).random(n) < 0.3
    for rows in (1, 2, 77):
        words = jax.jit(bits.repeated, static_argnums=1)(flags, rows)
        np.testing.assert_array_equal(bits.known(words, n * rows), np.tile(flags, rows))


@pytest.mark.parametrize("n", [5, 33, 631])
def test_ids_that_rows_share_are_put_in_words(monkeypatch, n):
    """Few ones, of rows that begin inside of memory's words; many are read as words anyway."""
    monkeypatch.setattr(flagging, "LEAST", 2**16)
    ids = jnp.asarray(np.random.default_rng(n).integers(0, 3, n).repeat(3)[:n], jnp.int32)[None]
    marks = flagging.Marks("runs", ids, 1, n, interpret=False)
    assert marks.width(flat=False) is None
    words = marks.in_words((7, n))
    assert (words.kind, words.width(flat=False)) == ("bits", 32)
    heads = np.concatenate([[True], np.diff(np.asarray(ids)[0]) != 0])
    np.testing.assert_array_equal(bits.known(words.array.reshape(-1), n)[1:], heads[1:])
    alone = ids.repeat(7, 0)
    assert flagging.Marks("runs", alone, 1, n, interpret=False).in_words((7, n)).kind == "runs"


@pytest.mark.product
@pytest.mark.parametrize(("reverse", "exclusive"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize(("n", "dtype"), [(33, "bfloat16"), (75, "int8"), (3, "int16")])
@pytest.mark.parametrize("form", ["flags", "packed", "ids"])
@by_kernel
def test_narrow_rows_that_share_flags(strategy, form, n, dtype, reverse, exclusive):
    rng, how = np.random.default_rng(n), {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    x, flags = rng.integers(0, 3, (50, n)).astype(dtype), rng.random(n) < 0.2
    flags[0] = True
    made = {
        "flags": Segments.from_flags,
        "packed": lambda x: Segments.from_flags(x).packed(),
        "ids": lambda x: Segments.from_ids(jnp.cumsum(x)),
    }

    def call(x, flags):
        segments = made[form](flags)
        if form == "packed":
            segments = Segments.from_packed(segments, n)
        return jscan.cumsum(x, segments=segments, **how)

    with strategy.active():
        found = jax.jit(call)(x, flags)
    expected = reference.scan(np.add, x, flags=flags, identity=np.zeros((), dtype), **how)
    reference.assert_equal(found, expected.astype(dtype))
    launches, _ = operands_of_kernels(call, (x.shape, dtype), (flags.shape, "bool"))
    assert f"{-(-x.size // 32)}xui32" in launches[-1]


def operands_of_kernels(call, *operands):
    """The shapes and dtypes that each kernel of a program reads, and what is left to XLA."""
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in operands]
    program = cuda_program(call, *shapes)
    found = re.findall(r"custom_call @\S*triton\S*\(.*\) .* : \((.*?)\) ->", program)
    return [re.findall(r"tensor<([\dx]*x?\w+)>", x) for x in found], program


@pytest.mark.parametrize(
    ("shape", "of_ids", "axis", "read"),
    [
        ((2**20 - 77,), (2**20 - 77,), 0, f"{2**15 - 2}xui32"),
        ((64, 4096), (64, 4096), 1, f"{2**13}xui32"),
        ((1024, 1001), (1024, 1001), 1, f"{1024 * 1001 // 32}xui32"),
        ((2**17, 8), (2**17,), 0, f"{2**17}xi1"),
        ((64, 2**14, 4), (64, 2**14), 1, f"{2**20}xi1"),
    ],
    ids=str,
)
def test_scans_read_what_a_kernel_found(shape, of_ids, axis, read):
    """Nothing is compared by XLA: words are found where tiles can read them, else bytes."""

    def call(x, ids):
        return jscan.cumsum(x, axis=axis, segments=Segments.from_ids(ids))

    launches, program = operands_of_kernels(call, (shape, "float32"), (of_ids, "int16"))
    size = np.prod(of_ids)
    assert [x[:1] for x in launches] == [[f"{size}xi16"], [f"{np.prod(shape)}xf32"]]
    assert launches[1][1] == read
    assert "stablehlo.compare" not in program
    assert "stablehlo.pad" not in program


def test_flags_of_ids_and_derivatives_are_found_by_a_kernel():
    ids, x = ((2**20,), "uint8"), ((2**20,), "float32")

    def flags(ids):
        return Segments.from_ids(ids).flags

    def slopes(x, ids):
        def total(x):
            return jnp.sum(jscan.cumlogsumexp(x, segments=Segments.from_ids(ids)) ** 2)

        return jax.grad(total)(x)

    for call, operands in ((flags, [ids]), (slopes, [x, ids])):
        launches, program = operands_of_kernels(call, *operands)
        assert [f"{2**20}xui8"] in launches
        assert "stablehlo.compare  NE" not in program


@pytest.mark.parametrize(
    ("call", "operands"),
    [
        (lambda m: jscan.enumerate(m), [((2**20,), "int32")]),
        (
            lambda x, f: jscan.reduce(
                jscan.operators.add, x, segments=Segments.from_flags(f), num_segments=9
            ),
            [((2**20,), "float32"), ((2**20,), "int32")],
        ),
        (
            lambda x, w: jscan.cumsum(
                x, segments=Segments.from_packed(w, 2**20), init=jnp.float32(1)
            ),
            [((2**20,), "float32"), ((2**15,), "uint32")],
        ),
        (
            lambda x, w: jscan.linear_recurrence(
                x, x, jnp.float32(1), segments=Segments.from_packed(w, 2**20 - 7)
            ),
            [((2**20 - 7,), "float32"), ((2**17,), "uint8")],
        ),
    ],
    ids=["mask", "flags", "bits", "bits from h0"],
)
def test_wide_flags_and_bits_become_bytes_in_a_kernel(call, operands):
    launches, _ = operands_of_kernels(call, *operands)
    shape, dtype = operands[-1]
    assert [f"{shape[0]}x{dtype.replace('nt', '')}"] in launches


def test_short_ids_are_left_to_xla(monkeypatch):
    monkeypatch.undo()
    for n, fits in ((flagging.LEAST - 1, False), (flagging.LEAST, True)):
        ids = jax.ShapeDtypeStruct((n,), jnp.int16)
        call = jax.make_jaxpr(lambda x: flagging.heads_of_runs(x, axis=0, interpret=True))
        assert ("jscan_flags" in str(call(ids))) == fits
