"""Scans from a start value, by every strategy and in plain JAX, against a loop in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jscan import kernels
from jscan.combine import Combine, trace
from jscan.kernels import tuning
from jscan.plain import chunks
from jscan.plain.scan import scan_in_plain_jax
from tests import reference
from tests.cases import FORMS, form_name, head_flags
from tests.functions import affine
from tests.kernels.test_lowering import TRITON, cuda_program

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SHORT = tuning.Tuning(length=8, lanes=1, warps=1, window=4, strip=4)
WIDE = tuning.Tuning(length=8, lanes=4, warps=1, window=4, strip=4)
STRATEGIES = ("lookback", "serial_lookback", "chained", "reduce_then_scan", "scan_then_propagate")
WAYS = ("plain", "chunks", "block", *STRATEGIES)

IN_NUMPY: dict[Any, Any] = {
    jnp.add: np.add,
    jnp.logaddexp: np.logaddexp,
    jnp.logical_or: np.logical_or,
}
SUM = (0,)
AFFINE = (1, 0)


@dataclass(frozen=True)
class Call:
    """A scan from a start, in each of the ways that there are."""

    fn: Callable[[Any, Any], Any]
    leaves: Sequence[Any]
    start: Sequence[Any]
    identity: tuple[Any, ...]
    flags: Any = None
    is_open: Any = None
    axis: int = 0
    reverse: bool = False
    exclusive: bool = False
    used: tuple[bool, ...] | None = None

    @property
    def wanted(self) -> tuple[bool, ...]:
        """Which results somebody uses."""
        return self.used or (True,) * len(self.leaves)

    @property
    def combine(self) -> Combine:
        """The operator as data."""
        full = np.broadcast_shapes(*(np.shape(x) for x in self.leaves))
        shapes = [jax.ShapeDtypeStruct(full, x.dtype) for x in self.leaves]
        tree = jax.tree.structure(0 if len(shapes) == 1 else tuple(shapes))
        dtypes = [s.dtype for s in self.start]
        identity = tuple(np.asarray(i, d)[()] for i, d in zip(self.identity, dtypes, strict=True))
        found = trace(self.fn, shapes, tree, self.axis, identity)
        assert found is not None
        return found

    def run(self, way: str, tile: tuning.Tuning | None = SHORT) -> list[Array]:
        """The results of a kernel's strategy, interpreted, or of plain JAX."""
        params: dict[str, Any] = {
            **{"combine": self.combine, "axis": self.axis, "reverse": self.reverse},
            **{"exclusive": self.exclusive, "used": self.wanted},
            "start": [jnp.asarray(x) for x in self.start],
            "start_open": None if self.is_open is None else jnp.asarray(self.is_open),
        }
        leaves = [jnp.asarray(x) for x in self.leaves]
        flags = None if self.flags is None else jnp.asarray(self.flags)
        if way in ("plain", "chunks"):
            operands = [*leaves, *([] if flags is None else [flags])]
            form = scan_in_plain_jax if way == "plain" else chunks.scan_in_chunks
            scanned = form(*operands, segmented=flags is not None, **params)
        else:
            tile = None if way == "block" else tile
            scanned = kernels.scan(leaves, flags, method=way, interpret=True, tile=tile, **params)
        return [np.asarray(x) for x in scanned]

    def expected(self) -> list[Array]:
        """The used results by a loop: in wide types, one element at a time."""
        arrays = [*self.leaves, *self.start]
        arrays += [x for x in (self.flags, self.is_open) if x is not None]
        full = np.broadcast_shapes(*(np.shape(x) for x in arrays))
        n, axis = np.shape(self.leaves[0])[self.axis], self.axis
        full = (*full[:axis], n, *full[axis + 1 :])

        def rows(x: Any) -> Array:
            shape = (*full[:axis], np.shape(x)[axis], *full[axis + 1 :])
            return np.moveaxis(np.broadcast_to(np.asarray(x), shape), axis, 0)

        xs = [reference.widen(rows(x)) for x in self.leaves]
        ys = [np.empty_like(x) for x in xs]
        if n == 0:
            return [np.moveaxis(y, 0, axis) for y, u in zip(ys, self.wanted, strict=True) if u]
        heads = np.zeros(xs[0].shape, bool) if self.flags is None else rows(self.flags) != 0
        nothing = [np.full_like(x[0], i) for x, i in zip(xs, self.identity, strict=True)]
        carry = [reference.widen(rows(s)[0]) for s in self.start]
        fn, reached = IN_NUMPY.get(self.fn, self.fn), np.ones(xs[0].shape[1:], bool)
        if self.is_open is not None:
            reached = rows(self.is_open)[0] != 0
        for t in reversed(range(n)) if self.reverse else range(n):
            if not self.reverse:
                reached = reached & ~heads[t]
            x = [leaf[t] for leaf in xs]
            both = jax.tree.leaves(fn(self._packed(carry), self._packed(x)))
            after = [np.where(reached, b, a) for a, b in zip(x, both, strict=True)]
            before = [np.where(reached, c, i) for c, i in zip(carry, nothing, strict=True)]
            for y, value in zip(ys, before if self.exclusive else after, strict=True):
                y[t] = value
            # An element that ends a walk's segment leaves nothing to the next one.
            carry, reached = after, ~heads[t] if self.reverse else np.ones_like(reached)
        return [np.moveaxis(y, 0, axis) for y, u in zip(ys, self.wanted, strict=True) if u]

    def _packed(self, leaves: Sequence[Any]) -> Any:
        return leaves[0] if len(leaves) == 1 else tuple(leaves)

    def check(self, way: str, tile: tuning.Tuning | None = SHORT) -> None:
        """Compares results that no rounding touches."""
        found = self.run(way, tile)
        dtypes = [np.dtype(x.dtype) for x in self.leaves]
        kept = [d for d, u in zip(dtypes, self.wanted, strict=True) if u]
        for actual, expected, dtype in zip(found, self.expected(), kept, strict=True):
            assert actual.dtype == dtype
            reference.assert_equal(actual, expected)


def integers(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.int32) -> Array:
    """Small numbers, whose sums every dtype under test holds."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


every_way = pytest.mark.parametrize("method", WAYS)
every_strategy = pytest.mark.parametrize("method", ("block", *STRATEGIES))
every_form = pytest.mark.parametrize("form", FORMS, ids=form_name)


def flags_of(shape: tuple[int, ...], segmented: bool, first: bool) -> Array | None:
    """Head flags, of which the first is as asked for; None where there are no segments."""
    if not segmented:
        return None
    flags = np.array(head_flags(shape, share=0.1))
    flags[(0,) * len(shape)] = first
    return flags


@every_form
@pytest.mark.parametrize("n", [1, 7, 37])
@every_way
def test_sums_in_every_form(method, n, form, monkeypatch):
    reverse, exclusive, segmented = form
    monkeypatch.setattr(chunks, "SHORTEST", 8)
    how = {"reverse": reverse, "exclusive": exclusive}
    for first in (False, True) if segmented else (False,):
        flags = flags_of((n,), segmented, first)
        for is_open in (None, np.array([True]), np.array([False])):
            call = functools.partial(Call, jnp.add, [integers((n,))], [np.array([1000], np.int32)])
            call(SUM, flags, is_open, **how).check(method)


@every_form
@every_way
def test_an_operator_that_does_not_commute(method, form):
    reverse, exclusive, segmented = form
    leaves = [integers((29,), seed) for seed in (1, 2)]
    start = [np.array([3], np.int32), np.array([-5], np.int32)]
    how = {"reverse": reverse, "exclusive": exclusive, "used": (False, True)}
    flags = flags_of((29,), segmented, False)
    Call(affine, leaves, start, AFFINE, flags, **how).check(method)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reverse", [False, True])
@every_way
def test_rows_and_lanes_each_have_a_start(method, axis, reverse):
    shape = tuple(np.roll([19, 3, 6], axis))
    one = tuple(1 if d == axis else size for d, size in enumerate(shape))
    flags = flags_of(shape, True, False)
    start, is_open = integers(one, 1) * 1000, integers(one, 2) > 0
    for exclusive in (False, True):
        how = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
        call = Call(jnp.add, [integers(shape)], [start], SUM, flags, is_open, **how)
        call.check(method, WIDE if axis < 2 else SHORT)


@pytest.mark.parametrize("exclusive", [False, True])
@every_way
def test_dimensions_that_are_shared(method, exclusive):
    """The start alone differs between some rows, a leaf between others, and flags between lanes."""
    leaves = [integers((1, 3, 11, 1), 1), integers((1, 1, 11, 5), 2)]
    start = [integers((2, 1, 1, 5), 3), integers((1, 3, 1, 1), 4)]
    flags = flags_of((1, 1, 11, 5), True, False)
    is_open = np.array([True, False, True]).reshape(1, 3, 1, 1)
    Call(affine, leaves, start, AFFINE, flags, is_open, 2, exclusive=exclusive).check(method, WIDE)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("exclusive", [False, True])
@every_way
def test_the_start_of_a_narrow_leaf_is_not_rounded(method, exclusive, dtype):
    """Rounded to the leaf's dtype, 4097 would be 4096, and so would any sum that goes on from it."""
    leaves, start = [integers((21,), dtype=jnp.dtype(dtype))], [np.array([4097], np.float32)]
    call = Call(jnp.add, [leaves[0] * 0 - 455], start, SUM, exclusive=exclusive)
    [found], [expected] = call.run(method), call.expected()
    np.testing.assert_array_equal(found, expected.astype(found.dtype))
    assert found.dtype == jnp.dtype(dtype)


@pytest.mark.parametrize("exclusive", [False, True])
@every_way
def test_complex_numbers(method, exclusive):
    x = (integers((21,), 1) + 1j * integers((21,), 2)).astype(np.complex64)
    is_open = np.array([True])
    start = [np.array([1000 - 77j], np.complex64)]
    Call(jnp.add, [x], start, SUM, None, is_open, exclusive=exclusive).check(method)


@pytest.mark.parametrize("form", [(False, False), (False, True), (True, False), (True, True)])
@every_way
def test_logaddexp_and_booleans(method, form):
    """A sum of exponentials, which kernels add up in another domain; and leaves of one bit."""
    reverse, exclusive = form
    how = {"reverse": reverse, "exclusive": exclusive}
    x = integers((21,)).astype(np.float32)
    for value in (12.5, -200.0, 200.0, -np.inf):
        start = [np.array([value], np.float32)]
        call = Call(jnp.logaddexp, [x], start, (-np.inf,), **how)
        [found], [expected] = call.run(method), call.expected()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for value in (False, True):
        start = [np.array([value])]
        Call(jnp.logical_or, [x == 9], start, (False,), **how).check(method)


@pytest.mark.parametrize("exclusive", [False, True])
@every_way
def test_an_axis_without_elements(method, exclusive):
    start = [np.ones((1, 3), np.float32)]
    [found] = Call(jnp.add, [np.ones((0, 3), np.float32)], start, SUM, exclusive=exclusive).run(method)
    assert found.shape == (0, 3)
