"""The choice of an engine: names, contexts, the environment, and what is not installed."""

from __future__ import annotations

import concurrent.futures
import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import capabilities, engines, primitives
from jscan.kernels import engines as seam
from tests.kernels.test_lowering import array, calls, cuda_program, gpu_of, h200

WITHOUT_PALLAS = {"PYTHONPATH": str(Path(__file__).parents[1] / "without_pallas")}
"""The environment of a process in which the first engine's part of jax is not there."""


def run(program, **environment):
    """What a Python process of its own says."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **environment},
    )
    return done.stdout + done.stderr


@pytest.fixture
def installed(monkeypatch):
    """A function that says which modules are there, and the versions of packages."""

    def only(modules, **versions):
        found = {name.replace("_", "-"): v for name, v in versions.items()}
        monkeypatch.setattr(engines, "_is_there", lambda module: module in modules)
        monkeypatch.setattr(engines, "_version", found.get)
        monkeypatch.setattr(engines, "_told", threading.Event())

    return only


PALLAS = "jax._src.pallas.triton"
OTHERS = ("jax_triton", "triton", "jax_cuda13_plugin")


def engines_bound(fn, *arguments):
    """The engines that a function's primitives are bound with."""
    jaxpr = jax.make_jaxpr(fn)(*arguments)
    return [e.params["engine"] for e in jaxpr.eqns if "engine" in e.params]


# --- names and contexts -------------------------------------------------------------------------


def test_an_unknown_name_is_refused():
    said = r"^jscan\.engine: name must be 'pallas' or 'jax-triton'; got 'mosaic'"
    with pytest.raises(ValueError, match=said):
        jscan.engine("mosaic")


def test_an_unknown_name_in_the_environment_is_refused():
    said = run("import jscan; jscan.cumsum([1])", JSCAN_ENGINE="mosaic")
    assert "ValueError: JSCAN_ENGINE must be 'pallas' or 'jax-triton'; got 'mosaic'" in said


def test_the_environment_names_one():
    program = "import jscan; print(jscan.engines.name_in_context())"
    assert run(program, JSCAN_ENGINE="jax-triton") == "jax-triton\n"
    assert run(program, JSCAN_ENGINE="") == "None\n"


def test_a_context_names_one_for_what_is_bound_in_it(installed):
    installed([PALLAS, *OTHERS], jax_triton=(0, 4, 1), triton=(3, 7))
    x = jnp.arange(3)
    with jscan.engine("jax-triton"):
        assert engines_bound(jscan.cumsum, x) == ["jax-triton"]
        assert str(jscan.engine()) == "jax-triton: it is named"
        with jscan.engine("pallas"):
            assert engines_bound(jscan.cumsum, x) == ["pallas"]
    assert engines_bound(jscan.cumsum, x) == [engines.name_in_context()]


def test_a_context_holds_in_its_thread_alone():
    x = jnp.arange(3)
    with engines.named("jax-triton"), concurrent.futures.ThreadPoolExecutor(1) as pool:
        there = pool.submit(engines_bound, jscan.cumsum, x).result()
    assert there == [engines.name_in_context()]


def test_a_compiled_function_is_compiled_anew_for_another_engine():
    traced = []

    @jax.jit
    def scan(x):
        traced.append(engines.name_in_context())
        return jscan.cumsum(x)

    for name in ("pallas", "jax-triton", "pallas", "jax-triton"):
        with engines.named(name):
            np.testing.assert_array_equal(scan(jnp.arange(4)), [0, 1, 3, 6])
    assert traced == ["pallas", "jax-triton"]


def test_derivatives_and_batches_keep_their_engine():
    x = jnp.arange(6.0).reshape(2, 3)
    with engines.named("jax-triton"):
        gradient = jax.vmap(jax.grad(lambda x: jnp.sum(jscan.cumprod(x))))
        jaxpr = jax.make_jaxpr(gradient)(x)
    found = [e.params["engine"] for e in jaxpr.eqns if "engine" in e.params]
    assert len(found) >= 2
    assert set(found) == {"jax-triton"}


@pytest.mark.parametrize("name", engines.NAMES)
def test_kernels_run_interpreted_whatever_is_installed(installed, name):
    if name == "pallas" and engines.why_missing(name) is not None:
        pytest.skip("this jax has no Pallas for Triton")
    installed([])
    with engines.named(name), primitives.interpreted():
        module = f"jscan.kernels.engines.{name.replace('-', '_')}"
        assert seam.running() is importlib.import_module(module)
        x = np.arange(70, dtype=np.int32)
        np.testing.assert_array_equal(jscan.cumsum(x, method="lookback"), np.cumsum(x))


# --- what is installed --------------------------------------------------------------------------


def test_the_first_that_is_there_runs(installed):
    versions = {"jax_triton": (0, 4, 1), "triton": (3, 7)}
    installed([PALLAS, *OTHERS], **versions)
    assert str(jscan.engine()) == "pallas: it comes with jax, and no other is named"
    installed(OTHERS, **versions)
    assert jscan.engine().name == "jax-triton"
    assert "has no Pallas for Triton" in jscan.engine().reason


@pytest.mark.parametrize(
    ("modules", "versions", "said"),
    [
        ((), {}, r"jax-triton is not installed: python -m pip install 'jscan\[cuda\]'"),
        (
            OTHERS,
            {"jax_triton": (0, 2, 0)},
            r"jax-triton 0\.2\.0 is .*'jax-triton>=0\.3\.1'",
        ),
        (("jax_triton",), {"jax_triton": (0, 4, 1)}, r"triton is not installed .*'triton>=3\.7'"),
        (
            OTHERS,
            {"jax_triton": (0, 4, 1), "triton": (3, 6)},
            r"triton 3\.6 is too old for jax-triton 0\.4\.1: .*'triton>=3\.7'",
        ),
        (
            OTHERS,
            {"jax_triton": (0, 3, 1), "triton": (3, 5, 1)},
            r"triton 3\.5\.1 is too old for jax-triton 0\.3\.1: .*'triton>=3\.6,<3\.7'",
        ),
        (
            OTHERS,
            {"jax_triton": (0, 3, 1), "triton": (3, 9, 0)},
            r"triton 3\.9\.0 is too new for jax-triton 0\.3\.1: .*'triton>=3\.6,<3\.7'",
        ),
        (OTHERS[:2], {"jax_triton": (0, 3, 1), "triton": (3, 6)}, r"no plugin .*'jscan\[cuda\]'"),
    ],
)
def test_what_is_missing_is_named_with_what_to_install(installed, modules, versions, said):
    installed([PALLAS, *modules], **versions)
    with pytest.raises(ImportError, match=f"engine: .*{said}"):
        jscan.engine("jax-triton")
    with engines.named("jax-triton"):
        assert jscan.engine().name is None
        explained = rf"jax-triton is named, so that kernels raise ImportError: .*{said}"
        assert re.match(explained, jscan.engine().reason)
        with pytest.raises(ImportError, match=f"jscan: .*{said}"):
            cuda_program(jscan.cumsum, array(70_011))


def test_newer_versions_than_there_are_run(installed):
    installed(OTHERS, jax_triton=(0, 5), triton=(3, 11))
    with jscan.engine("jax-triton"):
        assert jscan.engine().name == "jax-triton"


def test_pallas_that_is_not_there_is_named_with_what_to_install(installed):
    installed(OTHERS, jax_triton=(0, 4, 1), triton=(3, 7))
    with pytest.raises(ImportError, match=r"has no Pallas for Triton: python -m pip install 'jax>"):
        jscan.engine("pallas")


def test_without_any_all_runs_in_plain_jax_and_says_so_once(installed):
    installed([])
    assert jscan.engine().name is None
    assert str(jscan.engine()).startswith("no engine: plain JAX runs, since jax ")
    with pytest.warns(
        RuntimeWarning,
        match=r"without its kernels .* plain JAX runs, since .* pip install 'jscan\[cuda\]'",
    ):
        program = cuda_program(jscan.cumsum, array(70_012))
    assert calls(program) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert calls(cuda_program(jscan.cumsum, array(70_013))) == 0
    with pytest.raises(ValueError, match=r"method='lookback' cannot run this scan: .*jax-triton"):
        cuda_program(lambda x: jscan.cumsum(x, method="lookback"), array(70_014))


def test_an_import_brings_no_engine():
    program = "import sys, jscan; print([m for m in ENGINES if sys.modules.get(m)])"
    names = ("jax_triton", "triton", "jax.experimental.pallas", "jscan.kernels", PALLAS)
    assert run(program.replace("ENGINES", repr(names))) == "[]\n"


def test_one_engine_does_not_import_the_other():
    program = (
        "import sys, jscan\nfrom jscan import engines, primitives\n"
        "with engines.named(NAME), primitives.interpreted():\n"
        "    jscan.cumsum([1, 2], method='block')\n"
        "print([m for m in ('jscan.kernels.engines.pallas', 'jax_triton') if sys.modules.get(m)])"
    )
    assert run(program.replace("NAME", "'jax-triton'")) == "[]\n"


# --- a jax without the first engine -------------------------------------------------------------

SAMPLE = (
    "tests/segments/test_segments.py::test_pathologies_over_several_tiles",
    "tests/segments/test_segments.py::test_flags_of_a_leading_axis",
    "tests/segments/test_segment_reductions.py::test_layouts",
    "tests/segments/test_segment_plans.py::test_trailing_dimensions",
    "tests/segments/test_conversions.py::test_many_segments_over_several_tiles",
    "tests/transformations/test_transformations.py::test_jit_with_segments",
    "tests/transformations/test_transformations.py::test_vmap_of_a_segmented_matrix_of_rows",
    "tests/transformations/test_captured_scalars.py::test_scans",
)


def test_a_jax_without_pallas_for_triton_runs_the_suite():
    """A sample of it; what takes many cases is for the run of all tests with the block in place."""
    arguments = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not gpu and not thorough and not sweep",
    ]
    arguments += ["-k", "interpreted", *SAMPLE]
    said = run(f"import sys, pytest; sys.exit(pytest.main({arguments!r}))", **WITHOUT_PALLAS)
    assert " passed" in said, said
    assert " failed" not in said, said


def test_a_jax_without_pallas_for_triton_is_imported_without_a_word():
    program = "import jscan; print(jscan.cumsum([1, 2]), jscan.engine().name)"
    said = run(program, PYTHONWARNINGS="error", **WITHOUT_PALLAS).strip()
    assert said in ("[1 3] jax-triton", "[1 3] None")


# --- jax-triton, where it is --------------------------------------------------------------------


@pytest.fixture
def jax_triton():
    """A context in which it runs."""
    reason = engines.why_missing("jax-triton")
    if reason is not None:
        pytest.skip(reason)
    with jscan.engine("jax-triton"):
        yield "triton_kernel_call"


def test_kernels_lower_without_a_gpu(jax_triton):
    def scan(x, flags):
        return jscan.cumsum(x, segments=flags)

    program = cuda_program(scan, array(1 << 20), array(1 << 20, "bool"))
    [line] = [line for line in program.splitlines() if jax_triton in line]
    assert "output_operand_alias" in line, "the words of the state are written in place"
    assert "xla.gpu.triton" not in program


def test_a_program_of_the_same_text_is_compiled_once(jax_triton, monkeypatch):
    cuda_program(jscan.cumsum, array(70_021))
    backend = pytest.importorskip("triton.backends.nvidia.compiler").CUDABackend
    monkeypatch.setattr(backend, "make_ptx", None)
    assert calls_of(jax_triton, cuda_program(lambda x: jscan.cumsum(x), array(70_021))) == 1


def calls_of(target, program):
    """How often a program calls the target."""
    return program.count(f"@{target}")


def test_export_for_cuda_and_for_several_platforms(jax_triton):
    version = importlib.metadata.version("jax-triton")
    target = jax_triton if version.startswith("0.3.") else f"{jax_triton}_ffi"
    check = jax.export.DisabledSafetyCheck.custom_call(target)
    for platforms in (("cuda",), ("cpu", "cuda")):
        scan = jax.jit(lambda x: jscan.cumsum(x, exclusive=True))
        export = jax.export.export(scan, platforms=platforms, disabled_checks=[check])
        with h200():
            exported = export(np.arange(5000, dtype="float32"))
        assert target in exported.mlir_module()


def test_threads_lower_at_once(jax_triton):
    def lowered(n):
        with jscan.engine("jax-triton"):
            return calls_of(jax_triton, cuda_program(jscan.cumsum, array(n)))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lowered, range(70_030, 70_038))) == [1] * 8


@pytest.mark.usefixtures("jax_triton")
def test_a_program_is_compiled_for_its_devices(monkeypatch):
    asked = []

    def of_program(devices):
        asked.append([*devices])
        return 90

    monkeypatch.setattr(capabilities, "of_program", of_program)
    own = jax.devices()[2:4]
    mesh = jax.sharding.Mesh(own, "x")
    scan = jax.shard_map(jscan.cumsum, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    parts = jax.device_put(jnp.ones(70_052), jax.NamedSharding(mesh, jax.P("x")))
    jax.jit(scan).trace(parts).lower(lowering_platforms=("cuda",))
    assert asked == [own]
    # jax tells of no devices where it takes a program for one of all devices of a kind.
    jax.jit(jscan.cumsum).trace(array(70_053)).lower(lowering_platforms=("cuda",))
    assert asked == [own, []]


@pytest.mark.usefixtures("jax_triton")
def test_a_program_for_an_unknown_device_says_so():
    with (
        gpu_of("NVIDIA Abacus"),
        pytest.raises(RuntimeError, match="no compute capability is known of a 'NVIDIA Abacus'"),
    ):
        jax.jit(jscan.cumsum).trace(array(70_040)).lower(lowering_platforms=("cuda",))


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="this machine has a GPU")
@pytest.mark.usefixtures("jax_triton")
def test_a_program_for_no_device_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"there is no GPU .*AbstractDevice"):
        jax.jit(jscan.cumsum).trace(array(70_041)).lower(lowering_platforms=("cuda",))
