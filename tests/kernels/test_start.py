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

from jscan import engines, kernels
from jscan.combine import Combine, trace
from jscan.kernels import tuning
from jscan.plain import chunks, sequence
from jscan.plain.scan import scan_in_plain_jax
from tests import reference
from tests.cases import every_form, head_flags
from tests.engines import Engine
from tests.functions import affine
from tests.kernels.test_lowering import TRITON, cuda_program

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SHORT = tuning.Tuning(length=8, lanes=1, warps=1, window=4, strip=4)
WIDE = tuning.Tuning(length=8, lanes=4, warps=1, window=4, strip=4)
STRATEGIES = (
    "lookback",
    "serial_lookback",
    "chained",
    "repeatable",
    "reduce_then_scan",
    "scan_then_propagate",
)
ENGINES = [
    Engine("plain", "xla", ()),
    Engine("plain-in-chunks", "xla", ()),
    Engine("plain-in-sequence", "xla", ()),
    *(Engine(f"{name}-interpreted", name, (), interpreted=True) for name in ("block", *STRATEGIES)),
    *(Engine(f"{name}-gpu", name, (), gpu=True) for name in ("block", *STRATEGIES)),
]
FORMS: dict[str, Callable[..., Any]] = {
    "plain": scan_in_plain_jax,
    "plain-in-chunks": chunks.scan_in_chunks,
    "plain-in-sequence": sequence.scan_in_sequence,
}
every_engine = pytest.mark.parametrize(
    "strategy",
    [pytest.param(e, id=e.name, marks=[pytest.mark.gpu] if e.gpu else []) for e in ENGINES],
)
exclusive_or_not = pytest.mark.parametrize("exclusive", [False, True])

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
        pairs = zip(self.identity, dtypes, strict=True)
        identity: Any = tuple(np.asarray(i, d)[()] for i, d in pairs)
        found = trace(self.fn, shapes, tree, self.axis, identity)
        assert found is not None
        return found

    def run(self, engine: Engine, tile: tuning.Tuning = SHORT) -> list[Array]:
        """The results of a kernel's strategy, or of plain JAX."""
        params: dict[str, Any] = {
            "combine": self.combine,
            "axis": self.axis,
            "reverse": self.reverse,
            "exclusive": self.exclusive,
            "used": self.wanted,
        }
        if engine.method == "xla":
            form = functools.partial(FORMS[engine.name], segmented=self.flags is not None)
        else:
            cut = None if engine.method == "block" else tile
            how = {"method": engine.method, "interpret": engine.interpreted, "tile": cut}
            form = functools.partial(in_kernels, count=len(self.leaves), **how)
        operands = [*self.leaves, *([] if self.flags is None else [self.flags])]
        start = [jnp.asarray(x) for x in self.start]
        is_open = None if self.is_open is None else jnp.asarray(self.is_open)
        compiled = jax.jit(functools.partial(form, **params))
        with engines.lowering_kernels():
            scanned = compiled(*map(jnp.asarray, operands), start=start, start_open=is_open)
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

    def check(self, engine: Engine, tile: tuning.Tuning = SHORT) -> None:
        """Compares results that no rounding touches."""
        found = self.run(engine, tile)
        dtypes = [np.dtype(x.dtype) for x in self.leaves]
        kept = [d for d, u in zip(dtypes, self.wanted, strict=True) if u]
        for actual, expected, dtype in zip(found, self.expected(), kept, strict=True):
            assert actual.dtype == dtype
            reference.assert_equal(actual, expected)


def in_kernels(*operands: jax.Array, count: int, **how: Any) -> list[jax.Array]:
    """The scan of leaves, which head flags may follow."""
    leaves, flags = operands[:count], [*operands[count:], None][0]
    return kernels.scan(leaves, flags, **how)


def integers(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.int32) -> Array:
    """Small numbers, whose sums every dtype under test holds."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("n", [1, 8, 37])
@every_form
@every_engine
def test_every_form(strategy, form, n, monkeypatch):
    """Rows with and without a flag where they begin, whose starts are open or not."""
    reverse, exclusive, segmented = form
    monkeypatch.setattr(chunks, "SHORTEST", 8)
    flags = np.array(head_flags((5, n), share=0.1))
    flags[:, 0] = [False, True, False, True, False]
    is_open = np.array([True, True, False, False, True]).reshape(5, 1)
    leaves, start = [integers((5, n))], [np.arange(1, 6, dtype=np.int32).reshape(5, 1) * 1000]
    how = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    Call(jnp.add, leaves, start, SUM, flags if segmented else None, is_open, **how).check(strategy)


@pytest.mark.product
@every_form
@every_engine
def test_an_operator_that_does_not_commute(strategy, form, monkeypatch):
    reverse, exclusive, segmented = form
    monkeypatch.setattr(chunks, "SHORTEST", 8)
    leaves = [integers((29,), seed) for seed in (1, 2)]
    start = [np.array([3], np.int32), np.array([-5], np.int32)]
    flags = np.array(head_flags((29,), share=0.1)) if segmented else None
    if flags is not None:
        flags[0] = False
    how = {"reverse": reverse, "exclusive": exclusive, "used": (False, True)}
    Call(affine, leaves, start, AFFINE, flags, **how).check(strategy)


@pytest.mark.sweep
@exclusive_or_not
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@every_engine
def test_rows_and_lanes_each_have_a_start(strategy, axis, reverse, exclusive):
    shape = tuple(int(size) for size in np.roll([19, 3, 6], axis))
    one = tuple(1 if d == axis else size for d, size in enumerate(shape))
    start, is_open = integers(one, 1) * 1000 + 100, integers(one, 2) > -5
    flags = head_flags(shape, share=0.1)
    how = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    call = Call(jnp.add, [integers(shape)], [start], SUM, flags, is_open, **how)
    call.check(strategy, WIDE if axis < 2 else SHORT)


@pytest.mark.product
@exclusive_or_not
@every_engine
def test_dimensions_that_are_shared(strategy, exclusive):
    """Of some rows the start alone differs, of others a leaf, and of lanes the flags."""
    leaves = [integers((1, 3, 11, 1), 1), integers((1, 1, 11, 5), 2)]
    start = [integers((2, 1, 1, 5), 3), integers((1, 3, 1, 1), 4)]
    is_open = np.array([True, False, True]).reshape(1, 3, 1, 1)
    flags = head_flags((1, 1, 11, 5), share=0.1)
    call = Call(affine, leaves, start, AFFINE, flags, is_open, 2, exclusive=exclusive)
    call.check(strategy, WIDE)


@pytest.mark.product
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@exclusive_or_not
@every_engine
def test_the_start_of_a_narrow_leaf_is_not_rounded(strategy, exclusive, dtype):
    """4097 - 4096 is 1; but 4097 is 4096 in the leaf's dtype."""
    x = np.zeros(21, jnp.dtype(dtype))
    x[0] = -4096
    call = Call(jnp.add, [x], [np.array([4097], np.float32)], SUM, exclusive=exclusive)
    [found] = call.run(strategy)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, [*([4096] if exclusive else []), *([1] * 21)][:21])


@pytest.mark.product
@exclusive_or_not
@every_engine
def test_complex_numbers(strategy, exclusive):
    x = (integers((21,), 1) + 1j * integers((21,), 2)).astype(np.complex64)
    start, is_open = [np.array([1000 - 77j], np.complex64)], np.array([True])
    Call(jnp.add, [x], start, SUM, None, is_open, exclusive=exclusive).check(strategy)


@pytest.mark.product
@pytest.mark.parametrize("reverse", [False, True])
@exclusive_or_not
@every_engine
def test_a_sum_of_exponentials(strategy, exclusive, reverse):
    """Kernels add up exponentials of differences, unless the start is far above or below."""
    x = integers((5, 21)).astype(np.float32)
    start = [np.array([12.5, -200.0, 200.0, -np.inf, np.inf], np.float32).reshape(5, 1)]
    how = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    call = Call(jnp.logaddexp, [x], start, (-np.inf,), **how)
    [found], [expected] = call.run(strategy), call.expected()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.product
@pytest.mark.parametrize("start", [False, True])
@exclusive_or_not
@every_engine
def test_booleans(strategy, exclusive, start):
    call = functools.partial(Call, jnp.logical_or, [integers((21,)) == 9], [np.array([start])])
    call((False,), exclusive=exclusive).check(strategy)


@exclusive_or_not
@every_engine
def test_an_axis_without_elements(strategy, exclusive):
    leaves, start = [np.ones((0, 3), np.float32)], [np.ones((1, 3), np.float32)]
    [found] = Call(jnp.add, leaves, start, SUM, exclusive=exclusive).run(strategy)
    assert found.shape == (0, 3)


@pytest.mark.product
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("method", ["block", *STRATEGIES])
def test_a_start_costs_no_kernel_and_no_copy(method, axis, segmented):
    shape = (1000, 512) if method == "block" else (1 << 16, 64) if axis == 0 else (4, 1 << 18)
    one = tuple(1 if d == axis else size for d, size in enumerate(shape))
    structure = jax.ShapeDtypeStruct
    x, flags = structure(shape, jnp.float16), structure(shape, jnp.bool_)
    combine = Call(jnp.add, [x], [structure(one, jnp.float32)], SUM, axis=axis).combine

    def scan(x, flags, start, is_open):
        how: dict[str, Any] = {"combine": combine, "axis": axis, "reverse": True, "used": (True,)}
        how |= {"start": start, "start_open": is_open, "exclusive": False, "method": method}
        return kernels.scan([x], flags if segmented else None, **how)

    def calls(*start):
        with engines.lowering_kernels():
            program = cuda_program(scan, x, flags, *start)
        assert f"tensor<{shape[0]}x{shape[1]}xf32>" not in program
        return program.count(TRITON)

    start = [structure(one, jnp.float32)], structure(one, jnp.bool_)
    assert calls(*start) == calls(None, None) > 0
