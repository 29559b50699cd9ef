"""Elements that a kernel makes as it reads: of what lies in place, and of what it gathers.

    columns   2  0  7 │ 0  1 │ ...      in place, tile by tile
    entries   a  b  c │ d  e │ ...
    dense     x0 x1 x2 ... x7           gathered, from the cache where columns are near each other
    elements  a·x2 b·x0 c·x7 │ ...      in registers alone

A column that does not exist is read as the first one, and its element is the identity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jscan.kernels import language
from jscan.kernels.language import Ref
from jscan.kernels.layout import View
from jscan.kernels.registers import constant
from jscan.kernels.tile import Tile
from jscan.operators import integer_limits


class Places(Protocol):
    """Elements of the axis and of lanes, as a program reaches them: a tile's, or others."""

    def gather(self, ref: Ref, view: View, place: jax.Array) -> list[jax.Array]:
        """The parts of the operand's elements at a ``place`` for each of these."""

    def spread(self, column: jax.Array) -> jax.Array:
        """A value for each place over the lanes."""


@dataclasses.dataclass(frozen=True)
class Product:
    """How elements are made."""

    function: core.ClosedJaxpr  # of the parts of entries, a place, and parts of a dense element
    dense: tuple[View, ...]  # of the dense operand; of its parts, where kernels read these apart
    columns: int  # how many there are
    identity: tuple[Any, ...]
    placed: bool = False  # whether elements are made of their places, too

    def elements(
        self,
        strip: Tile,
        in_place: Sequence[Ref],
        views: Sequence[View],
        dense: Sequence[Ref],
    ) -> list[jax.Array]:
        """The elements of a strip; of what lies ``in_place``, columns come last, if any."""
        read = [_load(strip, *x) for x in zip(in_place, views, strict=True)]
        number = jnp.broadcast_to(strip.element(), strip.geometry.shape) if self.placed else None
        return self.made(strip, read, dense, number)

    def made(
        self,
        at: Places,
        in_place: Sequence[Sequence[jax.Array]],
        dense: Sequence[Ref],
        number: jax.Array | None = None,
    ) -> list[jax.Array]:
        """The elements of what was read ``in_place``, by parts, and of their ``number``, if any.

        Columns come last.
        """
        entries = [*in_place]
        exists: jax.Array | None = None
        gathered: list[jax.Array] = []
        if dense:
            [place] = entries.pop()
            exists = self._exists(place)
            place = jnp.where(exists, place, jnp.zeros_like(place)).astype(jnp.int32)
            for ref, view in zip(dense, self.dense, strict=True):
                gathered += at.gather(ref, view, place)
        parts = [at.spread(x) for entry in entries for x in entry]
        parts += [] if number is None else [number]
        pairs = zip([*parts, *gathered], self.function.in_avals, strict=True)
        made = language.mapped(self.function, [x.astype(a.dtype) for x, a in pairs])
        if exists is None:
            return made
        exists = at.spread(exists)
        return [
            jnp.where(exists, x, constant(x.shape, np.asarray(i, x.dtype)[()]))
            for x, i in zip(made, self.identity, strict=True)
        ]

    def _exists(self, place: jax.Array) -> jax.Array:
        """Which columns there are."""
        exists = place >= 0
        if self.columns > integer_limits(place.dtype).max:
            return exists
        return exists & (place < np.asarray(self.columns, place.dtype)[()])


def _load(strip: Tile, ref: Ref, view: View) -> list[jax.Array]:
    """The parts of a strip of an operand: a column, where lanes share it.

    Entries make room in the cache for what is gathered: rows of 16 at random and as many empty,
    2^26 entries, 962 µs and 1069 without; a power law 684 and 700 (H100, 2026-11-25).
    """
    own = strip.geometry.lanes == 1 or view.strides[2] != 0
    once = dataclasses.replace(view, once=True)
    return (strip if own else strip.column()).load_parts(ref, once)
