"""Operators on narrow integers, put so that they compute in words of 32 bits.

A GPU has no narrower registers. An addition of int8 is one of 32 bits whose result is cut to 8, and
what is compared is extended from 8 again: a + b + a b took 30 instructions an element, and takes 14
so (sm_90). Here a value lies in the low bits of a word. It is *exact* where the word is the same
number: as read, and behind what keeps numbers in their range. Sums, products and bits need low bits
alone; comparisons and all others need exact words, which are cut and extended where they are not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax import lax
from jax.extend import core

from jscan.jaxprs import aval, bound, evaluate

RING = ("add", "sub", "mul", "neg", "integer_pow", "square")
"""What of low bits makes low bits; numbers may leave their range."""
BITS = ("and", "or", "xor")
"""What of low bits makes low bits, and of exact words exact ones."""
ORDER = ("max", "min")
"""What of exact words makes exact ones."""
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclasses.dataclass(frozen=True)
class Word:
    """A narrow integer in the low bits of a word of 32; of a bool 0 or 1."""

    value: Any
    dtype: np.dtype
    exact: bool

    def exactly(self) -> Any:
        """The word that is the number."""
        return self.value if self.exact else _word(self.narrow())

    def narrow(self) -> Any:
        """The number in its own dtype."""
        if self.dtype == np.bool_:
            return self.value != np.int32(0)
        return lax.convert_element_type(self.value, self.dtype)


Value: TypeAlias = Any
"""A word, or what stands for a value that is not narrow. Comparisons leave bools as they are."""


def is_narrow(dtype: Any) -> bool:
    """Whether words hold numbers of the dtype."""
    dtype = np.dtype(dtype)
    return dtype.kind in "iub" and dtype.itemsize < 4


def word_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of a word, or the same where the dtype is not narrow."""
    if not is_narrow(dtype):
        return dtype
    return np.dtype(np.uint32 if dtype.kind == "u" else np.int32)


def in_words(
    operator: core.ClosedJaxpr, trace: Callable[..., core.ClosedJaxpr]
) -> core.ClosedJaxpr:
    """The operator on words where its leaves are narrow; the same one where none is.

    Args:
      operator: flat, on scalars, without constants.
      trace: makes a jaxpr of a function and dtypes.
    """
    dtypes = [np.dtype(a.dtype) for a in operator.out_avals]
    if not any(map(is_narrow, dtypes)):
        return operator
    exact = [True] * len(dtypes)
    while True:  # what comes out goes in again, so that it has to be as exact as what goes in
        found: list[bool] = []

        def run(*scalars: Any, exact: Sequence[bool] = exact, found: list[bool] = found) -> Any:
            told = zip(scalars, dtypes * 2, [*exact] * 2, strict=True)
            operands = [Word(x, d, e) if is_narrow(d) else x for x, d, e in told]
            results = evaluate(operator.jaxpr, operands, (_on_words, _others), _number)
            results = [
                _as_word(x, dtype) if is_narrow(dtype) else x
                for x, dtype in zip(results, dtypes, strict=True)
            ]
            found[:] = [not isinstance(x, Word) or x.exact for x in results]
            return [x.value if isinstance(x, Word) else x for x in results]

        traced = trace(run, [word_dtype(d) for d in dtypes] * 2)
        both = [before and after for before, after in zip(exact, found, strict=True)]
        if both == exact:
            return traced
        exact = both


def _word(number: Any) -> Any:
    """A narrow number as a word."""
    return lax.convert_element_type(number, word_dtype(np.dtype(number.dtype)))


def _number(scalar: np.generic) -> Value:
    """A literal as an operand."""
    dtype = scalar.dtype
    return Word(word_dtype(dtype).type(scalar), dtype, True) if is_narrow(dtype) else scalar


def _as_word(value: Value, dtype: np.dtype) -> Word:
    """A value of a narrow dtype as a word, whether it is one or a bool of a comparison."""
    return value if isinstance(value, Word) else Word(_word(value), dtype, True)


def _plain(value: Value) -> Any:
    """A value in its own dtype."""
    return value.narrow() if isinstance(value, Word) else value


def _on_words(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value] | None:
    """The rule for what words know; None where a value is none, or the equation is another."""
    name, dtype = equation.primitive.name, np.dtype(aval(equation.outvars[0]).dtype)
    if name == "convert_element_type":
        return _converted(operands[0], dtype)
    if name == "select_n" and is_narrow(dtype) and len(operands) == 3:
        which, *cases = _plain(operands[0]), *operands[1:]
        words = [_as_word(x, dtype) for x in cases]
        chosen = lax.select_n(which, *(x.value for x in words))
        return [Word(chosen, dtype, all(x.exact for x in words))]
    if not all(isinstance(x, Word) for x in operands):
        return None
    if name in COMPARISONS:
        return bound(equation, [x.exactly() for x in operands])
    if not is_narrow(dtype):
        return None
    if name == "not":
        flipped = operands[0].value ^ np.int32(1) if dtype == np.bool_ else ~operands[0].value
        return [Word(flipped, dtype, operands[0].exact and dtype.kind != "u")]
    if name in BITS or (name in RING and dtype != np.bool_):
        [result] = bound(equation, [x.value for x in operands])
        return [Word(result, dtype, name in BITS and all(x.exact for x in operands))]
    if name == "abs":
        [result] = bound(equation, [operands[0].exactly()])
        # The least number has no positive one: its low bits are the number again.
        return [Word(Word(result, dtype, dtype.kind == "u").exactly(), dtype, True)]
    if name in ORDER:
        [result] = bound(equation, [x.exactly() for x in operands])
        return [Word(result, dtype, True)]
    return None


def _converted(value: Value, dtype: np.dtype) -> list[Value] | None:
    """A conversion to ``dtype`` where words know it."""
    if isinstance(value, Word) and not is_narrow(dtype):
        return [lax.convert_element_type(value.exactly(), dtype)]
    source = value.dtype if isinstance(value, Word) else np.dtype(value.dtype)
    if dtype == np.bool_ or not is_narrow(dtype) or source.kind not in "iub":
        return None
    word, exact = value, source == np.bool_
    if isinstance(value, Word):
        # More bits than the number had repeat its sign; as many or fewer are the same.
        wider = dtype.itemsize > source.itemsize
        word = value.exactly() if wider else value.value
        exact = np.can_cast(source, dtype) and (wider or value.exact)
    return [Word(lax.convert_element_type(word, word_dtype(dtype)), dtype, exact)]


def _others(equation: core.JaxprEqn, operands: Sequence[Value]) -> list[Value]:
    """The rule that computes in the dtypes that there are."""
    results = bound(equation, [_plain(x) for x in operands])
    dtypes = [np.dtype(aval(v).dtype) for v in equation.outvars]
    narrow = [is_narrow(d) and d != np.bool_ for d in dtypes]
    return [
        Word(_word(x), d, True) if n else x for x, d, n in zip(results, dtypes, narrow, strict=True)
    ]
