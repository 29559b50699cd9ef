"""Scans in plain JAX for CPUs, one element after another by `jscan.plain.serial`.

A float sum of n elements would be wrong by n roundings. So what is carried begins anew every √n
elements or so, in stretches, and what came before one is combined with each of its results:

    prefix     the result before the stretch
    local      x[i]             x[i] ⊕ x[i+1]               ...
    result     prefix ⊕ x[i]    prefix ⊕ (x[i] ⊕ x[i+1])    ...    without prefix behind a restart

That makes it 2 √n, and takes no longer, since no result waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent
from jscan.combine import Combine
from jscan.heads import as_bool, choose
from jscan.plain import stacked
from jscan.plain.chunks import scan_in_chunks
from jscan.plain.scan import scan_in_plain_jax
from jscan.plain.serial import (
    AT_ONCE,
    Elements,
    Place,
    Read,
    Walk,
    can_be_walked,
    elements_of,
    is_fast,
    shape_of,
    words_of,
)
from jscan.primitives import parted
from jscan.starts import Start

SHORTEST = 64
"""Elements of a stretch, at least."""

Leaves: TypeAlias = Mapping[int, jax.Array]
"""Arrays by the numbers of the leaves that they are of."""


def scan_in_sequence(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segmented: bool,
    used: Sequence[bool],
    start: Sequence[jax.Array] | None = None,
    start_open: jax.Array | None = None,
    **_: Any,
) -> list[jax.Array]:
    """The results of `scan_in_plain_jax`, one element after another."""
    leaves, flags = parted(operands, segmented)
    count = len(leaves)
    before = Start.of(start, start_open)
    begin = [] if before is None else before.arrays
    begin = [lax.expand_dims(x, range(x.ndim, leaves[0].ndim)) for x in begin]
    shape = extent.full_shape([*operands, *begin])
    narrow = combine.result_dtypes([x.dtype for x in leaves])
    results = [d for d, is_used in zip(narrow, used, strict=True) if is_used]
    if 0 in shape:
        return [jnp.zeros(shape, d) for d in results]
    walk = _walk(combine, used, shape, axis=axis, reverse=reverse)
    written = results
    if walk.beside == 1:  # one by one is a slow way to convert elements
        operands = (
            *(x.astype(d) for x, d in zip(leaves, combine.dtypes, strict=True)),
            *operands[count:],
        )
        written = [d for d, is_used in zip(combine.dtypes, used, strict=True) if is_used]
    alike = extent.vary_alike([*operands, *begin])
    every = [elements_of(x, shape, axis) for x in alike]
    steps = _Steps(
        combine,
        every[:count],
        None if flags is None else every[count],
        every[len(operands) :],
        walk,
        exclusive=exclusive,
        used=used,
    )
    found = walk.run(steps.take, steps.begin, written, alike[0])
    return [x.reshape(shape).astype(d) for x, d in zip(found, results, strict=True)]


def scan_on_cpu(
    *operands: jax.Array, method: str = "auto", compact: bool = False, **params: Any
) -> list[jax.Array]:
    """The results of ``scan_p``, by what is fastest on a CPU.

    The method "xla" is a tree on every platform; in chunks if it is to keep little but its results.
    """
    if method == "auto":
        if stacked.is_large(params["combine"]):
            return scan_in_plain_jax(*operands, by=stacked.scan_stacked, **params)
        if is_faster_in_sequence(*operands, **params):
            return scan_in_sequence(*operands, **params)
    form = scan_in_chunks if compact else scan_in_plain_jax
    return form(*operands, **params)


def is_faster_in_sequence(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    used: Sequence[bool],
    start: Sequence[jax.Array] | None = None,
    **_: Any,
) -> bool:
    """Whether `scan_in_sequence` is faster than a tree."""
    shape = extent.full_shape([*operands, *(start or [])])
    if not can_be_walked(operands, shape, axis):
        return False
    walk = _walk(combine, used, shape, axis=axis, reverse=reverse)
    return walk.is_compiled_whole and (walk.beside >= AT_ONCE or is_fast(combine.jaxpr))


def _walk(
    combine: Combine,
    used: Sequence[bool],
    shape: Sequence[int],
    *,
    axis: int,
    reverse: bool,
) -> Walk:
    """The way through the arrays. Each element reads leaves, and writes results and a prefix."""
    dtypes = [
        *combine.dtypes,
        *(d for d, is_used in zip(combine.dtypes, used, strict=True) if is_used),
    ]
    wanted = [i for i, is_used in enumerate(used) if is_used]
    if _stretch(combine, wanted, shape[axis]) < shape[axis]:
        dtypes += combine.dtypes
    return Walk(shape_of(shape, axis), words_of(dtypes), reverse)


def _stretch(combine: Combine, wanted: Sequence[int], n: int) -> int:
    """The length of a stretch, a power of 2; all of an axis where nothing is gained by them.

    Nothing is where nothing is rounded. Nor is it in a recurrence h = a h + b, which a loop carries
    without products of slopes: they would be wrong, too, and may overflow.
    """
    pairs = zip(combine.monoids, combine.dtypes, strict=True)
    is_exact = all(
        name in ("max", "min") or not jnp.issubdtype(d, jnp.inexact) for name, d in pairs
    )
    if is_exact or len(combine.carried(wanted)) < combine.num_leaves:
        return n
    return min(n, max(SHORTEST, 1 << (n - 1).bit_length() // 2))


class _State(NamedTuple):
    """What is handed on from one element to the next. Leaves are known by their numbers.

    Attributes:
      local: what is combined since the stretch began, or the scan restarted in it.
      last: the result before this one.
      prefix: the result before the stretch.
      reaches: whether the prefix is part of the result.
      head: the head flag of the element before this one.
    """

    local: Leaves
    last: Leaves
    prefix: Leaves
    reaches: jax.Array
    head: jax.Array


class _Steps:
    """The steps of a scan.

    Args:
      combine: the operator.
      leaves: the elements.
      flags: head flags, if it is segmented.
      start: what it starts from: values, and whether they reach the first element. Or nothing.
      walk: the way through the arrays.
      exclusive: whether a result is without its own element.
      used: the results that are wanted.
    """

    def __init__(
        self,
        combine: Combine,
        leaves: Sequence[Elements],
        flags: Elements | None,
        start: Sequence[Elements],
        walk: Walk,
        *,
        exclusive: bool,
        used: Sequence[bool],
    ):
        self.combine, self.leaves, self.flags, self.start = combine, leaves, flags, start
        self.walk, self.exclusive = walk, exclusive
        self.size = (walk.rows, 1, walk.full[2])
        self.wanted = [i for i, is_used in enumerate(used) if is_used]
        self.stretch = _stretch(combine, self.wanted, walk.full[1])
        self.has_stretches = self.stretch < walk.full[1]
        self.has_prefix = self.has_stretches or bool(start)
        self.carried = combine.carried(self.wanted)
        # All that is between a prefix and a result is combined with it.
        self.local = range(combine.num_leaves) if self.has_prefix else self.carried

    def begin(self, read: Read) -> _State:
        """What is handed to the first element. Where nothing is said of a value it is not used."""
        some = self._elements(read)
        local = _of(some, self.local)
        prefix = last = _of(some, self.carried if self.has_stretches or self.exclusive else [])
        if self.exclusive:
            last = self._identities(last)
        like = read(self.leaves[0] if self.flags is None else self.flags)
        shape = (1, 1, 1) if self.flags is None else like.shape
        [never, _] = extent.vary_alike([jnp.zeros(shape, jnp.bool_), like])
        if not self.start:
            return _State(local, last, prefix, never, never)
        count = self.combine.num_leaves
        values = enumerate(zip(self.start[:count], self.combine.dtypes, strict=True))
        before = {i: jnp.broadcast_to(read(x), self.size).astype(d) for i, (x, d) in values}
        prefix, reaches = _of(before, self.carried), lax.bitwise_not(never)
        for is_open in self.start[count:]:
            reaches = jnp.logical_and(reaches, as_bool(read(is_open)))
        if self.exclusive:
            last = _chosen(reaches, prefix, last)
        return _State(local, last, prefix, reaches, never)

    def take(self, place: Place, state: _State) -> tuple[list[jax.Array], _State]:
        """An element's results, and what is handed to the next one."""
        local, last, prefix, reaches, head = state
        xs = self._elements(place.of)
        local = _of(xs, self.local) if place.is_first else self._combined(local, xs, self.local)
        if self.has_stretches and place.begins_turn and not place.is_first:
            # A stretch begins where a turn does, behind the element that is apart.
            begins = place.number & np.int32(self.stretch - 1) == 1
            local = _chosen(begins, xs, local)
            prefix = _chosen(begins, last, prefix)
            reaches = reaches | begins
        shown = last
        if self.flags is not None:
            flag = as_bool(place.of(self.flags))
            # From the other end a scan restarts behind a head.
            restarts, head = (head, flag) if self.walk.reverse else (flag, head)
            local = _chosen(restarts, xs, local)
            reaches = reaches & ~restarts
            if self.exclusive:
                shown = _chosen(restarts, self._identities(last), last)
        values = _of(local, self.carried)
        if self.has_prefix:
            values = _chosen(reaches, self._combined(prefix, local, self.carried), values)
        if not self.exclusive:
            shown = values
        results = [shown[i] for i in self.wanted]
        return results, _State(local, _of(values, last), prefix, reaches, head)

    def _elements(self, read: Read) -> Leaves:
        pairs = enumerate(zip(self.leaves, self.combine.dtypes, strict=True))
        return {i: jnp.broadcast_to(read(x), self.size).astype(d) for i, (x, d) in pairs}

    def _combined(self, left: Leaves, right: Leaves, wanted: Iterable[int]) -> Leaves:
        """Leaves of two sides combined, of which the left one has only those that play a part."""
        count = range(self.combine.num_leaves)
        values = self.combine([left.get(i, right[i]) for i in count], [right[i] for i in count])
        return {i: values[i] for i in wanted}

    def _identities(self, like: Leaves) -> Leaves:
        identity: Any = self.combine.identity
        return {i: lax.full_like(x, identity[i]) for i, x in like.items()}


def _of(leaves: Leaves, wanted: Iterable[int]) -> Leaves:
    return {i: leaves[i] for i in wanted}


def _chosen(flags: jax.Array, chosen: Leaves, other: Leaves) -> Leaves:
    """Leaves like the ``other`` ones: those ``chosen`` where ``flags``."""
    return {i: choose(flags, chosen[i], x) for i, x in other.items()}
