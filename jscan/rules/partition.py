"""How a primitive is divided among the devices of a program, where XLA finds the layouts.

A program for several devices is partitioned by XLA after jscan has lowered it. XLA asks a callback
how a primitive is to be divided, and the array that is divided most decides:

    dimensions that are not scanned    each device runs the primitive on what it holds
    the scanned axis                   each device runs its part, and totals are exchanged

Inside of a ``shard_map`` XLA divides along the axes of the mesh that are left to it. There the
scanned axis is whole on each device.

A program with such a callback cannot be exported, and no other process finds it in a cache. There,
and where this process sees fewer devices than the program has, the primitive is lowered for one
device, and XLA gathers its operands.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core
from jax.interpreters import mlir
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    use_abstract_mesh,
)

from jscan import extent, meshes

Labels = tuple[str | None, ...]
"""What each dimension of an array is called; None where it is the array's own."""


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

    def divide(
        mesh: Mesh, operands: Sequence[jax.ShapeDtypeStruct], results: Any
    ) -> tuple[Mesh, Callable[..., Any], Any, Any]:
        del mesh
        forms = primitive.bind, uneven
        return _divided(forms, dimensions, params, jax.tree.leaves(results), operands)

    divisible = custom_partitioning(whole)
    divisible.def_partition(
        partition=divide,
        infer_sharding_from_operands=_first_operand_s,
        decode_shardings=False,
        sharding_rule=dimensions.rule(),
    )
    context: Any = ctx.module_context.axis_context
    count = _sharing(context)
    some: dict[str, Any] = (
        {"mesh": _mesh((count,)), "manual_axes": frozenset()}
        if _is_partly_manual(context)
        else {"device_assignment": _some_devices(count)}
    )
    placed = dataclasses.replace(context, **some)
    local = ctx.replace(
        module_context=ctx.module_context.replace(axis_context=placed),
        avals_in=local_avals(ctx.avals_in),
        avals_out=local_avals(ctx.avals_out),
    )
    # Inside of the callback everything is local, so that it is traced outside of any mesh.
    current = jax.sharding.get_abstract_mesh()
    local_mesh = AbstractMesh((), (), abstract_device=current.abstract_device)
    # A program's text says of the callback no more than its address, which another one may have
    # later on. With a name of its own no cache takes one program for another.
    name = set_xla_metadata(jscan_program=uuid.uuid4().hex)
    with use_abstract_mesh(local_mesh), name:
        return mlir.lower_fun(divisible, multiple_results=True)(local, *operands)


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
    count = _sharing(module.axis_context)
    # In a mesh of Explicit axes the callback's program would be one of that mesh.
    explicit = AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types
    silent = explicit or module.lowering_parameters.for_export
    return count > 1 and not silent and bool(_some_devices(count))


def _is_partly_manual(context: Any) -> bool:
    """Whether this is the context of a ``shard_map``, which may leave axes of its mesh to XLA."""
    return hasattr(context, "manual_axes")


def _sharing(context: Any) -> int:
    """The number of devices among which XLA divides arrays."""
    if not _is_partly_manual(context):
        return getattr(context, "num_devices", 1)
    sizes: Mapping[str, int] = context.mesh.shape
    return math.prod(size for name, size in sizes.items() if name not in context.manual_axes)


def _some_devices(count: int) -> tuple[jax.Device, ...]:
    """So many devices, or none if there are fewer.

    The callback speaks of devices by their numbers in the program, and any devices stand for them.
    """
    known = jax.devices()
    return tuple(known[:count]) if len(known) >= count else ()


def _first_operand_s(mesh: Mesh, operands: Any, results: Any) -> Any:
    """The layout of results for XLA's older partitioner: that of the first operand."""
    del mesh
    layout = jax.tree.leaves(operands)[0].sharding
    return jax.tree.map(lambda _: layout, results)


def _divided(
    forms: tuple[Callable[..., list[jax.Array]], Callable[..., list[jax.Array]] | None],
    dimensions: Dimensions,
    params: Mapping[str, Any],
    results: Sequence[jax.ShapeDtypeStruct],
    operands: Sequence[jax.ShapeDtypeStruct],
) -> tuple[Mesh, Callable[..., Any], Any, Any]:
    """What XLA asks for: a mesh, what each device runs, and the layouts of results and operands."""
    arrays, labels = [*results, *operands], [*dimensions.results, *dimensions.operands]
    layout = _layout_of(list(zip(arrays, labels, strict=True)))
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
        return form(*operands, **params)

    return (
        layout.mesh,
        local,
        [placed(labels) for labels in dimensions.results],
        tuple(placed(labels) for labels in dimensions.operands),
    )


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The mesh axes over which each label is divided."""

    mesh: Mesh
    entries: Mapping[str, tuple[str, ...]]

    @property
    def parts(self) -> int:
        """Into how many parts it divides."""
        return math.prod(self.mesh.shape[name] for own in self.entries.values() for name in own)


def _layout_of(arrays: Sequence[tuple[jax.ShapeDtypeStruct, Labels]]) -> _Layout:
    """The layout of the array that is divided most, in dimensions that have labels.

    Results come first; they may lack a dimension in which operands are divided.
    """
    layouts = [_layout(x, labels) for x, labels in arrays]
    return max(layouts, key=lambda layout: layout.parts)


def _layout(x: jax.ShapeDtypeStruct, labels: Labels) -> _Layout:
    """The layout of one array, which is whole where it is no product of mesh axes."""
    sharding: Any = x.sharding
    hlo = sharding._to_xla_hlo_sharding(len(x.shape))
    whole = _Layout(_mesh((sharding.num_devices,)), {})
    if hlo.is_replicated() or hlo.is_maximal() or hlo.is_manual():
        return whole
    tiles = hlo.tile_assignment_dimensions()[: len(x.shape)]
    found = factored(np.array(hlo.tile_assignment_devices()).reshape(*tiles, -1))
    if found is None:
        return whole
    sizes, digits = found
    mesh = _mesh(sizes)
    entries = {
        label: tuple(mesh.axis_names[i] for i in own)
        for label, own, count in zip(labels, digits, tiles, strict=False)
        if label and count > 1
    }
    return _Layout(mesh, entries)


def _mesh(sizes: Sequence[int]) -> Mesh:
    """A mesh of the devices in their order."""
    devices = np.array(_some_devices(math.prod(sizes))).reshape(sizes)
    return Mesh(devices, tuple(f"mesh{i}" for i in range(len(sizes))))


def factored(places: np.ndarray) -> tuple[tuple[int, ...], list[tuple[int, ...]]] | None:
    """The sizes of mesh axes of which each dimension of ``places`` takes some, and which ones.

    ``places`` has the number of a device at each place of a grid. Its dimensions are products of
    mesh axes where the numbers are a transposed and reshaped ``arange``; None is for other grids.
    """
    of_dimension = []
    for d in range(places.ndim):
        line = places[tuple(slice(None) if i == d else 0 for i in range(places.ndim))]
        found = _strides(line - line[0])
        if found is None:
            return None
        of_dimension.append(found)
    strides = sorted((axis for axes in of_dimension for axis in axes), reverse=True)
    sizes = tuple(size for _, size in strides)
    if math.prod(sizes) != places.size:
        return None
    digits = [tuple(strides.index(axis) for axis in axes) for axes in of_dimension]
    order = [i for own in digits for i in own]
    expected = np.arange(places.size).reshape(sizes).transpose(order).reshape(places.shape)
    return (sizes, digits) if (expected == places).all() else None


def _strides(line: np.ndarray) -> list[tuple[int, int]] | None:
    """The stride and size of each mesh axis along a line of device numbers, the slowest first."""
    found: list[tuple[int, int]] = []
    while len(line) > 1:
        stride = int(line[1])
        alike = line == np.arange(len(line)) * stride
        size = len(line) if alike.all() else int(np.argmin(alike))
        if stride <= 0 or len(line) % size:
            return None
        found.insert(0, (stride, size))
        line = line[::size]
    return found
