"""What is done to each function inside of JAX's own control flow and solvers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.sparse import linalg

from tests.walk import derivatives
from tests.walk.close import assert_all_close, assert_close
from tests.walk.derivatives import STEPS, carried, ending, stepping
from tests.walk.programs import BATCH, gradient
from tests.walk.row import Array, Row, widened
from tests.walk.transformations import Transformation, any_row

Loop = Callable[[Callable[[Any], Any], Any], Any]


def carries(row: Row) -> bool:
    """What has a result like an operand."""
    return carried(row) is not None


def _scan(step: Callable[[Any], Any], carry: Any) -> Any:
    return lax.scan(lambda x, _: (step(x), None), carry, None, length=STEPS)[0]


def _fori_loop(step: Callable[[Any], Any], carry: Any) -> Any:
    return lax.fori_loop(0, STEPS, lambda _, x: step(x), carry)


def _while_loop(step: Callable[[Any], Any], carry: Any) -> Any:
    def further(state: tuple[Any, Any]) -> Any:
        return state[0] < STEPS

    return lax.while_loop(further, lambda state: (state[0] + 1, step(state[1])), (0, carry))[1]


def in_a_loop(loop: Loop, row: Row, *, reverse: bool = True) -> None:
    """The last carry, and its gradient or, where a loop has no transpose, its tangent."""
    pair = carried(row)
    assert pair is not None
    given = row.operands()
    carry = given[pair[0]]
    wanted, slopes = derivatives.repeated(row)

    def run(carry: Any, *operands: Any) -> tuple[Any, Any]:
        last = loop(stepping(row, row.call, operands), carry)
        return (ending(last) if slopes is not None else 0), last

    if slopes is None:
        assert_close(jax.jit(run)(carry, *given)[1], wanted)
    elif reverse:
        found, last = jax.jit(jax.grad(run, has_aux=True))(carry, *given)
        assert_close(last, wanted)
        assert_close(found, slopes)
    else:
        direction = np.asarray(np.random.default_rng(16).normal(size=carry.shape), carry.dtype)

        def push(carry: Any, direction: Any, *operands: Any) -> Any:
            return jax.jvp(lambda x: run(x, *operands), (carry,), (direction,))

        (_, last), (found, _) = jax.jit(push)(carry, direction, *given)
        assert_close(last, wanted)
        wide = np.sum(slopes * widened([direction])[0])
        assert_close(found, np.asarray(np.real(wide)))


def cond(row: Row) -> None:
    """Either branch of a condition that is not known, with its gradient."""

    def run(chosen: Any, *given: Any) -> list[Any]:
        def other(*_: Any) -> list[Any]:
            return [jnp.ones(y.shape, y.dtype) for y in row.shapes]

        return lax.cond(chosen, row.call, other, *given)

    given = row.operands()
    program = jax.jit(run)
    assert_all_close(program(True, *given), row.values())
    assert_all_close(program(False, *given), [np.ones(y.shape, y.dtype) for y in row.shapes])
    if row.inexact:
        slopes = jax.jit(lambda chosen, *given: gradient(row, partial(run, chosen))(*given))
        wanted = derivatives.gradient(row)
        assert_all_close(slopes(True, *given, *row.weights()), wanted)
        nothing = [np.zeros_like(x) for x in wanted]
        assert_all_close(slopes(False, *given, *row.weights()), nothing)


def in_map(row: Row) -> None:
    """One element of a batch after another, with its gradient."""
    seeds = range(BATCH)

    def batch(parts: list[Any]) -> list[Array]:
        return [np.stack(each) for each in zip(*parts, strict=True)]

    given = batch([row.operands(seed) for seed in seeds])
    results = jax.jit(lambda given: lax.map(lambda x: row.call(*x), given))(given)
    assert_all_close(results, batch([row.values(seed) for seed in seeds]))
    if row.inexact:
        given = batch([[*row.operands(seed), *row.weights(seed)] for seed in seeds])
        slopes = jax.jit(lambda given: lax.map(lambda x: gradient(row, row.call)(*x), given))
        wanted = batch([derivatives.gradient(row, seed) for seed in seeds])
        assert_all_close(slopes(given), wanted)


SHARE = 0.1  # of the function in the equation that is solved


def solvable(row: Row) -> bool:
    """What is linear in one real operand of the shape of a result."""
    return _unknown(row) is not None


def _unknown(row: Row) -> tuple[int, int] | None:
    given = row.operands()
    for group in row.linear:
        # Results of several leaves lie as the leaves do; of one leaf's result others are factors.
        place = group[0]
        k = min(place, len(row.shapes) - 1)
        x, y = given[place], row.shapes[k]
        if len(group) == 1 and (x.shape, x.dtype, y.dtype) == (y.shape, y.dtype, np.float64):
            return place, k
    return None


Solver = Callable[[Callable[[Any], Any], Any], Any]


def solved(row: Row, solver: Solver, *, symmetric: bool = False) -> None:
    """Solves x + f(x) / 10 = b or x + fT(f(x)) / 10 = b; gradients in b and what f depends on."""
    pair = _unknown(row)
    assert pair is not None
    place, k = pair
    given = row.operands()
    rng = np.random.default_rng(17)
    b, weights = (rng.normal(size=given[place].shape) for _ in range(2))
    others = tuple(i for i in row.inexact if i != place)

    def function_of(call: Callable[..., Any], chosen: Any) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            operands = list(given)
            operands[place] = x
            for i, value in zip(others, chosen, strict=True):
                operands[i] = value
            return call(*operands)[k]

        return function

    def total(b: Any, *chosen: Any) -> Any:
        function = function_of(row.call, chosen)

        def matvec(x: Any) -> Any:
            y = function(x)
            if symmetric:
                (y,) = jax.linear_transpose(function, x)(y)
            return x + SHARE * y

        x = solver(matvec, b)
        return jnp.vdot(weights, x), x

    def wanted(b: Any, *chosen: Any) -> Any:
        matrix = jax.jacfwd(function_of(row.wide, chosen))(jnp.zeros_like(b))
        matrix = matrix.reshape(b.size, b.size)
        matrix = matrix.T @ matrix if symmetric else matrix
        x = jnp.linalg.solve(jnp.eye(b.size) + SHARE * matrix, b.reshape(-1)).reshape(b.shape)
        return jnp.vdot(weights, x), x

    arguments = tuple(range(1 + len(others)))
    operands = (b, *(given[i] for i in others))
    (_, x), slopes = jax.jit(jax.value_and_grad(total, arguments, has_aux=True))(*operands)
    (_, x0), slopes0 = jax.jit(jax.value_and_grad(wanted, arguments, has_aux=True))(*operands)
    np.testing.assert_allclose(x, x0, rtol=1e-7, atol=1e-7)
    for i, (got, want) in enumerate(zip(slopes, slopes0, strict=True)):
        np.testing.assert_allclose(
            got, want, rtol=1e-7, atol=1e-7, err_msg=f"gradient in argument {i}"
        )


def _directly(matvec: Callable[[Any], Any], b: Any) -> Any:
    matrix = jax.jacfwd(matvec)(jnp.zeros_like(b)).reshape(b.size, b.size)
    return jnp.linalg.solve(matrix, b.reshape(-1)).reshape(b.shape)


def _linear_solve(matvec: Callable[[Any], Any], b: Any) -> Any:
    return lax.custom_linear_solve(matvec, b, _directly, transpose_solve=_directly)


def _iterated(solver: Callable[..., Any], **options: Any) -> Solver:
    return lambda matvec, b: solver(matvec, b, tol=1e-12, **options)[0]


LOOPS = (
    Transformation("in lax.scan", partial(in_a_loop, _scan), carries),
    Transformation("in fori_loop", partial(in_a_loop, _fori_loop), carries),
    Transformation("in while_loop", partial(in_a_loop, _while_loop, reverse=False), carries),
    Transformation("in lax.cond", cond, any_row),
    Transformation("in lax.map", in_map, any_row),
    Transformation("custom_linear_solve", partial(solved, solver=_linear_solve), solvable),
    Transformation("bicgstab", partial(solved, solver=_iterated(linalg.bicgstab)), solvable),
    Transformation("gmres", partial(solved, solver=_iterated(linalg.gmres)), solvable),
    Transformation("cg", partial(solved, solver=_iterated(linalg.cg), symmetric=True), solvable),
)
