"""The primitives of `jscan.kernels.funnels` in Triton's language."""

from __future__ import annotations

from jscan.kernels.engines import assembly
from jscan.kernels.engines.source.function import Equation, Rule
from jscan.kernels.engines.source.operands import Operand
from jscan.kernels.engines.source.tiles import broadcast


def _funnel(at: Equation) -> list[Operand]:
    low, high, bits = (broadcast(x, at.shape).typed for x in at.operands)
    text = assembly.funnel(left=at.params["left"])
    return at.named(
        f'tl.inline_asm_elementwise("{text}", "{assembly.FUNNEL_KINDS}", [{low}, {high}, {bits}], '
        f"dtype=tl.int32, is_pure=True, pack=1)"
    )


def _along(at: Equation) -> list[Operand]:
    x, places = at.operands
    return at.named(f"tl.gather({x.typed}, {places.typed}, {len(x.shape) - 1})")


def _spread_signs(at: Equation) -> list[Operand]:
    [words], text = at.operands, assembly.spread_signs(at.params["bits"])
    return at.named(
        f'tl.inline_asm_elementwise("{text}", "=r,r", [{words.typed}], dtype=tl.int32, '
        f"is_pure=True, pack=1)"
    )


RULES: dict[str, Rule] = {
    "jscan_funnel": _funnel,
    "jscan_along": _along,
    "jscan_spread_signs": _spread_signs,
}
