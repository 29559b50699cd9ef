"""Scans of one length: sums of every dtype, and every operator, from one instruction to sixteen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import answers, inputs, operations
from benchmarks.cases.case import Case, Check, Inputs, Operation, call, length, made, others
from benchmarks.cases.core import CUMSUM, CUMSUM_AND_SCAN, SCAN
from jscan import operators

INTEGERS_AND_FLOATS = (
    *("int8", "uint8", "int16", "float16", "bfloat16", "int32", "uint32", "float32"),
    *("int64", "float64"),
)
OF_CUB = ("int32", "float32", "float64")


def _bars(group: str, size: str, cases: Iterable[Case]) -> list[Case]:
    """Cases of one length, each of which is a bar of its own."""
    return [
        dataclasses.replace(
            case,
            name=f"{case.name}, {size}",
            line="auto",
            group=group,
            at=case.name.removeprefix("sum, ").removeprefix("or, "),
        )
        for case in cases
    ]


def dtypes(shrink: int = 0) -> list[Case]:
    """Sums of every dtype, with sizes divided by about 2^shrink."""
    n, size = length(27, shrink)
    return _bars("dtypes", size, _of_dtypes(n))


def _of_dtypes(n: int) -> Iterator[Case]:
    run = call(jscan.cumsum)
    outside = others("torch.cumsum", "cupy.cumsum")
    for dtype in INTEGERS_AND_FLOATS:
        width = jnp.dtype(dtype).itemsize
        operands = made(inputs.signs, (n,), dtype, x64=width == 8)
        if dtype == "float64":
            operands = made(inputs.wide_integers, n, x64=True)
        of_cub = others("cub.InclusiveSum") if dtype in OF_CUB else ()
        yield Case(
            f"sum, {dtype}",
            operands,
            run,
            answers.sum_of_integers(x64=width == 8),
            2 * n * width,
            peers=CUMSUM,
            outside=(*outside, *others("cuda.compute.inclusive_scan"), *of_cub),
        )
    signs, check = made(inputs.complex_signs, n), answers.complex_sum
    yield Case("sum, complex64", signs, run, check, 16 * n, peers=CUMSUM, outside=outside)
    either, peers = operators.bitwise_or, {SCAN: call(operations.lax_scan, lax.bitwise_or)}
    run, mask = call(operations.scan, either), made(inputs.mask, n, 4 / n)
    yield Case("or, bool", mask, run, answers.any_so_far, 2 * n, peers=peers)


def cases(shrink: int = 0) -> list[Case]:
    """Every operator, with sizes divided by about 2^shrink."""
    n, size = length(26, shrink)
    return _bars("operators", size, _of_operators(n))


def _of_operators(n: int) -> Iterator[Case]:
    def bits(name: str, operands: Inputs) -> Case:
        reference = call(operations.lax_scan, getattr(lax, name))
        run, check = call(operations.scan, getattr(operators, name)), answers.same_as(reference)
        return Case(f"{name}, int32", operands, run, check, 8 * n, peers={SCAN: reference})

    def scan(name: str, operands: Inputs, operator: Operation, check: Check, width: int) -> Case:
        run, peer = call(operations.scan, operator), call(operations.lax_scan, operator)
        return Case(name, operands, run, check, width * n, peers={SCAN: peer})

    yield Case(
        "add, float32",
        made(inputs.signs, (n,), jnp.float32),
        call(jscan.cumsum),
        answers.sum_of_integers(),
        8 * n,
        peers=CUMSUM_AND_SCAN,
        outside=others("torch.cumsum", "cub.InclusiveSum"),
    )
    smallest = call(operations.scan, operators.min)
    for name, build, run, check, peer, outside in (
        (
            "mul",
            call(inputs.factors, (n,)),
            jscan.cumprod,
            answers.product_of_signs,
            lax.cumprod,
            ("torch.cumprod", "cupy.cumprod"),
        ),
        (
            "max",
            call(inputs.rising, n),
            jscan.cummax,
            answers.maximum,
            lax.cummax,
            ("torch.cummax",),
        ),
        (
            "min",
            call(inputs.falling, n),
            smallest,
            answers.same_as(lax.cummin),
            lax.cummin,
            ("torch.cummin",),
        ),
        (
            "logaddexp",
            call(inputs.normal, n),
            jscan.cumlogsumexp,
            answers.log_sum_exp,
            lax.cumlogsumexp,
            ("torch.logcumsumexp",),
        ),
    ):
        yield Case(
            f"{name}, float32",
            Inputs(build),
            run,
            check,
            8 * n,
            peers={f"lax.{peer.__name__}": peer},
            outside=others(*outside),
        )
    yield bits("bitwise_and", made(inputs.rare_gaps, n))
    yield bits("bitwise_or", made(inputs.rare_bits, n))
    yield bits("bitwise_xor", made(inputs.words, n))
    yield Case(
        "affine, float32, two leaves, one used",
        made(inputs.reflections, (n,)),
        operations.recurrence,
        answers.recurrence,
        12 * n,
        peers={SCAN: operations.lax_recurrence},
    )
    writes, latest = made(inputs.rare_writes, n), operations.latest
    yield scan("last write, int32, a lambda", writes, latest, answers.last_writes, 8)
    samples, join = made(inputs.samples, n), operations.join_moments
    yield scan("Welford, float32, three leaves", samples, join, answers.moments, 24)
    turns, multiply = made(inputs.quarter_turns, n), operations.multiply_matrices
    name = "matrices of two by two, float32, four leaves"
    yield scan(name, turns, multiply, answers.products_of_turns, 32)
