"""The primitive of elements that are made of data as they are reduced, and what binds it.

A kernel makes the elements in registers. Elsewhere they are arrays, and ``reduce_p`` reduces them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core

from jscan import extent
from jscan.primitives import settings_for

summary_p = core.Primitive("jscan_summary")
summary_p.multiple_results = True
"""Elements that are made of data, reduced by segments.

Operands: the data; a value for each segment, if the summary takes one; the number of each element's
segment, as the ids of ``reduce_p``.
Results: ``num_segments`` elements along the ``axis``, in the dtypes in which they are combined.
Parameters: ``summary``, a name in `jscan.made`; ``dtype``, in which data are taken; and as
in ``reduce_p`` ``axis``, ``num_segments``, ``method`` and what the context says.
"""


def summary(
    data: jax.Array, values: Sequence[jax.Array], ids: jax.Array, *, axis: int, **params: Any
) -> list[jax.Array]:
    """Bind ``summary_p``."""
    operands = extent.vary_alike([data, *values, ids])
    settings = settings_for(extent.shape_along(axis, ids, data, *values))
    results: list[jax.Array] = summary_p.bind(*operands, axis=axis, **params, **settings)
    return results
