"""Exclusive scans by an identity that does not follow from the operator: kernels keep it apart."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, primitives
from jscan.kernels import tuning
from tests.cases import head_flags
from tests.kernels.test_lowering import cuda_program

METHODS = ("lookback", "repeatable", "chained", "reduce_then_scan", "scan_then_propagate")
SHORT = tuning.Tuning(16, lanes=1, warps=1, window=32, strip=8)


def largest(a, b):
    """What has the greater size; it has no identity that can be proved."""
    return jnp.where(abs(a) >= abs(b), a, b)


def norm(a, b):
    return jnp.sqrt(a * a + b * b)


def expected(x, identity, *, axis, reverse, flags=None):
    """The exclusive scan by `largest`, one by one, with the identity where it begins."""
    x = np.moveaxis(x, axis, 0)
    order = range(len(x))[:: -1 if reverse else 1]
    result, before = np.full_like(x, identity), None
    for i in order:
        restarts = flags is not None and before is not None
        restarts = restarts and bool(flags[i + 1] if reverse else flags[i])
        if before is not None and not restarts:
            result[i] = before
            before = np.where(abs(before) >= abs(x[i]), before, x[i])
        else:
            before = x[i]
    return np.moveaxis(result, 0, axis)


def scanned(x, flags=None, *, identity=77, axis=0, reverse=False, method="auto"):
    return jscan.associative_scan(
        largest, x, identity=identity, exclusive=True, axis=axis, reverse=reverse,
        segments=flags, method=method,
    )  # fmt: skip


def interpreted(call, *operands, tile=None):
    with primitives.interpreted(), primitives.tiled(tile):
        return jax.jit(call)(*operands)


def numbers(shape, dtype="int32"):
    return np.random.default_rng(0).integers(-50, 50, shape).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_wrong_identity_changes_no_other_result(method, segmented, reverse):
    """77 is greater than all elements: combined with any, it would be in every result behind."""
    x, flags = numbers(61), head_flags((61,), share=0.1)
    flags[0] = 0
    given = (flags,) if segmented else ()

    def call(x, *flags):
        return scanned(x, *flags, reverse=reverse, method=method)

    found = interpreted(call, x, *given, tile=SHORT)
    where = {"axis": 0, "reverse": reverse, "flags": flags if segmented else None}
    np.testing.assert_array_equal(found, expected(x, 77, **where))


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "tile"),
    [
        ((40,), 0, "int8", None),  # one tile
        ((3, 40), 1, "int16", None),
        ((40, 3), 0, "int32", None),
        ((2, 70, 4), 1, "int32", tuning.Tuning(16, lanes=4, warps=1, window=32)),
        ((2, 70, 4), 1, "int16", tuning.Tuning(16, lanes=4, warps=1, window=32, chunk=4)),
        ((2, 70, 4), 1, "int16", tuning.Tuning(16, lanes=4, warps=1, window=32, held=4)),
        ((3, 71), 1, "float32", tuning.Tuning(16, lanes=1, warps=1, window=32)),
    ],
)
def test_in_every_form_of_a_tile(shape, axis, dtype, tile, reverse):
    x = numbers(shape, dtype)

    def call(x):
        return scanned(x, axis=axis, reverse=reverse)

    found = interpreted(call, x, tile=tile)
    np.testing.assert_array_equal(found, expected(x, 77, axis=axis, reverse=reverse))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_strip_no_longer_than_a_word(reverse):
    """The first element may be in the second strip, where words begin in front of a row."""
    x, tile = numbers(37, "float32"), tuning.Tuning(8, lanes=1, warps=1, window=4, strip=4)
    found = interpreted(
        lambda x: scanned(x, reverse=reverse, method="reduce_then_scan"), x, tile=tile
    )
    np.testing.assert_array_equal(found, expected(x, 77, axis=0, reverse=reverse))


@pytest.mark.parametrize(("n", "dtype", "length"), [(61, "int32", 4), (1009, "int8", 16)])
def test_a_tile_no_longer_than_a_word(n, dtype, length):
    """The second element is in the second tile, where words begin in front of the row."""
    x, tile = numbers(n, dtype), tuning.Tuning(length, lanes=1, warps=1, window=4, strip=length)
    found = interpreted(lambda x: scanned(x, reverse=True, method="lookback"), x, tile=tile)
    np.testing.assert_array_equal(found, expected(x, 77, axis=0, reverse=True))


def test_a_lone_result_of_an_operator_whose_identity_is_apart():
    """The logarithm is kept of a pair, whose identity is none of the logarithm's."""
    x = np.random.default_rng(0).normal(size=64).astype(np.float32)

    def pair(a, b):
        return jnp.logaddexp(a[0], b[0]), a[1] + b[1]

    def call(x):
        found = jscan.associative_scan(
            pair, (x, x), identity=(2.0, 0.0), exclusive=True, method="lookback"
        )
        return found[0]

    sums = np.logaddexp.accumulate(x)
    found = interpreted(call, x, tile=SHORT)
    np.testing.assert_allclose(found, [2, *sums[:-1]], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_without_kernels_and_mapped(reverse):
    x = numbers((3, 40))
    found = jax.vmap(jax.jit(lambda row: scanned(row, reverse=reverse)))(x)
    np.testing.assert_array_equal(found, expected(x, 77, axis=1, reverse=reverse))
    found = interpreted(jax.vmap(lambda row: scanned(row, reverse=reverse)), x)
    np.testing.assert_array_equal(found, expected(x, 77, axis=1, reverse=reverse))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
def test_derivatives(segmented, reverse):
    """Those of a loop that begins with the first element: none is taken at the identity."""
    n = 12
    x = np.random.default_rng(1).uniform(1, 2, n).astype(np.float32)
    weights = np.arange(1, n + 1, dtype=np.float32)
    flags = np.zeros(n, bool)
    flags[[4, 9]] = segmented

    def by_scan(x):
        return jscan.associative_scan(
            norm, x, identity=0.0, exclusive=True, reverse=reverse, segments=flags
        )

    def by_loop(x):
        results, before = [jnp.float32(0)] * n, None
        for i in range(n)[:: -1 if reverse else 1]:
            restarts = before is not None and bool(flags[i + 1] if reverse else flags[i])
            if before is None or restarts:
                before = x[i]
            else:
                results[i] = before
                before = norm(before, x[i])
        return jnp.stack(results)

    np.testing.assert_allclose(by_scan(x), by_loop(x), rtol=1e-5)
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(derivative(by_scan)(x), derivative(by_loop)(x), rtol=1e-5)
    slopes = jax.grad(lambda x: weights @ by_scan(x))(x)
    np.testing.assert_allclose(slopes, jax.grad(lambda x: weights @ by_loop(x))(x), rtol=1e-5)


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_nothing_is_moved_behind_the_kernel(segmented, reverse):
    n = 2**20
    flags = [jax.ShapeDtypeStruct((n,), jnp.uint8)] * segmented
    given = [jax.ShapeDtypeStruct((n,), jnp.float32), *flags]

    def call(x, *flags):
        return scanned(x, *flags, identity=0.0, reverse=reverse)

    program = cuda_program(call, *given)
    for made in ("pad", "select", "concatenate", "slice"):
        assert not re.search(rf"stablehlo\.{made}\b", program), made


def test_lengths_are_not_padded():
    """Where segments end is where they begin: no zero is put in front for a scan."""
    count, n = 2**20, 2**22

    def sums(x, lengths):
        return jscan.cumsum(x, segments=Segments.from_lengths(lengths, n))

    operands = jax.ShapeDtypeStruct((n,), jnp.float32), jax.ShapeDtypeStruct((count,), jnp.int32)
    compiled = cuda_program(sums, *operands)
    for found in re.findall(r"stablehlo\.pad.*-> tensor<(\d+)xi32>", compiled):
        assert int(found) == count + 1  # for whoever asks for offsets: nobody does
    assert not re.search(rf"stablehlo\.(clamp|maximum|minimum).*tensor<{count}xi32>", compiled)
