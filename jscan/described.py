"""What `jscan.Segments` are made of, and how they reach scans and reductions.

`Described` keeps the array that describes them, in the form in which it was given, and finds head
flags where something asks for them. The functions here are for the package alone.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import bits, counted
from jscan.arguments import descriptors
from jscan.arguments.arrays import Array
from jscan.arguments.descriptors import is_known
from jscan.eager import is_untraced, placed
from jscan.ranks import heads_of_runs, locate
from jscan.remembered import Remembered

NOT_GIVEN: Any = object()

LONG = 2**20
"""A device finds the heads of a longer axis faster than it is sent them."""

D = TypeVar("D", bound="Described")


class Described:
    """Segments by an array, in one of four forms."""

    def __init__(
        self, form: str, array: Any, total: int | None = None, flags: Any = NOT_GIVEN
    ) -> None:
        # The arrays are leaves of a pytree, which may hold anything: class methods check theirs.
        self._form = form  # "flags", "bits", "ids" or "bounds"
        self._array = array
        self._total: Any = total  # of bits and bounds, the length of the axis that they divide
        self._given_flags = flags
        self._found_flags, self._placed = Remembered(), Remembered()
        self._ends: jax.Array | None = None  # where segments end, if traced bounds are made of it

    @property
    def _given_arrays(self) -> list[Any]:
        """The arrays that they are made of, for which no head flags are found."""
        return [self._array, *([] if self._given_flags is NOT_GIVEN else [self._given_flags])]

    @property
    def _counted(self) -> bool:
        """Whether segments come from flags or ids, and are numbered by counting their heads."""
        return self._form != "bounds"

    @property
    def _marks(self) -> tuple[jax.Array, str]:
        """What ``rank`` counts to number segments, and how it tells heads from it."""
        if self._form == "ids":
            return jnp.asarray(self._array), "runs"
        return head_flags(self), "flags"

    @property
    def _on_device(self) -> jax.Array:
        """Bits or bounds on a device.

        XLA folds what is computed from a constant as it compiles, which takes 29 s for 10^6
        elements on a CPU. Known ones in a trace are therefore behind a barrier.
        """
        array = jnp.asarray(self._array)
        constant = is_known(self._array) and isinstance(array, jax.core.Tracer)
        held: jax.Array = lax.optimization_barrier(array) if constant else array
        return held

    def _located(self, emit: str) -> jax.Array:
        """What ``locate`` emits for the bounds."""
        if not self._is_read:
            bounds = self._on_device if emit == "ids" else jnp.asarray(self._array)
            return locate(bounds, n=self._total, emit=emit)
        if self._total > LONG:
            return locate(placed(descriptors.padded(self._array)), n=self._total, emit=emit)
        if emit == "ids":
            return placed(descriptors.numbers_of_bounds(self._array))
        return placed(self._known_flags)

    @property
    def _is_read(self) -> bool:
        """Whether NumPy finds what is asked for: values are known, and nothing is traced."""
        return isinstance(self._array, np.ndarray) and is_untraced()

    @functools.cached_property
    def _known_flags(self) -> np.ndarray:
        """Known head flags as scans read them, for bounds of one row."""
        if not self._counted:
            return descriptors.heads_of_bounds(self._array)
        if self._form == "ids":
            return descriptors.known_heads(self._array, runs=True)
        if self._form == "bits":
            return bits.known(self._array, self._total)
        return np.asarray(self._array) != 0

    @property
    def _known_heads(self) -> np.ndarray:
        """Which elements begin a segment, where that is known: the first one in any case."""
        flags = self._known_flags
        return descriptors.known_heads(flags, runs=False) if self._is_open else flags

    @property
    def _is_open(self) -> bool:
        """Whether the first segment may have begun before the axis: flags and bits may say so."""
        return self._form in ("flags", "bits")

    @property
    def _flags(self) -> Any:
        """The head flags that came with the bounds, else those that this trace has found."""
        if self._given_flags is not NOT_GIVEN:
            return self._given_flags
        return self._found_flags.array(self._found_here)

    @property
    def _has_flags(self) -> bool:
        """Whether there are head flags that came with the bounds, or that this trace has found."""
        return self._given_flags is not NOT_GIVEN or self._found_flags.is_here

    def _found_here(self) -> jax.Array:
        """The head flags as scans read them, of which the first of given ones may be 0."""
        if not self._counted:
            return self._located("flags")
        if self._form == "bits":
            return counted.heads_of_bits(self._on_device, self._total)
        if self._is_read:
            return placed(self._known_flags)
        return counted.heads_of_ids(jnp.asarray(self._array))

    @property
    def _placed_array(self) -> jax.Array:
        """Known values on the device, where they are moved once; not for use in a trace."""
        return self._placed.array(lambda: placed(self._array))


def head_flags(segments: Described) -> jax.Array:
    """Head flags as scans read them.

    They may have any integer dtype, and the first may be 0: given flags are read as they are.
    """
    if segments._form == "flags" and not segments._is_read:
        return jnp.asarray(segments._array)
    return jnp.asarray(segments._flags)


def marks_of(segments: Described, *, in_place: bool) -> bits.Marks:
    """Head flags in the form in which ``scan_p`` reads them: as given, unless they were found.

    Bounds are read by programs alone: outside of one it would be compiled for their number. Ids
    are where they are ``in_place``: flags are narrower to move.
    """
    if segments._form == "bits":
        return bits.Packed(segments._on_device)
    if segments._form == "flags" or segments._has_flags or is_untraced():
        return head_flags(segments)
    if segments._form == "ids":
        return bits.Runs(jnp.asarray(segments._array)) if in_place else head_flags(segments)
    if segments._ends is not None:
        return bits.Ends(segments._ends)
    return bits.Bounds(jnp.asarray(segments._array))


def flags_of(marks: bits.Marks | None, *, axis: int, n: int) -> jax.Array | None:
    """The head flags of ``n`` elements along ``axis``, if there are any."""
    if isinstance(marks, bits.Packed):
        return bits.unpacked(marks.words, axis=axis, n=n)
    if isinstance(marks, bits.Ends):
        marks = bits.Bounds(bits.behind_zero(marks.ends, axis=axis))
    if isinstance(marks, bits.Bounds):
        found = locate(jnp.moveaxis(marks.bounds, axis, -1), n=n, emit="flags")
        return jnp.moveaxis(found, -1, axis)
    if isinstance(marks, bits.Runs):
        return heads_of_runs(marks.ids, axis=axis)
    return marks


def shape_of(segments: Described) -> tuple[int, ...]:
    """The shape of the head flags, which are not found for it."""
    if segments._form == "bits":
        return (*segments._array.shape[:-1], segments._total)
    if segments._counted:
        return tuple(segments._array.shape)
    if segments._given_flags is not NOT_GIVEN:
        return tuple(segments._given_flags.shape)
    return (*segments._array.shape[:-1], segments._total)


def is_whole(segments: Described) -> bool:
    """Whether they divide a whole axis, as lengths and offsets do, also on a device with a part."""
    return not segments._counted


def to_send(segments: D) -> D | Array:
    """Segments for one program: as head flags, unless they are bits.

    Known flags are sent along the first time, and then stay there.
    """
    if segments._form == "bits":
        return without_flags(segments)
    is_short = segments._counted or segments._total <= LONG
    if segments._is_read and is_short and "_known_flags" not in vars(segments):
        return segments._known_flags
    return head_flags(segments)


def can_be_read(segments: Described) -> bool:
    """Whether their values are known, and nothing is traced."""
    return is_known(segments._array) and is_untraced()


def without_flags(segments: D) -> D:
    """The segments as a pytree for which no head flags are found."""
    if segments._form in ("flags", "ids"):
        return segments
    given = () if segments._counted else (None,)
    return type(segments)(segments._form, segments._placed_array, segments._total, *given)


def describe(segments: Described) -> tuple[str, jax.Array]:
    """The kind of a descriptor, "flags", "runs" or "offsets", and the descriptor as it is given."""
    if segments._counted:
        array, kind = segments._marks
        return kind, array
    return "offsets", segments._on_device
