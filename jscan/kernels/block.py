"""Rows that fit a tile: one kernel, no state, several rows per program.

program 0:  row 0 ─ load ─ tile scan ─ store        program 1: rows R .. 2R-1        ...
            row 1 ─ load ─ tile scan ─ store
            ...
            row R-1
"""

from __future__ import annotations

from collections.abc import Sequence

import jax

from jscan.kernels.description import Scan
from jscan.kernels.forms import form
from jscan.kernels.language import Ref
from jscan.kernels.tile import Tile


def kernel(scan: Scan, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of whole rows, by one program."""
    tile = Tile(scan.geometry, program)
    inputs, outputs = scan.split(refs)
    work = form(scan, tile, inputs)
    work.scan()
    work.store(outputs)
