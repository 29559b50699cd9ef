"""The cases of derivatives: recurrences, and scans with the gradients that they give.

A gradient is that of one call under ``jax.vjp``, for a cotangent that is an operand: nothing that
reads the result comes between the two passes. The bytes of a case are those of two passes, of
which the second reads what the first has read and written, and a cotangent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import answers, inputs, operations, stepwise
from benchmarks.cases.case import Aim, Build, Case, Inputs, call, length, made
from benchmarks.cases.core import SCAN
from benchmarks.cases.operations import with_gradient

SHARE = Aim(None, None)


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    kinds = (_recurrences, _rows, _variants, _sums, _scans, _segmented)
    return [case for kind in kinds for case in kind(shrink)]


def _with_cotangents(build: Build, shape: tuple[int, ...], *more: tuple[int, ...]) -> Inputs:
    return made(inputs.joined, call(build, shape, *more), call(inputs.cotangents, shape))


def _recurrences(shrink: int) -> Iterator[Case]:
    """12 bytes an element forward: a, b, h; 20 backward: a, h, h̄, ā, b̄."""
    n, size = length(27, shrink)
    m, few = length(24, shrink)
    yield Case(
        f"linear_recurrence, float32, {size}",
        made(inputs.reflections, (n,)),
        jscan.linear_recurrence,
        answers.recurrence,
        *(12 * n, 0.92, 0.80),
        peers={SCAN: operations.lax_recurrence},
    )
    yield Case(
        f"linear_recurrence and gradient, float32, {few}",
        _with_cotangents(inputs.reflections, (m,)),
        call(with_gradient, jscan.linear_recurrence),
        answers.recurrence_and_gradient(),
        *(32 * m, 6.0, 4.0, "speedup"),
        peers={SCAN: call(with_gradient, operations.lax_recurrence)},
        against=(SCAN,),
        also=(SHARE,),
    )


def _rows(shrink: int) -> Iterator[Case]:
    """Rows of a batch.

    They have no peer: lax.associative_scan keeps several copies of such leaves, of 805 MB each.
    """
    channels, steps = max(1536 >> shrink // 2, 8), max(16384 >> (shrink - shrink // 2), 16)
    for shape, axis, where, target, floor in (
        ((8, channels, steps), 2, "last", 0.85, 0.70),
        ((8, steps, channels), 1, "middle", None, None),
    ):
        yield Case(
            f"linear_recurrence and gradient of {shape}, {where} axis, float32",
            _with_cotangents(inputs.reflections, shape),
            call(with_gradient, call(jscan.linear_recurrence, axis=axis)),
            answers.recurrence_and_gradient(axis),
            *(32 * math.prod(shape), target, floor),
        )


def _variants(shrink: int) -> Iterator[Case]:
    n, size = length(23, shrink)
    steps, lanes = max(2**14 >> (shrink - shrink // 2), 8), max(1024 >> shrink // 2, 8)
    shape, shared = (steps, lanes), (steps, 1)
    run = call(with_gradient, jscan.linear_recurrence)
    yield Case(
        f"linear_recurrence and gradient, complex64, {size}",
        made(inputs.turns, (n,)),
        run,
        stepwise.recurrence_and_gradient(),
        64 * n,
    )
    yield Case(
        f"linear_recurrence and gradient of {shape}, a of {shared}, float32",
        _with_cotangents(inputs.reflections, shape, shared),
        run,
        answers.recurrence_and_gradient(),
        # b, h; h, h̄, b̄; a twice and ā.
        20 * steps * lanes + 12 * steps,
    )


def _sums(shrink: int) -> Iterator[Case]:
    """The gradient of a sum is a sum from the other end, and should take no longer."""
    forward = "jscan.cumsum"
    for exponent in (24, 28):
        n, size = length(exponent, shrink)
        yield Case(
            f"gradient of cumsum, float32, {size}",
            made(inputs.signs, (n,), jnp.float32),
            operations.gradient_of_cumsum,
            answers.sum_of_integers(0, reverse=True),
            *(8 * n, 1.0, 0.95, "speedup"),
            peers={forward: jscan.cumsum},
            against=(forward,),
            also=(SHARE,),
        )


def _scans(shrink: int) -> Iterator[Case]:
    """8 bytes an element forward: x, y; 16 backward: x, y, ȳ, x̄."""
    n, size = length(24, shrink)
    for name, operands, check in (
        ("cumprod", _with_cotangents(inputs.factors, (n,)), answers.product_and_gradient),
        (
            "cummax",
            made(inputs.joined, call(inputs.climbing, n), call(inputs.cotangents, (n,))),
            answers.maximum_and_gradient,
        ),
        ("cumlogsumexp", made(inputs.slopes_of_logs, n), answers.log_sum_exp_and_gradient),
    ):
        theirs = f"lax.{name}"
        yield Case(
            f"{name} and gradient, float32, {size}",
            operands,
            call(with_gradient, getattr(jscan, name)),
            check,
            *(24 * n, 5.0, 3.0, "speedup"),
            peers={theirs: call(with_gradient, getattr(lax, name))},
            against=(theirs,),
            also=(SHARE,),
        )


def _segmented(shrink: int) -> Iterator[Case]:
    """The heads are read in both passes."""
    n, size = length(24, shrink)
    yield Case(
        f"segmented cumprod and gradient, uint8 heads, 1 %, {size}",
        made(inputs.flagged_factors, n, args=(0.01,)),
        operations.segmented_cumprod_with_gradient,
        answers.segmented_product_and_gradient,
        26 * n,
    )
