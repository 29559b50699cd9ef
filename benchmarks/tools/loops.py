"""Scans and their derivatives beside loops in NumPy, one element after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from benchmarks.cases.operations import join_moments
from benchmarks.measuring import machine

Array = np.ndarray[Any, Any]
Leaves = tuple[Any, ...]
Matrix = list[list[Any]]
Join = Callable[[Leaves, Leaves], Leaves]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A call of kernels, and what should come out.

    Attributes:
      name: what is printed.
      run: the call, in public functions.
      operands: of the call.
      wanted: makes the answers.
      tolerance: relative and absolute; 0 where answers are exact.
      kernels: that the program has at the least.
    """

    name: str
    run: Callable[..., Sequence[jax.Array]]
    operands: Sequence[Array]
    wanted: Callable[[], Sequence[Array]]
    tolerance: float = 0.0
    kernels: int = 1

    @property
    def x64(self) -> bool:
        """Whether an operand has 64 bits a number."""
        return any(x.dtype in (np.int64, np.float64, np.complex128) for x in self.operands)

    def not_lowered(self) -> str:
        """What is wrong with the program for CUDA; nothing, where all is right."""
        with jax.enable_x64(self.x64):
            text = machine.lower_for_cuda(self.run, self.operands).as_text()
        found = text.count("__gpu$xla.gpu.triton")
        return "" if found >= self.kernels else f"{found} KERNELS"

    def wrong(self) -> str:
        """What is wrong with the answers; nothing, where all is right."""
        with jax.enable_x64(self.x64):
            results = jax.jit(self.run)(*(jax.device_put(x) for x in self.operands))
            found = [np.asarray(x) for x in results]
        with np.errstate(over="ignore"):  # integers wrap
            wanted = self.wanted()
        for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
            most = self.tolerance
            if not (np.allclose(x, y, most, most) if most else np.array_equal(x, y)):
                return f"WRONG: result {i} of {len(found)}"
        return ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """An operator on tuples, and its derivatives in the earlier and in the later operand."""

    name: str
    join: Join
    identity: tuple[float, ...]
    slopes: Callable[[Leaves, Leaves], tuple[Matrix, Matrix]] | None = None
    in_numpy: Join | None = None
    tolerance: float = 0.0


def _turn(a: Leaves, b: Leaves) -> Leaves:
    """A product of complex numbers, by their parts."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _cycle(a: Leaves, b: Leaves) -> Leaves:
    """A product of polynomials whose cube of the variable is 1."""
    first, second, third = (tuple(a[i] * b[(k - i) % 3] for i in range(3)) for k in range(3))
    return first[0] + first[1] + first[2], sum(second[1:], second[0]), sum(third[1:], third[0])


def _slopes_of_cycle(y: Leaves, x: Leaves) -> tuple[Matrix, Matrix]:
    a, b = ([[z[(k - i) % 3] for i in range(3)] for k in range(3)] for z in (x, y))
    return a, b


def _slopes_of_logaddexp(y: Leaves, x: Leaves) -> tuple[Matrix, Matrix]:
    share = 1 / (1 + np.exp(x[0] - y[0]))
    return [[share]], [[1 - share]]


ADD = Rule("sum", lambda a, b: (a[0] + b[0],), (0,), lambda *_: ([[1]], [[1]]))
MUL = Rule("product", lambda a, b: (a[0] * b[0],), (1,), lambda y, x: ([[x[0]]], [[y[0]]]))
MAX = Rule(
    "maximum",
    lambda a, b: (jnp.maximum(a[0], b[0]),),
    (-np.inf,),
    lambda y, x: ([[y[0] > x[0]]], [[x[0] > y[0]]]),
    lambda a, b: (np.maximum(a[0], b[0]),),
)
LOG = Rule(
    "logaddexp",
    lambda a, b: (jnp.logaddexp(a[0], b[0]),),
    (-np.inf,),
    _slopes_of_logaddexp,
    lambda a, b: (np.logaddexp(a[0], b[0]),),
    tolerance=1e-3,
)
AFFINE = Rule(
    "affine",
    lambda a, b: (b[0] * a[0], b[0] * a[1] + b[1]),
    (1, 0),
    lambda y, x: ([[x[0], 0], [0, x[0]]], [[y[0], 0], [y[1], 1]]),
)
TURN = Rule(
    "two states",
    _turn,
    (1, 0),
    lambda y, x: ([[x[0], -x[1]], [x[1], x[0]]], [[y[0], -y[1]], [y[1], y[0]]]),
)
CYCLE = Rule("three states", _cycle, (1, 0, 0), _slopes_of_cycle)
XOR = Rule("exclusive or", lambda a, b: (a[0] ^ b[0],), (0,))
MOMENTS = Rule("moments", join_moments, (0, 0, 0), tolerance=1e-3)


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
    def shape(self) -> tuple[int, ...]:
        """Of the results; a leaf may have 1 where others share it."""
        return np.broadcast_shapes(*(leaf.shape for leaf in self.leaves))

    @property
    def _described(self) -> list[Array]:
        return [] if self.heads is None else [self.heads]

    def value(self) -> Kernel:
        """The scan alone."""
        operands = [*self.leaves, *self._described]
        return Kernel(self.what, self._scan, operands, self._wanted, self.rule.tolerance)

    def differentiated(self) -> Kernel:
        """Its results, their tangents, and the cotangents of its leaves."""
        tangents, cotangents = self._drawn()
        operands = [*self.leaves, *tangents, *cotangents, *self._described]
        name = f"{self.rule.name}, {self.what}" if self.what else self.rule.name
        wanted, tolerance = self._wanted_derivatives, self.rule.tolerance
        return Kernel(name, self._derivatives, operands, wanted, tolerance, kernels=3)

    def _scan(self, *operands: jax.Array) -> Sequence[jax.Array]:
        count = len(self.leaves)
        leaves, heads = operands[:count], operands[count] if self.heads is not None else None
        how: dict[str, Any] = {"axis": self.axis, "reverse": self.reverse, "segments": heads}
        how["method"] = self.method
        if any(x.shape != self.shape for x in leaves):  # only a recurrence shares a leaf
            return (jscan.linear_recurrence(*leaves, **how),)
        if self.exclusive:
            pairs = zip(self.rule.identity, leaves, strict=True)
            how["identity"] = tuple(np.asarray(v, x.dtype)[()] for v, x in pairs)
        fn = self.rule.join
        results = jscan.associative_scan(fn, leaves, exclusive=self.exclusive, **how)
        return tuple(results[k] for k in self.used)

    def _derivatives(self, *operands: jax.Array) -> Sequence[jax.Array]:
        count = len(self.leaves)
        leaves, tangents = operands[:count], operands[count : 2 * count]
        cotangents = operands[2 * count : 2 * count + len(self.used)]
        described = operands[2 * count + len(self.used) :]

        def fn(*moved: jax.Array) -> Sequence[jax.Array]:
            return self._scan(*moved, *described)

        results, slopes = jax.jvp(fn, leaves, tangents)
        return [*results, *slopes, *jax.vjp(fn, *leaves)[1](tuple(cotangents))]

    def _drawn(self) -> tuple[list[Array], list[Array]]:
        """Tangents of the leaves and cotangents of the results used: -1, 0 and 1."""
        draw = np.random.default_rng(1)
        tangents = [draw.integers(-1, 2, x.shape).astype(x.dtype) for x in self.leaves]
        dtypes = [self.leaves[k].dtype for k in self.used]
        return tangents, [draw.integers(-1, 2, self.shape).astype(dtype) for dtype in dtypes]

    def _wanted(self) -> Sequence[Array]:
        """The results, one element after another; halves in float32, rounded at the end."""
        dtype = self.leaves[0].dtype
        is_half = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize == 2
        y, starts = self._values(self._along(self.leaves, np.float32 if is_half else dtype))
        if self.exclusive:
            y = _shifted(y, starts, self.rule.identity)
        return [self._placed(y[:, k], k) for k in self.used]

    def _wanted_derivatives(self) -> Sequence[Array]:
        """All that is found, one element after another, in float64."""
        assert self.rule.slopes is not None
        tangents, cotangents = self._drawn()
        x, dx = self._along(self.leaves), self._along(tangents)
        given = np.zeros_like(x)
        given[:, list(self.used)] = self._along(cotangents)
        y, starts = self._values(x)
        n, size = x.shape[:2]
        # Derivatives are taken at results as they were written.
        rounded = np.stack([y[:, k].astype(self.leaves[k].dtype) for k in range(size)], 1)
        before = np.concatenate([y[:1], rounded[:-1].astype(np.float64)])
        slopes = self.rule.slopes(tuple(np.moveaxis(before, 1, 0)), tuple(np.moveaxis(x, 1, 0)))
        a, b = (_full(matrix, starts.shape) for matrix in slopes)
        unit = np.eye(size).reshape(size, size, *[1] * starts.ndim)
        a, b = np.where(starts, 0, a), np.where(starts, unit, b)
        moved = given
        if self.exclusive:
            moved = np.zeros_like(x)
            moved[:-1] = np.where(starts[1:, None], 0, given[1:])
        forward, back = np.empty_like(x), np.empty_like(x)
        for t in range(n):
            earlier = 0 if t == 0 else _times(a[:, :, t], forward[t - 1])
            forward[t] = _times(b[:, :, t], dx[t]) + earlier
        state = np.zeros_like(x[0])
        for t in reversed(range(n)):
            later = 0 if t == n - 1 else _times(a[:, :, t + 1].swapaxes(0, 1), state)
            state = moved[t] + later
            back[t] = _times(b[:, :, t].swapaxes(0, 1), state)
        if self.exclusive:
            y = _shifted(y, starts, self.rule.identity)
            forward = _shifted(forward, starts, [0.0] * size)
        found = [self._placed(z[:, k], k) for z in (y, forward) for k in self.used]
        return found + [self._summed(self._placed(back[:, k]), k) for k in range(size)]

    def _along(self, arrays: Sequence[Array], dtype: Any = np.float64) -> Array:
        """In the order of the scan: elements first, then leaves."""
        full = [np.broadcast_to(z.astype(dtype), self.shape) for z in arrays]
        stacked = np.stack([np.moveaxis(z, self.axis, 0) for z in full], 1)
        return stacked[::-1] if self.reverse else stacked

    def _values(self, x: Array) -> tuple[Array, Array]:
        """The inclusive scan, and where it starts."""
        n, join = len(x), self.rule.in_numpy or self.rule.join
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

    def _placed(self, z: Array, leaf: int | None = None) -> Array:
        """In the order of memory, and rounded to a leaf's dtype."""
        z = np.moveaxis(z[::-1] if self.reverse else z, 0, self.axis)
        return z if leaf is None else z.astype(self.leaves[leaf].dtype)

    def _summed(self, z: Array, leaf: int) -> Array:
        """Summed where the leaf is shared."""
        like = self.leaves[leaf]
        shared = tuple(d for d, size in enumerate(like.shape) if size != z.shape[d])
        return np.sum(z, shared, keepdims=True).astype(like.dtype)


def _shifted(z: Array, starts: Array, first: Sequence[float]) -> Array:
    """The element before each, and ``first`` at starts."""
    identity = np.reshape(np.asarray(first, z.dtype), (-1, *[1] * (z.ndim - 2)))
    return np.where(starts[:, None], identity, np.concatenate([z[:1], z[:-1]]))


def _full(matrix: Matrix, shape: tuple[int, ...]) -> Array:
    rows = [[np.broadcast_to(np.asarray(e, np.float64), shape) for e in row] for row in matrix]
    return np.stack([np.stack(row) for row in rows])


def _times(matrix: Array, vector: Array) -> Array:
    result: Array = (matrix * vector).sum(1)
    return result
