"""What a scan is lowered to for a CUDA GPU, on a machine that need not have one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

import jscan

TRITON = "__gpu$xla.gpu.triton"


@pytest.fixture(autouse=True)
def h200() -> Iterator[None]:
    device = AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
    with warnings.catch_warnings():
        # JAX plans to retire Pallas's Triton backend; the seam for another engine is kernels/pallas.py.
        warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated")
        with use_abstract_mesh(AbstractMesh((1,), ("x",), abstract_device=device)):
            yield


def lowered(function, *shapes):
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",)).as_text()


def array(shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
]


def operators(dtype):
    names = {"b": ["bitwise_and", "bitwise_or", "bitwise_xor"], "c": ["add", "mul"]}
    integers = ["add", "mul", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor"]
    floats = ["add", "mul", "max", "min", "logaddexp"]
    kind = np.dtype(jnp.dtype(dtype)).kind
    return names.get(kind, integers if kind in "iu" else floats)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["plain", "reverse", "exclusive", "segmented"])
def test_every_dtype_and_operator_has_a_kernel(dtype, form):
    options = {form: True} if form in ("reverse", "exclusive") else {}
    for name in operators(dtype):
        operator = getattr(jscan.operators, name)
        identity = operator.identity(jnp.dtype(dtype))

        def scan(x, flags, operator=operator, identity=identity):
            segments = flags if form == "segmented" else None
            return jscan.associative_scan(
                operator, x, axis=1, segments=segments, identity=identity, **options
            )

        for n in (100, 70_000):
            text = lowered(scan, array((3, n), dtype), array((n,), "bool"))
            assert text.count(TRITON) == 1, (name, n)


def test_one_kernel_whatever_the_length():
    texts = {}
    for exponent in (4, 12, 16, 20, 24, 28):
        text = lowered(jscan.cumsum, array((2**exponent,)))
        assert text.count(TRITON) == 1
        texts[exponent] = len(text.splitlines())
    assert texts[28] == texts[16]
    assert texts[12] == texts[4]  # one tile: no state


def test_a_row_that_fits_a_tile_has_no_state():
    text = lowered(lambda x: jscan.cumsum(x, axis=1), array((1000, 512)))
    assert "jscan_block" in text
    assert "x2xi32>" not in text  # state words
    assert "x2xi32>" in lowered(jscan.cumsum, array((2**20,)))


def test_lengths_zero_and_one_launch_nothing():
    for shape in ((0,), (1,), (5, 0), (0, 5)):
        assert TRITON not in lowered(lambda x: jscan.cumsum(x, axis=-1), array(shape))
    assert TRITON not in lowered(lambda x: jscan.cumsum(x, axis=1), array((4, 1, 3)))


def test_an_unused_output_is_not_written():
    def offsets(a, b):
        return jscan.associative_scan(jscan.operators.affine, (a, b))[1]

    n = 2**20
    [line] = [s for s in lowered(offsets, array((n,)), array((n,))).splitlines() if TRITON in s]
    results = line.split("->")[-1]
    assert results.count(f"tensor<{n}xf32>") == 1


def test_the_vmap_of_a_scan_is_one_kernel_and_moves_nothing():
    def rows(x, flags):
        return jax.vmap(lambda r: jscan.cumsum(r, segments=flags))(x)

    text = lowered(rows, array((64, 1000)), array((1000,), "uint8"))
    assert text.count(TRITON) == 1
    assert "stablehlo.transpose" not in text
    assert "x1000xui8>" in text
    assert "64x1000xui8>" not in text  # the flags are read by every row, not copied


def test_operators_of_no_kernel_take_the_fallback():
    def matrices(x):
        return jscan.associative_scan(jnp.matmul, x)

    def strange(x):
        return jscan.associative_scan(lambda a, b: a + jax.scipy.special.digamma(b), x)

    assert TRITON not in lowered(matrices, array((100, 2, 2)))
    assert TRITON not in lowered(strange, array((100,)))


def test_a_named_method_that_cannot_run_says_why():
    with pytest.raises(ValueError, match=r"method='block'.*20000"):
        lowered(lambda x: jscan.cumsum(x, method="block"), array((20_000,)))
    with pytest.raises(ValueError, match=r"method='lookback'.*digamma"):
        lowered(
            lambda x: jscan.associative_scan(
                lambda a, b: a + jax.scipy.special.digamma(b), x, method="lookback"
            ),
            array((100,)),
        )


def test_arrays_beyond_32_bit_addresses_lower():
    assert lowered(lambda x: jscan.cumsum(x, axis=1), array((4, 2**30), "int8")).count(TRITON) == 1
    assert lowered(lambda x: jscan.cumsum(x), array((2**20, 2**13), "int8")).count(TRITON) == 1
