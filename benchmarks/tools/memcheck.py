"""Runs one kernel of each kind once, for compute-sanitizer.

    compute-sanitizer --tool memcheck --error-exitcode 1 python -m benchmarks.tools.memcheck

Behind it may stand ``scans``, ``derivatives`` or ``segments`` (reductions, ranks and searches); all
of them run where none does. The tools ``initcheck`` and ``racecheck`` run them too; the latter sees
hazards of shared memory, but not those of tile state, which `tests/protocol` is about. Every array
is an allocation of its own, so that the sanitizer sees where each one ends, and lengths are odd, so
that the last tile of every axis reaches past it. Answers are compared with those of plain JAX on
the CPU, which the tests compare with loops. ``--dry-run`` lowers the kernels for CUDA instead, on
any machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from benchmarks.cases.operations import join_moments, split_and_segment
from benchmarks.measuring import machine
from jscan import Segments
from jscan.operators import add

Array = np.ndarray[Any, Any]
Leaves = tuple[Any, ...]
Shape = tuple[int, ...]

STRATEGIES = ("serial_lookback", "chained", "scan_then_propagate", "reduce_then_scan")
BACKWARDS: dict[str, Any] = {"reverse": True, "exclusive": True}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A call of kernels.

    Attributes:
      name: what is printed.
      run: the call, of a method and the operands.
      operands: of the call: arrays, or several in a tuple.
      method: that the kernels are reached by.
      tolerance: of answers, relative and absolute; 0 where they are exact.
      least: how many kernels the program has at the least.
    """

    name: str
    run: Callable[..., Any]
    operands: Sequence[Any]
    method: str = "auto"
    tolerance: float = 0.0
    least: int = 1

    @property
    def x64(self) -> bool:
        """Whether an operand has 64 bits a number."""
        wide = np.int64, np.float64, np.complex128
        return any(x.dtype in wide for x in jax.tree.leaves(self.operands))

    def not_lowered(self) -> str:
        """What is wrong with the program for CUDA; nothing, where all is right."""
        with jax.enable_x64(self.x64):
            run = functools.partial(self.run, self.method)
            text = machine.lower_for_cuda(run, self.operands).as_text()
        found = machine.kernel_calls(text)
        return "" if found >= self.least else f"{found} KERNELS"

    def wrong(self) -> str:
        """What is wrong with the answers; nothing, where all is right."""
        found = self._computed(self.method, jax.devices()[0])
        wanted = self._computed("xla", jax.devices("cpu")[0])
        for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
            most = self.tolerance
            if not (np.allclose(x, y, most, most) if most else np.array_equal(x, y)):
                return f"WRONG: result {i} of {len(found)}"
        return ""

    def _computed(self, method: str, device: jax.Device) -> list[Array]:
        with jax.enable_x64(self.x64), jax.default_device(device):
            operands = jax.device_put(self.operands, device)
            results = jax.jit(functools.partial(self.run, method))(*operands)
            return [np.asarray(x) for x in jax.tree.leaves(results)]


@dataclasses.dataclass(frozen=True)
class Rule:
    """An operator on tuples, the identity of each leaf, and how exact it is."""

    name: str
    join: Callable[[Leaves, Leaves], Leaves]
    identity: tuple[float, ...]
    tolerance: float = 0.0


def _cycle(a: Leaves, b: Leaves) -> Leaves:
    """A product of polynomials whose cube of the variable is 1."""
    first, second, third = (tuple(a[i] * b[(k - i) % 3] for i in range(3)) for k in range(3))
    return first[0] + first[1] + first[2], sum(second[1:], second[0]), sum(third[1:], third[0])


def _turn(a: Leaves, b: Leaves) -> Leaves:
    """A product of complex numbers, by their parts."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


ADD = Rule("sum", lambda a, b: (a[0] + b[0],), (0,))
MUL = Rule("product", lambda a, b: (a[0] * b[0],), (1,))
MAX = Rule("maximum", lambda a, b: (jnp.maximum(a[0], b[0]),), (-np.inf,))
XOR = Rule("exclusive or", lambda a, b: (a[0] ^ b[0],), (0,))
LOG = Rule("logaddexp", lambda a, b: (jnp.logaddexp(a[0], b[0]),), (-np.inf,), 1e-3)
AFFINE = Rule("affine", lambda a, b: (b[0] * a[0], b[0] * a[1] + b[1]), (1, 0))
TURN = Rule("two states", _turn, (1, 0))
CYCLE = Rule("three states", _cycle, (1, 0, 0))
MOMENTS = Rule("moments", join_moments, (0, 0, 0), 1e-3)


@dataclasses.dataclass(frozen=True)
class Scan:
    """A scan: an operator, leaves, how they are scanned, and which results are used."""

    rule: Rule
    leaves: tuple[Array, ...]
    what: str = ""
    method: str = "lookback"
    axis: int = 0
    reverse: bool = False
    exclusive: bool = False
    heads: Array | None = None
    used: tuple[int, ...] = (0,)

    @property
    def shape(self) -> Shape:
        """Of the results; a leaf may have 1 where others share it."""
        return np.broadcast_shapes(*(leaf.shape for leaf in self.leaves))

    def value(self) -> Kernel:
        """The kernel of the scan alone."""
        operands = [self.leaves, self.heads]
        return Kernel(self.what, self._scan, operands, self.method, self.rule.tolerance)

    def differentiated(self) -> Kernel:
        """The kernels of results, of their tangents, and of the cotangents of the leaves."""
        draw = np.random.default_rng(1)
        tangents = tuple(draw.integers(-1, 2, x.shape).astype(x.dtype) for x in self.leaves)
        dtypes = [self.leaves[k].dtype for k in self.used]
        cotangents = tuple(draw.integers(-1, 2, self.shape).astype(dtype) for dtype in dtypes)
        operands = [self.leaves, tangents, cotangents, self.heads]
        name = f"{self.rule.name}, {self.what}" if self.what else self.rule.name
        return Kernel(name, self._derivatives, operands, self.method, self.rule.tolerance, 3)

    def _scan(self, method: str, leaves: Leaves, heads: jax.Array | None) -> Leaves:
        how: dict[str, Any] = {"axis": self.axis, "reverse": self.reverse, "segments": heads}
        if any(x.shape != self.shape for x in leaves):  # only a recurrence shares a leaf
            return (jscan.linear_recurrence(*leaves, method=method, **how),)
        if self.exclusive:
            pairs = zip(self.rule.identity, leaves, strict=True)
            how["identity"] = tuple(np.asarray(v, x.dtype)[()] for v, x in pairs)
        results = jscan.associative_scan(
            self.rule.join, leaves, exclusive=self.exclusive, method=method, **how
        )
        return tuple(results[k] for k in self.used)

    def _derivatives(
        self, method: str, leaves: Leaves, tangents: Leaves, cotangents: Leaves, heads: Any
    ) -> Any:
        def scan(*moved: jax.Array) -> Leaves:
            return self._scan(method, moved, heads)

        return jax.jvp(scan, leaves, tangents), jax.vjp(scan, *leaves)[1](cotangents)


class Draw:
    """Operands by their shapes: the same ones in every run."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def signs(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """-1 and 1."""
        return (2 * self.rng.integers(0, 2, shape) - 1).astype(dtype)

    def steps(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """-1, 0 and 1."""
        return self.rng.integers(-1, 2, shape).astype(dtype)

    def pair(self, shape: Shape, dtype: Any = np.float32) -> tuple[Array, Array]:
        """Slopes and offsets of a recurrence."""
        return self.signs(shape, dtype), self.steps(shape, dtype)

    def heads(self, shape: Shape, dtype: Any = np.uint8) -> Array:
        """Head flags, 1 in a hundred set."""
        return (self.rng.random(shape) < 0.01).astype(dtype)

    def one_of(self, count: int, n: int) -> tuple[Array, ...]:
        """Of so many leaves, one is -1 or 1 and the others 0."""
        which, sign = self.rng.integers(0, count, n), self.signs((n,))
        return tuple(np.where(which == k, sign, np.float32(0)) for k in range(count))


def scans() -> Iterator[Kernel]:
    """Scans of each kind, over operands with no whole number of tiles."""
    draw = Draw()

    def scan(rule: Rule, leaves: tuple[Array, ...], *told: Any, **how: Any) -> Kernel:
        return Scan(rule, leaves, *told, **how).value()

    def sums(what: str, shape: Shape, *told: Any, **how: Any) -> Kernel:
        return scan(ADD, (draw.steps(shape),), what, *told, **how)

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
    yield scan(AFFINE, draw.pair((n,)), "two leaves, one result", used=(1,))
    yield scan(AFFINE, draw.pair(tall), "two leaves, first axis", used=(1,))
    yield scan(AFFINE, draw.pair((n,)), "two leaves, reverse", reverse=True, used=(1,))
    one, zero = np.ones(n, np.float32), np.zeros(n, np.float32)
    samples = one, draw.rng.random(n).astype(np.float32), zero
    yield scan(MOMENTS, samples, "three leaves", used=(0, 1, 2))
    yield scan(XOR, (draw.rng.random(n) < 0.5,), "bool")
    floats = (np.float16, jnp.bfloat16, np.float64, np.complex64, np.complex128)
    for number in (np.int8, np.int16, np.int32, np.int64, *floats):
        yield scan(ADD, (draw.steps((n,), number),), str(jnp.dtype(number).name))
    for method in ("lookback", *STRATEGIES):
        yield sums(f"{method}, one row", (n,), method)
        yield sums(f"{method}, last axis", rows, method, 1)
        yield sums(f"{method}, first axis", tall, method)
        yield sums(f"{method}, segmented", (n,), method, heads=draw.heads((n,)))
        yield sums(f"{method}, segmented, first axis", tall, method, heads=draw.heads(tall))
        yield sums(f"{method}, reverse exclusive", (n,), method, **BACKWARDS)
        yield scan(AFFINE, draw.pair((n,)), f"{method}, two leaves", method, used=(0, 1))
    for length in (2, 31, 33, 2047, 2049, 4095, 4097):
        yield sums(f"{length} elements", (length,))


def derivatives() -> Iterator[Kernel]:
    """Scans differentiated forwards and backwards."""
    draw = Draw()

    def scan(rule: Rule, leaves: tuple[Array, ...], what: str, **how: Any) -> Kernel:
        return Scan(rule, leaves, what, **how).differentiated()

    def affine(shape: Shape, what: str, dtype: Any = np.float32, **how: Any) -> Kernel:
        return scan(AFFINE, draw.pair(shape, dtype), what, **{"used": (1,), **how})

    def product(shape: Shape, what: str, dtype: Any = np.float32, **how: Any) -> Kernel:
        return scan(MUL, (draw.signs(shape, dtype),), what, **how)

    n, rows, tall, small = 5003, (7, 4999), (1337, 33), (37, 61)
    layouts: tuple[tuple[str, Shape, str, int], ...] = (
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
        marks = draw.heads(shape)
        yield affine(shape, what, **how)
        yield affine(shape, f"{what}, reverse", **how, reverse=True)
        yield product(shape, f"{what}, segmented", **how, heads=marks)
        yield product(shape, f"{what}, exclusive", **how, exclusive=True)
        everything = f"{what}, segmented, reverse, exclusive"
        yield product(shape, everything, **how, **BACKWARDS, heads=marks)
    yield affine((n,), "two results", used=(0, 1))
    yield affine((n,), "two results, reverse exclusive", **BACKWARDS, used=(0, 1))
    for dtype in (np.bool_, np.int32):
        marks = draw.heads((n,), dtype)
        yield affine((n,), f"{marks.dtype} heads", heads=marks)
    yield affine(rows, "shared heads", axis=1, heads=draw.heads((4999,)))
    for axis, leaf, shape in ((0, "lanes", (1337, 1)), (1, "rows", (1, 33))):
        leaves = draw.signs(shape), draw.steps(tall)
        for reverse in (False, True):
            what = f"a shared by {leaf}{', reverse' if reverse else ''}"
            how = {"method": "auto", "axis": axis, "reverse": reverse, "used": (1,)}
            yield scan(AFFINE, leaves, what, **how)
    for name in ("float16", "bfloat16", "float64"):
        for shape in ((n,), tall):
            yield affine(shape, f"{name} of {shape}", jnp.dtype(name))
            yield product(shape, f"{name} of {shape}, reverse", jnp.dtype(name), reverse=True)
    for length in (2, 31, 33, 1023, 1025, 2047, 2049, 4095, 4097):
        yield affine((length,), f"{length} elements")
    distinct, normal = draw.rng.permutation(n), draw.rng.normal(size=n)
    for reverse in (False, True):
        how = {"what": "reverse" if reverse else "", "reverse": reverse}
        yield scan(MAX, (distinct.astype(np.float32),), **how)
        yield scan(LOG, (normal.astype(np.float32),), **how)
        yield scan(ADD, (draw.steps((n,)),), **how)
        yield scan(TURN, draw.one_of(2, n), **how, used=(0, 1))
        yield scan(CYCLE, draw.one_of(3, n), **how, used=(0, 1, 2))
    how = {"exclusive": True, "heads": draw.heads((n,))}
    yield scan(TURN, draw.one_of(2, n), "segmented, exclusive", **how)


def segments() -> Iterator[Kernel]:
    """Reductions of arrays of several shapes; of one dimension also ranks and searches."""
    rows: tuple[Shape, ...] = (5,), (1001,), (100_003,), (300_001,)
    for shape in (*rows, (5, 5), (1001, 5), (100_003, 5), (1001, 70), (10_007, 70)):
        kernels = [*_reductions(shape), *(_ranks(*shape) if len(shape) == 1 else ())]
        yield from (dataclasses.replace(k, name=f"{k.name} of {shape}") for k in kernels)


def _reductions(shape: Shape) -> Iterator[Kernel]:
    rng = np.random.default_rng(shape[0])
    n, x = shape[0], rng.integers(-9, 9, shape).astype(np.int32)
    count = max(1, n // 7)
    ids = np.sort(rng.integers(-2, count + 2, n)).astype(np.int32)
    heads = rng.random(n) < 0.1
    heads[0] = True
    numbers = (np.cumsum(heads) - 1).astype(np.int32)
    most = int(numbers[-1]) + 1

    def by_ids(method: str, x: jax.Array, ids: jax.Array) -> jax.Array:
        return jscan.segment_sum(x, ids, count, True, method=method)

    def whole(method: str, x: jax.Array) -> Any:
        return jscan.reduce(add, x, method=method)

    def described(describe: Callable[[jax.Array], Segments], form: str, array: Array) -> Kernel:
        def run(method: str, x: jax.Array, array: jax.Array) -> Any:
            return jscan.reduce(add, x, segments=describe(array), num_segments=most, method=method)

        return Kernel(form, run, [x, array])

    yield Kernel("ids", by_ids, [x, ids])
    yield described(Segments.from_flags, "flags", heads)
    yield described(Segments.from_ids, "runs", numbers)
    lengths = np.bincount(numbers).astype(np.int32)
    yield described(lambda array: Segments.from_lengths(array, total=n), "offsets", lengths)
    for method in STRATEGIES:
        yield Kernel(f"{method} by ids", by_ids, [x, ids], method)
        yield Kernel(f"{method}, whole", whole, [x], method)


def _ranks(n: int) -> Iterator[Kernel]:
    rng = np.random.default_rng(n)
    x, mask, heads = rng.random(n).astype(np.float32), rng.random(n) < 0.5, rng.random(n) < 0.01
    kept = int(mask.sum())
    yield Kernel("enumerate", lambda _, mask: jscan.enumerate(mask), [mask])
    yield Kernel("pack", lambda _, x, mask: jscan.pack(x, mask, size=kept), [x, mask])
    yield Kernel("split", lambda _, x, mask: jscan.split(x, mask), [x, mask])
    yield Kernel("split_and_segment", lambda _, *a: split_and_segment(*a), [x, mask, heads])
    yield Kernel("ids", lambda _, heads: Segments.from_flags(heads).ids, [heads])


GROUPS = {"scans": scans, "derivatives": derivatives, "segments": segments}


def main() -> int:
    """Runs every kernel; 1 if an answer is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tools.memcheck")
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--dry-run", action="store_true", help="lower for CUDA, without a GPU")
    options = parser.parse_args()
    if not GROUPS.keys() >= {*options.groups}:
        parser.error(f"groups are {', '.join(GROUPS)}")
    # Read when JAX first uses the GPU, which is below.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    if not (options.dry_run or machine.has_gpu()):
        print("memcheck: no CUDA GPU here; --dry-run lowers the kernels")
        return 2
    good = "lowered" if options.dry_run else "right"
    wrong = 0
    for group in options.groups or GROUPS:
        for kernel in GROUPS[group]():
            trouble = kernel.not_lowered() if options.dry_run else kernel.wrong()
            wrong += bool(trouble)
            print(f"{kernel.name:64s} {trouble or good}", flush=True)
    print(f"{wrong} wrong" if wrong else f"all {good}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
