"""The cases of layers with a state: complex recurrences, and scans whose elements are matrices.

A gradient is that of one call under ``jax.vjp``, as in `benchmarks.cases.derivatives`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax.numpy as jnp

import jscan
from benchmarks.cases import filtering, inputs, operations, stepwise
from benchmarks.cases.case import Aim, Case, Check, call, length, made
from benchmarks.cases.core import CUMSUM, SCAN
from benchmarks.cases.operations import with_gradient
from jscan.operators import add

SHARE = Aim(None, None)
PRODUCTS = {2: (0.75, 0.60), 3: (0.65, 0.50), 4: (0.45, 0.30)}
"""Of copy speed: target and floor by the side of the matrices."""


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    kinds = (_complex, _layer, _products, _filters, _systems, _continued, _shared)
    return [case for kind in kinds for case in kind(shrink)]


def _complex(shrink: int) -> Iterator[Case]:
    """24 bytes an element forward: a, b, h; 40 backward: a, h, h̄, ā, b̄.

    They have no peer: lax.associative_scan keeps several copies of such leaves, of 512 MB each.
    """
    many = shrink - shrink // 2
    for shape, axis, where in (
        ((max(512 >> shrink // 2, 8), max(2**17 >> many, 16)), 1, "last"),
        ((8, max(2**15 >> many, 16), max(256 >> shrink // 2, 8)), 1, "middle"),
    ):
        run = call(jscan.linear_recurrence, axis=axis)
        yield Case(
            f"complex64 recurrence of {shape}, {where} axis",
            made(inputs.turns_alone, shape),
            run,
            stepwise.recurrence(axis),
            *(24 * math.prod(shape), 0.88, 0.80),
        )
        yield Case(
            f"complex64 recurrence and gradient of {shape}, {where} axis",
            made(inputs.turns, shape),
            call(with_gradient, run),
            stepwise.recurrence_and_gradient(axis),
            *(64 * math.prod(shape), 0.80, 0.70),
        )


def _layer(shrink: int) -> Iterator[Case]:
    """As S5 has it: one row of coefficients for the whole batch."""
    rows, steps, states = 8, max(4096 >> (shrink - shrink // 2), 16), max(256 >> shrink // 2, 8)
    shape, row = (rows, steps, states), (1, steps, states)
    run, peer = call(jscan.linear_recurrence, axis=1), operations.lax_recurrence_of_rows
    shared, full = math.prod(row), math.prod(shape)
    what = f"complex64 of {shape}"
    yield Case(
        f"S5's recurrence, {what}",
        made(inputs.turns_alone, shape, row),
        run,
        stepwise.recurrence(1),
        *(8 * shared + 16 * full, 3.0, 3.0, "speedup"),
        peers={SCAN: peer},
        against=(SCAN,),
        also=(SHARE,),
    )
    yield Case(
        f"S5's recurrence and gradient, {what}",
        made(inputs.turns, shape, row),
        call(with_gradient, run),
        stepwise.recurrence_and_gradient(1),
        # b, h; h, h̄, b̄; a twice and ā.
        *(24 * shared + 40 * full, 3.0, 3.0, "speedup"),
        peers={SCAN: call(with_gradient, peer)},
        against=(SCAN,),
        also=(SHARE,),
    )


def _products(shrink: int) -> Iterator[Case]:
    n, size = length(22, shrink)
    run, peers = call(operations.scan, jnp.matmul), {SCAN: call(operations.lax_scan, jnp.matmul)}
    check = Check(stepwise.products)
    for side, aims in PRODUCTS.items():
        yield Case(
            _name_of_products(side, size),
            made(inputs.permutations, n, side),
            run,
            check,
            *(8 * side**2 * n, *aims),
            peers=peers,
        )
    large, size = length(18, shrink)
    yield Case(
        _name_of_products(8, size),
        made(inputs.permutations, large, 8),
        run,
        check,
        *(512 * large, 5.0, 5.0, "speedup"),
        peers=peers,
        against=(SCAN,),
        also=(SHARE,),
    )
    few, size = length(12, shrink)
    yield Case(
        _name_of_products(3, size) + ", a single call",
        made(inputs.permutations, few, 3),
        run,
        check,
        *(72 * few, 10.0, 10.0, "us"),
        peers=peers,
    )


def _filters(shrink: int) -> Iterator[Case]:
    """Of four states: 56 numbers an element forwards, 36 back; each is read and written."""
    n, size = length(16, shrink)
    for name, operator, build, numbers in (
        ("filter", filtering.joined, filtering.elements, 56),
        ("smoother", filtering.joined_back, filtering.backward_elements, 36),
    ):
        yield Case(
            f"elements of a {name} with 4 states, {size}",
            made(build, n),
            call(operations.scan, operator),
            Check(call(filtering.from_neighbours, operator), 1e-4, "worst relative error"),
            *(8 * numbers * n, 10.0, 10.0, "speedup"),
            peers={SCAN: call(operations.lax_scan, operator)},
            against=(SCAN,),
            also=(SHARE,),
        )
    yield Case(
        f"a Kalman filter and its smoother, 4 states, {size}",
        made(filtering.weeks, n),
        call(filtering.both_passes, jscan.associative_scan),
        Check(filtering.from_neighbouring_weeks, 1e-3, "worst relative error"),
        # Of each pass the elements, written once and read, and twice means and covariances.
        *(4 * (2 * (56 + 36) + 2 * 20) * n, 10.0, 10.0, "speedup"),
        peers={SCAN: call(filtering.both_passes, filtering.by_lax)},
        against=(SCAN,),
        also=(SHARE,),
    )


def _name_of_products(side: int, size: str) -> str:
    return f"products of {side} x {side}, float32, {size}"


def _systems(shrink: int) -> Iterator[Case]:
    """Numbers an element: k² + 2k forward, A, b, h; 2k² + 3k backward, A, h, h̄, Ā, b̄."""
    n, size = length(20, shrink)
    for k in (2, 4):
        yield Case(
            f"matrix_recurrence of {k} states and gradient, {size}",
            made(inputs.systems, n, k),
            call(with_gradient, jscan.matrix_recurrence),
            stepwise.matrix_recurrence_and_gradient,
            *(4 * n * (3 * k**2 + 5 * k), 5.0, 5.0, "speedup"),
            peers={SCAN: call(with_gradient, operations.lax_matrix_recurrence)},
            against=(SCAN,),
            also=(Aim(0.5, 0.5, "memory", (SCAN,)), SHARE),
        )


def _continued(shrink: int) -> Iterator[Case]:
    """Behind an element that comes before all others, which should cost nothing."""
    many, size = length(27, shrink)
    alone = f"sum, float32, {size}"
    yield Case(
        alone,
        made(inputs.signs, (many,), jnp.float32),
        call(operations.scan, add),
        Check(stepwise.sums),
        8 * many,
        peers=CUMSUM,
    )
    few, less = length(22, shrink)
    for name, operator, build, check, byte_count in (
        (alone, add, call(inputs.signs, (many + 1,), jnp.float32), stepwise.sums, 8 * many),
        (
            _name_of_products(3, less),
            jnp.matmul,
            call(inputs.permutations, few + 1, 3),
            stepwise.products,
            72 * few,
        ),
    ):
        yield Case(
            f"{name}, init",
            made(inputs.continued, build),
            call(operations.scan_from, operator),
            Check(check),
            *(byte_count, 0.99, 0.99, "ratio"),
            against=(name,),
        )


def _shared(shrink: int) -> Iterator[Case]:
    """What all positions have in common is read in place: 8 bytes an element, and 5."""
    n, size = length(26, shrink)
    yield Case(
        f"recurrence of one coefficient, float32, {size}",
        made(inputs.reflections, (n,), (1,)),
        jscan.linear_recurrence,
        stepwise.recurrence(),
        *(8 * n, 0.9, 0.8),
    )
    shape = (32, max(4096 >> shrink, 16))
    yield Case(
        f"positions in packed rows of {shape}",
        made(inputs.heads_by_chance, shape, jnp.uint8, args=(0.01,)),
        operations.positions,
        stepwise.positions,
        *(5 * math.prod(shape), 4.2, 5.0, "us"),
    )
