"""The primitives of `jscan.kernels.funnels` in Triton's IR."""

from __future__ import annotations

from typing import Any, TypeAlias

from jscan.kernels import funnels
from jscan.kernels.engines import assembly
from jscan.kernels.internals import ir, triton, tt

Value: TypeAlias = "ir.Value[Any]"


def _funnel(ctx: triton.LoweringRuleContext, *operands: Value, left: bool) -> Value:
    pairs = zip(operands, ctx.avals_in, strict=True)
    shape = ctx.avals_out[0].shape
    low, high, bits = (triton._bcast_to(triton._ensure_ir_value(x, a), shape) for x, a in pairs)
    text, kinds = assembly.funnel(left=left), assembly.FUNNEL_KINDS
    result: Any = tt.elementwise_inline_asm([low.type], text, kinds, True, 1, [low, high, bits])
    return result


def _along(ctx: triton.LoweringRuleContext, x: Value, places: Value) -> Value:
    result: Value = tt.gather(x, places, len(ctx.avals_in[0].shape) - 1)
    return result


def _spread_signs(ctx: triton.LoweringRuleContext, words: Value, *, bits: int) -> Value:
    word = triton._ensure_ir_value(words, ctx.avals_in[0])
    text = assembly.spread_signs(bits)
    result: Any = tt.elementwise_inline_asm([word.type], text, "=r,r", True, 1, [word])
    return result


def register() -> None:
    """Adds the rules to Pallas' table."""
    triton.register_lowering(funnels.funnel_p)(_funnel)
    triton.register_lowering(funnels.along_p)(_along)
    triton.register_lowering(funnels.spread_signs_p)(_spread_signs)
