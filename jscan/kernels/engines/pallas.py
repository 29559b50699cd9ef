"""Kernels by Pallas on Triton.

Pallas traces a kernel's body to a jaxpr and lowers that to Triton IR, by rules that it keeps in a
table. This file adds a rule for each primitive of `jscan.kernels.language`. Without a GPU, Pallas
runs the meanings that these have there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import triton as plgpu
from jax.extend import core

from jscan.kernels import addresses
from jscan.kernels import language as p
from jscan.kernels.engines import assembly, funnels, grid, halves, interleaving
from jscan.kernels.internals import (
    ModuleContext,
    TracebackCaches,
    arith,
    ir,
    mlir_math,
    triton,
    tt,
    tt_constructors,
)
from jscan.kernels.language import Body

NAME = "Triton"

Context = triton.LoweringRuleContext
Value: TypeAlias = "ir.Value[Any]"


def run(
    body: Body,
    operands: Sequence[jax.Array],
    starts: Sequence[jax.Array],
    results: Sequence[jax.ShapeDtypeStruct],
    *,
    programs: int,
    warps: int,
    name: str,
    interpret: bool,
) -> list[jax.Array]:
    """Runs ``body`` in so many programs: see `jscan.kernels.engines.Engine`."""
    how: dict[str, Any]
    if interpret:
        how = {"interpret": True}
    else:
        how = {"compiler_params": plgpu.CompilerParams(num_warps=warps, num_stages=1)}
    return grid.run(body, operands, starts, results, programs=programs, name=name, **how)


# --- register tiles -----------------------------------------------------------------------------


def _values(ctx: Context, operands: Sequence[Value]) -> list[Value]:
    return [triton._ensure_ir_value(x, a) for x, a in zip(operands, ctx.avals_in, strict=True)]


def _fill_region(
    ctx: Context,
    operation: ir.OpView,
    leaves: Sequence[Value],
    jaxpr: core.ClosedJaxpr,
    end: Callable[..., Any],
) -> None:
    """Makes the operator the combine region of ``operation``."""
    types = [triton._element_type(x.type) for x in leaves] * 2
    entry = operation.regions[0].blocks.append(*types)
    with ir.InsertionPoint.at_block_begin(entry):
        results = triton.lower_jaxpr_to_triton_ir(ctx.context, jaxpr.jaxpr, None, *entry.arguments)
        end([triton._ensure_ir_value(r, a) for r, a in zip(results, jaxpr.out_avals, strict=True)])
    operation.verify()


def _tile_scan(
    ctx: Context, *leaves: Value, jaxpr: core.ClosedJaxpr, axis: int, reverse: bool
) -> list[Value]:
    values = _values(ctx, leaves)
    if ctx.avals_in[0].shape[axis] == 1:
        return values
    scan = tt_constructors.ScanOp(values, axis, reverse)
    _fill_region(ctx, scan, values, jaxpr, tt.scan_return)
    return list(scan.result)


def _tile_reduce(ctx: Context, leaf: Value, *, jaxpr: core.ClosedJaxpr, axis: int) -> Value:
    values = _values(ctx, [leaf])
    reduction = tt_constructors.ReduceOp(values, axis)
    _fill_region(ctx, reduction, values, jaxpr, tt.reduce_return)
    [result] = reduction.result
    return result


def _deinterleave(ctx: Context, x: Value, *, count: int) -> list[Value]:
    return interleaving.apart(_values(ctx, [x])[0], ctx.avals_in[0].shape, count)


def _interleave(ctx: Context, *operands: Value) -> Value:
    return interleaving.together(_values(ctx, operands), ctx.avals_in[0].shape)


def _tile_histogram(ctx: Context, keys: Value, mask: Value, *, bins: int) -> Value:
    values, inside = _values(ctx, [keys, mask])
    kind = ir.RankedTensorType.get((bins,), ir.IntegerType.get_signless(32))
    counts: Value = tt.histogram(kind, values, mask=inside)
    return counts


def _count_bytes(ctx: Context, marks: Value, *, negative: bool) -> Value:
    values, text = _values(ctx, [marks]), assembly.count_bytes(negative=negative)
    kind = halves.like(values[0], ir.IntegerType.get_signless(32))
    result: Any = tt.elementwise_inline_asm([kind], text, assembly.KINDS, True, 4, values)
    return result


def _extremum(greatest: bool, ctx: Context, x: Value, y: Value) -> Value:
    """The greater of two floats, or the less; NaN if either is.

    Of float64 the hardware has no instruction, and what LLVM makes of `maximumf` takes twice as
    many as these: equal numbers are the same bits, but for zeros.
    """
    x, y = triton._bcast(x, y, *ctx.avals_in, *ctx.avals_out)
    if ctx.avals_out[0].dtype != jnp.float64:
        return (arith.maximumf if greatest else arith.minimumf)(x, y)
    kinds = arith.CmpFPredicate
    further = arith.cmpf(kinds.OGT if greatest else kinds.OLT, x, y)
    chosen = arith.select(arith.ori(further, arith.cmpf(kinds.UNO, x, x)), x, y)
    bits = halves.like(x, ir.IntegerType.get_signless(64))
    both = (arith.andi if greatest else arith.ori)(*(tt.bitcast(bits, v) for v in (x, y)))
    return arith.select(arith.cmpf(kinds.OEQ, x, y), tt.bitcast(x.type, both), chosen)


def _fma(ctx: Context, *operands: Value, minus: bool) -> Value:
    shape = ctx.avals_out[0].shape
    x, y, z = (triton._bcast_to(v, shape) for v in _values(ctx, operands))
    # Triton's own compiler knows no `negf`; LLVM makes one of this.
    return mlir_math.fma(arith.subf(triton._full(x.type, -0.0), x) if minus else x, y, z)


def _assembly(text: str, kind: str, pure: bool, ctx: Context, x: Value, together: int = 1) -> Value:
    """``text`` with the result $0 and the operand $1, in registers of ``kind``.

    A register holds so many elements ``together``.
    """
    [x] = _values(ctx, [x])
    kinds = f"={kind},{kind}"
    result: Any = tt.elementwise_inline_asm([x.type], text, kinds, pure, together, [x])
    return result


def _pause(ctx: Context, after: Value, *, nanoseconds: int) -> Value:
    return _assembly(f"nanosleep.u32 {nanoseconds}; mov.u32 $0, $1;", "r", False, ctx, after)


def _settle(ctx: Context, values: Value) -> Value:
    """A move that the compiler may not drop, nor carry past another of its kind or a shuffle."""
    aval = ctx.avals_in[0]
    size = aval.dtype.itemsize
    if aval.dtype.kind not in "fiu" or size < 4:
        return values
    kind, name = {("f", 4): ("f", "f32"), ("f", 8): ("d", "f64")}.get(
        (aval.dtype.kind, size), ("r" if size == 4 else "l", f"b{8 * size}")
    )
    return _assembly(f"mov.{name} $0, $1;", kind, False, ctx, values)


def _hold(ctx: Context, values: Value) -> Value:
    """A move of whole registers, several narrow elements in one."""
    aval = ctx.avals_in[0]
    size = aval.dtype.itemsize
    if size >= 4 or aval.dtype == jnp.bool_ or aval.size < 128:
        return _settle(ctx, values)
    return _assembly("mov.b32 $0, $1;", "r", False, ctx, values, 4 // size)


def _unsigned(ctx: Context, scalar: Value, *, dtype: np.dtype) -> Value:
    del dtype
    return triton._ensure_ir_value(scalar, ctx.avals_in[0])


# --- memory -------------------------------------------------------------------------------------


def _sum(left: Value | None, right: Value) -> Value:
    """The sum in the wider type of the two; ``left`` may be None."""
    if left is None:
        return right
    if left.type != right.type:
        i64 = ir.IntegerType.get_signless(64)
        right = triton._ir_cast(right, i64, signed=True)
        left = triton._ir_cast(left, i64, signed=True)
    return triton._add(left, right)


class _Operands:
    """The operands of a memory primitive: a reference, an address, values, and perhaps a mask."""

    def __init__(
        self, ctx: Context, ref: Value, operands: Sequence[Value], multipliers: Sequence[int]
    ):
        self._ref, (self._ref_aval, *avals) = ref, ctx.avals_in
        self._multipliers, count = multipliers, len(multipliers)
        self._terms: list[tuple[Any, Any]] = list(zip(operands, avals[:count], strict=False))
        self._rest = list(zip(operands[count:], avals[count:], strict=True))

    def address(
        self, shape: tuple[int, ...], *, cast: int | None = None, scattered: bool = False
    ) -> Value:
        """The pointers; ``cast`` reads the memory as integers of so many bits.

        The cast comes before the address is formed: behind it, it would hide from the compiler how
        the addresses run.
        """
        ref, size = self._ref, math.prod(self._ref_aval.shape)
        if cast is not None:
            ref = tt.bitcast(tt.PointerType.get(ir.IntegerType.get_signless(cast), 1), ref)
        shapes = [aval.shape for _, aval in self._terms]
        plan = addresses.plan(size, shapes, self._multipliers, shape, scattered=scattered)
        base, offsets, known = None, None, 0
        for term, (value, aval) in zip(plan, self._terms, strict=True):
            if term.is_displacement and not isinstance(value, ir.Value):
                known += int(value) * term.multiplier
                continue
            width = ir.IntegerType.get_signless(term.bits)
            value = triton._ir_cast(triton._ensure_ir_value(value, aval), width, signed=True)
            value = triton._mul(value, triton._full(value.type, term.multiplier))
            if term.moves_base:
                base = _sum(base, value)
            else:
                offsets = _sum(offsets, triton._bcast_to(value, shape))
        pointer = ref if base is None else triton._add(ref, base)
        if offsets is None:
            return pointer
        spread = triton._add(triton._bcast_to(pointer, shape), offsets)
        return triton._add(spread, triton._full(offsets.type, known)) if known else spread

    def value(self, number: int, shape: tuple[int, ...]) -> Value:
        value, aval = self._rest[number]
        return triton._bcast_to(triton._ensure_ir_value(value, aval), shape)

    def shape(self, number: int) -> tuple[int, ...]:
        return tuple(self._rest[number][1].shape)

    def mask(self, number: int, shape: tuple[int, ...]) -> Value | None:
        return self.value(number, shape) if len(self._rest) > number else None


def _load(
    ctx: Context, ref: Value, *operands: Value, multipliers: Sequence[int], **params: Any
) -> list[Value]:
    parts, shape = _Operands(ctx, ref, operands, multipliers), ctx.avals_out[0].shape
    dtype, mask = ctx.avals_in[0].dtype, parts.mask(0, shape)
    how: dict[str, Any] = {
        "mask": mask,
        "eviction_policy": "evict_first" if params["once"] else None,
    }
    seen_as = params["seen_as"] or (8 if dtype == jnp.bool_ else None)
    if seen_as or dtype.kind != "c":
        return [triton._load(parts.address(shape, cast=seen_as), **how)]
    word = triton._load(parts.address(shape, cast=64), **how)
    return [halves.half(word, high=high) for high in (False, True)]


def _store(
    ctx: Context, ref: Value, *operands: Value, multipliers: Sequence[int], **how: Any
) -> list[Value]:
    parts, scattered = _Operands(ctx, ref, operands, multipliers), how["scattered"]
    shape = parts.shape(0)
    if ctx.avals_in[0].dtype.kind != "c":
        address = parts.address(shape, cast=how["seen_as"], scattered=scattered)
        triton._store(address, parts.value(0, shape), mask=parts.mask(1, shape))
        return []
    address = parts.address(shape, cast=64, scattered=scattered)
    word = halves.word(parts.value(0, shape), parts.value(1, shape))
    triton._store(address, word, mask=parts.mask(2, shape))
    return []


def _publish(
    ctx: Context, words: Value, *operands: Value, multipliers: Sequence[int]
) -> list[Value]:
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


def _take_ticket(ctx: Context, words: Value, *operands: Value, multipliers: Sequence[int]) -> Value:
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    pointer = _Operands(ctx, words, operands, multipliers).address((), cast=64)
    always = triton._full(ir.IntegerType.get_signless(1), 1)
    one, relaxed = triton._full(i64, 1), tt.MemSemantic.RELAXED
    before = triton._atomic_rmw(tt.RMWOp.ADD, pointer, one, mask=always, semantic=relaxed)
    return triton._ir_cast(before, i32, signed=False)


def _peek(ctx: Context, words: Value, *operands: Value, multipliers: Sequence[int]) -> list[Value]:
    parts, shape = _Operands(ctx, words, operands, multipliers), ctx.avals_out[0].shape
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    zero = triton._full(ir.RankedTensorType.get(shape, i64) if shape else i64, 0)
    word = triton._load(
        parts.address(shape, cast=64), mask=parts.mask(0, shape), other=zero, is_volatile=True
    )
    high = arith.shrui(word, triton._full(word.type, 32))
    return [triton._ir_cast(high, i32, signed=False), triton._ir_cast(word, i32, signed=False)]


# --- can Triton express this operator? ----------------------------------------------------------


def why_inexpressible(jaxpr: core.ClosedJaxpr) -> str | None:
    """Lowers the scalar operator alone, in a scratch module; the reason why that fails, or None."""
    with triton._new_ir_context(), ir.Location.unknown():
        module = ir.Module.create()
        types = [triton._dtype_to_ir_type(a.dtype) for a in jaxpr.in_avals]
        kind = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        place = ir.InsertionPoint.at_block_begin(module.body)
        function = tt.FuncOp("operator", kind, sym_visibility="public", ip=place)
        entry = function.body.blocks.append(*types)
        context = ModuleContext(
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
                tt.return_([])
                function.verify()
            except (NotImplementedError, ValueError, triton.LoweringError) as error:
                return str(error).splitlines()[0]
            # Of what its rules do not foresee.
            except (AssertionError, AttributeError, RuntimeError, TypeError, ir.MLIRError) as error:
                return f"its lowering fails: {error}"
    return None


# --- registrations ------------------------------------------------------------------------------


def _instruction(name: str, kind: str) -> Callable[..., Value]:
    return functools.partial(_assembly, f"{name} $0, $1;", kind, True)


for primitive, lowering in (
    (p.tile_scan_p, _tile_scan),
    (p.tile_reduce_p, _tile_reduce),
    (p.deinterleave_p, _deinterleave),
    (p.interleave_p, _interleave),
    (p.tile_histogram_p, _tile_histogram),
    (p.count_bytes_p, _count_bytes),
    (p.nan_max_p, functools.partial(_extremum, True)),
    (p.nan_min_p, functools.partial(_extremum, False)),
    (p.fma_p, _fma),
    (p.fast_exp2_p, _instruction("ex2.approx.ftz.f32", "f")),
    (p.fast_log2_p, _instruction("lg2.approx.ftz.f32", "f")),
    (p.opaque_p, _instruction("mov.b32", "r")),
    (p.unknown_p, functools.partial(_assembly, assembly.UNKNOWN, "r", True)),
    (p.settle_p, _settle),
    (p.hold_p, _hold),
    (p.pause_p, _pause),
    (p.unsigned_p, _unsigned),
    (p.load_p, _load),
    (p.store_p, _store),
    (p.peek_p, _peek),
    (p.publish_p, _publish),
    (p.take_ticket_p, _take_ticket),
):
    triton.register_lowering(primitive)(lowering)
funnels.register()
