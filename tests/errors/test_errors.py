"""Wrong input: the kind of error, and that its message names the argument."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, operators
from tests.cases import CUMULATIVES

X = np.arange(12.0).reshape(3, 4)
SCAN = jscan.associative_scan

WIDE_CALLS = {
    "cumsum": (jscan.cumsum, "x"),
    "associative_scan": (lambda x: SCAN(operators.add, x), "elems"),
    "a lambda": (lambda x: SCAN(lambda a, b: a + b, x), "elems"),
    "reduce": (lambda x: jscan.reduce(operators.mul, x), "elems"),
    "linear_recurrence": (lambda x: jscan.linear_recurrence(x, x), "a"),
    "segment_sum": (lambda x: jscan.segment_sum(x, np.zeros(x.size, int), 1, True), "data"),
}
"""Calls with an array, and the name of that argument."""

WRONG_CALLS = {
    # axis
    "axis too large": (ValueError, r"axis.*2.*\(3, 4\)", lambda: jscan.cumsum(X, axis=2)),
    "axis too small": (ValueError, r"axis.*-3.*\(3, 4\)", lambda: jscan.cumsum(X, axis=-3)),
    "axis of a scalar": (ValueError, r"axis", lambda: jscan.cumsum(jnp.array(1.0))),
    "axis is a float": (TypeError, r"axis", lambda: jscan.cumsum(X, axis=0.5)),
    "axis is None": (TypeError, r"axis", lambda: jscan.cumsum(X, axis=None)),
    "axis is a tuple": (TypeError, r"axis", lambda: SCAN(jnp.add, X, axis=(0, 1))),
    "axis of a pytree": (ValueError, r"axis.*1", lambda: SCAN(jnp.add, np.ones(3), axis=1)),
    "axis beyond a later leaf": (
        ValueError,
        r"elems.*axis",
        lambda: SCAN(operators.affine, (X, np.ones(3)), axis=1),
    ),
    # elems, x
    "no leaves": (ValueError, r"elems", lambda: SCAN(jnp.add, ())),
    "leaves of unequal length": (
        ValueError,
        r"elems.*\(3,\).*\(4,\)",
        lambda: SCAN(operators.affine, (np.ones(3), np.ones(4))),
    ),
    "leaf is a string": (TypeError, r"elems.*'abc'", lambda: SCAN(jnp.add, "abc")),
    "leaf is a Python number": (TypeError, r"elems", lambda: SCAN(jnp.add, 1.0)),
    "x is a string": (TypeError, r"\bx\b", lambda: jscan.cumsum("abc")),
    "x is None": (TypeError, r"\bx\b", lambda: jscan.cumsum(None)),
    "x is an object array": (TypeError, r"\bx\b", lambda: jscan.cumsum(np.array([None, 1]))),
    # fn
    "fn is not callable": (TypeError, r"fn", lambda: SCAN(3, X)),
    "fn is None": (TypeError, r"fn", lambda: SCAN(None, X)),
    "fn returns another structure": (
        (TypeError, ValueError),
        r"fn",
        lambda: SCAN(lambda a, b: (a, b), X),
    ),
    "fn returns another shape": (
        (TypeError, ValueError),
        r"fn",
        lambda: SCAN(lambda a, b: jnp.sum(a + b), X),
    ),
    "fn returns another dtype": (
        (TypeError, ValueError),
        r"fn",
        lambda: SCAN(lambda a, b: a > b, X),
    ),
    "fn returns nothing": ((TypeError, ValueError), r"fn", lambda: SCAN(lambda *_: None, X)),
    # dtypes
    "cumsum of bool": (TypeError, r"\bx\b.*bool", lambda: jscan.cumsum(X > 1)),
    "cumsum of bool in pairs": (
        TypeError,
        r"\bx\b.*bool.*precise=",
        lambda: jscan.cumsum(X > 1, precise=True),
    ),
    "cumprod of bool": (TypeError, r"\bx\b.*bool", lambda: jscan.cumprod(X > 1)),
    "cummax of complex": (TypeError, r"\bx\b.*complex128", lambda: jscan.cummax(X * 1j)),
    "cummin of complex": (TypeError, r"\bx\b.*complex128", lambda: jscan.cummin(X * 1j)),
    "cumlogsumexp of integers": (
        TypeError,
        r"\bx\b.*int32",
        lambda: jscan.cumlogsumexp(np.arange(3, dtype="int32")),
    ),
    # flags of the call
    "reverse is traced": (
        TypeError,
        r"reverse",
        lambda: jax.jit(lambda r: jscan.cumsum(X, reverse=r))(True),
    ),
    "exclusive is traced": (
        TypeError,
        r"exclusive",
        lambda: jax.jit(lambda e: jscan.cumsum(X, exclusive=e))(True),
    ),
    "reverse is a string": (TypeError, r"reverse.*'no'", lambda: jscan.cumsum(X, reverse="no")),
    "reverse is None": (TypeError, r"reverse.*None", lambda: SCAN(jnp.add, X, reverse=None)),
    "reverse is a float": (TypeError, r"reverse.*1\.0", lambda: jscan.cumsum(X, reverse=1.0)),
    "reverse is another number": (TypeError, r"reverse.*2", lambda: jscan.cumsum(X, reverse=2)),
    "reverse has a dimension": (
        TypeError,
        r"reverse.*array",
        lambda: jscan.cumsum(X, reverse=np.array([True])),
    ),
    "exclusive is a string": (
        TypeError,
        r"exclusive.*'False'",
        lambda: jscan.cumsum(X, exclusive="False"),
    ),
    "direction of a recurrence is a string": (
        TypeError,
        r"linear_recurrence: reverse.*'no'",
        lambda: jscan.linear_recurrence(X, X, reverse="no"),
    ),
    "direction of a recurrence is traced": (
        TypeError,
        r"linear_recurrence: reverse.*traced",
        lambda: jax.jit(lambda r: jscan.linear_recurrence(X, X, reverse=r))(True),
    ),
    # identity
    "no identity": (ValueError, r"identity", lambda: SCAN(jnp.add, X, exclusive=True)),
    "identity of another structure": (
        ValueError,
        r"identity",
        lambda: SCAN(jnp.add, X, exclusive=True, identity=(0.0, 1.0)),
    ),
    "identity of another kind": (
        TypeError,
        r"identity.*complex",
        lambda: SCAN(jnp.add, X, exclusive=True, identity=1j),
    ),
    "identity out of range": (
        ValueError,
        r"identity.*300",
        lambda: SCAN(jnp.add, X.astype("int8"), exclusive=True, identity=300),
    ),
    "identity of another shape": (
        ValueError,
        r"identity",
        lambda: SCAN(jnp.add, X, exclusive=True, identity=np.zeros(7)),
    ),
    # segments
    "flags of floats": (TypeError, r"segments.*float64", lambda: jscan.cumsum(X, segments=X)),
    "flags of another length": (
        ValueError,
        r"segments.*\(5,\).*\(3, 4\)",
        lambda: jscan.cumsum(X, segments=np.zeros(5, bool)),
    ),
    "flags of the other axis": (
        ValueError,
        r"segments.*\(4,\).*\(3, 4\)",
        lambda: jscan.cumsum(X, axis=0, segments=np.zeros(4, bool)),
    ),
    "flags of another rank": (
        ValueError,
        r"segments",
        lambda: jscan.cumsum(X, segments=np.zeros((3, 4, 1), bool)),
    ),
    "flags of a shape that would broadcast": (
        ValueError,
        r"segments.*\(3, 1\)",
        lambda: jscan.cumsum(X, segments=np.zeros((3, 1), bool)),
    ),
    "segments is a string": (TypeError, r"segments", lambda: jscan.cumsum(X, segments="heads")),
    "segments is a number": (TypeError, r"segments", lambda: jscan.cumsum(X, segments=3)),
    "segments of another total": (
        ValueError,
        r"segments.*\(5,\)",
        lambda: jscan.cumsum(X, segments=Segments.from_lengths(np.array([2, 3]))),
    ),
    # method
    "method unknown": (
        ValueError,
        r"method.*auto.*xla.*block.*lookback.*fast",
        lambda: jscan.cumsum(X, method="fast"),
    ),
    "method is None": (TypeError, r"method", lambda: jscan.cumsum(X, method=None)),
    "method is no string": (TypeError, r"method", lambda: jscan.cumsum(X, method=["xla"])),
    "method for an operator that is not elementwise": (
        ValueError,
        r"method='lookback'",
        lambda: SCAN(jnp.matmul, np.ones((5, 2, 2)), method="lookback"),
    ),
    "method for a closure over a tracer": (
        ValueError,
        r"method='lookback'",
        lambda: jax.jit(lambda k: SCAN(lambda a, b: a + b * k, X, method="lookback"))(1.0),
    ),
    # Segments
    "flags of Segments are floats": (TypeError, r"flags", lambda: Segments.from_flags(X)),
    "flags of Segments are a scalar": (ValueError, r"flags", lambda: Segments.from_flags(True)),
    "ids are floats": (TypeError, r"ids", lambda: Segments.from_ids(X)),
    "lengths are floats": (TypeError, r"lengths", lambda: Segments.from_lengths(np.ones(3))),
    "lengths are negative": (
        ValueError,
        r"lengths.*negative",
        lambda: Segments.from_lengths(np.array([2, -1, 3])),
    ),
    "lengths do not add up": (
        ValueError,
        r"lengths.*5.*total=7",
        lambda: Segments.from_lengths(np.array([2, 3]), total=7),
    ),
    "lengths of two dimensions": (
        ValueError,
        r"lengths",
        lambda: Segments.from_lengths(np.ones((2, 2), int)),
    ),
    "lengths traced without a total": (
        ValueError,
        r"total",
        lambda: jax.jit(Segments.from_lengths)(np.array([1, 2])),
    ),
    "total is a float": (TypeError, r"total", lambda: Segments.from_lengths(np.array([2]), 2.0)),
    "total is negative": (ValueError, r"total", lambda: Segments.from_lengths(np.array([2]), -2)),
    "offsets are floats": (TypeError, r"offsets", lambda: Segments.from_offsets(np.ones(3))),
    "offsets decrease": (
        ValueError,
        r"offsets.*decrease",
        lambda: Segments.from_offsets(np.array([0, 4, 2])),
    ),
    "offsets do not start with zero": (
        ValueError,
        r"offsets.*0",
        lambda: Segments.from_offsets(np.array([1, 4])),
    ),
    "offsets end elsewhere": (
        ValueError,
        r"offsets.*4.*total=5",
        lambda: Segments.from_offsets(np.array([0, 4]), total=5),
    ),
    "offsets are empty": (
        ValueError,
        r"offsets",
        lambda: Segments.from_offsets(np.array([], int)),
    ),
    "offsets traced without a total": (
        ValueError,
        r"total",
        lambda: jax.jit(Segments.from_offsets)(np.array([0, 2])),
    ),
    # operators
    "identity of a dtype": (TypeError, r"complex64", lambda: operators.max.identity("complex64")),
    "operator on a dtype": (
        TypeError,
        r"float64",
        lambda: SCAN(operators.bitwise_xor, X, exclusive=True),
    ),
}


@pytest.mark.parametrize(("kind", "message", "call"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_wrong_input(kind, message, call):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("kind", [bool, int, np.bool_, np.int32, np.array, jnp.array])
def test_flags_of_the_call_are_true_and_false_of_any_make(kind):
    forwards, backwards = (jscan.cumsum(X, reverse=kind(flag)) for flag in (False, True))
    np.testing.assert_array_equal(forwards, np.cumsum(X, 0))
    np.testing.assert_array_equal(backwards, np.cumsum(X[::-1], 0)[::-1])


@pytest.mark.parametrize("cumulative", CUMULATIVES, ids=lambda c: c.name)
@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (ValueError, {"axis": 5}, r"axis=5.*\(3, 4\)"),
        (ValueError, {"method": "fast"}, r"method.*lookback"),
        (ValueError, {"segments": np.zeros(9, int)}, r"segments.*\(9,\)"),
        (TypeError, {"segments": np.zeros(3)}, r"segments.*float64"),
        (TypeError, {"axis": "0"}, r"axis"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_cumulative_names_itself_and_the_argument(cumulative, kind, arguments, message):
    with pytest.raises(kind, match=rf"jscan\.{cumulative.name}.*{message}"):
        cumulative.function(X.astype("float32"), **arguments)


@pytest.mark.parametrize("method", ["block", "lookback"])
@pytest.mark.skipif(jax.default_backend() == "gpu", reason="the kernels run here")
def test_a_named_kernel_without_a_gpu_says_why(method):
    with pytest.raises(ValueError, match=rf"method='{method}'.*CUDA GPU"):
        jscan.cumsum(X, method=method)


@pytest.mark.parametrize("call", [jax.jit, jax.vmap, jax.grad], ids=["jit", "vmap", "grad"])
def test_errors_are_the_same_under_transformations(call):
    def run(x):
        return jnp.sum(jscan.cumsum(x, axis=4))

    with pytest.raises(ValueError, match=r"jscan\.cumsum: axis=4"):
        call(run)(X)


@pytest.mark.parametrize(
    "arguments",
    [
        {"segments": np.zeros(3, bool), "axis": 1},
        {"exclusive": True, "segments": np.zeros((4, 3), bool)},
    ],
)
def test_a_wrong_call_leaves_no_trace(arguments):
    with pytest.raises(ValueError, match="segments"):
        jscan.cumsum(X, **arguments)
    np.testing.assert_array_equal(jscan.cumsum(X), np.cumsum(X, 0))


@pytest.mark.parametrize("wide_first", [False, True], ids=["narrow first", "wide first"])
@pytest.mark.parametrize("name", WIDE_CALLS)
def test_arrays_of_64_bits_are_named_where_jax_has_none(name, wide_first):
    """What was compiled where JAX had 64 bits says nothing of where it has not."""
    call, argument = WIDE_CALLS[name]
    with jax.enable_x64(True):
        # A length for each order, for which no program is kept.
        x = jnp.arange(61.0 + wide_first)

    def narrow():
        with jax.enable_x64(False), pytest.raises(TypeError, match=f"{argument} has dtype float64"):
            call(x)

    def wide():
        with jax.enable_x64(True):
            assert {leaf.dtype for leaf in jax.tree.leaves(call(x))} == {np.dtype(np.float64)}

    for step in (wide, narrow, wide) if wide_first else (narrow, wide, narrow):
        step()
