"""The seam between kernels and engines: who may name what, and what an engine has to know.

A listener takes the engine's place, and a kernel runs by public names of jax alone.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
import re
import runpy
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core

import jscan
from jscan import primitives
from jscan.combine import trace
from jscan.kernels import engines, funnels, language, tuning
from jscan.kernels.operator import Inexpressible, prepare
from tests import reference
from tests.kernels.test_lowering import cuda_program

PACKAGE = pathlib.Path(jscan.__file__).parent
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def imported(file):
    """The full names of what a file imports."""
    names = set()
    for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def files_that_import(prefix):
    """The files of the package that import something of this name."""
    return [file for file in FILES if any(name.startswith(prefix) for name in imported(file))]


def test_one_file_names_the_internals_of_jax():
    assert files_that_import("jax._src") == ["kernels/internals.py"]


def test_pallas_is_named_by_its_engine_alone():
    by_pallas = [f"kernels/engines/{name}.py" for name in ("grid", "pallas")]
    assert files_that_import("jax.experimental.pallas") == by_pallas
    assert files_that_import("jax.experimental.pallas.triton") == by_pallas[1:]
    assert files_that_import("jscan.kernels.engines.pallas") == ["kernels/engines/__init__.py"]


def test_triton_is_named_by_its_engine_alone():
    assert files_that_import("jax_triton") == ["kernels/engines/jax_triton.py"]
    assert files_that_import("triton") == ["kernels/engines/source/compiling.py"]


def test_effects_of_references_need_no_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax._src.pallas.triton", None)
    names = runpy.run_path(str(PACKAGE / "kernels/internals.py"))
    assert "register_access" in names
    assert "triton" not in names


def test_kernels_are_launched_at_one_place():
    source = {file: (PACKAGE / file).read_text() for file in FILES}
    assert [f for f, text in source.items() if "running().run(" in text] == ["kernels/launch.py"]


LAX = {
    *("abs", "add", "and", "bitcast_convert_type", "convert_element_type", "div", "eq", "exp"),
    *("ge", "gt", "le", "log", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "rem"),
    "population_count",
    *("select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sub"),
    *("broadcast_in_dim", "iota", "reshape", "squeeze"),
    *("reduce_max", "reduce_min", "reduce_sum"),
    *("cond", "jit", "pjit", "while"),
}
"""What kernels are made of, besides their operators and the primitives of `language`."""
OURS = {
    p.name
    for module in (language, funnels)
    for p in vars(module).values()
    if isinstance(p, core.Primitive)
}


def primitives_of(jaxpr):
    """The names of all primitives in a jaxpr and those inside of it."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in core.jaxprs_in_params(equation.params):
            yield from primitives_of(getattr(inner, "jaxpr", inner))


@dataclasses.dataclass
class Launch:
    """What an engine was asked for."""

    name: str
    body: language.Body
    operands: int
    results: list[jax.ShapeDtypeStruct]
    starts: int
    programs: int
    primitives: set[str]

    def run(self, *arrays):
        """Runs the body in one program after another; ``arrays`` are the operands and starts."""
        count = len(self.results) - self.starts
        undefined = [jnp.ones(x.shape, x.dtype) for x in self.results[:count]]
        operands, starts = arrays[: self.operands], arrays[self.operands :]
        refs = [jax.new_ref(x) for x in (*operands, *undefined, *starts)]
        for program in range(self.programs):
            self.body(jnp.int32(program), refs)
        return [ref[...] for ref in refs[self.operands :]]


class Listener:
    """An engine that keeps what it is asked for, and answers with zeros."""

    NAME = "a listener"

    def __init__(self):
        self.launches = []

    def run(self, body, operands, starts, results, *, programs, warps, name, interpret):
        """What `engines.Engine` says."""
        del warps, interpret
        arrays = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*operands, *results)]

        def traced(program, *arrays):
            body(program, [jax.new_ref(x) for x in arrays])

        jaxpr = jax.make_jaxpr(traced)(jax.ShapeDtypeStruct((), jnp.int32), *arrays).jaxpr
        made = {"new_ref", "ref", "mutable_array"}  # by different versions of jax
        found = set(primitives_of(jaxpr)) - made
        shapes = arrays[len(operands) :]
        launch = Launch(name, body, len(operands), shapes, len(starts), programs, found)
        self.launches.append(launch)
        return [jnp.zeros(x.shape, x.dtype) for x in results]

    def why_inexpressible(self, jaxpr):
        """Nothing is."""
        del jaxpr


@pytest.fixture
def listener(monkeypatch):
    """An engine that listens, in the place of the one that runs."""
    made = Listener()
    monkeypatch.setattr(engines, "running", lambda: made)
    return made


N = 1 << 20
F32, I32, U8, C64 = jnp.float32, jnp.int32, jnp.uint8, jnp.complex64
STRATEGIES = (
    "lookback",
    "serial_lookback",
    "chained",
    "repeatable",
    "reduce_then_scan",
    "scan_then_propagate",
)


def total(fn):
    """The gradient of a scan's sum."""
    return jax.grad(lambda *arrays: jnp.sum(fn(*arrays)))


def scans(method):
    """Calls of one strategy: names, functions, dtypes and shapes of arrays."""
    row, lanes = ((N,), F32), ((N + 3, 2), I32)
    sum_of = functools.partial(jscan.cumsum, method=method)
    reduced = functools.partial(jscan.reduce, method=method)
    yield "segments", lambda x, f: sum_of(x, segments=f), [row, ((N,), U8)]
    yield "lanes", lambda x: sum_of(x, reverse=True), [lanes]
    yield "logaddexp", lambda x: jscan.cumlogsumexp(x, method=method), [row]
    yield (
        "ids",
        lambda x, i: jscan.segment_sum(x, i, N, True, method=method),
        [row, ((N,), I32)],
    )
    yield (
        "flags",
        lambda x, f: reduced(lax.max, x, identity=0, segments=f, num_segments=9),
        [lanes, ((N + 3,), U8)],
    )
    yield "whole", lambda x: reduced(lax.add, x), [row]


def calls():
    """Calls that launch every kernel there is."""
    for method in STRATEGIES:
        yield from ((f"{method}, {name}", fn, arrays) for name, fn, arrays in scans(method))
    yield "matrices", lambda x: jscan.associative_scan(jnp.matmul, x), [((N, 2, 2), F32)]
    yield "rows", lambda x, f: jscan.cumsum(x, segments=f), [((512,), F32), ((512,), U8)]
    yield "wide words", lambda x: jscan.cumsum(x), [((N,), jnp.float64)]
    yield "tangents", total(jscan.linear_recurrence), [((N,), F32), ((N,), F32)]
    yield "transposed", total(lambda x: jscan.associative_scan(lax.mul, x)), [((N,), F32)]
    yield "ranks", lambda x, m: jscan.split(x, m), [((N,), F32), ((N,), jnp.bool_)]
    yield "parts", jscan.partition, [((N,), F32), ((N,), jnp.int8)]
    yield "places", lambda m: jscan.nonzero(m, size=N), [((N,), jnp.bool_)]
    yield "counts", lambda m: jscan.enumerate(m), [((N,), jnp.bool_)]
    yield "keys", lambda keys: jscan.histogram(keys, 256), [((N,), U8)]
    yield "systems", jscan.tridiagonal_solve, [((512, 3), F32)] * 4
    yield (
        "planned",
        lambda x, *plan: jscan.segment_sum(x, jscan.SegmentPlan.tree_unflatten(N // 8, plan)),
        [((N, 128), F32), *[((N,), I32)] * 3],
    )
    matrix = [((2**20,), I32), ((2**18 + 1,), I32)]
    yield "products", jscan.csr_matvec, [((2**20,), F32), *matrix, ((99,), F32)]
    yield "products of lanes", jscan.csr_matmat, [((2**20,), C64), *matrix, ((99, 3), C64)]
    for name in ("mean", "norm", "logsumexp", "argmax"):
        fn = getattr(jscan, f"segment_{name}")
        fn = functools.partial(fn, num_segments=99, indices_are_sorted=True)
        yield f"segment_{name}", fn, [((N,), F32), ((N,), I32)]
    located = functools.partial(jscan.Segments.from_lengths, total=N)
    yield "located ids", lambda lengths: located(lengths).ids, [((99,), I32)]
    for dtype in (U8, I32):
        yield (
            f"flags of {jnp.dtype(dtype).name} ids",
            lambda ids: jscan.Segments.from_ids(ids).flags,
            [((2**17 + 5,), dtype)],
        )
        yield (
            f"segments by {jnp.dtype(dtype).name} ids",
            lambda x, ids: jscan.cumsum(x, segments=jscan.Segments.from_ids(ids)),
            [((2**17 + 5,), F32), ((2**17 + 5,), dtype)],
        )
    yield (
        "unpacked bits of rows",
        lambda x, words: jscan.cumsum(
            x, 1, segments=jscan.Segments.from_packed(words, 2**17 + 5), init=np.float32(1)
        ),
        [((2, 2**17 + 5), F32), ((2, 2**12 + 1), jnp.uint32)],
    )
    states = [((2**18, 4, 4), F32), ((2**18, 4), F32)]
    yield "chunks that threads walk", jscan.matrix_recurrence, states
    yield "located flags", lambda lengths: located(lengths).flags, [((99,), I32)]


CALLS = {name: (fn, arrays) for name, fn, arrays in calls()}


def lower(name):
    """Lowers a call anew: what jit has lowered once it does not lower again."""
    fn, arrays = CALLS[name]
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in arrays]
        cuda_program(functools.partial(fn), *shapes)


@pytest.mark.parametrize("name", CALLS)
def test_kernels_hold_known_primitives_alone(listener, name):
    lower(name)
    found = {primitive for launch in listener.launches for primitive in launch.primitives}
    assert found
    assert found - LAX - OURS == set()


def test_every_kernel_is_among_the_calls(listener):
    """So that one with primitives of its own is not forgotten."""
    for name in CALLS:
        lower(name)
    source = "".join((PACKAGE / file).read_text() for file in FILES if file.startswith("kernels/"))
    names = set(re.findall(r'"(jscan_[a-z_]+)"', source)) - OURS
    assert {launch.name for launch in listener.launches} == names


def test_an_operator_is_prepared_for_the_engine_that_runs(monkeypatch):
    class Refusing(Listener):
        def why_inexpressible(self, jaxpr):
            """Why nothing can run."""
            return f"it has {len(jaxpr.eqns)} equation"

    combine = trace(lambda x, y: x * y, [jnp.ones(3)], jax.tree.structure(0), 0, None)
    assert combine is not None
    assert prepare(combine) is prepare(combine)
    with monkeypatch.context() as other:
        refusing = Refusing()
        other.setattr(engines, "running", lambda: refusing)
        with pytest.raises(Inexpressible, match="a listener cannot express the operator: it has 1"):
            prepare(combine)
    prepare(combine)


def test_a_kernel_runs_by_its_body_and_references_alone(listener):
    x = np.random.default_rng(1).integers(-9, 9, 70).astype(np.int32)
    flags = (x == 3).astype(np.uint8)
    with primitives.tiled(tuning.Tuning(length=16, lanes=1, warps=1, window=4)):
        cuda_program(lambda x, f: jscan.cumsum(x, segments=f, method="lookback"), x, flags)
    [launch] = listener.launches
    words = jnp.zeros(launch.results[-1].shape, jnp.int32)
    found, _ = jax.jit(launch.run)(x, flags, words)
    np.testing.assert_array_equal(found, reference.scan(np.add, x, flags=flags))


@pytest.mark.skipif(jscan.engine().name != "pallas", reason="another engine runs")
@pytest.mark.parametrize(
    ("fn", "dtype"), [(lambda x, y: lax.erf_inv(x) + y, "float64"), (lambda x, y: ~x & y, "uint64")]
)
def test_operators_that_break_the_lowering_fall_back(fn, dtype):
    """Where Pallas' own rules end in an assertion, or in an error of what is below them."""
    x = jax.ShapeDtypeStruct((5000,), jnp.dtype(dtype))
    with jax.enable_x64(True):
        assert cuda_program(lambda x: jscan.associative_scan(fn, x), x)
