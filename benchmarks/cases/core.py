"""The cases of the core: plain and segmented scans of every kind, large and small."""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import answers, inputs, operations
from benchmarks.cases.case import Case, Unit, call, length, made
from jscan.operators import bitwise_xor

SCAN = "lax.associative_scan"
CUMSUM = {"lax.cumsum": call(operations.lax_cumsum)}
CUMSUM_AND_SCAN = CUMSUM | {SCAN: call(operations.lax_scan, lax.add)}

HEADS = ((0.3, "30 %"), (0.01, "1 %"), (1e-5, "0.001 %"), (0.0, "one segment"), (1.0, "all heads"))


def cases(shrink: int = 0) -> list[Case]:
    """All cases of the core, with sizes divided by about 2^shrink."""
    kinds = (_directions, _sizes, _operators, _narrow, _rows, _segments, _ragged_rows, _leaves)
    return [case for kind in kinds for case in kind(shrink)]


def _shape(exponents: tuple[int, int], shrink: int) -> tuple[int, int]:
    fewer = (shrink // 2, shrink - shrink // 2)
    rows, columns = (1 << max(e - f, 3) for e, f in zip(exponents, fewer, strict=True))
    return rows, columns


def _directions(shrink: int) -> Iterator[Case]:
    n, size = length(28, shrink)
    signs = made(inputs.signs, (n,), jnp.float32)
    plain = f"inclusive sum, float32, {size}"
    run, check = call(jscan.cumsum), answers.sum_of_integers()
    yield Case(plain, signs, run, check, 8 * n, 0.98, 0.95, peers=CUMSUM_AND_SCAN)
    backwards = {"lax.cumsum": call(operations.lax_cumsum, reverse=True)}
    for name, reverse, exclusive, target, floor in (
        ("reverse", True, False, 1.0, 0.97),
        ("exclusive", False, True, 0.97, 0.93),
        ("reverse exclusive", True, True, 0.97, 0.93),
    ):
        yield Case(
            f"{name} sum, float32, {size}",
            signs,
            call(jscan.cumsum, reverse=reverse, exclusive=exclusive),
            answers.sum_of_integers(0, reverse, exclusive),
            *(8 * n, target, floor, "ratio"),
            peers=backwards if name == "reverse" else {},
            against=(plain,),
        )


def _sizes(shrink: int) -> Iterator[Case]:
    """The rest of the plain sums; float32 at the largest size is among the directions."""
    levels: tuple[tuple[int, float, float, Unit], ...] = (
        (28, 0.98, 0.95, "share"),
        (24, 0.88, 0.80, "share"),
        (20, 5.0, 6.5, "us"),
        (12, 2.2, 3.0, "us"),
    )
    for exponent, target, floor, unit in levels:
        n, size = length(exponent, shrink)
        for dtype in ("int32",) if exponent == 28 else ("float32", "int32"):
            yield Case(
                f"inclusive sum, {dtype}, {size}",
                made(inputs.signs, (n,), dtype),
                call(jscan.cumsum),
                answers.sum_of_integers(),
                *(8 * n, target, floor, unit),
                peers=CUMSUM_AND_SCAN,
            )


def _operators(shrink: int) -> Iterator[Case]:
    n, size = length(28, shrink)
    m, half = length(27, shrink)
    xor, xor_by_lax = call(operations.scan, bitwise_xor), call(operations.lax_scan, lax.bitwise_xor)
    for name, build, run, check, peers in (
        ("max, float32", inputs.rising, jscan.cummax, answers.maximum, {"lax.cummax": lax.cummax}),
        (
            "logaddexp, float32",
            inputs.normal,
            jscan.cumlogsumexp,
            answers.log_sum_exp,
            {"lax.cumlogsumexp": lax.cumlogsumexp},
        ),
        ("xor, int32", inputs.words, xor, answers.exclusive_or, {SCAN: xor_by_lax}),
    ):
        yield Case(f"{name}, {size}", made(build, n), run, check, 8 * n, 0.94, 0.88, peers=peers)
    yield Case(
        f"inclusive sum, float64, {half}",
        made(inputs.wide_integers, m, x64=True),
        call(jscan.cumsum),
        answers.sum_of_integers(x64=True),
        *(16 * m, 0.94, 0.88),
        peers=CUMSUM,
    )


def _narrow(shrink: int) -> Iterator[Case]:
    for dtype, exponent, target, floor in (
        ("bfloat16", 28, 0.90, 0.72),
        ("float16", 28, 0.90, 0.72),
        ("int8", 29, 0.80, 0.50),
    ):
        n, size = length(exponent, shrink)
        yield Case(
            f"inclusive sum, {dtype}, {size}",
            made(inputs.signs, (n,), dtype),
            call(jscan.cumsum),
            answers.sum_of_integers(),
            *(2 * n * jnp.dtype(dtype).itemsize, target, floor),
            peers=CUMSUM,
        )


def _rows(shrink: int) -> Iterator[Case]:
    for exponents in ((10, 16), (16, 10), (20, 6), (4, 22)):
        shape = _shape(exponents, shrink)
        for axis, where, target, floor in ((1, "last", 0.95, 0.85), (0, "first", 0.90, 0.75)):
            yield Case(
                f"sum of {shape}, {where} axis, float32",
                made(inputs.signs, shape, jnp.float32),
                call(jscan.cumsum, axis=axis),
                answers.sum_of_integers(axis),
                *(8 * math.prod(shape), target, floor),
                peers={"lax.cumsum": call(operations.lax_cumsum, axis=axis)},
            )


def _segments(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    for dtype in ("uint8", "bool"):
        for density, heads in HEADS:
            yield Case(
                f"segmented sum, {dtype} heads, {heads}, {size}",
                made(inputs.flagged, (n,), (n,), dtype, args=(density,)),
                operations.segmented_sum,
                answers.segmented_sum,
                *(9 * n, 0.92, 0.82),
                peers={SCAN: operations.lax_segmented_sum},
            )


def _ragged_rows(shrink: int) -> Iterator[Case]:
    shape = _shape((12, 15), shrink)
    n = math.prod(shape)
    for kind, axis, heads, moved in (
        ("heads per row", 0, shape, 9 * n),
        ("heads shared", None, shape[1:], 8 * n + shape[1]),
    ):
        yield Case(
            f"vmap of segmented sum, {shape}, {kind}",
            made(inputs.flagged, shape, heads, jnp.uint8, args=(0.01,)),
            call(operations.along_rows, operations.segmented_sum, axis),
            answers.segmented_sum,
            *(moved, 0.92, 0.80),
            peers={SCAN: call(operations.along_rows, operations.lax_segmented_sum, axis)},
        )


def _leaves(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    m, half = length(26, shrink)
    yield Case(
        f"affine, one of two results, float32, {size}",
        made(inputs.reflections, (n,)),
        operations.recurrence,
        answers.recurrence,
        *(12 * n, 0.92, 0.79),
        peers={SCAN: operations.lax_recurrence},
    )
    yield Case(
        f"Welford, three leaves, float32, {half}",
        made(inputs.samples, m),
        call(operations.scan, operations.join_moments),
        answers.moments,
        *(24 * m, 0.75, 0.55),
        peers={SCAN: call(operations.lax_scan, operations.join_moments)},
    )
