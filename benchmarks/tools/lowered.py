"""What calls lower to, as text: kernels in Triton's IR, and the programs around them.

    python -m benchmarks.tools.lowered write FOLDER        of this checkout
    python -m benchmarks.tools.lowered compare FOLDER FOLDER

A change that is to change nothing leaves every text as it was. Nothing is run, so no GPU is needed;
the texts depend on the version of jax.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import multiprocessing
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractDevice, AbstractMesh

from benchmarks.measuring.triton_ir import readable
from benchmarks.tools.lowered_calls import FUNCTIONS, Case, cases


def transformed(function: Callable[..., Any], transformation: str) -> Callable[..., Any]:
    """The function's value, or what a transformation makes of it."""

    def total(*arrays: Any) -> Any:
        results = jax.tree.leaves(function(*arrays))
        return sum(jnp.sum(jnp.sin(x)) for x in results if jnp.issubdtype(x.dtype, jnp.floating))

    def moving(arrays: Sequence[Any]) -> tuple[int, ...]:
        return tuple(i for i, x in enumerate(arrays) if jnp.issubdtype(x.dtype, jnp.floating))

    def gradient(*arrays: Any) -> Any:
        return jax.grad(total, moving(arrays))(*arrays)

    def pushed(*arrays: Any) -> Any:
        some = moving(arrays)

        def of_some(*moved: Any) -> Any:
            full = list(arrays)
            for i, x in zip(some, moved, strict=True):
                full[i] = x
            return function(*full)

        given = [arrays[i] for i in some]
        return jax.jvp(of_some, given, [jnp.cos(x) for x in given])

    def second(*arrays: Any) -> Any:
        return jax.grad(lambda *xs: sum(jnp.sum(g) for g in gradient(*xs)), moving(arrays))(*arrays)

    def mapped(*arrays: Any) -> Any:
        return jax.vmap(function, in_axes=(0, *[None] * (len(arrays) - 1)))(*arrays)

    return {
        "value": function,
        "grad": gradient,
        "jvp": pushed,
        "grad of grad": second,
        "vmap": jax.vmap(function),
        "vmap of first": mapped,
        "vmap of grad": jax.vmap(gradient),
    }[transformation]


def lowered(case: Case) -> dict[str, str]:
    """The texts of a case by what they are; where lowering fails, what it said."""
    name, told, operands, transformation, device = case
    jax.config.update("jax_enable_x64", True)
    jax.clear_caches()

    def program(*arrays: Any) -> Any:
        return transformed(lambda *xs: FUNCTIONS[name](*xs, **told), transformation)(*arrays)

    arrays = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape, dtype in operands]
    mesh = AbstractMesh(
        (1,), ("device",), abstract_device=AbstractDevice(device, num_cores=None, platform="gpu")
    )
    found = {}
    for platform in ("cpu", "cuda"):
        try:
            with jax.sharding.use_abstract_mesh(mesh):
                text = (
                    jax.jit(program).trace(*arrays).lower(lowering_platforms=(platform,)).as_text()
                )
        except (ValueError, TypeError) as error:
            text = f"{type(error).__name__}: {error}"
        kernels, text = _without_kernels(text)
        found[platform] = text
        found.update({f"kernel {i}": kernel for i, kernel in enumerate(kernels)})
    return found


_KERNEL = re.compile(r'ir = "((?:[^"\\]|\\.)*)"')


def _without_kernels(text: str) -> tuple[list[str], str]:
    """The kernels of a program as text, and the program with their numbers in place of bytes."""
    kernels: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        kernels.append(readable(_bytes(found[1])))
        return f"ir = {len(kernels) - 1}"

    return kernels, _KERNEL.sub(numbered, text)


def _bytes(escaped: str) -> bytes:
    """What MLIR writes as a string: bytes that are no letters, by two digits each."""
    plain = re.sub(
        r'\\([0-9A-F]{2}|["\\])',
        lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1],
        escaped,
    )
    return plain.encode("latin-1")


def write(folder: pathlib.Path, jobs: int) -> None:
    """Writes a file for each case."""
    folder.mkdir(parents=True, exist_ok=True)
    every = list(cases())
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        for case, found in zip(every, pool.map(lowered, every, chunksize=8), strict=True):
            key = hashlib.sha256(repr(case).encode()).hexdigest()[:16]
            content = json.dumps({"case": repr(case), **found}, indent=0)
            (folder / f"{key}.json").write_text(content)
    print(f"{len(every)} calls")


def compare(before: pathlib.Path, after: pathlib.Path) -> int:
    """Prints which texts differ, and returns how many."""
    names = sorted({p.name for folder in (before, after) for p in folder.glob("*.json")})
    counts = {"cpu": 0, "cuda": 0, "kernel": 0, "error": 0}
    different: list[str] = []
    for name in names:
        old, new = (
            json.loads((f / name).read_text()) if (f / name).exists() else {}
            for f in (before, after)
        )
        for part in sorted({*old, *new} - {"case"}):
            is_error = bool(re.match(r"\w+Error: ", new.get(part, "")))
            counts["error" if is_error else part.split()[0]] += 1
            if old.get(part) != new.get(part):
                different.append(f"{name} {part}: {(old or new)['case']}")
    print(
        f"{len(names)} calls: {counts['kernel']} kernels, {counts['cuda']} programs for CUDA, "
        f"{counts['cpu']} for CPUs, {counts['error']} errors; {len(different)} differ"
    )
    print("\n".join(different[:40]))
    return len(different)


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.what == "write":
        write(given.folders[0], given.jobs)
        return 0
    return int(compare(*given.folders) > 0)


if __name__ == "__main__":
    sys.exit(main())
