"""Runs the kernels of reductions, ranks and searches once each, for compute-sanitizer.

``compute-sanitizer --tool memcheck --error-exitcode 1 python -m benchmarks.memcheck_segments``

Lengths are odd, so that the last tile and the last strip reach past every array, and every array is
an allocation of its own. Answers are checked against NumPy.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import jax
import numpy as np

import jscan
from jscan import Segments, operators

SHAPES: tuple[tuple[int, ...], ...] = (
    *((5,), (1001,), (100_003,), (300_001,)),
    *((5, 5), (1001, 5), (100_003, 5)),
    *((1001, 70), (10_007, 70)),
)

Array = np.ndarray[Any, Any]


def sums(x: Array, numbers: Array, count: int) -> Array:
    """The sum of each segment; numbers outside are dropped."""
    result = np.zeros((count, *x.shape[1:]), x.dtype)
    kept = (numbers >= 0) & (numbers < count)
    np.add.at(result, numbers[kept], x[kept])
    return result


def wrong_sums(shape: tuple[int, ...]) -> list[str]:
    """Names of the reductions of an array of this shape that give wrong answers."""
    rng = np.random.default_rng(shape[0])
    n, x = shape[0], rng.integers(-9, 9, shape).astype(np.int32)
    count = max(1, n // 7)
    ids = np.sort(rng.integers(-2, count + 2, n)).astype(np.int32)
    found = {"ids": (jscan.segment_sum(x, ids, count, True), sums(x, ids, count))}
    heads = rng.random(n) < 0.1
    heads[0] = True
    numbers = np.cumsum(heads) - 1
    by_number = sums(x, numbers, int(numbers[-1]) + 1)
    for name, segments in (
        ("flags", Segments.from_flags(heads)),
        ("runs", Segments.from_ids(numbers)),
        ("offsets", Segments.from_lengths(np.bincount(numbers))),
    ):
        found[name] = (jscan.reduce(operators.add, x, segments=segments), by_number)
    for method in ("serial_lookback", "chained", "scan_then_propagate", "reduce_then_scan"):
        found[f"{method} by ids"] = (
            jscan.segment_sum(x, ids, count, True, method=method),
            sums(x, ids, count),
        )
        found[f"{method}, whole"] = (jscan.reduce(operators.add, x, method=method), x.sum(0))
    return [f"{k} of {shape}" for k, (y, want) in found.items() if (np.asarray(y) != want).any()]


def wrong_ranks(n: int) -> list[str]:
    """Names of the vector primitives on ``n`` elements that give wrong answers."""
    rng = np.random.default_rng(n)
    x, mask = rng.random(n).astype(np.float32), rng.random(n) < 0.5
    heads = rng.random(n) < 0.01
    heads[0] = True
    order = np.lexsort((np.arange(n), mask, np.cumsum(heads)))
    found = {
        "enumerate": (jscan.enumerate(mask), np.cumsum(mask) - mask),
        "pack": (jscan.pack(x, mask), x[mask]),
        "split": (jscan.split(x, mask), np.concatenate([x[~mask], x[mask]])),
        "split_and_segment": (jscan.split_and_segment(x, mask, heads)[0], x[order]),
        "ids": (Segments.from_flags(heads).ids, np.cumsum(heads) - 1),
    }
    return [f"{k} of {n}" for k, (y, want) in found.items() if (np.asarray(y) != want).any()]


def main() -> int:
    """Runs every case; the exit status is 1 if an answer is wrong."""
    if jax.default_backend() != "gpu":
        print("needs a CUDA GPU")
        return 2
    wrong = [name for shape in SHAPES for name in wrong_sums(shape)]
    wrong += [name for shape in SHAPES if len(shape) == 1 for name in wrong_ranks(shape[0])]
    print("wrong: " + ", ".join(wrong) if wrong else "every answer is right")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    sys.exit(main())
