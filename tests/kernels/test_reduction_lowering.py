"""What reductions become on CUDA, seen from a machine that may have no GPU."""

from __future__ import annotations

import re

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, operators
from tests.kernels.test_lowering import TRITON, array, calls, cuda_program, h200

N = (1 << 20) + 3
FUNCTIONS = ("segment_sum", "segment_prod", "segment_max", "segment_min")


def by_segments(kind, fn=operators.add, num_segments=1000, **options):
    """A reduction of (x, descriptor) by one kind of descriptor."""
    segments = {"flags": Segments.from_flags, "ids": Segments.from_ids}[kind]

    def run(x, descriptor):
        return jscan.reduce(
            fn, x, segments=segments(descriptor), num_segments=num_segments, **options
        )

    return run


def kernel_operands(program):
    """What kernels read, as StableHLO writes their types."""
    lines = [line for line in program.splitlines() if TRITON in line]
    return [line.rsplit(" : ", 1)[1].split("->")[0] for line in lines]


def sorted_sum(x, ids, num_segments=1000):
    return jscan.segment_sum(x, ids, num_segments, True)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("trailing", [(), (64,)])
def test_sorted_segment_reductions_are_one_kernel_and_no_scatter(name, trailing):
    x = jax.ShapeDtypeStruct((N, *trailing), jnp.float32)
    program = cuda_program(
        lambda x, ids: getattr(jscan, name)(x, ids, 1000, True), x, array(N, "int32")
    )
    assert calls(program) == 1
    assert "stablehlo.scatter" not in program
    assert "stablehlo.transpose" not in program


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reductions_by_a_plan_are_one_kernel_and_no_scatter(name):
    x = jax.ShapeDtypeStruct((N, 64), jnp.float32)
    plan = jax.eval_shape(lambda ids: jscan.SegmentPlan(ids, 1000), array(N, "int32"))
    program = cuda_program(getattr(jscan, name), x, plan)
    assert calls(program) == 1
    for absent in ("scatter", "sort", "transpose"):
        assert f"stablehlo.{absent}" not in program


def test_derivatives_by_a_plan_do_not_scatter():
    x = jax.ShapeDtypeStruct((N, 64), jnp.float32)
    plan = jax.eval_shape(lambda ids: jscan.SegmentPlan(ids, 1000), array(N, "int32"))

    def loss(x, plan):
        return jnp.sum(plan.gather(jscan.segment_sum(x, plan) ** 2) ** 2)

    program = cuda_program(jax.grad(loss), x, plan)
    assert calls(program) == 2
    assert "stablehlo.scatter" not in program


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint32", "int64"])
def test_no_flags_are_made_of_sorted_ids(dtype):
    program = cuda_program(sorted_sum, array(N), array(N, dtype))
    assert calls(program) == 1
    assert not re.search(rf"tensor<{N}xi1>", program)
    assert not re.search(rf"tensor<{N - 1}xi1>", program)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ids_that_are_not_sorted_take_no_kernel(name):
    program = cuda_program(
        lambda x, ids: getattr(jscan, name)(x, ids, 1000), array(N), array(N, "int32")
    )
    assert calls(program) == 0
    assert "stablehlo.scatter" in program


@pytest.mark.parametrize("kind", ["flags", "ids"])
@pytest.mark.parametrize("n", [1000, N])
def test_one_kernel_by_flags_and_by_ids(kind, n):
    dtype = "bool" if kind == "flags" else "int32"
    program = cuda_program(by_segments(kind), array(n), array(n, dtype))
    assert calls(program) == 1
    assert "stablehlo.scatter" not in program
    [read] = kernel_operands(program)
    assert f"tensor<{n}xf32>" in read
    # Of ids no flags are made that the kernel would read: it compares them itself.
    assert bool(re.search(r"x(i1|u?i8)>", read)) == (kind == "flags")


def test_one_kernel_reads_data_by_offsets():
    def run(x, offsets):
        segments = Segments.from_offsets(offsets, total=N)
        return jscan.reduce(operators.add, x, segments=segments)

    program = cuda_program(run, array(N), array(1001, "int32"))
    # The offsets may take a kernel of their own; the data is read once.
    [_] = [read for read in kernel_operands(program) if f"tensor<{N}xf32>" in read]
    # No element is told its segment before the kernel asks.
    assert not re.search(rf"tensor<{N}xu?i\d+>", program)


def test_one_kernel_reduces_several_leaves():
    def run(a, b, flags):
        return jscan.reduce(operators.affine, (a, b), segments=flags, num_segments=1000)

    assert calls(cuda_program(run, array(N), array(N), array(N, "bool"))) == 1


@pytest.mark.parametrize("fn", [operators.affine, lambda a, b: (a[0] * b[0], a[1] + b[1])])
def test_one_kernel_reduces_a_whole_axis(fn):
    program = cuda_program(lambda a, b: jscan.reduce(fn, (a, b)), array(N), array(N))
    # Operators that are machine operations, leaf by leaf, are XLA's to reduce.
    assert calls(program) == (1 if fn is operators.affine else 0)
    assert ("stablehlo.reduce" in program) == (fn is not operators.affine)


@pytest.mark.parametrize("method", ["block", "lookback"])
def test_a_named_method_lowers(method):
    n = 1000 if method == "block" else N

    def run(x, ids):
        return (
            jscan.segment_sum(x, ids, 1000, True, method=method),
            by_segments("flags", method=method)(x, ids),
            jscan.reduce(operators.add, x, method=method),
        )

    # Many flags of 32 bits become bytes by a kernel of their own.
    kernels = 3 if method == "block" else 4
    assert calls(cuda_program(run, array(n), array(n, "int32"))) == kernels


def test_the_named_fallback_holds_no_kernel():
    def run(x, ids):
        return (
            jscan.segment_sum(x, ids, 1000, True, method="xla"),
            by_segments("ids", method="xla")(x, ids),
            jscan.reduce(operators.affine, (x, x), method="xla"),
        )

    assert calls(cuda_program(run, array(1000), array(1000, "int32"))) == 0


def test_an_operator_on_whole_arrays_takes_no_kernel():
    elems = jax.ShapeDtypeStruct((50, 2, 2), jnp.float32)
    run = by_segments("flags", jnp.matmul, identity=np.eye(2, dtype="float32"))
    assert calls(cuda_program(run, elems, array(50, "bool"))) == 0


@pytest.mark.parametrize(("n", "num_segments"), [(0, 5), (5, 0)])
def test_nothing_launches_nothing(n, num_segments):
    def run(x, ids):
        return sorted_sum(x, ids, num_segments), by_segments("flags", num_segments=num_segments)(
            x, ids
        )

    assert calls(cuda_program(run, array(n), array(n, "int32"))) == 0


def test_batches_of_shared_ids_are_not_copied():
    rows, n = 128, 32768

    def run(x, ids, flags):
        return (
            jax.vmap(sorted_sum, (0, None))(x, ids),
            jax.vmap(by_segments("flags"), (0, None))(x, flags),
            jax.vmap(by_segments("ids"), (0, None))(x, ids),
        )

    x = jax.ShapeDtypeStruct((rows, n), jnp.float32)
    program = cuda_program(run, x, array(n, "int32"), array(n, "bool"))
    assert program.count('"jscan_reduce"') == 3
    assert not re.search(rf"tensor<{rows}x{n}xu?i\d+>", program)


def test_the_program_does_not_grow_with_the_axis():
    def operations(n):
        def run(x, ids):
            return sorted_sum(x, ids), by_segments("flags")(x, ids)

        text = cuda_program(run, array(n), array(n, "uint8"))
        return re.findall(r"= \"?(?:stablehlo|func)[\w.]*", text)

    assert operations(1 << 18) == operations(1 << 26)


def test_the_gradient_of_a_sum_gathers():
    def loss(x, ids):
        return jnp.sum(sorted_sum(x, ids) * jnp.arange(1000, dtype="float32"))

    program = cuda_program(jax.grad(loss), array(N), array(N, "int32"))
    assert "stablehlo.gather" in program
    assert "stablehlo.scatter" not in program


@pytest.mark.parametrize("platforms", [("cuda",), ("cpu", "cuda")])
def test_export_for_cuda(platforms):
    x, ids = np.arange(5000, dtype="float32"), np.arange(5000) // 3
    export = jax.export.export(
        jax.jit(lambda x, ids: sorted_sum(x, ids, 2000)),
        platforms=platforms,
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call(TRITON)],
    )
    with h200():
        exported = export(x, ids)
    assert exported.platforms == platforms
    assert TRITON in exported.mlir_module()
    if jax.default_backend() in exported.platforms:
        # Every sum is an integer below 2**24, so float32 holds it exactly.
        expected = np.bincount(ids, x, 2000)
        np.testing.assert_array_equal(exported.call(x, ids), expected)


@pytest.mark.parametrize(("platform", "name"), [("cuda", "maximum"), ("cpu", "minimum")])
def test_minima_of_float32_by_ids_in_any_order(platform, name):
    """A GPU has an instruction for the maximum alone."""

    def minima(x, ids):
        return jscan.segment_min(x, ids, 1000)

    lowered = jax.jit(minima).trace(array(N), array(N, "int32"))
    program = lowered.lower(lowering_platforms=(platform,)).as_text()
    assert f"stablehlo.{name}" in program
    assert ("stablehlo.negate" in program) == (platform == "cuda")
