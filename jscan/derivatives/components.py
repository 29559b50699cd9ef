"""Derivatives of a scan, as recurrences.

Of ``y[t] = f(y[t-1], x[t])`` the tangent is a linear recurrence, whose transpose is another one,
run the other way (Blelloch 1990 solves such recurrences by scans):

    dy[t] = A[t] dy[t-1] + B[t] dx[t]            A = ∂f/∂y, B = ∂f/∂x, both at (y[t-1], x[t])
    λ[t]  = ȳ[t] + A[t+1]ᵀ λ[t+1]                x̄[t] = B[t]ᵀ λ[t]

At the start of the axis or of a segment dy is dx. Leaves that depend on each other's tangents, in a
circle, have one recurrence together, which is a `Component`; the others are solved one after
another. That is seldom more than one leaf: (a, b) ↦ a y + b has a recurrence for each output, and
Welford's three leaves have three.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jscan.combine import Combine
from jscan.derivatives.jacobian import Jacobian, Matrix, Source


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Component:
    """The recurrence of leaves whose tangents depend on each other.

    ``s[t] = A[t] s[t-1] + C[t] v[t]``, and ``s = v`` at starts for the elements' own tangents v.

    Attributes:
      states: the leaves, K of them.
      tangents: leaves whose tangents come in as elements, dx.
      others: leaves of other components whose tangents come in from the position before, dy.
      a: K by K.
      c: K by (tangents, then others).
      own: for each state which of the tangents is its own, or None if that is zero.
      dtype: in which it is computed.
      widths: the dtypes of states, then of what comes in.
    """

    states: tuple[int, ...]
    tangents: tuple[int, ...]
    others: tuple[int, ...]
    a: Matrix
    c: Matrix
    own: tuple[int | None, ...]
    dtype: np.dtype[Any]
    widths: tuple[np.dtype[Any], ...]

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
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
        """How many tangents come in."""
        return len(self.tangents) + len(self.others)

    @property
    def reads(self) -> tuple[Source, ...]:
        """What its matrices read: its operands."""
        matrices = (self.a, self.c)
        return tuple(sorted({s for m in matrices for s in (*m.reads, *m.rules_read)}))

    @property
    def results(self) -> set[int]:
        """The leaves whose results it reads, before an element or after it."""
        return {i for when, i in self.reads if when != "here"}


def components(
    combine: Combine, wanted: Sequence[int], moving: Sequence[int], exact: Sequence[int] = ()
) -> list[Component] | None:
    """The recurrences that give the tangents of the leaves ``wanted``, in the order to solve them.

    ``moving`` are the leaves whose elements have a tangent. Results of those that ``exact`` names
    may be read instead of computed anew. None where the derivative of the operator is no matrix: it
    is real-linear only, or leaves are complex and real.
    """
    dtypes = combine.dtypes
    inexact = [i for i, d in enumerate(dtypes) if jnp.issubdtype(d, jnp.inexact)]
    kinds = {jnp.issubdtype(dtypes[i], jnp.complexfloating) for i in inexact}
    if len(kinds) > 1:
        return None
    function = Jacobian(combine, exact)
    if True in kinds and not function.is_holomorphic():
        return None
    k = combine.num_leaves
    left = {i: {j for j in inexact if j in function.moved_by[i]} for i in inexact}
    right = {i: {j for j in moving if k + j in function.moved_by[i]} for i in inexact}
    # What moves: an element that does, or what depends on something that does.
    live = {i for i in inexact if i in moving or right[i]}
    while more := {i for i in inexact if left[i] & live} - live:
        live |= more
    asked = {i for i in wanted if i in live}
    while more := {j for i in asked for j in left[i] & live} - asked:
        asked |= more
    return [
        _component(function, group, left, right, live, moving)
        for group in _in_circles(asked, {i: left[i] & asked for i in asked})
    ]


def _component(
    function: Jacobian,
    states: tuple[int, ...],
    left: dict[int, set[int]],
    right: dict[int, set[int]],
    live: set[int],
    moving: Sequence[int],
) -> Component:
    k = function.combine.num_leaves
    own = {i for i in states if i in moving}
    tangents = tuple(sorted(own.union(*(right[i] for i in states))))
    others = tuple(sorted(set().union(*(left[i] & live for i in states)) - set(states)))
    a_places = [(r, s) for r, i in enumerate(states) for s, j in enumerate(states) if j in left[i]]
    c_places = [
        *((r, s) for r, i in enumerate(states) for s, j in enumerate(tangents) if j in right[i]),
        *(
            (r, len(tangents) + s)
            for r, i in enumerate(states)
            for s, j in enumerate(others)
            if j in left[i]
        ),
    ]
    columns = [*(k + j for j in tangents), *others]
    dtypes = function.combine.dtypes
    incoming = [*tangents, *others]
    return Component(
        states=states,
        tangents=tangents,
        others=others,
        a=function.matrix(a_places, states, states),
        c=function.matrix(c_places, states, columns),
        own=tuple(tangents.index(i) if i in own else None for i in states),
        dtype=np.result_type(*(dtypes[i] for i in {*states, *incoming})),
        widths=tuple(dtypes[i] for i in (*states, *incoming)),
    )


def _in_circles(nodes: set[int], edges: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """Strongly connected parts of a graph, each behind those that its edges lead to."""
    reach = {i: {i} for i in nodes}
    for _ in nodes:
        reach = {i: r.union(*(edges[j] for j in r)) for i, r in reach.items()}
    parts = {tuple(sorted(j for j in reach[i] if i in reach[j])) for i in nodes}
    return sorted(parts, key=lambda part: (len(reach[part[0]]), part))
