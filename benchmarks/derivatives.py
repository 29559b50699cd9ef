"""The cases of derivatives: recurrences, and scans with the gradients that they give.

A gradient is that of one call under ``jax.vjp``, for a cotangent that is an operand: nothing that
reads the result comes between the two passes. The bytes of a case are those of two passes, of
which the second reads what the first has read and written, and a cotangent.
"""

from __future__ import annotations

import math

import jax.numpy as jnp

from benchmarks import answers, inputs, operations
from benchmarks.answers import Check
from benchmarks.case import Aim, Case, Inputs, length
from benchmarks.inputs import Build
from benchmarks.operations import Operation

SHARE = Aim(None, None)


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    return [
        *_recurrences(shrink),
        *_rows(shrink),
        *_variants(shrink),
        *_sums(shrink),
        *_scans(shrink),
        *_segmented(shrink),
    ]


def _recurrences(shrink: int) -> list[Case]:
    """12 bytes an element forward: a, b, h; 20 backward: a, h, h̄, ā, b̄."""
    n, size = length(27, shrink)
    m, few = length(24, shrink)
    theirs = "lax.associative_scan"
    return [
        Case(
            f"linear_recurrence, float32, {size}",
            Inputs(inputs.reflections((n,))),
            operations.linear_recurrence,
            answers.recurrence,
            *(12 * n, 0.92, 0.80),
            peers={theirs: operations.lax_recurrence},
        ),
        Case(
            f"linear_recurrence and gradient, float32, {few}",
            _with_cotangents(inputs.reflections((m,)), (m,)),
            operations.with_gradient(operations.linear_recurrence),
            answers.recurrence_and_gradient(),
            *(32 * m, 6.0, 4.0, "speedup"),
            peers={theirs: operations.with_gradient(operations.lax_recurrence)},
            against=(theirs,),
            also=(SHARE,),
        ),
    ]


def _with_cotangents(build: Build, shape: tuple[int, ...]) -> Inputs:
    return Inputs(inputs.joined(build, inputs.cotangents(shape)))


def _rows(shrink: int) -> list[Case]:
    """Rows of a batch.

    They have no peer: lax.associative_scan keeps several copies of such leaves, of 805 MB each.
    """
    channels, steps = max(1536 >> shrink // 2, 8), max(16384 >> (shrink - shrink // 2), 16)
    result = []
    for shape, axis, where, target, floor in (
        ((8, channels, steps), 2, "last", 0.85, 0.70),
        ((8, steps, channels), 1, "middle", None, None),
    ):
        result.append(
            Case(
                f"linear_recurrence and gradient of {shape}, {where} axis, float32",
                _with_cotangents(inputs.reflections(shape), shape),
                operations.with_gradient(operations.linear_recurrence_along(axis)),
                answers.recurrence_and_gradient(axis),
                *(32 * math.prod(shape), target, floor),
            )
        )
    return result


def _variants(shrink: int) -> list[Case]:
    n, size = length(23, shrink)
    steps, lanes = max(2**14 >> (shrink - shrink // 2), 8), max(1024 >> shrink // 2, 8)
    shape, shared = (steps, lanes), (steps, 1)
    return [
        Case(
            f"linear_recurrence and gradient, complex64, {size}",
            Inputs(inputs.turns(n)),
            operations.with_gradient(operations.linear_recurrence),
            answers.complex_recurrence_and_gradient,
            *(64 * n, None, None),
        ),
        Case(
            f"linear_recurrence and gradient of {shape}, a of {shared}, float32",
            _with_cotangents(inputs.reflections(shape, shared), shape),
            operations.with_gradient(operations.linear_recurrence),
            answers.recurrence_and_gradient(),
            # b, h; h, h̄, b̄; a twice and ā.
            *(20 * steps * lanes + 12 * steps, None, None),
        ),
    ]


def _sums(shrink: int) -> list[Case]:
    """The gradient of a sum is a sum from the other end, and should take no longer."""
    forward = "jscan.cumsum"
    result = []
    for exponent in (24, 28):
        n, size = length(exponent, shrink)
        result.append(
            Case(
                f"gradient of cumsum, float32, {size}",
                Inputs(inputs.signs((n,), jnp.float32)),
                operations.gradient_of_cumsum,
                answers.sum_of_integers(0, reverse=True),
                *(8 * n, 1.0, 0.95, "speedup"),
                peers={forward: operations.cumsum()},
                against=(forward,),
                also=(SHARE,),
            )
        )
    return result


def _scans(shrink: int) -> list[Case]:
    """8 bytes an element forward: x, y; 16 backward: x, y, ȳ, x̄."""
    n, size = length(24, shrink)

    def case(name: str, operands: Inputs, run: Operation, check: Check, peer: Operation) -> Case:
        theirs = f"lax.{name}"
        return Case(
            f"{name} and gradient, float32, {size}",
            operands,
            operations.with_gradient(run),
            check,
            *(24 * n, 5.0, 3.0, "speedup"),
            peers={theirs: operations.with_gradient(peer)},
            against=(theirs,),
            also=(SHARE,),
        )

    return [
        case(
            "cumprod",
            _with_cotangents(inputs.factors((n,)), (n,)),
            operations.cumprod,
            answers.product_and_gradient,
            operations.lax_cumprod,
        ),
        case(
            "cummax",
            _with_cotangents(inputs.climbing(n), (n,)),
            operations.cummax,
            answers.maximum_and_gradient,
            operations.lax_cummax,
        ),
        case(
            "cumlogsumexp",
            Inputs(inputs.slopes_of_logs(n)),
            operations.cumlogsumexp,
            answers.log_sum_exp_and_gradient,
            operations.lax_cumlogsumexp,
        ),
    ]


def _segmented(shrink: int) -> list[Case]:
    """The heads are read in both passes."""
    n, size = length(24, shrink)
    return [
        Case(
            f"segmented cumprod and gradient, uint8 heads, 1 %, {size}",
            Inputs(inputs.flagged_factors(n), (0.01,)),
            operations.segmented_cumprod_with_gradient,
            answers.segmented_product_and_gradient,
            *(26 * n, None, None),
        )
    ]
