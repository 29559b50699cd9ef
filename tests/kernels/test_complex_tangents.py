"""Derivatives of scans of complex numbers in kernels, against those of `lax.scan`."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import primitives
from jscan.kernels import tuning
from tests.cases import every_form, head_flags
from tests.engines import every_strategy
from tests.functions import affine
from tests.kernels.test_lowering import calls, cuda_program

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SHORT = tuning.Tuning(length=8, lanes=1, warps=1, window=4, strip=8)
WIDE = tuning.Tuning(length=8, lanes=4, warps=1, window=4, strip=8)


def both_ways_around(p: Any, q: Any) -> Any:
    """Two states that depend on each other."""
    return p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]


OPERATORS: dict[str, tuple[Any, tuple[complex, ...]]] = {
    "sum": (jnp.add, (0,)),
    "product": (jnp.multiply, (1,)),
    "affine": (affine, (1, 0)),
    "circle": (both_ways_around, (1, 0)),
}


def numbers(shape: tuple[int, ...], seed: int, leaves: int) -> list[Array]:
    """Complex numbers of about one, all leaves together: no product grows or vanishes."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.9, 1.05, (leaves, *shape)) / np.sqrt(leaves)
    return [*(np.exp(1j * rng.uniform(-3, 3, size.shape)) * size).astype("c8")]


def packed(leaves: Any) -> Any:
    return tuple(leaves) if len(leaves) > 1 else leaves[0]


def in_a_loop(name: str, flags: Array, *, axis: int, reverse: bool, exclusive: bool) -> Any:
    """The scan one element at a time."""
    fn, identity = OPERATORS[name]

    def scan(*leaves: jax.Array) -> list[jax.Array]:
        xs = [jnp.moveaxis(x, axis, 0) for x in leaves]
        nothing = [jnp.full_like(x[0], i) for x, i in zip(xs, identity, strict=True)]

        def step(carry: Any, x: Any) -> Any:
            *values, is_head = x
            if not reverse:
                carry = [jnp.where(is_head, i, c) for i, c in zip(nothing, carry, strict=True)]
            after = jax.tree.leaves(fn(packed(carry), packed(values)))
            shown = carry if exclusive else after
            if reverse:
                after = [jnp.where(is_head, i, c) for i, c in zip(nothing, after, strict=True)]
            return after, shown

        _, ys = lax.scan(step, nothing, (*xs, jnp.asarray(flags)), reverse=reverse)
        return [jnp.moveaxis(y, 0, axis) for y in ys]

    return scan


def derivatives(scan: Any, xs: Any, tangents: Any, cotangents: Any) -> Any:
    """What the scan makes of tangents, and of cotangents."""
    _, pull = jax.vjp(scan, *xs)
    return jax.jvp(scan, tuple(xs), tuple(tangents))[1], pull(list(cotangents))


@pytest.mark.sweep
@pytest.mark.parametrize(("shape", "axis"), [((37,), 0), ((3, 40), 1), ((2, 35, 6), 1)])
@pytest.mark.parametrize("name", [*OPERATORS])
@every_form
@every_strategy
def test_derivatives(strategy, form, name, shape, axis):
    reverse, exclusive, segmented = form
    flags = head_flags((shape[axis],), share=0.1) if segmented else np.zeros(shape[axis], bool)
    fn, identity = OPERATORS[name]
    how: dict[str, Any] = {"axis": axis, "reverse": reverse, "exclusive": exclusive}

    def scan(*leaves: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(
            jscan.associative_scan(
                fn, packed(leaves), identity=packed([np.complex64(i) for i in identity]),
                segments=flags if segmented else None, method=strategy.method, **how,
            )
        )  # fmt: skip

    xs, given, pulled = (numbers(shape, seed, len(identity)) for seed in range(3))
    tile = None if strategy.method == "block" else WIDE if axis + 1 < len(shape) else SHORT
    with strategy.active(), primitives.tiled(tile):
        found = jax.jit(lambda *x: derivatives(scan, *x))(xs, given, pulled)
    wide = [[x.astype("c16") for x in each] for each in (xs, given, pulled)]
    loop = in_a_loop(name, flags, **how)
    expected = jax.jit(lambda *x: derivatives(loop, *x))(*wide)
    for actual, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert actual.dtype == np.complex64
        np.testing.assert_allclose(actual, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["product", "affine", "circle"])
def test_nothing_is_read_or_written_beside_kernels(name):
    """XLA would move the slopes by a place, and take what comes out apart from its starts."""
    fn, identity = OPERATORS[name]
    x = [jax.ShapeDtypeStruct((4, 4096), np.complex64)] * len(identity)

    def pull(xs: Any, gs: Any) -> Any:
        def scan(*leaves: jax.Array) -> Any:
            return jscan.associative_scan(fn, packed(leaves), axis=1)

        return jax.vjp(scan, *xs)[1](packed(gs))

    program = cuda_program(pull, x, x)
    assert calls(program) >= 2
    whole = [line for line in program.splitlines() if "4096xcomplex" in line]
    found = {name for line in whole for name in re.findall(r"stablehlo\.(\w+)", line)}
    assert found <= {"reshape", "add"}  # a leaf that two results read gets the sum
