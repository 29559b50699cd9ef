"""Elements of several numbers, read and written as they lie, against sequential loops."""

from __future__ import annotations

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import elements, primitives
from jscan.combine import trace
from jscan.kernels import language, scan_elements, tuning
from jscan.kernels.comb import Comb
from jscan.kernels.elements import Words
from jscan.kernels.layout import Geometry
from jscan.kernels.tile import Tile
from tests.cases import head_flags
from tests.kernels.test_lowering import cuda_program

TILE = tuning.Tuning(length=128, lanes=1, warps=1, window=4)
NARROW = tuning.Tuning(length=128, lanes=1, warps=2, window=4)
"""Of two elements a thread: fewer than numbers fit a word."""
SHORT = tuning.Tuning(length=32, lanes=1, warps=1, window=4, rows=4)
STRIPS = tuning.Tuning(length=256, lanes=1, warps=1, window=4, strip=64, held=64)


def signed_permutations(shape: tuple[int, ...], k: int, dtype: Any) -> np.ndarray:
    """Matrices of which every product is one of them, so that no dtype rounds any."""
    rng = np.random.default_rng(k)
    rows = np.argsort(rng.random((*shape, k)), -1)
    signs = rng.choice(
        np.asarray([1, -1, 1j, -1j] if np.dtype(dtype).kind == "c" else [1, -1]), (*shape, k)
    )
    return (np.eye(k)[rows] * signs[..., None]).astype(dtype)


def looped(fn: Any, arrays: tuple[np.ndarray, ...], flags: Any, *, axis: int, reverse: bool) -> Any:
    """The scan along an axis, element by element."""
    moved = [np.moveaxis(x, axis, 0) for x in arrays]
    heads = None if flags is None else np.moveaxis(flags, axis, 0)
    n, found, before = len(moved[0]), [np.zeros_like(x) for x in moved], None
    for t in reversed(range(n)) if reverse else range(n):
        here = [x[t] for x in moved]
        after = here if before is None else fn(before, here)
        if before is not None and heads is not None and t + reverse < n:
            restarts = heads[t + reverse]
            wide = [
                restarts.reshape(*restarts.shape, *[1] * (x.ndim - restarts.ndim)) for x in here
            ]
            after = [np.where(w, x, y) for w, x, y in zip(wide, here, after, strict=True)]
        before = after
        for place, x in zip(found, after, strict=True):
            place[t] = x
    return [np.moveaxis(x, 0, axis) for x in found]


def in_place(
    x: np.ndarray,
    fn: Any,
    flags: Any = None,
    *,
    axis: int = 0,
    tile: tuning.Tuning = TILE,
    reverse: bool = False,
    method: str = "lookback",
) -> Any:
    """The scan of such elements by kernels that read them as they lie, and by no others."""
    combine = trace(fn, [jnp.ones(3, x.dtype)] * x.shape[-1], STRUCTURE[x.shape[-1]], 0, None)
    assert combine is not None

    def run(x: jax.Array, *flags: jax.Array) -> jax.Array:
        found = scan_elements(
            [x],
            flags[0] if flags else None,
            combine=combine,
            axis=axis,
            reverse=reverse,
            used=(True,),
            method=method,
            interpret=True,
            tile=tile,
        )
        assert not isinstance(found, str), found
        return found[0]

    return jax.jit(run)(x, *([] if flags is None else [flags]))


STRUCTURE = {count: jax.tree.structure([0] * count) for count in (2, 3, 4, 9, 16)}


def add(a: Any, b: Any) -> Any:
    """Each number by itself, so that one in the wrong place shows."""
    return [x + y for x, y in zip(a, b, strict=True)]


def multiply(a: Any, b: Any) -> Any:
    """The product of matrices of two by two, which does not commute."""
    return [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    ]


def looped_by(fn: Any) -> Any:
    """An operator on the numbers of elements as one on arrays of elements."""

    def on_arrays(a: Any, b: Any) -> Any:
        return [np.stack(fn(np.moveaxis(a[0], -1, 0), np.moveaxis(b[0], -1, 0)), -1)]

    return on_arrays


def check(x: np.ndarray, fn: Any = add, flags: Any = None, **how: Any) -> None:
    """Compares a scan with a loop."""
    full = np.broadcast_shapes(x.shape[:-1], () if flags is None else flags.shape)
    wide = None if flags is None else np.broadcast_to(flags, full)
    along = {"axis": how.get("axis", 0), "reverse": how.get("reverse", False)}
    whole = np.broadcast_to(x, (*full, x.shape[-1]))
    [want] = looped(looped_by(fn), (whole,), wide, **along)
    np.testing.assert_array_equal(in_place(x, fn, flags, **how), want)


def counts(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(shape[-1]).integers(0, 3, shape).astype(np.int32)


SIZES = (2, 3, 5, 31, 33, 127, 128, 129, 255, 257, 300, 384)


@pytest.mark.sweep
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("numbers", [2, 3, 9, 16])
@pytest.mark.parametrize("n", SIZES)
def test_elements_of_every_size(n, numbers, segmented):
    flags = head_flags((n,), share=0.1) if segmented else None
    check(counts((n, numbers)), flags=flags)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint16", "complex64", "bfloat16"])
@pytest.mark.parametrize("tile", [TILE, NARROW, STRIPS], ids=["one", "two", "strips"])
@pytest.mark.parametrize("numbers", [2, 3, 4])
@pytest.mark.parametrize("reverse", [False, True])
def test_elements_of_every_dtype(reverse, numbers, tile, dtype):
    x = (counts((288, numbers)) % 2).astype(dtype)
    method = "chained" if tile is NARROW else "lookback"
    check(x, tile=tile, reverse=reverse, method=method)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "method",
    ["lookback", "chained", "repeatable", "reduce_then_scan", "scan_then_propagate", "auto"],
)
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_elements_by_every_strategy(reverse, segmented, method):
    flags = head_flags((300,), share=0.1) if segmented else None
    x = signed_permutations((300,), 2, np.float32).reshape(300, 4)
    check(x, multiply, flags, reverse=reverse, method=method)


@pytest.mark.product
@pytest.mark.parametrize(("shape", "tile"), [((5, 132, 3), TILE), ((6, 28, 3), SHORT)])
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_elements(reverse, shape, tile):
    flags = head_flags(shape[:-1], share=0.1)
    method = "block" if tile is SHORT else "lookback"
    x = counts(shape)
    for given, marks in ((x, None), (x, flags), (x, flags[:1]), (x[:1], flags)):
        check(given, flags=marks, axis=1, tile=tile, reverse=reverse, method=method)


def test_rows_that_begin_inside_of_words_are_left_alone():
    with pytest.raises(AssertionError, match="its rows begin inside of words"):
        in_place(counts((5, 131, 3)), add, axis=1)


def affine(a: Any, b: Any) -> Any:
    """(A, x) and then (B, y): leaves of different numbers."""
    return [b[0] @ a[0], np.einsum("...ij,...j->...i", b[0], a[1]) + b[1]]


def systems(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    terms = rng.integers(-3, 4, (n, k)).astype(np.float32)
    return signed_permutations((n,), k, np.float32), terms


@pytest.mark.parametrize("only", [None, 1])
def test_pairs_of_matrices_and_vectors(only):
    """Leaves of different numbers, of which results may be dropped."""
    a, b = systems(300, 2)

    def joined(p: Any, q: Any) -> Any:
        return q[0] @ p[0], jnp.einsum("...ij,...j->...i", q[0], p[1]) + q[1]

    def run(*x: Any) -> Any:
        found = jscan.associative_scan(joined, x, method="lookback")
        return found if only is None else found[only : only + 1]

    want = looped(affine, (a, b), None, axis=0, reverse=False)
    with primitives.interpreted(), primitives.tiled(TILE):
        found = jax.jit(run)(a, b)
    for x, y in zip(found, want if only is None else want[only : only + 1], strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_recurrences(reverse, start, shared):
    """Of a matrix for each element or one for all, behind a start or none."""
    a, b = systems(300, 2)
    h0 = np.array([2, -1], np.float32) if start else None
    flags = head_flags((300,), share=0.05)
    given = a[:1] if shared else a
    with primitives.interpreted(), primitives.tiled(TILE):
        how: dict[str, Any] = {"segments": flags, "reverse": reverse}
        run = jax.jit(lambda a, b: jscan.matrix_recurrence(a, b, h0, **how))
        found = run(given[0] if shared else given, b)
    want, state = np.zeros_like(b), np.zeros(2) if h0 is None else h0
    for t in reversed(range(300)) if reverse else range(300):
        edge = t + reverse
        if 0 < edge < 300 and flags[edge]:
            state = np.zeros(2)
        state = want[t] = given[0 if shared else t] @ state + b[t]
    np.testing.assert_array_equal(found, want)


def test_scans_with_a_start():
    x = signed_permutations((300,), 2, np.float32)
    init = signed_permutations((1,), 2, np.float32)
    with primitives.interpreted(), primitives.tiled(TILE):
        run = jax.jit(lambda x: jscan.associative_scan(jnp.matmul, x, init=init[0]))
        found = run(x).reshape(300, 4)
    given = np.concatenate([init, x]).reshape(301, 4)
    [want] = looped(looped_by(multiply), (given,), None, axis=0, reverse=False)
    np.testing.assert_array_equal(found, want[1:])


def of_arrays(*shapes: tuple[int, ...]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]


def products(x: Any, flags: Any = None, **how: Any) -> Any:
    return jscan.associative_scan(jnp.matmul, x, segments=flags, **how)


def connected(a: Any, b: Any) -> Any:
    """The product of matrices of which is joined to which."""
    return jnp.any(a[..., :, :, None] & b[..., None, :, :], -2)


N = 2**16
LOWERED: dict[str, tuple[Any, Any]] = {
    **{f"{k} x {k}": (products, of_arrays((N, k, k))) for k in (2, 3, 4)},
    "odd length": (products, of_arrays((N + 3, 3, 3))),
    "reversed": (lambda x: products(x, reverse=True), of_arrays((N, 3, 3))),
    "segments": (products, [*of_arrays((N, 2, 2)), jax.ShapeDtypeStruct((N,), jnp.bool_)]),
    "booleans": (
        functools.partial(jscan.associative_scan, connected),
        [jax.ShapeDtypeStruct((N, 2, 2), jnp.bool_)],
    ),
    "float64": (products, [jax.ShapeDtypeStruct((N, 2, 2), jnp.float64)]),
    "rows": (lambda x: products(x, axis=1), of_arrays((64, 1024, 2, 2))),
    "a batch": (jax.vmap(products), of_arrays((64, 1024, 2, 2))),
    "a recurrence": (jscan.matrix_recurrence, of_arrays((N, 4, 4), (N, 4))),
    "a recurrence by one matrix": (jscan.matrix_recurrence, of_arrays((3, 3), (N, 3))),
    "rotations": (
        lambda a, b: jscan.matrix_recurrence(a, b, form="rotation"),
        of_arrays((N, 2), (N, 2)),
    ),
}


@pytest.mark.parametrize("name", LOWERED)
def test_xla_moves_nothing_around_kernels(name):
    function, operands = LOWERED[name]
    with jax.enable_x64(True):
        program = cuda_program(functools.partial(function), *operands)
    found = set(re.findall(r"= \"?stablehlo\.(\w+)", program))
    assert "custom_call" in found
    assert found <= {"custom_call", "reshape", "constant", "broadcast_in_dim"}


def test_a_gradient_has_no_pass_for_what_nobody_uses():
    """Of a pair whose second result alone is used the first is not written."""

    def last(p: Any, q: Any) -> Any:
        return q[0] @ p[0], jnp.einsum("...ij,...j->...i", q[0], p[1]) + q[1]

    run = lambda a, b: jscan.associative_scan(last, (a, b))[1]  # noqa: E731
    jaxpr = jax.make_jaxpr(run)(*of_arrays((N, 2, 2), (N, 2)))
    text = cuda_program(run, *of_arrays((N, 2, 2), (N, 2)))
    assert "jscan_elements" in str(jaxpr)
    [results] = re.findall(r"custom_call.*-> \(?(.*)", text)[:1]
    assert f"{N * 4}x" not in results


@pytest.mark.parametrize("fn", ["vmap", "jvp", "grad", "transpose"])
def test_transformations_are_those_of_numbers(fn):
    x = jnp.asarray(signed_permutations((9, 4), 2, np.float32))

    def by_elements(x: jax.Array) -> jax.Array:
        return products(x)

    def by_numbers(x: jax.Array) -> jax.Array:
        return jax.lax.associative_scan(jnp.matmul, x)

    def of(run: Any) -> Any:
        if fn == "vmap":
            return jax.vmap(run, 1, 1)(x)
        if fn == "jvp":
            return jax.jvp(run, (x,), (2 * x,))
        if fn == "grad":
            return jax.grad(lambda x: jnp.sum(run(x) ** 2 * x))(x)
        tangent = jax.linearize(run, x)[1]
        return jax.linear_transpose(tangent, x)(x)

    for found, want in zip(
        jax.tree.leaves(of(by_elements)), jax.tree.leaves(of(by_numbers)), strict=True
    ):
        np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_tiles_are_taken_apart_and_put_together(count):
    x = jnp.arange(64).reshape(2, 32)
    parts = jax.jit(lambda x: language.deinterleave(x, count))(x)
    for place, part in enumerate(parts):
        np.testing.assert_array_equal(part, x[:, place::count])
    np.testing.assert_array_equal(jax.jit(language.interleave)(parts), x)


def test_words_are_as_wide_as_threads_have_numbers():
    g, few = (
        Tile(
            Geometry(1, 2**20, 1, 1, 256, 1, reverse=False, exclusive=False, threads=threads),
            jnp.int32(0),
        )
        for threads in (32, 128)
    )
    f32, f16, f64 = np.dtype("float32"), np.dtype("float16"), np.dtype("float64")
    assert Words.of(f32, 9, g) == (4, 4)
    assert Words.of(f16, 4, g) == (8, 8)
    assert Words.of(f64, 4, g) == (2, 2)
    assert Words.of(f32, 16, few) == (2, 4)
    assert Words.of(f32, 9, few) == (2, 2)
    assert Words.of(f32, 4, Comb(g, 8, 0, 2)) == (2, 4)
    assert Words.of(f32, 9, Comb(g, 8, 0, 1)) == (1, 1)


def test_numbers_of_elements_keep_their_order():
    x = jnp.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(jnp.stack(elements.numbers([x]), -1), x)


@pytest.mark.gpu
@pytest.mark.parametrize("builder", ["pallas", "jax-triton"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reversed"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_products_of_many_matrices(k, dtype, reverse, builder):
    """By the cuts that are chosen."""
    x = signed_permutations((20_004,), k, dtype)
    with jscan.engine(builder):
        found = jax.jit(lambda x: jscan.associative_scan(jnp.matmul, x, reverse=reverse))(x)
    [expected] = looped(lambda a, b: [a[0] @ b[0]], (x,), None, axis=0, reverse=reverse)
    np.testing.assert_array_equal(found, expected)
