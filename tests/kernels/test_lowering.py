"""What a scan becomes on CUDA, seen from a machine that may have no GPU: calls, sizes, exports."""

from __future__ import annotations

import importlib.metadata
import re
import zlib
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractDevice, AbstractMesh

import jscan
from jscan import engines, operators
from tests.cases import every_form


def target():
    """What kernels are called by in a program, on the engine that runs."""
    if engines.choice().name != "jax-triton":
        return "__gpu$xla.gpu.triton"
    version = importlib.metadata.version("jax-triton")
    return "triton_kernel_call" if version.startswith("0.3.") else "triton_kernel_call_ffi"


TRITON = target()


def h200():
    """A context in which kernels are compiled for an H200 that need not be there."""
    return gpu_of("NVIDIA H200")


def gpu_of(kind):
    """The same for any kind of GPU."""
    device = AbstractDevice(device_kind=kind, num_cores=None, platform="gpu")
    mesh = AbstractMesh((1,), ("device",), abstract_device=device)
    return jax.sharding.use_abstract_mesh(mesh)


def cuda_program(function, *operands):
    """The StableHLO that `function` becomes for one H200."""
    with h200():
        traced = jax.jit(function).trace(*operands)
        return readable(traced.lower(lowering_platforms=("cuda",)).as_text())


def readable(program):
    """A program with the names and grids of kernels, which jax-triton packs."""
    return re.sub(r'(opaque|backend_config) = "(x(?:[^"\\]|\\.)*)"', unpacked, program)


def unpacked(found):
    """The name and the size of the grid of a kernel, as in a call by Pallas."""
    plain = re.sub(
        r'\\([0-9A-F]{2}|["\\])',
        lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1],
        found[2],
    )
    call = zlib.decompress(plain.encode("latin-1"))
    [name] = set(re.findall(rb"jscan_[a-z_]+", call[-200:]))
    [launch] = fields(call)[1]
    [grid] = fields(launch)[2]
    return f'{found[1]} = "", name = "{name.decode()}", grid_x = {grid} : i32'


def fields(message):
    """The numbers and bytes of a message of protocol buffers, by the fields' numbers."""
    found: dict[int, list[Any]] = {}
    place = 0

    def number():
        nonlocal place
        total = shift = 0
        while True:
            byte = message[place]
            place, total, shift = place + 1, total | (byte & 127) << shift, shift + 7
            if byte < 128:
                return total

    while place < len(message):
        field, kind = divmod(number(), 8)
        value = number()
        if kind == 2:
            place, value = place + value, message[place : place + value]
        found.setdefault(field, []).append(value)
    return found


def calls(program):
    """How many kernels a program launches."""
    return program.count(TRITON)


def array(n, dtype="float32"):
    """An abstract row."""
    return jax.ShapeDtypeStruct((n,), jnp.dtype(dtype))


@every_form
@pytest.mark.parametrize("n", [100, 1 << 20, (1 << 20) + 3])
def test_one_kernel_in_every_form(form, n):
    reverse, exclusive, segmented = form

    def scan(x, flags):
        return jscan.cumsum(
            x, reverse=reverse, exclusive=exclusive, segments=flags if segmented else None
        )

    assert calls(cuda_program(scan, array(n), array(n, "uint8"))) == 1


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(64, 1 << 16), (1 << 16, 64), (1 << 16, 3)])
def test_one_kernel_along_either_axis_and_no_transpose(shape, axis):
    program = cuda_program(
        lambda x: jscan.cumsum(x, axis), jax.ShapeDtypeStruct(shape, jnp.float32)
    )
    assert calls(program) == 1
    assert "stablehlo.transpose" not in program


@pytest.mark.parametrize("segmented", [False, True])
def test_the_program_does_not_grow_with_the_axis(segmented):
    def scan(x, flags):
        return jscan.cummax(x, segments=flags if segmented else None)

    def operations(n):
        text = cuda_program(scan, array(n), array(n, "bool"))
        return re.findall(r"= \"?(?:stablehlo|func)[\w.]*", text)

    assert operations(1 << 18) == operations(1 << 26)


def test_batches_of_shared_flags_are_not_copied():
    def scan(x, flags):
        return jax.vmap(lambda row: jscan.cumsum(row, segments=flags))(x)

    x = jax.ShapeDtypeStruct((4096, 32768), jnp.float32)
    program = cuda_program(scan, x, array(32768, "bool"))
    assert calls(program) == 1
    assert not re.search(r"broadcast_in_dim.*tensor<4096x32768xi(1|8)>", program)


def test_an_output_nobody_uses_is_not_written():
    def scan(a, b):
        return jscan.associative_scan(operators.affine, (a, b))[1]

    n = 1 << 23
    (line,) = [
        line for line in cuda_program(scan, array(n), array(n)).splitlines() if TRITON in line
    ]
    results = line.rsplit("->", 1)[1]
    assert results.count(f"tensor<{n}xf32>") == 1


@pytest.mark.parametrize("method", ["block", "lookback", "serial_lookback", "chained"])
def test_a_named_method_lowers(method):
    n = 1000 if method == "block" else 1 << 20
    program = cuda_program(lambda x: jscan.cumsum(x, method=method), array(n))
    assert calls(program) == 1


def test_a_row_too_long_for_a_block_says_so():
    with pytest.raises(ValueError, match="method='block'"):
        cuda_program(lambda x: jscan.cumsum(x, method="block"), array(1 << 24))


def test_the_named_fallback_holds_no_kernel():
    assert calls(cuda_program(lambda x: jscan.cumsum(x, method="xla"), array(1000))) == 0


def test_an_operator_on_small_blocks_is_a_kernel_and_one_on_large_ones_falls_back():
    for size, count in ((2, 1), (9, 0)):
        elems = jax.ShapeDtypeStruct((50, size, size), jnp.float32)
        assert calls(cuda_program(lambda e: jscan.associative_scan(jnp.matmul, e), elems)) == count


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64"])
def test_choices_by_a_number(dtype):
    """Triton chooses by bools alone, and the rule of Pallas takes a number for one."""

    def scan(x):
        def chosen(a, b):
            which = jnp.real(b).astype(jnp.int32)
            return lax.select_n(jnp.clip(which, 0, 2), a, b, a + b)

        return jscan.associative_scan(chosen, x)

    assert calls(cuda_program(scan, array(5000, dtype))) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "bool"])
def test_results_that_are_constants(dtype):
    def scan(x, y):
        def combined(a, b):
            return a[0] + b[0], jnp.ones_like(b[1])

        return jscan.associative_scan(combined, (x, y))

    with jax.enable_x64(True):
        program = cuda_program(scan, array(5000), array(5000, dtype))
    assert calls(program) == 1


def test_conjugates_of_real_numbers():
    def scan(x):
        return jscan.associative_scan(lambda a, b: jnp.real(lax.conj(a)) + b, x)

    assert calls(cuda_program(scan, array(5000))) == 1


@pytest.mark.skipif(engines.why_missing("pallas") is not None, reason="needs Pallas for Triton")
def test_what_does_not_verify_is_inexpressible():
    from jscan.kernels.engines import pallas

    def of_scalars(*cases):
        scalars = [jax.ShapeDtypeStruct((), jnp.float32)] * cases[0]
        number = jax.ShapeDtypeStruct((), jnp.int32)
        return pallas.why_inexpressible(jax.make_jaxpr(lax.select_n)(number, *scalars))

    assert "arith.select" in of_scalars(2)
    assert "arguments" in of_scalars(3)


@pytest.mark.parametrize("n", [0, 1])
def test_short_axes_launch_nothing(n):
    assert calls(cuda_program(jscan.cumsum, array(n))) == 0


@pytest.mark.parametrize("platforms", [("cuda",), ("cpu", "cuda")])
def test_export_for_cuda(platforms):
    x = np.arange(5000, dtype="float32")
    export = jax.export.export(
        jax.jit(lambda x: jscan.cumsum(x, exclusive=True)),
        platforms=platforms,
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call(TRITON)],
    )
    with h200():
        exported = export(x)
    assert exported.platforms == platforms
    assert TRITON in exported.mlir_module()
    if jax.default_backend() in exported.platforms:
        # Every sum is an integer below 2**24, so float32 holds it exactly.
        np.testing.assert_array_equal(exported.call(x), np.concatenate([[0], np.cumsum(x)[:-1]]))


def test_a_gradient_lowers_for_cuda():
    cuda_program(jax.grad(lambda x: jnp.sum(jscan.cumlogsumexp(x))), array(5000))
