"""One of two processes that run functions of rows on a mesh of the devices of both.

    python -m tests.devices.worker PROCESS COORDINATOR [PLATFORM]

PROCESS is 0 or 1, and COORDINATOR is the address at which process 0 listens. PLATFORM is "cpu", of
which each process has four devices, or "cuda": process 0 takes the first GPU, and process 1 the
second. Every process runs the same programs, looks at the shards that it holds, and compares them
with the values that one of its devices has by itself. It prints what differs, and exits with 1 if
something does.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tests.devices.layouts import (
    COUNT,
    FUNCTIONS,
    MOVES_DATA,
    N,
    assert_close,
    collectives,
    gradient_of,
)

PROCESSES = 2
LOCAL = {"cpu": 4, "cuda": 1}
"""The devices of a process."""
ROWS = np.random.default_rng(0).uniform(0.5, 1.5, (8, N))
KINDS = (AxisType.Auto, AxisType.Explicit)
LAYOUTS = {"rows": ("a",), "axis": (None, "a")}
GRADIENTS = (
    "cumsum",
    "cumprod, every form",
    "associative_scan",
    "linear_recurrence",
    "segment_sum",
)
"""Functions whose gradients are looked at, too."""

Functions = Mapping[str, Callable[[Any], Any]]


def programs() -> Mapping[int | None, Functions]:
    """Functions that run in one program, by the elements of a collective along a sharded axis.

    Each device has a total for each row, or for each segment of each row.
    """
    found: dict[int | None, dict[str, Callable[[Any], Any]]] = {}
    for name, fn in FUNCTIONS.items():
        of_segments = "by" in name or name.startswith("segment_")
        limit = jax.device_count() * len(ROWS) * (COUNT if of_segments else 1)
        own = found.setdefault(None if name in MOVES_DATA else limit, {})
        own[name] = fn
        if name in GRADIENTS:
            own[f"gradient of {name}"] = gradient_of(fn)
    return found


def together(functions: Functions) -> Any:
    """One program of many functions of rows."""
    return jax.jit(jax.vmap(lambda row: {name: fn(row) for name, fn in functions.items()}))


def shards_of(x: np.ndarray, mesh: Mesh, *entries: str | None) -> jax.Array:
    """A global array, of which this process makes its shards."""
    layout = NamedSharding(mesh, PartitionSpec(*entries))
    return jax.make_array_from_callback(x.shape, layout, lambda place: x[place])


def compiled_for(
    functions: Functions, kind: AxisType, layout: str
) -> tuple[jax.stages.Compiled, dict[str, Any]]:
    """A program for the devices of both processes, and its results."""
    mesh = jax.make_mesh((jax.device_count(),), ("a",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        x = shards_of(ROWS, mesh, *LAYOUTS[layout])
        compiled = together(functions).lower(x).compile()
        return compiled, compiled(x)


def check_shards(found: Any, expected: Any) -> None:
    """Raise unless the shards that this process holds have the expected values."""
    for y, values in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert y.shape == values.shape
        assert len(y.addressable_shards) == jax.local_device_count()
        for shard in y.addressable_shards:
            assert_close(shard.data, np.asarray(values)[shard.index])


def check_collectives(compiled: jax.stages.Compiled, layout: str, limit: int | None) -> None:
    """Raise if rows move, or along a sharded axis more than totals."""
    moved = collectives(compiled)
    if layout == "rows":
        assert not moved, moved
    else:
        assert moved
        assert limit is None or all(c.elements <= limit for c in moved), moved


def failures_of(functions: Functions, limit: int | None) -> list[str]:
    """What differs from one device, and where.

    Each function lies in one layout in a mesh of each kind, every second one the other way round.
    """
    expected = together(functions)(ROWS)
    found = []

    def attempt(what: str, check: Callable[..., Any], *args: Any) -> Any:
        try:
            return check(*args)
        except Exception:
            found.append(f"{what}, {layout}, {kind.name}\n{traceback.format_exc()}")

    for turn, (kind, layout) in zip((0, 1, 1, 0), itertools.product(KINDS, LAYOUTS), strict=True):
        own = dict(list(functions.items())[turn::2])
        ran = attempt(f"program of {', '.join(own)}", compiled_for, own, kind, layout)
        if ran is not None:
            attempt("collectives", check_collectives, ran[0], layout, limit)
            for name, result in ran[1].items():
                attempt(name, check_shards, result, expected[name])
    return found


def main(process: int, coordinator: str, platform: str = "cpu") -> int:
    """Join the other process, and check everything together with it."""
    jax.config.update("jax_platforms", platform)
    jax.config.update("jax_enable_x64", True)
    if platform == "cpu":
        jax.config.update("jax_num_cpu_devices", LOCAL[platform])
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(coordinator, PROCESSES, process)
    else:
        jax.distributed.initialize(coordinator, PROCESSES, process, local_device_ids=[process])
    assert jax.local_device_count() == LOCAL[platform]
    assert jax.device_count() == PROCESSES * LOCAL[platform]
    checked = programs()
    found = [line for limit, own in checked.items() for line in failures_of(own, limit)]
    for line in found:
        print(f"wrong: {line}")
    count = sum(map(len, checked.values()))
    print(f"process {process}: {count} functions, {len(found)} failures", flush=True)
    jax.distributed.shutdown()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
