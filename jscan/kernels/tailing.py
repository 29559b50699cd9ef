"""From arrays to the kernels that find what is open at the end of segmented rows.

They are the first two of `reduce_then_scan`: resident programs walk the parts of a row, each from
its end to its last restart, and their totals are combined. Where segments are short, a program
reads one strip, and most of the row is not read at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jscan.combine import Combine
from jscan.kernels import reduce_then_scan, scan_then_propagate, totals, tuning
from jscan.kernels.complex import real_dtypes
from jscan.kernels.description import Scan
from jscan.kernels.launch import Cut, joined, readable, whole_bytes
from jscan.kernels.operator import prepare


def tail(
    leaves: Sequence[jax.Array],
    flags: jax.Array,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """The results of ``tail_p``.

    Every operand's dimensions are full or 1. Runs where `refusals.why_not` finds nothing to object
    to, on arrays that have elements.
    """
    full = np.broadcast_shapes(*(leaf.shape for leaf in leaves), flags.shape)
    operands = [*readable(leaves), whole_bytes(flags)]
    operator = prepare(combine)
    dtypes = tuple(np.dtype(a.dtype) for a in operator.out_avals)
    shape = tuning.Shape.of(leaves, axis, operator, segmented=True, tile=tile)
    cut = Cut(operands, full, axis, tuning.parts(shape, of_lanes=False), reverse=reverse)
    real_results = tuple(real for d in combine.dtypes for real in real_dtypes(d))
    scan = Scan(
        geometry=cut.geometry,
        operator=operator,
        dtypes=dtypes,
        results=real_results,
        identity=None,
        used=(True,) * len(real_results),
        linear=False,
        views=cut.views[:-1],
        flag_view=cut.views[-1],
        restarts_at_first=False,
    )
    found = reduce_then_scan.part_totals(scan, cut, interpret, to_the_end=True)
    g = scan.geometry
    if g.tiles > 1:
        longer = scan_then_propagate.run
        found = totals.scanned(scan, found, interpret, longer, totals.LONGEST)
    shape_of_totals = (g.outer, g.tiles, g.inner)
    last = [x.reshape(shape_of_totals)[:, -1] for x in found]
    restarted, *values = [x.reshape(*full[:axis], 1, *full[axis + 1 :]) for x in last]
    # Sums of narrow integers are made in wider ones.
    values = [x.astype(dtype) for x, dtype in zip(values, real_results, strict=True)]
    shared = tuple(slice(0, size) for size in (*flags.shape[:axis], 1, *flags.shape[axis + 1 :]))
    return [*joined(values, combine.dtypes), jnp.not_equal(restarted[shared], 0)]
