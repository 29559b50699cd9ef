"""Sums of every dtype."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks import answers, inputs, methods, operations
from benchmarks.answers import Check
from benchmarks.case import Case, Inputs, length
from benchmarks.inputs import Build
from benchmarks.outside import Peer

GROUP = "dtypes"
OF_CUB = ("int32", "float32", "float64")
SUMMED = (
    *("int8", "uint8", "int16", "float16", "bfloat16", "int32", "uint32", "float32"),
    *("int64", "float64"),
)


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    n, size = length(27, shrink)
    sums = [_sum(n, size, jnp.dtype(name)) for name in SUMMED]
    return [*sums, _complex_sum(n, size), _any(n, size)]


def _outside(name: str) -> tuple[Peer, ...]:
    own = (Peer("cub", "InclusiveSum"),) if name in OF_CUB else ()
    others = ("torch", "cumsum"), ("cupy", "cumsum"), ("cuda.compute", "inclusive_scan")
    return (*(Peer(*other) for other in others), *own)


def _sum(n: int, size: str, dtype: Any) -> Case:
    wide = dtype.itemsize == 8
    build: Build = inputs.signs((n,), dtype)
    if dtype == jnp.float64:
        build = inputs.wide_integers(n)
    return Case(
        f"sum, {dtype.name}, {size}",
        Inputs(build, x64=wide),
        operations.cumsum(),
        answers.sum_of_integers(x64=wide),
        2 * n * dtype.itemsize,
        peers={"lax.cumsum": operations.lax_cumsum()},
        outside=_outside(dtype.name),
        line="auto",
        group=GROUP,
        at=dtype.name,
    )


def _complex_sum(n: int, size: str) -> Case:
    return Case(
        f"sum, complex64, {size}",
        Inputs(inputs.complex_signs(n)),
        operations.cumsum(),
        answers.complex_sum,
        16 * n,
        peers={"lax.cumsum": operations.lax_cumsum()},
        outside=(Peer("torch", "cumsum"), Peer("cupy", "cumsum")),
        line="auto",
        group=GROUP,
        at="complex64",
    )


def _any(n: int, size: str) -> Case:
    check: Check = answers.any_so_far
    return Case(
        f"or, bool, {size}",
        Inputs(inputs.mask(n, 4 / n)),
        methods.scan(jscan.operators.bitwise_or),
        check,
        2 * n,
        peers={"lax.associative_scan": operations.lax_scan(lax.bitwise_or)},
        line="auto",
        group=GROUP,
        at="bool",
    )
