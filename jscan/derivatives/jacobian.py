"""Jacobians of an operator, entry by entry, as functions of scalars."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters import partial_eval as pe
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan.combine import Combine
from jscan.jaxprs import Atom, aval, bound, equations, evaluate, spread, structure

Place = tuple[int, int]
"""Row and column of a matrix."""

Source = tuple[str, int]
"""Of a leaf the value "before", the element "here", or the result "after"."""


Inputs: TypeAlias = frozenset[int]
"""Numbers of an operator's inputs: the K leaves of its left operand, then those of its right."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Matrix:
    """The entries of a Jacobian that are not zero by structure, as a function of scalars.

    Attributes:
      places: where the entries belong, in the order of the function's results.
      jaxpr: scalars to entries. The scalars are what `reads` says, in its order.
      reads: what it reads of which leaves.
      rules: the same function with the derivative rules of what it calls, or None if it has none.
      rules_read: what those read. They make results anew.
    """

    places: tuple[Place, ...]
    jaxpr: core.ClosedJaxpr
    reads: tuple[Source, ...]
    rules: Callable[..., list[Any]] | None
    rules_read: tuple[Source, ...]

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others."""
        return self.places, structure(self.jaxpr.jaxpr), self.reads, self.rules_read

    def constant(self, place: Place) -> complex | None:
        """An entry's value where it is the same for all operands; 0 if it is none of them."""
        if place not in self.places:
            return 0
        entry = self.jaxpr.jaxpr.outvars[self.places.index(place)]
        return complex(entry.val) if isinstance(entry, core.Literal) else None

    def at(self, read: Callable[[Source], jax.Array], *, differentiable: bool) -> dict[Place, Any]:
        """The entries for arrays of one shape; constant ones may be scalars."""
        if differentiable and self.rules is not None and self.rules_read:
            rules: Callable[..., list[Any]] = self.rules
            operands = [read(source) for source in self.rules_read]
            for _ in range(operands[0].ndim):
                rules = jax.vmap(rules)
            entries = rules(*operands)
        else:
            pairs = zip(self.reads, self.jaxpr.in_avals, strict=True)
            entries = evaluate(self.jaxpr.jaxpr, [read(s).astype(a.dtype) for s, a in pairs])
        return dict(zip(self.places, entries, strict=True))


class Jacobian:
    """The derivatives of an operator, which is a function of 2K scalars."""

    def __init__(self, combine: Combine, exact: Sequence[int]):
        self.combine, self.exact = combine, exact
        self.rules = combine.rules
        self.avals = combine.jaxpr.in_avals

    def outputs(self, *scalars: Any) -> list[Any]:
        """The operator."""
        if self.rules is not None:
            return self.rules(*scalars)
        results = evaluate(self.combine.jaxpr.jaxpr, scalars)
        return [spread(r, x) for r, x in zip(results, scalars, strict=False)]

    @functools.cached_property
    def moved_by(self) -> list[Inputs]:
        """For each output, the inputs whose tangents may reach it.

        A comparison or an integer passes none on, unless a derivative rule of its own says so.
        """

        def behind(equation: core.JaxprEqn, operands: Sequence[Inputs]) -> list[Inputs]:
            inputs = frozenset().union(*operands)
            return [
                inputs if self.rules is not None or is_inexact(v) else frozenset()
                for v in equation.outvars
            ]

        inputs = [frozenset({i}) for i in range(len(self.avals))]
        return evaluate(self.combine.jaxpr.jaxpr, inputs, [behind], lambda _: frozenset())

    def column(self, number: int, scalars: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Every output, and its derivative in one input."""

        def along(x: Any) -> list[Any]:
            return self.outputs(*scalars[:number], x, *scalars[number + 1 :])

        unit = np.ones((), self.avals[number].dtype)[()]
        outputs, slopes = jax.jvp(along, [scalars[number]], [unit])
        return outputs, slopes

    def row(self, number: int, scalars: Sequence[Any], columns: Sequence[int]) -> list[Any]:
        """The derivatives of one output in some inputs, by the reverse rule."""

        def along(*moved: Any) -> Any:
            values = list(scalars)
            for i, x in zip(columns, moved, strict=True):
                values[i] = x
            return self.outputs(*values)[number]

        result, back = jax.vjp(along, *(scalars[i] for i in columns))
        return list(back(np.ones((), result.dtype)[()]))

    @functools.cached_property
    def only_reverse(self) -> bool:
        """Whether part of it has a reverse rule of its own, and so no forward one."""
        if self.rules is None:
            return False
        traced = jax.make_jaxpr(self.rules)(*self.avals)
        return any(e.primitive.name.startswith("custom_vjp") for e in equations(traced.jaxpr))

    def matrix(
        self, places: Sequence[Place], rows: Sequence[int], columns: Sequence[int]
    ) -> Matrix:
        """The entries at ``places`` of the derivatives of ``rows`` in ``columns``."""
        k = self.combine.num_leaves
        order = sorted({s for _, s in places})

        def entries(*scalars: Any) -> tuple[list[Any], list[Any]]:
            found: dict[Place, Any] = {}
            outputs: list[Any] = []
            if self.only_reverse:
                for r in {r for r, _ in places}:
                    wanted = sorted({s for q, s in places if q == r})
                    slopes = self.row(rows[r], scalars, [columns[s] for s in wanted])
                    found.update({(r, s): x for s, x in zip(wanted, slopes, strict=True)})
            else:
                for s in order:
                    made, slopes = self.column(columns[s], scalars)
                    outputs += [made[i] for i in self.exact]
                    found.update({(r, s): slopes[rows[r]] for r, q in places if q == s})
            return [found[place] for place in places], outputs

        sources: list[Source] = [("before" if i < k else "here", i % k) for i in range(2 * k)]
        traced = jax.make_jaxpr(entries)(*self.avals)
        jaxpr = _closed(traced.jaxpr, traced.consts, self.avals)
        # The operator's own results, made on the way, are there already.
        made = dict(
            zip(jaxpr.jaxpr.outvars[len(places) :], [*self.exact] * len(order), strict=False)
        )
        given = [("after", i) for i in self.exact]
        kinds = [self.avals[i] for i in self.exact]

        def simpler(*scalars: Any) -> list[Any]:
            values = {i: x for (_, i), x in zip(given, scalars[2 * k :], strict=True)}
            known = {v: values[i] for v, i in made.items() if not isinstance(v, core.Literal)}
            return _folded(jaxpr, known, *scalars[: 2 * k])[: len(places)]

        folded = jax.make_jaxpr(simpler)(*self.avals, *kinds)
        clean, used = pe.dce_jaxpr(folded.jaxpr, [True] * len(places))
        kept = [s for s, is_used in zip([*sources, *given], used, strict=True) if is_used]
        rules: Callable[..., list[Any]] | None = None
        anew: tuple[Source, ...] = ()
        if self.rules is not None:
            avals = self.avals
            _, used = pe.dce_jaxpr(
                jaxpr.jaxpr, [i < len(places) for i in range(len(jaxpr.out_avals))]
            )
            anew = tuple(s for s, is_used in zip(sources, used, strict=True) if is_used)

            def with_rules(*scalars: Any) -> list[Any]:
                full: list[Any] = [np.zeros((), a.dtype)[()] for a in avals]
                for source, x in zip(anew, scalars, strict=True):
                    number = sources.index(source)
                    full[number] = x.astype(avals[number].dtype)
                return entries(*full)[0]

            rules = with_rules
        clean_jaxpr = core.ClosedJaxpr(clean, folded.consts)
        return Matrix(tuple(places), clean_jaxpr, tuple(kept), rules, anew)

    def is_holomorphic(self) -> bool:
        """Whether the derivative is complex-linear: no tangent is conjugated, split or hidden."""
        if self.only_reverse:
            return False
        traced = jax.make_jaxpr(
            lambda primals, tangents: jax.jvp(self.outputs, primals, tangents)[1]
        )(self.avals, self.avals)
        flat = _closed(traced.jaxpr, traced.consts, [v.aval for v in traced.jaxpr.invars])
        tainted = set(flat.jaxpr.invars[len(self.avals) :])
        for equation in flat.jaxpr.eqns:
            touched = [v for v in equation.invars if not isinstance(v, core.Literal)]
            if tainted.intersection(touched):
                if equation.primitive.name not in _LINEAR:
                    return False
                tainted.update(equation.outvars)
        return True


_LINEAR = frozenset({"add", "add_any", "sub", "neg", "mul", "div", "select_n", "copy", "copy_p"})
"""What may happen to a tangent that stays complex-linear."""


def is_inexact(v: Atom) -> bool:
    """Whether a tangent may flow through what an equation reads or makes."""
    return bool(jnp.issubdtype(aval(v).dtype, jnp.inexact))


def _closed(jaxpr: core.Jaxpr, constants: Sequence[Any], avals: Sequence[Any]) -> core.ClosedJaxpr:
    """The jaxpr without calls."""
    scalars = [np.asarray(c)[()] for c in constants]
    return jax.make_jaxpr(lambda *x: evaluate(jaxpr, [*scalars, *x]))(*avals)


class _Folded(NamedTuple):
    """A scalar of the operator's derivative, twice.

    Attributes:
      computed: as the operator's operands give it.
      folded: as results that are known give it.
      alone: whether `folded` is made of one known result and of constants, and of nothing else.
    """

    computed: Any
    folded: Any
    alone: bool = False


def _folded(flat: core.ClosedJaxpr, known: dict[core.Var, Any], *operands: Any) -> list[Any]:
    """The function on scalars without products by 1 and 0, sums with 0, and what is known.

    What is known was rounded elsewhere. To compare it with what is computed here would be to
    compare roundings, so comparisons take what is computed, unless it is with a constant.
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
        if not (alone or all(map(is_inexact, equation.outvars))):
            folded = computed
        here = _simplified(equation, computed)
        # Without what is known both are one.
        same = all(x is y for x, y in zip(folded, computed, strict=True))
        there = here if same else _simplified(equation, folded)
        return [
            _Folded(x, known.get(v, y), alone or v in known)
            for v, x, y in zip(equation.outvars, here, there, strict=True)
        ]

    constants = [np.asarray(constant) for constant in flat.consts]
    values = [_Folded(x, x) for x in (*constants, *operands)]
    results = evaluate(flat.jaxpr, values, [rule], lambda x: _Folded(x, x))
    return [result.folded for result in results]


def _simplified(equation: core.JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
    """An equation's results: an operand, where it is one; numbers, where all operands are."""
    numbers = [None if isinstance(x, jax.core.Tracer) else x for x in inputs]
    same = _same_as_operand(equation.primitive.name, inputs, numbers)
    if same is not None:
        return [same]
    if all(number is not None for number in numbers):
        # Whatever mesh the program is for.
        with use_abstract_mesh(AbstractMesh((), ())), jax.ensure_compile_time_eval():
            return [np.asarray(x)[()] for x in bound(equation, inputs)]
    return bound(equation, inputs)


def _same_as_operand(name: str, inputs: Sequence[Any], numbers: Sequence[Any]) -> Any:
    """One of the inputs, where the result is that; else None.

    A derivative rule is given a tangent of 1 for one operand and of 0 for the others. Its terms
    with 0 are no part of the slope, even where the other factor is infinite.
    """
    if name == "mul":
        for neutral in (1, 0):
            for x, other, number in zip(inputs, inputs[::-1], numbers, strict=True):
                if number is not None and number == neutral:
                    return x if neutral == 0 else other
    if name in ("add", "add_any"):
        for other, number in zip(inputs[::-1], numbers, strict=True):
            if number is not None and number == 0:
                return other
    return None
