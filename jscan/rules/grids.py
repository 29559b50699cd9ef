"""Where the devices of a program hold the parts of an array, as axes of a mesh.

XLA describes a layout by a grid of device numbers. A callback answers in the axes of a mesh, which
are the strides of these numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

Labels = tuple[str | None, ...]
"""What each dimension of an array is called; None where it is the array's own."""

Devices = tuple[jax.Device, ...]
"""Devices by their numbers in a program."""


def some_devices(count: int, platforms: Sequence[str]) -> Devices:
    """So many devices, or none if there are fewer.

    A callback speaks of devices by their numbers in the program, and any devices stand for them:
    those of a platform that it is lowered for, or else of the default one.
    """
    for platform in (*platforms, None):
        try:
            known = jax.devices(platform)
        except RuntimeError:  # there are none of this platform
            continue
        if len(known) >= count:
            return tuple(known[:count])
    return ()


@dataclasses.dataclass(frozen=True)
class Layout:
    """The mesh axes over which each label is divided."""

    mesh: Mesh
    entries: Mapping[str, tuple[str, ...]]

    @property
    def parts(self) -> int:
        """Into how many parts it divides."""
        return math.prod(self.mesh.shape[name] for own in self.entries.values() for name in own)


def layout_of(arrays: Sequence[tuple[jax.ShapeDtypeStruct, Labels]], devices: Devices) -> Layout:
    """The layout of the array that is divided most, in dimensions that have labels.

    Results come first; they may lack a dimension in which operands are divided.
    """
    layouts = [_layout(x, labels, devices) for x, labels in arrays]
    return max(layouts, key=lambda layout: layout.parts)


def _layout(x: jax.ShapeDtypeStruct, labels: Labels, devices: Devices) -> Layout:
    """The layout of one array, which is whole where it is no product of mesh axes."""
    sharding: Any = x.sharding
    hlo = sharding._to_xla_hlo_sharding(len(x.shape))
    whole = Layout(mesh_of(devices, (sharding.num_devices,)), {})
    if hlo.is_replicated() or hlo.is_maximal() or hlo.is_manual():
        return whole
    tiles = hlo.tile_assignment_dimensions()[: len(x.shape)]
    found = factored(np.array(hlo.tile_assignment_devices()).reshape(*tiles, -1))
    if found is None:
        return whole
    sizes, digits = found
    mesh = mesh_of(devices, sizes)
    entries = {
        label: tuple(mesh.axis_names[i] for i in own)
        for label, own, count in zip(labels, digits, tiles, strict=False)
        if label and count > 1
    }
    return Layout(mesh, entries)


def mesh_of(devices: Devices, sizes: Sequence[int]) -> Mesh:
    """A mesh of the devices in their order."""
    grid = np.array(devices[: math.prod(sizes)]).reshape(sizes)
    return Mesh(grid, tuple(f"mesh{i}" for i in range(len(sizes))))


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
