"""Checks of scans and recurrences, of their derivatives, and of networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from jscan import networks, operators
from jscan.report import loops
from jscan.report.check import ROUNDED, ROUNDED_ONCE, Check
from jscan.report.inputs import LONG, SHORT, heads, normal, signs, slopes, small
from jscan.report.loops import Array

BY_LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}
"""What each scan combines two numbers by."""


def looped(
    name: str, x: Array, flags: Any = None, *, reverse: bool = False, identity: Any = None
) -> Array:
    """What a scan by its name has, by a loop along the first axis, in the dtype of ``x``."""
    fn = BY_LOOPS[name]
    neutral = None if identity is None else (identity,)
    [y] = loops.scan(lambda a, b: (fn(a[0], b[0]),), [x], flags, reverse=reverse, identity=neutral)
    return y.astype(x.dtype)


def scans() -> Iterator[Check]:
    """The scans that have a name."""
    flags = heads(LONG)
    for kind in (np.float32, jnp.bfloat16, np.int32, np.uint8, np.complex64):
        x, dtype = small(kind, LONG), np.dtype(kind).name
        yield Check("cumsum", dtype, (x,), jscan.cumsum, partial(looped, "cumsum"))
        yield Check(
            "cumsum",
            f"{dtype}, exclusive, from the right, by segments",
            (x, flags),
            lambda x, f: jscan.cumsum(x, reverse=True, exclusive=True, segments=f),
            partial(looped, "cumsum", reverse=True, identity=0),
        )
    rows = small(np.float32, 6, SHORT)
    yield Check(
        "cumsum",
        "float32, rows",
        (rows,),
        partial(jscan.cumsum, axis=1),
        lambda x: looped("cumsum", x.T).T,
    )
    yield Check(
        "cumsum",
        "float32, rows, from a start",
        (rows,),
        partial(jscan.cumsum, axis=1, init=3),
        lambda x: looped("cumsum", x.T).T + np.float32(3),
    )
    parts = normal(LONG)
    yield Check(
        "cumsum",
        "float32, in pairs",
        (parts,),
        partial(jscan.cumsum, precise=True),
        partial(looped, "cumsum"),
        ROUNDED_ONCE,
    )
    yield Check(
        "cumsum",
        "float32, by segments, under vmap and jit",
        (rows, heads(SHORT)),
        jax.jit(lambda x, f: jax.vmap(lambda row: jscan.cumsum(row, segments=f))(x)),
        lambda x, f: looped("cumsum", x.T, f).T,
    )
    operands: dict[str, tuple[Array, float]] = {
        "cumprod": (signs(LONG), 0.0),
        "cummax": (normal(LONG), 0.0),
        "cummin": (small(np.int32, LONG, 3), 0.0),
        "cumlogsumexp": (normal(LONG), ROUNDED),
    }
    for name, (x, tolerance) in operands.items():
        scan, loop = getattr(jscan, name), partial(looped, name)
        dtype = x.dtype.name
        yield Check(name, dtype, (x,), scan, loop, tolerance)
        yield Check(
            name,
            f"{dtype}, by segments",
            (x, flags),
            lambda x, f, scan=scan: scan(x, segments=f),
            loop,
            tolerance,
        )


def _latest(a: Any, b: Any) -> Any:
    """The last value that was marked."""
    where = jnp.where if isinstance(b[0], jax.Array) else np.where
    return a[0] | b[0], where(b[0], b[1], a[1])


def operators_of_any_kind() -> Iterator[Check]:
    """Scans by operators of this package and of the user's."""
    marks, x, flags = heads(LONG), small(np.int32, LONG), heads(LONG)[::-1].copy()
    yield Check(
        "associative_scan",
        "a function of bool and int32",
        (marks, x),
        lambda *xs: jscan.associative_scan(_latest, xs),
        lambda *xs: _typed(loops.scan(_latest, xs), xs),
    )
    yield Check(
        "associative_scan",
        "a function of bool and int32, from the right, by segments",
        (marks, x, flags),
        lambda m, x, f: jscan.associative_scan(_latest, (m, x), reverse=True, segments=f),
        lambda m, x, f: _typed(loops.scan(_latest, (m, x), f, reverse=True), (m, x)),
    )
    yield Check(
        "operators",
        "affine, float32",
        (slopes(LONG), normal(LONG)),
        lambda a, b: jscan.associative_scan(operators.affine, (a, b))[1],
        lambda a, b: loops.recurrence(a, b).astype(b.dtype),
        ROUNDED,
    )
    matrices = small(np.uint8, LONG, 3, 3)
    yield Check(
        "associative_scan",
        "matmul, uint8, by segments",
        (matrices, flags),
        lambda x, f: jscan.associative_scan(jnp.matmul, x, segments=f),
        lambda x, f: _typed(loops.scan(lambda a, b: (a[0] @ b[0],), [x], f), (x,)),
    )
    yield Check(
        "operators",
        "bitwise_xor, uint8",
        (small(np.uint8, LONG),),
        partial(jscan.associative_scan, operators.bitwise_xor),
        lambda x: loops.scan(lambda a, b: (a[0] ^ b[0],), [x])[0].astype(x.dtype),
    )
    yield Check(
        "networks",
        "all six, int32",
        (small(np.int32, 13),),
        jax.jit(lambda x: [network(jnp.add, x) for network in NETWORKS]),
        lambda x: [looped("cumsum", x)] * len(NETWORKS),
    )


NETWORKS = (
    networks.kogge_stone,
    networks.sklansky,
    networks.ladner_fischer,
    networks.brent_kung,
    networks.han_carlson,
    networks.hockney_jesshope,
)


def _typed(results: list[Array], operands: tuple[Array, ...]) -> list[Array]:
    return [y.astype(x.dtype) for y, x in zip(results, operands, strict=True)]


def _moved(matrices: Array, b: Array, *, reverse: bool) -> Array:
    return loops.matrix_recurrence(matrices, b, reverse=reverse).astype(b.dtype)


def recurrences() -> Iterator[Check]:
    """`linear_recurrence`, `matrix_recurrence` and `tridiagonal_solve`."""
    a, b, flags = slopes(LONG), normal(LONG), heads(LONG)
    yield Check(
        "linear_recurrence",
        "float32, with a start",
        (a, b),
        partial(jscan.linear_recurrence, h0=3.0),
        lambda a, b: loops.recurrence(a, b, 3.0).astype(b.dtype),
        ROUNDED,
    )
    yield Check(
        "linear_recurrence",
        "float32, from the right, by segments",
        (a, b, flags),
        lambda a, b, f: jscan.linear_recurrence(a, b, reverse=True, segments=f),
        lambda a, b, f: loops.recurrence(a, b, 0.0, f, reverse=True).astype(b.dtype),
        ROUNDED,
    )
    wide = (slopes(SHORT, 5) * np.exp(1j * normal(SHORT, 5))).astype(np.complex64)
    yield Check(
        "linear_recurrence",
        "complex64, lanes",
        (wide, small(np.complex64, SHORT, 5)),
        jscan.linear_recurrence,
        lambda a, b: loops.recurrence(a, b).astype(b.dtype),
        ROUNDED,
    )
    turns, vectors = slopes(LONG, 3, 3) / 2, normal(LONG, 3)
    for reverse in (False, True):
        yield Check(
            "matrix_recurrence",
            f"float32, 3 x 3{', from the right' * reverse}",
            (turns, vectors),
            partial(jscan.matrix_recurrence, reverse=reverse),
            partial(_moved, reverse=reverse),
            ROUNDED,
        )
    yield Check(
        "tridiagonal_solve",
        "float32",
        (slopes(SHORT), 2 + np.abs(normal(SHORT)), slopes(SHORT)[::-1].copy(), normal(SHORT)),
        jscan.tridiagonal_solve,
        lambda *system: loops.tridiagonal(*system).astype(np.float32),
        ROUNDED,
    )


def derivatives() -> Iterator[Check]:
    """Gradients of scans and recurrences, which are scans from the other end."""
    x, weights, flags = normal(LONG), small(np.float32, LONG), heads(LONG)
    yield Check(
        "cumsum",
        "float32, gradient, by segments",
        (x, weights, flags),
        lambda x, w, f: jax.grad(lambda x: jnp.sum(w * jscan.cumsum(x, segments=f)))(x),
        lambda _, w, f: looped("cumsum", w, f, reverse=True),
    )
    yield Check(
        "linear_recurrence",
        "float32, gradient",
        (slopes(LONG), x, weights),
        lambda a, b, w: jax.grad(lambda b: jnp.sum(w * jscan.linear_recurrence(a, b)))(b),
        lambda a, b, w: loops.recurrence(np.append(a[1:], a[:1]), w, reverse=True).astype(b.dtype),
        ROUNDED,
    )
