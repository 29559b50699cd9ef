"""Linear recurrences: values, derivatives, shapes, errors, and what they become on CUDA."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import Segments, primitives
from tests import reference
from tests.cases import COMPLEX, head_flags
from tests.kernels.test_lowering import array, calls, cuda_program
from tests.kernels.test_reduction_lowering import kernel_operands

FLOATS = ("bfloat16", "float32", "float64")
directions = pytest.mark.parametrize("reverse", [False, True])


def numbers(shape, dtype, seed=0):
    """Coefficients of magnitude about one, or terms; small integers where the dtype is exact."""
    rng = np.random.default_rng([seed, *shape])
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        return rng.integers(-3, 4, shape).astype(dtype)
    x = rng.uniform(0.9, 1.05, shape) * rng.choice((-1.0, 1.0), shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        x = x * np.exp(1j * rng.uniform(0, 6, shape))
    return x.astype(dtype)


class Loop:
    """h[t] = a[t] h[t-1] + b[t] and its transpose, one element at a time in NumPy."""

    def __init__(self, a, b, h0=None, *, axis=0, reverse=False, flags=None, sized=False):
        self.axis = axis % np.ndim(b)
        given = [reference.widen(x) for x in (a, b, 0.0 if h0 is None else h0)]
        given = [np.abs(x) for x in given] if sized else given
        kind = np.result_type(*given[:2])
        a, b, start = given
        a = a.reshape(a.shape + (1,) * (b.ndim - a.ndim))
        shape = np.broadcast_shapes(a.shape, b.shape)
        self.a, self.b = (
            np.moveaxis(np.broadcast_to(x, shape), self.axis, 0).astype(kind) for x in (a, b)
        )
        self.n = shape[self.axis]
        row = self.a.shape[1:]
        self.start = np.broadcast_to(start, row).astype(kind)
        fresh = reference.restarts(flags, self.n, self.axis, reverse)
        self.starts = [np.reshape(s, s.shape + (1,) * (len(row) - s.ndim)) for s in fresh]
        self.order = [*range(self.n)][::-1] if reverse else [*range(self.n)]
        self.h, self.before = np.zeros_like(self.b), np.zeros_like(self.b)
        carry = self.start
        with np.errstate(over="ignore"):
            for position, t in enumerate(self.order):
                self.before[t] = carry if position == 0 else np.where(self.starts[t], 0, carry)
                carry = self.h[t] = self.a[t] * self.before[t] + self.b[t]

    @property
    def values(self):
        """h, with its axis where it was."""
        return np.moveaxis(self.h, 0, self.axis)

    def cotangents(self, g):
        """Of a and b at full size, and of h0 at the size of a row."""
        g = np.moveaxis(g, self.axis, 0)
        state, terms = np.zeros_like(self.start), np.zeros_like(self.b)
        for position in reversed(range(self.n)):
            t = self.order[position]
            terms[t] = g[t] + state
            stop = np.zeros((), bool) if position == 0 else self.starts[t]
            state = np.where(stop, 0, self.a[t] * terms[t])
        slopes = terms * self.before
        return [np.moveaxis(slopes, 0, self.axis), np.moveaxis(terms, 0, self.axis), state]


def summed_to(x, shape):
    """The sum over the dimensions in which `shape` has 1 or, at the end, nothing."""
    padded = shape + (1,) * (np.ndim(x) - len(shape))
    axes = tuple(d for d, size in enumerate(padded) if size == 1 and x.shape[d] != 1)
    return np.sum(x, axes, keepdims=True).reshape(shape)


def bound(size, dtype, n):
    """Three roundings an element (three times as many where complex), and one at the end."""
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        return 0.0
    # A slope is read out of a result that was rounded, so every error is one of the row's largest.
    scale = np.max(size, initial=0.0)
    return reference.bound(scale, scale, dtype, n=n, steps=9) * (3 if dtype.kind == "c" else 1)


def check(a, b, h0=None, *, method, flags=None, segments=None, axis=0, reverse=False):
    """Compares values with the loop, and derivatives where the dtype has some."""
    segments = flags if segments is None else segments
    options = {"axis": axis, "reverse": reverse}
    given = [jnp.asarray(x) for x in ((a, b) if h0 is None else (a, b, h0))]

    def run(*given):
        return jscan.linear_recurrence(*given, segments=segments, method=method, **options)

    loop = Loop(a, b, h0, flags=flags, **options)
    large = Loop(a, b, h0, flags=flags, sized=True, **options)
    h = jax.jit(run)(*given)
    dtype = b.dtype
    assert h.dtype == dtype
    n = loop.n
    if jnp.issubdtype(dtype, jnp.integer):
        return reference.assert_equal(h, loop.values)
    reference.assert_within(h, loop.values, bound(large.values, dtype, n))
    g = numbers(h.shape, dtype, seed=9)
    found = jax.jit(lambda given, g: jax.vjp(run, *given)[1](g))(given, g)
    expected = loop.cotangents(reference.widen(g))
    sizes = large.cotangents(np.abs(reference.widen(g)))
    for x, got, want, size in zip(given, found, expected, sizes, strict=False):
        assert (got.dtype, got.shape) == (x.dtype, x.shape)
        want, size = (summed_to(value, x.shape) for value in (want, size))
        reference.assert_within(got, want, bound(size, dtype, n))
    return None


# Every engine


def test_several_tiles_with_a_start_and_segments(engine):
    a, b = (numbers((150,), "float64", seed) for seed in (0, 1))
    check(a, b, np.float64(0.7), flags=head_flags((150,)), reverse=True, method=engine.method)


@directions
def test_one_interpreted_block_with_shared_coefficients(reverse):
    a, b = numbers((20, 1), "float32"), numbers((20, 3), "float32", 1)
    with primitives.interpreted():
        check(a, b, numbers((3,), "float32", 2), reverse=reverse, method="block")


@pytest.mark.sweep
def test_every_size(engine, size):
    reverse = bool(size % 2)
    a, b = (numbers((size,), "float64", seed) for seed in (0, 1))
    check(a, b, np.float64(-0.7), reverse=reverse, method=engine.method)


@pytest.mark.sweep
@directions
@pytest.mark.parametrize("dtype", [*FLOATS, "float16", "int32", "uint8", *COMPLEX])
def test_every_dtype(dtype, reverse, engine):
    a, b = (numbers((33, 4), dtype, seed) for seed in (0, 1))
    flags = head_flags((33,)) if reverse else None
    check(a, b, numbers((4,), dtype, 2), flags=flags, reverse=reverse, method=engine.method)


@pytest.mark.thorough
@pytest.mark.sweep
@directions
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("start", ["none", "scalar", "rows", "one row"])
def test_every_axis_and_start(axis, reverse, start, engine):
    shape = (5, 33, 4)
    row = shape[: axis % 3] + shape[axis % 3 + 1 :]
    h0 = {
        "none": None,
        "scalar": np.float32(0.5),
        "rows": numbers(row, "float32", 2),
        "one row": numbers((1, row[1]), "float32", 2),
    }[start]
    a, b = (numbers(shape, "float32", seed) for seed in (0, 1))
    check(a, b, h0, axis=axis, reverse=reverse, method=engine.method)


SHAPES = {
    "the leading dimension": ((12,), (12, 3, 2), 0),
    "two leading dimensions": ((12, 3), (12, 3, 2), 0),
    "ones": ((12, 1, 2), (12, 3, 2), 0),
    "a one in front": ((1, 12), (5, 12), 1),
    "constant over time": ((1, 3), (12, 3), 0),
    "constant over time and rows": ((1,), (12, 3), 0),
    "constant over the time of a later axis": ((3, 1), (3, 12), 1),
    "wider than the terms": ((12, 3), (12, 1), 0),
    "wider in time": ((12, 3), (1, 3), 0),
    "each wider than the other": ((12, 1), (1, 3), 0),
}


@pytest.mark.sweep
@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_shapes_of_coefficients(case, dtype, engine):
    a_shape, b_shape, axis = SHAPES[case]
    reverse = dtype == "complex128"
    a, b = numbers(a_shape, dtype), numbers(b_shape, dtype, 1)
    check(a, b, numbers((), dtype, 2), axis=axis, reverse=reverse, method=engine.method)


@pytest.mark.sweep
@directions
@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0)])
def test_empty_axes(shape, reverse, engine):
    a, b = numbers(shape, "float32"), numbers(shape, "float32", 1)
    check(a, b, np.float32(1.5), reverse=reverse, method=engine.method)
    check(a, b, reverse=reverse, method=engine.method)


@pytest.mark.sweep
@directions
def test_segments_by_lengths(reverse, engine):
    lengths = np.array([4, 0, 11, 1, 14])
    flags = np.zeros(30, bool)
    flags[[0, 4, 15, 16]] = True
    a, b = (numbers((30, 2), "float64", seed) for seed in (0, 1))
    segments = Segments.from_lengths(lengths, total=30)
    h0 = numbers((2,), "float64", 2)
    check(a, b, h0, flags=flags, segments=segments, reverse=reverse, method=engine.method)


@pytest.mark.sweep
@directions
@pytest.mark.parametrize("axis", [0, 1])
def test_flags_of_every_row(axis, reverse, engine):
    a, b = (numbers((20, 30), "float64", seed) for seed in (0, 1))
    flags = head_flags((20, 30), "int32")
    check(a, b, np.float64(2.0), flags=flags, axis=axis, reverse=reverse, method=engine.method)


@pytest.mark.sweep
@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (1, 0, 0)])
@directions
def test_vmap_of_each_argument(axes, reverse, engine):
    whole = [numbers((3, 20), "float64"), numbers((3, 20), "float64", 1), numbers((3,), "float64")]
    given = [x if at is not None else x[0] for x, at in zip(whole, axes, strict=True)]
    given = [x.T if at == 1 else x for x, at in zip(given, axes, strict=True)]

    def run(a, b, h0):
        return jscan.linear_recurrence(a, b, h0, reverse=reverse, method=engine.method)

    g = numbers((3, 20), "float64", 5)

    def both(a, b, h0, g):
        h, pullback = jax.vjp(run, a, b, h0)
        return h, pullback(g)

    found, pulled = jax.jit(jax.vmap(both, (*axes, 0)))(*given, g)
    for i in range(3):
        row = [
            np.take(x, i, at) if at is not None else x for x, at in zip(given, axes, strict=True)
        ]
        loop, large = (Loop(*row, reverse=reverse, sized=sized) for sized in (False, True))
        reference.assert_within(found[i], loop.values, bound(large.values, "float64", 20))
        expected, sizes = loop.cotangents(g[i]), large.cotangents(np.abs(g[i]))
        for got, want, size in zip(pulled, expected, sizes, strict=True):
            reference.assert_within(got[i], want, bound(size, "float64", 20))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@directions
def test_half_precision_is_rounded_once(dtype, reverse, engine):
    # float32 holds these sums of integers exactly, and half precision does not.
    n = min(1000, engine.longest)
    b = np.random.default_rng(0).integers(-9, 10, n)
    run = partial(jscan.linear_recurrence, reverse=reverse, method=engine.method)
    found = run(jnp.ones(n, dtype), b.astype(jnp.dtype(dtype)))
    expected = np.cumsum(b[::-1])[::-1] if reverse else np.cumsum(b)
    np.testing.assert_array_equal(found, expected.astype(jnp.dtype(dtype)))


# Promotion and errors


def test_dtypes_are_promoted_together():
    with jax.numpy_dtype_promotion("standard"):
        h = jscan.linear_recurrence(jnp.ones(3, "int32"), jnp.ones(3, "float32"), jnp.float64(1.0))
    assert h.dtype == jnp.float64
    np.testing.assert_array_equal(h, [2.0, 3.0, 4.0])


A = np.ones((4, 3))
RUN = jscan.linear_recurrence
WRONG = {
    "axis too large": (ValueError, r"axis.*2", lambda: RUN(A, A, axis=2)),
    "axis of a scalar": (ValueError, r"axis", lambda: RUN(jnp.array(1.0), jnp.array(1.0))),
    "a of another length": (ValueError, r"\ba\b.*\(5,\).*\(4, 3\)", lambda: RUN(np.ones(5), A)),
    "a of trailing dimensions": (ValueError, r"\ba\b.*\(3,\)", lambda: RUN(np.ones(3), A)),
    "a of more dimensions": (ValueError, r"\ba\b", lambda: RUN(A, np.ones(4))),
    "h0 with the axis": (ValueError, r"h0.*\(4, 3\)", lambda: RUN(A, A, A)),
    "h0 of another size": (ValueError, r"h0.*\(3,\).*\(4,\)", lambda: RUN(A, A, np.ones(4))),
    "a of bool": (TypeError, r"\ba\b.*bool", lambda: RUN(A > 0, A)),
    "b of bool": (TypeError, r"\bb\b.*bool", lambda: RUN(A, A > 0)),
    "h0 of bool": (TypeError, r"h0.*bool", lambda: RUN(A, A, np.ones(3, bool))),
    "a is None": (TypeError, r"\ba\b", lambda: RUN(None, A)),
    "b is a string": (TypeError, r"\bb\b", lambda: RUN(A, "b")),
    "no such method": (ValueError, r"method.*'fast'", lambda: RUN(A, A, method="fast")),
    "reverse is traced": (
        TypeError,
        r"reverse",
        lambda: jax.jit(lambda r: RUN(A, A, reverse=r))(True),
    ),
    "flags of another length": (
        ValueError,
        r"segments.*\(5,\)",
        lambda: RUN(A, A, segments=np.zeros(5, bool)),
    ),
    "flags of floats": (TypeError, r"segments.*float64", lambda: RUN(A, A, segments=A)),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_argument(case):
    error, message, call = WRONG[case]
    with pytest.raises(error, match=message) as caught:
        call()
    assert "jscan.linear_recurrence" in str(caught.value)


# What it becomes on CUDA

N, D = 1 << 16, 64


def gradient_program(a, b):
    """The gradient of a weighted sum."""

    def loss(a, b, weights):
        return jnp.sum(weights * jscan.linear_recurrence(a, b))

    return cuda_program(jax.grad(loss, (0, 1)), a, b, b)


@directions
@pytest.mark.parametrize("segmented", [False, True])
def test_values_are_one_call_and_the_gradient_is_one_more(reverse, segmented):
    flags = array(N, "bool")

    def run(a, b, flags):
        segments = flags if segmented else None
        return jscan.linear_recurrence(a, b, jnp.float32(1.0), reverse=reverse, segments=segments)

    program = cuda_program(run, array(N), array(N), flags)
    assert calls(program) == 1
    assert program.count('"jscan_lookback"') == 1

    def loss(a, b, weights, flags):
        return jnp.sum(weights * run(a, b, flags))

    program = cuda_program(jax.grad(loss, (0, 1)), array(N), array(N), array(N), flags)
    assert calls(program) == 2


def test_coefficients_that_rows_share_are_not_spread():
    a, b = jax.ShapeDtypeStruct((N, 1), jnp.float32), jax.ShapeDtypeStruct((N, D), jnp.float32)
    [read] = kernel_operands(cuda_program(jscan.linear_recurrence, a, b))
    assert (read.count(f"<{N}xf32>"), read.count(f"<{N * D}xf32>")) == (1, 1)
    forwards, backwards = kernel_operands(gradient_program(a, b))
    assert forwards == read
    # The gradient reads the coefficients, the results, and the cotangents.
    assert (backwards.count(f"<{N}xf32>"), backwards.count(f"<{N * D}xf32>")) == (1, 2)


def test_one_coefficient_for_every_row_and_time_lowers():
    a = jax.ShapeDtypeStruct((1, 1), jnp.float32)
    b = jax.ShapeDtypeStruct((N, D), jnp.float32)
    assert calls(cuda_program(jscan.linear_recurrence, a, b)) == 1
    assert calls(gradient_program(a, b)) == 2
