"""Sequential scans in NumPy, and the error bounds that a scan in another order may have.

Every scan here walks its axis one element at a time, in float64, complex128, bool or 64-bit
integers (whose wrap-around is exact modulo every narrower width). Nothing is combined in any
other order than left to right (right to left when reversed).

The bounds follow from the arithmetic alone: an operator whose combination rounds `steps` times
is wrong by at most n·steps·eps of the same scan over absolute values, whatever tree the additions
form (Higham, Accuracy and Stability of Numerical Algorithms, §4.2), and the result of a half
precision type is rounded once more at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def widen(x: Any) -> Array:
    """Returns x in the widest NumPy type of its kind."""
    x = np.asarray(x)
    for kind, wide in (
        (jnp.bool_, np.bool_),
        (jnp.unsignedinteger, np.uint64),
        (jnp.signedinteger, np.int64),
        (jnp.floating, np.float64),
        (jnp.complexfloating, np.complex128),
    ):
        if jnp.issubdtype(x.dtype, kind):
            return x.astype(wide)
    raise TypeError(f"no wide type for {x.dtype}")


def restarts(flags: Any, n: int, axis: int, reverse: bool, *, continues: bool = False) -> Array:
    """Returns where a walk along the leading axis starts afresh, given head flags in memory order.

    A walk from the right starts afresh at the last element of a segment, the one before a head.
    One that `continues` another one does so where the axis begins only if there is a head.
    """
    if flags is None:
        starts = np.zeros((n,), bool)
    else:
        starts = np.asarray(flags) != 0
        starts = np.moveaxis(starts, axis, 0) if starts.ndim > 1 else starts
    edge = np.ones((min(n, 1), *starts.shape[1:]), bool)
    if continues:
        edge = np.zeros_like(edge) if reverse else starts[:1]
    return np.concatenate([starts[1:], edge] if reverse else [edge, starts[1:]])


_walked: dict[Any, Any] = {}
"""The latest results by what was scanned: every engine is compared with the same ones."""

LATEST = 64


def scan(fn: Callable[[Any, Any], Any], elems: Any, **form: Any) -> Any:
    """Scans a pytree of arrays sequentially; fn combines two pytrees of slices.

    `form` is what `_walk` takes. Results are not to be written to.
    """
    leaves, tree = jax.tree.flatten((elems, form))
    arrays = [np.asarray(leaf) for leaf in leaves]
    told = [(a.dtype, a.shape, a.tobytes()) for a in arrays]
    key = fn, tree, *told
    if key not in _walked:
        if len(_walked) >= LATEST:
            del _walked[next(iter(_walked))]
        _walked[key] = _walk(fn, elems, **form)
        for output in jax.tree.leaves(_walked[key]):
            output.flags.writeable = False
    return _walked[key]


def _walk(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    *,
    axis: int = 0,
    reverse: bool = False,
    exclusive: bool = False,
    identity: Any = None,
    init: Any = None,
    flags: Any = None,
) -> Any:
    """Walks along an axis, one element at a time.

    `flags` has the leaves' shape or is one row of the scanned axis. `identity` is a pytree of
    scalars, needed when exclusive. `init` is one of what broadcasts to an element.
    """
    leaves, tree = jax.tree.flatten(elems)
    assert not exclusive or identity is not None, "an exclusive scan needs its identity"
    axis %= np.ndim(leaves[0])
    wide = [np.moveaxis(widen(leaf), axis, 0) for leaf in leaves]
    n = len(wide[0])
    fresh = restarts(flags, n, axis, reverse, continues=init is not None)
    fill = jax.tree.leaves(identity) if exclusive else [leaf.dtype.type(0) for leaf in wide]
    identities = [
        np.full_like(leaf[0] if n else leaf, value) for leaf, value in zip(wide, fill, strict=True)
    ]
    outputs = [np.empty_like(leaf) for leaf in wide]
    carry = identities
    if init is not None and n:
        given = [widen(leaf) for leaf in jax.tree.leaves(init)]
        carry = [np.broadcast_to(v, leaf[0].shape) for v, leaf in zip(given, wide, strict=True)]
    with np.errstate(all="ignore"):
        for position, t in enumerate(reversed(range(n)) if reverse else range(n)):
            x = [leaf[t] for leaf in wide]
            if position == 0 and init is None:
                after = x
            else:
                joined = fn(jax.tree.unflatten(tree, carry), jax.tree.unflatten(tree, x))
                after = [
                    choose(fresh[t], a, b) for a, b in zip(x, jax.tree.leaves(joined), strict=True)
                ]
            before = [choose(fresh[t], a, b) for a, b in zip(identities, carry, strict=True)]
            for output, value in zip(outputs, before if exclusive else after, strict=True):
                output[t] = value
            carry = after
    return jax.tree.unflatten(tree, [np.moveaxis(output, 0, axis) for output in outputs])


def reduce_by_segments(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    numbers: Any,
    num_segments: int,
    *,
    identity: Any,
    axis: int = 0,
) -> Any:
    """Reduces each segment of a pytree of arrays sequentially; fn combines two pytrees of slices.

    `numbers` has an integer for each element of the axis, or of the leaves' leading dimensions: its
    segment. What is numbered outside of [0, num_segments) belongs to none. `identity` is a pytree
    of what a segment without elements holds: scalars, or arrays of the shape of one element.
    """
    leaves, tree = jax.tree.flatten(elems)
    axis %= np.ndim(leaves[0])
    wide = [np.moveaxis(widen(leaf), axis, 0) for leaf in leaves]
    numbers = np.asarray(numbers)
    numbers = np.moveaxis(numbers, axis, 0) if numbers.ndim > 1 else numbers
    results = [
        np.array(np.broadcast_to(value, (num_segments, *leaf.shape[1:])), leaf.dtype)
        for leaf, value in zip(wide, jax.tree.leaves(identity), strict=True)
    ]
    begun = np.zeros((num_segments, *numbers.shape[1:]), bool)
    with np.errstate(all="ignore"):
        for t, *row in np.ndindex(numbers.shape):
            segment = int(numbers[(t, *row)])
            if not 0 <= segment < num_segments:
                continue
            place = (segment, *row)
            total = [leaf[(t, *row)] for leaf in wide]
            if begun[place]:
                before = [result[place] for result in results]
                joined = fn(jax.tree.unflatten(tree, before), jax.tree.unflatten(tree, total))
                total = jax.tree.leaves(joined)
            begun[place] = True
            for result, value in zip(results, total, strict=True):
                result[place] = value
    return jax.tree.unflatten(tree, [np.moveaxis(result, 0, axis) for result in results])


def numbers_of(flags: Any, *, axis: int = 0) -> Array:
    """Returns each element's segment, counted from 0 along the axis, given head flags."""
    flags = np.asarray(flags)
    axis = axis % flags.ndim if flags.ndim > 1 else 0
    starts = restarts(flags, flags.shape[axis], axis, reverse=False)
    return np.moveaxis(np.cumsum(starts, axis=0, dtype=np.int64) - 1, 0, axis)


def choose(condition: Array, a: Array, b: Array) -> Array:
    """Selects between slices; the condition's axes are the leading ones of the slices."""
    condition = np.asarray(condition)
    return np.where(condition.reshape(condition.shape + (1,) * (np.ndim(a) - condition.ndim)), a, b)


def narrow(expected: Any, dtype: Any) -> Array:
    """Rounds (or wraps) a wide result to the dtype of an output."""
    with np.errstate(all="ignore"):
        return np.asarray(expected).astype(dtype)


def accumulation_eps(dtype: Any) -> float:
    """Spacing at one of the type that a scan over `dtype` accumulates in."""
    half = jnp.finfo(dtype).bits < 32
    return float(jnp.finfo(jnp.float32 if half else dtype).eps)


def bound(magnitude: Any, expected: Any, dtype: Any, *, n: int, steps: int) -> Array:
    """Returns the largest error that rounding can cause in a scan of n elements.

    `magnitude` is the same scan over absolute values; `steps` is the number of roundings in one
    combination. The second term is the rounding of the result to its own dtype and the third the
    underflow to zero that backends may apply.
    """
    accumulated = n * steps * accumulation_eps(dtype) * np.abs(magnitude)
    stored = float(jnp.finfo(dtype).eps) * np.abs(expected)
    half = jnp.finfo(dtype).bits < 32
    return np.asarray(accumulated + (stored if half else 0) + float(jnp.finfo(dtype).tiny))


def assert_within(actual: Any, expected: Any, error: Any = 0.0) -> None:
    """Asserts |actual - expected| <= error, equal infinities, and NaN in the same places."""
    actual, expected = widen(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    error = np.broadcast_to(error, expected.shape)
    with np.errstate(all="ignore"):
        same = (actual == expected) | ((actual != actual) & (expected != expected))
        if actual.dtype.kind in "fc":
            near = np.isfinite(expected) & (np.abs(actual - expected) <= error)
            good = same | near
        else:
            good = same
    if not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0])
        raise AssertionError(
            f"{np.count_nonzero(~good)} of {good.size} differ, first at {at}: "
            f"{actual[at]!r} where {expected[at]!r} +- {error[at]:.3g} is expected"
        )


def assert_equal(actual: Any, expected: Any) -> None:
    """Asserts equality after the wrap to the output's dtype; for integers, bool and selections."""
    assert_within(actual, widen(narrow(expected, np.asarray(actual).dtype)))


def assert_tree_equal(actual: Any, expected: Any) -> None:
    """Asserts the equality of two pytrees, leaf by leaf."""
    found, given = jax.tree.structure(actual), jax.tree.structure(expected)
    assert found == given  # type: ignore[operator]  # jax has no type for it
    jax.tree.map(assert_equal, actual, expected)
