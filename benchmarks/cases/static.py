"""The calls whose kernels are looked at without a GPU: every way that a kernel is put together."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import jscan
from benchmarks.cases.operations import join_moments, positions
from jscan import operators

Operand = tuple[tuple[int, ...], str]
"""A shape and a dtype."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A function of arrays, and what it is called with."""

    name: str
    fn: Callable[..., Any]
    operands: tuple[Operand, ...]
    devices: int = 1

    @property
    def takes_64_bits(self) -> bool:
        """Whether JAX has to be told that there are dtypes of 64 bits."""
        wide = "float64", "int64", "uint64", "complex128"
        return any(dtype in wide for _, dtype in self.operands)


@functools.cache
def calls() -> dict[str, Call]:
    """The calls by their names."""
    along = (*_repeatable(), *_segmented(), *_rows_and_lanes(), *_blocks(), *_across_devices())
    others = (*_derivatives(), *_reductions(), *_products(), *_ranks(), *_shared())
    every = [*_scans(), *along, *others]
    found = {call.name: call for call in every}
    assert len(found) == len(every)
    return found


LONG = 2**26
ODD = LONG - 77
VOCABULARY = (1280, 50257)
"""Rows that begin inside of memory's words."""
BACKWARDS: dict[str, Any] = {"reverse": True, "exclusive": True}


def _call(name: str, fn: Callable[..., Any], *operands: Operand) -> Call:
    shapes = dict.fromkeys("×".join(map(str, shape)) for shape, _ in operands)
    dtypes = dict.fromkeys(dtype for _, dtype in operands)
    return Call(f"{name}, {' '.join(dtypes)}, {' '.join(shapes)}", fn, operands)


def _cumulative(what: str, operand: Operand, *segments: Operand, say: str = "", **how: Any) -> Call:
    """A cumulative operation, perhaps of segments that are described by flags."""
    function = getattr(jscan, what)
    told = [f"{key}={value}" if value is not True else key for key, value in how.items()]
    name = " ".join(["segmented"] * len(segments) + [what, *told, *([say] if say else [])])

    def call(x: jax.Array, flags: jax.Array | None = None) -> Any:
        return function(x, segments=flags, **how)

    return _call(name, call, operand, *segments)


def _packed(what: str, n: int, dtype: str, **how: Any) -> Call:
    """A cumulative operation of segments that are described by flags of a bit each."""

    def call(x: jax.Array, words: jax.Array) -> Any:
        segments = jscan.Segments.from_packed(words, x.shape[0])
        return getattr(jscan, what)(x, segments=segments, **how)

    told = [f"{key}={value}" if value is not True else key for key, value in how.items()]
    name = " ".join(["segmented by bits", what, *told])
    return _call(name, call, ((n,), dtype), ((-(-n // 32),), "uint32"))


def _by_ids(n: int, dtype: str) -> Call:
    """A sum of segments that are described by ids."""

    def call(x: jax.Array, ids: jax.Array) -> Any:
        return jscan.cumsum(x, segments=jscan.Segments.from_ids(ids))

    return _call("segmented by ids cumsum", call, ((n,), "float32"), ((n,), dtype))


def _scan(name: str, fn: Any, operand: Operand, leaves: int, segments: int = 0, **how: Any) -> Call:
    """A scan of several leaves by an operator; `only` is the one result that is used."""
    only = how.pop("only", None)

    def call(*arrays: jax.Array) -> Any:
        flags = arrays[leaves] if segments else None
        result = jscan.associative_scan(fn, arrays[:leaves], segments=flags, **how)
        return result if only is None else result[only]

    flags = (operand[0], "bool")
    return _call(name, call, *[operand] * leaves, *[flags] * segments)


def _scans() -> Iterator[Call]:
    """One row: strategies, dtypes, forms, operators, leaves."""
    long: Operand = ((LONG,), "float32")
    yield _cumulative("cumsum", ((1000,), "float32"), method="block")
    for method in (
        *("lookback", "serial_lookback", "chained", "repeatable"),
        *("reduce_then_scan", "scan_then_propagate"),
    ):
        yield _cumulative("cumsum", long, method=method)
    yield _cumulative("cumsum", ((2**20,), "float32"))
    for dtype in ("int8", "bfloat16", "float64", "complex64"):
        yield _cumulative("cumsum", ((LONG,), dtype))
    for dtype in ("float32", "bfloat16"):
        yield _cumulative("cumsum", ((ODD,), dtype))
    yield _cumulative("cumsum", ((ODD,), "float32"), reverse=True)
    yield _cumulative("cumsum", long, exclusive=True)
    yield _cumulative("cumsum", long, **BACKWARDS)
    yield _cumulative("cummax", ((LONG,), "int16"))
    yield _cumulative("cumlogsumexp", long)
    yield _scan("affine, one result", operators.affine, long, 2, only=1)
    yield _scan("Welford", join_moments, long, 3)
    yield _scan("tanh(p) + q", lambda p, q: (jnp.tanh(p[0]) + q[0],), long, 1)


def _repeatable() -> Iterator[Call]:
    """The strategy whose groups are fixed, beside which the others' calls stand."""
    long: Operand = ((LONG,), "float32")
    fixed: Any = {"method": "repeatable"}
    yield _cumulative("cumsum", long, **BACKWARDS, **fixed)
    yield _cumulative("cumsum", long, **fixed, precise=True)
    yield _cumulative("cumsum", long, precise=True)
    yield _cumulative("cumsum", long, ((LONG,), "bool"), precise=True)
    yield _cumulative("cumlogsumexp", long, **fixed)
    yield _scan("affine, one result, repeatable", operators.affine, long, 2, only=1, **fixed)
    yield _scan("Welford, repeatable", join_moments, long, 3, **fixed)
    yield _cumulative("cumsum", long, ((LONG,), "bool"), **fixed)
    yield _cumulative("cumsum", ((1024, 65536), "float32"), axis=0, **fixed)


def _segmented() -> Iterator[Call]:
    """One row in segments."""
    flags: Operand = ((LONG,), "bool")
    for dtype in ("float32", "int32", "int8", "bfloat16"):
        yield _cumulative("cumsum", ((LONG,), dtype), flags)
    columns: Operand = ((2048, 32768), "bfloat16")
    yield _cumulative("cumlogsumexp", columns, ((2048,), "bool"), axis=0, reverse=True)
    long: Operand = ((LONG,), "float32")
    yield _cumulative("cumsum", long, flags, exclusive=True)
    yield _cumulative("cumsum", long, flags, **BACKWARDS)
    yield _cumulative("cumsum", ((LONG,), "int32"), flags, **BACKWARDS)
    yield _cumulative("cumsum", long, flags, method="reduce_then_scan")
    yield _cumulative("cumsum", ((ODD,), "float32"), ((ODD,), "bool"))
    for dtype in ("float32", "int8"):
        yield _packed("cumsum", LONG, dtype)
    yield _packed("cumsum", LONG, "float32", **BACKWARDS)
    yield _packed("cumsum", ODD, "float32", reverse=True)
    for dtype in ("uint8", "int16", "int32", "int64"):
        yield _by_ids(LONG, dtype)
    yield _by_ids(ODD, "uint8")
    yield _scan("segmented Welford", join_moments, long, 3, 1, identity=(0.0, 0.0, 0.0))


def _rows_and_lanes() -> Iterator[Call]:
    """Arrays of several dimensions, along each."""
    for dtype in ("float32", "int8", "bfloat16"):
        yield _cumulative("cumsum", (VOCABULARY, dtype), axis=1)
    shared: Operand = (VOCABULARY[1:], "bool")
    yield _cumulative("cumsum", (VOCABULARY, "float32"), (VOCABULARY, "bool"), axis=1)
    yield _cumulative("cumsum", (VOCABULARY, "float32"), shared, say="shared", axis=1)
    for extent in (1024, 100):
        yield _cumulative("cumsum", ((65536, extent), "float32"), axis=1)
    for shape, dtype in (
        ((1024, 65536), "float32"),
        ((4099, 16381), "float32"),
        ((50257, 1280), "float16"),
        ((2**20, 64), "int8"),
        ((4099, 16381), "int8"),
        *(((1483, 50257), "bfloat16"), ((64, 2**20 + 1), "uint8"), ((129, 2**19 + 5), "int32")),
    ):
        yield _cumulative("cumsum", (shape, dtype), axis=0)
    for lanes, dtype in ((7, "float32"), (10, "float32"), (11, "bfloat16"), (10, "int8")):
        yield _cumulative("cumsum", ((2**20, lanes), dtype), axis=0)
    yield _cumulative("cumsum", ((2**20, 64), "bfloat16"), ((2**20,), "bool"), axis=0)


def _blocks() -> Iterator[Call]:
    """Products of small matrices, and recurrences of vectors."""

    def products(x: jax.Array) -> Any:
        return jscan.associative_scan(jnp.matmul, x)

    for k in (2, 3, 4):
        yield _call("scan of products", products, ((2**22, k, k), "float32"))
        operands = ((2**22, k, k), "float32"), ((2**22, k), "float32")
        yield _call("matrix_recurrence", jscan.matrix_recurrence, *operands)

    for k in (5, 8):
        yield _call("scan of products", products, ((2**18, k, k), "float32"))

    def segmented(x: jax.Array, flags: jax.Array) -> Any:
        return jscan.associative_scan(jnp.matmul, x, segments=flags, reverse=True)

    yield _call("scan of products", products, ((2**22, 2, 2), "bfloat16"))
    flags: Operand = ((2**22,), "bool")
    yield _call("segmented scan of products reverse", segmented, ((2**22, 3, 3), "float32"), flags)


def _across_devices() -> Iterator[Call]:
    """An axis that goes on across two devices: what is open at a part's end, scans with a start."""

    def cumsum(x: jax.Array, flags: jax.Array) -> Any:
        return jscan.cumsum(x, segments=flags, axis_name="x")

    def parts(x: jax.Array, flags: jax.Array) -> Any:
        cut = jax.P("x")
        return jax.shard_map(cumsum, in_specs=(cut, cut), out_specs=cut)(x, flags)

    call = _call("segmented cumsum axis_name", parts, ((LONG,), "float32"), ((LONG,), "bool"))
    yield dataclasses.replace(call, devices=2)


def _recurrence(
    a: Operand, b: Operand, *segments: Operand, gradient: bool = False, **how: Any
) -> Call:
    def call(a: jax.Array, b: jax.Array, flags: jax.Array | None = None) -> Any:
        return jscan.linear_recurrence(a, b, segments=flags, **how)

    told = [f"{key}={value}" if value is not True else key for key, value in how.items()]
    words = ["gradient of"] * gradient + ["segmented"] * len(segments)
    name = " ".join([*words, "linear_recurrence", *told])
    return _call(name, _gradient(call) if gradient else call, a, b, *segments)


def _gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient by the inexact operands of a sum in which every result counts differently."""

    def total(moved: tuple[jax.Array, ...], rest: tuple[jax.Array, ...]) -> jax.Array:
        results = jax.tree.leaves(fn(*moved, *rest))
        parts = [p for x in results for p in ((x.real, x.imag) if jnp.iscomplexobj(x) else (x,))]
        terms = [jnp.sum(jnp.sin(x.astype(jnp.float32))) for x in parts]
        return sum(terms[1:], terms[0])

    def gradient(*arrays: jax.Array) -> Any:
        moved = tuple(x for x in arrays if jnp.issubdtype(x.dtype, jnp.inexact))
        return jax.grad(total)(moved, arrays[len(moved) :])

    return gradient


def _gradient_of(call: Call) -> Call:
    return Call(f"gradient of {call.name}", _gradient(call.fn), call.operands)


def _derivatives() -> Iterator[Call]:
    """Recurrences, and scans that are differentiated."""
    long: Operand = ((LONG,), "float32")
    flags: Operand = ((LONG,), "bool")
    lanes: Operand = ((4096, 4096), "float32")
    half: Operand = ((LONG,), "bfloat16")
    yield _recurrence(long, long)
    yield _recurrence(long, long, flags)
    yield _recurrence(lanes, lanes, axis=0)
    narrow: Operand = ((100003, 1280), "bfloat16")
    yield _recurrence(narrow, narrow, axis=0, reverse=True)
    rows: Operand = ((10000, 4000), "float32")
    yield _recurrence(rows, rows, gradient=True, axis=1)
    for operand in (long, half):
        yield _recurrence(operand, operand, gradient=True)
    yield _recurrence(long, long, flags, gradient=True)
    yield _recurrence(lanes, lanes, gradient=True, axis=0)
    for shape, axis in (((512, 131072), 1), ((8, 32768, 256), 1)):
        yield _recurrence((shape, "complex64"), (shape, "complex64"), gradient=True, axis=axis)
    yield _recurrence((VOCABULARY, "float32"), (VOCABULARY, "float32"), gradient=True, axis=1)
    yield _gradient_of(_cumulative("cummax", long, exclusive=True))
    yield _gradient_of(_cumulative("cumlogsumexp", long, flags))
    yield _gradient_of(_scan("Welford", join_moments, ((2**24,), "float32"), 3))


def _reduce(name: str, fn: Any, operand: Operand, leaves: int, **how: Any) -> Call:
    return _call(name, lambda *xs: jscan.reduce(fn, xs, **how), *[operand] * leaves)


def _add(p: Any, q: Any) -> Any:
    return (p[0] + q[0],)


def _reductions() -> Iterator[Call]:
    """Reductions of whole axes and of segments, in each description."""
    n, count = LONG, 2**16
    for method in ("lookback", "reduce_then_scan", "scan_then_propagate"):
        yield _reduce(f"reduce add method={method}", _add, ((n,), "float32"), 1, method=method)
    affine = operators.affine
    yield _reduce("reduce affine", affine, ((n,), "float32"), 2)
    yield _reduce("reduce affine axis=1", affine, (VOCABULARY, "float32"), 2, axis=1)
    yield _reduce("reduce affine axis=0", affine, ((4099, 16381), "bfloat16"), 2, axis=0)

    def by_ids(data: jax.Array, ids: jax.Array) -> Any:
        return jscan.segment_sum(data, ids, count, indices_are_sorted=True)

    def by_flags(x: jax.Array, flags: jax.Array) -> Any:
        return jscan.reduce(operators.max, x, segments=flags, num_segments=count)

    def by_offsets(x: jax.Array, offsets: jax.Array) -> Any:
        segments = jscan.Segments.from_offsets(offsets, total=n)
        return jscan.reduce(operators.add, x, segments=segments)

    ids: Operand = ((n,), "int32")
    for dtype in ("float32", "bfloat16"):
        yield _call("segment_sum by sorted ids", by_ids, ((n,), dtype), ids)
    lanes: Operand = ((2**20, 64), "float32")
    yield _call("segment_sum by sorted ids", by_ids, lanes, ((2**20,), "int32"))

    def by_plan(data: jax.Array, *plan: jax.Array) -> Any:
        return jscan.segment_sum(data, jscan.SegmentPlan.tree_unflatten(count, plan))

    wide = (2**20, 128)
    yield _call("segment_sum by sorted ids", by_ids, (wide, "float16"), ((2**20,), "int32"))
    yield _call("segment_sum by a plan", by_plan, (wide, "float32"), *[((2**20,), "int32")] * 3)
    yield _call("reduce max by flags", by_flags, ((n,), "float32"), ((n,), "bool"))
    offsets: Operand = ((count + 1,), "int32")
    yield _gradient_of(_call("reduce add by offsets", by_offsets, ((n,), "float32"), offsets))


def _products() -> Iterator[Call]:
    """Products of sparse matrices, whose elements are made as they are reduced."""
    n, count = LONG, 2**22
    where: tuple[Operand, ...] = (((n,), "int32"), ((count + 1,), "int32"))

    def by(pair: str) -> Callable[..., Any]:
        return lambda values, columns, offsets, x: jscan.csr_matvec(
            values, columns, offsets, x, operators=pair
        )

    for dtype in ("float32", "bfloat16"):
        x: Operand = ((count,), dtype)
        yield _call("csr_matvec", by("sum-product"), ((n,), dtype), *where, x)
    lone: Operand = ((), "float32")
    yield _call("csr_matvec, one value", by("sum-product"), lone, *where, ((count,), "float32"))
    yield _call("csr_matvec max-plus", by("max-plus"), ((n,), "int32"), *where, ((count,), "int32"))
    for width in (3, 4, 16):
        x = (count, width), "float32"
        yield _call("csr_matmat", jscan.csr_matmat, ((n,), "float32"), *where, x)
    short: tuple[Operand, ...] = (((n,), "int32"), ((n // 4 + 1,), "int32"))
    for dtype in ("float32", "complex64"):
        x = (n // 4,), dtype
        yield _call("csr_matvec, short rows", by("sum-product"), ((n,), dtype), *short, x)
    x = (n // 4, 4), "float32"
    yield _call("csr_matmat, short rows", jscan.csr_matmat, ((n,), "float32"), *short, x)


def _ranks() -> Iterator[Call]:
    """Ranks, what scatters by them, and conversions of segments."""
    n = LONG
    mask: Operand = ((n,), "bool")
    long: Operand = ((n,), "float32")
    yield _call("enumerate", jscan.enumerate, mask)
    yield _call("pack", lambda x, mask: jscan.pack(x, mask, size=n // 2), long, mask)
    yield _call("split", jscan.split, long, mask)
    yield _call("nonzero", functools.partial(jscan.nonzero, size=n), mask)
    for dtype in ("int32", "float32"):
        yield _call("unique_sorted", lambda x: jscan.unique_sorted(x, size=n // 16), ((n,), dtype))
    encode = functools.partial(jscan.run_length_encode, size=n // 16)
    yield _call("run_length_encode", encode, ((n,), "int32"))
    keys = functools.partial(jscan.histogram, length=256)
    yield from (_call("histogram, 256 keys", keys, ((n,), dtype)) for dtype in ("int32", "uint8"))
    yield _call("partition", jscan.partition, long, ((n,), "int8"))
    for shape, axis in (((2**18, 64), 1), ((16000, 1000), 1), ((512, 512), 0)):
        solve = functools.partial(jscan.tridiagonal_solve, axis=axis)
        yield _call(f"tridiagonal_solve, axis {axis}", solve, *[(shape, "float32")] * 4)

    def split_and_segment(x: jax.Array, mask: jax.Array, flags: jax.Array) -> Any:
        values, segments = jscan.split_and_segment(x, mask, flags)
        return values, segments.flags

    yield _call("split_and_segment", split_and_segment, long, mask, mask)
    yield _call("ids of flags", lambda flags: jscan.Segments.from_flags(flags).ids, mask)

    of_lengths = functools.partial(jscan.Segments.from_lengths, total=n)
    yield _call("ids of lengths", lambda x: of_lengths(x).ids, ((2**16,), "int32"))
    yield _call("flags of lengths", lambda x: of_lengths(x).flags, ((2**16,), "int32"))


def _shared() -> Iterator[Call]:
    """What all positions have in common."""
    one, long = ((), "float32"), ((LONG,), "float32")
    yield _call("one number: linear_recurrence", jscan.linear_recurrence, one, long)
    yield _call("one number: gradient", _gradient(jscan.linear_recurrence), one, long)
    channels = ((1, 1, 256), "float32"), ((8, 4096, 256), "float32")
    yield _recurrence(*channels, axis=1)
    yield _call("positions in packed rows", positions, ((32, 4096), "bool"))
