"""The recurrence of a scan's tangents, taken apart into components.

Of ``dy[t] = A[t] dy[t-1] + B[t] dx[t]`` most entries are zero by structure. Leaves whose tangents
depend on each other, in a circle, have one recurrence together, which is a `Component`. All others
are solved one after another, and the solved ones come in like the elements' tangents do:

    s[t] = A[t] s[t-1] + C[t] v[t]           v[t] = (dx[t] of some leaves, dy[t-1] of others)

A component seldom has more than one leaf: (a, b) ↦ a y + b has a recurrence for each output, and
Welford's three leaves have three.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Hashable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from jscan.combine import Combine
from jscan.derivatives.jacobian import Jacobian, Matrix, Source


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Component:
    """The recurrence of leaves whose tangents depend on each other.

    ``s[t] = A[t] s[t-1] + C[t] v[t]``, where at starts s is the elements' own tangents. Two
    components are equal if they compute the same.

    Attributes:
      states: the leaves, K of them.
      tangents: the leaves whose elements' tangents, dx, come in.
      others: the leaves of other components whose tangents, dy, come in from the position before.
      a: K by K.
      c: K by (tangents, then others).
      own: for each state the number of its own element's tangent among those that come in, or None
        if that is zero.
      dtype: the dtype in which it is computed.
      widths: the dtypes of states, then of what comes in.
    """

    states: tuple[int, ...]
    tangents: tuple[int, ...]
    others: tuple[int, ...]
    a: Matrix
    c: Matrix
    own: tuple[int | None, ...]
    dtype: np.dtype
    widths: tuple[np.dtype, ...]

    @functools.cached_property
    def key(self) -> Hashable:
        """What equal components share."""
        numbers = (self.states, self.tangents, self.others, self.own)
        return numbers, self.a.key, self.c.key, self.dtype, self.widths

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Component) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Component{self.states}"

    @property
    def size(self) -> int:
        """K."""
        return len(self.states)

    @property
    def inputs(self) -> int:
        """The number of tangents that come in."""
        return len(self.tangents) + len(self.others)

    @property
    def reads(self) -> tuple[Source, ...]:
        """The sources that its matrices read, which are its operands."""
        matrices = (self.a, self.c)
        return tuple(sorted({s for m in matrices for s in (*m.reads, *m.rules_read)}))

    @property
    def results(self) -> set[int]:
        """The leaves whose results it reads, before an element or after it."""
        return {i for when, i in self.reads if when != "here"}


Edges = Mapping[int, set[int]]
"""For each leaf of the result, the leaves whose tangents its own takes in."""


def components(
    combine: Combine, wanted: Sequence[int], moving: Sequence[int], exact: Sequence[int] = ()
) -> list[Component] | None:
    """The recurrences that give the tangents of the leaves ``wanted``, in the order to solve them.

    ``moving`` are the leaves whose elements have a tangent. Results of those that ``exact`` names
    may be read instead of computed anew. None where the derivative of the operator is no matrix: it
    is real-linear only, or leaves are complex and real.
    """
    inexact = [i for i, d in enumerate(combine.dtypes) if jnp.issubdtype(d, jnp.inexact)]
    kinds = {jnp.issubdtype(combine.dtypes[i], jnp.complexfloating) for i in inexact}
    if len(kinds) > 1:
        return None
    jacobian = Jacobian(combine, exact)
    if True in kinds and not jacobian.is_holomorphic():
        return None
    k, moved_by = combine.num_leaves, jacobian.moved_by
    before = {i: {j for j in inexact if j in moved_by[i]} for i in inexact}
    here = {i: {j for j in moving if k + j in moved_by[i]} for i in inexact}
    # A state has a tangent if an element gives it one, or another state that has one.
    live = {i for i in inexact if i in moving or here[i]}
    while more := {i for i in inexact if before[i] & live} - live:
        live |= more
    before = {i: before[i] & live for i in live}
    asked = live.intersection(wanted)
    while more := {j for i in asked for j in before[i]} - asked:
        asked |= more
    circles = _circles(asked, before)
    return [_component(jacobian, states, before, here, moving) for states in circles]


def _component(
    jacobian: Jacobian,
    states: tuple[int, ...],
    before: Edges,
    here: Edges,
    moving: Collection[int],
) -> Component:
    """The component of ``states``, whose tangents depend on ``before`` and on elements ``here``."""
    own = {i for i in states if i in moving}
    tangents = tuple(sorted(own.union(*(here[i] for i in states))))
    others = tuple(sorted({j for i in states for j in before[i]}.difference(states)))
    k, dtypes = jacobian.combine.num_leaves, jacobian.combine.dtypes
    widths = tuple(dtypes[i] for i in (*states, *tangents, *others))
    return Component(
        states=states,
        tangents=tangents,
        others=others,
        a=jacobian.matrix(states, states),
        c=jacobian.matrix(states, [*(k + j for j in tangents), *others]),
        own=tuple(tangents.index(i) if i in own else None for i in states),
        dtype=np.result_type(*widths),
        widths=widths,
    )


def _circles(nodes: set[int], edges: Edges) -> list[tuple[int, ...]]:
    """The strongly connected parts of a graph, each behind those that its edges lead to."""
    reach = {i: {i} for i in nodes}
    for _ in nodes:
        reach = {i: r.union(*(edges[j] for j in r)) for i, r in reach.items()}
    parts = {tuple(sorted(j for j in reach[i] if i in reach[j])) for i in nodes}
    return sorted(parts, key=lambda part: (len(reach[part[0]]), part))
