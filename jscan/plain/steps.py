"""What a loop over the elements of a scan does: for one element, or for those of a turn at once.

A float sum of n elements would be wrong by n roundings. So what is carried begins anew every √n
elements or so, in stretches, and what came before one is combined with each of its results:

    prefix     the result before the stretch
    local      x[i]             x[i] ⊕ x[i+1]               ...
    result     prefix ⊕ x[i]    prefix ⊕ (x[i] ⊕ x[i+1])    ...    without prefix behind a restart

That makes it 2 √n, and takes no longer, since no result waits for the one before it.

Each local result of a single row waits for the one before it, which takes longer than to read and
to write them. So the elements of a turn are combined as a tree, and what came before the turn, the
base, with each part of it. Once a turn something waits:

    x0      x1      x2      x3          base ⊕ x0 = y0       base ⊕ x01 = y1
    x0      x01     x2      x23         y1 ⊕ x2 = y2         base ⊕ x03 = y3
                            x03         local ⊕ x03 ─► local,      prefix ⊕ local ─► the next base
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
from jscan.plain.serial import AT_ONCE, Elements, Place, Read, Walk, one_by_one, words_of

SHORTEST = 64
"""Elements of a stretch, at least."""

READ = 300
"""Words of 32 bits that fusions of a turn read, at most, where XLA counts them all (jax 0.10)."""

Leaves: TypeAlias = Mapping[int, jax.Array]
"""Arrays by the numbers of the leaves that they are of."""


def stretch_of(combine: Combine, wanted: Sequence[int], n: int) -> int:
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


def are_carried(combine: Combine, used: Sequence[bool]) -> bool:
    """Whether a loop carries every leaf of what comes before an element."""
    wanted = [i for i, is_used in enumerate(used) if is_used]
    return len(combine.carried(wanted)) == combine.num_leaves


def has_trees(combine: Combine, used: Sequence[bool], segmented: bool) -> bool:
    """Whether turns are combined as trees: where every leaf is carried, and takes its time.

    Between two heads integers are added as fast as they are read.
    """
    is_fast = segmented and not any(jnp.issubdtype(d, jnp.inexact) for d in combine.dtypes)
    return are_carried(combine, used) and not is_fast


def most_of(combine: Combine, segmented: bool) -> int:
    """How many elements of an array `Trees` take in a turn, at most; a power of 2.

    Of flags or several leaves 8 take longer than 4. With jax 0.10 XLA makes a fusion of each result
    and of each value that is handed on, which reads elements before it and what is handed on, and
    counts all that they read.
    """
    leaves, words = combine.num_leaves, words_of(combine.dtypes)
    most = AT_ONCE // 2 if segmented or leaves > 1 else AT_ONCE
    if jax.__version_info__ >= (0, 11):
        return most
    while most > 1 and leaves * words * (most * (most // 2 + 3) + 2 * (most + 3)) > READ:
        most //= 2
    return most


class State(NamedTuple):
    """What is handed on from one element to the next. Leaves are known by their numbers.

    Attributes:
      local: what is combined since the stretch began, or the scan restarted in it.
      last: the result before this one, where that is handed on.
      prefix: the result before the stretch.
      reaches: whether the prefix is part of the result.
      head: the head flag of the element before this one.
    """

    local: Leaves
    last: Leaves
    prefix: Leaves
    reaches: jax.Array
    head: jax.Array


class Steps:
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
        self.stretch = stretch_of(combine, self.wanted, walk.full[1])
        self.has_stretches = self.stretch < walk.full[1]
        self.has_prefix = self.has_stretches or bool(start)
        self.carried = combine.carried(self.wanted)
        # Where a stretch has a loop of its own the result before it is made as it begins.
        self.keeps_last = exclusive or (self.has_stretches and not walk.has_loops_of_stretches)
        # All that is between a prefix and a result is combined with it.
        self.local = range(combine.num_leaves) if self.has_prefix else self.carried

    def begin(self, read: Read) -> State:
        """What is handed to the first element. Where nothing is said of a value it is not used."""
        some = self._elements(read)
        local = _of(some, self.local)
        prefix = _of(some, self.carried if self.has_stretches or self.exclusive else [])
        last = prefix if self.keeps_last else {}
        if self.exclusive:
            last = self._identities(last)
        like = read(self.leaves[0] if self.flags is None else self.flags)
        shape = (1, 1, 1) if self.flags is None else like.shape
        [never, _] = extent.vary_alike([jnp.zeros(shape, jnp.bool_), like])
        if not self.start:
            return State(local, last, prefix, never, never)
        count = self.combine.num_leaves
        values = enumerate(zip(self.start[:count], self.combine.dtypes, strict=True))
        before = {i: jnp.broadcast_to(read(x), self.size).astype(d) for i, (x, d) in values}
        prefix, reaches = _of(before, self.carried), lax.bitwise_not(never)
        for is_open in self.start[count:]:
            reaches = jnp.logical_and(reaches, as_bool(read(is_open)))
        if self.exclusive:
            last = _chosen(reaches, prefix, last)
        return State(local, last, prefix, reaches, never)

    def turn(self, places: Place, state: State) -> tuple[list[list[jax.Array]], State]:
        """The results of the elements of a turn, and what is handed to the next one."""
        return one_by_one(self._take)(places, state)

    def _take(self, place: Place, state: State) -> tuple[list[jax.Array], State]:
        """An element's results, and what is handed to the next one."""
        local, last, prefix, reaches, head = state
        xs = self._elements(place.of)
        local = _of(xs, self.local) if place.is_first else self._combined(local, xs, self.local)
        if place.begins:
            prefix = self._result(prefix, reaches, state.local)
            local, reaches = _of(xs, self.local), reaches | True
        elif (
            self.has_stretches and place.begins is None and place.begins_turn and not place.is_first
        ):
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
        # In a stretch that has a loop of its own the prefix reaches all, but for restarts.
        inside = place.begins is not None and self.flags is None
        values = self._result(prefix, None if inside else reaches, local)
        if not self.exclusive:
            shown = values
        results = [shown[i] for i in self.wanted]
        return results, State(local, _of(values, last), prefix, reaches, head)

    def _result(self, prefix: Leaves, reaches: jax.Array | None, local: Leaves) -> Leaves:
        """What is combined so far, behind the prefix where that ``reaches``: everywhere if None."""
        values = _of(local, self.carried)
        if not self.has_prefix:
            return values
        joined = self._combined(prefix, local, self.carried)
        return joined if reaches is None else _chosen(reaches, joined, values)

    def _elements(self, read: Read) -> Leaves:
        return self._wide(map(read, self.leaves))

    def _wide(self, elements: Iterable[jax.Array]) -> Leaves:
        pairs = enumerate(zip(elements, self.combine.dtypes, strict=True))
        return {i: jnp.broadcast_to(x, self.size).astype(d) for i, (x, d) in pairs}

    def _combined(self, left: Leaves, right: Leaves, wanted: Iterable[int]) -> Leaves:
        """Leaves of two sides combined, of which the left one has only those that play a part."""
        count = range(self.combine.num_leaves)
        values = self.combine([left.get(i, right[i]) for i in count], [right[i] for i in count])
        return {i: values[i] for i in wanted}

    def _identities(self, like: Leaves) -> Leaves:
        identity: Any = self.combine.identity
        return {i: lax.full_like(x, identity[i]) for i, x in like.items()}


class Part(NamedTuple):
    """Elements of a turn that follow each other.

    Attributes:
      restarts: whether the scan restarts among them; None where it does so nowhere.
      values: what they combine to, since the last restart.
    """

    restarts: jax.Array | None
    values: Leaves


class Trees(Steps):
    """The same, with the elements of a turn combined as a tree. Every leaf has to be carried.

    The ``last`` result that is handed on is the base of the next turn, unless the prefix may not
    reach that: then the base is made in its turn, which takes a fifth less (jax 0.12, 2026-11-25).
    """

    @property
    def may_not_reach(self) -> bool:
        """Whether there is a prefix that may be no part of a result."""
        return self.has_prefix and (bool(self.start) or self.flags is not None)

    def begin(self, read: Read) -> State:
        """What is handed to the first element."""
        state = super().begin(read)
        return state._replace(last=self._elements(read))

    def turn(self, places: Place, state: State) -> tuple[list[list[jax.Array]], State]:
        """The results of the elements of a turn, and what is handed to the next one."""
        parts, head = self._parts(places, state.head)
        if places.is_first:
            values, base, state = self._first(parts[0], state)
        else:
            values, base, state = self._next(places, parts, state)
        if self.exclusive:
            values = [base, *values[:-1]]
        if self.exclusive and not places.is_first:
            values = [
                x if part.restarts is None else _chosen(part.restarts, self._identities(x), x)
                for part, x in zip(parts, values, strict=True)
            ]
        return [[x[i] for i in self.wanted] for x in values], state._replace(head=head)

    def _parts(self, places: Place, head: jax.Array) -> tuple[list[Part], jax.Array]:
        """Each element of a turn, and the head flag that is handed on."""
        each = zip(*map(places.each, self.leaves), strict=True)
        values = [self._wide(xs) for xs in each]
        if self.flags is None:
            return [Part(None, x) for x in values], head
        restarts = [as_bool(x) for x in places.each(self.flags)]
        if self.walk.reverse:  # from the other end a scan restarts behind a head
            *restarts, head = head, *restarts
        return [Part(flag, x) for flag, x in zip(restarts, values, strict=True)], head

    def _first(self, part: Part, state: State) -> tuple[list[Leaves], Leaves, State]:
        """The result of the element that nothing but a start comes before, and what does."""
        base = self._identities(part.values) if self.exclusive else {}
        value, reaches = part.values, state.reaches
        if self.start:
            reaches = reaches if part.restarts is None else reaches & ~part.restarts
            base = _chosen(reaches, state.prefix, base)
            value = self._behind(state.prefix, Part(~reaches, value))
        state = state._replace(local=part.values, last=value, reaches=reaches)
        return [value], base, state

    def _next(
        self, places: Place, parts: Sequence[Part], state: State
    ) -> tuple[list[Leaves], Leaves, State]:
        """The results of a turn, what comes before it, and what is handed on."""
        local, base, prefix, reaches, _ = state
        if self.may_not_reach:
            joined = self._combined(prefix, local, self.carried)
            base = _chosen(reaches, joined, local)
        values, whole = self._tree(base, parts)
        if not self.has_prefix:
            return values, base, state._replace(last=values[-1])
        anew = whole.restarts
        if self.has_stretches:
            # A stretch begins where a turn does, behind the element that is apart.
            begins = places.number & np.int32(self.stretch - 1) == 1
            prefix, reaches = _chosen(begins, base, prefix), reaches | begins
            anew = begins if anew is None else anew | begins
        local = self._behind(local, Part(anew, whole.values))
        if whole.restarts is not None:
            reaches = reaches & ~whole.restarts
        last = base if self.may_not_reach else self._combined(prefix, local, self.carried)
        return values, base, State(local, last, prefix, reaches, state.head)

    def _tree(self, before: Leaves, parts: Sequence[Part]) -> tuple[list[Leaves], Part]:
        """The results of parts behind what comes ``before`` them, and all parts combined."""
        if len(parts) == 1:
            return [self._behind(before, parts[0])], parts[0]
        middle = len(parts) // 2
        left, some = self._tree(before, parts[:middle])
        right, rest = self._tree(left[-1], parts[middle:])
        whole = self._joined(some, rest)
        # The last result does not wait for those before it.
        return [*left, *right[:-1], self._behind(before, whole)], whole

    def _joined(self, left: Part, right: Part) -> Part:
        if left.restarts is None or right.restarts is None:
            restarts = None
        else:
            restarts = left.restarts | right.restarts
        return Part(restarts, self._behind(left.values, right))

    def _behind(self, before: Leaves, part: Part) -> Leaves:
        """A part combined with what comes before it, unless the scan restarts in it."""
        found = self._combined(before, part.values, self.carried)
        return found if part.restarts is None else _chosen(part.restarts, part.values, found)


def _of(leaves: Leaves, wanted: Iterable[int]) -> Leaves:
    return {i: leaves[i] for i in wanted}


def _chosen(flags: jax.Array, chosen: Leaves, other: Leaves) -> Leaves:
    """Leaves like the ``other`` ones: those ``chosen`` where ``flags``."""
    return {i: choose(flags, chosen[i], x) for i, x in other.items()}
