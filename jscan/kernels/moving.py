"""Elements moved to where their marks send them, by the program that counts the marks.

    marks      0  1  0  0  1  1
    count      0  1  1  1  2  3         the scan, in int32
    elements   a  b  c  d  e  f

    places     b  e  f │ -  -  -        the marked elements, then what fills
    order      a  c  d │ b  e  f        the unmarked elements, then the marked ones

A tile's marks are counted strip by strip, then read again behind the count before the tile, by
which time they are in a cache: a strip takes few registers, and a long tile few looks back.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, launch, lookback, scanning, tuning
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.language import Ref
from jscan.kernels.operator import trace_scalars
from jscan.kernels.ranking import COUNT, Ranking
from jscan.kernels.reduce_then_scan import Part, scan_part
from jscan.kernels.state import AGGREGATE, PREFIX
from jscan.kernels.tile import Tile


@dataclasses.dataclass(frozen=True)
class Moving(Ranking):
    """What to count, and what is moved by the count.

    Inputs are the marks and the elements; then, for ``order``, how many elements are unmarked, and
    for ``places`` what fills.
    """

    moved: tuple[np.dtype, ...] = dataclasses.field(kw_only=True)

    @property
    def beside(self) -> int:
        """The number of inputs that are not cut into tiles."""
        return 1 if self.emit == "order" else len(self.moved)

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The elements in their places."""
        size = self.geometry.outer * self.size * self.geometry.inner
        return [(size, dtype) for dtype in self.moved]

    def split(self, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Sequence[Ref]]:
        """The input and output references out of all of the kernel's."""
        inputs, others = self.apart(refs)
        return inputs, others[: len(self.moved)]

    def store(
        self,
        tile: Tile,
        outputs: Sequence[Ref],
        inputs: Sequence[Ref],
        scanned: Sequence[jax.Array],
    ) -> None:
        """Writes the elements where they belong."""
        [count] = scanned
        marks = self.marks(tile, inputs[0])
        beside = inputs[len(self.views) :]
        place = self.places(tile, beside, marks, count - marks.astype(COUNT))
        inside = place < np.int32(self.size)
        for k, (output, view) in enumerate(zip(outputs, self.views[1:], strict=True)):
            parts = tile.load_parts(inputs[1 + k], view)
            if self.emit == "places":
                fills = language.load_parts(beside[k], [(jnp.int32(0), 1)])
                pairs = zip(parts, fills, strict=True)
                parts = [jnp.where(marks, part, fill.astype(part.dtype)) for part, fill in pairs]
            tile.scatter(output, self.size, place, *parts, where=inside)


def kernel(moving: Moving, tuned: tuning.Tuning, program: jax.Array, refs: Sequence[Ref]) -> None:
    """One tile of a row, by one program."""
    inputs, outputs = moving.split(refs)
    tile, words, state = Tile(moving.geometry, program), refs[-1], lookback.tile_state(moving)
    part = Part(moving, tuned.strip, tile, refs)
    total = [_count(moving, part, inputs)]
    first = jnp.broadcast_to(tile.index == 0, total[0].shape)
    state.publish(words, tile, AGGREGATE + first.astype(jnp.int32), total)
    rule = OperatorAggregates(moving.operator, COUNT.type(0))
    search = lookback.Lookback(moving.operator, state, words, tile, tuned.window, rule)
    prefix = search.prefix(search.peek(tile.index))
    inclusive = rule.combine(prefix, total)
    state.publish(words, tile, jnp.full_like(total[0], PREFIX), inclusive, ~first)
    scan_part(moving, part, prefix, outputs)


def _count(moving: Moving, part: Part, inputs: Sequence[Ref]) -> jax.Array:
    """The marked elements of a tile."""

    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        counts, number = state
        strip = part.strip(number)
        [marks] = moving.leaves(strip, inputs, moving.read(strip, inputs))
        exists = strip.mask(0)
        if exists is not None:
            marks = jnp.where(exists, marks, jnp.zeros_like(marks))
        return counts + marks, number + np.int32(1)

    start = jnp.zeros(part.strip(jnp.int32(0)).geometry.shape, COUNT), jnp.int32(0)
    counts, _ = lax.while_loop(lambda state: state[-1] < part.count, step, start)
    return language.tile_reduce(moving.operator, counts, moving.geometry.axis)


def move(
    marks: jax.Array,
    leaves: Sequence[jax.Array],
    beside: Sequence[jax.Array],
    *,
    full: tuple[int, ...],
    axis: int,
    source: str,
    emit: str,
    size: int,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """Moves the elements of leaves along ``axis``, of arrays that have the shape ``full`` together.

    ``beside`` holds for ``order`` how many elements of each row are not marked, and for ``places``
    what fills, for each leaf.
    """
    marks = launch.whole_bytes(marks) if source == "runs" else launch.one_byte(marks)
    operator = trace_scalars(lax.add, [COUNT] * 2)
    counts = jax.ShapeDtypeStruct(full, COUNT)
    shape = tuning.Shape.of([counts], axis, operator, segmented=False, tile=tile)
    tuned = tuning.chosen(shape, "auto", tuning.SCAN)
    if tuned.length < shape.n:
        tuned = tuning.sends(shape)
    read, fills = launch.readable(leaves), beside if emit == "order" else launch.readable(beside)
    cut = launch.Cut([marks, *read], full, axis, tuned, widths={4})
    moving = Moving(
        geometry=cut.geometry,
        operator=operator,
        dtypes=(COUNT,),
        results=(COUNT,),
        identity=None,
        used=(True,),
        linear=False,
        views=cut.views,
        flag_view=None,
        source=source,
        emit=emit,
        size=size,
        moved=tuple(np.dtype(x.dtype) for x in read),
    )
    flat = [x.reshape(-1) for x in fills]
    if cut.geometry.tiles == 1 or not tuned.strip:
        outputs = scanning.run(moving, cut, interpret, flat)
    else:
        body = functools.partial(kernel, moving, tuned)
        outputs = cut.call(moving, flat, body, lookback.tile_state(moving), "jscan_move", interpret)
    moved = launch.joined(outputs, [x.dtype for x in leaves])
    return [x.reshape(*full[:axis], size, *full[axis + 1 :]) for x in moved]
