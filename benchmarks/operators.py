"""Scans with every operator, from one instruction to sixteen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks import answers, inputs, methods, operations
from benchmarks.answers import Check
from benchmarks.case import Case, Inputs, length
from benchmarks.inputs import Build
from benchmarks.operations import Operation
from benchmarks.outside import Peer

SCAN = "lax.associative_scan"


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    n, size = length(26, shrink)

    def case(
        name: str,
        build: Build,
        run: Operation,
        check: Check,
        width: int,
        peers: dict[str, Operation],
        *outside: Peer,
    ) -> Case:
        return Case(
            f"{name}, {size}",
            Inputs(build),
            run,
            check,
            width * n,
            peers=peers,
            outside=outside,
            line="auto",
            group="operators",
            at=name,
        )

    def bits(name: str, build: Build) -> Case:
        operator, reference = _BITS[name]
        return case(
            f"{name}, int32",
            build,
            methods.scan(operator),
            answers.same_as(operations.lax_scan(reference)),
            8,
            {SCAN: operations.lax_scan(reference)},
        )

    return [
        case(
            "add, float32",
            inputs.signs((n,), jnp.float32),
            operations.cumsum(),
            answers.sum_of_integers(),
            8,
            {"lax.cumsum": operations.lax_cumsum(), SCAN: operations.lax_scan(lax.add)},
            Peer("torch", "cumsum"),
            Peer("cub", "InclusiveSum"),
        ),
        case(
            "mul, float32",
            inputs.factors((n,)),
            operations.cumprod,
            answers.product_of_signs,
            8,
            {"lax.cumprod": operations.lax_cumprod},
            Peer("torch", "cumprod"),
            Peer("cupy", "cumprod"),
        ),
        case(
            "max, float32",
            inputs.rising(n),
            operations.cummax,
            answers.maximum,
            8,
            {"lax.cummax": operations.lax_cummax},
            Peer("torch", "cummax"),
        ),
        case(
            "min, float32",
            inputs.falling(n),
            methods.scan(jscan.operators.min),
            answers.same_as(lax.cummin),
            8,
            {"lax.cummin": lax.cummin},
            Peer("torch", "cummin"),
        ),
        case(
            "logaddexp, float32",
            inputs.normal(n),
            operations.cumlogsumexp,
            answers.log_sum_exp,
            8,
            {"lax.cumlogsumexp": operations.lax_cumlogsumexp},
            Peer("torch", "logcumsumexp"),
        ),
        bits("bitwise_and", inputs.rare_gaps(n)),
        bits("bitwise_or", inputs.rare_bits(n)),
        bits("bitwise_xor", inputs.words(n)),
        case(
            "affine, float32, two leaves, one used",
            inputs.reflections((n,)),
            operations.recurrence,
            answers.recurrence,
            12,
            {SCAN: operations.lax_recurrence},
        ),
        case(
            "last write, int32, a lambda",
            inputs.rare_writes(n),
            methods.scan(operations.latest),
            answers.last_writes,
            8,
            {SCAN: operations.lax_scan(operations.latest)},
        ),
        case(
            "Welford, float32, three leaves",
            inputs.samples(n),
            operations.running_moments,
            answers.moments,
            24,
            {SCAN: operations.lax_running_moments},
        ),
        case(
            "matrices of two by two, float32, four leaves",
            inputs.quarter_turns(n),
            methods.scan_leaves(methods.multiply_matrices),
            answers.products_of_turns,
            32,
            {SCAN: operations.lax_scan_leaves(methods.multiply_matrices)},
        ),
    ]


_BITS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "bitwise_and": (jscan.operators.bitwise_and, lax.bitwise_and),
    "bitwise_or": (jscan.operators.bitwise_or, lax.bitwise_or),
    "bitwise_xor": (jscan.operators.bitwise_xor, lax.bitwise_xor),
}
