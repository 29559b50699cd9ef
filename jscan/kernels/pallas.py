"""The in-kernel primitives, and the one file that touches ``jax._src``.

Pallas traces a kernel's Python to a jaxpr and lowers that jaxpr to Triton IR. What it lacks for a scan is added
here, each as a primitive with three faces: a Triton lowering (the real thing), a state-discharge rule or an XLA
lowering (the interpreter, on machines without a GPU), and an abstract evaluation.

    load, store     a tile between memory and registers, at 64-bit offsets where the array needs them
    tile_scan       the warp-composed scan of a register tile: ``tt.scan`` with any traced operator
    tile_reduce     its reduction, for operators that commute: ``tt.reduce``
    publish, peek   one tagged 64-bit word of tile state, written relaxed and read volatile
    fast_exp2, fast_log2  the hardware's instructions
    nan_max, nan_min  maximum and minimum that propagate NaN, as XLA's do and Triton's do not

State words live in an ``int32[words, 2]`` array: the value in the low half, the tag in the high half, so that no
kernel needs 64-bit types switched on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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

Terms = Sequence[tuple[Any, int]]  # (int32 scalar or tensor, static multiplier): their weighted sum is an address
_WIDE = 2**31


def evaluate(jaxpr: core.ClosedJaxpr, operands: Sequence[jax.Array]) -> list[jax.Array]:
    """Applies a scalar jaxpr to arrays of one shape, element by element."""
    function: Callable[..., Any] = core.jaxpr_as_fun(jaxpr)
    for _ in range(operands[0].ndim):
        function = jax.vmap(function)
    return list(function(*operands))


# --- tile scan -------------------------------------------------------------------------------------------------

tile_scan_p = core.Primitive("jscan_tile_scan")
tile_scan_p.multiple_results = True


def tile_scan(
    jaxpr: core.ClosedJaxpr, leaves: Sequence[jax.Array], axis: int, reverse: bool
) -> list[jax.Array]:
    """Inclusive scan of register tiles along ``axis`` under the operator ``jaxpr``."""
    return tile_scan_p.bind(*leaves, jaxpr=jaxpr, axis=axis, reverse=reverse)


@tile_scan_p.def_abstract_eval
def _tile_scan_abstract_eval(*avals, jaxpr, axis, reverse):
    del jaxpr, axis, reverse
    return list(avals)


def _tile_scan_interpret(*leaves, jaxpr, axis, reverse):
    def operator(left, right):
        return evaluate(jaxpr, [*left, *right])

    return lax.associative_scan(operator, list(leaves), reverse=reverse, axis=axis)


def _tile_scan_triton(ctx, *leaves, jaxpr, axis, reverse):
    leaves = [triton._ensure_ir_value(x, a) for x, a in zip(leaves, ctx.avals_in, strict=True)]
    if ctx.avals_in[0].shape[axis] == 1:
        return leaves
    scan = tt.ScanOp(leaves, axis, reverse)
    _fill_region(ctx, scan, leaves, jaxpr, tt.scan_return)
    return list(scan.result)


def _fill_region(ctx, operation, leaves, jaxpr, terminate):
    """Makes the operator the combine region of ``operation``."""
    types = [triton._element_type(x.type) for x in leaves] * 2
    entry = operation.regions[0].blocks.append(*types)
    with ir.InsertionPoint.at_block_begin(entry):
        results = triton.lower_jaxpr_to_triton_ir(
            ctx.context, jaxpr.jaxpr, None, *entry.arguments
        )
        terminate(
            [triton._ensure_ir_value(r, a) for r, a in zip(results, jaxpr.out_avals, strict=True)]
        )
    operation.verify()


# --- tile reduction, for operators that commute -------------------------------------------------------------------

tile_reduce_p = core.Primitive("jscan_tile_reduce")


def tile_reduce(jaxpr: core.ClosedJaxpr, leaf: jax.Array, axis: int) -> jax.Array:
    """Reduction of a register tile along ``axis``. Triton fixes no order, so the operator must commute."""
    return tile_reduce_p.bind(leaf, jaxpr=jaxpr, axis=axis)


@tile_reduce_p.def_abstract_eval
def _tile_reduce_abstract_eval(aval, *, jaxpr, axis):
    del jaxpr
    return jax.core.ShapedArray(aval.shape[:axis] + aval.shape[axis + 1 :], aval.dtype)


def _tile_reduce_interpret(leaf, *, jaxpr, axis):
    [scanned] = _tile_scan_interpret(leaf, jaxpr=jaxpr, axis=axis, reverse=False)
    return lax.index_in_dim(scanned, -1, axis, keepdims=False)


def _tile_reduce_triton(ctx, leaf, *, jaxpr, axis):
    leaf = triton._ensure_ir_value(leaf, ctx.avals_in[0])
    reduction = tt.ReduceOp([leaf], axis)
    _fill_region(ctx, reduction, [leaf], jaxpr, tt.reduce_return)
    return reduction.result[0] if isinstance(reduction.result, list) else list(reduction.result)[0]


# --- maximum and minimum that propagate NaN ----------------------------------------------------------------------

nan_max_p = core.Primitive("jscan_nan_max")
nan_min_p = core.Primitive("jscan_nan_min")


def _binary_triton(operation, ctx, x, y):
    x, y = triton._bcast(x, y, *ctx.avals_in, *ctx.avals_out)
    return operation(x, y)


# --- constants --------------------------------------------------------------------------------------------------

unsigned_p = core.Primitive("jscan_unsigned")


def unsigned(scalar: np.generic) -> jax.Array:
    """An unsigned constant. Triton's are signed, and a large unsigned one has no other way in than its bits."""
    bits = scalar.dtype.itemsize * 8
    return unsigned_p.bind(scalar.view(f"int{bits}"), dtype=scalar.dtype)


def _unsigned_triton(ctx, scalar, *, dtype):
    del dtype
    return triton._ensure_ir_value(scalar, ctx.avals_in[0])


# --- the hardware's exp2 and log2 ----------------------------------------------------------------------------------

fast_exp2_p = core.Primitive("jscan_fast_exp2")
fast_log2_p = core.Primitive("jscan_fast_log2")
"""One instruction each, float32, relative error 2^-22 (log2 between 1/2 and 2: absolute); results below the smallest
normal number are zero."""


def _instruction_triton(instruction, ctx, x):
    x = triton._ensure_ir_value(x, ctx.avals_in[0])
    return tt.elementwise_inline_asm([x.type], f"{instruction} $0, $1;", "=f,f", True, 1, [x])


# --- memory ------------------------------------------------------------------------------------------------------

load_p = core.Primitive("jscan_load")
store_p = core.Primitive("jscan_store")
store_p.multiple_results = True


def load(
    ref: Any, terms: Terms, *, mask: jax.Array | None = None
) -> jax.Array:
    """Reads ``ref`` (seen flat) at the sum of ``terms``; lanes outside ``mask`` hold no defined value.

    Booleans are read as the bytes that they are.
    """
    values, multipliers = zip(*terms, strict=True)
    masks = () if mask is None else (mask,)
    return load_p.bind(ref, *values, *masks, multipliers=multipliers)


def store(
    ref: Any,
    terms: Terms,
    value: jax.Array,
    *,
    mask: jax.Array | None = None,
) -> None:
    """Writes ``value`` to ``ref`` (seen flat) at the sum of ``terms``, in the lanes of ``mask``."""
    values, multipliers = zip(*terms, strict=True)
    masks = () if mask is None else (mask,)
    store_p.bind(ref, *values, value, *masks, multipliers=multipliers)


def _address_shape(values: Sequence[Any]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(v.shape for v in values))


def _load_abstract_eval(ref, *operands, multipliers):
    shape = _address_shape(operands[: len(multipliers)])
    dtype = jnp.uint8 if ref.dtype == jnp.bool_ else ref.dtype
    return jax.core.ShapedArray(shape, dtype), {state.ReadEffect(0)}


def _store_abstract_eval(ref, *operands, multipliers):
    del ref, operands, multipliers
    return [], {state.WriteEffect(0)}


def _address_interpret(values, multipliers):
    """The flat index, in 32 bits: the interpreter serves arrays of test size."""
    return sum(v.astype(jnp.int32) * np.int32(m) for v, m in zip(values, multipliers, strict=True))


def _load_discharge(*arguments, multipliers):
    masked = _extra_operands(arguments, 1 + len(multipliers))
    ref, *operands = arguments[-(1 + len(multipliers) + masked) :]
    index = _address_interpret(operands[: len(multipliers)], multipliers)
    if masked:
        index = jnp.where(operands[-1], index, 0)
    value = ref.reshape(-1)[index] if ref.size else jnp.zeros(index.shape, ref.dtype)
    value = value.astype(jnp.uint8) if ref.dtype == jnp.bool_ else value
    return (ref, *[None] * len(operands)), value


def _store_discharge(*arguments, multipliers):
    masked = _extra_operands(arguments, 2 + len(multipliers))
    ref, *operands = arguments[-(2 + len(multipliers) + masked) :]
    index = _address_interpret(operands[: len(multipliers)], multipliers)
    value = operands[len(multipliers)]
    if masked:
        index = jnp.where(operands[-1], index, ref.size)
    index = jnp.broadcast_to(index, value.shape)
    updated = ref.reshape(-1).at[index].set(value, mode="drop").reshape(ref.shape)
    return (updated, *[None] * len(operands)), []


def _extra_operands(arguments: Sequence[Any], expected: int) -> int:
    """How many operands follow the expected ones, behind what jax passes first."""
    leading = 1 if jax.__version_info__ >= (0, 11) else 2  # a context; in jax 0.10 two lists of avals
    return len(arguments) - leading - expected


def _address_triton(ctx, ref, ref_aval, values, avals, multipliers, shape):
    """The pointer tensor: scalar terms move the base pointer, tensor terms make the offsets."""
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    wide = math.prod(ref_aval.shape) >= _WIDE

    def weighted(value, aval, multiplier, width):
        value = triton._ensure_ir_value(value, aval)
        value = triton._ir_cast(value, width, signed=True)
        return triton._mul(value, triton._full(value.type, multiplier))

    base, offsets = None, None
    for value, aval, multiplier in zip(values, avals, multipliers, strict=True):
        if aval.shape:
            width = i64 if wide and multiplier * max(shape) >= _WIDE else i32
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


def _mask_triton(masks, avals, shape):
    if not masks:
        return None
    return triton._bcast_to(triton._ensure_ir_value(masks[0], avals[0]), shape)


def _load_triton(ctx, ref, *operands, multipliers):
    ref_aval, *avals = ctx.avals_in
    count, (out_aval,) = len(multipliers), ctx.avals_out
    if ref_aval.dtype == jnp.bool_:
        # Before the address is formed: a cast behind it would hide from the compiler how addresses run.
        ref = tt.bitcast(tt.PointerType.get(ir.IntegerType.get_signless(8), 1), ref)
    pointer = _address_triton(
        ctx, ref, ref_aval, operands[:count], avals[:count], multipliers, out_aval.shape
    )
    mask = _mask_triton(operands[count:], avals[count:], out_aval.shape)
    return triton._load(pointer, mask=mask)


def _store_triton(ctx, ref, *operands, multipliers):
    ref_aval, *avals = ctx.avals_in
    count = len(multipliers)
    value = triton._ensure_ir_value(operands[count], avals[count])
    shape = avals[count].shape
    pointer = _address_triton(
        ctx, ref, ref_aval, operands[:count], avals[:count], multipliers, shape
    )
    mask = _mask_triton(operands[count + 1 :], avals[count + 1 :], shape)
    triton._store(pointer, value, mask=mask)
    return []


# --- tile state --------------------------------------------------------------------------------------------------

publish_p = core.Primitive("jscan_publish")
publish_p.multiple_results = True
peek_p = core.Primitive("jscan_peek")
peek_p.multiple_results = True


def publish(
    words: Any, terms: Terms, tag: jax.Array, value: jax.Array, mask: jax.Array | None = None
) -> None:
    """Writes (tag, value), both int32, as one 64-bit word, relaxed: the word is valid by itself."""
    values, multipliers = zip(*terms, strict=True)
    masks = () if mask is None else (mask,)
    publish_p.bind(words, *values, tag, value, *masks, multipliers=multipliers)


def peek(words: Any, terms: Terms, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Reads words, volatile, as (tags, values); lanes outside ``mask`` read as tag 0."""
    values, multipliers = zip(*terms, strict=True)
    tags, pieces = peek_p.bind(words, *values, mask, multipliers=multipliers)
    return tags, pieces


def _publish_abstract_eval(words, *operands, multipliers):
    del words, operands, multipliers
    return [], {state.WriteEffect(0)}


def _peek_abstract_eval(words, *operands, multipliers):
    del words
    aval = jax.core.ShapedArray(_address_shape(operands[: len(multipliers)]), jnp.int32)
    return [aval, aval], {state.ReadEffect(0)}


def _publish_discharge(*arguments, multipliers):
    masked = _extra_operands(arguments, 3 + len(multipliers))
    words, *operands = arguments[-(3 + len(multipliers) + masked) :]
    index = _address_interpret(operands[: len(multipliers)], multipliers)
    tag, value = operands[len(multipliers) : len(multipliers) + 2]
    if masked:
        index = jnp.where(operands[-1], index, words.shape[0])
    shape = np.broadcast_shapes(index.shape, tag.shape, value.shape)
    index = jnp.broadcast_to(index, shape)
    word = jnp.stack([jnp.broadcast_to(value, shape), jnp.broadcast_to(tag, shape)], axis=-1)
    return (words.at[index].set(word, mode="drop"), *[None] * len(operands)), []


def _peek_discharge(*arguments, multipliers):
    words, *operands = arguments[-(2 + len(multipliers)) :]
    index = _address_interpret(operands[:-1], multipliers)
    mask = jnp.broadcast_to(operands[-1], index.shape)
    word = words[jnp.where(mask, index, 0)]
    tags = jnp.where(mask, word[..., 1], 0)
    return (words, *[None] * len(operands)), [tags, word[..., 0]]


def _word_pointer(ctx, words, aval, operands, avals, multipliers, shape):
    """Words as 64-bit integers: the same bytes as int32 pairs, low half first."""
    i64 = ir.IntegerType.get_signless(64)
    words = tt.bitcast(tt.PointerType.get(i64, 1), words)
    flat = jax.core.ShapedArray(aval.shape[:1], jnp.int32)
    return _address_triton(ctx, words, flat, operands, avals, multipliers, shape)


def _publish_triton(ctx, words, *operands, multipliers):
    aval, *avals = ctx.avals_in
    count = len(multipliers)
    i64 = ir.IntegerType.get_signless(64)
    shape = avals[count + 1].shape
    tag, value = (
        triton._bcast_to(triton._ensure_ir_value(x, a), shape)
        for x, a in zip(operands[count : count + 2], avals[count : count + 2], strict=True)
    )
    pointer = _word_pointer(ctx, words, aval, operands[:count], avals[:count], multipliers, shape)
    high = triton._ir_cast(tag, i64, signed=False)
    word = arith.ori(
        arith.shli(high, triton._full(high.type, 32)), triton._ir_cast(value, i64, signed=False)
    )
    mask = _mask_triton(operands[count + 2 :], avals[count + 2 :], shape)
    if mask is None:
        mask = triton._bcast_to(triton._full(ir.IntegerType.get_signless(1), 1), shape)
    # A plain store would do by the protocol, but it reaches the L2 late: behind the tile's own stores.
    triton._atomic_rmw(
        tt.RMWOp.UMAX, pointer, word, mask=mask, semantic=tt.MemSemantic.RELAXED
    )
    return []


def _peek_triton(ctx, words, *operands, multipliers):
    aval, *avals = ctx.avals_in
    count, shape = len(multipliers), ctx.avals_out[0].shape
    i32 = ir.IntegerType.get_signless(32)
    pointer = _word_pointer(ctx, words, aval, operands[:count], avals[:count], multipliers, shape)
    mask = _mask_triton(operands[count:], avals[count:], shape)
    word_type = ir.IntegerType.get_signless(64)
    zero = triton._full(
        ir.RankedTensorType.get(shape, word_type) if shape else word_type, 0
    )
    word = triton._load(pointer, mask=mask, other=zero, is_volatile=True)
    high = arith.shrui(word, triton._full(word.type, 32))
    return [triton._ir_cast(high, i32, signed=False), triton._ir_cast(word, i32, signed=False)]


pause_p = core.Primitive("jscan_pause")


def pause(after: jax.Array, nanoseconds: int) -> jax.Array:
    """Lets a waiting warp sleep for about so long; returns ``after`` unchanged, so that what uses it waits."""
    return pause_p.bind(after, nanoseconds=nanoseconds)


def _pause_triton(ctx, after, *, nanoseconds):
    after = triton._ensure_ir_value(after, ctx.avals_in[0])
    assembly = f"nanosleep.u32 {nanoseconds}; mov.u32 $0, $1;"
    return tt.elementwise_inline_asm([after.type], assembly, "=r,r", False, 1, [after])


opaque_p = core.Primitive("jscan_opaque")


def opaque(scalar: jax.Array) -> jax.Array:
    """``scalar`` itself, as a value of which the compiler knows nothing, not even its divisibility."""
    return opaque_p.bind(scalar)


def _opaque_triton(ctx, scalar):
    scalar = triton._ensure_ir_value(scalar, ctx.avals_in[0])
    return tt.elementwise_inline_asm([scalar.type], "mov.b32 $0, $1;", "=r,r", True, 1, [scalar])


# --- can Triton express this operator? ---------------------------------------------------------------------------


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
        context = triton.ModuleContext(
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


# --- registrations -----------------------------------------------------------------------------------------------

mlir.register_lowering(tile_scan_p, mlir.lower_fun(_tile_scan_interpret, multiple_results=True))
triton.register_lowering(tile_scan_p)(_tile_scan_triton)
mlir.register_lowering(tile_reduce_p, mlir.lower_fun(_tile_reduce_interpret, multiple_results=False))
triton.register_lowering(tile_reduce_p)(_tile_reduce_triton)

unsigned_p.def_abstract_eval(lambda scalar, *, dtype: jax.core.ShapedArray((), dtype))
mlir.register_lowering(
    unsigned_p,
    mlir.lower_fun(
        lambda scalar, *, dtype: lax.convert_element_type(scalar, dtype), multiple_results=False
    ),
)
triton.register_lowering(unsigned_p)(_unsigned_triton)

for _primitive, _function, _operation in (
    (fast_exp2_p, lax.exp2, "ex2.approx.ftz.f32"),
    (fast_log2_p, lambda x: jnp.log2(x), "lg2.approx.ftz.f32"),
):
    _primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(_primitive, mlir.lower_fun(_function, multiple_results=False))
    triton.register_lowering(_primitive)(functools.partial(_instruction_triton, _operation))

opaque_p.def_abstract_eval(lambda scalar: scalar)
mlir.register_lowering(opaque_p, lambda ctx, scalar: [scalar])
triton.register_lowering(opaque_p)(_opaque_triton)
pause_p.def_abstract_eval(lambda after, *, nanoseconds: after)
mlir.register_lowering(pause_p, lambda ctx, after, *, nanoseconds: [after])
triton.register_lowering(pause_p)(_pause_triton)

for _primitive, _function, _operation in (
    (nan_max_p, lax.max, arith.maximumf),
    (nan_min_p, lax.min, arith.minimumf),
):
    _primitive.def_abstract_eval(lambda x, y: x)
    mlir.register_lowering(_primitive, mlir.lower_fun(_function, multiple_results=False))
    batching.defbroadcasting(_primitive)
    triton.register_lowering(_primitive)(functools.partial(_binary_triton, _operation))

for _primitive, _abstract_eval, _discharge, _triton in (
    (load_p, _load_abstract_eval, _load_discharge, _load_triton),
    (store_p, _store_abstract_eval, _store_discharge, _store_triton),
    (publish_p, _publish_abstract_eval, _publish_discharge, _publish_triton),
    (peek_p, _peek_abstract_eval, _peek_discharge, _peek_triton),
):
    _primitive.def_effectful_abstract_eval(_abstract_eval)
    discharge.register_discharge_rule(_primitive)(_discharge)
    triton.register_lowering(_primitive)(_triton)
