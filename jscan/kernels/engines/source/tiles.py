"""Tiles as a whole: their shapes, scans, reductions, and values as the compiler should see them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from jax.extend import core

from jscan.kernels.engines import assembly
from jscan.kernels.engines.source.arithmetic import extremum_text
from jscan.kernels.engines.source.function import Equation, Rule
from jscan.kernels.engines.source.operands import (
    BOOL,
    I32,
    Form,
    Operand,
    full,
    number_text,
    tuple_of,
    type_name,
)

# --- shapes -------------------------------------------------------------------------------------


def _dimensions(rank: int, kept: Sequence[int]) -> str:
    """An index that adds dimensions of size 1 around those that are kept."""
    return f"[{', '.join(':' if d in kept else 'None' for d in range(rank))}]"


def broadcast(operand: Operand, shape: tuple[int, ...]) -> Operand:
    """The operand in the shape, to which its own may be extended from the left."""
    if operand.shape == shape:
        return operand
    if not operand.shape:
        number = None if operand.value is None else number_text(operand.value)
        text = full(shape, number or operand.text, operand.dtype)
        return Operand(text, operand.dtype, shape, Form.CALL, value=operand.value)
    rank, own = len(shape), len(operand.shape)
    expanded = operand.tight
    if own < rank:
        expanded += _dimensions(rank, range(rank - own, rank))
    text = f"tl.broadcast_to({expanded}, {tuple_of(shape)})"
    return Operand(text, operand.dtype, shape, Form.CALL)


def _iota(at: Equation) -> list[Operand]:
    shape, dimension = at.params["shape"], at.params["dimension"]
    dtype = np.dtype(at.params["dtype"])
    text = f"tl.arange(0, {shape[dimension]})"
    if dtype != I32:
        text += f".to({type_name(dtype)})"
    if len(shape) > 1:
        text += _dimensions(len(shape), [dimension])
        text = f"tl.broadcast_to({text}, {tuple_of(shape)})"
    return [Operand(text, dtype, shape, Form.CALL)]


def _broadcast_in_dim(at: Equation) -> list[Operand]:
    [x], shape = at.operands, tuple(at.params["shape"])
    if not x.shape:
        return [broadcast(x, shape)]
    kept = at.params["broadcast_dimensions"]
    text = x.tight + (_dimensions(len(shape), kept) if len(kept) < len(shape) else "")
    sizes = tuple(x.shape[kept.index(d)] if d in kept else 1 for d in range(len(shape)))
    if sizes != shape:
        text = f"tl.broadcast_to({text}, {tuple_of(shape)})"
    return [Operand(text, x.dtype, shape, Form.CALL)]


def _reshape(at: Equation) -> list[Operand]:
    [x], shape = at.operands, at.shape
    if x.shape == shape:
        return [x]
    if not x.shape:
        return [broadcast(x, shape)]
    if not shape:  # a tensor of one element is no scalar, but its reduction is
        return [_reduced(at, x, range(len(x.shape)), "reduce_sum")]
    return [Operand(f"tl.reshape({x.typed}, {tuple_of(shape)})", x.dtype, shape, Form.CALL)]


def _count_bytes(at: Equation) -> list[Operand]:
    [marks], text = at.operands, assembly.count_bytes(negative=at.params["negative"])
    call = (
        f'tl.inline_asm_elementwise("{text}", "{assembly.KINDS}", [{marks.typed}], '
        f"dtype=tl.int32, is_pure=True, pack=4)"
    )
    return at.named(call)


def _deinterleave(at: Equation) -> list[Operand]:
    [x], names, count = at.operands, at.names(), at.params["count"]
    levels = count.bit_length() - 1
    shape = (*x.shape[:-1], x.shape[-1] // count, *[2] * levels)
    parts = [f"tl.reshape({x.typed}, {tuple_of(shape)})"]
    for level in range(1, levels + 1):  # the places modulo two, four, ... of each part before
        sides = [name.text for name in names]
        if level < levels:
            sides = [at.function.new(x.dtype, (1,)).text for _ in range(2**level)]
        half = len(parts)
        for part, first, second in zip(parts, sides[:half], sides[half:], strict=True):
            at.function.line(f"{first}, {second} = tl.split({part})")
        parts = sides
    return names


def _interleave(at: Equation) -> list[Operand]:
    parts = [x.typed for x in at.operands]
    while len(parts) > 1:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:], strict=True)
        parts = [f"tl.join({first}, {second})" for first, second in pairs]
    return at.named(f"tl.reshape({parts[0]}, {tuple_of(at.shape)})")


# --- scans and reductions -----------------------------------------------------------------------


def _combine(at: Equation, jaxpr: core.ClosedJaxpr) -> str:
    """The name of a combine operator."""
    count = len(jaxpr.in_avals) // 2
    names = ("x", "y") if count == 1 else (*map("x{}".format, range(count)),)
    if count > 1:
        names += (*map("y{}".format, range(count)),)
    dtypes = [np.dtype(aval.dtype) for aval in jaxpr.in_avals]
    parameters = [Operand(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]
    eqns = jaxpr.jaxpr.eqns
    alone = eqns[0].primitive.name.removeprefix("jscan_") if len(eqns) == 1 else ""
    name = _NAMES.get(alone, "combine")
    return at.function.module.function(jaxpr, name, parameters)


_NAMES = {
    **{name: name for name in ("add", "mul")},
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "max": "maximum",
    "min": "minimum",
    "nan_max": "maximum",
    "nan_min": "minimum",
}


def _tile_scan(at: Equation) -> list[Operand]:
    axis, reverse = at.params["axis"], at.params["reverse"]
    if at.operands[0].shape[axis] == 1:
        return list(at.operands)
    combine = _combine(at, at.params["jaxpr"])
    names = at.names()
    tiles = ", ".join(x.typed for x in at.operands)
    if len(at.operands) > 1:
        tiles = f"({tiles})"
    call = f"tl.associative_scan({tiles}, {axis}, {combine}{', reverse=True' if reverse else ''})"
    at.function.line(f"{', '.join(name.text for name in names)} = {call}")
    return names


def _tile_reduce(at: Equation) -> list[Operand]:
    combine = _combine(at, at.params["jaxpr"])
    return at.named(f"tl.reduce({at.operands[0].typed}, {at.params['axis']}, {combine})")


def _tile_histogram(at: Equation) -> list[Operand]:
    keys, mask = at.operands
    return at.named(f"tl.histogram({keys.typed}, {at.params['bins']}, mask={mask.typed})")


_REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
    "reduce_and": "bitwise_and",
    "reduce_or": "bitwise_or",
}
_SYMBOLS = {"add": "+", "mul": "*", "bitwise_and": "&", "bitwise_or": "|"}


def _reduced(at: Equation, x: Operand, axes: Sequence[int], primitive: str) -> Operand:
    """The reduction along the axes, one after another from the last."""
    if not axes:
        return x
    name = _REDUCTIONS[primitive]
    if x.dtype == BOOL and name in ("maximum", "minimum"):
        name = "bitwise_or" if name == "maximum" else "bitwise_and"
    left, right = Operand("x", x.dtype), Operand("y", x.dtype)
    text = f"x {_SYMBOLS[name]} y" if name in _SYMBOLS else extremum_text(name, left, right)
    combine = at.function.module.returning(text, name, [left, right])
    for axis in sorted(axes, reverse=True):
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        text = f"tl.reduce({x.typed}, {axis}, {combine})"
        x = at.function.named(Operand(text, x.dtype, shape, Form.CALL))
    return x


def _reduce(at: Equation) -> list[Operand]:
    [x] = at.operands
    if x.dtype == BOOL and at.eqn.primitive.name in ("reduce_sum", "reduce_prod"):
        raise at.unwritable()
    return [_reduced(at, x, at.params["axes"], at.eqn.primitive.name)]


# --- values as the compiler should see them -----------------------------------------------------


def _assembly(
    at: Equation, *, text: str, register: str, pure: bool, together: int = 1
) -> list[Operand]:
    """An instruction with the result $0 and the operand $1, in registers of a kind.

    A register holds so many elements ``together``.
    """
    [x] = at.operands
    call = (
        f'tl.inline_asm_elementwise("{text}", "={register},{register}", [{x.typed}], '
        f"dtype={type_name(x.dtype)}, is_pure={pure}, pack={together})"
    )
    return at.named(call)


def _instruction(text: str, register: str) -> Rule:
    return functools.partial(_assembly, text=f"{text} $0, $1;", register=register, pure=True)


def _pause(at: Equation) -> list[Operand]:
    text = f"nanosleep.u32 {at.params['nanoseconds']}; mov.u32 $0, $1;"
    return _assembly(at, text=text, register="r", pure=False)


def _settle(at: Equation) -> list[Operand]:
    """A move that the compiler may not drop, nor carry past another of its kind or a shuffle."""
    [x] = at.operands
    if x.bits < 32 or x.dtype == BOOL:
        return list(at.operands)
    register, name = {("f", 32): ("f", "f32"), ("f", 64): ("d", "f64")}.get(
        (x.kind, x.bits), ("r" if x.bits == 32 else "l", f"b{x.bits}")
    )
    return _assembly(at, text=f"mov.{name} $0, $1;", register=register, pure=False)


def _hold(at: Equation) -> list[Operand]:
    """A move of whole registers, several narrow elements in one."""
    [x] = at.operands
    if x.bits >= 32 or x.dtype == BOOL or math.prod(x.shape) < 128:
        return _settle(at)
    text = "mov.b32 $0, $1;"
    return _assembly(at, text=text, register="r", pure=False, together=32 // x.bits)


RULES: dict[str, Rule] = {
    "iota": _iota,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "jscan_deinterleave": _deinterleave,
    "jscan_interleave": _interleave,
    "jscan_count_bytes": _count_bytes,
    "jscan_tile_scan": _tile_scan,
    "jscan_tile_reduce": _tile_reduce,
    "jscan_tile_histogram": _tile_histogram,
    "jscan_fast_exp2": _instruction("ex2.approx.ftz.f32", "f"),
    "jscan_fast_log2": _instruction("lg2.approx.ftz.f32", "f"),
    "jscan_opaque": _instruction("mov.b32", "r"),
    "jscan_unknown": functools.partial(_assembly, text=assembly.UNKNOWN, register="r", pure=True),
    "jscan_settle": _settle,
    "jscan_hold": _hold,
    "jscan_pause": _pause,
}
