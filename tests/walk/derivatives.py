"""What derivatives of the rows should be, from the loops of `sequential`; each compiled once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.walk.row import Array, Row, loss, widened

STEPS = 3  # of a loop that calls a function on what it has returned


def _differentiated(row: Row, operands: Sequence[Any]) -> tuple[Any, Any]:
    wide = widened(operands)
    return wide, tuple(row.chosen(wide))


@functools.cache
def _jacobian(row: Row) -> Callable[..., Any]:
    @jax.jit
    def run(*operands: Any) -> Any:
        chosen = row.chosen(operands)
        holomorphic = any(jnp.iscomplexobj(x) for x in chosen)
        function = row.closed(row.wide, operands)
        places = tuple(range(len(chosen)))
        return jax.jacfwd(function, places, holomorphic=holomorphic)(*chosen)

    return run


@functools.cache
def jacobian(row: Row, seed: int = 0) -> list[list[Array]]:
    """Of each differentiable result in each differentiable operand."""
    entries = _jacobian(row)(*widened(row.operands(seed)))
    return [[np.asarray(entry) for entry in line] for line in entries]


def pulled_back(row: Row, cotangents: Sequence[Any], seed: int = 0) -> list[Array]:
    """What vjp should return."""
    lines = jacobian(row, seed)
    return [
        np.sum(
            [
                np.tensordot(wide, line[i], axes=wide.ndim)
                for wide, line in zip(widened(cotangents), lines, strict=True)
            ],
            axis=0,
        )
        for i in range(len(row.inexact))
    ]


def pushed_forward(row: Row, tangents: Sequence[Any], seed: int = 0) -> list[Array]:
    """What jvp should return as tangents."""
    return [
        np.sum(
            [
                np.tensordot(entry, wide, axes=wide.ndim)
                for entry, wide in zip(line, widened(tangents), strict=True)
            ],
            axis=0,
        )
        for line in jacobian(row, seed)
    ]


def gradient(row: Row, seed: int = 0) -> list[Array]:
    """The gradient of `loss`."""
    cotangents = []
    for k, w in zip(row.smooth, row.weights(seed), strict=True):
        y, w = widened([row.values(seed)[k], w])
        cotangents.append(np.where(np.isfinite(y), w + np.where(np.isfinite(y), y, 0) * w, 0))
    return pulled_back(row, cotangents, seed)


@functools.cache
def hessian(row: Row) -> list[list[Array]]:
    """The second derivatives of `loss`."""
    wide, chosen = _differentiated(row, row.operands())
    weights = widened(row.weights())

    def total(*chosen: Any) -> Any:
        return loss(row.closed(row.wide, wide)(*chosen), weights)

    entries = jax.jit(jax.hessian(total, tuple(range(len(chosen)))))(*chosen)
    return [[np.asarray(entry) for entry in line] for line in entries]


def carried(row: Row) -> tuple[int, int] | None:
    """An operand and a result of one shape and dtype, which a loop can carry; None if none are."""
    pairs = [
        (i, k)
        for i, x in enumerate(row.operands())
        for k, y in enumerate(row.shapes)
        if (x.shape, x.dtype) == (y.shape, y.dtype) and x.dtype != np.bool_
    ]
    # One that can be differentiated is worth more.
    return min(pairs, key=lambda pair: pair[0] not in row.inexact, default=None)


def stepping(
    row: Row, function: Callable[..., list[Any]], operands: Sequence[Any]
) -> Callable[[Any], Any]:
    """A function that can be applied again and again: from a carry to the next."""
    pair = carried(row)
    assert pair is not None
    place, result = pair

    def step(carry: Any) -> Any:
        given = list(operands)
        given[place] = carry
        y = function(*given)[result]
        if not jnp.issubdtype(y.dtype, jnp.inexact):
            return carry + y
        inside = jnp.where(jnp.isfinite(y), y, jnp.zeros_like(y))
        half, quarter = (jnp.asarray(number, y.dtype) for number in (0.5, 0.25))
        return carry * half + inside * quarter

    return step


def ending(carry: Any) -> Any:
    """A number made of the last carry."""
    weights = np.random.default_rng(14).normal(size=carry.shape)
    return loss([carry], [np.asarray(weights, carry.dtype)])


@functools.cache
def repeated(row: Row, steps: int = STEPS) -> tuple[Array, Array | None]:
    """The last carry of a loop, and the gradient of `ending` in the first."""
    pair = carried(row)
    assert pair is not None
    given = row.operands()
    if pair[0] not in row.inexact:
        carry = given[pair[0]]
        step = stepping(row, row.values_of, given)
        for _ in range(steps):
            carry = np.asarray(step(carry))
        return carry, None
    wide = widened(given)

    def run(carry: Any) -> Any:
        step = stepping(row, row.wide, wide)
        for _ in range(steps):
            carry = step(carry)
        return ending(carry), carry

    gradient, carry = jax.jit(jax.grad(run, has_aux=True))(wide[pair[0]])
    return np.asarray(carry), np.asarray(gradient)
