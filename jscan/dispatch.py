"""From checked arguments to a primitive, or to plain JAX for operators that no kernel can run.

A kernel runs operators that work element by element on leaves of one shape. Such an operator is
traced into a `Combine` and goes into a primitive's binding. Any other operator is called as it is,
by scans and reductions in plain JAX.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import block_scans, heads, identities, meshes, primitives
from jscan.arguments.arrays import is_held
from jscan.arguments.identity import Neutral
from jscan.bits import Marks
from jscan.called import checked
from jscan.combine import Combine, Traced, accumulation_dtype, trace, trace_open
from jscan.described import flags_of
from jscan.division import Division, Given, divide
from jscan.operators import Operator
from jscan.plain import across
from jscan.plain import reduce as plain
from jscan.plain.scan import scan_general
from jscan.starts import Start
from jscan.templates import Bound


@dataclasses.dataclass(frozen=True)
class Call:
    """The arguments that scans and reductions share, checked one by one.

    Attributes:
      caller: the public function, which errors name.
      fn: the operator, as it is given, or as data.
      leaves: the arrays to combine, of one length along ``axis``.
      treedef: the pytree in which ``fn`` takes them.
      axis: the axis along which they are combined, counted from 0.
      segments: what divides the axis, or None.
      identity: the identity that is given for each leaf, in the dtypes in which they are combined,
        or None. Where one is needed and none is given, ``fn`` is an `Operator`.
      method: "auto", "xla" or the name of a strategy.
      axis_name: the mesh axes across which the axis goes on.
      init: what a scan starts from: the values of a `Start`, or None.
      whole: why ``fn`` works on whole arrays, where it was tried to take it apart.
    """

    caller: str
    fn: Callable[[Any, Any], Any] | Bound
    leaves: Sequence[jax.Array]
    treedef: jax.tree_util.PyTreeDef
    axis: int
    segments: Given | None = None
    identity: Sequence[Neutral] | None = None
    method: str = "auto"
    axis_name: tuple[str, ...] = ()
    init: Sequence[jax.Array] | None = None
    whole: str = ""

    def divided(self, *, elementwise: bool) -> Division | None:
        """The segments beside the leaves, which ``fn`` combines one by one or as wholes."""
        how: dict[str, Any] = {"elementwise": elementwise, "axis_name": self.axis_name}
        return divide(self.caller, self.segments, self.leaves, self.axis, **how)

    def checked_fn(self) -> Callable[[Any, Any], Any]:
        """``fn`` for use in plain JAX, where its results are checked in each call.

        Raises:
          ValueError: ``method`` is the name of a strategy.
        """
        if self.method not in ("auto", "xla"):
            raise ValueError(
                f"{self.caller}: method={self.method!r} needs an operator that works element by "
                "element on leaves of one shape, or on small blocks, and closes over no arrays; "
                f"{self.whole and self.whole + '; '}use method='auto' or method='xla' for this one"
            )
        assert not isinstance(self.fn, Bound)
        return checked(self.caller, self.fn, self.leaves, self.treedef)


def scan(call: Call, *, reverse: bool, exclusive: bool) -> list[jax.Array]:
    """The scans of the leaves."""
    if call.init is not None and call.leaves[0].shape[call.axis] == 0:  # there is no result
        call, exclusive = dataclasses.replace(call, init=None), False
    needs_identity = exclusive and (call.init is None or call.segments is not None)
    identity, traced = _resolve(call, needs_identity=needs_identity)
    division = call.divided(elementwise=traced is not None)
    starts_with = identity if exclusive else None
    if exclusive and not needs_identity:
        # The initial value stands where the identity would.
        starts_with = [accumulation_dtype(x.dtype).type(0) for x in call.leaves]
    if traced is None and call.method != "xla":
        flags = None if division is None else division.flags()
        found = block_scans.scan(call, flags, reverse=reverse, starts_with=starts_with)
        if not isinstance(found, str):
            return found
        call = dataclasses.replace(call, whole=found)
    marks = None if division is None else division.marks()
    return _scan(call, traced, marks, reverse=reverse, starts_with=starts_with)


def reduce(call: Call, *, num_segments: int | None) -> list[jax.Array]:
    """The totals of the leaves, without their axis; with segments, ``num_segments`` along it."""
    identity, traced = _resolve(call, needs_identity=call.segments is not None)
    division = call.divided(elementwise=traced is not None)
    if division is None:
        return _reduce_whole(call, traced, identity)
    assert num_segments is not None
    assert identity is not None
    # Kernels fill empty segments with the identity. Resident programs also combine it with
    # elements, where no segment begins in their part, and so do devices that share an axis.
    combines_identity = call.method == "reduce_then_scan" or bool(call.axis_name)
    if traced is None or not _has_identity(call, traced.combine, is_combined=combines_identity):
        return _reduce_by_scan(call, traced, division, identity, num_segments)
    return _reduce_segments(call, traced, division, num_segments)


def _resolve(call: Call, *, needs_identity: bool) -> tuple[Sequence[Neutral] | None, Traced | None]:
    """The identity, that of an `Operator` where none is given, and the operator as data.

    An identity that is needed and cannot be proved is tried on elements.
    """
    fn, leaves, identity = call.fn, call.leaves, call.identity
    if isinstance(fn, Bound):
        return identity, Traced(fn.combine, fn.scalars)
    if isinstance(fn, Operator) and identity is None:
        return _resolve_operator(call, fn)
    # An identity that is traced, or has a shape, cannot be part of a static operator.
    known = tuple(value for value in identity or () if isinstance(value, np.generic))
    is_static = len(known) == len(leaves)
    traced = trace_open(
        fn, leaves, call.treedef, call.axis, known if is_static else None, caller=call.caller
    )
    if identity is None or not needs_identity:
        return identity, traced
    if not (traced and identities.is_proved(traced.combine)):
        identities.check(call.caller, fn, leaves, call.treedef, call.axis, identity)
    return identity, traced


def _resolve_operator(call: Call, fn: Operator) -> tuple[Sequence[Neutral], Traced | None]:
    """An operator of this package, with its own identity."""
    for leaf in call.leaves:
        if not fn.takes(leaf.dtype):
            raise TypeError(
                f"{call.caller}: fn is operators.{fn.name}, which does not take elems of dtype "
                f"{leaf.dtype}"
            )
    dtypes = tuple(leaf.dtype for leaf in call.leaves)
    identity = fn.identities([accumulation_dtype(dtype) for dtype in dtypes])
    if any(leaf.shape != call.leaves[0].shape for leaf in call.leaves):
        return identity, None
    try:
        combine = _trace_once(fn, call.treedef, dtypes, is_held(np.float64))
    except (TypeError, ValueError):
        # It does not suit the pytree; this trace raises the same error in the caller's name.
        combine = trace(fn, call.leaves, call.treedef, call.axis, None, caller=call.caller)
    return identity, None if combine is None else Traced(combine)


def _has_identity(call: Call, combine: Combine, is_combined: bool = True, **sides: bool) -> bool:
    """Whether an operator has a static identity that a kernel may use.

    One that ``is_combined`` with elements must leave them as they are. Those of an `Operator` do;
    for a given one it must be proved.
    """
    if combine.identity is None:
        return False
    return call.identity is None or not is_combined or identities.is_proved(combine, **sides)


def _scan(
    call: Call,
    traced: Traced | None,
    marks: Marks | None,
    *,
    reverse: bool,
    starts_with: Sequence[Neutral] | None,
) -> list[jax.Array]:
    """The scan by a primitive or in plain JAX; exclusive where it ``starts_with`` an identity."""
    if traced is not None:
        return _scan_by_primitive(call, traced, marks, reverse=reverse, starts_with=starts_with)
    n = call.leaves[0].shape[call.axis]
    flags = flags_of(marks, axis=call.axis, n=n)
    called = call.checked_fn()
    how: dict[str, Any] = {"axis": call.axis, "reverse": reverse, "identity": starts_with}
    how["start"] = Start.of(call.init, None)
    given = called, call.leaves, call.treedef, flags
    if call.axis_name:
        return across.scan_general_across(*given, axis_name=call.axis_name, **how)
    with meshes.entered(call.leaves):
        return scan_general(*given, **how)


def _with_scalars(leaves: Sequence[jax.Array], scalars: Sequence[jax.Array]) -> list[jax.Array]:
    """Leaves, and a leaf for each scalar, of one element, which all places share."""
    return [*leaves, *(lax.reshape(x, (1,) * leaves[0].ndim) for x in scalars)]


def _scan_by_primitive(
    call: Call,
    traced: Traced,
    marks: Marks | None,
    *,
    reverse: bool,
    starts_with: Sequence[Neutral] | None,
) -> list[jax.Array]:
    """The scan by ``scan_p``, whose kernels combine the identity with the elements behind it.

    An identity that must not be combined is kept apart there or, where kernels cannot, put at the
    starts of the inclusive scan, whose results move on by one place.
    """
    combine = traced.combine
    exclusive = starts_with is not None and _has_identity(call, combine, is_combined=True)
    alone = call.init is None and not call.axis_name and meshes.explicit_mesh(call.leaves) is None
    if starts_with is not None and not exclusive and alone and identities.stays_apart(combine):
        combine, exclusive = dataclasses.replace(combine, apart=True), True
    if call.identity is not None and not exclusive:
        combine = dataclasses.replace(combine, identity=None)
    if starts_with is not None and call.init is not None and marks is None:
        # No result is the identity, and none is combined with it.
        zeros: Any = tuple(np.zeros((), dtype)[()] for dtype in combine.dtypes)
        combine, exclusive = dataclasses.replace(combine, identity=zeros), True

    def run(
        leaves: Sequence[jax.Array],
        scalars: Sequence[jax.Array],
        marks: Marks | None,
        starts_with: Sequence[Neutral] | None,
        init: Sequence[jax.Array] | None,
    ) -> list[jax.Array]:
        start = None
        if init is not None:
            # No result takes a scalar from the left.
            row = (1,) * leaves[0].ndim
            beside = zip(scalars, combine.dtypes[len(leaves) :], strict=True)
            start = Start([*init, *(lax.full(row, 0, dtype) for _, dtype in beside)])
        results = primitives.scan(
            _with_scalars(leaves, scalars),
            marks,
            combine=combine,
            axis=call.axis,
            reverse=reverse,
            exclusive=exclusive,
            method=call.method,
            start=start,
            axis_name=call.axis_name,
            used=[*[True] * len(leaves), *[False] * len(scalars)],
        )
        if exclusive or starts_with is None:
            return results
        along: dict[str, Any] = {"axis": call.axis, "reverse": reverse, "axis_name": call.axis_name}
        flags = flags_of(marks, axis=call.axis, n=leaves[0].shape[call.axis])
        starts = None if flags is None else heads.segment_starts(flags, **along)
        shifted = heads.shift(results, starts, starts_with, **along)
        if init is None:
            return shifted
        before = Start(init)
        reaches = before.reaches(flags, **along)
        return before.shown(shifted, reaches, axis=call.axis, reverse=reverse)

    like = primitives.joined(call.leaves, marks)
    given = call.leaves, traced.scalars, marks, starts_with, call.init
    return meshes.automatically(run, *given, like=like)


def _reduce_segments(
    call: Call, traced: Traced, division: Division, num_segments: int
) -> list[jax.Array]:
    """The totals of segments by ``reduce_p``."""
    kind, descriptor = division.descriptor()
    combine = traced.combine

    def run(
        leaves: Sequence[jax.Array], scalars: Sequence[jax.Array], descriptor: jax.Array
    ) -> list[jax.Array]:
        results = primitives.reduce(
            _with_scalars(leaves, scalars),
            descriptor,
            combine=combine,
            axis=call.axis,
            kind=kind,
            num_segments=num_segments,
            method=call.method,
            neutral=_has_identity(call, combine, both_sides=True),
            axis_name=call.axis_name,
        )
        return results[: len(leaves)]

    along = meshes.instead_of(call.axis)
    operands = call.leaves, traced.scalars, descriptor
    return meshes.automatically(run, *operands, like=call.leaves, dimensions=along)


def _reduce_by_scan(
    call: Call,
    traced: Traced | None,
    division: Division,
    identity: Sequence[Neutral],
    num_segments: int,
) -> list[jax.Array]:
    """The totals of segments as the last elements of their scans, and the identity where empty."""
    axis, n = call.axis, call.leaves[0].shape[call.axis]
    names = call.axis_name if n else ()
    scanned = _scan(call, traced, division.marks(), reverse=False, starts_with=None)
    kind, descriptor = division.descriptor()

    def last(
        scanned: Sequence[jax.Array], descriptor: jax.Array, identity: Sequence[Neutral]
    ) -> list[jax.Array]:
        along: dict[str, Any] = {"axis": axis, "num_segments": num_segments}
        if not names:
            numbers = plain.segment_numbers(descriptor, axis=axis, kind=kind, n=n)
            return plain.last_of_segments(scanned, numbers, identity, **along)
        of_part, part = across.of_this_part(descriptor, kind, names, axis=axis, n=n)
        numbers = plain.segment_numbers(part, axis=axis, kind=of_part, n=n)
        return across.last_across(scanned, numbers, identity, axis_name=names, **along)

    return meshes.automatically(
        last, scanned, descriptor, identity, like=scanned, dimensions=meshes.instead_of(axis)
    )


def _reduce_whole(
    call: Call, traced: Traced | None, identity: Sequence[Neutral] | None
) -> list[jax.Array]:
    """The totals of whole leaves."""
    axis, leaves = call.axis, call.leaves
    if leaves[0].shape[axis] == 0:
        assert identity is not None
        shapes = [leaf.shape[:axis] + leaf.shape[axis + 1 :] for leaf in leaves]
        return [
            jnp.broadcast_to(jnp.asarray(value, leaf.dtype), shape)
            for value, leaf, shape in zip(identity, leaves, shapes, strict=True)
        ]
    if traced is None:
        called = call.checked_fn()
        if call.axis_name:
            results = across.reduce_general_across(
                called, leaves, call.treedef, axis=axis, axis_name=call.axis_name
            )
            return [lax.squeeze(x, (axis,)) for x in results]
        with meshes.entered(leaves):
            results = plain.reduce_general(called, leaves, call.treedef, axis=axis)
        return [lax.squeeze(x, (axis,)) for x in results]

    combine = traced.combine

    def run(leaves: Sequence[jax.Array], scalars: Sequence[jax.Array]) -> list[jax.Array]:
        if call.method == "auto" and plain.are_divisible(combine) and not call.axis_name:
            # XLA's own reduction reads at the speed of memory.
            return plain.reduce_monoids(leaves, combine, axis=axis)
        results = primitives.reduce(
            _with_scalars(leaves, scalars),
            None,
            combine=combine,
            axis=axis,
            kind="whole",
            num_segments=1,
            method=call.method,
            axis_name=call.axis_name,
        )
        return [lax.squeeze(x, (axis,)) for x in results[: len(leaves)]]

    along = meshes.without(axis)
    return meshes.automatically(run, leaves, traced.scalars, like=leaves, dimensions=along)


def combine_once(operator: Operator, dtypes: tuple[np.dtype, ...]) -> Combine:
    """An operator of this package as data, on one leaf or on a flat tuple of leaves."""
    treedef = jax.tree.structure(0 if len(dtypes) == 1 else dtypes)
    combine = _trace_once(operator, treedef, dtypes, is_held(np.float64))
    assert combine is not None
    return combine


@functools.lru_cache(maxsize=256)
def _trace_once(
    operator: Operator, treedef: jax.tree_util.PyTreeDef, dtypes: tuple[np.dtype, ...], x64: bool
) -> Combine | None:
    """An operator of this package as data, with its identity; it cannot change between calls.

    Whether there are types of 64 bits, ``x64``, may change.
    """
    del x64
    identity = operator.identities([accumulation_dtype(dtype) for dtype in dtypes])
    leaves = [jax.ShapeDtypeStruct((1,), dtype) for dtype in dtypes]
    return trace(operator, leaves, treedef, 0, identity)
