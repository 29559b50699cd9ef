"""`jscan.triton_source`: the programs of a call as text."""

from __future__ import annotations

import ast

import jax
import jax.numpy as jnp
import pytest

import jscan
from jscan import engines, operators
from tests.kernels.test_lowering import array


def titles(text):
    """The names of programs, in order."""
    return [line[2:].split(":")[0] for line in text.splitlines() if line.startswith("# jscan_")]


def test_one_program_with_its_name_and_size():
    text = jscan.triton_source(lambda x: jscan.cumsum(x, method="lookback"), array(1 << 20))
    assert text.startswith("# jscan_lookback: 256 programs of 1 warp\n\nimport triton\n")
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


def test_nothing_needs_to_be_installed(monkeypatch):
    monkeypatch.setattr(engines, "_is_there", lambda module: False)  # noqa: ARG005
    assert titles(jscan.triton_source(jscan.cumsum, array(301))) == ["jscan_block"]


def test_a_call_without_kernels_says_so():
    for fn in (jnp.cumsum, lambda x: jscan.cumsum(x, method="xla")):
        with pytest.raises(ValueError, match="triton_source: fn launches no kernel on a GPU"):
            jscan.triton_source(fn, array(300))
    with pytest.raises(TypeError, match="triton_source: fn must be callable; got int"):
        jscan.triton_source(3)  # type: ignore[arg-type]


def test_what_is_run_afterwards_is_not_only_written():
    text = jscan.triton_source(jscan.cumsum, array(3, "int32"))
    assert "tl.associative_scan" in text
    assert jscan.cumsum(jnp.arange(3)).tolist() == [0, 1, 3]


def test_instructions_by_tritons_compiler():
    pytest.importorskip("triton")
    text = jscan.triton_source(jscan.cumsum, array(300), ptx=True)
    assert text.startswith("// jscan_block: 1 program of 1 warp\n")
    assert ".entry jscan_block(" in text


def test_instructions_without_a_compiler_say_what_to_install(monkeypatch):
    monkeypatch.setattr(engines, "_is_there", lambda module: module != "triton")
    with pytest.raises(ImportError, match=r"triton_source: .*pip install 'triton>=3\.6'"):
        jscan.triton_source(jscan.cumsum, array(300), ptx=True)
