"""Operators on narrow integers that lie abreast in a word of 32 bits, four bytes or two halves.

    words     │ d c b a │       places of a word: elements of neighbouring lanes
    a + b     low bits are added without a carry into the next place, the highest ones by xor
    a < b     of what is subtracted, the highest bit of each place; spread over it, a mask
    a * b     place by place, where it stays

A word is combined by a few instructions more than an element, and there are four or two elements in
it. H. S. Warren, Hacker's Delight, 2nd edition, chapter 2-18.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax import lax
from jax.extend import core

from jscan.combine import Combine
from jscan.jaxprs import CALLS, aval, evaluate, holds_jaxprs
from jscan.kernels import funnels
from jscan.kernels.operator import trace_scalars

WORD = np.dtype(np.int32)
"""The dtype of a word."""


@dataclasses.dataclass(frozen=True)
class Places:
    """How a word is divided: into places of so many bits."""

    bits: int

    @property
    def count(self) -> int:
        """How many numbers lie in a word."""
        return 32 // self.bits

    def each(self, number: int) -> np.int32:
        """The word that has these bits in every place."""
        number &= (1 << self.bits) - 1
        return _word(sum(number << shift for shift in range(0, 32, self.bits)))

    @property
    def high(self) -> np.int32:
        """The highest bit of each place."""
        return self.each(1 << (self.bits - 1))

    @property
    def low(self) -> np.int32:
        """All others."""
        return ~self.high


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Narrow integers abreast; of bool 0 or 1."""

    word: Any
    dtype: np.dtype

    @property
    def places(self) -> Places:
        """How the word is divided."""
        return Places(8 * self.dtype.itemsize)


@dataclasses.dataclass(frozen=True)
class Mask:
    """The answers to a comparison: all bits of a place, or none."""

    word: Any
    places: Places


Value: TypeAlias = Any
"""What stands for a scalar of an operator: `Numbers`, or a `Mask`."""


def places(dtypes: Sequence[np.dtype]) -> Places | None:
    """The places of leaves of these dtypes; None where they do not lie abreast."""
    sizes = {dtype.itemsize for dtype in dtypes}
    narrow = all(dtype.kind in "iub" for dtype in dtypes) and sizes <= {1, 2}
    return Places(8 * sizes.pop()) if narrow and len(sizes) == 1 else None


@functools.lru_cache(maxsize=1024)
def in_places(combine: Combine) -> core.ClosedJaxpr | None:
    """The operator on words of elements that lie abreast; None where it has no such form."""
    source, dtypes = combine.jaxpr, combine.dtypes
    if any(holds_jaxprs(e) and e.primitive.name not in CALLS for e in source.jaxpr.eqns):
        return None

    def run(*words: Any) -> list[Any]:
        operands = [Numbers(x, d) for x, d in zip(words, dtypes * 2, strict=True)]
        constants = [_literal(np.asarray(x)[()]) for x in source.consts]
        with np.errstate(over="ignore"):  # what is made of constants alone
            results = evaluate(source.jaxpr, [*constants, *operands], (_in_place,), _literal)
        return [_numbers(x, d).word for x, d in zip(results, dtypes, strict=True)]

    try:
        return trace_scalars(run, [WORD] * (2 * len(dtypes)))
    except (NotImplementedError, _Apart):
        return None


def identity(combine: Combine) -> tuple[np.generic, ...] | None:
    """The operator's identity as words; None where none is known."""
    if combine.identity is None:
        return None
    each = zip(combine.identity, combine.dtypes, strict=True)
    return tuple(_literal(np.asarray(x, d)[()]).word for x, d in each)


class _Apart(Exception):
    """Raised for what does not lie abreast."""


# --- words --------------------------------------------------------------------------------------


def _word(bits: int) -> np.int32:
    return np.uint32(bits & 0xFFFFFFFF).view(np.int32)


def _literal(scalar: Any) -> Numbers:
    """A number in every place."""
    dtype = np.dtype(scalar.dtype)
    if dtype.kind not in "iub" or dtype.itemsize > 2:
        raise _Apart
    return Numbers(Places(8 * dtype.itemsize).each(int(scalar)), dtype)


def _numbers(value: Value, dtype: np.dtype) -> Numbers:
    """A value of the dtype as numbers: of a mask 1 and 0."""
    if isinstance(value, Numbers):
        return value
    if value.places.bits != 8 * dtype.itemsize:
        raise _Apart
    return Numbers(value.word & value.places.each(1), dtype)


def _mask(value: Value) -> Mask:
    """Whether numbers of bool are 1."""
    if isinstance(value, Mask):
        return value
    return _spread(value.word, value.places, 0)


def _spread(word: Any, places: Places, bit: int) -> Mask:
    """The mask of places whose ``bit`` is set."""
    if bit + 1 < places.bits:
        word = lax.shift_left(word, np.int32(places.bits - 1 - bit))
    return Mask(funnels.spread_signs(word, places.bits), places)


def _right(word: Any, bits: int) -> Any:
    return lax.shift_right_logical(word, np.int32(bits)) if bits else word


def _chosen(mask: Mask, if_true: Any, if_false: Any) -> Any:
    return (if_true & mask.word) | (if_false & ~mask.word)


# --- arithmetic ---------------------------------------------------------------------------------


def _sum(x: Any, y: Any, places: Places) -> Any:
    return ((x & places.low) + (y & places.low)) ^ ((x ^ y) & places.high)


def _difference(x: Any, y: Any, places: Places) -> Any:
    return ((x | places.high) - (y & places.low)) ^ ((x ^ ~y) & places.high)


def _product(x: Any, y: Any, places: Places) -> Any:
    """Each place by itself: low bits of a product are those of its factors' low bits."""
    found = None
    for shift in range(0, 32, places.bits):
        here = _word(((1 << places.bits) - 1) << shift)
        last = shift + places.bits == 32
        product = _right(x, shift) * (y & here if shift else y)
        product = product if last else product & here
        found = product if found is None else found | product
    return found


def _at_least(x: Numbers, y: Numbers) -> Mask:
    """Where x is not less than y."""
    places, a, b = x.places, x.word, y.word
    difference = (a | places.high) - (b & places.low)
    greater = ~a & b if x.dtype.kind == "i" else a & ~b  # by the highest bits, where these differ
    return _spread(greater | (~(a ^ b) & difference), places, places.bits - 1)


def _differ(x: Any, y: Any, places: Places) -> Mask:
    """Where x and y are not the same."""
    found = x ^ y
    return _spread(((found & places.low) + places.low) | found, places, places.bits - 1)


def _not(mask: Mask) -> Mask:
    return Mask(~mask.word, mask.places)


# --- rules --------------------------------------------------------------------------------------


def _both(value: Sequence[Value]) -> tuple[Numbers, Numbers]:
    """Operands as numbers of one dtype; of two masks, as numbers of bool."""
    x, y = value
    dtype = next((v.dtype for v in value if isinstance(v, Numbers)), np.dtype(np.bool_))
    x, y = _numbers(x, dtype), _numbers(y, dtype)
    if x.dtype != y.dtype:
        raise _Apart
    return x, y


def _ring(function: Callable[[Any, Any, Places], Any], values: Sequence[Value]) -> Value:
    x, y = _both(values)
    if x.dtype == np.bool_:
        raise _Apart
    return Numbers(function(x.word, y.word, x.places), x.dtype)


def _bits(function: Callable[[Any, Any], Any], values: Sequence[Value]) -> Value:
    x, y = values
    if isinstance(x, Mask) and isinstance(y, Mask) and x.places == y.places:
        return Mask(function(x.word, y.word), x.places)
    first, second = _both(values)
    return Numbers(function(first.word, second.word), first.dtype)


def _compared(name: str, values: Sequence[Value]) -> Value:
    x, y = _both(values)
    if name in ("eq", "ne"):
        mask = _differ(x.word, y.word, x.places)
        return mask if name == "ne" else _not(mask)
    first, second = (x, y) if name in ("ge", "lt") else (y, x)
    mask = _at_least(first, second)
    return mask if name in ("ge", "le") else _not(mask)


def _extremum(values: Sequence[Value], *, greatest: bool) -> Numbers:
    x, y = _both(values)
    first, second = (x, y) if greatest else (y, x)
    return Numbers(_chosen(_at_least(first, second), x.word, y.word), x.dtype)


def _negative(x: Numbers) -> Numbers:
    return Numbers(_difference(np.int32(0), x.word, x.places), x.dtype)


def _absolute(values: Sequence[Value]) -> Value:
    [x] = values
    if not isinstance(x, Numbers) or x.dtype.kind != "i":
        return x
    mask = _spread(x.word, x.places, x.places.bits - 1)
    return Numbers(_chosen(mask, _negative(x).word, x.word), x.dtype)


def _converted(values: Sequence[Value], dtype: np.dtype) -> Value:
    [value] = values
    if dtype == np.bool_ and isinstance(value, Numbers) and value.dtype != np.bool_:
        return _differ_from_zero(value)
    number = _numbers(value, dtype) if isinstance(value, Mask) else value
    if number.dtype.itemsize != dtype.itemsize or dtype.kind not in "iub":
        raise _Apart
    return Numbers(number.word, dtype)


def _differ_from_zero(x: Numbers) -> Mask:
    return _differ(x.word, np.int32(0), x.places)


def _selected(values: Sequence[Value]) -> Value:
    which, *cases = values
    if len(cases) != 2:
        raise _Apart
    mask = _mask(which)
    if all(isinstance(x, Mask) for x in cases):
        if any(x.places != mask.places for x in cases):
            raise _Apart
        if_false, if_true = (x.word for x in cases)
        return Mask(_chosen(mask, if_true, if_false), mask.places)
    no, yes = _both(cases)
    if no.places != mask.places:
        raise _Apart
    return Numbers(_chosen(mask, yes.word, no.word), no.dtype)


def _inverted(values: Sequence[Value]) -> Value:
    [x] = values
    if isinstance(x, Mask):
        return _not(x)
    return Numbers(x.word ^ x.places.each(1) if x.dtype == np.bool_ else ~x.word, x.dtype)


def _power(values: Sequence[Value], exponent: int) -> Value:
    [x] = values
    if not 1 <= exponent <= 4:
        raise _Apart
    found = x
    for _ in range(exponent - 1):
        found = _ring(_product, [found, x])
    return found


RULES: dict[str, Callable[[Sequence[Value]], Value]] = {
    "add": functools.partial(_ring, _sum),
    "sub": functools.partial(_ring, _difference),
    "mul": functools.partial(_ring, _product),
    "square": functools.partial(_power, exponent=2),
    "neg": lambda values: _ring(_difference, [_zero_like(values[0]), values[0]]),
    "abs": _absolute,
    "not": _inverted,
    "and": functools.partial(_bits, lambda x, y: x & y),
    "or": functools.partial(_bits, lambda x, y: x | y),
    "xor": functools.partial(_bits, lambda x, y: x ^ y),
    "max": functools.partial(_extremum, greatest=True),
    "min": functools.partial(_extremum, greatest=False),
    "clamp": lambda x: _extremum([_extremum(x[:2], greatest=True), x[2]], greatest=False),
    "select_n": _selected,
    **{n: functools.partial(_compared, n) for n in ("eq", "ne", "lt", "le", "gt", "ge")},
}


def _zero_like(value: Value) -> Numbers:
    if isinstance(value, Mask):
        raise _Apart
    return Numbers(np.int32(0), value.dtype)


def _in_place(equation: core.JaxprEqn, values: Sequence[Value]) -> list[Value] | None:
    """The results of an equation of scalars, in every place; None where there is no rule."""
    name = equation.primitive.name
    if name == "convert_element_type":
        return [_converted(values, np.dtype(aval(equation.outvars[0]).dtype))]
    if name == "integer_pow":
        return [_power(values, equation.params["y"])]
    rule = RULES.get(name)
    return None if rule is None else [rule(values)]
