"""What arguments may be: lists, traced or not, wide integers, scalars that fit, pytrees."""

from __future__ import annotations

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, networks, operators

X = np.arange(1.0, 7.0)
WIDE = (  # 2^32 is 0 in 32 bits
    np.array([0, 2**32, 0, 2**63 - 2**32, 1, 0]),
    np.array([0, 2**32, 0, 2**63, 1, 0], np.uint64),
    [0, 2**32, 0, -(2**40), 1, 0],
    [0, 2**70, 0, -(2**70), 1, 0],
    [0, np.int64(2**32), 0, np.uint64(2**63), 1, 0],
    [0, -1, 0, 2**63, 1, 0],
)
MARKED = np.array([0, 1, 0, 1, 1, 0], bool)
CALLS = {
    "cumsum": lambda marks: jscan.cumsum(X, segments=marks),
    "associative_scan": lambda marks: jscan.associative_scan(jnp.add, X, segments=marks),
    "whole arrays": lambda marks: jscan.associative_scan(
        operators.add, (X, np.ones((6, 2))), segments=marks
    ),
    "linear_recurrence": lambda marks: jscan.linear_recurrence(X, X, segments=marks),
    "reduce": lambda marks: jscan.reduce(operators.add, X, segments=marks),
    "distribute": lambda marks: jscan.distribute(X, segments=marks),
    "enumerate": jscan.enumerate,
    "enumerate in segments": lambda marks: jscan.enumerate(MARKED, segments=marks),
    "pack": lambda marks: jscan.pack(X, marks),
    "pack to a size": lambda marks: jscan.pack(X, marks, size=5),
    "nonzero": lambda marks: jscan.nonzero(marks, size=5),
    "split": lambda marks: jscan.split(X, marks),
    "split_and_segment": lambda marks: jscan.split_and_segment(X, marks, marks)[0],
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.mark.product
@every_call
@pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])
def test_marks_wider_than_32_bits_are_compared_with_zero_as_they_are(call, x64):
    with jax.enable_x64(x64):
        expected = call(MARKED)
        jax.tree.map(np.testing.assert_array_equal, call(WIDE[0]), expected)
        for under_jit in jax.jit(lambda: [call(marks) for marks in WIDE])():
            jax.tree.map(np.testing.assert_array_equal, under_jit, expected)


@every_call
def test_marks_may_be_lists_of_traced_numbers(call):
    def run(one):
        return call([0, one, 0 * one, 1, one, 0])

    if call is CALLS["pack"] or call is CALLS["reduce"]:
        with pytest.raises(ValueError, match="traced"):
            jax.jit(run)(1)
    else:
        jax.tree.map(np.testing.assert_array_equal, jax.jit(run)(1), call(MARKED))


def test_no_marks_are_an_empty_list():
    assert jscan.cumsum(X[:0], segments=[]).shape == (0,)
    assert jscan.pack(X[:0], []).shape == (0,)


def test_elements_may_be_lists_of_traced_numbers():
    np.testing.assert_array_equal(jax.jit(lambda x: jscan.cumsum([x, 2.0, x]))(1.0), [1, 3, 4])
    np.testing.assert_array_equal(
        jax.jit(lambda x: jscan.linear_recurrence([x, x, x], [x, 2.0, x], h0=x))(1.0), [2, 4, 5]
    )


def test_without_64_bits_wider_integers_are_named():
    with jax.enable_x64(False):
        for call in (
            lambda: jscan.cumsum([1, 2**40]),
            lambda: jscan.linear_recurrence(2**40, np.ones(3, np.int32)),
        ):
            with pytest.raises(ValueError, match=r"^jscan\.\w+: (x|a) has an integer"):
                call()


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int32", 2.0, 2),
        ("int32", np.float32(-3), -3),
        ("int32", 2 + 0j, 2),
        ("int32", np.array(7), 7),
        ("int32", np.int64(-(2**31)), -(2**31)),
        ("int8", True, 1),
        ("uint8", 255, 255),
        ("bool", 1, True),
        ("float32", 0.1, np.float32(0.1)),
        ("float32", np.float64(0.1), np.float32(0.1)),
        ("float32", 2**70, 2.0**70),
        ("float16", np.inf, np.inf),
        ("float32", np.nan, np.nan),
        ("bfloat16", -1.5, -1.5),
        ("bfloat16", 2**70, 2.0**70),
        ("complex64", 1j, 1j),
        ("complex64", 3, 3),
    ],
)
@pytest.mark.parametrize("kind", ["as it is", "of JAX"])
def test_a_fill_value_that_fits(dtype, value, expected, kind):
    if kind == "of JAX":
        # No integer of JAX is that large.
        value = jnp.asarray(float(value) if value == 2**70 else value)
    packed = jscan.pack(np.zeros(2, dtype), np.array([1, 0]), size=3, fill_value=value)
    assert packed.dtype == dtype
    np.testing.assert_array_equal(np.asarray(packed[1:]), np.full(2, expected, dtype))


def test_a_traced_fill_value_is_known_by_its_dtype():
    def run(value):
        return jscan.pack(np.arange(2), np.array([0, 1]), size=2, fill_value=value)

    np.testing.assert_array_equal(jax.jit(run)(7), [1, 7])
    with pytest.raises(TypeError, match=r"^jscan\.pack: fill_value has dtype float64"):
        jax.jit(run)(7.0)


def test_a_fill_value_has_to_fit_every_leaf():
    with pytest.raises(
        ValueError, match=r"(?m)^jscan\.pack: fill_value=nan does not fit .* int32$"
    ):
        jscan.pack((X, np.arange(6, dtype=np.int32)), MARKED, fill_value=np.nan)


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("make", [tuple, list, lambda pair: Pair(*pair)])
@pytest.mark.parametrize("whole", [False, True], ids=["elements", "whole arrays"])
def test_an_operator_may_return_a_list_for_a_tuple(make, whole):
    elems = Pair(X, np.ones((6, 2)) if whole else X)

    def fn(left, right):
        return make([left[0] + right[0], left[1] + right[1]])

    for scan in (jscan.associative_scan, networks.sklansky):
        results = scan(fn, elems)
        assert isinstance(results, Pair)
        np.testing.assert_array_equal(results.a, np.cumsum(X))
    assert isinstance(jscan.reduce(fn, elems), Pair)


def test_none_belongs_to_the_structure():
    results = jscan.associative_scan(lambda a, b: (a[0] + b[0], None), (X, None))
    assert results[1] is None
    with pytest.raises(ValueError, match=r"fn must return a pytree like elems"):
        jscan.associative_scan(lambda a, b: (a[0] + b[0], a[0]), (X, None))


def test_an_operator_on_whole_arrays_sees_what_it_always_saw():
    # NumPy is called on arrays, not on tracers, and any length along the axis comes.
    lengths = []

    def fn(left, right):
        lengths.append(left[0].shape[0])
        return np.add(left[0], right[0]), np.add(left[1], right[1])

    sums, _ = jscan.associative_scan(fn, (X, np.ones((6, 2))))
    np.testing.assert_array_equal(sums, np.cumsum(X))
    assert set(lengths) <= {1, 2, 3}


def test_slopes_may_be_shared_by_columns():
    slopes, offsets = np.full((6, 1), 0.5), np.ones((6, 2))
    _, shared = jscan.associative_scan(operators.affine, (slopes, offsets))
    np.testing.assert_array_equal(
        shared[:, 1], jscan.linear_recurrence(slopes[:, 0], offsets[:, 1])
    )


@pytest.mark.parametrize(
    ("axis", "rows", "message"),
    [
        (0, np.zeros((2, 5), bool), r"shape \(2, 5\); expected .* \(2, 6\) with axis=0 last, or "),
        (1, np.zeros((6, 5), bool), r"shape \(6, 5\); expected .* \(6, 2\), or \(2,\)"),
        (0, np.zeros(5, bool), r"shape \(5,\); expected .* or \(6,\), the length of axis=0"),
    ],
)
def test_rows_of_segments_are_told_as_they_were_given(axis, rows, message):
    with pytest.raises(ValueError, match=rf"^jscan\.cumsum: segments has {message}"):
        jscan.cumsum(np.ones((6, 2)), axis, segments=Segments.from_flags(rows))
