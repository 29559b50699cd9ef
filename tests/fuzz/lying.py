"""Fuzzing: how operands lie over the devices of a mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.fuzz.examples import Form, Lying
from tests.fuzz.segments import COUNTED

Body = Callable[..., list[Any]]


@functools.cache
def mesh_of(lying: Lying) -> Mesh:
    """The mesh, of CPU devices."""
    kind = AxisType.Explicit if lying.manner == "Explicit" else AxisType.Auto
    names = tuple("abc"[: len(lying.sizes)])
    return jax.make_mesh(lying.sizes, names, (kind,) * len(names), devices=jax.devices("cpu"))


def placed(
    form: Form, lying: Lying, leaves: Sequence[jax.Array], array: jax.Array | None
) -> tuple[list[jax.Array], jax.Array | None]:
    """Leaves, and what describes the segments, on the devices of the mesh."""

    def on_devices(x: jax.Array, mapped: bool, spec: P) -> jax.Array:
        batch = (None,) if form.batch and mapped else ()
        return jax.device_put(x, NamedSharding(mesh_of(lying), P(*batch, *spec)))

    own = [
        on_devices(x, mapped, _spec(form, lying, k, x.shape[bool(form.batch and mapped) :]))
        for k, (x, mapped) in enumerate(zip(leaves, form.mapped, strict=False))
    ]
    if array is None:
        return own, None
    return own, on_devices(array, form.mapped[-1], _spec_of_segments(form, lying))


def divided(form: Form, body: Body) -> Body:
    """A body inside of shard_map, where that is how the form's operands lie; else as it is."""
    lying = form.lying
    if lying is None or lying.manner != "shard_map":
        return body
    across = functools.partial(body, form, axis_name=lying.entries[form.along])

    def mapped(_: Form, leaves: Sequence[Any], array: Any) -> list[Any]:
        given = [_spec(form, lying, k, x.shape) for k, x in enumerate(leaves)]
        of_array = None if array is None else _spec_of_segments(form, lying)
        made = [lying.entries[d] for d in range(len(form.shape))]
        if form.function in ("reduce", "segment"):
            made[form.along : form.along + 1] = [] if form.segments == "none" else [()]
        results = jax.shard_map(
            across, mesh=mesh_of(lying), in_specs=(given, of_array), out_specs=P(*made)
        )(leaves, array)
        return list(results)

    return mapped


def _spec(form: Form, lying: Lying, k: int, shape: tuple[int, ...]) -> P:
    """The partition of leaf k, which may lack dimensions behind, or have 1 for some."""
    dimensions = list(range(len(form.shape)))
    if form.block:  # of which no dimension is divided
        shape = shape[: -len(form.block) if k == 0 else -1]
    if form.suite == "recurrences" and k == 2:  # what precedes the first element
        del dimensions[form.along]
    return P(
        *(
            lying.entries[d] if size == form.shape[d] else None
            for d, size in zip(dimensions, shape, strict=False)
        )
    )


def _spec_of_segments(form: Form, lying: Lying) -> P:
    """The partition of what describes the segments."""
    along = lying.entries[form.along]
    if form.segments in COUNTED:
        return P()
    if form.segments == "flags":
        return P(*lying.entries)
    if form.segments == "packed":  # words do not divide as their elements do
        return P(*(lying.entries[d] for d in range(len(form.shape)) if d != form.along))
    if form.segments in ("rows", "rows of ids"):
        return P(*(lying.entries[d] for d in range(len(form.shape)) if d != form.along), along)
    return P() if lying.shared else P(along)
