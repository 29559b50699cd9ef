"""Plain JAX for CPUs: one element after another, in a loop that XLA compiles as a whole.

    a row         x0 x1 x2 x3 ...        carry ⊕ x ─► carry, and written where x stood
    of lanes      ══ ══ ══ ══ ...        the same for all lanes at once

Arrays are taken as (outer, n, inner). A step combines elements that lie beside each other: all
lanes, or those of some rows, in a loop that is nested in one over all rows, or over stretches. It
keeps nothing but the results, and computes no operand twice. A GPU would launch a kernel a step.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from jscan import extent

AT_ONCE = 8
"""Elements that lie beside each other and are few: a step takes as many, of several rows, or a turn
of the loop takes as many steps. A carry goes through memory from one turn to the next."""

WORDS = 36
"""Words of 32 bits that a turn reads and writes, at most. XLA (jax 0.10) compiles a loop as a whole
where a turn accesses less than some 1000 bytes, and otherwise each of its operations as a kernel,
which takes a hundred times as long."""

_COUNTS_LESS = jax.__version_info__ >= (0, 12)
"""Whether XLA counts what a turn accesses, and not what each fusion of it does."""

LANE_WORDS, STRETCH_WORDS = (1000, 144) if _COUNTS_LESS else (72, 48)
"""The same for lanes by operations that are fast; the latter where a prefix is carried, too."""

BY_LANES = 64
"""Lanes from which on that hardly matters."""

SHORT = 8
"""The longest axis of which plain slices are combined, faster than any loop."""

DTYPES = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
)
"""Dtypes of which XLA reads and writes single elements."""

FAST = frozenset(
    (
        *("add", "sub", "mul", "div", "rem", "neg", "abs", "sign", "square", "integer_pow"),
        *("max", "min", "clamp", "floor", "ceil", "round", "convert_element_type", "copy"),
        *("eq", "ne", "lt", "le", "gt", "ge", "is_finite", "select_n"),
        *("and", "or", "xor", "not", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
    )
)
"""Operations that a processor has an instruction or a few for. A row of others, such as exp, takes
longer one after another than in a tree, where many are computed at once."""

LOGARITHMS = frozenset(("log", "log1p"))
"""Operations that take most of all, and twice in a loop that carries a prefix."""

OF_LOGARITHMS, AS_TREES = 512, 2**20
"""The longest axis that a loop takes by those, and up to how many elements in all longer ones are
trees, of which several processors take parts. In reverse and by segments trees are slower."""

State = TypeVar("State")
"""What a step hands on to the next one: a pytree of arrays."""

Shape: TypeAlias = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Elements:
    """An array as (outer, n, inner), each of which is full size or 1, as it is read in a loop.

    Attributes:
      words: the array; where XLA would convert all of it to read an element, its bits.
      dtype: the dtype of the elements.
    """

    words: jax.Array
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, x: jax.Array) -> Elements:
        """Those of an array of three dimensions."""
        as_bits = _BY_WHOLE_ARRAYS and x.dtype == jnp.bfloat16
        return cls(lax.bitcast_convert_type(x, jnp.uint16) if as_bits else x, x.dtype)

    @property
    def shape(self) -> Shape:
        """(outer, n, inner)."""
        outer, n, inner = self.words.shape
        return outer, n, inner

    @property
    def array(self) -> jax.Array:
        """The array itself."""
        return self.back(self.words)

    def back(self, words: jax.Array) -> jax.Array:
        """What such words were made of."""
        if words.dtype == self.dtype:
            return words
        return lax.bitcast_convert_type(words, self.dtype)

    def part(self, row: Any, rows: int, position: Any, count: int) -> jax.Array:
        """Elements of some rows at some positions; shared ones are taken once."""
        size = min(rows, self.shape[0]), min(count, self.shape[1]), self.shape[2]
        at = self._index(row, position)
        return self.back(lax.dynamic_slice(self.words, at, size, allow_negative_indices=False))

    def with_part(self, part: jax.Array, row: Any, position: Any) -> Elements:
        """The array with another part."""
        words = Elements.of(part.astype(self.dtype)).words
        at = self._index(row, position)
        changed = lax.dynamic_update_slice(self.words, words, at, allow_negative_indices=False)
        return Elements(changed, self.dtype)

    def _index(self, row: Any, position: Any) -> tuple[Any, Any, Any]:
        # Of numbers without a sign XLA asks only whether they are too large.
        zero = np.uint32(0)
        outer, n, _ = self.shape
        unsigned = functools.partial(lax.convert_element_type, new_dtype=np.uint32)
        return zero if outer == 1 else unsigned(row), zero if n == 1 else unsigned(position), zero


_BY_WHOLE_ARRAYS = jax.__version_info__ < (0, 11)
"""Whether XLA converts a whole array of bfloat16 to read an element of it."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A position along the axis, in some rows; or those of a turn, which begin there.

    Attributes:
      number: how many positions come before it in scan order.
      position: the position in memory order.
      row: the first of the rows.
      rows: how many there are.
      n: the length of the axis.
      reverse: whether scan order is from the end.
      count: how many positions follow each other in scan order, with this one.
      is_first: whether no position comes before it.
      begins_turn: whether a turn of the loop begins here.
      begins: whether a stretch begins here, where stretches have loops of their own; else None.
    """

    number: jax.Array
    position: jax.Array
    row: jax.Array
    rows: int
    n: int
    reverse: bool
    count: int
    is_first: bool = False
    begins_turn: bool = True
    begins: bool | None = None

    def of(self, x: Elements, step: int = 0) -> jax.Array:
        """The elements of ``x`` here, or ``step`` positions to the right; the last at an end."""
        position = self.position
        if step:
            position = lax.clamp(np.int32(0), position + np.int32(step), np.int32(self.n - 1))
        return x.part(self.row, self.rows, position, 1)

    def each(self, x: Elements) -> list[jax.Array]:
        """The elements of ``x`` at each of the positions, which are read together."""
        if self.count == 1 or x.shape[1] == 1:
            return [self.of(x)] * self.count
        lowest = self.at(self.count - 1).position if self.reverse else self.position
        block = x.part(self.row, self.rows, lowest, self.count)
        parts = [lax.slice_in_dim(block, k, k + 1, axis=1) for k in range(self.count)]
        return parts[::-1] if self.reverse else parts

    def at(self, k: int) -> Place:
        """One of the positions alone."""
        position = self.position - np.int32(k) if self.reverse else self.position + np.int32(k)
        return dataclasses.replace(
            self,
            number=self.number + np.int32(k),
            is_first=self.is_first and k == 0,
            begins_turn=k == 0,
            position=position,
            count=1,
        )


Read: TypeAlias = Callable[[Elements], jax.Array]
"""From an array to its elements at some place."""

Step = Callable[[Place, State], tuple[list[jax.Array], State]]
"""From a place, and what was handed on, to the place's results and what is handed on."""

Turn = Callable[[Place, State], tuple[list[list[jax.Array]], State]]
"""The same for all positions of a turn: the results of each, and what is handed on."""


def one_by_one(step: Step[State]) -> Turn[State]:
    """A turn that takes one step after another."""

    def turn(places: Place, state: State) -> tuple[list[list[jax.Array]], State]:
        results = []
        for k in range(places.count):
            parts, state = step(places.at(k), state)
            results.append(parts)
        return results, state

    return turn


@dataclasses.dataclass(frozen=True)
class Walk:
    """How arrays of a shape are walked through.

    Attributes:
      full: their shape, (outer, n, inner).
      words: how many words of 32 bits are read and written for each element.
      reverse: whether it starts from the end.
      most: how many elements of an array a turn takes, at most; as `WORDS` allow if None.
      stretch: the length of stretches, before each of which a prefix begins anew; 0 without any.
      exclusive: whether results are without their own element.
    """

    full: Shape
    words: int
    reverse: bool
    most: int | None = None
    stretch: int = 0
    exclusive: bool = False

    @property
    def rows(self) -> int:
        """How many rows a step takes."""
        outer, _, inner = self.full
        return min(outer, _power(min(AT_ONCE // inner, WORDS // (self.words * inner))))

    @property
    def beside(self) -> int:
        """How many elements of an array a step takes."""
        return self.rows * self.full[2]

    @property
    def turn(self) -> int:
        """How many steps a turn of the loop takes."""
        most = WORDS // self.words if self.most is None else self.most
        return _power(min(AT_ONCE, most) // self.beside)

    @property
    def has_loops_of_stretches(self) -> bool:
        """Whether each stretch has a loop of its own, which does not change the prefix.

        Sums of (65536, 64) 4.6 ms and 3.6, exclusive ones 5.1 and 6.6 (jax 0.10, 2 cores).
        """
        return self.stretch > 0 and self.beside >= BY_LANES and not self.exclusive

    def is_compiled_whole(self, fast: bool) -> bool:
        """Whether XLA makes one program of the loop, or need not, and that beats a tree.

        Operations that are not ``fast`` take lanes or rows that lie side by side to do so.
        """
        words = self.words * self.beside
        if self.beside >= BY_LANES:
            return True
        if self.beside < AT_ONCE or not fast:
            return words <= WORDS and (fast or self.beside >= AT_ONCE)
        return words <= (STRETCH_WORDS if self.stretch else LANE_WORDS)

    def run(
        self,
        turn: Turn[State],
        start: Callable[[Read], State],
        dtypes: Sequence[np.dtype[Any]],
        like: jax.Array,
    ) -> list[jax.Array]:
        """Every place's results, in arrays of these ``dtypes``.

        Args:
          turn: what is done at the places of a turn.
          start: what is handed to the first place of rows, given how to read an array at it.
          dtypes: those of the results.
          like: an array that varies over the mesh axes over which the results do.
        """
        outer, n, _ = self.full
        rows, most = self.rows, self.turn
        # Every element is written. They are zeros like an operand's for the sake of its mesh.
        some = like.reshape(-1)[:1].reshape(1, 1, 1)
        zeros = [jnp.broadcast_to(lax.full_like(some, 0, d), self.full) for d in dtypes]
        unwritten = [Elements.of(x) for x in extent.vary_alike([*zeros, like])[:-1]]

        def of_rows(block: Any, words: list[jax.Array]) -> list[jax.Array]:
            row = block * np.int32(rows)
            first = np.int32(n - 1 if self.reverse else 0)
            carried = start(lambda x: x.part(row, rows, first, 1)), words
            turns = functools.partial(self._turn, turn, dtypes, row)
            # The first step, which has nothing before it, is apart from those that are a loop.
            carried = turns(1, np.int32(0), np.int32(0), carried, is_first=True)
            if self.has_loops_of_stretches:
                count, one = -(-(n - 1) // self.stretch), functools.partial(self._stretch, turns)
                return lax.fori_loop(np.int32(0), np.int32(count), one, carried)[1]
            whole, rest = divmod(n - 1, most)
            for count, steps, begin in ((whole, most, 1), (rest, 1, 1 + whole * most)):
                if count:
                    taken = functools.partial(turns, steps, np.int32(begin))
                    carried = lax.fori_loop(np.int32(0), np.int32(count), taken, carried)
            return carried[1]

        words = [x.words for x in unwritten]
        if rows == outer:
            words = of_rows(np.int32(0), words)
        else:  # the last rows may be taken twice, and nothing is read that was written
            blocks = np.int32(-(-outer // rows))
            words = lax.fori_loop(np.int32(0), blocks, of_rows, words)
        return [x.back(found) for x, found in zip(unwritten, words, strict=True)]

    def _stretch(self, turns: Callable[..., Any], k: Any, carried: Any) -> Any:
        """The steps of a stretch, of which the first is apart."""
        begin = k * np.int32(self.stretch) + np.int32(1)
        carried = turns(1, begin, np.int32(0), carried, begins=True)
        inside = functools.partial(turns, 1, begin, begins=False)
        end = lax.min(np.int32(self.stretch), np.int32(self.full[1]) - begin)
        return lax.fori_loop(np.int32(1), end, inside, carried)

    def _turn(
        self,
        turn: Turn[State],
        dtypes: Sequence[np.dtype[Any]],
        row: Any,
        steps: int,
        begin: Any,
        i: Any,
        carried: tuple[State, list[jax.Array]],
        **known: bool,
    ) -> tuple[State, list[jax.Array]]:
        """A turn of the loop: as many steps, of which the first turn's first is at ``begin``."""
        (state, words), n = carried, self.full[1]
        number = i * np.int32(steps) + begin
        position = np.int32(n - 1) - number if self.reverse else number
        places = Place(number, position, row, self.rows, n, self.reverse, steps, **known)
        results, state = turn(places, state)
        for k, parts in enumerate(results):
            there = places.at(k).position
            words = [
                Elements(x, d).with_part(part, row, there).words
                for x, d, part in zip(words, dtypes, parts, strict=True)
            ]
        return state, words


def _power(most: int) -> int:
    """The largest power of 2 that is not more, and 1 where there is none."""
    return 1 << max(most.bit_length() - 1, 0)


def shape_of(full: Sequence[int], axis: int) -> Shape:
    """A shape as (outer, n, inner)."""
    return math.prod(full[:axis]), full[axis], math.prod(full[axis + 1 :])


def elements_of(x: jax.Array, full: Sequence[int], axis: int) -> Elements:
    """The elements of ``x``, which may lack last dimensions, in arrays of the shape ``full``."""
    x = lax.expand_dims(x, range(x.ndim, len(full)))
    shape = [*x.shape]
    for side in (range(axis), range(axis + 1, len(full))):
        if math.prod(shape[d] for d in side) != 1:
            for d in side:
                shape[d] = full[d]
    x = jnp.broadcast_to(x, shape)
    # Behind the barrier it is computed once, and not for the first step and for the loop.
    return Elements.of(lax.optimization_barrier(x.reshape(shape_of(shape, axis))))


def can_be_walked(operands: Sequence[jax.Array], full: Sequence[int], axis: int) -> bool:
    """Whether a loop takes these operands, whose shape together is ``full``, and is worth it."""
    sizes = shape_of(full, axis)
    suit = 0 not in sizes and all(x.dtype.name in DTYPES for x in operands)
    return suit and full[axis] > SHORT and max(sizes) < extent.FAR


def is_fast(jaxpr: core.ClosedJaxpr) -> bool:
    """Whether a function of scalars takes one of them as fast as of many."""
    return {equation.primitive.name for equation in jaxpr.jaxpr.eqns} <= FAST


def is_of_logarithms(jaxpr: core.ClosedJaxpr) -> bool:
    """Whether a function of scalars takes a logarithm."""
    return not LOGARITHMS.isdisjoint(e.primitive.name for e in jaxpr.jaxpr.eqns)


def words_of(dtypes: Iterable[np.dtype[Any]]) -> int:
    """How many words of 32 bits hold elements of these dtypes."""
    return sum(-(-d.itemsize // 4) for d in dtypes)
