"""Runs one kernel of each kind once, for compute-sanitizer.

``compute-sanitizer --tool memcheck --error-exitcode 1 python -m benchmarks.memcheck``

The tools ``initcheck`` and ``racecheck`` run it too; the latter sees hazards of shared memory, but
not those of tile state, which `tests/protocol` is about. Every array is an allocation of its
own, so that the sanitizer sees where each one ends, and lengths are odd, so that the last tile of
every axis reaches past it. Answers are checked against a sequential loop in NumPy. ``--dry-run``
lowers the kernels for CUDA instead, on any machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from benchmarks import machine
from benchmarks.operations import join_moments

Array = np.ndarray[Any, Any]
Join = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kernel: leaves, an operator on tuples of them, and how they are scanned."""

    name: str
    leaves: tuple[Array, ...]
    join: Join
    method: str
    axis: int = 0
    reverse: bool = False
    heads: Array | None = None
    identity: tuple[Any, ...] | None = None
    used: tuple[int, ...] = (0,)

    @property
    def x64(self) -> bool:
        """Whether a leaf has 64 bits a number."""
        return any(leaf.dtype in (np.int64, np.float64, np.complex128) for leaf in self.leaves)

    def run(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        """The results that are used, through the public function."""
        count = len(self.leaves)
        results = jscan.associative_scan(
            self.join,
            tuple(operands[:count]),
            self.reverse,
            self.axis,
            exclusive=self.identity is not None,
            identity=self.identity,
            segments=operands[count] if self.heads is not None else None,
            method=self.method,
        )
        return tuple(results[i] for i in self.used)

    def operands(self) -> tuple[Array, ...]:
        """Leaves and heads."""
        return self.leaves if self.heads is None else (*self.leaves, self.heads)

    def wanted(self) -> tuple[Array, ...]:
        """The same, one element after another; half precision in float32, rounded at the end."""
        leaves = [_widened(np.moveaxis(leaf, self.axis, 0)) for leaf in self.leaves]
        n = leaves[0].shape[0]
        starts = np.zeros((n, *leaves[0].shape[1:]), bool)
        if self.heads is not None:
            shared = self.heads.ndim < self.leaves[0].ndim
            heads = self.heads if shared else np.moveaxis(self.heads, self.axis, 0)
            starts |= (heads != 0).reshape(n, *(heads.shape[1:] or (1,) * (starts.ndim - 1)))
        results = [np.empty_like(leaf) for leaf in leaves]
        state: tuple[Any, ...] = ()
        for t in reversed(range(n)) if self.reverse else range(n):
            x = tuple(leaf[t] for leaf in leaves)
            first = t == (n - 1 if self.reverse else 0)
            restart = starts[t + 1] if self.reverse and not first else starts[t] | first
            before = x if first else state
            joined = x if first else self.join(before, x)
            state = tuple(
                np.where(restart, a, b).astype(a.dtype) for a, b in zip(x, joined, strict=True)
            )
            for k, result in enumerate(results):
                if self.identity is None:
                    result[t] = state[k]
                else:
                    result[t] = np.where(restart, self.identity[k], before[k])
        return tuple(
            np.moveaxis(results[k], 0, self.axis).astype(self.leaves[k].dtype) for k in self.used
        )


def _widened(x: Array) -> Array:
    is_half = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize == 2
    return x.astype(np.float32) if is_half else x


def add(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums, leaf by leaf."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def exclusive_or(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Exclusive or, leaf by leaf."""
    return tuple(x ^ y for x, y in zip(a, b, strict=True))


def compose(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Affine maps, the earlier first; the operator does not commute."""
    return b[0] * a[0], b[0] * a[1] + b[1]


def kinds() -> Iterator[Kind]:
    """One of each kind, over operands with no whole number of tiles."""
    draw = np.random.default_rng(0)

    def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> tuple[Array]:
        return (draw.integers(-1, 2, shape).astype(dtype),)

    def heads(shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
        return (draw.random(shape) < 0.01).astype(dtype)

    def slopes(shape: tuple[int, ...]) -> tuple[Array, Array]:
        return (2 * draw.integers(0, 2, shape) - 1).astype(np.float32), *numbers(shape)

    def moments(n: int) -> tuple[Array, Array, Array]:
        one, zero = np.ones(n, np.float32), np.zeros(n, np.float32)
        return one, draw.random(n).astype(np.float32), zero

    n, rows, tall = 10007, (7, 9001), (1337, 33)
    zero = (np.float32(0),)
    lookback, block = "lookback", "block"
    yield Kind("block, last axis", numbers((37, 61)), add, block, axis=1)
    yield Kind("block, first axis", numbers((37, 61)), add, block)
    yield Kind("block, 1 element of 3", numbers((3,)), add, block)
    yield Kind("block, segmented", numbers((37, 61)), add, block, 1, heads=heads((37, 61)))
    yield Kind("block, reverse exclusive", numbers((37, 61)), add, block, 1, True, identity=zero)
    yield Kind("lookback, one row", numbers((n,)), add, lookback)
    yield Kind("lookback, last axis", numbers(rows), add, lookback, axis=1)
    yield Kind("lookback, first axis", numbers(tall), add, lookback)
    yield Kind("lookback, middle axis", numbers((3, 1337, 5)), add, lookback, axis=1)
    yield Kind("reverse", numbers((n,)), add, lookback, reverse=True)
    yield Kind("exclusive", numbers((n,)), add, lookback, identity=zero)
    yield Kind("reverse exclusive", numbers((n,)), add, lookback, 0, True, identity=zero)
    yield Kind("reverse exclusive, first axis", numbers(tall), add, lookback, 0, True, None, zero)
    yield Kind("segmented, uint8 heads", numbers((n,)), add, lookback, heads=heads((n,)))
    yield Kind("segmented, bool heads", numbers((n,)), add, lookback, heads=heads((n,), np.bool_))
    yield Kind("segmented, int32 heads", numbers((n,)), add, lookback, heads=heads((n,), np.int32))
    yield Kind("segmented, first axis", numbers(tall), add, lookback, heads=heads(tall))
    yield Kind("segmented, shared heads", numbers(rows), add, lookback, 1, heads=heads((9001,)))
    yield Kind(
        "segmented, reverse exclusive", numbers((n,)), add, lookback, 0, True, heads((n,)), zero
    )
    yield Kind("two leaves", slopes((n,)), compose, lookback, used=(0, 1))
    yield Kind("two leaves, one result", slopes((n,)), compose, lookback, used=(1,))
    yield Kind("two leaves, first axis", slopes(tall), compose, lookback, used=(1,))
    yield Kind("two leaves, reverse", slopes((n,)), compose, lookback, 0, True, used=(1,))
    yield Kind("three leaves", moments(n), join_moments, lookback, used=(0, 1, 2))
    yield Kind("bool", (draw.random(n) < 0.5,), exclusive_or, lookback)
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.float16, jnp.bfloat16, np.float64):
        yield Kind(str(jnp.dtype(dtype).name), numbers((n,), dtype), add, lookback)
    for dtype in (np.complex64, np.complex128):
        yield Kind(str(jnp.dtype(dtype).name), numbers((n,), dtype), add, lookback)
    for method in ("serial_lookback", "chained", "scan_then_propagate", "reduce_then_scan"):
        yield Kind(f"{method}, one row", numbers((n,)), add, method)
        yield Kind(f"{method}, last axis", numbers(rows), add, method, axis=1)
        yield Kind(f"{method}, first axis", numbers(tall), add, method)
        yield Kind(f"{method}, segmented", numbers((n,)), add, method, heads=heads((n,)))
        yield Kind(f"{method}, segmented rows", numbers(tall), add, method, heads=heads(tall))
        yield Kind(f"{method}, reverse exclusive", numbers((n,)), add, method, 0, True, None, zero)
        yield Kind(f"{method}, two leaves", slopes((n,)), compose, method, used=(0, 1))
    for length in (2, 31, 33, 2047, 2049, 4095, 4097):
        yield Kind(f"{length} elements", numbers((length,)), add, lookback)


def close(result: Array, wanted: Array, exact: bool) -> bool:
    """Whether the kernel's answer is the loop's: bit for bit, or within rounding of moments."""
    if exact:
        return bool(np.array_equal(result, wanted))
    return bool(np.allclose(result, wanted, rtol=1e-3, atol=1e-3))


def check(kind: Kind, dry_run: bool) -> bool:
    """Runs a kernel and says whether its answer is right; lowers it where it is a dry run."""
    with jax.enable_x64(kind.x64):
        if dry_run:
            return "triton" in machine.lower_for_cuda(kind.run, kind.operands()).as_text()
        results = jax.jit(kind.run)(*(jax.device_put(x) for x in kind.operands()))
        found = [np.asarray(x) for x in results]
    with np.errstate(over="ignore"):  # integers wrap
        wanted = kind.wanted()
    exact = kind.join is not join_moments
    return all(close(*pair, exact) for pair in zip(found, wanted, strict=True))


def main() -> int:
    """Runs every kind; 1 if an answer is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memcheck")
    parser.add_argument("--dry-run", action="store_true", help="lower for CUDA, without a GPU")
    options = parser.parse_args()
    # Read when JAX first uses the GPU, which is below.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    if not options.dry_run and not machine.has_gpu():
        print("memcheck: no CUDA GPU here; --dry-run lowers the kernels")
        return 2
    good = "lowered" if options.dry_run else "right"
    wrong = 0
    for kind in kinds():
        right = check(kind, options.dry_run)
        wrong += not right
        print(f"{kind.name:38s} {good if right else 'WRONG'}", flush=True)
    print(f"{wrong} wrong" if wrong else f"all {good}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
