"""Scans of sharded arrays by the wall clock, and what their programs move between devices.

A timing is of many calls that are queued one behind the other, until the last one's results are
ready on all devices: devices that wait for each other do so within it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from benchmarks.cases import devices
from benchmarks.cases.devices import ALONE, EXPLICIT, MAPPED, MESH_AXIS, Case, Scan
from benchmarks.cases.inputs import Arrays, Shape
from benchmarks.measuring import machine

ENOUGH = 40e9
"""Bytes of a device's memory that long parts of 2^28 elements take; others are of 2^27."""
Parts = list[Arrays]
"""The operands of each device."""


def counts() -> list[int]:
    """How many devices are measured together."""
    return [count for count in (1, 2, 4, 8) if count <= jax.device_count()]


def chosen(only: str, shrink: int) -> list[Case]:
    """The cases whose name contains this, and those that they are compared with."""
    exponent = 28 if _memory() >= ENOUGH else 27
    found = devices.cases(counts(), shrink, exponent)
    named = {(case.scan, case.who) for case in found if only in case.name}

    def is_needed(case: Case) -> bool:
        beside = case.way == ALONE and (case.scan, case.who) in named
        return beside or only in case.name or case.scan.what in ("copy", "gather")

    return [case for case in found if is_needed(case)]


def _memory() -> float:
    stats = jax.devices()[0].memory_stats() or {}
    return float(stats.get("bytes_limit", math.inf))


def effort(shrink: int) -> tuple[float, int]:
    """Seconds of a timing, and how many timings a case gets: next to none where sizes shrink."""
    return (0.0005, 2) if shrink else (0.02, 7)


def measured(
    cases: Sequence[Case], budget: float, seconds: float, repetitions: int
) -> Iterator[dict[str, Any]]:
    """The result so far after each case; none is begun when the budget of seconds is spent."""
    begin = time.monotonic()
    entries: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        if time.monotonic() - begin > budget:
            return
        entry = _entry(case, seconds, repetitions)
        if "seconds" in entry:
            add_bound(entry, case, entries)
        entries.append(entry)
        left = [each.name for each in cases[number + 1 :]]
        content = {"counts": counts(), "measured": entries, "left_out": left}
        first = entries[0]  # the copy on one device
        if "seconds" in first:
            rate = round(first["bytes"] / first["seconds"])
            content["copy"] = {"bytes": first["bytes"], "bytes_per_second": rate}
        yield content


def _entry(case: Case, seconds: float, repetitions: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": case.name,
        "what": case.scan.what,
        "who": case.who,
        "way": case.way,
        "devices": case.count,
        "part": list(case.scan.part(case.count)),
        "bytes": case.bytes,
        "applied": case.applied,
    }
    try:
        parts = _parts(case.scan.build, case.scan.part(case.count), case.count)
        compiled, operands = _compiled(case, parts)
        entry["collectives"] = collectives(compiled.as_text() or "")
        _refuse_what_does_not_fit(compiled)
        error = worst(case.scan, parts, compiled(*operands)[0])
        right = error <= case.scan.bound
        shown = error if math.isfinite(error) else str(error)
        entry["answer"] = {"error": shown, "bound": case.scan.bound, "right": right}
        if not right:
            return entry
        times = clocked(lambda: compiled(*operands), seconds, repetitions)
    except Exception as error:  # the other cases are worth having
        return entry | {"why_not": machine.told(error)}
    each = [took / case.applied for took in times]
    entry |= {"seconds": statistics.median(each), "fastest": min(each), "slowest": max(each)}
    return entry | {"repeats": len(each)}


def add_bound(entry: dict[str, Any], case: Case, before: Sequence[dict[str, Any]]) -> None:
    """The least time that bytes and exchanges take, and what one device took for such a part."""

    def seconds(what: str, **fields: Any) -> float | None:
        for other in (*before, entry):
            if other["what"] == what and all(other[name] == fields[name] for name in fields):
                return float(other["seconds"]) if "seconds" in other else None
        return None

    alone = seconds(case.scan.what, who=case.who, devices=1)
    if alone is not None and case.count > 1:
        entry["of_one"] = alone / entry["seconds"]
    copied = seconds("copy", devices=case.count)
    told = seconds("gather", devices=case.count) if case.exchanges else 0.0
    if copied is None or told is None or not case.bytes:
        return
    moved = next(e["bytes"] for e in before or [entry] if e["what"] == "copy")
    entry["bound"] = case.bytes / moved * copied + told
    entry["share"] = entry["bound"] / entry["seconds"]


def _refuse_what_does_not_fit(compiled: jax.stages.Compiled) -> None:
    """Raises where a program allocates more than there is, before anything is lost to it."""
    analysis: Any = compiled.memory_analysis()
    if analysis is None:
        return
    needed = sum(
        getattr(analysis, f"{kind}_size_in_bytes") for kind in ("argument", "output", "temp")
    )
    if needed > _memory():
        raise MemoryError(f"the program needs {needed / 1e9:.0f} GB a device")


def _compiled(case: Case, parts: Parts) -> tuple[jax.stages.Compiled, Arrays]:
    """The program and its operands, sharded as the case has it; no part is copied."""
    fn = case.program()
    if case.way == ALONE:
        return jax.jit(fn).lower(*parts[0]).compile(), parts[0]
    kind = AxisType.Explicit if case.way == EXPLICIT else AxisType.Auto
    here = jax.devices()[: case.count]
    mesh = jax.make_mesh((case.count,), (MESH_AXIS,), axis_types=(kind,), devices=here)
    layout = NamedSharding(mesh, PartitionSpec(MESH_AXIS))
    operands = tuple(_whole(own, layout) for own in zip(*parts, strict=True))
    if case.way == MAPPED:
        fn = jax.shard_map(fn, mesh=mesh, in_specs=layout.spec, out_specs=layout.spec)
    with jax.set_mesh(mesh) if kind == AxisType.Explicit else contextlib.nullcontext():
        run = jax.jit(fn, out_shardings=layout)
        return run.lower(*operands).compile(), operands


def _whole(parts: Sequence[jax.Array], layout: NamedSharding) -> jax.Array:
    first, *rest = parts[0].shape
    shape = (first * len(parts), *rest)
    return jax.make_array_from_single_device_arrays(shape, layout, list(parts))


@functools.lru_cache(maxsize=2)
def _parts(build: Any, shape: Shape, count: int) -> Parts:
    """Operands of devices, each made on the first one, so that one program makes all of them."""
    made = jax.jit(build, static_argnums=1)
    return [
        tuple(jax.device_put(x, device) for x in made(jnp.int32(seed), shape))
        for seed, device in enumerate(jax.devices()[:count])
    ]


def worst(scan: Scan, operands: Parts, result: jax.Array) -> float:
    """How far any result of any device is off its recurrence."""
    shards = sorted(result.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    if len(shards) != len(operands):
        return math.inf
    error = 0.0
    before: Any = None
    for shard, parts in zip(shards, operands, strict=True):
        y, *own = (jax.device_put(x, jax.devices()[0]) for x in (shard.data, *parts))
        if before is None or scan.axis:
            before = jnp.zeros_like(lax.slice_in_dim(y, 0, 1, axis=scan.axis))
        off, before = _off(scan, before, y, *own)
        error = max(error, float(off)) if math.isfinite(off) else math.inf
    return error


@functools.partial(jax.jit, static_argnums=0)
def _off(
    scan: Scan, before: jax.Array, y: jax.Array, *operands: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """How far a part is off its recurrence, and its last element."""
    a, b = scan.recurrence(*operands)
    if scan.reverse:
        y, b = (jnp.flip(x, scan.axis) for x in (y, b))
    last = lax.slice_in_dim(y, y.shape[scan.axis] - 1, None, axis=scan.axis)
    earlier = lax.slice_in_dim(y, 0, y.shape[scan.axis] - 1, axis=scan.axis)
    expected = a * lax.concatenate([before, earlier], scan.axis) + b
    off = jnp.abs(y - expected)
    return jnp.max(jnp.where(jnp.isnan(off), jnp.inf, off)), last


def clocked(call: Callable[[], Any], seconds: float, repetitions: int) -> list[float]:
    """Seconds of a call in each of several timings, of about so many seconds of calls each."""
    for _ in range(3):
        jax.block_until_ready(call())
    start = time.perf_counter()
    jax.block_until_ready(call())
    calls = min(max(2, math.ceil(seconds / (time.perf_counter() - start))), 500)
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        for _ in range(calls):
            results = call()
        jax.block_until_ready(results)
        times.append((time.perf_counter() - start) / calls)
    return times


_COLLECTIVE = re.compile(
    r"= \(*(.*?)\)* (all-gather|all-reduce|all-to-all|ragged-all-to-all|collective-permute"
    r"|collective-broadcast|reduce-scatter)(?:-start)?\("
)


def collectives(text: str) -> list[dict[str, Any]]:
    """The operations of a compiled program that move data between devices.

    Each has a name, how many there are of it, and the most elements that one of them has.
    """
    found: dict[str, list[int]] = {}
    for shapes, name in _COLLECTIVE.findall(text):
        sizes = [
            math.prod(int(size) for size in dims.split(",") if size)
            for dims in re.findall(r"\[([\d,]*)\]", shapes)
        ]
        found.setdefault(name, []).append(max(sizes, default=0))
    return [
        {"name": name, "count": len(sizes), "elements": max(sizes)} for name, sizes in found.items()
    ]


def wrong(content: dict[str, Any]) -> list[str]:
    """The cases of jscan that failed, and those of anyone that were wrong."""
    return [
        f"{entry['name']}: {entry.get('why_not') or entry['answer']}"
        for entry in content["measured"]
        if "seconds" not in entry and (entry["who"] == devices.JSCAN or "answer" in entry)
    ]


def line(entry: dict[str, Any]) -> str:
    """A line about a case that is done."""
    took = f"{1e6 * entry['seconds']:10.1f} µs" if "seconds" in entry else " " * 13
    share = f"share {entry['share']:.2f}" if "share" in entry else ""
    one = f"{entry['of_one']:.2f} of one" if "of_one" in entry else ""
    said = entry.get("why_not", "").splitlines()[:1] or ["" if "seconds" in entry else "WRONG"]
    return f"{entry['name']:55s} {took}  {share}  {one}  {said[0][:60]}".rstrip()
