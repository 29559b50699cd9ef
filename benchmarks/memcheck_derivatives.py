"""Runs the kernels of derivatives once each, for compute-sanitizer.

``compute-sanitizer --tool memcheck --error-exitcode 1 python -m benchmarks.memcheck_derivatives``

As `benchmarks.memcheck`: every array is an allocation of its own, and lengths are odd. A scan is
differentiated forwards and backwards; values, tangents and cotangents are compared with loops in
NumPy. On any machine, ``--dry-run`` lowers the kernels for CUDA instead, and ``--plain`` compares
the loops with plain JAX, which takes minutes.
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
from benchmarks import machine
from benchmarks.memcheck import Array

Leaves = tuple[Any, ...]
Matrix = list[list[Any]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """An operator on tuples, and its derivatives in the earlier and in the later operand."""

    name: str
    join: Callable[[Leaves, Leaves], Leaves]
    slopes: Callable[[Leaves, Leaves], tuple[Matrix, Matrix]]
    identity: tuple[float, ...]
    exact: bool = True


def _affine_slopes(y: Leaves, x: Leaves) -> tuple[Matrix, Matrix]:
    return [[x[0], 0], [0, x[0]]], [[y[0], 0], [y[1], 1]]


def _turn(a: Leaves, b: Leaves) -> Leaves:
    """A product of complex numbers, by their parts."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _turn_slopes(y: Leaves, x: Leaves) -> tuple[Matrix, Matrix]:
    return [[x[0], -x[1]], [x[1], x[0]]], [[y[0], -y[1]], [y[1], y[0]]]


def _cycle(a: Leaves, b: Leaves) -> Leaves:
    """A product of polynomials whose cube of the variable is 1."""
    first, second, third = (tuple(a[i] * b[(k - i) % 3] for i in range(3)) for k in range(3))
    return first[0] + first[1] + first[2], sum(second[1:], second[0]), sum(third[1:], third[0])


def _cycle_slopes(y: Leaves, x: Leaves) -> tuple[Matrix, Matrix]:
    a, b = ([[z[(k - i) % 3] for i in range(3)] for k in range(3)] for z in (x, y))
    return a, b


def _share_slopes(y: Leaves, x: Leaves) -> tuple[Matrix, Matrix]:
    share = 1 / (1 + np.exp(x[0] - y[0]))
    return [[share]], [[1 - share]]


ADD = Rule("sum", lambda a, b: (a[0] + b[0],), lambda *_: ([[1]], [[1]]), (0,))
MUL = Rule("product", lambda a, b: (a[0] * b[0],), lambda y, x: ([[x[0]]], [[y[0]]]), (1,))
MAX = Rule(
    "maximum",
    lambda a, b: (jnp.maximum(a[0], b[0]),),
    lambda y, x: ([[y[0] > x[0]]], [[x[0] > y[0]]]),
    (-np.inf,),
)
LOG = Rule("logaddexp", lambda a, b: (jnp.logaddexp(a[0], b[0]),), _share_slopes, (-np.inf,), False)
AFFINE = Rule("affine", lambda a, b: (b[0] * a[0], b[0] * a[1] + b[1]), _affine_slopes, (1, 0))
TURN = Rule("two states", _turn, _turn_slopes, (1, 0))
CYCLE = Rule("three states", _cycle, _cycle_slopes, (1, 0, 0))
IN_NUMPY: dict[str, Callable[[Leaves, Leaves], Leaves]] = {
    MAX.name: lambda a, b: (np.maximum(a[0], b[0]),),
    LOG.name: lambda a, b: (np.logaddexp(a[0], b[0]),),
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """One scan: an operator, leaves, how they are scanned, and which results are used."""

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
    def name(self) -> str:
        """What is printed."""
        return f"{self.rule.name}, {self.what}" if self.what else self.rule.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the results; a leaf may have 1 where others share it."""
        return np.broadcast_shapes(*(leaf.shape for leaf in self.leaves))

    @property
    def x64(self) -> bool:
        """Whether a leaf has 64 bits a number."""
        return any(leaf.dtype == np.float64 for leaf in self.leaves)

    def drawn(self) -> tuple[list[Array], list[Array]]:
        """Tangents of the leaves and cotangents of the results used: -1, 0 and 1."""
        draw = np.random.default_rng(1)
        tangents = [draw.integers(-1, 2, x.shape).astype(x.dtype) for x in self.leaves]
        cotangents = [
            draw.integers(-1, 2, self.shape).astype(self.leaves[k].dtype) for k in self.used
        ]
        return tangents, cotangents

    def scan(self, *leaves: jax.Array, heads: jax.Array | None) -> tuple[jax.Array, ...]:
        """The results that are used, through the public functions."""
        how: dict[str, Any] = {"axis": self.axis, "reverse": self.reverse, "segments": heads}
        if any(x.shape != self.shape for x in leaves):  # only a recurrence shares a leaf
            return (jscan.linear_recurrence(*leaves, method=self.method, **how),)
        identity = tuple(
            np.asarray(v, x.dtype)[()] for v, x in zip(self.rule.identity, leaves, strict=True)
        )
        results = jscan.associative_scan(
            self.rule.join,
            tuple(leaves),
            exclusive=self.exclusive,
            identity=identity if self.exclusive else None,
            method=self.method,
            **how,
        )
        return tuple(results[k] for k in self.used)

    def run(self, *operands: jax.Array) -> list[jax.Array]:
        """Results, their tangents, and the cotangents of the leaves."""
        count = len(self.leaves)
        leaves, tangents = operands[:count], operands[count : 2 * count]
        cotangents = operands[2 * count : 2 * count + len(self.used)]
        heads = operands[-1] if self.heads is not None else None

        def fn(*moved: jax.Array) -> tuple[jax.Array, ...]:
            return self.scan(*moved, heads=heads)

        results, slopes = jax.jvp(fn, leaves, tangents)
        return [*results, *slopes, *jax.vjp(fn, *leaves)[1](tuple(cotangents))]

    def operands(self) -> list[Array]:
        """Leaves, tangents, cotangents and heads."""
        tangents, cotangents = self.drawn()
        heads = [] if self.heads is None else [self.heads]
        return [*self.leaves, *tangents, *cotangents, *heads]

    def wanted(self) -> list[Array]:
        """The same, one element after another, in float64."""
        tangents, cotangents = self.drawn()
        x, dx = self._along(self.leaves), self._along(tangents)
        given = np.zeros_like(x)
        given[:, list(self.used)] = self._along(cotangents)
        y, starts = self._values(x)
        size = len(self.leaves)
        # Derivatives are taken at results as they were written.
        rounded = np.stack([y[:, k].astype(self.leaves[k].dtype) for k in range(size)], 1)
        before = np.concatenate([y[:1], rounded[:-1].astype(np.float64)])
        a, b = (_full(m, x[:, 0].shape) for m in self._slopes(before, x))
        clear = starts[None, None]
        a, b = (
            np.where(clear, 0, a),
            np.where(clear, np.eye(size).reshape(size, size, *[1] * starts.ndim), b),
        )
        slopes, back = np.empty_like(x), np.empty_like(x)
        moved = np.zeros_like(x)
        if self.exclusive:
            moved[:-1] = np.where(starts[1:, None], 0, given[1:])
        else:
            moved = given
        n = len(x)
        for t in range(n):
            own = _times(b[:, :, t], dx[t])
            slopes[t] = own if t == 0 else own + _times(a[:, :, t], slopes[t - 1])
        state = np.zeros_like(x[0])
        for t in reversed(range(n)):
            later = 0 if t == n - 1 else _times(a[:, :, t + 1].swapaxes(0, 1), state)
            state = moved[t] + later
            back[t] = _times(b[:, :, t].swapaxes(0, 1), state)
        if self.exclusive:
            y, slopes = self._shifted(y, starts, self.rule.identity), self._shifted(slopes, starts)
        found = [self._placed(z[:, k], k) for z in (y, slopes) for k in self.used]
        return found + [self._summed(self._placed(back[:, k], None), k) for k in range(size)]

    def _along(self, arrays: Sequence[Array]) -> Array:
        """In float64, in the order of the scan: elements first, then leaves."""
        full = [np.broadcast_to(z.astype(np.float64), self.shape) for z in arrays]
        stacked = np.stack([np.moveaxis(z, self.axis, 0) for z in full], 1)
        return stacked[::-1] if self.reverse else stacked

    def _values(self, x: Array) -> tuple[Array, Array]:
        """The inclusive scan, and where it starts."""
        n, join = len(x), IN_NUMPY.get(self.rule.name, self.rule.join)
        starts = np.zeros(x[:, 0].shape, bool)
        if self.heads is not None:
            shared = self.heads.ndim < len(self.shape)
            heads = (self.heads if shared else np.moveaxis(self.heads, self.axis, 0)) != 0
            # Reversed, an element starts anew where the one behind it in memory is a head.
            ordered = np.roll(heads[::-1], 1, 0) if self.reverse else heads
            starts |= ordered.reshape(n, *(ordered.shape[1:] or (1,) * (starts.ndim - 1)))
        starts[0] = True
        y = np.empty_like(x)
        for t in range(n):
            joined = x[t] if t == 0 else np.stack(join(tuple(y[t - 1]), tuple(x[t])))
            y[t] = np.where(starts[t], x[t], joined)
        return y, starts

    def _slopes(self, before: Array, x: Array) -> tuple[Matrix, Matrix]:
        return self.rule.slopes(tuple(np.moveaxis(before, 1, 0)), tuple(np.moveaxis(x, 1, 0)))

    def _shifted(self, z: Array, starts: Array, first: Sequence[float] | None = None) -> Array:
        """The previous element of each, and ``first``, or zeros, at starts."""
        shape = (-1, *[1] * (z.ndim - 2))
        identity = np.reshape(first or [0.0] * z.shape[1], shape)
        return np.where(starts[:, None], identity, np.concatenate([z[:1], z[:-1]]))

    def _placed(self, z: Array, leaf: int | None) -> Array:
        """In the order of memory, and rounded to a leaf's dtype."""
        z = np.moveaxis(z[::-1] if self.reverse else z, 0, self.axis)
        return z if leaf is None else z.astype(self.leaves[leaf].dtype)

    def _summed(self, z: Array, leaf: int) -> Array:
        like = self.leaves[leaf]
        shared = tuple(d for d, size in enumerate(like.shape) if size != z.shape[d])
        return np.sum(z, shared, keepdims=True).astype(like.dtype)


def _full(matrix: Matrix, shape: tuple[int, ...]) -> Array:
    rows = [[np.broadcast_to(np.asarray(e, np.float64), shape) for e in row] for row in matrix]
    return np.stack([np.stack(row) for row in rows])


def _times(matrix: Array, vector: Array) -> Array:
    result: Array = (matrix * vector).sum(1)
    return result


def kinds() -> Iterator[Kind]:
    """One of each kind, over operands with no whole number of tiles."""
    draw = np.random.default_rng(0)

    def signs(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        return (2 * draw.integers(0, 2, shape) - 1).astype(dtype)

    def steps(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        return draw.integers(-1, 2, shape).astype(dtype)

    def pair(shape: tuple[int, ...], dtype: Any = np.float32) -> tuple[Array, Array]:
        return signs(shape, dtype), steps(shape, dtype)

    def heads(shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
        return (draw.random(shape) < 0.01).astype(dtype)

    def one_of(count: int, n: int) -> tuple[Array, ...]:
        """Of so many leaves, one is -1 or 1 and the others 0."""
        which, sign = draw.integers(0, count, n), signs((n,))
        return tuple(np.where(which == k, sign, np.float32(0)) for k in range(count))

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
        yield Kind(AFFINE, pair(shape), what, method, axis, used=h)
        yield Kind(AFFINE, pair(shape), f"{what}, reverse", method, axis, True, used=h)
        marks = heads(shape)
        yield Kind(MUL, (signs(shape),), f"{what}, segmented", method, axis, heads=marks)
        yield Kind(MUL, (signs(shape),), f"{what}, exclusive", method, axis, exclusive=True)
        everything = f"{what}, segmented, reverse, exclusive"
        yield Kind(MUL, (signs(shape),), everything, method, axis, True, True, marks)
    yield Kind(AFFINE, pair((n,)), "two results", used=(0, 1))
    yield Kind(
        AFFINE, pair((n,)), "two results, reverse exclusive", "lookback", 0, True, True, used=(0, 1)
    )
    for dtype in (np.bool_, np.int32):
        marks = heads((n,), dtype)
        yield Kind(AFFINE, pair((n,)), f"{marks.dtype} heads", heads=marks, used=h)
    yield Kind(AFFINE, pair(rows), "shared heads", axis=1, heads=heads((4999,)), used=h)
    for leaf, shape in (("lanes", (1337, 1)), ("rows", (1, 33))):
        operands = signs(shape), steps(tall)
        axis = 0 if leaf == "lanes" else 1
        yield Kind(AFFINE, operands, f"a shared by {leaf}", "auto", axis, used=h)
        yield Kind(AFFINE, operands, f"a shared by {leaf}, reverse", "auto", axis, True, used=h)
    for name in ("float16", "bfloat16", "float64"):
        for shape in ((n,), tall):
            what = f"{name} of {shape}"
            yield Kind(AFFINE, pair(shape, jnp.dtype(name)), what, used=h)
            yield Kind(MUL, (signs(shape, jnp.dtype(name)),), f"{what}, reverse", reverse=True)
    for length in (2, 31, 33, 1023, 1025, 2047, 2049, 4095, 4097):
        yield Kind(AFFINE, pair((length,)), f"{length} elements", used=h)
    distinct = draw.permutation(n).astype(np.float32)
    for reverse in (False, True):
        suffix = "reverse" if reverse else ""
        yield Kind(MAX, (distinct,), suffix, reverse=reverse)
        yield Kind(LOG, (draw.normal(size=n).astype(np.float32),), suffix, reverse=reverse)
        yield Kind(ADD, (steps((n,)),), suffix, reverse=reverse)
        yield Kind(TURN, one_of(2, n), suffix, reverse=reverse, used=(0, 1))
        yield Kind(CYCLE, one_of(3, n), suffix, reverse=reverse, used=(0, 1, 2))
    yield Kind(TURN, one_of(2, n), "segmented, exclusive", exclusive=True, heads=heads((n,)))


def lower(kind: Kind) -> str:
    """What is wrong with the program for CUDA; nothing, where all is right."""
    with jax.enable_x64(kind.x64):
        text = machine.lower_for_cuda(kind.run, kind.operands()).as_text()
    kernels = text.count("__gpu$xla.gpu.triton")
    # Values, tangents and cotangents have a kernel each.
    return "" if kernels >= 3 else f"{kernels} KERNELS"


def check(kind: Kind) -> str:
    """What is wrong with the answers; nothing, where all is right."""
    operands = kind.operands()
    with jax.enable_x64(kind.x64):
        results = jax.jit(kind.run)(*(jax.device_put(x) for x in operands))
        found = [np.asarray(x) for x in results]
    tolerance = 0.0 if kind.rule.exact else 1e-3
    for i, (x, wanted) in enumerate(zip(found, kind.wanted(), strict=True)):
        wide = x.astype(np.float64), wanted.astype(np.float64)
        if not np.allclose(*wide, rtol=tolerance, atol=tolerance):
            return f"WRONG: result {i} of {len(found)}"
    return ""


def main() -> int:
    """Runs every kind; 1 if an answer is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memcheck_derivatives")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--dry-run", action="store_true", help="lower for CUDA, without a GPU")
    instead.add_argument("--plain", action="store_true", help="check plain JAX on this machine")
    options = parser.parse_args()
    # Read when JAX first uses the GPU, which is below.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    if not (options.dry_run or options.plain or machine.has_gpu()):
        print("memcheck_derivatives: no CUDA GPU here; --dry-run lowers the kernels")
        return 2
    good = "lowered" if options.dry_run else "right"
    wrong = 0
    for kind in kinds():
        if options.plain:
            kind = dataclasses.replace(kind, method="xla")
        trouble = lower(kind) if options.dry_run else check(kind)
        wrong += bool(trouble)
        print(f"{kind.name:64s} {trouble or good}", flush=True)
    print(f"{wrong} wrong" if wrong else f"all {good}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
