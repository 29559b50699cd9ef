"""What is open at the end of segmented rows, in kernels and in plain JAX, against a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jscan import primitives
from jscan.combine import Combine, trace
from jscan.kernels import tuning
from jscan.plain import tails
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine
from tests.functions import affine

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TILE = tuning.Tuning(length=8, lanes=1, warps=1, window=4, strip=4)
ENGINES = [
    Engine("plain", "xla", ()),
    Engine("interpreted", "auto", (), interpreted=True),
    Engine("interpreted-in-small-tiles", "auto", (), interpreted=True, tile=TILE),
    Engine("gpu", "auto", (), gpu=True),
    Engine("gpu-in-small-tiles", "auto", (), gpu=True, tile=TILE),
]
every_engine = pytest.mark.parametrize(
    "strategy",
    [pytest.param(e, id=e.name, marks=[pytest.mark.gpu] if e.gpu else []) for e in ENGINES],
)
either_end = pytest.mark.parametrize("reverse", [False, True])


IN_NUMPY: dict[Any, Any] = {jnp.add: np.add, jnp.maximum: np.maximum, jnp.logical_or: np.logical_or}


def combine_of(fn: Callable[..., Any], leaves: list[Array], axis: int) -> Combine:
    full = np.broadcast_shapes(*(x.shape for x in leaves))
    shapes = [jax.ShapeDtypeStruct(full, x.dtype) for x in leaves]
    tree = jax.tree.structure(0 if len(shapes) == 1 else tuple(shapes))
    found = trace(fn, shapes, tree, axis, None)
    assert found is not None
    return found


def by_loop(
    fn: Callable[..., Any], leaves: list[Array], flags: Array, axis: int, reverse: bool
) -> tuple[list[Array], Array]:
    """The tails of all rows, one element at a time, and whether the rows restart."""
    full = np.broadcast_shapes(*(x.shape for x in leaves), flags.shape)
    rows = [np.moveaxis(np.broadcast_to(x, full), axis, 0) for x in leaves]
    heads = np.moveaxis(np.broadcast_to(flags, full), axis, 0) != 0
    n, carry, inside = full[axis], [x[0] for x in rows], heads[0].copy()
    if reverse:
        carry, inside = [x[n - 1] for x in rows], np.zeros_like(inside)
    for t in range(n - 2, -1, -1) if reverse else range(1, n):
        restart = heads[t + 1] if reverse else heads[t]
        x = [leaf[t] for leaf in rows]
        packed = (carry[0], x[0]) if len(rows) == 1 else (tuple(carry), tuple(x))
        both = jax.tree.leaves(fn(*packed))
        carry = [np.where(restart, b, a) for a, b in zip(both, x, strict=True)]
        inside |= restart
    return [np.expand_dims(x, axis) for x in carry], np.expand_dims(inside, axis)


def check(
    fn: Callable[..., Any],
    leaves: list[Array],
    flags: Array,
    engine: Engine,
    *,
    axis: int,
    reverse: bool,
) -> None:
    how: dict[str, Any] = {"combine": combine_of(fn, leaves, axis), "axis": axis}

    def run(flags: jax.Array, *leaves: jax.Array) -> list[jax.Array]:
        return primitives.tail(leaves, flags, reverse=reverse, method=engine.method, **how)

    with engine.active():
        *found, restarts = jax.jit(run)(jnp.asarray(flags), *map(jnp.asarray, leaves))
    expected, inside = by_loop(IN_NUMPY.get(fn, fn), leaves, flags, axis, reverse)
    for actual, wanted, dtype in zip(found, expected, how["combine"].dtypes, strict=True):
        assert actual.dtype == dtype
        reference.assert_equal(np.asarray(actual), wanted)
    assert restarts.dtype == jnp.bool_
    assert restarts.shape[axis] == 1
    np.testing.assert_array_equal(np.broadcast_to(restarts, inside.shape), inside)


def integers(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.int32)


@pytest.mark.sweep
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 61])
@either_end
@every_engine
def test_rows_that_restart_at_different_places(strategy, reverse, n):
    """Nowhere, at the first element, at the last, at both ends, and anywhere."""
    flags = np.zeros((6, n), bool)
    flags[1, 0] = flags[2, -1] = flags[3, 0] = flags[3, -1] = True
    flags[4] = np.array(head_flags((n,), share=0.2))
    flags[5, n // 2] = True
    check(jnp.add, [integers((6, n))], flags, strategy, axis=1, reverse=reverse)


@either_end
@every_engine
def test_an_operator_that_does_not_commute(strategy, reverse):
    leaves = [integers((3, 37), seed) % 4 - 1 for seed in (1, 2)]
    flags = np.array(head_flags((3, 37), share=0.1))
    check(affine, leaves, flags, strategy, axis=1, reverse=reverse)


@either_end
@every_engine
def test_lanes_that_share_flags(strategy, reverse):
    flags = np.array(head_flags((2, 29, 1), share=0.1)).astype(np.int8)
    check(jnp.maximum, [integers((2, 29, 5))], flags, strategy, axis=1, reverse=reverse)


@either_end
@every_engine
def test_complex_numbers_and_flags_of_lanes(strategy, reverse):
    values = (integers((23, 3)) + 1j * integers((23, 3), 1)).astype(np.complex64)
    flags = np.array(head_flags((23, 3), share=0.1)).astype(np.int32)
    check(jnp.add, [values], flags, strategy, axis=0, reverse=reverse)


@pytest.mark.product
@either_end
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "bool"])
@every_engine
def test_narrow_elements(strategy, dtype, reverse):
    """Totals have the dtypes in which leaves are combined, whatever kernels count in."""
    values = (integers((3, 21)) % 3).astype(dtype)
    fn = jnp.logical_or if dtype == "bool" else jnp.maximum
    flags = np.array(head_flags((3, 21), share=0.2))
    check(fn, [values], flags, strategy, axis=1, reverse=reverse)


@either_end
def test_plain_jax_reads_the_end_alone_where_rows_restart_there(reverse, monkeypatch):
    monkeypatch.setattr(tails, "AT_ONCE", 16)
    engine, values = ENGINES[0], integers((2, 40))
    for share in (0.02, 0.9):
        flags = np.array(head_flags((2, 40), share=share))
        check(jnp.add, [values], flags, engine, axis=1, reverse=reverse)


@either_end
@pytest.mark.gpu
@pytest.mark.parametrize("place", [0, 1, 700_001, 2**22 - 1])
def test_one_restart_in_a_long_row(place, reverse):
    n = 2**22
    flags, values = np.zeros(n, bool), (np.arange(n) % 3).astype(np.int32)
    flags[place] = True
    how: dict[str, Any] = {"combine": combine_of(jnp.add, [values], 0), "axis": 0}

    @jax.jit
    def run(x: jax.Array, flags: jax.Array) -> list[jax.Array]:
        return primitives.tail([x], flags, reverse=reverse, method="auto", **how)

    total, inside = run(jnp.asarray(values), jnp.asarray(flags))
    restarts = place > 0 or not reverse
    tail = values[:place] if restarts and reverse else values[place:] if restarts else values
    assert int(total[0]) == int(tail.sum())
    assert bool(inside[0]) == restarts
