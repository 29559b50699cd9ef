"""Test-wide settings: 64-bit types, strict promotion, engines, and what needs a GPU."""

from __future__ import annotations

import functools
import gc
import os
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path

# Several test processes share one GPU. Each takes memory as it needs it and keeps it, since the
# allocator gives none back, and the one with arrays of 2^32 elements leaves the others their share:
# 16 processes fit in 80 GB. The allocator is the one that users have, whose memory is not cleared.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.55")

import jax
import pytest
from hypothesis import settings

from tests import costs
from tests.contexts import one_for_all
from tests.engines import ENGINES, Engine
from tests.quick import leave_to_the_thorough

# While tests are collected little is let go of; looking for it would take a third of the time.
gc.disable()

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 8)  # for meshes of several devices
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# A first example compiles and a second does not, so examples have no common deadline.
settings.register_profile("jscan", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("jscan")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Turns of what is costly."""
    shown = "of costly tests, those of turn K of N; K may count on behind N"
    parser.addoption("--turn", default="", metavar="K/N", help=shown)


def pytest_configure(config: pytest.Config) -> None:
    """Has costly tests left out behind all others that choose."""
    config.pluginmanager.register(costs)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a test with an `engine` every engine, and one with a size too each of its sizes."""
    if "engine" not in metafunc.fixturenames:
        return
    markers = {marker.name for marker in metafunc.definition.iter_markers()}
    sized = bool({"size", "large_size"} & set(metafunc.fixturenames))
    engines = [engine for engine in ENGINES if engine.runs(markers, sized)]
    marks = {engine: [pytest.mark.gpu] if engine.gpu else [] for engine in engines}
    for name, sizes in (
        ("size", [engine.sizes for engine in engines]),
        ("large_size", [engine.large_sizes for engine in engines]),
    ):
        if name in metafunc.fixturenames:
            cases = [
                pytest.param(engine, size, id=f"{engine.name}-{size}", marks=marks[engine])
                for engine, own in zip(engines, sizes, strict=True)
                for size in own
            ]
            metafunc.parametrize(("engine", name), cases, indirect=["engine"])
            return
    cases = [pytest.param(e, id=e.name, marks=marks[e]) for e in engines]
    metafunc.parametrize("engine", cases, indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The engine to test; it is active for the length of the test."""
    with request.param.active() as active:
        yield active


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Lets go of the arrays of a test that failed on a GPU, which its traceback holds."""
    report = yield
    if call.excinfo is not None and item.get_closest_marker("gpu"):
        traceback.clear_frames(call.excinfo.tb)
    return report


MAPPED = 32_000
"""Linux lets a process have 65,530 mapped regions, and each compiled program takes some three. One
more ends the process."""


@pytest.fixture(scope="module", autouse=True)
def few_contexts() -> Iterator[None]:
    """Lowers the programs of a file in one context."""
    with one_for_all():
        yield


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Lets go of compiled programs once they are many."""
    yield
    regions = Path("/proc/self/maps")
    if regions.exists() and regions.read_bytes().count(b"\n") > MAPPED:
        jax.clear_caches()


def _but_for_the_engine(item: pytest.Item) -> str:
    """A name that a case shares with those on other engines, whose results are one reference's."""
    case = getattr(item, "callspec", None)
    values = [] if case is None else case.params.values()
    names = [value.name for value in values if isinstance(value, Engine)]
    return functools.reduce(lambda name, engine: name.replace(engine, ""), names, item.nodeid)


def pytest_collection_finish() -> None:
    """Spares the collector of garbage what lives to the end, and rests it longer between walks."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def pytest_unconfigure() -> None:
    """Gives back what was spared; Triton's bindings take what is left at the exit for leaks."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves most cases of many to the thorough, and skips what needs a GPU without one."""
    leave_to_the_thorough(items, turn=int(jax.__version_info__ >= (0, 11)))
    for item in items:
        if item.get_closest_marker("gpu") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_but_for_the_engine(item)))
    if any(item.get_closest_marker("gpu") for item in items) and jax.default_backend() != "gpu":
        reason = f"needs a CUDA GPU; JAX's default backend is {jax.default_backend()!r}"
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))
