"""Kernels as text in Triton's language: what is written, without Triton."""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan.kernels import engines, language
from jscan.kernels.engines import source
from jscan.kernels.engines.source import operands
from tests.kernels.test_lowering import array, cuda_program
from tests.kernels.test_seam import CALLS, lower

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Writer:
    """An engine that keeps the programs that it writes, and answers with zeros."""

    NAME = "a writer"

    def __init__(self):
        self.programs = []

    def run(self, body, operands, starts, results, *, programs, warps, name, interpret):
        """What `engines.Engine` says."""
        del interpret
        arrays, outputs = (
            [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in xs] for xs in (operands, results)
        )
        program = source.program(
            *(body, arrays, len(starts), outputs), programs=programs, warps=warps, name=name
        )
        self.programs.append(program)
        return [jnp.zeros(x.shape, x.dtype) for x in results]

    def why_inexpressible(self, jaxpr):
        """What `engines.Engine` says."""
        return source.why_inexpressible(jaxpr)


@pytest.fixture
def writer(monkeypatch):
    """An engine that writes, in the place of the one that runs."""
    made = Writer()
    monkeypatch.setattr(engines, "running", lambda: made)
    return made


def written(body, dtypes, n=8):
    """The program of a body, of arrays of these dtypes; the last one is its result."""
    *arrays, result = [jax.ShapeDtypeStruct((n,), jnp.dtype(d)) for d in dtypes]
    return source.program(body, arrays, 0, [result], programs=1, warps=1, name="kernel")


def mapping(fn, n=8):
    """A body that applies a function to elements of all its operands."""

    def body(program, refs):
        del program
        place = [(lax.iota(jnp.int32, n), 1)]
        values = [language.load(ref, place) for ref in refs[:-1]]
        language.store(refs[-1], place, fn(*values))

    return body


def test_a_kernel_reads_like_one(writer):
    cuda_program(jscan.cumsum, array(1000))
    [program] = writer.programs
    assert program.text == (
        "import triton\n"
        "import triton.language as tl\n\n\n"
        "@triton.jit\n"
        "def add(x, y):\n"
        "    return x + y\n\n\n"
        "@triton.jit\n"
        "def jscan_block(in0, out0):\n"
        "    t1 = tl.load(in0 + tl.arange(0, 1024), mask=tl.arange(0, 1024) < 1000)\n"
        "    t2 = tl.associative_scan(t1, 0, add)\n"
        '    t3 = tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [t2], dtype=tl.float32, '
        "is_pure=False, pack=1)\n"
        "    tl.store(out0 + tl.arange(0, 1024), t3, mask=tl.arange(0, 1024) < 1000)\n"
    )
    assert program.name == "jscan_block"
    assert [(p.name, p.dtype, p.shape) for p in program.parameters] == [
        ("in0", "float32", (1000,)),
        ("out0", "float32", (1000,)),
    ]
    assert program.programs == 1


@pytest.mark.parametrize("name", CALLS)
def test_every_kernel_is_written(writer, name):
    lower(name)
    assert writer.programs
    for program in writer.programs:
        tree = ast.parse(program.text)
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        names = [function.name for function in functions]
        assert len(set(names)) == len(names)
        assert names[-1] == program.name
        assert len(functions[-1].args.args) == len(program.parameters)
        called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert set(names[:-1]) <= called, "a function that nothing calls"


def test_steps_are_named_where_they_begin(writer):
    cuda_program(lambda x: jscan.cumsum(x, method="lookback"), array(1 << 20))
    [program] = writer.programs
    steps = re.findall(r"# (.*)", program.text)
    assert steps == [
        *("load", "publish the aggregate", "look back", "scan", "look back"),
        *("publish the prefix", "store"),
    ]


def test_a_combine_operator_is_written_once(writer):
    cuda_program(lambda x: jscan.cumsum(x, method="reduce_then_scan"), array(1 << 22))
    for program in writer.programs:
        assert program.text.count("return x + y") == 1


def test_the_text_is_the_same_every_time(writer):
    lower("rows")
    lower("rows")
    assert len(writer.programs) == 2
    assert len(set(writer.programs)) == 1


# --- constants ----------------------------------------------------------------------------------


class Constant:
    """What ``tl.full`` makes of a number: zeros have no sign there."""

    def __init__(self, value, dtype):
        self.value = np.zeros((), dtype) if value == 0 else np.asarray(value).astype(dtype)

    def to(self, dtype, *, bitcast):
        assert bitcast
        self.value = self.value.view(dtype)
        return self


def full(shape, value, dtype):
    """Triton's."""
    assert shape == ()
    return Constant(value, dtype)


LANGUAGE = SimpleNamespace(
    full=full,
    int1=np.bool_,
    **{name: jnp.dtype(name) for name in (*FLOATS, *INTEGERS)},
)

SPECIAL = (-0.0, 0.0, np.inf, -np.inf, np.nan, 0.1, -1 / 3, 1e-40, 6e-8, 1e300, 65504.0, 2.0**-126)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *((dtype, value) for dtype in FLOATS for value in SPECIAL),
        *((d, v) for d in INTEGERS for v in (np.iinfo(d).min, np.iinfo(d).max, 0, 7)),
        *(("bool", value) for value in (False, True)),
    ],
)
def test_constants_keep_their_bits(dtype, value):
    with np.errstate(over="ignore"):
        exact = np.asarray(value).astype(jnp.dtype(dtype))
    operand = operands.constant(exact, jnp.dtype(dtype))
    found = eval(operand.typed, {"tl": LANGUAGE}).value
    assert found.dtype == exact.dtype
    if exact != exact:
        assert found != found
    else:
        assert found.tobytes() == exact.tobytes()
    if operand.form is operands.Form.NUMBER:
        assert dtype in ("int32", "float32"), "Triton would give it another type"


def test_a_negative_zero_is_spread_by_its_bits():
    text = written(mapping(lambda x: x + jnp.full_like(x, -0.0)), ("float32",) * 2).text
    bits = "tl.full((), -2147483648, tl.int32).to(tl.float32, bitcast=True)"
    assert f"tl.full((8,), {bits}, tl.float32)" in text


# --- what cannot be written ---------------------------------------------------------------------


def reason(fn, *dtypes):
    """Why a function of scalars cannot be written."""
    scalars = [jax.ShapeDtypeStruct((), jnp.dtype(d)) for d in dtypes]
    return source.why_inexpressible(jax.make_jaxpr(fn)(*scalars))


def test_reasons_name_the_primitive_and_the_types():
    assert reason(lambda x, y: x + y, "float32", "float32") is None
    assert reason(lax.digamma, "float32") == "Triton's language has no digamma"
    assert reason(lax.nextafter, "float16", "float16") == (
        "Triton's language has no nextafter of float16, float16"
    )
    assert reason(lambda x: x.astype("float8_e5m2"), "float32") == "Triton has no float8_e5m2"
    assert "cannot take the bits" in str(
        reason(lambda x: lax.bitcast_convert_type(x, jnp.uint16), "float32")
    )


def test_arrays_are_no_constants():
    jaxpr = jax.make_jaxpr(lambda x: x + jnp.arange(3)[1])(1)
    assert source.why_inexpressible(jaxpr) is not None
