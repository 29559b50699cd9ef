"""The named operators: what they compute, their identities, and that they are associative."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators
from tests import reference
from tests.cases import COMPLEX, FLOATS, INTEGERS, NUMBERS, REAL, head_flags, values

BITS = ("bool", *INTEGERS)
ONE_LEAF = {
    "add": (np.add, NUMBERS),
    "mul": (np.multiply, NUMBERS),
    "max": (np.maximum, ("bool", *REAL)),
    "min": (np.minimum, ("bool", *REAL)),
    "bitwise_and": (np.bitwise_and, BITS),
    "bitwise_or": (np.bitwise_or, BITS),
    "bitwise_xor": (np.bitwise_xor, BITS),
    "logaddexp": (np.logaddexp, FLOATS),
}
every_pair = pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, (_, ds) in ONE_LEAF.items() for dtype in ds]
)


@pytest.mark.sweep
@every_pair
def test_combination_and_identity(name, dtype):
    operator = getattr(operators, name)
    a, b = (values(name, (50,), dtype, seed) for seed in (0, 1))
    result = operator(jnp.asarray(a), jnp.asarray(b))
    assert result.dtype == jnp.dtype(dtype)
    with np.errstate(all="ignore"):
        # NumPy in the operands' own type, rounded once by itself.
        expected = ONE_LEAF[name][0](a, b)
    if jnp.issubdtype(jnp.dtype(dtype), jnp.inexact):
        # exp, log1p and a sum in logaddexp; a single operation (six when complex) elsewhere.
        steps = 8 if name == "logaddexp" else 3
        scale = steps * float(jnp.finfo(jnp.dtype(dtype)).eps) * (np.abs(a) + np.abs(b) + 1)
        reference.assert_within(result, reference.widen(expected), scale.astype(float))
    else:
        np.testing.assert_array_equal(result, expected)
    identity = operator.identity(dtype)
    assert np.asarray(identity).dtype == jnp.dtype(dtype)
    assert np.shape(identity) == ()
    neutral = jnp.full_like(a, identity)
    np.testing.assert_array_equal(operator(neutral, jnp.asarray(a)), a)
    np.testing.assert_array_equal(operator(jnp.asarray(a), neutral), a)


@pytest.mark.parametrize("name", [*ONE_LEAF, "affine"])
def test_name(name):
    assert getattr(operators, name).name == name


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", NUMBERS)
def test_affine(dtype):
    a1, b1, a2, b2 = (
        jnp.asarray(np.random.default_rng(i).integers(1, 5, 9).astype(jnp.dtype(dtype)))
        for i in range(4)
    )
    a, b = operators.affine((a1, b1), (a2, b2))
    np.testing.assert_array_equal(a, a2 * a1)
    np.testing.assert_array_equal(b, a2 * b1 + b2)
    one, zero = operators.affine.identity(dtype)
    assert (one, zero) == (1, 0)
    neutral = jnp.full_like(a1, one), jnp.full_like(a1, zero)
    for pair in (operators.affine(neutral, (a1, b1)), operators.affine((a1, b1), neutral)):
        np.testing.assert_array_equal(pair, (a1, b1))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in ("max", "min") for dtype in COMPLEX]
    + [(name, dtype) for name in ("bitwise_and", "bitwise_or", "bitwise_xor") for dtype in FLOATS]
    + [("logaddexp", dtype) for dtype in ("int32", "uint8", "bool")]
    + [(name, "bool") for name in ("add", "mul", "affine")],
)
def test_identity_of_a_dtype_the_operator_cannot_take(name, dtype):
    with pytest.raises(TypeError, match=f"{name}.*{dtype}"):
        getattr(operators, name).identity(dtype)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_propagate_nan(name):
    a, b = jnp.array([np.nan, 1.0, np.nan]), jnp.array([1.0, np.nan, np.nan])
    assert np.all(np.isnan(getattr(operators, name)(a, b)))


def test_logaddexp_at_the_edges():
    inf, nan = np.inf, np.nan
    edges = [-inf, inf, nan, 0.0, 1000.0, -1000.0]
    a, b = (np.array(side) for side in zip(*itertools.product(edges, repeat=2), strict=True))
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp(a, b)
    np.testing.assert_array_equal(operators.logaddexp(jnp.asarray(a), jnp.asarray(b)), expected)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_logaddexp_of_complex_numbers(dtype):
    a, b = (values("cumlogsumexp", (20,), dtype, seed) for seed in (0, 1))
    result = np.exp(reference.widen(operators.logaddexp(jnp.asarray(a), jnp.asarray(b))))
    expected = np.exp(reference.widen(a)) + np.exp(reference.widen(b))
    # The logarithm's branch is free; its error, a few roundings of numbers below 10, is relative
    # to the larger exponential.
    scale = np.exp(np.maximum(a.real, b.real).astype(float))
    error = 8 * 10 * float(np.finfo(dtype).eps) * scale
    reference.assert_within(result, expected, error)


@pytest.mark.parametrize("method", ["xla", "auto"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers_behind_logarithms_of_zero(dtype, method):
    """What is masked adds nothing, however much of it there is; `jnp.logaddexp` would make NaN."""
    x = np.array([-np.inf, complex(-np.inf, 5), 1 + 2j, -np.inf, 3 - 1j], dtype)
    sums = np.exp(x.astype(complex)).cumsum()[2:]
    found = np.asarray(jscan.cumlogsumexp(x, method=method))
    np.testing.assert_array_equal(np.exp(found[:2]), 0)
    np.testing.assert_allclose(np.exp(found[2:]), sums, rtol=1e-5)
    total = jscan.reduce(operators.logaddexp, x, method=method)
    np.testing.assert_allclose(np.exp(total), sums[-1], rtol=1e-5)
    assert np.isneginf(np.real(jscan.reduce(operators.logaddexp, x[:2], method=method)))


@pytest.mark.parametrize(
    "name", ["add", "mul", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor"]
)
@pytest.mark.parametrize("dtype", ["int8", "uint32"])
def test_associative_in_wrapping_integers(name, dtype):
    operator = getattr(operators, name)
    a, b, c = (jnp.asarray(values(name, (64,), dtype, seed)) for seed in range(3))
    np.testing.assert_array_equal(operator(operator(a, b), c), operator(a, operator(b, c)))


def test_affine_is_associative_and_does_not_commute():
    x, y, z = (
        tuple(jnp.asarray(values("cumsum", (64,), "uint32", 2 * i + j)) for j in range(2))
        for i in range(3)
    )
    affine = operators.affine
    np.testing.assert_array_equal(affine(affine(x, y), z), affine(x, affine(y, z)))
    assert not np.array_equal(affine(x, y)[1], affine(y, x)[1])


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name, (_, dtypes) in ONE_LEAF.items()
        for dtype in dtypes
        if dtype in BITS or name in ("max", "min")  # those that round are in test_scans.py
    ],
)
def test_scans_with_every_exact_operator(name, dtype, engine):
    x, flags = values(name, (65,), dtype), head_flags((65,))
    operator = getattr(operators, name)
    options = {"reverse": True, "exclusive": True}
    y = jscan.associative_scan(operator, x, segments=flags, method=engine.method, **options)
    identity = operator.identity(dtype)
    expected = reference.scan(ONE_LEAF[name][0], x, identity=identity, flags=flags, **options)
    assert y.dtype == x.dtype
    reference.assert_equal(y, expected)


def test_bitwise_operators_on_bool_are_logical(engine):
    x = np.random.default_rng(0).random(200) < 0.5
    for name, combine in (
        ("bitwise_and", np.logical_and),
        ("bitwise_or", np.logical_or),
        ("bitwise_xor", np.logical_xor),
    ):
        y = jscan.associative_scan(getattr(operators, name), x, method=engine.method)
        assert y.dtype == bool
        np.testing.assert_array_equal(y, combine.accumulate(x))


def test_affine_on_pytrees_of_pairs():
    a = {"u": jnp.array([2, 3, 4]), "v": jnp.array([1, -1, 1])}
    b = {"u": jnp.array([1, 1, 1]), "v": jnp.array([5, 6, 7])}
    _, h = jscan.associative_scan(operators.affine, (a, b))
    np.testing.assert_array_equal(h["u"], [1, 4, 17])
    np.testing.assert_array_equal(h["v"], [5, 1, 8])


def test_operators_are_hashable_and_compare_by_what_they_are():
    everything = [getattr(operators, name) for name in (*ONE_LEAF, "affine")]
    assert len(set(everything)) == len(everything)
    assert all(operator == operator for operator in everything)


def test_operators_work_as_plain_functions_of_lax():
    x = jnp.arange(8.0)
    np.testing.assert_array_equal(
        jax.lax.associative_scan(operators.add, x), jscan.associative_scan(operators.add, x)
    )
