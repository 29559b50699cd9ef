"""The house: which module may know of which, and how long a file may be."""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FLOORS = (
    "__main__",
    "report",
    "jscan",
    "sparse",
    "scans cumulative recurrences matrix_recurrences tridiagonal reductions selections "
    "statistics "
    "vectors compaction runs networks",
    "groups",
    "by_ids",
    "orders",
    "dispatch programs",
    "block_scans division holes identities templates wires",
    "rules",
    "derivatives.scan_jvp",
    "plain",
    "plans segments described counted traced_bounds",
    "ranks",
    "elements elimination matrices multiplication sorting primitives summaries",
    "kernels",
    "derivatives",
    "compensation logsums",
    "made pairs",
    "blocks combine starts",
    "heads unrolled",
    "called",
    "written",
    "arguments bits jaxprs meshes operators",
    "eager extent engines remembered",
    "advice capabilities versions",
)
"""Modules and packages from the roof to the ground. One imports from its own floor and below."""

INTERNALS = {"jscan.kernels.internals"}
"""The module that touches what jax does not promise to keep."""

ENGINES = {"jscan.kernels.engines.pallas", "jscan.kernels.engines.jax_triton"}
"""The engines: the one that runs is imported, since others may lack what they need."""

LINES = 400
"""The most lines of a file."""


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its name, parsed."""
    found = {}
    for path in sorted((ROOT / "jscan").rglob("*.py")):
        *folders, name = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(folders if name == "__init__" else [*folders, name])] = ast.parse(
            path.read_text()
        )
    return found


def imports(tree: ast.AST) -> Iterator[str]:
    """The names that are imported anywhere in a tree, whether they are modules or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def module_of(name: str) -> str | None:
    """The module of this package that a name is, or is in."""
    if name in modules():
        return name
    inside = name.rpartition(".")[0]
    return inside if inside in modules() else None


def own_imports(tree: ast.AST) -> set[str]:
    """The modules of this package that a tree imports."""
    return {found for found in map(module_of, imports(tree)) if found is not None}


def floor_of(module: str) -> int:
    """The number of a module's floor, counted from the roof: the longest name decides."""
    floors = {
        name if name == "jscan" else f"jscan.{name}": number
        for number, names in enumerate(FLOORS)
        for name in names.split()
    }
    while module not in floors:
        module, _, last = module.rpartition(".")
        assert module not in ("", "jscan"), f"{last} is on no floor"
    return floors[module]


def test_no_modules_import_each_other_in_a_circle():
    """Imports inside functions count too: one that hides a circle is one."""
    arrows = {name: own_imports(tree) - {name} for name, tree in modules().items()}
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("module", modules())
def test_imports_point_downwards(module):
    upwards = {name for name in own_imports(modules()[module]) if floor_of(name) < floor_of(module)}
    assert not upwards


def test_kernels_are_imported_by_rules_alone_when_one_is_needed():
    """Pallas takes seconds to import, and only GPU programs need it. Nothing else is put off."""
    for module, tree in modules().items():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        late = set().union(*map(own_imports, functions))
        chooses = module == "jscan.kernels.engines" and late <= ENGINES
        assert not late or module.startswith("jscan.rules.") or chooses, f"{module} puts off {late}"
        if not module.startswith("jscan.kernels"):
            kernels = {name for name in own_imports(tree) if name.startswith("jscan.kernels")}
            assert kernels == late, f"{module}: {kernels} are imported, {late} when needed"


def test_one_module_touches_what_jax_does_not_promise_to_keep():
    touching = {
        module
        for module, tree in modules().items()
        if any(name.startswith(("jax._src", "jaxlib")) for name in imports(tree))
    }
    assert touching == INTERNALS


def test_no_name_hides_a_module():
    """A name that a package imports is not that of another module in it."""
    for module, tree in modules().items():
        hidden = {
            f"{module}.{alias.asname or alias.name}": f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        wrong = {name: found for name, found in hidden.items() if name in modules()}
        assert all(name == found for name, found in wrong.items()), wrong


@pytest.mark.parametrize("folder", ["jscan", "tests", "benchmarks", "examples"])
def test_files_are_short(folder):
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > LINES} == {}
