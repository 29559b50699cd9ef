"""What is done to each function on one device: batches, derivatives and modes of JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.export
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest

from tests.walk import derivatives
from tests.walk.close import assert_all_close, assert_close, assert_results
from tests.walk.programs import BATCH, gradient
from tests.walk.row import Array, Row, loss


@dataclass(frozen=True)
class Transformation:
    """A check of a row, and which rows it is for."""

    name: str
    check: Callable[[Row], None]
    applies: Callable[[Row], bool]


def any_row(_: Row) -> bool:
    """Every row."""
    return True


def differentiable(row: Row) -> bool:
    """What has an inexact operand."""
    return bool(row.inexact)


def real(row: Row) -> bool:
    """What is differentiable and real, as second derivatives are taken of real numbers alone."""
    return differentiable(row) and not any(np.iscomplexobj(x) for x in row.operands())


def twice(row: Row) -> bool:
    """What second derivatives are compared for: one rounding to half precision hides them."""
    return real(row) and all(jnp.finfo(x.dtype).bits >= 32 for x in row.chosen(row.operands()))


def drawn(row: Row, seeds: list[int]) -> list[Array]:
    """Operands, each from a seed of its own."""
    return [row.operands(seed)[i] for i, seed in enumerate(seeds)]


def vmap_of_each_operand(row: Row) -> None:
    """One operand at a time has a batch, in front or at the end, and the others are shared."""
    for i in range(len(row.labels)):
        axis = 0 if i % 2 == 0 else -1
        given = list(row.operands())
        batches = [[seed if j == i else 0 for j in range(len(given))] for seed in range(BATCH)]
        given[i] = np.stack([row.operands(seed)[i] for seed in range(BATCH)], axis)
        axes = tuple(axis if j == i else None for j in range(len(given)))
        results = jax.jit(jax.vmap(row.call, axes))(*given)
        wanted = [row.values_of(*drawn(row, seeds)) for seeds in batches]
        assert_all_close(results, [np.stack(each) for each in zip(*wanted, strict=True)])


def vmap_along_the_last_axis(row: Row) -> None:
    """Batches lie last, in operands and results."""
    seeds = range(BATCH)
    given = [
        np.stack(each, -1) for each in zip(*(row.operands(seed) for seed in seeds), strict=True)
    ]
    results = jax.jit(jax.vmap(row.call, -1, -1))(*given)
    wanted = zip(*(row.values(seed) for seed in seeds), strict=True)
    assert_all_close(results, [np.stack(each, -1) for each in wanted])


def vmap_of_vmap(row: Row) -> None:
    """The outer batch is of the first operand alone; the inner one is of all."""
    first = [[2 + i + BATCH * j for j in range(BATCH)] for i in range(BATCH)]
    given = [np.stack(each) for each in zip(*(row.operands(j) for j in range(BATCH)), strict=True)]
    given[0] = np.stack(
        [np.stack([row.operands(seed)[0] for seed in line], -1) for line in first], 1
    )
    rest = (0,) * (len(given) - 1)
    inner = jax.vmap(row.call, (-1, *rest))
    outer = jax.vmap(inner, (1, *(None for _ in rest)))
    results = jax.jit(outer)(*given)
    wanted = [
        [row.values_of(*drawn(row, [line[j], *(j for _ in rest)])) for j in range(BATCH)]
        for line in first
    ]
    for k, y in enumerate(results):
        assert_close(y, np.stack([np.stack([each[k] for each in line]) for line in wanted]))


def total_of(row: Row, operands: Any) -> Callable[..., Any]:
    """The loss as a function of the differentiable operands."""
    inner, weights = row.closed(row.call, operands), row.weights()
    return lambda *chosen: loss(inner(*chosen), weights)


def places(row: Row) -> tuple[int, ...]:
    """The arguments of what `closed` returns."""
    return tuple(range(len(row.inexact)))


def value_and_grad(row: Row) -> None:
    """Outside jit."""
    given = row.operands()
    total = total_of(row, given)
    value, gradients = jax.value_and_grad(total, places(row))(*row.chosen(given))
    wanted = loss([row.values()[k] for k in row.smooth], row.weights())
    assert_close(value, np.asarray(wanted))
    assert_all_close(gradients, derivatives.gradient(row))


def vjp(row: Row) -> None:
    """The function that vjp returns, outside jit."""
    given = row.operands()
    results, pull = jax.vjp(row.closed(row.call, given), *row.chosen(given))
    assert_all_close(results, [row.values()[k] for k in row.smooth])
    cotangents = row.weights()
    assert_all_close(pull(cotangents), derivatives.pulled_back(row, cotangents))


def linearize(row: Row) -> None:
    """The function that linearize returns, outside jit."""
    given = row.operands()
    # jax (0.12) keeps NumPy's arrays as constants of a shard_map, and then takes them for a fault.
    chosen = map(jnp.asarray, row.chosen(given))
    results, push = jax.linearize(row.closed(row.call, given), *chosen)
    assert_all_close(results, [row.values()[k] for k in row.smooth])
    tangents = row.tangents()
    assert_all_close(push(*tangents), derivatives.pushed_forward(row, tangents))


def hessian(row: Row) -> None:
    """Forwards over reverse."""
    given = row.operands()
    found = jax.jit(jax.hessian(total_of(row, given), places(row)))(*row.chosen(given))
    for line, wanted in zip(found, derivatives.hessian(row), strict=True):
        assert_all_close(line, wanted)


def reverse_over_reverse(row: Row) -> None:
    """The gradient of a product of the gradient and a direction is the Hessian's product."""
    given = row.operands()
    directions = row.tangents()
    total = total_of(row, given)

    def slope(*chosen: Any) -> Any:
        gradients = jax.grad(total, places(row))(*chosen)
        return sum(jnp.vdot(d, g) for d, g in zip(directions, gradients, strict=True))

    found = jax.jit(jax.grad(slope, places(row)))(*row.chosen(given))
    wanted = [
        sum(np.tensordot(entry, d, axes=d.ndim) for entry, d in zip(line, directions, strict=True))
        for line in derivatives.hessian(row)
    ]
    assert_all_close(found, wanted)


def checkpoint(row: Row) -> None:
    """The gradient of what is computed again on the way back."""
    run = jax.jit(gradient(row, jax.checkpoint(row.call)))
    assert_all_close(run(*row.operands(), *row.weights()), derivatives.gradient(row))


def eval_shape(row: Row) -> None:
    """Shapes and dtypes without values."""
    given = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in row.operands()]
    assert_results(jax.eval_shape(row.call, *given), row.shapes)


def export(row: Row) -> None:
    """To bytes and back, with the derivative where there is one."""
    given = row.operands()
    order = 1 if row.inexact else 0
    blob = jax.export.export(jax.jit(row.call))(*given).serialize(vjp_order=order)
    restored = jax.export.deserialize(blob)
    assert_all_close(restored.call(*given), row.values())
    if order:
        run = jax.jit(gradient(row, restored.call))
        assert_all_close(run(*given, *row.weights()), derivatives.gradient(row))


def make_jaxpr(row: Row) -> None:
    """A program as data, evaluated."""
    given = row.operands()
    program = jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(row.call)(*given))
    assert_all_close(jax.jit(program)(*given), row.values())


def value_and_gradient(row: Row, *, compiled: bool) -> None:
    """Values, and gradients where there are any."""
    given = row.operands()
    run = jax.jit(row.call) if compiled else row.call
    assert_all_close(run(*given), row.values())
    if row.inexact:
        slopes = gradient(row, row.call)
        slopes = jax.jit(slopes) if compiled else slopes
        assert_all_close(slopes(*given, *row.weights()), derivatives.gradient(row))


def disable_jit(row: Row) -> None:
    """Every operation by itself."""
    with jax.disable_jit():
        value_and_gradient(row, compiled=False)


def debug_nans(row: Row) -> None:
    """No false alarm, in jit or outside of it."""
    if row.inexact:
        derivatives.jacobian(row)  # the loop is compiled before NaN is searched for
    with jax.debug_nans(True):
        value_and_gradient(row, compiled=True)
        value_and_gradient(row, compiled=False)


def strict_promotion(row: Row) -> None:
    """Operands as arrays of JAX, no dtype and no rank promoted on the way."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        given = [jnp.asarray(x) for x in row.operands()]
        assert_all_close(row.call(*given), row.values())
        value_and_gradient(row, compiled=True)


NARROW = {"float64": "float32", "int64": "int32", "complex128": "complex64"}


def without_x64(row: Row) -> None:
    """The same in 32 bits."""
    given = [x.astype(NARROW.get(x.dtype.name, x.dtype)) for x in row.operands()]
    wanted = [y.astype(NARROW.get(y.dtype.name, y.dtype)) for y in row.values()]
    slopes = derivatives.gradient(row) if row.inexact else []
    weights = [w.astype(NARROW.get(w.dtype.name, w.dtype)) for w in row.weights()]
    with jax.enable_x64(False):
        results = jax.jit(row.call)(*given)
        assert [y.dtype for y in results] == [y.dtype for y in wanted]
        assert_all_close(results, wanted)
        if row.inexact:
            assert_all_close(jax.jit(gradient(row, row.call))(*given, *weights), slopes)


def transposed(row: Row) -> bool:
    """What says something of linear_transpose: a set of operands, or one that it must refuse."""
    return bool(row.linear) or bool(refused(row))


def refused(row: Row) -> list[int]:
    """The operands in which a row is not linear."""
    linear = {i for group in row.linear for i in group}
    return [i for i in row.inexact if i not in linear and i not in row.undecided]


def of_some(row: Row, group: tuple[int, ...], kept: tuple[int, ...]) -> Callable[..., list[Any]]:
    """Some results as a function of some operands."""

    def run(*chosen: Any) -> list[Any]:
        given = list(row.operands())
        for i, x in zip(group, chosen, strict=True):
            given[i] = x
        results = row.call(*given)
        return [results[k] for k in kept]

    return run


def linear_transpose(row: Row) -> None:
    """Where a row is linear it is what vjp is; elsewhere there is an error, and no numbers."""
    given = row.operands()
    for group in row.linear:
        chosen = [given[i] for i in group]
        if row.inexact:
            kept, cotangents = row.smooth, row.weights()
            pulled = dict(zip(row.inexact, derivatives.pulled_back(row, cotangents), strict=True))
            wanted = [pulled[i] for i in group]
        else:
            kept = tuple(range(len(row.results)))
            rng = np.random.default_rng(15)
            cotangents = [rng.integers(-4, 5, y.shape).astype(y.dtype) for y in row.shapes]
            wanted = [_transposed_in_integers(row, i, cotangents) for i in group]
        pull = jax.linear_transpose(of_some(row, group, kept), *chosen)
        assert_all_close(pull(cotangents), wanted)
    for i in refused(row):
        # These are what JAX's own rules raise for x * x, exp(x) and cummax(x).
        with pytest.raises((NotImplementedError, AssertionError, TypeError, ValueError)):
            jax.linear_transpose(of_some(row, (i,), row.smooth), given[i])(row.weights())


def _transposed_in_integers(row: Row, i: int, cotangents: list[Any]) -> Array:
    """One element of the operand after another: what it adds to the results."""
    given = list(row.operands())
    zero = np.zeros_like(given[i])

    def results(x: Array) -> list[Array]:
        return row.values_of(*given[:i], x, *given[i + 1 :])

    at_zero = results(zero)
    wanted = np.zeros_like(zero)
    for place in np.ndindex(zero.shape):
        unit = zero.copy()
        unit[place] = 1
        wanted[place] = sum(
            np.sum(g * (y - y0))
            for g, y, y0 in zip(cotangents, results(unit), at_zero, strict=True)
        )
    return wanted


TRANSFORMATIONS = (
    Transformation("vmap of each operand", vmap_of_each_operand, any_row),
    Transformation("vmap along the last axis", vmap_along_the_last_axis, any_row),
    Transformation("vmap of vmap", vmap_of_vmap, any_row),
    Transformation("value_and_grad", value_and_grad, differentiable),
    Transformation("vjp", vjp, differentiable),
    Transformation("linearize", linearize, differentiable),
    Transformation("hessian", hessian, twice),
    Transformation("reverse over reverse", reverse_over_reverse, twice),
    Transformation("linear_transpose", linear_transpose, transposed),
    Transformation("checkpoint", checkpoint, differentiable),
    Transformation("eval_shape", eval_shape, any_row),
    Transformation("export", export, any_row),
    Transformation("make_jaxpr", make_jaxpr, any_row),
    Transformation("disable_jit", disable_jit, any_row),
    Transformation("debug_nans", debug_nans, any_row),
    Transformation("strict promotion", strict_promotion, any_row),
    Transformation("without x64", without_x64, any_row),
)
