"""Elements moved to where their marks send them, by the program that counts the marks.

    marks      0  1  0  0  1  1
    count      0  1  1  1  2  3         the scan, in int32
    elements   a  b  c  d  e  f

    places     b  e  f │ -  -  -        the marked elements, then what fills
    order      a  c  d │ b  e  f        the unmarked elements, then the marked ones

The kernel is that of ranks (`ranking.kernel`). An element is read once, behind the count of those
before it, or not at all where few are wanted; and written once, and so is what fills. Where marked
elements are may be written beside them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.kernels import language, launch, tuning
from jscan.kernels.language import Ref
from jscan.kernels.operator import trace_scalars
from jscan.kernels.ranking import along, floats_of, run
from jscan.kernels.ranking import readable as readable_marks
from jscan.kernels.ranks import COUNT, Ranking
from jscan.kernels.tile import Tile


@dataclasses.dataclass(frozen=True)
class Moving(Ranking):
    """What to count, and what is moved by the count.

    Inputs are the marks and the elements; then, for ``order``, how many elements are unmarked, and
    for ``places`` what fills.
    """

    moved: tuple[np.dtype, ...] = dataclasses.field(kw_only=True)
    placed: bool = dataclasses.field(default=False, kw_only=True)  # whether places are a result

    @property
    def few(self) -> int:
        """As of ranks, but elements are read one by one."""
        return 3 if self.source == "runs" else 8

    @property
    def beside(self) -> int:
        """The number of inputs that are not cut into tiles."""
        return 1 if self.emit == "order" else len(self.moved)

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The elements in their places, then where they were, and the total, if asked for."""
        size = self.geometry.outer * self.size * self.geometry.inner
        dtypes = [*self.moved, *([COUNT] if self.placed else [])]
        return [*((size, dtype) for dtype in dtypes), *self.totals]

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
        for k, (output, view) in enumerate(zip(outputs, self.views[1:], strict=False)):
            parts = tile.load_parts(inputs[1 + k], view)
            if self.emit == "places":
                fills = language.load_parts(beside[k], [(jnp.int32(0), 1)])
                pairs = zip(parts, fills, strict=True)
                parts = [jnp.where(marks, part, fill.astype(part.dtype)) for part, fill in pairs]
            tile.scatter(output, self.size, place, *parts, where=inside)
        if self.placed:
            element = tile.element()
            value = jnp.where(marks, element, jnp.full_like(element, self.filler))
            tile.scatter(outputs[len(self.moved)], self.size, place, value, where=inside)
        self.store_total(tile, outputs, count)

    def fetch(
        self, inputs: Sequence[Ref], tile: Tile, offset: jax.Array, where: jax.Array
    ) -> list[list[jax.Array]]:
        """The elements, so far behind the first of a tile."""
        found = []
        for ref, view in zip(inputs[1:], self.views[1:], strict=False):
            stride = view.strides[1]
            terms = [*tile.start(stride, 0), (offset, stride)]
            terms += tile.row_terms(view, lambda: jnp.zeros_like(offset))
            found.append(language.load_parts(ref, terms, mask=where))
        return [*found, *super().fetch(inputs, tile, offset, where)] if self.placed else found

    def fillers(self, inputs: Sequence[Ref], shape: tuple[int, ...]) -> list[list[jax.Array]]:
        """What fills so many places, as `fetch` gives elements."""
        fills = [language.load_parts(x, [(jnp.int32(0), 1)]) for x in inputs[len(self.views) :]]
        found = [[jnp.broadcast_to(part, shape) for part in parts] for parts in fills]
        return [*found, *super().fillers(inputs, shape)] if self.placed else found


def move(
    marks: jax.Array,
    x: jax.Array,
    beside: jax.Array,
    *,
    full: tuple[int, ...],
    axis: int,
    source: str,
    emit: str,
    size: int,
    placed: bool,
    counted: bool,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """Moves elements along ``axis``, of arrays that have the shape ``full`` together.

    ``beside`` is for ``order`` how many elements of each row are not marked, and for ``places``
    what fills. Where ``placed``, where elements were is the next result, and where ``counted``,
    how many elements are marked.
    """
    marks = readable_marks(marks, source, interpret=interpret)
    operator = trace_scalars(lax.add, [COUNT] * 2)
    counts = jax.ShapeDtypeStruct(full, COUNT)
    shape = tuning.Shape.of([counts], axis, operator, segmented=False, tile=tile)
    tuned = tuning.sends(shape, size=size, width=marks.dtype.itemsize, moves=x.dtype.itemsize)
    read, rest = launch.readable([x]), [beside] if emit == "order" else launch.readable([beside])
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
        counted=counted,
        floats=floats_of(marks),
        filler=full[axis],
        placed=placed,
        moved=tuple(np.dtype(part.dtype) for part in read),
    )
    outputs = run(moving, cut, interpret, [part.reshape(-1) for part in rest], "jscan_move")
    sizes = [size] * (1 + placed) + [1] * counted
    results = launch.joined(outputs, [x.dtype, *[COUNT] * (len(sizes) - 1)])
    return along(results, full, axis, sizes)
