"""The in-kernel primitives for Pallas on Triton: the one file that touches ``jax._src``.

Pallas traces a kernel's Python to a jaxpr and lowers that jaxpr to Triton IR, by rules that it
keeps in a table. For each primitive of `jscan.kernels.language` this file adds such a rule, an
abstract evaluation with its effects, and, for those that take references, a discharge rule, from
which the interpreter is made. Another engine would be another file like this one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import state
from jax._src.interpreters.mlir import TracebackCaches
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.triton import lowering as triton
from jax._src.state import discharge
from jax.extend import core
from jax.interpreters import batching, mlir

from jscan.kernels import language as p

_WIDE = 2**31
_dialect: Any = tt  # its own constructors replace the generated ones that type checkers see
_context: Any = triton.ModuleContext  # an operator by itself needs neither grid nor module
Results = tuple[tuple[Any, ...], Any]


# --- register tiles -----------------------------------------------------------------------------


def _values(ctx: Any, operands: Sequence[Any]) -> list[Any]:
    return [triton._ensure_ir_value(x, a) for x, a in zip(operands, ctx.avals_in, strict=True)]


def _fill_region(ctx: Any, operation: Any, leaves: Sequence[Any], jaxpr: Any, end: Any) -> None:
    """Makes the operator the combine region of ``operation``."""
    types = [triton._element_type(x.type) for x in leaves] * 2
    entry = operation.regions[0].blocks.append(*types)
    with ir.InsertionPoint.at_block_begin(entry):
        results = triton.lower_jaxpr_to_triton_ir(ctx.context, jaxpr.jaxpr, None, *entry.arguments)
        end([triton._ensure_ir_value(r, a) for r, a in zip(results, jaxpr.out_avals, strict=True)])
    operation.verify()


def _tile_scan(ctx: Any, *leaves: Any, jaxpr: Any, axis: int, reverse: bool) -> list[Any]:
    values = _values(ctx, leaves)
    if ctx.avals_in[0].shape[axis] == 1:
        return values
    scan = _dialect.ScanOp(values, axis, reverse)
    _fill_region(ctx, scan, values, jaxpr, tt.scan_return)
    return list(scan.result)


def _tile_reduce(ctx: Any, leaf: Any, *, jaxpr: Any, axis: int) -> Any:
    values = _values(ctx, [leaf])
    reduction = _dialect.ReduceOp(values, axis)
    _fill_region(ctx, reduction, values, jaxpr, tt.reduce_return)
    [result] = reduction.result
    return result


def _tile_reduce_abstract_eval(aval: Any, *, jaxpr: Any, axis: int) -> Any:
    del jaxpr
    return jax.core.ShapedArray(aval.shape[:axis] + aval.shape[axis + 1 :], aval.dtype)


def _gather(ctx: Any, x: Any, places: Any, *, axis: int) -> Any:
    x, places = _values(ctx, [x, places])
    return tt.gather(x, places, axis)


def _gather_abstract_eval(x: Any, places: Any, **_: Any) -> Any:
    return jax.core.ShapedArray(places.shape, x.dtype)


def _quarters(ctx: Any, x: Any) -> list[Any]:
    [x] = _values(ctx, [x])
    kind, count = triton._element_type(x.type), ctx.avals_in[0].size // 4
    shaped = tt.reshape(ir.RankedTensorType.get((count, 2, 2), kind), x)
    even, odd = tt.split(shaped)
    (first, third), (second, fourth) = tt.split(even), tt.split(odd)
    return [first, second, third, fourth]


def _quarters_abstract_eval(x: Any) -> Any:
    return [jax.core.ShapedArray((x.size // 4,), x.dtype)] * 4


def _binary(operation: Callable[..., Any], ctx: Any, x: Any, y: Any) -> Any:
    x, y = triton._bcast(x, y, *ctx.avals_in, *ctx.avals_out)
    return operation(x, y)


def _assembly(text: str, kind: str, pure: bool, ctx: Any, x: Any) -> Any:
    """``text`` with the result $0 and the operand $1, in registers of ``kind``."""
    [x] = _values(ctx, [x])
    return tt.elementwise_inline_asm([x.type], text, f"={kind},{kind}", pure, 1, [x])


def _pause(ctx: Any, after: Any, *, nanoseconds: int) -> Any:
    return _assembly(f"nanosleep.u32 {nanoseconds}; mov.u32 $0, $1;", "r", False, ctx, after)


def _settle(ctx: Any, values: Any) -> Any:
    """A move that the compiler may not drop, nor carry past another of its kind or a shuffle."""
    aval = ctx.avals_in[0]
    size = aval.dtype.itemsize
    if aval.dtype.kind not in "fiu" or size < 4:
        return values
    kind, name = {("f", 4): ("f", "f32"), ("f", 8): ("d", "f64")}.get(
        (aval.dtype.kind, size), ("r" if size == 4 else "l", f"b{8 * size}")
    )
    return _assembly(f"mov.{name} $0, $1;", kind, False, ctx, values)


def _unsigned(ctx: Any, scalar: Any, *, dtype: Any) -> Any:
    del dtype
    return triton._ensure_ir_value(scalar, ctx.avals_in[0])


# --- memory -------------------------------------------------------------------------------------


def _address(
    ref: Any, size: int, terms: Sequence[Any], shape: tuple[int, ...], scattered: bool
) -> Any:
    """Pointers: scalar (value, aval, multiplier) terms move the base, tensor ones are offsets.

    Those count from within the tile, but for the last where ``scattered``.
    """
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    wide = size >= _WIDE

    def weighted(value: Any, aval: Any, multiplier: int, width: Any) -> Any:
        value = triton._ir_cast(triton._ensure_ir_value(value, aval), width, signed=True)
        return triton._mul(value, triton._full(value.type, multiplier))

    base, offsets = None, None
    for number, (value, aval, multiplier) in enumerate(terms):
        if aval.shape:
            anywhere = scattered and number == len(terms) - 1
            far = anywhere or multiplier * max(shape) >= _WIDE
            width = i64 if wide and far else i32
            term = triton._bcast_to(weighted(value, aval, multiplier, width), shape)
            if offsets is not None and offsets.type != term.type:
                term = triton._ir_cast(term, i64, signed=True)
                offsets = triton._ir_cast(offsets, i64, signed=True)
            offsets = term if offsets is None else triton._add(offsets, term)
        else:
            term = weighted(value, aval, multiplier, i64 if wide else i32)
            base = term if base is None else triton._add(base, term)
    pointer = ref if base is None else triton._add(ref, base)
    if offsets is None:
        return pointer
    return triton._add(triton._bcast_to(pointer, shape), offsets)


class _Operands:
    """The operands of a memory primitive: a reference, an address, values, and perhaps a mask."""

    def __init__(self, ctx: Any, ref: Any, operands: Sequence[Any], multipliers: Sequence[int]):
        self._ref, (self._ref_aval, *avals) = ref, ctx.avals_in
        count = len(multipliers)
        self._terms = list(zip(operands[:count], avals[:count], multipliers, strict=True))
        self._rest = list(zip(operands[count:], avals[count:], strict=True))

    def address(
        self, shape: tuple[int, ...], *, cast: int | None = None, scattered: bool = False
    ) -> Any:
        """The pointers; ``cast`` reads the memory as integers of so many bits.

        The cast comes before the address is formed: behind it, it would hide from the compiler how
        the addresses run.
        """
        ref, size = self._ref, math.prod(self._ref_aval.shape)
        if cast is not None:
            ref = tt.bitcast(tt.PointerType.get(ir.IntegerType.get_signless(cast), 1), ref)
        return _address(ref, size, self._terms, shape, scattered)

    def value(self, number: int, shape: tuple[int, ...]) -> Any:
        value, aval = self._rest[number]
        return triton._bcast_to(triton._ensure_ir_value(value, aval), shape)

    def shape(self, number: int) -> tuple[int, ...]:
        return tuple(self._rest[number][1].shape)

    def mask(self, number: int, shape: tuple[int, ...]) -> Any:
        return self.value(number, shape) if len(self._rest) > number else None


def _load(ctx: Any, ref: Any, *operands: Any, multipliers: Sequence[int]) -> Any:
    parts, shape = _Operands(ctx, ref, operands, multipliers), ctx.avals_out[0].shape
    boolean = ctx.avals_in[0].dtype == jnp.bool_
    pointer = parts.address(shape, cast=8 if boolean else None)
    return triton._load(pointer, mask=parts.mask(0, shape))


def _store(
    ctx: Any, ref: Any, *operands: Any, multipliers: Sequence[int], scattered: bool
) -> list[Any]:
    parts = _Operands(ctx, ref, operands, multipliers)
    shape = parts.shape(0)
    address = parts.address(shape, scattered=scattered)
    triton._store(address, parts.value(0, shape), mask=parts.mask(1, shape))
    return []


def _publish(ctx: Any, words: Any, *operands: Any, multipliers: Sequence[int]) -> list[Any]:
    parts = _Operands(ctx, words, operands, multipliers)
    shape, i64 = parts.shape(1), ir.IntegerType.get_signless(64)
    tag = triton._ir_cast(parts.value(0, shape), i64, signed=False)
    value = triton._ir_cast(parts.value(1, shape), i64, signed=False)
    word = arith.ori(arith.shli(tag, triton._full(tag.type, 32)), value)
    mask = parts.mask(2, shape)
    if mask is None:
        mask = triton._bcast_to(triton._full(ir.IntegerType.get_signless(1), 1), shape)
    # By the protocol a plain store would do, but it reaches the L2 late, behind the tile's own.
    triton._atomic_rmw(
        tt.RMWOp.UMAX,
        parts.address(shape, cast=64),
        word,
        mask=mask,
        semantic=tt.MemSemantic.RELAXED,
    )
    return []


def _take_ticket(ctx: Any, words: Any, *operands: Any, multipliers: Sequence[int]) -> Any:
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    pointer = _Operands(ctx, words, operands, multipliers).address((), cast=64)
    always = triton._full(ir.IntegerType.get_signless(1), 1)
    one, relaxed = triton._full(i64, 1), tt.MemSemantic.RELAXED
    before = triton._atomic_rmw(tt.RMWOp.ADD, pointer, one, mask=always, semantic=relaxed)
    return triton._ir_cast(before, i32, signed=False)


def _peek(ctx: Any, words: Any, *operands: Any, multipliers: Sequence[int]) -> list[Any]:
    parts, shape = _Operands(ctx, words, operands, multipliers), ctx.avals_out[0].shape
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    zero = triton._full(ir.RankedTensorType.get(shape, i64) if shape else i64, 0)
    word = triton._load(
        parts.address(shape, cast=64), mask=parts.mask(0, shape), other=zero, is_volatile=True
    )
    high = arith.shrui(word, triton._full(word.type, 32))
    return [triton._ir_cast(high, i32, signed=False), triton._ir_cast(word, i32, signed=False)]


def _load_abstract_eval(ref: Any, *operands: Any, multipliers: Sequence[int]) -> Any:
    shape = p.address_shape(operands[: len(multipliers)])
    dtype = jnp.uint8 if ref.dtype == jnp.bool_ else ref.dtype
    return jax.core.ShapedArray(shape, dtype), {state.ReadEffect(0)}


def _peek_abstract_eval(words: Any, *operands: Any, multipliers: Sequence[int]) -> Any:
    del words
    shape = p.address_shape(operands[: len(multipliers)])
    return [jax.core.ShapedArray(shape, jnp.int32)] * 2, {state.ReadEffect(0)}


def _take_ticket_abstract_eval(words: Any, *operands: Any, multipliers: Sequence[int]) -> Any:
    del words, operands, multipliers
    return jax.core.ShapedArray((), jnp.int32), {state.ReadEffect(0), state.WriteEffect(0)}


def _write_abstract_eval(*operands: Any, **params: Any) -> Any:
    del operands, params
    return [], {state.WriteEffect(0)}


def _operands_of(arguments: Sequence[Any]) -> Sequence[Any]:
    """A discharge rule's operands, behind what jax passes first: a context; in 0.10 two lists."""
    return arguments[1 if jax.__version_info__ >= (0, 11) else 2 :]


def _discharge_read(meaning: Callable[..., Any], *arguments: Any, **params: Any) -> Results:
    operands = _operands_of(arguments)
    return (operands[0], *[None] * (len(operands) - 1)), meaning(*operands, **params)


def _discharge_write(meaning: Callable[..., Any], *arguments: Any, **params: Any) -> Results:
    operands = _operands_of(arguments)
    return (meaning(*operands, **params), *[None] * (len(operands) - 1)), []


def _discharge_both(meaning: Callable[..., Any], *arguments: Any, **params: Any) -> Results:
    operands = _operands_of(arguments)
    after, result = meaning(*operands, **params)
    return (after, *[None] * (len(operands) - 1)), result


# --- can Triton express this operator? ----------------------------------------------------------


def why_inexpressible(jaxpr: core.ClosedJaxpr) -> str | None:
    """Lowers the scalar operator alone, in a scratch module; the reason why that fails, or None."""
    with triton._new_ir_context(), ir.Location.unknown():
        module = ir.Module.create()
        types = [triton._dtype_to_ir_type(a.dtype) for a in jaxpr.in_avals]
        function = tt.FuncOp(
            "operator",
            ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            sym_visibility="public",
            ip=ir.InsertionPoint.at_block_begin(module.body),
        )
        function.body.blocks.append(*types)
        [entry] = function.body.blocks
        context = _context(
            name="operator",
            grid_mapping=None,
            program_ids=(),
            traceback_caches=TracebackCaches(),
            platform="cuda",
            compute_capability=90,
            mlir_ctx=None,
        )
        with ir.InsertionPoint(entry):
            try:
                triton.lower_jaxpr_to_triton_ir(context, jaxpr.jaxpr, None, *entry.arguments)
            except (NotImplementedError, ValueError, triton.LoweringError) as error:
                return str(error).splitlines()[0]
    return None


# --- registrations ------------------------------------------------------------------------------


def _register_pure(
    primitive: core.Primitive, abstract_eval: Any, meaning: Any, lowering: Any
) -> None:
    primitive.def_abstract_eval(abstract_eval)
    multiple = primitive.multiple_results
    mlir.register_lowering(primitive, mlir.lower_fun(meaning, multiple_results=multiple))
    triton.register_lowering(primitive)(lowering)


def _register_memory(
    primitive: core.Primitive, abstract_eval: Any, discharge_rule: Any, lowering: Any
) -> None:
    primitive.def_effectful_abstract_eval(abstract_eval)
    discharge.register_discharge_rule(primitive)(discharge_rule)
    triton.register_lowering(primitive)(lowering)


def _same(x: Any, *others: Any, **params: Any) -> Any:
    del others, params
    return x


def _instruction(name: str, kind: str) -> Callable[..., Any]:
    return functools.partial(_assembly, f"{name} $0, $1;", kind, True)


_register_pure(p.tile_scan_p, lambda *x, **_: list(x), p.tile_scan_meaning, _tile_scan)
_register_pure(p.tile_reduce_p, _tile_reduce_abstract_eval, p.tile_reduce_meaning, _tile_reduce)
_register_pure(p.gather_p, _gather_abstract_eval, p.gather_meaning, _gather)
_register_pure(p.quarters_p, _quarters_abstract_eval, p.quarters_meaning, _quarters)
_register_pure(p.nan_max_p, _same, lax.max, functools.partial(_binary, arith.maximumf))
_register_pure(p.nan_min_p, _same, lax.min, functools.partial(_binary, arith.minimumf))
_register_pure(p.fast_exp2_p, _same, lax.exp2, _instruction("ex2.approx.ftz.f32", "f"))
_register_pure(p.fast_log2_p, _same, jnp.log2, _instruction("lg2.approx.ftz.f32", "f"))
_register_pure(p.opaque_p, _same, _same, _instruction("mov.b32", "r"))
_register_pure(p.settle_p, _same, _same, _settle)
_register_pure(p.pause_p, _same, _same, _pause)
_register_pure(
    p.unsigned_p,
    lambda _, *, dtype: jax.core.ShapedArray((), dtype),
    lambda scalar, *, dtype: lax.convert_element_type(scalar, dtype),
    _unsigned,
)
batching.defbroadcasting(p.nan_max_p)
batching.defbroadcasting(p.nan_min_p)

_reads = functools.partial(functools.partial, _discharge_read)
_writes = functools.partial(functools.partial, _discharge_write)
_register_memory(p.load_p, _load_abstract_eval, _reads(p.load_meaning), _load)
_register_memory(p.peek_p, _peek_abstract_eval, _reads(p.peek_meaning), _peek)
_both = functools.partial(functools.partial, _discharge_both)
_register_memory(
    p.take_ticket_p, _take_ticket_abstract_eval, _both(p.take_ticket_meaning), _take_ticket
)
_register_memory(p.store_p, _write_abstract_eval, _writes(p.store_meaning), _store)
_register_memory(p.publish_p, _write_abstract_eval, _writes(p.publish_meaning), _publish)
