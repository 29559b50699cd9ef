"""Accesses to memory: `jscan.kernels.addresses` plans their addresses, for this engine too."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jscan.kernels import addresses
from jscan.kernels.engines.source.function import Equation, Rule
from jscan.kernels.engines.source.operands import (
    BOOL,
    F32,
    I32,
    I64,
    U64,
    Form,
    Operand,
    as_type,
    constant,
)
from jscan.kernels.engines.source.tiles import broadcast

U8, U32 = np.dtype(np.uint8), np.dtype(np.uint32)
_SEEN = {None: None, 8: "tl.uint8", 32: "tl.int32"}
"""What memory is seen as, by bits."""


class _Access:
    """The operands of a memory primitive: a reference, an address, values, and perhaps a mask."""

    def __init__(self, at: Equation):
        self.multipliers: Sequence[int] = at.params["multipliers"]
        count = len(self.multipliers)
        self.ref, *others = at.operands
        self.terms, self.rest = others[:count], others[count:]

    def pointer(
        self, shape: tuple[int, ...], *, cast: str | None = None, scattered: bool = False
    ) -> str:
        """The pointers; ``cast`` reads the memory as another type.

        The cast comes before the address is formed: behind it, it would hide from the compiler how
        the addresses run.
        """
        text, size = self.ref.text, math.prod(self.ref.shape)
        if cast is not None:
            text = f"{text}.to(tl.pointer_type({cast}))"
        shapes = [term.shape for term in self.terms]
        plan = addresses.plan(size, shapes, self.multipliers, shape, scattered=scattered)
        base: list[Operand] = []
        offsets: list[Operand] = []
        known = 0
        for how, term in zip(plan, self.terms, strict=True):
            if how.is_displacement and term.value is not None:
                known += int(term.value) * how.multiplier
            else:
                (base if how.moves_base else offsets).append(_product(how, term))
        base = [term for term in base if term.value != 0]
        if base:
            text = f"{text} + {_sum(base)}"
        if offsets:
            spread = broadcast(Operand(_sum(offsets), I32, _shape(offsets), Form.CALL), shape)
            text = f"{text} + {spread.text}" + (f" + {known}" if known else "")
        elif shape:
            text = f"tl.broadcast_to({text}, {shape})"
        return text

    def value(self, number: int, shape: tuple[int, ...]) -> Operand:
        """One of the values, in the shape of the access."""
        return broadcast(self.rest[number], shape)

    def mask(self, number: int, shape: tuple[int, ...]) -> str:
        """The mask as an argument; nothing where there is none."""
        if len(self.rest) <= number:
            return ""
        return f", mask={self.value(number, shape).typed}"


def _product(how: addresses.Term, term: Operand) -> Operand:
    """A term of an address times its multiplier, in as many bits as were planned."""
    dtype = I64 if how.bits == 64 else I32
    if term.value is not None and not term.shape:
        product = int(term.value) * how.multiplier
        fits = -(2**31) <= product < 2**31
        return constant(product, I32 if fits else I64)
    term = as_type(term, dtype)
    if how.multiplier == 1:
        return term
    return Operand(f"{term.tight} * {how.multiplier}", dtype, term.shape, Form.OPERATION)


def _sum(terms: Sequence[Operand]) -> str:
    """The sum of terms, as an operand."""
    if len(terms) == 1:
        return terms[0].beside
    first, *others = terms
    left = first.tight if others[0].form is Form.NUMBER else first.beside
    return f"({' + '.join([left, *(other.beside for other in others)])})"


def _shape(terms: Sequence[Operand]) -> tuple[int, ...]:
    return addresses.shape_of_sum([term.shape for term in terms])


def _load(at: Equation) -> list[Operand]:
    access, shape = _Access(at), at.shape
    names, how = at.names(), access.mask(0, shape)
    if at.params["once"]:
        how += ', eviction_policy="evict_first"'
    if len(names) == 1:
        seen_as = at.params["seen_as"] or (8 if access.ref.dtype == BOOL else None)
        pointer = access.pointer(shape, cast=_SEEN[seen_as])
        at.function.line(f"{names[0].text} = tl.load({pointer}{how})")
        return names
    word = at.function.new(U64, shape)
    pointer = access.pointer(shape, cast="tl.uint64")
    at.function.line(f"{word.text} = tl.load({pointer}{how})")
    for name, half in zip(names, (word.text, f"({word.text} >> 32)"), strict=True):
        bits = Operand(f"{half}.to(tl.uint32)", U32, shape, Form.CALL)
        at.function.line(f"{name.text} = {as_type(bits, F32, bitcast=True).text}")
    return names


def _store(at: Equation) -> list[Operand]:
    access = _Access(at)
    shape, scattered = access.rest[0].shape, at.params["scattered"]
    if access.ref.dtype.kind != "c":
        pointer = access.pointer(shape, cast=_SEEN[at.params["seen_as"]], scattered=scattered)
        value, mask = access.value(0, shape).typed, access.mask(1, shape)
    else:
        pointer = access.pointer(shape, cast="tl.uint64", scattered=scattered)
        low, high = (_bits(access.value(i, shape)) for i in (0, 1))
        value, mask = f"({high} << 32) | {low}", access.mask(2, shape)
    at.function.line(f"tl.store({pointer}, {value}{mask})")
    return []


def _bits(value: Operand) -> str:
    """The bits of a value of 32 bits, as a word of 64."""
    return as_type(as_type(value, U32, bitcast=True), U64).text


def _publish(at: Equation) -> list[Operand]:
    access = _Access(at)
    shape = access.rest[1].shape
    tag, value = (_bits(access.value(i, shape)) for i in (0, 1))
    pointer = access.pointer(shape, cast="tl.uint64")
    # By the protocol a plain store would do, but it reaches the L2 late, behind the tile's own.
    at.function.line(
        f'tl.atomic_max({pointer}, ({tag} << 32) | {value}{access.mask(2, shape)}, sem="relaxed")'
    )
    return []


def _take_ticket(at: Equation) -> list[Operand]:
    pointer = _Access(at).pointer((), cast="tl.uint64")
    one = "tl.full((), 1, tl.uint64)"
    [name] = at.names()
    at.function.line(f'{name.text} = tl.atomic_add({pointer}, {one}, sem="relaxed").to(tl.int32)')
    return [name]


def _peek(at: Equation) -> list[Operand]:
    access, shape = _Access(at), at.shape
    pointer = access.pointer(shape, cast="tl.uint64")
    word = at.function.new(U64, shape)
    mask = access.mask(0, shape)
    at.function.line(f"{word.text} = tl.load({pointer}{mask}, other=0, volatile=True)")
    tag, value = at.names()
    at.function.line(f"{tag.text} = ({word.text} >> 32).to(tl.int32)")
    at.function.line(f"{value.text} = {word.text}.to(tl.int32)")
    return [tag, value]


RULES: dict[str, Rule] = {
    "jscan_load": _load,
    "jscan_store": _store,
    "jscan_publish": _publish,
    "jscan_take_ticket": _take_ticket,
    "jscan_peek": _peek,
}
