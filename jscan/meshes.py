"""Meshes whose axes have the type Explicit, and how results are laid out in them.

Along such an axis the layout of an array is part of its type, and every operation must be told the
layout of its result, also in a batch and in a derivative. jscan has one rule for it: a result is
laid out as the operand that it belongs to. While jscan's own operations run, the axes therefore
count as Auto, so that XLA finds the layouts in between, and the results get theirs at the end:

    operands ── cast, which moves nothing ──► own operations, axes Auto ── laid out ──► results

A user's operator that closes over arrays runs outside, in the mesh that those arrays are in.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
from jax import lax
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    use_abstract_mesh,
)

P = ParamSpec("P")
R = TypeVar("R")

Dimensions = Callable[[int], int | None]
"""Maps a result's dimension to the operand's dimension that lies there, or to None."""


def same(dimension: int) -> int | None:
    """Dimensions of results that are those of the operands."""
    return dimension


def without(axis: int) -> Dimensions:
    """Dimensions of results that lack the operands' ``axis``."""
    return lambda d: d if d < axis else d + 1


def instead_of(axis: int, count: int = 1) -> Dimensions:
    """Dimensions of results with one of their own in place of ``count``, from ``axis`` on."""
    return lambda d: d if d < axis else None if d == axis else d + count - 1


Entry = str | tuple[str, ...] | None
"""The mesh axes over which a dimension is sharded."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """How arrays of a shape lie in a mesh, known while a program is traced.

    Attributes:
      mesh: the mesh; its axes count as Auto here.
      shape: the shape.
      entries: for each dimension the mesh axes over which it is sharded.
    """

    mesh: AbstractMesh
    shape: tuple[int, ...]
    entries: tuple[Entry, ...]

    def with_batch(self, place: int, size: int, entry: Entry) -> Layout:
        """The layout with one more dimension."""
        shape = (*self.shape[:place], size, *self.shape[place:])
        return Layout(self.mesh, shape, (*self.entries[:place], entry, *self.entries[place:]))


# It is in the keys of JAX's caches, so that a function traced in another context is traced anew.
_known = jax.make_user_context(None)


@contextlib.contextmanager
def known(layouts: Sequence[Layout] | None) -> Iterator[None]:
    """A context in which primitives are told how their operands lie; None if nobody knows."""
    with _known(None if layouts is None else tuple(layouts)):
        yield


def layout_of(shape: tuple[int, ...]) -> Layout | None:
    """The known layout of arrays of a shape: whole if it is another shape's, None if unknown."""
    layouts: tuple[Layout, ...] | None = _known.value
    if layouts is None:
        return None
    whole = Layout(layouts[0].mesh, shape, (None,) * len(shape))
    return next((layout for layout in layouts if layout.shape == shape), whole)


def automatically(
    run: Callable[..., R],
    *operands: Any,
    like: Sequence[jax.Array],
    dimensions: Dimensions = same,
) -> R:
    """``run(*operands)`` with all axes Auto; its results are laid out as the arrays ``like``.

    Operands are pytrees. The first result takes the layout of the first array, the second that of
    the second, and so on, or in a dimension in which that one has none, the layout of another.
    """
    mesh = explicit_mesh(operands)
    if mesh is None:
        return run(*operands)
    axes = zip(mesh.axis_names, mesh.axis_types, strict=True)
    explicit = [name for name, kind in axes if kind == AxisType.Explicit]
    auto = mesh.update_axis_types(dict.fromkeys(explicit, AxisType.Auto))
    shapes = [jax.typeof(x) for x in like]
    layouts = [Layout(auto, aval.shape, tuple(aval.sharding.spec)) for aval in shapes]
    if not (layouts and mesh.are_all_axes_explicit):
        # Beside axes that are Auto, XLA has a say in the layouts, too.
        layouts = [Layout(auto, (), ())]
    with use_abstract_mesh(auto), known(layouts):
        results = run(*(jax.tree.map(lambda x: _laid_out(x, auto, ()), tree) for tree in operands))
    leaves, treedef = jax.tree.flatten(results)
    placed = []
    for i, x in enumerate(leaves):
        own = shapes[i : i + 1]
        others = [aval for aval in shapes if not own or aval.ndim == own[0].ndim]
        placed.append(_laid_out(x, mesh, _entries(x, [*own, *others], dimensions)))
    whole: R = jax.tree.unflatten(treedef, placed)
    return whole


def automatic(
    take_after: Callable[[dict[str, Any]], tuple[Any, Dimensions]],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of public functions that call none of the user's: they run `automatically`.

    ``take_after`` returns, for the arguments, the arrays ``like`` which results are laid out and
    their ``dimensions``.
    """

    def decorator(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            if explicit_mesh((args, kwargs)) is None:
                return function(*args, **kwargs)
            arguments = signature.bind(*args, **kwargs).arguments
            like, dimensions = take_after(arguments)
            return automatically(
                lambda args, kwargs: function(*args, **kwargs),
                args,
                kwargs,
                like=[x for x in jax.tree.leaves(like) if hasattr(x, "shape")],
                dimensions=dimensions,
            )

        return wrapped

    return decorator


@contextlib.contextmanager
def entered(arrays: Sequence[jax.Array]) -> Iterator[None]:
    """A context in the mesh of known arrays, where no mesh has been entered.

    Outside of a mesh JAX lays out no new array in it, such as an identity beside the arrays.
    """
    found = explicit_mesh(arrays) is not None and jax.sharding.get_abstract_mesh().empty
    known = [x.sharding for x in arrays if found and not isinstance(x, jax.core.Tracer)]
    placed = [sharding.mesh for sharding in known if isinstance(sharding, NamedSharding)]
    mesh = next((mesh for mesh in placed if isinstance(mesh, Mesh)), None)
    with contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh):
        yield


def check_layout(caller: str, name: str, layout: Any) -> None:
    """Raise unless ``layout`` is None or places each part of a result."""
    if layout is not None and not isinstance(layout, (NamedSharding, PartitionSpec)):
        raise TypeError(
            f"{caller}: {name} must be a jax.sharding.NamedSharding or PartitionSpec; "
            f"got {type(layout).__name__}"
        )
    spec = layout.spec if isinstance(layout, NamedSharding) else layout
    if spec is not None and spec.unreduced:
        raise ValueError(f"{caller}: {name} must not leave a result unreduced; got {layout}")


def explicit_mesh(tree: Any) -> AbstractMesh | None:
    """The mesh of Explicit axes in which an array of ``tree`` lies, or None.

    Segments are asked for their arrays: as leaves of a pytree they would come with head flags,
    which would be found for this, and read ever after.
    """
    try:
        found = jax.tree.leaves(tree, is_leaf=_has_arrays)
        leaves = [x for y in found for x in (y._given_arrays if _has_arrays(y) else [y])]
    except (TypeError, ValueError):  # a dict without order, for which the function itself raises
        return None
    for x in leaves:
        if isinstance(x, jax.Array):
            mesh: AbstractMesh = jax.typeof(x).sharding.mesh
            if AxisType.Explicit in mesh.axis_types:
                return mesh
    return None


def _has_arrays(x: Any) -> bool:
    return hasattr(x, "_given_arrays")


def _laid_out(x: Any, mesh: AbstractMesh, entries: Sequence[Entry]) -> Any:
    """An array in ``mesh``, sharded as ``entries`` say; anything else as it is."""
    if not isinstance(x, jax.Array):
        return x
    spec = PartitionSpec(*entries, *[None] * (x.ndim - len(entries)))
    return _reshard(x, NamedSharding(mesh, spec))


def _entries(
    x: jax.Array, like: Sequence[jax.core.ShapedArray], dimensions: Dimensions
) -> list[Entry]:
    """For each dimension of ``x`` the mesh axes of the first array that has it, if they are free.

    A mesh axis shards one dimension.
    """
    taken: set[str] = set()
    entries: list[Entry] = [None] * x.ndim
    for aval in like:
        for d, size in enumerate(x.shape):
            source = dimensions(d)
            if entries[d] is not None or source is None or source >= aval.ndim:
                continue
            entry = aval.sharding.spec[source]
            names = entry if isinstance(entry, tuple) else (entry,)
            if aval.shape[source] == size and entry is not None and not taken.intersection(names):
                taken.update(names)
                entries[d] = entry
    return entries


def _reshard(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    moved: jax.Array = jax.sharding.reshard(x, sharding)
    return moved


def broadcast(x: jax.Array, shape: tuple[int, ...], sharding: NamedSharding) -> jax.Array:
    """``x`` with its dimensions of size 1 spread to ``shape``, sharded as ``sharding`` says."""
    if x.shape != shape:
        dimensions = tuple(range(len(shape)))
        placement = sharding if _is_sharded(sharding) else None
        return lax.broadcast_in_dim(x, shape, dimensions, out_sharding=placement)
    return _reshard(x, sharding) if jax.typeof(x).sharding.spec != sharding.spec else x


def gather(x: jax.Array, axis: int) -> jax.Array:
    """``x`` with ``axis`` whole on every device, since a sharded axis cannot be sliced."""
    sharding = jax.typeof(x).sharding
    if sharding.spec[axis] is None:
        return x
    entries = [None if d == axis else sharding.spec[d] for d in range(x.ndim)]
    return _reshard(x, NamedSharding(sharding.mesh, PartitionSpec(*entries)))


def place_like(x: jax.Array, like: jax.Array) -> jax.Array:
    """``x`` sharded as ``like`` is, where ``like`` is sharded."""
    sharding = jax.typeof(like).sharding
    if _is_sharded(sharding) and jax.typeof(x).sharding.spec != sharding.spec:
        return _reshard(x, sharding)
    return x


def in_mesh_of(x: jax.Array, other: jax.Array) -> jax.Array:
    """``x`` in the mesh of another array, if it is in none: it has been made outside of one."""
    mesh = jax.typeof(other).sharding.mesh
    if mesh.empty or not jax.typeof(x).sharding.mesh.empty:
        return x
    return _reshard(x, NamedSharding(mesh, PartitionSpec(*[None] * x.ndim)))


def _is_sharded(sharding: NamedSharding) -> bool:
    """Whether a dimension is sharded over an axis of the type Explicit."""
    return any(entry is not None for entry in sharding.spec)
