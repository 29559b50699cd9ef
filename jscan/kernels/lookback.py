"""The single-pass scan with decoupled lookback (Merrill and Garland 2016).

    tile        load ─► tile scan ─► publish AGGREGATE ─► look back ─► publish PREFIX ─► combine ─► store
    state       ... [P] [P] [A] [A] [A] [ ] ...                                A: a tile's own total
                         ▲───────────┘                                         P: total up to and with the tile
                 window of tiles, the nearest one last

A program reads a window of its predecessors' words at once, one tile a lane, waits until every tile after the
window's last PREFIX has published, scans the window in order (the operator need not commute) and goes on to the
window before it if there was no PREFIX. The first tile of a row has nothing to wait for. A tile that holds a restart publishes its aggregate as PREFIX at once: what
comes before it cannot matter to its successors, so nobody looks past it. The first tile of a row does the same.

Forward progress: a program waits only for programs of lower number, which the hardware dispatches first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from jscan.kernels import pallas
from jscan.kernels.operator import FLAG, flag_value
from jscan.kernels.scan import Scan
from jscan.kernels.state import AGGREGATE, EMPTY, PREFIX, TileState
from jscan.kernels.tile import Tile, take


def tile_state(scan: Scan) -> TileState:
    g = scan.geometry
    return TileState(scan.dtypes, g.outer, g.tiles, g.inner)


def kernel(scan: Scan, window: int, refs: Sequence[Any]) -> None:
    tile = Tile(scan.geometry, pl.program_id(0))
    inputs, outputs = scan.split(refs)
    words, state = refs[-1], tile_state(scan)

    scanned = scan.tile_scan(scan.load(tile, inputs))
    aggregate = tile.last(scanned)
    complete = tile.index == 0
    if scan.segmented:
        complete = complete | (aggregate[0] != 0)
    complete = jnp.broadcast_to(complete, aggregate[0].shape)
    values = aggregate[1:] if scan.segmented else aggregate
    state.publish(words, tile, AGGREGATE + complete.astype(jnp.int32), values)

    prefix = look_back(scan, state, words, tile, window)
    inclusive = scan.combine(prefix, aggregate)
    state.publish(
        words,
        tile,
        jnp.full_like(complete, PREFIX, jnp.int32),
        inclusive[1:] if scan.segmented else inclusive,
        ~complete,
    )
    scan.store(tile, outputs, inputs, scan.behind(prefix, scanned, tile.index == 0))


def look_back(
    scan: Scan, state: TileState, words: Any, tile: Tile, window: int
) -> list[jax.Array]:
    """The total of everything before ``tile`` in its row, as leaves of the scan's operator.

    For the first tile, which has nothing before it, no value is defined.
    """
    lanes = (tile.geometry.lanes,) if tile.geometry.lanes > 1 else ()
    operator = flag_value(scan.operator)

    def place() -> jax.Array:
        return lax.broadcasted_iota(jnp.int32, (window, *lanes), 0)

    def nearest(tags: jax.Array, tag: np.int32) -> jax.Array:
        """The place in the window of the tile nearest to ours that carries ``tag``; -1 for none."""
        return jnp.max(jnp.where(tags == tag, place(), jnp.full_like(tags, -1)), axis=0)

    def total(end: jax.Array, done: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        """Waits for the window before ``end``; its total since its last PREFIX, and whether it has one.

        A lane that is ``done`` is not waited for.
        """

        def poll(carry):
            del carry
            numbers = end - np.int32(window) + lax.broadcasted_iota(jnp.int32, (window,), 0)
            tags, values = state.peek(words, tile, numbers)
            missing = (nearest(tags, EMPTY) > nearest(tags, PREFIX)) & ~done
            return (tags, *values, jnp.max(missing.astype(jnp.int32)) > 0)

        # Tensors come before the flag: Triton's layout pass takes a loop's operands to be numbered like its
        # results, and the flag is no result.
        nothing = jnp.zeros((window, *lanes), jnp.int32)
        values = [jnp.zeros(nothing.shape, d) for d in scan.dtypes]
        waiting = jnp.min(done.astype(jnp.int32)) == 0
        tags, *values, _ = lax.while_loop(lambda c: c[-1], poll, (nothing, *values, waiting))
        complete = (tags == PREFIX).astype(FLAG)
        folded = pallas.tile_scan(operator, [complete, *values], 0, False)
        flag, *folded = (take(v, place() == np.int32(window - 1), 0) for v in folded)
        return folded, flag != 0

    def step(carry):
        *prefix, end, done = carry
        end = end - np.int32(window)
        folded, complete = total(end, done)
        further = pallas.evaluate(scan.operator, [*folded, *prefix])
        prefix = [jnp.where(done, p, f) for p, f in zip(prefix, further, strict=True)]
        return (*prefix, end, done | complete)

    def unfinished(carry):
        return jnp.min(carry[-1].astype(jnp.int32)) == 0

    first = jnp.broadcast_to(tile.index == 0, lanes)
    folded, done = total(tile.index, first)
    *prefix, _, _ = lax.while_loop(unfinished, step, (*folded, tile.index, done | first))
    if scan.segmented:
        return [jnp.zeros(lanes, FLAG), *prefix]
    return list(prefix)
