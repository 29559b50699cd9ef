"""What jscan says on versions of jax that it does not know, and of one's warnings."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import threading
import tomllib
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jscan
from jscan import versions
from jscan.kernels import launch
from tests.kernels.test_lowering import array, cuda_program

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def lower(n):
    """Makes a kernel for CUDA, of a length that was not lowered before."""
    return cuda_program(lambda x: jscan.cumsum(x, method="lookback"), array(n))


def run(program):
    """A Python process of its own, with 4 CPU devices as here."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False
    )
    return done.stdout + done.stderr


def test_an_old_jax_is_named_with_what_to_install():
    old = "import jax; jax.__version__ = '0.9.2'; jax.__version_info__ = (0, 9, 2)\n"
    said = run(old + "import jscan")
    assert "ImportError: jscan needs jax 0.10.2 or newer, and this is jax 0.9.2" in said
    assert "pip install 'jax>=0.10.2,<0.13'" in said


def test_the_oldest_jax_is_the_one_that_the_package_asks_for():
    asked = next(d for d in PROJECT["dependencies"] if d.startswith("jax>="))
    assert asked == "jax>=" + ".".join(map(str, versions.OLDEST))
    assert jax.__version_info__ >= versions.OLDEST
    assert jax.__version_info__[:2] <= versions.NEWEST, "a jax that nobody has tested"


def test_the_documented_table_is_what_the_extra_brings():
    """Rows of Python, jax, jax-triton and triton."""
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    table = page.split("| Python | jax | jax-triton | triton |\n|---|---|---|---|\n")[1]
    old, new = ([*row.strip("|").split("|")] for row in table.split("\n\n")[0].splitlines())
    assert [cell.strip() for cell in old] == ["3.11", "0.10.2", "0.3.1", "3.6"]
    assert [cell.strip() for cell in new] == [
        *("3.12 and newer", "0.11.2 and 0.12.0.1", "0.4", "3.7 and newer"),
    ]
    ranges = {since: str(known) for since, known in versions.TRITON.items()}
    assert ranges == {(0, 3): ">=3.6,<3.7", (0, 4): ">=3.7"}
    brought = PROJECT["optional-dependencies"]["cuda"]
    assert "jax-triton>=0.3.1,<0.4; python_version < '3.12'" in brought
    assert f"triton{ranges[0, 3]}; python_version < '3.12'" in brought
    assert "jax-triton>=0.4; python_version >= '3.12'" in brought
    assert versions.OLDEST_JAX_TRITON == (0, 3, 1)
    assert versions.OLDEST == (0, 10, 2)
    assert versions.NEWEST == (0, 12)


def test_internals_that_a_newer_jax_has_not_are_named_with_what_to_install(monkeypatch):
    def missing(*_, **__):
        raise AttributeError("module 'jax._src.pallas' has no attribute 'triton'")

    monkeypatch.setattr("jscan.kernels.launch.call", missing)
    with pytest.raises(AttributeError, match="has no attribute 'triton'"):
        lower(70_001)  # on a jax that jscan knows, that is jscan's own mistake
    monkeypatch.setattr(jax, "__version_info__", (0, 99, 0))
    monkeypatch.setattr(jax, "__version__", "0.99.0")
    with pytest.raises(RuntimeError, match=r"jax 0\.99\.0.*jax>=0\.10\.2,<0\.13.*method='xla'"):
        lower(70_001)
    x = jax.ShapeDtypeStruct((70_001,), jnp.float32)
    assert "stablehlo" in cuda_program(lambda x: jscan.cumsum(x, method="xla"), x)


def test_the_deprecation_of_triton_is_explained_once(monkeypatch):
    monkeypatch.setattr(versions, "_told", threading.Event())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (70_002, 70_003, 70_004):
            lower(n)
    said = [str(w.message) for w in caught if "Triton" in str(w.message)]
    if jax.__version_info__ < (0, 11) or jscan.engine().name != "pallas":
        assert said == []
        return
    [one] = said
    assert one.startswith("jscan's kernels are Pallas on Triton")
    assert versions.RANGE in one
    assert "method='xla'" in one


def test_who_makes_errors_of_warnings_meets_one(monkeypatch):
    monkeypatch.setattr(versions, "_told", threading.Event())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if jax.__version_info__ >= (0, 11) and jscan.engine().name == "pallas":
            with pytest.raises(DeprecationWarning, match="jscan's kernels are Pallas on Triton"):
                lower(70_006)
        assert "triton" in lower(70_006)


def test_other_warnings_come_through(monkeypatch):
    real = launch.call

    def warning(*arguments, **keywords):
        warnings.warn("something else", DeprecationWarning, stacklevel=1)
        return real(*arguments, **keywords)

    monkeypatch.setattr("jscan.kernels.launch.call", warning)
    with pytest.warns(DeprecationWarning, match="something else"):
        lower(70_005)


def test_a_thread_that_compiles_beside_another_hears_nothing_of_it(monkeypatch):
    """The first to end would set the filters of warnings back while the second needs them."""
    real, entered = launch.call, []
    second_entered, first_ended = threading.Event(), threading.Event()

    def staged(*arguments, **keywords):
        entered.append(threading.get_ident())
        if len(entered) == 1:
            second_entered.wait(1)  # in vain, where threads wait for each other
        else:
            second_entered.set()
            assert first_ended.wait(60)
        return real(*arguments, **keywords)

    def first_or_second(n):
        program = lower(n)
        first_ended.set()
        return program

    monkeypatch.setattr("jscan.kernels.launch.call", staged)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "jscan's kernels are Pallas on Triton")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            programs = list(pool.map(first_or_second, (71_001, 71_002)))
    assert len(set(entered)) == 2
    assert all("triton" in program for program in programs)
