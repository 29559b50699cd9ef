"""How a primitive is divided among the devices of a program, where XLA finds the layouts.

A program for several devices is partitioned by XLA after jscan has lowered it. XLA asks a callback
how a primitive is to be divided, and the array that is divided most decides:

    dimensions that are not scanned    each device runs the primitive on what it holds
    the scanned axis                   each device runs its part, and totals are exchanged

Inside of a ``shard_map`` XLA divides along the axes of the mesh that are left to it. There the
scanned axis is whole on each device.

A program with such a callback cannot be exported. There, and where this process sees fewer devices
than the program has, the primitive is lowered for one device, and XLA gathers its operands.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.core import ShapedArray
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core
from jax.interpreters import mlir
from jax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    use_abstract_mesh,
)

from jscan import extent, meshes
from jscan.rules import grids, names
from jscan.rules.grids import Devices, Labels


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """Which dimensions of a primitive's operands and results are divided alike.

    Attributes:
      operands: the labels of each operand's dimensions.
      results: those of each result's.
      sizes: the size of what each label names.
      axis: the label of the scanned axis, if a device with a part of it can do its share.
    """

    operands: tuple[Labels, ...]
    results: tuple[Labels, ...]
    sizes: Mapping[str, int]
    axis: str | None = None

    def rule(self) -> str:
        """The same in the words of Shardy: a factor for each dimension."""
        own = (f"own{number}" for number in itertools.count())

        def factors(labels: Labels) -> str:
            return " ".join(label or next(own) for label in labels)

        sides = [", ".join(map(factors, side)) for side in (self.operands, self.results)]
        return " -> ".join(sides)

    def with_axis_whole(self) -> Dimensions:
        """The same where the scanned axis is whole on each device."""

        def others(arrays: Sequence[Labels]) -> tuple[Labels, ...]:
            return tuple(
                tuple(None if label == self.axis else label for label in labels)
                for labels in arrays
            )

        return Dimensions(others(self.operands), others(self.results), self.sizes)


def together(
    operands: Sequence[ShapedArray], results: Sequence[ShapedArray], *, axis: int, **_: Any
) -> Dimensions:
    """The dimensions of arrays of one rank, each in full or 1."""
    return _labelled(operands, results, extent.full_shape([*operands, *results]), f"i{axis}")


def but_for(
    axis: int, operands: Sequence[ShapedArray], results: Sequence[ShapedArray]
) -> Dimensions:
    """The same where every array has an ``axis`` of its own, which is whole on each device."""
    shape: list[int | None] = [*extent.full_shape([*operands, *results])]
    shape[axis] = None
    return _labelled(operands, results, shape, None)


def reduced(
    axis: int, operands: Sequence[ShapedArray], results: Sequence[ShapedArray], count: int
) -> Dimensions:
    """The same where ``count`` operands have the reduced axis, and others one of their own."""
    shape = extent.full_shape([*operands, *results])
    n = extent.full_shape(operands[:count])[axis]
    full: list[int | None] = [*shape[:axis], n, *shape[axis + 1 :]]
    apart: list[int | None] = [*shape[:axis], None, *shape[axis + 1 :]]
    first = _labelled(operands[:count], (), full, f"i{axis}")
    rest = _labelled(operands[count:], results, apart, None)
    return Dimensions((*first.operands, *rest.operands), rest.results, first.sizes, f"i{axis}")


def _labelled(
    operands: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    shape: Sequence[int | None],
    axis: str | None,
) -> Dimensions:
    """The dimensions that have the sizes in ``shape``."""

    def labels(x: ShapedArray) -> Labels:
        pairs = enumerate(zip(x.shape, shape, strict=True))
        return tuple(f"i{d}" if size == whole else None for d, (size, whole) in pairs)

    sizes = {f"i{d}": size for d, size in enumerate(shape) if size is not None}
    return Dimensions(tuple(map(labels, operands)), tuple(map(labels, results)), sizes, axis)


def lower(
    primitive: core.Primitive,
    uneven: Callable[..., list[jax.Array]] | None,
    dimensions: Dimensions,
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    **params: Any,
) -> Sequence[Any]:
    """Lower a primitive to what XLA divides by the callback.

    Where the scanned axis does not divide evenly, each device runs the form ``uneven``.
    """
    if _is_partly_manual(ctx.module_context.axis_context):
        # XLA numbers the devices of each group from 0 there, and takes collectives for those of
        # the whole program.
        dimensions = dimensions.with_axis_whole()

    def whole(*operands: jax.Array) -> list[jax.Array]:
        results: list[jax.Array] = primitive.bind(*operands, **params)
        return results

    context: Any = ctx.module_context.axis_context
    count = sharing(ctx)
    devices = grids.some_devices(count, ctx.module_context.platforms)
    # What a callback traces is local, whatever the mesh in which the program is compiled.
    empty = AbstractMesh((), (), abstract_device=jax.sharding.get_abstract_mesh().abstract_device)

    def divide(
        mesh: Mesh, operands: Sequence[jax.ShapeDtypeStruct], results: Any
    ) -> tuple[Mesh, Callable[..., Any], Any, Any]:
        del mesh
        forms = primitive.bind, uneven
        arrays = jax.tree.leaves(results), operands
        with use_abstract_mesh(empty):
            return _divided(forms, dimensions, params, *arrays, devices, empty)

    divisible = custom_partitioning(whole)
    divisible.def_partition(
        partition=divide,
        infer_sharding_from_operands=_like_the_largest_operand,
        decode_shardings=False,
        sharding_rule=dimensions.rule(),
    )
    some: dict[str, Any] = (
        {"mesh": grids.mesh_of(devices, (count,)), "manual_axes": frozenset()}
        if _is_partly_manual(context)
        else {"device_assignment": devices}
    )
    called_back = _UntilCompiled()
    module = ctx.module_context.replace(
        axis_context=dataclasses.replace(context, **some), keepalives=called_back.objects
    )
    ctx.module_context.add_keepalive(called_back)
    local = ctx.replace(
        module_context=module,
        avals_in=local_avals(ctx.avals_in),
        avals_out=local_avals(ctx.avals_out),
    )
    name = names.name_of(primitive.name, params, dimensions, local.avals_in)
    with use_abstract_mesh(empty), set_xla_metadata(jscan_program=name):
        return mlir.lower_fun(divisible, multiple_results=True)(local, *operands)


@dataclasses.dataclass
class _UntilCompiled:
    """Objects that XLA calls back while it compiles a program, which holds them.

    A compiled program needs them no longer, and is pickled without them: they hold a context of
    MLIR, which cannot be.
    """

    objects: list[Any] = dataclasses.field(default_factory=list)

    def __reduce__(self) -> tuple[type[_UntilCompiled], tuple[()]]:
        return _UntilCompiled, ()


def local_avals(avals: Sequence[Any]) -> list[ShapedArray]:
    """The avals of arrays of these shapes and dtypes on one device."""
    return [ShapedArray(aval.shape, aval.dtype) for aval in avals]


def lower_by_layout(
    primitive: core.Primitive,
    dimensions: Dimensions,
    known: meshes.Layout,
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    **params: Any,
) -> Sequence[Any]:
    """Lower a primitive whose layout is known to what each device runs."""
    entries = {f"i{d}": entry for d, entry in enumerate(known.entries)}
    across = dimensions.axis and entries.get(dimensions.axis)
    if across:
        params["axis_name"] = across if isinstance(across, tuple) else (across,)

    def specs(labels: Sequence[Labels]) -> list[PartitionSpec]:
        return [
            PartitionSpec(*(entries.get(label) if label else None for label in own))
            for own in labels
        ]

    def local(*operands: jax.Array) -> list[jax.Array]:
        results: list[jax.Array] = primitive.bind(*operands, **params)
        return results

    divided = jax.shard_map(
        local,
        mesh=known.mesh,
        in_specs=tuple(specs(dimensions.operands)),
        out_specs=specs(dimensions.results),
        check_vma=False,
    )
    with use_abstract_mesh(known.mesh):
        return mlir.lower_fun(divided, multiple_results=True)(ctx, *operands)


def is_for_xla_to_divide(ctx: mlir.LoweringRuleContext) -> bool:
    """Whether the program is for several devices, and XLA can call back."""
    module = ctx.module_context
    count = sharing(ctx)
    silent = module.lowering_parameters.for_export
    return count > 1 and not silent and bool(grids.some_devices(count, module.platforms))


def _is_partly_manual(context: Any) -> bool:
    """Whether this is the context of a ``shard_map``, which may leave axes of its mesh to XLA."""
    return hasattr(context, "manual_axes")


def sharing(ctx: mlir.LoweringRuleContext) -> int:
    """The number of devices among which XLA divides arrays."""
    context: Any = ctx.module_context.axis_context
    if not _is_partly_manual(context):
        return getattr(context, "num_devices", 1)
    sizes: Mapping[str, int] = context.mesh.shape
    return math.prod(size for name, size in sizes.items() if name not in context.manual_axes)


def _like_the_largest_operand(mesh: Mesh, operands: Any, results: Any) -> Any:
    """What results lie like for XLA's older partitioner, which knows no rule."""
    del mesh
    layout = max(jax.tree.leaves(operands), key=lambda x: math.prod(x.shape)).sharding
    return jax.tree.map(lambda _: layout, results)


def _divided(
    forms: tuple[Callable[..., list[jax.Array]], Callable[..., list[jax.Array]] | None],
    dimensions: Dimensions,
    params: Mapping[str, Any],
    results: Sequence[jax.ShapeDtypeStruct],
    operands: Sequence[jax.ShapeDtypeStruct],
    devices: Devices,
    empty: AbstractMesh,
) -> tuple[Mesh, Callable[..., Any], Any, Any]:
    """What XLA asks for: a mesh, what each device runs, and the layouts of results and operands."""
    arrays, labels = [*results, *operands], [*dimensions.results, *dimensions.operands]
    layout = grids.layout_of(list(zip(arrays, labels, strict=True)), devices)
    entries = dict(layout.entries)
    across = dimensions.axis and entries.get(dimensions.axis)
    form, uneven = forms
    if across and dimensions.axis:
        params = {**params, "axis_name": across}
        length = dimensions.sizes[dimensions.axis]
        if length % math.prod(layout.mesh.shape[name] for name in across):
            assert uneven is not None
            form = functools.partial(uneven, length=length)

    def placed(labels: Labels) -> NamedSharding:
        spec = [entries.get(label) if label else None for label in labels]
        return NamedSharding(layout.mesh, PartitionSpec(*spec))

    def local(*operands: jax.Array) -> list[jax.Array]:
        with use_abstract_mesh(empty):
            return form(*operands, **params)

    return (
        layout.mesh,
        local,
        [placed(labels) for labels in dimensions.results],
        tuple(placed(labels) for labels in dimensions.operands),
    )
