"""The primitive of sparse matrices' products: its operands, and the function that binds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core

from jscan import extent
from jscan.primitives import settings_for

product_p = core.Primitive("jscan_product")
product_p.multiple_results = True
"""Products of entries of a sparse matrix and elements of a dense one, reduced row by row.

Operands: those of `Operands`.
Result: ``num_segments`` elements along the ``axis``, in ``dtype``. Entries whose column does not
exist are dropped.
Parameters: ``axis`` and ``num_segments`` as in ``reduce_p``; ``pair``, the name of a pair of
`jscan.pairs`; ``dtype``, that of the result, which tells in which one products are made and
combined; ``axis_name``, which lowerings alone bind; and what the context says, as for every
primitive.
"""


class Operands(NamedTuple):
    """The operands of ``product_p``, of one rank: each dimension is full size, or 1 if shared."""

    entries: Sequence[Any]  # one array, or none: then an entry makes its element of an element
    columns: Any  # of the entries: the place of an entry's element along the axis
    dense: Any  # the elements
    offsets: Any  # where each row's entries begin, as the offsets of ``reduce_p``

    @classmethod
    def of(cls, operands: Sequence[Any]) -> Operands:
        """Operands in their order, by name."""
        *entries, columns, dense, offsets = operands
        return cls(entries, columns, dense, offsets)

    @property
    def flat(self) -> list[Any]:
        """The operands in their order."""
        return [*self.entries, self.columns, self.dense, self.offsets]

    def full_shape(self, axis: int) -> tuple[int, ...]:
        """The shape of the products together."""
        return extent.shape_along(axis, self.columns, *self.entries, self.dense, self.offsets)


def product(operands: Operands, *, axis: int, **params: Any) -> jax.Array:
    """Bind ``product_p``."""
    settings = settings_for(operands.full_shape(axis))
    arrays = extent.vary_alike(operands.flat)
    [result] = product_p.bind(*arrays, axis=axis, axis_name=(), **params, **settings)
    return result
