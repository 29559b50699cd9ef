"""The kernels inside of lowered programs: what the first engine hands to XLA, in Triton's IR."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import jax
from jaxlib.mlir import ir
from jaxlib.triton import dialect


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel as text, and its warps."""

    name: str
    warps: int
    text: str


def kernels_of(lowered: jax.stages.Lowered) -> list[Kernel]:
    """The kernels that a program calls, in their order."""
    found = []
    module: Any = lowered.compiler_ir("stablehlo")
    for operation in _operations(module.operation):
        if operation.name != "stablehlo.custom_call":
            continue
        if ir.StringAttr(operation.attributes["call_target_name"]).value != "__gpu$xla.gpu.triton":
            continue
        told = ir.DictAttr(operation.attributes["mhlo.backend_config"])
        name, code = (ir.StringAttr(told[key]) for key in ("name", "ir"))
        warps = ir.IntegerAttr(told["num_warps"]).value
        found.append(Kernel(name.value, warps, readable(code.value_bytes)))
    return found


def _operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for inside in block.operations:
                yield inside.operation
                yield from _operations(inside.operation)


_POLICY = re.compile(
    r" \{cachePolicy = #tt\.cache_policy<cache_modifier = none, eviction_policy = (\w+)>\}"
)
"""How loads say what leaves the cache first in jaxlib 0.12, with a newer Triton than the wheel."""


def readable(bytecode: bytes) -> str:
    """A kernel without the places in Python that it comes from, as Triton's wheel reads it."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.register_dialect(context)
        context.load_all_available_dialects()
        return _POLICY.sub(r" evictionPolicy = \1", str(ir.Module.parse(bytecode)))
