"""The chained scan: a domino over an atomic ticket.

    tile   take a ticket ─► load ─► reduce ─► scan ─► wait ─► publish PREFIX ─► store
    state  ... [P] [P] [ ] [ ] ...                      │
                    ▲───────────────────────────────────┘      the neighbour's word, no other

A tile waits for the prefix of the tile before it and passes its own on, as in StreamScan (Yan, Long
and Zhang 2013): one word a tile, and no aggregate is ever published. What makes it slow is that the
prefix travels through every tile, one after another. A tile that holds a restart publishes at once.

Forward progress: tiles are numbered by an atomic ticket, in the order in which programs start, so a
program waits only for programs that run already, whatever the order of their dispatch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jscan.kernels.description import Scan
from jscan.kernels.forms import form
from jscan.kernels.language import Ref
from jscan.kernels.lookback import Lookback
from jscan.kernels.state import PREFIX, TileState
from jscan.kernels.steps import Step
from jscan.kernels.tile import Tile


def tile_state(scan: Scan) -> TileState:
    """The layout of a scan's state words, and one for the ticket."""
    g = scan.geometry
    return TileState(scan.dtypes, g.outer, g.tiles, g.inner, tickets=1)


def kernel(scan: Scan, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of a row, by one program, which takes another number than its own."""
    del program
    with Step.TAKE_TICKET.marked():
        number = tile_state(scan).take_ticket(refs[-1])
    tile = Tile(scan.geometry, number)
    scan.on_tile(tile, functools.partial(_one_tile, refs))


def _one_tile(refs: Sequence[Ref], scan: Scan, tile: Tile) -> None:
    words, state = refs[-1], tile_state(scan)
    inputs, outputs = scan.split(refs)

    with Step.LOAD.marked():
        work = form(scan, tile, inputs)
        complete = jnp.broadcast_to(tile.index == 0, work.aggregate[0].shape)
        if work.restarts is not None:
            complete = complete | work.restarts
    tag = jnp.full_like(complete, PREFIX, jnp.int32)
    with Step.PUBLISH_AGGREGATE.marked():
        state.publish(words, tile, tag, work.aggregate, complete)

    with Step.SCAN.marked():
        work.scan()
    with Step.LOOK_BACK.marked():
        # Several warps may read the word, each for itself: it is EMPTY until it is PREFIX, for
        # good.
        search = Lookback(scan.operator, state, words, tile, 1, work)
        prefix = search.prefix(search.peek(tile.index))

    with Step.PUBLISH_PREFIX.marked():
        state.publish(words, tile, tag, work.combine(prefix, work.aggregate), ~complete)
    with Step.STORE.marked():
        work.store(outputs, prefix)
