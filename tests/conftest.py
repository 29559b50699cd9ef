"""Test-wide settings: 64-bit types, strict promotion, engines, and what needs a GPU."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

# Several test processes share one GPU; each takes memory as it needs it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import pytest
from hypothesis import settings

from tests.engines import ENGINES, Engine

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 4)  # for meshes of several devices
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# A first example compiles and a second does not, so examples have no common deadline.
settings.register_profile("jscan", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("jscan")


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


def is_one_of_many(item: pytest.Item) -> bool:
    """Whether a test is a case of a sweep, or one on an interpreted kernel, which takes seconds."""
    case = getattr(item, "callspec", None)
    if case is None:
        return False
    engines = [value for value in case.params.values() if isinstance(value, Engine)]
    interpreted = any(engine.interpreted for engine in engines)
    return interpreted or item.get_closest_marker("sweep") is not None


def name_of(item: pytest.Item) -> str:
    """A test's id without the room that its file is in."""
    return f"tests/{item.path.name}::" + item.nodeid.partition("::")[2]


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves two of three cases of many to the thorough, and skips what needs a GPU without one.

    Which ones is decided by their names, and by the version of jax, so that two versions run two
    thirds together.
    """
    kept = int(jax.__version_info__ >= (0, 11))
    for item in items:
        if is_one_of_many(item) and zlib.crc32(name_of(item).encode()) % 3 != kept:
            item.add_marker(pytest.mark.thorough)
    if any(item.get_closest_marker("gpu") for item in items) and jax.default_backend() != "gpu":
        reason = f"needs a CUDA GPU; JAX's default backend is {jax.default_backend()!r}"
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))
