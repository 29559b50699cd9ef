"""Runs one kernel of each kind once, for compute-sanitizer.

    compute-sanitizer --tool memcheck --error-exitcode 1 python -m benchmarks.tools.memcheck

Behind it may stand ``scans``, ``derivatives`` or ``segments`` (reductions, ranks and searches); all
of them run where none does. The tools ``initcheck`` and ``racecheck`` run them too; the latter sees
hazards of shared memory, but not those of tile state, which `tests/protocol` is about. Every array
is an allocation of its own, so that the sanitizer sees where each one ends, and lengths are odd, so
that the last tile of every axis reaches past it. Answers are compared with loops in NumPy. On any
machine, ``--dry-run`` lowers the kernels for CUDA instead, and ``--plain`` compares plain JAX with
the loops.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from benchmarks.cases.operations import split_and_segment
from benchmarks.measuring import machine
from benchmarks.tools.loops import (
    ADD,
    AFFINE,
    CYCLE,
    LOG,
    MAX,
    MOMENTS,
    MUL,
    TURN,
    XOR,
    Array,
    Kernel,
    Scan,
)
from jscan import Segments
from jscan.operators import add

STRATEGIES = ("serial_lookback", "chained", "scan_then_propagate", "reduce_then_scan")
BACKWARDS: dict[str, Any] = {"reverse": True, "exclusive": True}


class Draw:
    """Operands by their shapes: the same ones in every run."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def signs(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """-1 and 1."""
        return (2 * self.rng.integers(0, 2, shape) - 1).astype(dtype)

    def steps(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """-1, 0 and 1."""
        return self.rng.integers(-1, 2, shape).astype(dtype)

    def pair(self, shape: tuple[int, ...], dtype: Any = np.float32) -> tuple[Array, Array]:
        """Slopes and offsets of a recurrence."""
        return self.signs(shape, dtype), self.steps(shape, dtype)

    def heads(self, shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
        """Some heads."""
        return (self.rng.random(shape) < 0.01).astype(dtype)

    def one_of(self, count: int, n: int) -> tuple[Array, ...]:
        """Of so many leaves, one is -1 or 1 and the others 0."""
        which, sign = self.rng.integers(0, count, n), self.signs((n,))
        return tuple(np.where(which == k, sign, np.float32(0)) for k in range(count))


def scans() -> Iterator[Scan]:
    """Scans of each kind, over operands with no whole number of tiles."""
    draw = Draw()

    def sums(
        what: str, shape: tuple[int, ...], method: str = "lookback", axis: int = 0, **how: Any
    ) -> Scan:
        return Scan(ADD, (draw.steps(shape),), what, method, axis, **how)

    n, rows, tall, small = 10007, (7, 9001), (1337, 33), (37, 61)
    yield sums("block, last axis", small, "block", 1)
    yield sums("block, first axis", small, "block")
    yield sums("block, 1 element of 3", (3,), "block")
    yield sums("block, segmented", small, "block", 1, heads=draw.heads(small))
    yield sums("block, reverse exclusive", small, "block", 1, **BACKWARDS)
    yield sums("lookback, middle axis", (3, 1337, 5), axis=1)
    yield sums("reverse", (n,), reverse=True)
    yield sums("exclusive", (n,), exclusive=True)
    for dtype in (np.uint8, np.bool_, np.int32):
        heads = draw.heads((n,), dtype)
        yield sums(f"segmented, {heads.dtype} heads", (n,), heads=heads)
    yield sums("segmented, shared heads", rows, axis=1, heads=draw.heads((9001,)))
    yield sums("segmented, reverse exclusive", (n,), heads=draw.heads((n,)), **BACKWARDS)
    yield sums("reverse exclusive, first axis", tall, **BACKWARDS)
    yield Scan(AFFINE, draw.pair((n,)), "two leaves, one result", used=(1,))
    yield Scan(AFFINE, draw.pair(tall), "two leaves, first axis", used=(1,))
    yield Scan(AFFINE, draw.pair((n,)), "two leaves, reverse", reverse=True, used=(1,))
    one, zero = np.ones(n, np.float32), np.zeros(n, np.float32)
    samples = one, draw.rng.random(n).astype(np.float32), zero
    yield Scan(MOMENTS, samples, "three leaves", used=(0, 1, 2))
    yield Scan(XOR, (draw.rng.random(n) < 0.5,), "bool")
    floats = (np.float16, jnp.bfloat16, np.float64, np.complex64, np.complex128)
    for number in (np.int8, np.int16, np.int32, np.int64, *floats):
        yield Scan(ADD, (draw.steps((n,), number),), str(jnp.dtype(number).name))
    for method in ("lookback", *STRATEGIES):
        yield sums(f"{method}, one row", (n,), method)
        yield sums(f"{method}, last axis", rows, method, 1)
        yield sums(f"{method}, first axis", tall, method)
        yield sums(f"{method}, segmented", (n,), method, heads=draw.heads((n,)))
        yield sums(f"{method}, segmented, first axis", tall, method, heads=draw.heads(tall))
        yield sums(f"{method}, reverse exclusive", (n,), method, **BACKWARDS)
        yield Scan(AFFINE, draw.pair((n,)), f"{method}, two leaves", method, used=(0, 1))
    for length in (2, 31, 33, 2047, 2049, 4095, 4097):
        yield sums(f"{length} elements", (length,))


def derivatives() -> Iterator[Scan]:
    """Scans to differentiate, forwards and backwards."""
    draw = Draw()
    n, rows, tall, small = 5003, (7, 4999), (1337, 33), (37, 61)
    h = (1,)
    layouts: tuple[tuple[str, tuple[int, ...], str, int], ...] = (
        ("block, last axis", small, "block", 1),
        ("block, first axis", small, "block", 0),
        ("block, 1 element of 3", (3,), "block", 0),
        ("one row", (n,), "lookback", 0),
        ("last axis", rows, "lookback", 1),
        ("first axis", tall, "lookback", 0),
        ("middle axis", (3, 1337, 5), "lookback", 1),
    )
    for what, shape, method, axis in layouts:
        how: dict[str, Any] = {"method": method, "axis": axis}
        yield Scan(AFFINE, draw.pair(shape), what, **how, used=h)
        yield Scan(AFFINE, draw.pair(shape), f"{what}, reverse", **how, reverse=True, used=h)
        marks = draw.heads(shape)
        yield Scan(MUL, (draw.signs(shape),), f"{what}, segmented", **how, heads=marks)
        yield Scan(MUL, (draw.signs(shape),), f"{what}, exclusive", **how, exclusive=True)
        everything = f"{what}, segmented, reverse, exclusive"
        yield Scan(MUL, (draw.signs(shape),), everything, **how, **BACKWARDS, heads=marks)
    yield Scan(AFFINE, draw.pair((n,)), "two results", used=(0, 1))
    what = "two results, reverse exclusive"
    yield Scan(AFFINE, draw.pair((n,)), what, **BACKWARDS, used=(0, 1))
    for dtype in (np.bool_, np.int32):
        marks = draw.heads((n,), dtype)
        yield Scan(AFFINE, draw.pair((n,)), f"{marks.dtype} heads", heads=marks, used=h)
    marks = draw.heads((4999,))
    yield Scan(AFFINE, draw.pair(rows), "shared heads", axis=1, heads=marks, used=h)
    for axis, leaf, shape in ((0, "lanes", (1337, 1)), (1, "rows", (1, 33))):
        leaves = draw.signs(shape), draw.steps(tall)
        for reverse in (False, True):
            what = f"a shared by {leaf}{', reverse' if reverse else ''}"
            yield Scan(AFFINE, leaves, what, "auto", axis, reverse, used=h)
    for name in ("float16", "bfloat16", "float64"):
        for shape in ((n,), tall):
            what = f"{name} of {shape}"
            yield Scan(AFFINE, draw.pair(shape, jnp.dtype(name)), what, used=h)
            signs = draw.signs(shape, jnp.dtype(name))
            yield Scan(MUL, (signs,), f"{what}, reverse", reverse=True)
    for length in (2, 31, 33, 1023, 1025, 2047, 2049, 4095, 4097):
        yield Scan(AFFINE, draw.pair((length,)), f"{length} elements", used=h)
    distinct = draw.rng.permutation(n).astype(np.float32)
    for reverse in (False, True):
        what = "reverse" if reverse else ""
        yield Scan(MAX, (distinct,), what, reverse=reverse)
        normal = draw.rng.normal(size=n).astype(np.float32)
        yield Scan(LOG, (normal,), what, reverse=reverse)
        yield Scan(ADD, (draw.steps((n,)),), what, reverse=reverse)
        yield Scan(TURN, draw.one_of(2, n), what, reverse=reverse, used=(0, 1))
        yield Scan(CYCLE, draw.one_of(3, n), what, reverse=reverse, used=(0, 1, 2))
    marks = draw.heads((n,))
    yield Scan(TURN, draw.one_of(2, n), "segmented, exclusive", exclusive=True, heads=marks)


def segments(shape: tuple[int, ...], plain: bool) -> Iterator[Kernel]:
    """Reductions of an array of this shape; ranks and searches too, if it has one dimension."""
    rng = np.random.default_rng(shape[0])
    n, x = shape[0], rng.integers(-9, 9, shape).astype(np.int32)
    count = max(1, n // 7)
    ids = np.sort(rng.integers(-2, count + 2, n)).astype(np.int32)
    heads = rng.random(n) < 0.1
    heads[0] = True
    numbers = (np.cumsum(heads) - 1).astype(np.int32)
    most = int(numbers[-1]) + 1

    def kernel(what: str, run: Callable[..., Any], operands: Sequence[Array], want: Any) -> Kernel:
        def wanted() -> Sequence[Array]:
            return [np.asarray(want() if callable(want) else want)]

        return Kernel(f"{what} of {shape}", lambda *a: [run(*a)], operands, wanted)

    def sums(of: Array, count: int) -> Array:
        """The sum of each segment; numbers outside are dropped."""
        result = np.zeros((count, *x.shape[1:]), x.dtype)
        kept = (of >= 0) & (of < count)
        np.add.at(result, of[kept], x[kept])
        return result

    def by(method: str) -> Callable[..., Any]:
        method = "xla" if plain else method
        return lambda x, ids: jscan.segment_sum(x, ids, count, True, method=method)

    def whole(method: str) -> Callable[..., Any]:
        method = "xla" if plain else method
        return lambda x: jscan.reduce(add, x, method=method)

    def reduce(describe: Callable[[jax.Array], Segments]) -> Callable[..., Any]:
        return lambda x, described: jscan.reduce(
            add, x, segments=describe(described), num_segments=most
        )

    yield kernel("ids", by("auto"), [x, ids], lambda: sums(ids, count))
    for form, describe, described in (
        ("flags", Segments.from_flags, heads),
        ("runs", Segments.from_ids, numbers),
        (
            "lengths",
            lambda lengths: Segments.from_lengths(lengths, total=n),
            np.bincount(numbers).astype(np.int32),
        ),
    ):
        yield kernel(form, reduce(describe), [x, described], lambda: sums(numbers, most))
    for method in STRATEGIES:
        yield kernel(f"{method} by ids", by(method), [x, ids], lambda: sums(ids, count))
        yield kernel(f"{method}, whole", whole(method), [x], x.sum(0))
    if len(shape) > 1:
        return
    values, mask, few = rng.random(n).astype(np.float32), rng.random(n) < 0.5, rng.random(n) < 0.01
    few[0] = True
    kept = int(mask.sum())
    order = np.lexsort((np.arange(n), mask, np.cumsum(few)))
    parted = np.concatenate([values[~mask], values[mask]])
    yield kernel("enumerate", jscan.enumerate, [mask], np.cumsum(mask) - mask)
    yield kernel("pack", lambda x, m: jscan.pack(x, m, size=kept), [values, mask], values[mask])
    yield kernel("split", jscan.split, [values, mask], parted)
    yield kernel(
        "split_and_segment",
        lambda *operands: split_and_segment(*operands)[0],
        [values, mask, few],
        values[order],
    )
    yield kernel("ids", lambda f: Segments.from_flags(f).ids, [few], np.cumsum(few) - 1)


SHAPES: tuple[tuple[int, ...], ...] = (
    *((5,), (1001,), (100_003,), (300_001,)),
    *((5, 5), (1001, 5), (100_003, 5)),
    *((1001, 70), (10_007, 70)),
)
"""Of what is reduced."""


def kernels(group: str, plain: bool = False) -> Iterator[Kernel]:
    """All of a group; those of plain JAX, where there is no GPU to run others."""
    if group == "segments":
        for shape in SHAPES:
            yield from segments(shape, plain)
        return
    for scan in scans() if group == "scans" else derivatives():
        chosen = dataclasses.replace(scan, method="xla") if plain else scan
        yield chosen.value() if group == "scans" else chosen.differentiated()


GROUPS = ("scans", "derivatives", "segments")


def main() -> int:
    """Runs every kernel; 1 if an answer is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tools.memcheck")
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--dry-run", action="store_true", help="lower for CUDA, without a GPU")
    instead.add_argument("--plain", action="store_true", help="check plain JAX on this machine")
    options = parser.parse_args()
    if not set(options.groups) <= set(GROUPS):
        parser.error(f"groups are {', '.join(GROUPS)}")
    # Read when JAX first uses the GPU, which is below.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    if not (options.dry_run or options.plain or machine.has_gpu()):
        print("memcheck: no CUDA GPU here; --dry-run lowers the kernels")
        return 2
    good = "lowered" if options.dry_run else "right"
    wrong = 0
    for group in options.groups or GROUPS:
        for kernel in kernels(group, options.plain):
            trouble = kernel.not_lowered() if options.dry_run else kernel.wrong()
            wrong += bool(trouble)
            print(f"{kernel.name:64s} {trouble or good}", flush=True)
    print(f"{wrong} wrong" if wrong else f"all {good}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
