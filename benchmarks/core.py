"""The cases of the core: plain and segmented scans of every kind, large and small."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from benchmarks import answers, inputs, operations
from benchmarks.case import Case, Inputs, Unit, length
from benchmarks.inputs import Shape
from benchmarks.operations import Operation


def cases(shrink: int = 0) -> list[Case]:
    """All cases of the core, with sizes divided by about 2^shrink."""
    return [
        *_directions(shrink),
        *_sizes(shrink),
        *_operators(shrink),
        *_narrow(shrink),
        *_rows(shrink),
        *_segments(shrink),
        *_ragged_rows(shrink),
        *_leaves(shrink),
    ]


def _shape(exponents: tuple[int, int], shrink: int) -> tuple[int, int]:
    fewer = (shrink // 2, shrink - shrink // 2)
    rows, columns = (1 << max(e - f, 3) for e, f in zip(exponents, fewer, strict=True))
    return rows, columns


def _name(dtype: Any) -> str:
    return str(jnp.dtype(dtype).name)


def _sum_peers(axis: int = 0) -> dict[str, Operation]:
    return {"lax.cumsum": operations.lax_cumsum(axis)}


_SCAN_PEER = {"lax.associative_scan": operations.lax_scan(lax.add)}


def _directions(shrink: int) -> list[Case]:
    n, size = length(28, shrink)
    shared = Inputs(inputs.signs((n,), jnp.float32))
    plain = f"inclusive sum, float32, {size}"
    result = [
        Case(
            plain,
            shared,
            operations.cumsum(),
            answers.sum_of_integers(),
            *(8 * n, 0.98, 0.95),
            peers=_sum_peers() | _SCAN_PEER,
        )
    ]
    for name, reverse, exclusive, target, floor in (
        ("reverse", True, False, 1.0, 0.97),
        ("exclusive", False, True, 0.97, 0.93),
        ("reverse exclusive", True, True, 0.97, 0.93),
    ):
        peers = {"lax.cumsum": operations.lax_cumsum(0, True)} if name == "reverse" else {}
        result.append(
            Case(
                f"{name} sum, float32, {size}",
                shared,
                operations.cumsum(0, reverse, exclusive),
                answers.sum_of_integers(0, reverse, exclusive),
                *(8 * n, target, floor, "ratio"),
                peers=peers,
                against=(plain,),
            )
        )
    return result


def _sizes(shrink: int) -> list[Case]:
    """The rest of the plain sums; float32 at the largest size is among the directions."""
    result = []
    levels: tuple[tuple[int, float, float, Unit], ...] = (
        (28, 0.98, 0.95, "share"),
        (24, 0.88, 0.80, "share"),
        (20, 5.0, 6.5, "us"),
        (12, 2.2, 3.0, "us"),
    )
    for exponent, target, floor, unit in levels:
        n, size = length(exponent, shrink)
        for dtype in (jnp.float32, jnp.int32):
            if exponent == 28 and dtype == jnp.float32:
                continue
            result.append(
                Case(
                    f"inclusive sum, {_name(dtype)}, {size}",
                    Inputs(inputs.signs((n,), dtype)),
                    operations.cumsum(),
                    answers.sum_of_integers(),
                    *(8 * n, target, floor, unit),
                    peers=_sum_peers() | _SCAN_PEER,
                )
            )
    return result


def _operators(shrink: int) -> list[Case]:
    n, size = length(28, shrink)
    m, half = length(27, shrink)
    wanted = (0.94, 0.88)
    return [
        Case(
            f"max, float32, {size}",
            Inputs(inputs.rising(n)),
            operations.cummax,
            answers.maximum,
            *(8 * n, *wanted),
            peers={"lax.cummax": operations.lax_cummax},
        ),
        Case(
            f"logaddexp, float32, {size}",
            Inputs(inputs.normal(n)),
            operations.cumlogsumexp,
            answers.log_sum_exp,
            *(8 * n, *wanted),
            peers={"lax.cumlogsumexp": operations.lax_cumlogsumexp},
        ),
        Case(
            f"xor, int32, {size}",
            Inputs(inputs.words(n)),
            operations.cumxor,
            answers.exclusive_or,
            *(8 * n, *wanted),
            peers={"lax.associative_scan": operations.lax_scan(lax.bitwise_xor)},
        ),
        Case(
            f"inclusive sum, float64, {half}",
            Inputs(inputs.wide_integers(m), x64=True),
            operations.cumsum(),
            answers.sum_of_integers(x64=True),
            *(16 * m, *wanted),
            peers=_sum_peers(),
        ),
    ]


def _narrow(shrink: int) -> list[Case]:
    result = []
    for dtype, exponent, target, floor in (
        (jnp.bfloat16, 28, 0.90, 0.72),
        (jnp.float16, 28, 0.90, 0.72),
        (jnp.int8, 29, 0.80, 0.50),
    ):
        n, size = length(exponent, shrink)
        result.append(
            Case(
                f"inclusive sum, {_name(dtype)}, {size}",
                Inputs(inputs.signs((n,), dtype)),
                operations.cumsum(),
                answers.sum_of_integers(),
                *(2 * n * jnp.dtype(dtype).itemsize, target, floor),
                peers=_sum_peers(),
            )
        )
    return result


def _rows(shrink: int) -> list[Case]:
    result = []
    for exponents in ((10, 16), (16, 10), (20, 6), (4, 22)):
        shape = _shape(exponents, shrink)
        for axis, where, target, floor in ((1, "last", 0.95, 0.85), (0, "first", 0.90, 0.75)):
            result.append(
                Case(
                    f"sum of {shape}, {where} axis, float32",
                    Inputs(inputs.signs(shape, jnp.float32)),
                    operations.cumsum(axis),
                    answers.sum_of_integers(axis),
                    *(8 * math.prod(shape), target, floor),
                    peers=_sum_peers(axis),
                )
            )
    return result


def _segments(shrink: int) -> list[Case]:
    n, size = length(27, shrink)
    result = []
    for dtype in (jnp.uint8, jnp.bool_):
        build = inputs.flagged((n,), (n,), dtype)
        for density, heads in (
            (0.3, "30 %"),
            (0.01, "1 %"),
            (0.00001, "0.001 %"),
            (0.0, "one segment"),
            (1.0, "all heads"),
        ):
            result.append(
                Case(
                    f"segmented sum, {_name(dtype)} heads, {heads}, {size}",
                    Inputs(build, (density,)),
                    operations.segmented_sum,
                    answers.segmented_sum,
                    *(9 * n, 0.92, 0.82),
                    peers={"lax.associative_scan": operations.lax_segmented_sum},
                )
            )
    return result


def _ragged_rows(shrink: int) -> list[Case]:
    shape = _shape((12, 15), shrink)
    n = math.prod(shape)

    def case(
        kind: str, heads: Shape, run: Operation, peer: Operation, number_of_bytes: int
    ) -> Case:
        return Case(
            f"vmap of segmented sum, {shape}, {kind}",
            Inputs(inputs.flagged(shape, heads, jnp.uint8), (0.01,)),
            run,
            answers.segmented_sum,
            *(number_of_bytes, 0.92, 0.80),
            peers={"lax.associative_scan": peer},
        )

    return [
        case(
            "heads per row",
            shape,
            operations.rows_with_heads,
            operations.lax_rows_with_heads,
            9 * n,
        ),
        case(
            "heads shared",
            shape[1:],
            operations.rows_with_shared_heads,
            operations.lax_rows_with_shared_heads,
            8 * n + shape[1],
        ),
    ]


def _leaves(shrink: int) -> list[Case]:
    n, size = length(27, shrink)
    m, half = length(26, shrink)
    return [
        Case(
            f"affine, one of two results, float32, {size}",
            Inputs(inputs.reflections((n,))),
            operations.recurrence,
            answers.recurrence,
            *(12 * n, 0.92, 0.79),
            peers={"lax.associative_scan": operations.lax_recurrence},
        ),
        Case(
            f"Welford, three leaves, float32, {half}",
            Inputs(inputs.samples(m)),
            operations.running_moments,
            answers.moments,
            *(24 * m, 0.75, 0.55),
            peers={"lax.associative_scan": operations.lax_running_moments},
        ),
    ]
