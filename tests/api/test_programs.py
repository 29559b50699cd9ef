"""`jscan.triton_source`: the programs of a call as text."""

from __future__ import annotations

import ast
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import jscan
from jscan import engines, operators
from tests.kernels.test_lowering import array, gpu_of


def titles(text):
    """The names of programs, in order."""
    return [line[2:].split(":")[0] for line in text.splitlines() if line.startswith("# jscan_")]


def test_one_program_with_its_name_and_size():
    text = jscan.triton_source(lambda x: jscan.cumsum(x, method="lookback"), array(1 << 20))
    assert text.startswith(
        "# jscan_lookback: 256 programs of 1 warp\n"
        "# launch: jscan_lookback[(256,)](in0, inout0, out0, num_warps=1, num_stages=1, "
        "enable_fp_fusion=True)\n"
        "# in0: float32[1048576], read\n"
        "# inout0: int32[256, 2], zero at launch: the words by which programs tell each other of "
        "their tiles\n"
        "# out0: float32[1048576], written, whatever it holds at launch\n"
        "\nimport triton\n"
    )
    [function] = [f for f in ast.parse(text).body if getattr(f, "name", "") == "jscan_lookback"]
    assert isinstance(function, ast.FunctionDef)
    assert [a.arg for a in function.args.args] == ["in0", "inout0", "out0"]


def test_several_programs_each_once():
    text = jscan.triton_source(
        lambda x, y: (jscan.cumsum(x, method="scan_then_propagate"), jscan.cumsum(y)),
        array(1 << 22),
        array(300),
    )
    assert titles(text)[0] == "jscan_tiles"
    assert titles(text)[-1] == "jscan_block"
    twice = jscan.triton_source(lambda x, y: (jscan.cumsum(x), jscan.cumsum(y)), *[array(300)] * 2)
    assert titles(twice) == ["jscan_block"]


def test_pytrees_arrays_and_compiled_functions():
    @jax.jit
    def scan(elems):
        return jscan.associative_scan(operators.affine, elems["pair"])

    text = jscan.triton_source(scan, {"pair": (jnp.ones(300), jnp.ones(300))})
    assert "def combine(x0, x1, y0, y1):" in text
    assert jscan.triton_source(scan, {"pair": (jnp.ones(300), jnp.ones(300))}) == text


def test_gradients_and_batches():
    def total(x):
        return jnp.sum(jscan.cumprod(x))

    text = jscan.triton_source(jax.vmap(jax.grad(total)), jax.ShapeDtypeStruct((4, 300), "float32"))
    assert len(titles(text)) >= 2


ROWS = jax.ShapeDtypeStruct((3, 300), jnp.float32)


def test_arguments_that_are_no_arrays_are_static():
    text = jscan.triton_source(jscan.cumsum, ROWS, 1, True, segments=None, method="block")
    assert titles(text) == ["jscan_block"]
    same = jscan.triton_source(lambda x: jscan.cumsum(x, 1, True, method="block"), ROWS)
    assert same == text
    text = jscan.triton_source(
        *(jscan.associative_scan, lambda x, y: {"sum": x["sum"] + y["sum"]}, {"sum": ROWS}),
        axis=np.int64(1),
        identity={"sum": 0.0},
        exclusive=True,
    )
    assert titles(text) == ["jscan_block"]


def test_functions_with_static_arguments_of_their_own():
    @functools.partial(jax.jit, static_argnames=("axis", "fn"))
    def scan(x, axis, fn=None):
        return jscan.cumsum(x, axis, method=fn)

    long = jax.ShapeDtypeStruct((3, 70_000), jnp.float32)
    text = jscan.triton_source(scan, long, axis=1, fn="chained")
    assert titles(text) == ["jscan_chained"]
    assert jscan.triton_source(scan, long, 1, "chained") == text


def test_results_that_begin_with_something_say_so():
    data, ids = array(4096), array(4096, "int32")
    text = jscan.triton_source(jscan.segment_sum, data, ids, 7, indices_are_sorted=True)
    [started] = [line for line in text.splitlines() if "holds at launch what" in line]
    assert started.startswith("# inout0: float32[7], written in part")


# --- several devices ----------------------------------------------------------------------------


def rows(kind, n=300):
    """Rows over eight devices, along a mesh axis of this kind."""
    mesh = jax.make_mesh((8,), ("device",), axis_types=(kind,))
    layout = jax.NamedSharding(mesh, jax.P("device"))
    return jax.ShapeDtypeStruct((16, n), jnp.float32, sharding=layout)


def scan_rows(x):
    return jscan.cumsum(x, axis=1)


def test_what_is_left_to_xla_is_said():
    said = "arrays are sharded over 8 devices, and XLA divides them when it compiles; say how"
    with pytest.raises(ValueError, match=f"triton_source: {said}"):
        jscan.triton_source(scan_rows, rows(AxisType.Auto))
    x = rows(AxisType.Auto)
    local = jax.shard_map(
        scan_rows, mesh=x.sharding.mesh, in_specs=jax.P("device"), out_specs=jax.P("device")
    )
    text = jscan.triton_source(lambda x: (scan_rows(x), scan_rows(x + 1), local(x)), x)
    assert titles(text) == ["jscan_block"]
    assert f"\n# There are more: {said}" in text


def test_what_each_device_runs_where_that_is_known():
    x = rows(AxisType.Explicit)
    text = jscan.triton_source(scan_rows, x)
    assert "# in0: float32[600], read" in text
    local = jax.shard_map(scan_rows, in_specs=jax.P("device"), out_specs=jax.P("device"))
    with jax.set_mesh(x.sharding.mesh):
        assert jscan.triton_source(local, x) == text


# --- what is installed --------------------------------------------------------------------------


def test_nothing_needs_to_be_installed(monkeypatch):
    monkeypatch.setattr(engines, "_is_there", lambda module: False)  # noqa: ARG005
    assert titles(jscan.triton_source(jscan.cumsum, array(301))) == ["jscan_block"]


def test_a_call_without_kernels_says_so():
    said = r"^jscan\.triton_source: fn launches no kernel on a GPU"
    for fn in (jnp.cumsum, lambda x: jscan.cumsum(x, method="xla")):
        with pytest.raises(ValueError, match=said):
            jscan.triton_source(fn, array(300))
    with pytest.raises(TypeError, match=r"jscan\.triton_source: fn must be callable; got int"):
        jscan.triton_source(3)  # type: ignore[arg-type]


def test_what_is_run_afterwards_is_not_only_written():
    text = jscan.triton_source(jscan.cumsum, array(3, "int32"))
    assert "tl.associative_scan" in text
    assert jscan.cumsum(jnp.arange(3)).tolist() == [0, 1, 3]


def test_instructions_by_tritons_compiler():
    pytest.importorskip("triton")
    text = jscan.triton_source(jscan.cumsum, array(300), ptx=True)
    assert text.startswith("// jscan_block: 1 program of 1 warp\n// launch: 32 threads, ")
    assert "bytes of shared memory, for sm_90\n// in0: float32[300], read\n" in text
    assert ".entry jscan_block(" in text


def test_instructions_for_the_gpu_that_an_abstract_mesh_names():
    pytest.importorskip("triton")
    for kind, target in (("NVIDIA L4", "sm_89"), ("NVIDIA A100-SXM4-40GB", "sm_80")):
        with gpu_of(kind):
            text = jscan.triton_source(jscan.cumsum, array(300), ptx=True)
        assert f"\n.target {target}\n" in text
    with gpu_of("NVIDIA Abacus"), pytest.raises(RuntimeError, match=r"'NVIDIA Abacus'; .*'sm_90'"):
        jscan.triton_source(jscan.cumsum, array(300), ptx=True)


def test_instructions_without_a_compiler_say_what_to_install(monkeypatch):
    monkeypatch.setattr(engines, "_is_there", lambda module: module != "triton")
    with pytest.raises(ImportError, match=r"triton_source: .*pip install 'triton>=3\.6'"):
        jscan.triton_source(jscan.cumsum, array(300), ptx=True)
