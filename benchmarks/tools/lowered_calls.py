"""The calls of the public interface that `benchmarks.tools.lowered` lowers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jscan
from jscan import operators

DEVICES = ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB")
FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""By name: functions of arrays and of what a case says besides."""

Case = tuple[str, dict[str, Any], Sequence[tuple[tuple[int, ...], str]], str, str]
"""A function, what it is told, operands as shapes and dtypes, the transformation, the device."""


def listed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the function its place among FUNCTIONS."""
    FUNCTIONS[function.__name__] = function
    return function


def _segments(array: jax.Array, kind: str, n: int) -> Any:
    if kind == "flags":
        return array
    total = {"total": n} if kind in ("lengths", "offsets") else {}
    return getattr(jscan.Segments, f"from_{kind}")(array, **total)


@listed
def cumulative(x: Any, *described: Any, name: str, **how: Any) -> Any:
    """The cumulative operation of this name."""
    return getattr(jscan, name)(x, segments=described[0] if described else None, **how)


def merge_moments(p: Any, q: Any) -> Any:
    """Counts, means and sums of squares of two samples together."""
    count = p[0] + q[0]
    delta = q[1] - p[1]
    share = q[0] / jnp.maximum(count, 1)
    return count, p[1] + delta * share, p[2] + q[2] + delta * delta * p[0] * share


OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "affine": (operators.affine, (1.0, 0.0)),
    "latest": (lambda p, q: (p[0] | q[0], jnp.where(q[0], q[1], p[1])), (False, 0.0)),
    "moments": (merge_moments, (0.0, 0.0, 0.0)),
    "tanh": (lambda p, q: jnp.tanh(p) + q, None),
    "matmul": (jnp.matmul, None),
    "product": (operators.mul, 1.0),
    "lambda": (lambda p, q: p + q, 0.0),
    "minimum": (jnp.minimum, None),
}


def _elems(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


@listed
def scanned(*arrays: Any, of: str, leaves: int, only: int | None = None, **how: Any) -> Any:
    """``associative_scan`` by one of OPERATORS; perhaps the last result alone."""
    fn, identity = OPERATORS[of]
    if how.get("exclusive") and fn not in (operators.affine, operators.mul):
        how["identity"] = identity
    described = arrays[leaves] if len(arrays) > leaves else None
    result = jscan.associative_scan(fn, _elems(arrays[:leaves]), segments=described, **how)
    return result if only is None else result[only]


@listed
def recurrence(a: Any, b: Any, *described: Any, **how: Any) -> Any:
    """``linear_recurrence``."""
    return jscan.linear_recurrence(a, b, segments=described[0] if described else None, **how)


@listed
def reduced(*arrays: Any, of: str, leaves: int, kind: str = "flags", **how: Any) -> Any:
    """``reduce`` by one of OPERATORS."""
    fn, identity = OPERATORS[of]
    if len(arrays) > leaves:
        how["segments"] = _segments(arrays[leaves], kind, arrays[0].shape[how.get("axis", 0)])
        if not isinstance(fn, operators.Operator):
            how["identity"] = identity
    return jscan.reduce(fn, _elems(arrays[:leaves]), **how)


@listed
def by_ids(data: Any, ids: Any, *, name: str, **how: Any) -> Any:
    """The segment reduction of this name."""
    return getattr(jscan, f"segment_{name}")(data, ids, **how)


@listed
def vectors(*arrays: Any, name: str, **how: Any) -> Any:
    """The vector function of this name."""
    return getattr(jscan, name)(*arrays, **how)


@listed
def describing(array: Any, *, kind: str, gives: str, **how: Any) -> Any:
    """From one description of segments to another."""
    segments = getattr(jscan.Segments, f"from_{kind}")(array, **how)
    found = getattr(segments, gives)
    return found(100) if callable(found) else found


def cases() -> Iterator[Case]:
    """The cases: functions, operands, transformations and devices."""
    h200 = DEVICES[0]
    shapes: list[tuple[tuple[int, ...], int]] = [
        ((1000,), 0), ((100_003,), 0), ((1 << 22,), 0), ((1 << 25,), 0), ((64, 5000), 1),
        ((5000, 64), 0), ((3, 20_000, 5), 1), ((4096, 100), 1), ((30_000, 7), 0),
        ((2, 1 << 20), 1), ((16, 300, 700), 1),
    ]  # fmt: skip
    names = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
    forms = [{"reverse": r, "exclusive": e} for r, e in itertools.product((False, True), repeat=2)]
    dtypes = ("float32", "bfloat16", "int32", "uint8", "float64", "complex64", "int16", "bool")
    # Functions × shapes, forms and dtypes taking turns.
    turn = 0
    for (shape, axis), name in itertools.product(shapes, names):
        for segmented in (False, True):
            dtype = ("float32", "bfloat16", "float64")[turn % 3]
            form = forms[turn % 4]
            operands = [(shape, dtype), *([((shape[axis],), "int32")] if segmented else [])]
            yield "cumulative", {"name": name, "axis": axis, **form}, operands, "value", h200
            turn += 1
    for dtype, form in itertools.product(dtypes, forms):
        if dtype not in ("complex64", "bool"):
            yield "cumulative", {"name": "cummax", **form}, [((50_000,), dtype)], "value", h200
        if dtype != "bool":
            operands = [((50_000,), dtype), ((50_000,), "bool")]
            yield "cumulative", {"name": "cumsum", **form}, operands, "value", h200
    methods = (
        *("xla", "block", "lookback", "serial_lookback", "chained"),
        *("reduce_then_scan", "scan_then_propagate"),
    )
    for method, (shape, axis), segmented in itertools.product(
        methods, [((900,), 0), ((1 << 23,), 0), ((40, 10_000), 1), ((10_000, 40), 0)], (False, True)
    ):
        if method == "block" and shape[axis] > 1000:
            continue
        operands = [(shape, "float32"), *([((shape[axis],), "bool")] if segmented else [])]
        told = {"name": "cumsum", "axis": axis, "method": method}
        yield "cumulative", told, operands, "value", h200
        operands = [(shape, "float32")] * 2 + operands[1:]
        told = {"of": "affine", "leaves": 2, "axis": axis, "method": method}
        yield "scanned", told, operands, "value", h200
    for device, (shape, axis) in itertools.product(DEVICES[1:], shapes):
        yield "cumulative", {"name": "cumsum", "axis": axis}, [(shape, "float32")], "value", device
        operands = [(shape, "float32")] * 2
        yield "scanned", {"of": "affine", "leaves": 2, "axis": axis}, operands, "value", device
        operands = [(shape, "float32"), ((shape[axis],), "bool")]
        told = {"of": "product", "leaves": 1, "axis": axis, "num_segments": 50}
        yield "reduced", told, operands, "value", device
    # Operators, and their derivatives.
    for of, leaves, transformation in itertools.product(
        OPERATORS, [1], ("value", "grad", "jvp", "vmap", "vmap of first", "grad of grad")
    ):
        count = {"affine": 2, "latest": 2, "moments": 3}.get(of, leaves)
        for segmented, reverse, shape in (
            (False, False, (5000,)), (True, False, (200_000,)), (True, True, (40, 600)),
        ):  # fmt: skip
            if of == "matmul":
                shape = (*shape[:1], 2, 2)
            batch = (3,) if "vmap" in transformation else ()
            operands = [((*batch, *shape), "float32")] * count
            if transformation == "vmap of first":
                operands = [operands[0], *[(shape, "float32")] * (count - 1)]
            if of == "latest":
                operands[0] = (operands[0][0], "bool")
            if segmented:
                shared = transformation == "vmap of first"
                operands.append(((*([] if shared else batch), shape[0]), "bool"))
            told = {"of": of, "leaves": count, "reverse": reverse}
            if transformation == "grad" and reverse:
                told["exclusive"] = of not in ("tanh", "matmul", "minimum")
            yield "scanned", told, operands, transformation, h200
    for only in (0, 1):
        operands = [((1 << 21,), "float32")] * 2
        yield "scanned", {"of": "affine", "leaves": 2, "only": only}, operands, "value", h200
        yield "scanned", {"of": "affine", "leaves": 2, "only": only}, operands, "grad", h200
    for transformation, segmented, reverse in itertools.product(
        ("value", "grad", "vmap of grad"), (False, True), (False, True)
    ):
        batch = (3,) if "vmap" in transformation else ()
        shape = (*batch, 30, 2000)
        operands = [(shape, "float32")] * 2 + [((*batch, 2000), "bool")] * segmented
        told = {"axis": -1, "reverse": reverse}
        yield "recurrence", told, operands, transformation, h200
        operands = [(shape, "float32"), *([((*batch, 2000), "bool")] if segmented else [])]
        for name in names[:5]:
            told = {"name": name, "axis": -1, "reverse": reverse}
            yield "cumulative", told, operands, transformation, h200
    # Reductions.
    for of, (shape, axis), (kind, length) in itertools.product(
        ("product", "affine", "lambda", "moments"),
        [((100_000,), 0), ((50, 4000), 1), ((20_000, 33), 0)],
        (("flags", 0), ("ids", 0), ("lengths", 20), ("offsets", 21), ("whole", 0)),
    ):
        leaves = {"affine": 2, "moments": 3}.get(of, 1)
        for transformation in ("value", "grad"):
            operands = [(shape, "float32")] * leaves
            told = {"of": of, "leaves": leaves, "axis": axis, "kind": kind}
            if kind != "whole":
                operands.append(((length or shape[axis],), "bool" if kind == "flags" else "int32"))
                told["num_segments"] = 20
            yield "reduced", told, operands, transformation, h200
    for method in methods:
        for kind in ("flags", "ids"):
            operands = [
                ((1 << 20,), "float32"),
                ((1 << 20,), "bool" if kind == "flags" else "int32"),
            ]
            told = {"of": "product", "leaves": 1, "kind": kind, "num_segments": 9, "method": method}
            if method != "block":
                yield "reduced", told, operands, "value", h200
    for name, is_sorted, (shape, dtype), transformation in itertools.product(
        ("sum", "prod", "max", "min"), (False, True),
        [((200_000,), "float32"), ((9000, 17), "bfloat16"), ((5000, 4, 100), "float32")],
        ("value", "grad"),
    ):  # fmt: skip
        operands = [(shape, dtype), (shape[:1], "int32")]
        told = {"name": name, "num_segments": 70, "indices_are_sorted": is_sorted}
        yield "by_ids", told, operands, transformation, h200
    # Vectors and descriptions.
    for shape in ((70_000,), (12, 5000)):
        axis = len(shape) - 1
        x, mask = (shape, "float32"), (shape, "bool")
        for reverse in (False, True):
            told = {"name": "enumerate", "axis": axis, "reverse": reverse}
            yield "vectors", told, [mask], "value", h200
        yield "vectors", {"name": "pack", "size": 500}, [x, mask], "value", h200
        yield "vectors", {"name": "split", "axis": axis}, [x, mask], "value", h200
        yield "vectors", {"name": "distribute", "axis": axis}, [x], "value", h200
        told = {"name": "split_and_segment", "axis": axis}
        yield "vectors", told, [x, mask, mask], "value", h200
        yield "vectors", {"name": "split", "axis": axis}, [x, mask], "grad", h200
        yield "vectors", {"name": "nonzero", "size": 500}, [mask], "value", h200
        yield "vectors", {"name": "partition", "axis": axis}, [x, (shape, "int8")], "value", h200
    for dtype in ("int32", "float32"):
        row, runs = ((70_000,), dtype), ((500,), dtype)
        yield "vectors", {"name": "run_length_encode", "size": 500}, [row], "value", h200
        yield "vectors", {"name": "unique_sorted", "size": 500}, [row], "value", h200
        told = {"name": "run_length_decode", "size": 70_000}
        yield "vectors", told, [runs, ((500,), "int32")], "value", h200
    for kind, gives in itertools.product(
        ("flags", "ids", "lengths", "offsets"), ("flags", "ids", "lengths", "offsets")
    ):
        how = {"total": 40_000} if kind in ("lengths", "offsets") else {}
        operands = [((40_000,) if not how else (101,), "bool" if kind == "flags" else "int32")]
        yield "describing", {"kind": kind, "gives": gives, **how}, operands, "value", h200
