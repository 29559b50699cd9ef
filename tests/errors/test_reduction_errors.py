"""Wrong input to reductions: the kind of error, and that its message names the argument."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, operators
from tests.cases import sorted_or_not

X = np.ones((4, 3))
IDS = np.array([0, 0, 1, 3])
FLAGS = np.array([1, 0, 1, 0], bool)

every_function = pytest.mark.parametrize(
    "name", ["segment_sum", "segment_prod", "segment_max", "segment_min"]
)


def describe(value):
    """A readable test id for keyword arguments."""
    return "-".join(value) if isinstance(value, dict) else ""


# segment_sum and its like


@every_function
@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (TypeError, {"segment_ids": np.zeros(4)}, r"segment_ids.*float64"),
        (TypeError, {"segment_ids": np.zeros(4, bool)}, r"segment_ids.*bool"),
        (TypeError, {"segment_ids": "abcd"}, r"segment_ids"),
        (TypeError, {"segment_ids": None}, r"segment_ids"),
        (ValueError, {"segment_ids": np.zeros((4, 3), int)}, r"segment_ids.*\(4, 3\)"),
        (ValueError, {"segment_ids": np.zeros(5, int)}, r"segment_ids.*\(5,\).*\(4, 3\)"),
        (ValueError, {"segment_ids": np.array(0)}, r"segment_ids"),
        (ValueError, {"data": np.ones((2, 3))}, r"data.*\(2, 3\)"),
        (TypeError, {"data": None}, r"data"),
        (TypeError, {"data": "abcd"}, r"data"),
        (ValueError, {"num_segments": -1}, r"num_segments.*-1"),
        (ValueError, {"num_segments": 2**31}, r"num_segments.*2147483648"),
        (TypeError, {"num_segments": 4.0}, r"num_segments.*4\.0"),
        (TypeError, {"num_segments": "4"}, r"num_segments"),
        (TypeError, {"num_segments": np.array([4])}, r"num_segments"),
        (TypeError, {"unique_indices": 2}, r"unique_indices.*2"),
        (TypeError, {"unique_indices": "yes"}, r"unique_indices.*'yes'"),
        (ValueError, {"bucket_size": 0}, r"bucket_size.*0"),
        (ValueError, {"bucket_size": -3}, r"bucket_size.*-3"),
        (TypeError, {"bucket_size": 1.5}, r"bucket_size.*1\.5"),
        (ValueError, {"mode": "wrap"}, r"mode.*'clip'.*'wrap'"),
        (TypeError, {"mode": 3}, r"mode.*GatherScatterMode.*3"),
        (TypeError, {"mode": ["clip"]}, r"mode.*GatherScatterMode"),
        (
            ValueError,
            {"bucket_size": 2, "method": "lookback", "indices_are_sorted": True},
            r"method='lookback' has no buckets.*bucket_size=2",
        ),
        (ValueError, {"method": "fast"}, r"method.*lookback.*fast"),
        (TypeError, {"method": None}, r"method"),
        (ValueError, {"method": "lookback"}, r"method='lookback'.*indices_are_sorted"),
        (ValueError, {"method": "block"}, r"method='block'.*indices_are_sorted"),
    ],
    ids=describe,
)
def test_wrong_input_to_segment_reductions(name, kind, arguments, message):
    call: dict[str, Any] = {"data": X, "segment_ids": IDS, "num_segments": 4, **arguments}
    with pytest.raises(kind, match=rf"jscan\.{name}: .*{message}"):
        getattr(jscan, name)(**call)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (TypeError, {"precise": 2}, r"precise.*2"),
        (TypeError, {"data": X > 0}, r"data.*bool.*precise="),
        (ValueError, {"bucket_size": 2}, r"precise=True has no buckets.*bucket_size=2"),
        (ValueError, {"method": "lookback"}, r"method='lookback'.*indices_are_sorted"),
    ],
    ids=describe,
)
def test_wrong_input_to_sums_in_pairs(kind, arguments, message):
    call: dict[str, Any] = {"data": X, "segment_ids": IDS, "num_segments": 4, "precise": True}
    with pytest.raises(kind, match=rf"jscan\.segment_sum: .*{message}"):
        jscan.segment_sum(**{**call, **arguments})


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("segment_sum", X > 0),
        ("segment_prod", X > 0),
        ("segment_max", X * 1j),
        ("segment_min", X * 1j),
    ],
)
@sorted_or_not
def test_data_of_a_dtype_that_has_no_such_operation(name, data, indices_are_sorted):
    with pytest.raises(TypeError, match=rf"jscan\.{name}: data.*{data.dtype}"):
        getattr(jscan, name)(data, IDS, 4, indices_are_sorted)


@sorted_or_not
def test_the_number_of_segments_is_not_traced(indices_are_sorted):
    def run(num_segments):
        return jscan.segment_sum(X, IDS, num_segments, indices_are_sorted)

    with pytest.raises(TypeError, match=r"jscan\.segment_sum: num_segments.*traced"):
        jax.jit(run)(4)


@sorted_or_not
def test_traced_ids_need_the_number_of_segments(indices_are_sorted):
    def run(ids):
        return jscan.segment_sum(X, ids, indices_are_sorted=indices_are_sorted)

    for transformation in (jax.jit, lambda f: lambda ids: jax.vmap(f)(ids[None])):
        with pytest.raises(ValueError, match=r"jscan\.segment_sum: num_segments.*segment_ids"):
            transformation(run)(IDS)


def test_the_promise_is_not_traced():
    with pytest.raises(TypeError, match=r"jscan\.segment_sum: indices_are_sorted"):
        jax.jit(lambda promise: jscan.segment_sum(X, IDS, 4, promise))(True)


@sorted_or_not
def test_more_segments_than_32_bits_count(indices_are_sorted):
    ids = np.array([0, 2**31])
    with pytest.raises(ValueError, match=r"jscan\.segment_sum: .*(num_segments|segment_ids)"):
        jscan.segment_sum(np.ones((2, 0)), ids, None, indices_are_sorted)


@pytest.mark.parametrize("call", [jax.jit, jax.vmap, jax.grad], ids=["jit", "vmap", "grad"])
def test_errors_are_the_same_under_transformations(call):
    def run(x):
        return jnp.sum(jscan.segment_sum(x, IDS[:2], 4, True))

    with pytest.raises(ValueError, match=r"jscan\.segment_sum: segment_ids"):
        call(run)(X)


# reduce


def plus(a, b):
    """An operator whose identity jscan does not know."""
    return a + b


def reduce(fn=plus, elems=X, *arguments, **options):
    """A call of which one argument is wrong."""
    return jscan.reduce(fn, elems, *arguments, **options)


WRONG_CALLS: dict[str, Any] = {
    # fn
    "fn is not callable": (TypeError, r"fn", lambda: reduce(3)),
    "fn returns another structure": (ValueError, r"fn", lambda: reduce(lambda a, b: (a, b))),
    "fn returns another shape": (ValueError, r"fn", lambda: reduce(lambda a, b: jnp.sum(a + b))),
    "fn returns another dtype": (TypeError, r"fn.*bool", lambda: reduce(lambda a, b: a > b)),
    "operator on a dtype": (
        TypeError,
        r"bitwise_xor.*float64",
        lambda: reduce(operators.bitwise_xor),
    ),
    "operator on a half precision dtype": (
        TypeError,
        r"bitwise_xor.*float16",
        lambda: reduce(operators.bitwise_xor, X.astype("float16")),
    ),
    # elems
    "no leaves": (ValueError, r"elems", lambda: reduce(plus, ())),
    "leaf is a Python number": (TypeError, r"elems.*1\.0", lambda: reduce(plus, 1.0)),
    "leaves of unequal length": (
        ValueError,
        r"elems.*\(3,\).*\(4,\)",
        lambda: reduce(operators.affine, (np.ones(3), np.ones(4))),
    ),
    # axis
    "axis too large": (ValueError, r"axis=2.*\(4, 3\)", lambda: reduce(axis=2)),
    "axis too small": (ValueError, r"axis=-3.*\(4, 3\)", lambda: reduce(axis=-3)),
    "axis is a tuple": (TypeError, r"axis", lambda: reduce(axis=(0, 1))),
    "axis is None": (TypeError, r"axis", lambda: reduce(axis=None)),
    "axis of a scalar": (ValueError, r"axis", lambda: reduce(plus, jnp.array(1.0))),
    # identity
    "no identity of an empty axis": (ValueError, r"identity", lambda: reduce(plus, X[:0])),
    "no identity of segments": (ValueError, r"identity", lambda: reduce(segments=FLAGS)),
    "identity of another structure": (
        ValueError,
        r"identity",
        lambda: reduce(identity=(0.0, 1.0)),
    ),
    "identity of another kind": (TypeError, r"identity.*complex", lambda: reduce(identity=1j)),
    "identity of another shape": (
        ValueError,
        r"identity.*\(7,\).*\(3,\)",
        lambda: reduce(identity=np.zeros(7)),
    ),
    "identity out of range": (
        ValueError,
        r"identity.*300",
        lambda: reduce(plus, X.astype("int8"), identity=300),
    ),
    # segments
    "flags of floats": (
        TypeError,
        r"segments.*float64",
        lambda: reduce(operators.add, segments=np.zeros(4)),
    ),
    "flags of another length": (
        ValueError,
        r"segments.*\(5,\).*\(4, 3\)",
        lambda: reduce(operators.add, segments=np.zeros(5, bool)),
    ),
    "flags of the other axis": (
        ValueError,
        r"segments.*\(4,\).*\(4, 3\)",
        lambda: reduce(operators.add, axis=1, segments=FLAGS),
    ),
    "flags of a shape that would broadcast": (
        ValueError,
        r"segments.*\(4, 1\)",
        lambda: reduce(operators.add, segments=FLAGS[:, None]),
    ),
    "segments is a number": (TypeError, r"segments", lambda: reduce(operators.add, segments=3)),
    "segments of another total": (
        ValueError,
        r"segments divide an axis of 5 elements",
        lambda: reduce(operators.add, segments=Segments.from_lengths([2, 3])),
    ),
    # num_segments
    "num_segments without segments": (
        ValueError,
        r"num_segments=4 needs segments",
        lambda: reduce(num_segments=4),
    ),
    "num_segments is negative": (
        ValueError,
        r"num_segments.*-2",
        lambda: reduce(operators.add, segments=FLAGS, num_segments=-2),
    ),
    "num_segments is a float": (
        TypeError,
        r"num_segments.*2\.0",
        lambda: reduce(operators.add, segments=FLAGS, num_segments=2.0),
    ),
    "num_segments is traced": (
        TypeError,
        r"num_segments.*traced",
        lambda: jax.jit(lambda n: reduce(operators.add, segments=FLAGS, num_segments=n))(2),
    ),
    "num_segments is missing": (
        ValueError,
        r"num_segments",
        lambda: jax.jit(lambda flags: reduce(operators.add, segments=flags))(FLAGS),
    ),
    "num_segments of ids is missing": (
        ValueError,
        r"num_segments",
        lambda: jax.jit(lambda ids: reduce(operators.add, segments=Segments.from_ids(ids)))(IDS),
    ),
    # method
    "method unknown": (
        ValueError,
        r"method.*auto.*xla.*block.*lookback.*fast",
        lambda: reduce(method="fast"),
    ),
    "method for an operator that is not elementwise": (
        ValueError,
        r"method='lookback'",
        lambda: reduce(jnp.matmul, np.ones((5, 2, 2)), method="lookback"),
    ),
    "method for an operator that is not elementwise, by segments": (
        ValueError,
        r"method='block'",
        lambda: reduce(
            jnp.matmul,
            np.ones((4, 2, 2)),
            identity=np.eye(2),
            segments=FLAGS,
            num_segments=2,
            method="block",
        ),
    ),
    "method for a closure over a tracer": (
        ValueError,
        r"method='lookback'",
        lambda: jax.jit(lambda k: reduce(lambda a, b: a + b * k, method="lookback"))(1.0),
    ),
}


@pytest.mark.parametrize(("kind", "message", "call"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_wrong_input_to_reduce(kind, message, call):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("method", ["block", "lookback"])
@pytest.mark.skipif(jax.default_backend() == "gpu", reason="the kernels run here")
def test_a_named_kernel_without_a_gpu_says_why(method):
    for call in (
        lambda: jscan.segment_sum(X, IDS, 4, True, method=method),
        lambda: jscan.reduce(operators.add, X, segments=FLAGS, method=method),
        lambda: jscan.reduce(operators.affine, (X, X), method=method),
    ):
        with pytest.raises(ValueError, match=rf"method='{method}'.*CUDA GPU"):
            call()
