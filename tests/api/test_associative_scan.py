"""associative_scan: pytrees, mixed dtypes, operators that do not commute, and lax's contract."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscan
from jscan import operators
from tests import reference
from tests.cases import FULL, PLAIN, every_form, form_name, head_flags
from tests.functions import affine, last_flagged, multiply_matrices
from tests.reference import assert_tree_equal


def matrices(shape, seed=0):
    """Random 2x2 matrices of uint32 as four leaves."""
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(0, 2**32, shape, dtype=np.uint32) for _ in range(4))


def structure(tree: Any) -> Any:
    """The shape of a pytree."""
    return jax.tree.structure(tree)


def check_matrices(form, engine):
    """Products of matrices in one of FORMS, over several tiles where the engine has tiles."""
    reverse, exclusive, segmented = form
    n = min(engine.longest, 4500)
    elems = matrices((n,))
    flags = head_flags((n,), share=0.01) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive, "identity": (1, 0, 0, 1)}
    actual = jscan.associative_scan(
        multiply_matrices, elems, segments=flags, method=engine.method, **options
    )
    assert_tree_equal(actual, reference.scan(multiply_matrices, elems, flags=flags, **options))


@pytest.mark.product
@pytest.mark.parametrize("form", [PLAIN, FULL], ids=form_name)
def test_matrices(form, engine):
    check_matrices(form, engine)


@pytest.mark.sweep
@every_form
def test_matrices_in_every_form(form, engine):
    check_matrices(form, engine)


@pytest.mark.grid
@pytest.mark.parametrize("reverse", [False, True])
def test_matrices_over_many_sizes(engine, size, reverse):
    elems = matrices((size,))
    actual = jscan.associative_scan(multiply_matrices, elems, reverse=reverse, method=engine.method)
    assert_tree_equal(actual, reference.scan(multiply_matrices, elems, reverse=reverse))


@pytest.mark.sweep
@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@every_form
def test_matrices_along_every_axis(form, axis, engine):
    reverse, exclusive, segmented = form
    elems = matrices((5, 6, 7))
    flags = head_flags((5, 6, 7), share=0.3) if segmented else None
    options = {
        "axis": axis,
        "reverse": reverse,
        "exclusive": exclusive,
        "identity": (1, 0, 0, 1),
    }
    actual = jscan.associative_scan(
        multiply_matrices, elems, segments=flags, method=engine.method, **options
    )
    assert_tree_equal(actual, reference.scan(multiply_matrices, elems, flags=flags, **options))


@pytest.mark.product
@pytest.mark.parametrize("reverse", [False, True])
def test_leaves_of_mixed_dtypes(engine, reverse):
    rng = np.random.default_rng(1)
    elems = (rng.random(150) < 0.2, rng.normal(size=150).astype("float32"))
    actual = jscan.associative_scan(last_flagged, elems, reverse=reverse, method=engine.method)
    assert [leaf.dtype for leaf in actual] == [bool, np.float32]
    assert_tree_equal(actual, reference.scan(last_flagged, elems, reverse=reverse))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bfloat16", "float64", "complex64"])
def test_any_dtype_beside_a_bool(engine, dtype):
    written = np.random.default_rng(2).random(90) < 0.2
    elems = (written, np.arange(90).astype(jnp.dtype(dtype)))
    actual = jscan.associative_scan(last_flagged, elems, method=engine.method)
    assert actual[1].dtype == jnp.dtype(dtype)
    assert_tree_equal(actual, reference.scan(last_flagged, elems))


def test_any_pytree(engine):
    Pair = namedtuple("Pair", "a b")
    x = np.arange(40, dtype=np.int32)
    elems = {"first": Pair(x, x % 7), "then": [x % 5, None, ()]}

    def fn(left, right):
        return {
            "first": Pair(left["first"].a + right["first"].a, left["first"].b | right["first"].b),
            "then": [left["then"][0] ^ right["then"][0], None, ()],
        }

    actual = jscan.associative_scan(fn, elems, method=engine.method)
    assert structure(actual) == structure(elems)
    np.testing.assert_array_equal(actual["first"].a, np.cumsum(x))
    np.testing.assert_array_equal(actual["first"].b, np.bitwise_or.accumulate(x % 7))
    np.testing.assert_array_equal(actual["then"][0], np.bitwise_xor.accumulate(x % 5))


def test_argument_order_is_that_of_lax_when_reversed(engine):
    elems = matrices((37,))
    theirs = jax.jit(lambda e: lax.associative_scan(multiply_matrices, e, reverse=True))(elems)
    ours = jscan.associative_scan(multiply_matrices, elems, reverse=True, method=engine.method)
    assert_tree_equal(ours, theirs)
    # Written out, so that the promise f(f(z, y), x) stands here and not only in lax.
    x, y, z = ([leaf[i : i + 1] for leaf in elems] for i in (34, 35, 36))
    by_hand = multiply_matrices(multiply_matrices(z, y), x)
    np.testing.assert_array_equal([leaf[34:35] for leaf in ours], by_hand)


def test_operands_arrive_in_memory_order(engine):
    # Left and right of an interval that grows: any swap or gap breaks the adjacency of the ends.
    n = min(engine.longest, 6000)
    start = np.arange(n, dtype=np.int32)

    def join(a, b):
        return a[0], b[1], a[2] & b[2] & (a[1] + 1 == b[0])

    first, last, adjacent = jscan.associative_scan(
        join, (start, start, np.ones(n, bool)), method=engine.method
    )
    np.testing.assert_array_equal(first, np.zeros(n))
    np.testing.assert_array_equal(last, start)
    assert np.all(adjacent)


def test_padding_never_reaches_the_operator(engine):
    # Every operand carries the same tag, and the scan remembers the bits of every tag it met.
    n = min(engine.longest, 1000)
    tag = np.full(n, 7, np.int32)

    def record(a, b):
        return a[0] + b[0], a[1] & b[1], a[2] | b[2]

    count, low, high = jscan.associative_scan(
        record, (np.ones(n, np.int32), tag, tag), method=engine.method
    )
    np.testing.assert_array_equal(count, np.arange(1, n + 1))
    np.testing.assert_array_equal(low, tag)
    np.testing.assert_array_equal(high, tag)


def check_affine(form, dtype, engine):
    """A recurrence that forgets, in one of FORMS, within the bound of its rounding."""
    reverse, exclusive, segmented = form
    rng = np.random.default_rng(3)
    n = min(engine.longest, 4500)
    elems = rng.uniform(-1, 1, (n,)).astype(dtype), rng.normal(size=n).astype(dtype)
    flags = head_flags((n,), share=0.02) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive, "identity": (1, 0)}
    actual = jscan.associative_scan(
        operators.affine, elems, segments=flags, method=engine.method, **options
    )
    expected = reference.scan(affine, elems, flags=flags, **options)
    magnitudes = reference.scan(affine, jax.tree.map(np.abs, elems), flags=flags, **options)
    for got, want, magnitude in zip(actual, expected, magnitudes, strict=True):
        reference.assert_within(got, want, reference.bound(magnitude, want, dtype, n=n, steps=2))


@pytest.mark.product
@pytest.mark.parametrize(
    "form", [PLAIN, (True, False, True), (False, True, True), FULL], ids=form_name
)
def test_affine_recurrence(form, engine):
    check_affine(form, "float32", engine)


@pytest.mark.sweep
@every_form
def test_affine_recurrence_in_float64(form, engine):
    check_affine(form, "float64", engine)


def test_welford_triple(engine):
    rng = np.random.default_rng(4)
    x = rng.normal(size=200)
    elems = np.ones(200), x, np.zeros(200)

    def merge(a, b):
        total = a[0] + b[0]
        delta = b[1] - a[1]
        return total, a[1] + delta * b[0] / total, a[2] + b[2] + delta**2 * a[0] * b[0] / total

    count, mean, squares = jscan.associative_scan(merge, elems, method=engine.method)
    np.testing.assert_array_equal(count, np.arange(1, 201))
    # Each merge adds a few roundings to a mean of numbers below 4 and to a sum of squares.
    eps = np.finfo(float).eps
    ends = range(1, 201)
    reference.assert_within(mean, [x[:i].mean() for i in ends], 200 * 8 * eps * 4)
    reference.assert_within(squares, [i * x[:i].var() for i in ends], 200 * 16 * eps * 200)


@pytest.mark.product
@every_form
@pytest.mark.parametrize("method", ["auto", "xla"])
def test_matmul_is_right_in_blocks_and_in_plain_jax(form, method):
    reverse, exclusive, segmented = form
    elems = np.random.default_rng(5).integers(-3, 4, (11, 3, 3))
    flags = head_flags((11,), share=0.3) if segmented else None
    options = {"reverse": reverse, "exclusive": exclusive, "identity": np.eye(3, dtype=int)}
    scan = partial(jscan.associative_scan, jnp.matmul, segments=flags, method=method, **options)
    expected = reference.scan(np.matmul, elems, flags=flags, **options)
    reference.assert_equal(jax.jit(scan)(elems), expected)


def test_leaves_of_unequal_shape_are_scanned_together():
    rng = np.random.default_rng(6)
    a, x = rng.integers(-2, 3, (9, 2, 2)), rng.integers(-2, 3, (9, 2))

    def compose(left, right):
        ahead = jnp.einsum("...ij,...j->...i", right[0], left[1])
        return jnp.matmul(right[0], left[0]), ahead + right[1]

    def in_numpy(left, right):
        return right[0] @ left[0], right[0] @ left[1] + right[1]

    for flags in (None, head_flags((9,), share=0.4)):
        actual = jscan.associative_scan(compose, (a, x), segments=flags)
        assert_tree_equal(actual, reference.scan(in_numpy, (a, x), flags=flags))


def test_operator_that_looks_at_neighbours_matches_lax():
    # Not elementwise over the other axis: each combination normalises a whole row.
    x = np.random.default_rng(7).uniform(1, 2, (10, 4))

    def fn(a, b):
        c = a * b
        return c / jnp.sum(c, axis=-1, keepdims=True)

    want = lax.associative_scan(fn, x)
    np.testing.assert_array_equal(jscan.associative_scan(fn, x, method="xla"), want)
    np.testing.assert_allclose(jscan.associative_scan(fn, x), want, rtol=1e-14)


def test_closure_over_a_python_and_a_numpy_scalar(engine):
    x = np.arange(50, dtype=np.int32)
    modulus, salt = 97, np.int32(3)

    def fn(a, b):
        return (a + b + 0 * salt) % modulus

    actual = jscan.associative_scan(fn, x, method=engine.method)
    np.testing.assert_array_equal(actual, np.cumsum(x) % 97)


def test_closure_over_a_concrete_jax_scalar(engine):
    x = np.arange(50, dtype=np.int32)
    modulus = jnp.int32(97)
    actual = jscan.associative_scan(lambda a, b: (a + b) % modulus, x, method=engine.method)
    np.testing.assert_array_equal(actual, np.cumsum(x) % 97)


def test_closure_over_a_traced_value():
    x = jnp.arange(50)

    @jax.jit
    def run(modulus):
        return jscan.associative_scan(lambda a, b: (a + b) % modulus, x)

    for modulus in (97, 31):
        np.testing.assert_array_equal(run(modulus), np.cumsum(x) % modulus)


def test_closure_over_a_traced_value_in_grad():
    x = jnp.arange(1.0, 6.0)

    def last(scale):
        return jscan.associative_scan(lambda a, b: a + b + scale * a * b, x)[-1]

    step = 2.0**-20
    slope = (last(0.5 + step) - last(0.5 - step)) / (2 * step)
    # A central difference of a quartic is wrong by its third derivative times step²/6, < 1e-8 here.
    np.testing.assert_allclose(jax.jit(jax.grad(last))(0.5), slope, rtol=1e-8)


def test_closure_over_an_array_matches_lax():
    weights = jnp.arange(1.0, 5.0)[None]
    x = np.random.default_rng(8).normal(size=(12, 4))

    def fn(a, b):
        return jnp.maximum(a * weights, b * weights) / weights

    np.testing.assert_array_equal(jscan.associative_scan(fn, x), lax.associative_scan(fn, x))


def test_identity_may_be_traced():
    x = jnp.arange(1, 6)

    @jax.jit
    def run(identity):
        return jscan.associative_scan(
            jnp.add, x, exclusive=True, identity=identity, segments=x == 4
        )

    np.testing.assert_array_equal(run(jnp.int64(0)), [0, 1, 3, 0, 4])


@pytest.mark.sweep
def test_operators_bring_their_own_identity(engine):
    x = np.array([3, 1, 4, 1, 5], "int32")
    run = partial(jscan.associative_scan, exclusive=True, method=engine.method)
    np.testing.assert_array_equal(run(operators.add, x), [0, 3, 4, 8, 9])
    np.testing.assert_array_equal(run(operators.bitwise_xor, x), [0, 3, 2, 6, 7])
    assert run(operators.max, x)[0] == np.iinfo("int32").min


@pytest.mark.parametrize("n", [0, 1])
def test_operator_is_not_needed_for_short_axes(n):
    elems = {"x": jnp.ones((2, n))}
    actual = jscan.associative_scan(lambda a, b: {"x": a["x"] + b["x"]}, elems, axis=1)
    np.testing.assert_array_equal(actual["x"], np.ones((2, n)))


def test_conditionals_inside_the_operator(engine):
    x = np.random.default_rng(9).integers(-50, 50, 300, dtype=np.int32)

    def larger_magnitude(a, b):
        return jnp.where(jnp.abs(b) > jnp.abs(a), b, a)

    expected = reference.scan(lambda a, b: np.where(np.abs(b) > np.abs(a), b, a), x)
    actual = jscan.associative_scan(larger_magnitude, x, method=engine.method)
    reference.assert_equal(actual, expected)


def test_jitted_operator(engine):
    x = np.arange(1, 30, dtype=np.int32)
    actual = jscan.associative_scan(jax.jit(lambda a, b: a * b), x, method=engine.method)
    reference.assert_equal(actual, reference.scan(np.multiply, x))
