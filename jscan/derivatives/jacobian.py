"""Jacobians of an operator, entry by entry, as functions of scalars.

An operator of K leaves is a function f(y, x) of 2K scalars: what came before, y[t-1], and the
element, x[t]. Its derivative has K rows, for the leaves of the result, and 2K columns. Most entries
are zero by structure and many are constant, so each is worked out as a function of scalars of its
own: a `Matrix` holds some rows and columns, and says what its entries read.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import partial_eval as pe
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan.combine import Combine
from jscan.jaxprs import Atom, aval, bound, equations, evaluate, spread, structure

Place: TypeAlias = tuple[int, int]
"""The row and column of an entry."""

Source: TypeAlias = tuple[str, int]
"""What an entry reads of a leaf: y[t-1], "before", x[t], "here", or the result y[t], "after"."""

Scalar: TypeAlias = Any
"""A scalar while a function of scalars is traced: a tracer, or a NumPy scalar where it is known."""

Inputs: TypeAlias = frozenset[int]
"""Numbers of an operator's inputs: the K leaves of its left operand, then those of its right."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Matrix:
    """The entries of a Jacobian that are not zero by structure, as a function of scalars.

    Attributes:
      places: where the entries belong, in the order of the function's results.
      jaxpr: scalars to entries.
      reads: the sources of these scalars.
      rules: the function that keeps the derivative rules of what the operator calls, or None if it
        calls nothing that has any.
      rules_read: the sources of its scalars. No result is among them: `rules` makes results anew.
    """

    places: tuple[Place, ...]
    jaxpr: core.ClosedJaxpr
    reads: tuple[Source, ...]
    rules: Callable[..., list[jax.Array]] | None
    rules_read: tuple[Source, ...]

    @functools.cached_property
    def key(self) -> Hashable:
        """What matrices of the same entries share."""
        return self.places, structure(self.jaxpr.jaxpr), self.reads, self.rules_read

    def constant(self, place: Place) -> complex | None:
        """An entry's value where it is the same for all operands, else None."""
        if place not in self.places:
            return 0
        entry = self.jaxpr.jaxpr.outvars[self.places.index(place)]
        return complex(entry.val) if isinstance(entry, core.Literal) else None

    def at(
        self, read: Callable[[Source], jax.Array], *, differentiable: bool
    ) -> dict[Place, jax.Array]:
        """The entries for arrays of one shape; constant ones may be scalars."""
        if differentiable and self.rules is not None and self.rules_read:
            rules = self.rules
            operands = [read(source) for source in self.rules_read]
            for _ in range(operands[0].ndim):
                rules = jax.vmap(rules)
            entries = rules(*operands)
        else:
            pairs = zip(self.reads, self.jaxpr.in_avals, strict=True)
            entries = evaluate(self.jaxpr.jaxpr, [read(s).astype(a.dtype) for s, a in pairs])
        return dict(zip(self.places, entries, strict=True))


class Jacobian:
    """The derivatives of an operator, which is a function of 2K scalars.

    The results of leaves that ``exact`` names can be read, so entries need not compute them.
    """

    def __init__(self, combine: Combine, exact: Sequence[int]):
        self.combine, self.exact = combine, exact
        self.rules = combine.rules
        self.avals = combine.jaxpr.in_avals

    @property
    def sources(self) -> list[Source]:
        """The operator's inputs as sources."""
        k = self.combine.num_leaves
        return [*(("before", i) for i in range(k)), *(("here", i) for i in range(k))]

    @functools.cached_property
    def moved_by(self) -> list[Inputs]:
        """For each output, the inputs whose tangents may reach it.

        A comparison or an integer passes none on, unless a derivative rule of its own says so.
        """

        def behind(equation: core.JaxprEqn, operands: Sequence[Inputs]) -> list[Inputs]:
            inputs = frozenset().union(*operands)
            return [
                inputs if self.rules is not None or _is_inexact(v) else frozenset()
                for v in equation.outvars
            ]

        inputs = [frozenset({i}) for i in range(len(self.avals))]
        return evaluate(self.combine.jaxpr.jaxpr, inputs, [behind], lambda _: frozenset())

    @functools.cached_property
    def only_reverse(self) -> bool:
        """Whether part of the operator has a reverse rule of its own, and so no forward one."""
        if self.rules is None:
            return False
        traced = jax.make_jaxpr(self.rules)(*self.avals)
        return any(e.primitive.name.startswith("custom_vjp") for e in equations(traced.jaxpr))

    def is_holomorphic(self) -> bool:
        """Whether the derivative is complex-linear: no tangent is conjugated, split or hidden."""
        if self.only_reverse:
            return False
        count = len(self.avals)
        moving = [jnp.issubdtype(aval.dtype, jnp.inexact) for aval in self.avals]

        def pushed(*scalars: Scalar) -> list[Scalar]:
            given, none = iter(scalars[count:]), np.zeros((), jax.dtypes.float0)
            tangents = tuple(next(given) if moves else none for moves in moving)
            slopes = jax.jvp(self.outputs, scalars[:count], tangents)[1]
            return [x for x in slopes if x.dtype != jax.dtypes.float0]

        inexact = [aval for aval, moves in zip(self.avals, moving, strict=True) if moves]
        flat = _flat(pushed, [*self.avals, *inexact]).jaxpr
        tangents = set(flat.invars[count:])
        for equation in flat.eqns:
            read = [v for v in equation.invars if not isinstance(v, core.Literal)]
            if tangents.intersection(read):
                if equation.primitive.name not in _LINEAR:
                    return False
                tangents.update(equation.outvars)
        return True

    def matrix(self, rows: Sequence[int], columns: Sequence[int]) -> Matrix:
        """The derivatives of the outputs ``rows`` in the inputs ``columns``."""
        places = tuple(
            (r, s)
            for r, output in enumerate(rows)
            for s, number in enumerate(columns)
            if number in self.moved_by[output]
        )

        def entries(*scalars: Scalar) -> tuple[list[Scalar], list[Scalar]]:
            found, made = self._entries(places, rows, columns, scalars)
            return [found[place] for place in places], made

        flat = _flat(entries, self.avals)
        jaxpr, reads = self._folded(flat, len(places))
        if self.rules is None:
            return Matrix(places, jaxpr, reads, None, ())
        return Matrix(places, jaxpr, reads, *self._with_rules(entries, flat, len(places)))

    def _entries(
        self,
        places: Sequence[Place],
        rows: Sequence[int],
        columns: Sequence[int],
        scalars: Sequence[Scalar],
    ) -> tuple[dict[Place, Scalar], list[Scalar]]:
        """The entries; and the results of the leaves `exact`, as often as they are made for them.

        A forward rule gives a column, and makes all results on the way; a reverse rule, a row.
        """
        found: dict[Place, Scalar] = {}
        made: list[Scalar] = []
        if self.only_reverse:
            for row in sorted({r for r, _ in places}):
                across = [s for r, s in places if r == row]
                slopes = self._row(rows[row], scalars, [columns[s] for s in across])
                found.update({(row, s): x for s, x in zip(across, slopes, strict=True)})
        else:
            for column in sorted({s for _, s in places}):
                outputs, slopes = self._column(columns[column], scalars)
                made += [outputs[i] for i in self.exact]
                found.update({(r, s): slopes[rows[r]] for r, s in places if s == column})
        return found, made

    def _column(self, number: int, scalars: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """Every output, and its derivative in one input."""

        def along(x: Scalar) -> list[Scalar]:
            return self.outputs(*scalars[:number], x, *scalars[number + 1 :])

        unit = np.ones((), self.avals[number].dtype)[()]
        outputs, slopes = jax.jvp(along, [scalars[number]], [unit])
        return outputs, slopes

    def _row(self, number: int, scalars: Sequence[Scalar], columns: Sequence[int]) -> list[Scalar]:
        """The derivatives of one output in some inputs."""

        def along(*moved: Scalar) -> Scalar:
            values = list(scalars)
            for i, x in zip(columns, moved, strict=True):
                values[i] = x
            return self.outputs(*values)[number]

        result, back = jax.vjp(along, *(scalars[i] for i in columns))
        return list(back(np.ones((), result.dtype)[()]))

    def outputs(self, *scalars: Scalar) -> list[Scalar]:
        """The operator, with the derivative rules of what it calls."""
        if self.rules is not None:
            return self.rules(*scalars)
        results = evaluate(self.combine.jaxpr.jaxpr, scalars)
        return [spread(r, x) for r, x in zip(results, scalars, strict=False)]

    def _folded(
        self, flat: core.ClosedJaxpr, count: int
    ) -> tuple[core.ClosedJaxpr, tuple[Source, ...]]:
        """The entries as a jaxpr of little work, and the sources that it reads.

        ``flat`` has ``count`` entries as its outputs, then results that it makes on the way. These
        exist already, and are read instead.
        """
        inputs = len(self.avals)
        made = zip(flat.jaxpr.outvars[count:], itertools.cycle(self.exact), strict=False)
        leaves = {v: i for v, i in made if not isinstance(v, core.Literal)}

        def folded(*scalars: Scalar) -> list[Scalar]:
            results = dict(zip(self.exact, scalars[inputs:], strict=True))
            given = {v: results[i] for v, i in leaves.items()}
            return _folded(flat, given, *scalars[:inputs])[:count]

        traced = jax.make_jaxpr(folded)(*self.avals, *(self.avals[i] for i in self.exact))
        jaxpr, used = pe.dce_jaxpr(traced.jaxpr, [True] * count)
        sources = [*self.sources, *(("after", i) for i in self.exact)]
        return core.ClosedJaxpr(jaxpr, traced.consts), tuple(itertools.compress(sources, used))

    def _with_rules(
        self,
        entries: Callable[..., tuple[list[Scalar], list[Scalar]]],
        flat: core.ClosedJaxpr,
        count: int,
    ) -> tuple[Callable[..., list[Scalar]], tuple[Source, ...]]:
        """The entries as a function that keeps derivative rules, and the sources that it reads."""
        wanted = [i < count for i in range(len(flat.out_avals))]
        _, used = pe.dce_jaxpr(flat.jaxpr, wanted)
        numbers = list(itertools.compress(itertools.count(), used))
        avals = self.avals

        def with_rules(*scalars: Scalar) -> list[Scalar]:
            full: list[Scalar] = [np.zeros((), a.dtype)[()] for a in avals]
            for number, x in zip(numbers, scalars, strict=True):
                full[number] = x.astype(avals[number].dtype)
            return entries(*full)[0]

        return with_rules, tuple(self.sources[number] for number in numbers)


_LINEAR = frozenset({"add", "add_any", "sub", "neg", "mul", "div", "select_n", "copy", "copy_p"})
"""What may happen to a tangent that stays complex-linear."""


def _is_inexact(v: Atom) -> bool:
    """Whether tangents flow through it."""
    return bool(jnp.issubdtype(aval(v).dtype, jnp.inexact))


def _flat(
    function: Callable[..., Any], avals: Sequence[jax.core.AbstractValue]
) -> core.ClosedJaxpr:
    """A function of scalars as a jaxpr without calls."""
    traced = jax.make_jaxpr(function)(*avals)
    constants = [np.asarray(constant)[()] for constant in traced.consts]
    return jax.make_jaxpr(lambda *x: evaluate(traced.jaxpr, [*constants, *x]))(*avals)


# --- folding ------------------------------------------------------------------------------------


class _Folded(NamedTuple):
    """A scalar of the operator's derivative, twice.

    Attributes:
      computed: as the operator's operands give it.
      folded: as given results give it, with what they make needless left out.
      alone: whether `folded` is made of one given result and of constants, and of nothing else.
    """

    computed: Scalar
    folded: Scalar
    alone: bool = False


def _folded(
    flat: core.ClosedJaxpr, given: dict[core.Var, Scalar], *operands: Scalar
) -> list[Scalar]:
    """The function on scalars without products by 1 and 0, sums with 0, and what is ``given``.

    A given result was rounded elsewhere. To compare it with what is computed here would be to
    compare roundings, so comparisons take what is computed, unless they are with a constant.
    """

    def rule(equation: core.JaxprEqn, operands: Sequence[_Folded]) -> list[_Folded]:
        computed = [x.computed for x in operands]
        folded = [x.folded for x in operands]
        varying = {
            v: x.alone
            for v, x in zip(equation.invars, operands, strict=True)
            if isinstance(x.folded, jax.core.Tracer)
        }
        alone = len(varying) == 1 and all(varying.values())
        if not (alone or all(map(_is_inexact, equation.outvars))):
            folded = computed
        here = _simplified(equation, computed)
        # Where no given result comes in, both are the same.
        same = all(x is y for x, y in zip(folded, computed, strict=True))
        there = here if same else _simplified(equation, folded)
        return [
            _Folded(x, given.get(v, y), alone or v in given)
            for v, x, y in zip(equation.outvars, here, there, strict=True)
        ]

    constants = [np.asarray(constant) for constant in flat.consts]
    values = [_Folded(x, x) for x in (*constants, *operands)]
    results = evaluate(flat.jaxpr, values, [rule], lambda x: _Folded(x, x))
    return [result.folded for result in results]


def _simplified(equation: core.JaxprEqn, inputs: Sequence[Scalar]) -> list[Scalar]:
    """An equation's results: an operand, where it is one; numbers, where all operands are."""
    same = _same_as_operand(equation.primitive.name, inputs)
    if same is not None:
        return [same]
    if all(map(_is_number, inputs)):
        # Whatever mesh the program is for.
        with use_abstract_mesh(AbstractMesh((), ())), jax.ensure_compile_time_eval():
            return [np.asarray(x)[()] for x in bound(equation, inputs)]
    return bound(equation, inputs)


def _same_as_operand(name: str, inputs: Sequence[Scalar]) -> Scalar | None:
    """The operand that is the result too, where one is.

    A derivative rule is given a tangent of 1 for one operand and of 0 for the others. Its terms
    with 0 are no part of the slope, even where the other factor is infinite.
    """
    if name == "mul":
        for x, other in zip(inputs, inputs[::-1], strict=True):
            if _is_number(x) and x == 1:
                return other
        for x in inputs:
            if _is_number(x) and x == 0:
                return x
    if name in ("add", "add_any"):
        for x, other in zip(inputs, inputs[::-1], strict=True):
            if _is_number(x) and x == 0:
                return other
    return None


def _is_number(x: Scalar) -> bool:
    """Whether its value is known while the function is traced."""
    return not isinstance(x, jax.core.Tracer)
