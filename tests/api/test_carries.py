"""Scans that start from `init`, and sequences that are scanned in chunks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators, primitives
from tests import reference
from tests.cases import FORMS, every_form, form_name, head_flags
from tests.functions import affine
from tests.kernels.test_lowering import array, calls, cuda_program

N = 97


def rows(shape, dtype, seed=0):
    """Small integers, or numbers about one."""
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    x = rng.uniform(0.7, 1.3, shape)
    return x.astype(dtype) if np.dtype(dtype).kind == "f" else (x + 1j * x[::-1]).astype(dtype)


def chunks(n, seed):
    """Places at which a sequence is cut into chunks, some of one element."""
    rng = np.random.default_rng(seed)
    places = np.unique(rng.integers(1, n, rng.integers(1, 9)))
    return [0, *map(int, places), n]


def scanned_in_chunks(scan, combine, xs, flags, cuts, *, reverse, exclusive):
    """The scans of chunks, each from where the one before it ended."""
    found, state = [], None
    pairs = list(itertools.pairwise(cuts))
    for begin, end in reversed(pairs) if reverse else pairs:
        part = jax.tree.map(lambda x, b=begin, e=end: x[b:e], xs)
        heads = None if flags is None else flags[begin:end]
        if reverse and flags is not None and end < len(flags) and flags[end]:
            state = None  # a segment begins behind this chunk, so its scan restarts
        more: dict[str, Any] = {} if state is None else {"init": state}
        ys = scan(part, segments=heads, reverse=reverse, exclusive=exclusive, **more)
        found.append(ys)
        place = 0 if reverse else -1
        state = jax.tree.map(lambda y, p=place: y[p], ys)
        if exclusive:
            state = combine(state, jax.tree.map(lambda x, p=place: x[p], part))
    return jax.tree.map(lambda *ys: jnp.concatenate(ys[::-1] if reverse else ys), *found)


FUNCTIONS = {
    "cumsum-int32": (jscan.cumsum, jnp.add, "int32", 0.0),
    "cumsum-uint8": (jscan.cumsum, jnp.add, "uint8", 0.0),
    "cumsum-float32": (jscan.cumsum, jnp.add, "float32", 1e-5),
    "cumprod-int32": (jscan.cumprod, jnp.multiply, "int32", 0.0),
    "cumprod-complex64": (jscan.cumprod, jnp.multiply, "complex64", 1e-4),
    "cummax-float32": (jscan.cummax, jnp.maximum, "float32", 0.0),
    "cummin-int8": (jscan.cummin, jnp.minimum, "int8", 0.0),
    "cumlogsumexp-float32": (jscan.cumlogsumexp, jnp.logaddexp, "float32", 1e-5),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", range(4))
@every_form
def test_chunks_give_what_the_whole_gives(name, seed, form):
    function, combine, dtype, tolerance = FUNCTIONS[name]
    reverse, exclusive, segmented = form
    xs, flags = rows((N,), dtype), head_flags((N,)) if segmented else None
    how = {"reverse": reverse, "exclusive": exclusive}
    whole = function(xs, segments=flags, **how)
    found = scanned_in_chunks(function, combine, xs, flags, chunks(N, seed), **how)
    assert found.dtype == whole.dtype
    np.testing.assert_allclose(found, whole, rtol=tolerance)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
@every_form
def test_chunks_of_a_function_of_two_leaves(seed, form):
    reverse, exclusive, segmented = form
    xs = rows((N,), "int32"), rows((N,), "int32", 1)
    flags = head_flags((N,)) if segmented else None
    identity: dict[str, Any] = {"identity": (1, 0)} if exclusive else {}
    scan: Any = partial(jscan.associative_scan, affine, **identity)
    how = {"reverse": reverse, "exclusive": exclusive}
    whole = scan(xs, segments=flags, **how)
    found = scanned_in_chunks(scan, affine, xs, flags, chunks(N, seed), **how)
    for got, want in zip(found, whole, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_chunks_of_a_recurrence(seed, segmented, exclusive):
    a, b = rows((N, 3), "float64"), rows((N, 3), "float64", 1)
    flags = head_flags((N,)) if segmented else np.zeros(N, bool)
    whole = jscan.linear_recurrence(a, b, segments=flags, exclusive=exclusive)
    cuts, state, found = chunks(N, seed), jnp.zeros(3), []
    for begin, end in itertools.pairwise(cuts):
        part = a[begin:end], b[begin:end]
        # The first head of a recurrence drops no start.
        h0 = jnp.where(flags[begin], 0, state)
        hs = jscan.linear_recurrence(*part, h0, segments=flags[begin:end], exclusive=exclusive)
        found.append(hs)
        state = part[0][-1] * hs[-1] + part[1][-1] if exclusive else hs[-1]
    np.testing.assert_allclose(jnp.concatenate(found), whole, rtol=1e-12)


# Values


def expected(fn, xs, init, flags, *, identity=0, **form):
    """What a loop in NumPy finds."""
    return reference.scan(fn, xs, init=init, flags=flags, identity=identity, **form)


@pytest.mark.sweep
@every_form
@pytest.mark.parametrize("shape", [(), (3,), (1,), (2, 1), (2, 3)])
def test_an_init_broadcasts_to_one_element(form, shape):
    reverse, exclusive, segmented = form
    x, init = rows((2, 5, 3), "int32"), rows(shape, "int32", 7)
    flags = head_flags((5,)) if segmented else None
    how = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    found = jscan.cumsum(x, init=init, segments=flags, **how)
    np.testing.assert_array_equal(found, expected(np.add, x, init, flags, **how))


@pytest.mark.product
@every_form
def test_every_strategy(engine, form):
    reverse, exclusive, segmented = form
    x, init = rows((2, 33), "int32"), rows((2,), "int32", 7)
    flags = head_flags((2, 33)) if segmented else None
    how = {"axis": 1, "reverse": reverse, "exclusive": exclusive}

    @jax.jit
    def run(x, init):
        return jscan.cumsum(x, init=init, segments=flags, method=engine.method, **how)

    np.testing.assert_array_equal(run(x, init), expected(np.add, x, init, flags, **how))


def test_a_head_at_the_first_element_drops_it():
    x = jnp.array([1, 2, 3])
    assert jscan.cumsum(x, init=10, segments=jnp.array([1, 0, 0])).tolist() == [1, 3, 6]
    assert jscan.cumsum(x, init=10, segments=jnp.array([0, 1, 0])).tolist() == [11, 2, 5]
    segments = jscan.Segments.from_lengths([2, 1])
    assert jscan.cumsum(x, init=10, segments=segments).tolist() == [1, 3, 3]
    assert jscan.cumsum(x, init=10, segments=segments, reverse=True).tolist() == [3, 2, 13]


def test_an_exclusive_scan_from_an_init_needs_no_identity():
    def larger(a, b):
        return jnp.where(a > b, a, b)

    x = jnp.array([3, 1, 4, 1, 5])
    found = jscan.associative_scan(larger, x, init=2, exclusive=True)
    assert found.tolist() == [2, 3, 3, 4, 4]
    found = jax.jit(partial(jscan.associative_scan, larger, exclusive=True, reverse=True))(
        x, init=2
    )
    assert found.tolist() == [5, 5, 5, 5, 2]


def test_an_unproved_identity_stands_at_heads_alone():
    def later(a, b):
        return jnp.sort(jnp.stack([a, b]), axis=0)[1]

    x, flags = jnp.array([3.0, 1.0, 4.0]), jnp.array([0, 0, 1])
    how: dict[str, Any] = {"identity": -jnp.inf, "init": 2.0, "segments": flags, "exclusive": True}
    assert jscan.associative_scan(later, x, **how).tolist() == [2.0, 3.0, -jnp.inf]


@pytest.mark.parametrize("reverse", [False, True])
def test_nothing_comes_of_an_empty_axis(reverse):
    x = jnp.zeros((0, 3))
    how = {"reverse": reverse, "exclusive": True}
    assert jscan.cumsum(x, init=1.0, **how).shape == (0, 3)
    assert jscan.associative_scan(lambda a, b: a + b, x, init=1.0, **how).shape == (0, 3)
    slope = jax.grad(lambda init: jscan.cumsum(x, init=init, **how).sum())(jnp.ones(3))
    assert slope.tolist() == [0, 0, 0]


def test_a_wide_init_of_narrow_leaves_is_not_rounded():
    x = jnp.full(4, 2.0**-10, jnp.bfloat16)
    init = jnp.float32(1 + 2.0**-9)  # 1 in bfloat16
    found = jscan.cumsum(x, init=init)
    assert found.dtype == jnp.bfloat16
    assert found[-1] == jnp.bfloat16(1 + 2.0**-7)


def test_a_number_that_the_operator_reads():
    def faded(scale):
        return lambda a, b: (a[0] * b[0], (a[1] * b[0] * scale**0 + b[1]))

    xs, init = (rows((9,), "float64"), rows((9,), "float64", 1)), (1.0, 0.5)
    want = expected(affine, xs, init, None)
    for found in (
        jscan.associative_scan(faded(2.0), xs, init=init),
        jax.jit(lambda s: jscan.associative_scan(faded(s), xs, init=init))(2.0),
    ):
        np.testing.assert_allclose(found[1], want[1], rtol=1e-12)


def test_without_jit():
    x = rows((2, 9), "float32")
    with jax.disable_jit():
        found = jscan.cumsum(x, 1, init=np.float32(2))
    np.testing.assert_allclose(found, x.cumsum(1) + 2, rtol=1e-5)


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("interpreted", [False, True])
def test_in_a_batch(dims, interpreted):
    x, init = rows((3, 9), "int32"), rows((3,), "int32", 1)
    given = [v if d == 0 else v[0] for v, d in zip((x, init), dims, strict=True)]
    run = jax.vmap(lambda x, init: jscan.cumsum(x, init=init), dims)
    if interpreted:
        with primitives.interpreted():
            found = jax.jit(run)(*given)
    else:
        found = run(*given)
    xs, inits = (
        v if d == 0 else np.stack([v[0]] * 3) for v, d in zip((x, init), dims, strict=True)
    )
    np.testing.assert_array_equal(found, xs.cumsum(1) + inits[:, None])


# Derivatives


@jax.custom_vjp
def product(a, b):
    """A product with a rule of its own, which has a factor of three."""
    return a * b


product.defvjp(lambda a, b: (a * b, (a, b)), lambda k, g: (3 * g * k[1], 3 * g * k[0]))


def test_a_rule_of_the_operator_holds_at_the_start():
    x = jnp.array([2.0, 5.0])

    def run(init, x):
        return jscan.associative_scan(product, x, init=init)[-1]

    assert jax.grad(run, (0, 1))(3.0, x)[0] == 9 * 10
    np.testing.assert_allclose(jax.grad(run, (0, 1))(3.0, x)[1], [9 * 15, 3 * 6])


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_a_gradient_reaches_no_closed_segment(form):
    reverse, exclusive, _ = form
    x, flags = jnp.array([2.0, 0.0, 3.0]), jnp.array([1, 0, 1])

    def run(init):
        how = {"reverse": reverse, "exclusive": exclusive, "segments": flags}
        return jnp.sum(jscan.cumprod(x, init=init, **how))

    wanted = (1.0 if exclusive else 3.0) if reverse else 0.0
    assert jax.grad(run)(jnp.inf if not reverse else 2.0) == wanted


# Programs


UPDATE = "dynamic_update_slice"


def large_operations(program, n):
    """The operations of a program on arrays of ``n`` elements, but for kernels."""
    lines = [line for line in program.splitlines() if f"<{n}x" in line and " = " in line]
    names = [re.search(r"stablehlo\.(\w+)", line) for line in lines]
    return [found[1] for found in names if found and found[1] != "custom_call"]


SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": jscan.cumsum,
    "own": partial(jscan.associative_scan, lambda a, b: a * b, identity=1.0),
    "affine": lambda x, init=None, **how: jscan.associative_scan(
        operators.affine, (x, x), init=None if init is None else (init, init), **how
    )[1],
    "recurrence": lambda x, init=None, **how: jscan.linear_recurrence(x, x, init, **how),
}


@pytest.mark.product
@pytest.mark.parametrize("name", SCANS)
@every_form
def test_kernels_start_from_it_and_nothing_else_touches_the_operands(name, form):
    reverse, exclusive, segmented = form
    n = 1 << 16

    def program(*init):
        def run(x, flags, *init):
            begin = {"init": init[0]} if init else {}
            segments = flags if segmented else None
            how = {"reverse": reverse, "exclusive": exclusive, "segments": segments}
            return SCANS[name](x, **begin, **how)

        return cuda_program(run, array(n), array(n, "uint8"), *init)

    without, started = program(), program(jnp.float32(1))
    assert calls(started) == calls(without) > 0
    found, usual = (large_operations(each, n) for each in (started, without))
    if name == "recurrence" and segmented and not reverse:
        # The first head drops no start there, so that flags have another first element.
        found = [name for name in found if name not in ("slice", "concatenate", UPDATE)]
    assert sorted(found) == sorted(usual)


# Errors


def test_an_init_that_fits_nothing_names_what_to_change():
    x = jnp.ones((4, 3))
    with pytest.raises(
        ValueError, match=r"init has shape \(4,\), which does not broadcast to \(3,\)"
    ):
        jscan.cumsum(x, init=jnp.ones(4))
    with pytest.raises(ValueError, match="init has the structure"):
        jscan.associative_scan(affine, (x, x), init=jnp.ones(3))
    with pytest.raises(TypeError, match="init has dtype complex"):
        jscan.cumsum(x, init=1j)
    with pytest.raises(ValueError, match="init=300 is out of range"):
        jscan.cumsum(jnp.ones(4, jnp.int8), init=300)
    with pytest.raises(ValueError, match="needs identity= or init="):
        jscan.associative_scan(affine, (x, x), exclusive=True)
    flags = jnp.ones(4, bool)
    with pytest.raises(ValueError, match="needs identity= beside init= and segments="):
        jscan.associative_scan(affine, (x, x), init=(1.0, 0.0), exclusive=True, segments=flags)
