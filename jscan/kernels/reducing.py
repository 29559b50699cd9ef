"""Reductions of arrays: the operands of their kernels, the cut, and which kernels run."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan.combine import Combine
from jscan.kernels import absent, by_rows, fill, flagging, joining, keys, launch, partials, tuning
from jscan.kernels.addresses import WIDE
from jscan.kernels.complex import real_dtypes, real_identity
from jscan.kernels.keys import Keys
from jscan.kernels.operator import prepare
from jscan.kernels.products import Product
from jscan.kernels.reduction import Reduction


class Made(NamedTuple):
    """Elements that are made in the kernel, of what lies in place and of what it gathers."""

    function: core.ClosedJaxpr
    dense: Sequence[jax.Array]  # as kernels read it; nothing is gathered where there is none
    elements: Sequence[jax.ShapeDtypeStruct]  # what they would be together in memory
    placed: bool = False  # whether they are made of their places, too

    def gathered(
        self, full: tuple[int, ...], axis: int, identity: tuple[Any, ...] | None
    ) -> tuple[list[jax.Array], Product]:
        """The dense operands, flat, and how elements are made of them."""
        assert identity is not None
        columns = self.dense[0].shape[axis] if self.dense else 0
        along = (*full[:axis], columns, *full[axis + 1 :])
        viewed = [launch.view(x, along, axis) for x in self.dense]
        views = tuple(view for _, view in viewed)
        product = Product(self.function, views, columns, identity, self.placed)
        return [flat for flat, _ in viewed], product


def reduce(
    leaves: Sequence[jax.Array],
    descriptor: jax.Array | None,
    order: jax.Array | None = None,
    *,
    made: Made | None = None,
    combine: Combine,
    axis: int,
    kind: str,
    num_segments: int,
    method: str,
    shift: int = 0,
    exact: bool = False,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """Reduces ``leaves`` along ``axis``, which is ``num_segments`` long in the results.

    Where it is to be ``exact``, results have the dtypes in which leaves are combined. Ids may
    differ in a segment by ``shift`` low bits.

    They are read in an ``order``, if there is one: the descriptor's is that of the places in it,
    and leaves have places in 32 bits. Where elements are `Made`, the leaves are what lies in place.

    Every operand's dimensions are full or 1. Runs where `refusals.why_not` finds nothing to
    object to, on arrays that have elements.
    """
    elements = leaves if made is None else made.elements
    full = np.broadcast_shapes(*(leaf.shape for leaf in elements))
    operator = prepare(combine)
    results = combine.dtypes if exact else combine.result_dtypes([x.dtype for x in elements])
    shape = tuning.Shape.of(elements, axis, operator, segmented=kind != "whole", tile=tile)
    if method == "auto" and tuning.suits_levels(shape):
        method = "reduce_then_scan"
    tuned = tuning.chosen(shape, method, tuning.REDUCTION)
    if method == "repeatable":
        tuned = tuning.in_groups(shape, tuned)
    if kind == "offsets":
        # A program searches the offsets of one row.
        tuned = dataclasses.replace(tuned, rows=1)
    # What rows share is not read by words, and would be read in front of its memory.
    whole = kind == "whole" and all(x.size == math.prod(full) for x in leaves)
    may = whole and method in ("auto", "lookback") and tuned.rows == 1
    by_words = may and tuning.suits_words_of(shape)
    cut = launch.Cut(launch.readable(leaves), full, axis, tuned, by_words=by_words)
    result_shape = (*full[:axis], num_segments, *full[axis + 1 :])
    real_results = tuple(real for d in results for real in real_dtypes(d))
    cut_by = num_segments, tuned.length
    described, told = _keys(descriptor, full, axis, kind, *cut_by, interpret=interpret)
    told = dataclasses.replace(told, shift=shift, seeks=made is not None)
    order_view = None
    if order is not None:
        flat, order_view = launch.view(order, full, axis)
        described.append(flat)
        if cut.geometry.row_blocks > 1:
            # What a row's tiles gather is in the cache while no other rows are: sums of (2048,
            # 32768), float32, into 8 by a plan each, 590 µs and 301 (H200, 2026-11-29).
            cut.geometry = dataclasses.replace(cut.geometry, row_by_row=True)
    identity = None if combine.identity is None else tuple(real_identity(combine.identity))
    product = None
    if made is not None:
        dense, product = made.gathered(full, axis, identity)
        described += dense
    task = Reduction(
        geometry=cut.geometry,
        strip=min(tuned.strip, tuned.length) or tuned.length,
        operator=operator,
        dtypes=tuple(np.dtype(a.dtype) for a in operator.out_avals),
        results=real_results,
        identity=identity,
        used=(True,) * len(real_results),
        views=cut.views,
        keys=told,
        chained=method == "chained" and cut.geometry.tiles > 1,
        fixed=method == "repeatable",
        order=order_view,
        product=product,
    )
    by_itself = _rows(task, cut, described, method) if tile is None else None
    if by_itself is not None:
        task = dataclasses.replace(task, long=by_itself.long if by_itself.long < full[axis] else 0)
        operands = [*cut.operands, *described]
        starts, marks = by_rows.run(task, by_itself, operands, interpret=interpret)
        if not marks:
            return _shaped(starts, result_shape, results)
        described += marks
    elif absent.pays(told, described, task.written):
        written = cut.geometry, task.empty
        starts = absent.filled(told, described[0], *written, interpret=interpret)
    else:
        varies = jax.typeof(cut.operands[0]).mat
        starts = [
            fill.filled(size, value, varies, interpret=interpret)
            for (size, _), value in zip(task.written, task.empty, strict=False)
        ]
    if method in _LEVELS:
        outputs = partials.run(task, cut, described, interpret, starts)
    else:
        state = joining.tile_state(task, tuned.window) if task.geometry.tiles > 1 else None
        kernel = by_rows.long_rows if task.long else joining.kernel
        body = functools.partial(kernel, task, tuned.window)
        outputs = cut.call(task, described, body, state, "jscan_reduce", interpret, starts)
    return _shaped(outputs, result_shape, results)


def _shaped(
    outputs: Sequence[jax.Array], shape: tuple[int, ...], dtypes: Sequence[np.dtype]
) -> list[jax.Array]:
    """What kernels write as results of ``dtypes``."""
    return launch.joined([x.reshape(shape) for x in outputs], dtypes)


def _rows(
    task: Reduction, cut: launch.Cut, described: Sequence[jax.Array], method: str
) -> tuning.ByRows | None:
    """How rows of a sparse matrix are taken several to a program; None where they are not."""
    g, keys = task.geometry, task.keys
    whole = keys.kind == "offsets" and keys.bounds == keys.num_segments + 1
    near = max(x.size for x in (*cut.operands, *described)) < WIDE
    if task.product is None or method != "auto" or not (whole and near):
        return None
    return tuning.by_rows(g.n, keys.num_segments, g.inner)


_LEVELS = ("scan_then_propagate", "reduce_then_scan")
"""Strategies that reduce level by level."""


def _keys(
    descriptor: jax.Array | None,
    full: Sequence[int],
    axis: int,
    kind: str,
    num_segments: int,
    length: int,
    *,
    interpret: bool,
) -> tuple[list[jax.Array], Keys]:
    """The kernel's operands that describe segments, and how it reads keys from them."""
    if descriptor is None:
        return [], Keys(kind, num_segments, ())
    # Ids beyond the signed range are dropped as negative ones are.
    descriptor = launch.signed(launch.whole_bytes(descriptor))
    if kind == "flags":
        descriptor = flagging.one_byte(descriptor, interpret=interpret)
    if kind == "offsets":
        bounds = descriptor.shape[axis]
        flat, view = launch.view(descriptor, (*full[:axis], bounds, *full[axis + 1 :]), axis)
        return [flat], Keys(kind, num_segments, (view,), bounds)
    flat, view = launch.view(descriptor, full, axis)
    if kind not in keys.COUNTED:
        return [flat], Keys(kind, num_segments, (view,))
    counts = _heads_before(descriptor, axis, kind, length)
    tiles = (*full[:axis], counts.shape[axis], *full[axis + 1 :])
    flat_counts, counts_view = launch.view(counts, tiles, axis)
    return [flat, flat_counts], Keys(kind, num_segments, (view, counts_view))


def _heads_before(descriptor: jax.Array, axis: int, kind: str, length: int) -> jax.Array:
    """The number of heads before each tile; the first element of a row always counts as one."""
    n = descriptor.shape[axis]
    tiles = -(-n // length)
    if kind == "flags":
        heads = lax.ne(descriptor, lax.full_like(descriptor, 0))
    else:
        before = lax.slice_in_dim(descriptor, 0, n - 1, axis=axis)
        heads = lax.slice_in_dim(descriptor, 1, n, axis=axis) != before
    heads = lax.slice_in_dim(heads, heads.shape[axis] - (n - 1), heads.shape[axis], axis=axis)
    padding = [(0, 0, 0)] * heads.ndim
    padding[axis] = (1, tiles * length - n, 0)
    heads = lax.pad(heads, np.bool_(False), padding)
    split = heads.reshape(*heads.shape[:axis], tiles, length, *heads.shape[axis + 1 :])
    counts = jnp.sum(split, axis + 1, dtype=jnp.int32)
    return lax.cumsum(counts, axis) - counts + 1
