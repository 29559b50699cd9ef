"""Recurrences of derivatives, computed in one pass from their operands to their results.

    known  ──┐ A, C             ┌── known
    coming ──┴─► (A, C v) ─► scan ─► s  ─► s, or transposed Cᵀ s

No matrix is ever in memory: a tile reads what its entries are computed from, some of it one
position further on. What comes out again needs the known operands once more; they are read anew,
from the cache, because a tile that waits for its predecessors should hold few registers.

Of complex states what lies around the scan is a function of scalars, which are taken apart into
real ones (`Around`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan.called import Leaf
from jscan.combine import scalar_jaxpr
from jscan.derivatives import recurrence
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Source
from jscan.kernels import elements, engines, language, launch, refusals, scanning, tuning
from jscan.kernels.description import Scan
from jscan.kernels.engines import Engine
from jscan.kernels.language import Ref
from jscan.kernels.layout import View
from jscan.kernels.operator import (
    Inexpressible,
    expressible,
    prepare,
    prepared_function,
)
from jscan.kernels.strategies import single_pass
from jscan.kernels.tile import Tile


@dataclasses.dataclass(frozen=True)
class TangentScan(Scan):
    """A recurrence to solve: a scan whose leaves are computed as they are read."""

    component: Component
    backwards: bool  # whether the differentiated scan ran from the end
    moved: bool  # whether previous values are moved already
    transposed: bool

    def read(self, tile: Tile, inputs: Sequence[Ref]) -> list[jax.Array]:
        """The tile's slopes and offsets, behind flags if there are."""
        read = TileReader(self, tile, inputs)
        linear = range(len(self.component.reads), read.count)
        if self.component.dtype.kind == "c":
            parts = [part for i in linear for part in read.parts(i, 0)]
            leaves = Around.of(self.component, self.transposed).elements.on_tile(read, parts)
        else:
            numbers = [read.at(i, 0).astype(self.component.dtype) for i in linear]
            leaves = recurrence.Recurrence(self.component, read, self.transposed).elements(numbers)
        if not self.segmented:
            return leaves
        return [self._restarts(tile, self.flags(tile, inputs, 0), 0), *leaves]

    def leaves(
        self, tile: Tile, inputs: Sequence[Ref], read: Sequence[jax.Array]
    ) -> list[jax.Array]:
        """The slopes and offsets as they are."""
        del tile, inputs
        return list(read)

    def store(
        self,
        tile: Tile,
        outputs: Sequence[Ref],
        inputs: Sequence[Ref],
        scanned: Sequence[jax.Array],
    ) -> None:
        """Writes the results, which follow from the scanned states."""
        read = TileReader(self, tile, inputs)
        if self.component.dtype.kind == "c":
            states = list(scanned[-2 * self.component.size :])
            after = Around.of(self.component, self.transposed).results
            parts = states if after is None else after.on_tile(read, states)
            for number, ref in enumerate(outputs):
                tile.store(ref, *parts[2 * number : 2 * number + 2])
            return
        states = list(scanned[-self.component.size :])
        found = recurrence.Recurrence(self.component, read, self.transposed).results(states)
        for ref, value in zip(outputs, found, strict=True):
            tile.store(ref, value)


class TileReader:
    """A component's operands, as its matrices read a tile of them."""

    def __init__(self, scan: TangentScan, tile: Tile, inputs: Sequence[Ref]):
        self.scan, self.tile, self.inputs = scan, tile, inputs
        self.count = len(scan.views)

    def at(self, number: int, step: int) -> jax.Array:
        """An operand of the elements ``step`` places further in the differentiated scan."""
        [values] = self.parts(number, step)
        return values

    def parts(self, number: int, step: int) -> list[jax.Array]:
        """The same of complex numbers, too: the real and the imaginary parts."""
        return self._load(self.inputs[number], self.scan.views[number], step)

    def _load(self, ref: Ref, view: View, step: int) -> list[jax.Array]:
        if view.shape[1] == 1:
            return elements.load_common(self.tile, ref, view)
        right = -step if self.scan.backwards else step
        return self.tile.load_parts(ref, view, right if self.tile.geometry.reverse else -right)

    def __call__(self, source: Source, step: int) -> jax.Array:
        """The operand that a matrix reads as ``source``, ``step`` places further."""
        [values] = self.parts_of(source, step)
        return values

    def parts_of(self, source: Source, step: int) -> list[jax.Array]:
        """The same of complex numbers, too."""
        back = source[0] == "before" and not self.scan.moved
        return self.parts(self.scan.component.reads.index(source), step - back)

    def start(self) -> jax.Array:
        """Which elements the differentiated scan starts at."""
        scan = self.scan
        first = self.tile.at_end(first=not scan.backwards)
        if scan.flag_view is None:
            return first
        [flags] = self._load(self.inputs[-1], scan.flag_view, -1 if scan.backwards else 0)
        return first | (flags != 0)


@dataclasses.dataclass(frozen=True)
class ByParts:
    """What is computed of complex numbers, as a function of their parts.

    Attributes:
      function: of what comes in, of what is read, and of whether the scan starts.
      reads: what the matrices read, and how many places further.
      starts: whether it is asked where the scan starts.
    """

    function: core.ClosedJaxpr
    reads: tuple[tuple[Source, int], ...]
    starts: bool

    def on_tile(self, read: TileReader, coming: Sequence[jax.Array]) -> list[jax.Array]:
        """The parts of the results of a tile, from the parts of what comes in."""
        known = [part for source, step in self.reads for part in read.parts_of(source, step)]
        shape = read.tile.geometry.shape
        start = [jnp.broadcast_to(read.start(), shape)] if self.starts else []
        pairs = zip([*coming, *known, *start], self.function.in_avals, strict=True)
        return language.mapped(self.function, [x.astype(a.dtype) for x, a in pairs])


@dataclasses.dataclass(frozen=True)
class _Known:
    """Scalars as what the matrices read."""

    values: Mapping[tuple[Source, int], jax.Array]
    first: Sequence[jax.Array]

    def __call__(self, source: Source, step: int) -> jax.Array:
        return self.values[source, step]

    def start(self) -> jax.Array:
        return self.first[0]


class Around(NamedTuple):
    """What lies around the scan of a complex component; no `results` where states are those."""

    elements: ByParts
    results: ByParts | None

    @classmethod
    def of(cls, component: Component, transposed: bool) -> Around:
        """The functions as kernels can compute them. Raises `Inexpressible`."""
        return _around(component, transposed, engines.running())


@functools.lru_cache(maxsize=1024)
def _around(component: Component, transposed: bool, engine: Engine) -> Around:
    elements = _work(component, transposed, engine, results=False)
    results = _work(component, transposed, engine, results=True) if transposed else None
    return Around(elements, results)


def _work(component: Component, transposed: bool, engine: Engine, *, results: bool) -> ByParts:
    """`Recurrence.elements`, or its ``results``."""
    # C, and where the scan starts, are asked for before it forwards, and behind it transposed.
    starts = results == transposed
    matrices = [(component.c, 0)] if starts else []
    if not results and not recurrence.is_sum(component):
        matrices.append((component.a, int(transposed)))
    dtypes = {
        (source, step): np.dtype(aval.dtype)
        for matrix, step in matrices
        for source, aval in zip(matrix.reads, matrix.jaxpr.in_avals, strict=True)
    }
    count = component.size if transposed else component.inputs

    def function(*scalars: jax.Array) -> list[jax.Array]:
        last = count + len(dtypes)
        read = _Known(dict(zip(dtypes, scalars[count:last], strict=True)), scalars[last:])
        solved = recurrence.Recurrence(component, read, transposed)
        return (solved.results if results else solved.elements)(scalars[:count])

    given = [*[component.dtype] * count, *dtypes.values(), *[np.dtype(bool)] * starts]
    with use_abstract_mesh(AbstractMesh((), ())), jax.numpy_dtype_promotion("standard"):
        traced = scalar_jaxpr(function, given)
    prepared = prepared_function(traced, "the derivative", engine)
    return ByParts(prepared, tuple(dtypes), starts)


def prepared(component: Component) -> Component:
    """The component as a kernel can compute it. Raises `Inexpressible`."""
    return _prepared(component, engines.running())


@functools.lru_cache(maxsize=1024)
def _prepared(component: Component, engine: Engine) -> Component:
    if component.size > recurrence.IN_KERNELS:
        raise Inexpressible(f"{component.size} states depend on each other")
    prepare(recurrence.operator_of(component))
    if component.dtype.kind == "c":
        if component.dtype != np.complex64:
            raise Inexpressible("kernels read the parts of complex128 from arrays of their own")
        for transposed in (False, True):
            _around(component, transposed, engine)
        return component
    a, c = (
        dataclasses.replace(matrix, jaxpr=expressible(matrix.jaxpr, engine), rules=None)
        for matrix in (component.a, component.c)
    )
    return dataclasses.replace(component, a=a, c=c)


def why_no_tangent(
    operands: Sequence[Leaf],
    *,
    component: Component,
    axis: int,
    method: str,
    tile: tuning.Tuning | None = None,
) -> str | None:
    """Why no kernel (of this method) can run this recurrence; None if one can."""
    try:
        prepared(component)
    except Inexpressible as error:
        return str(error)
    reason = launch.why_not_dtypes(operands)
    shape = tangent_shape(operands, component, axis, False, tile)
    return reason or refusals.why_not_shape(shape, method)


def tangent_shape(
    operands: Sequence[Leaf],
    component: Component,
    axis: int,
    segmented: bool,
    tile: tuning.Tuning | None,
) -> tuning.Shape:
    """What the choice of a tile depends on, for the leaves that are scanned."""
    combine = recurrence.operator_of(component)
    operator = prepare(combine)
    full = np.broadcast_shapes(*(x.shape for x in operands))
    leaves = [jax.ShapeDtypeStruct(full, dtype) for dtype in combine.dtypes]
    return tuning.Shape.of(leaves, axis, operator, segmented=segmented, tile=tile)


def tangent(
    known: Sequence[jax.Array],
    linear: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    component: Component,
    axis: int,
    reverse: bool,
    exclusive: bool,
    transposed: bool,
    dtypes: Sequence[np.dtype],
    method: str,
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
) -> list[jax.Array]:
    """Solves the recurrence; operands' dimensions are full or 1."""
    full = np.broadcast_shapes(*(x.shape for x in [*known, *linear]))
    if 0 in full:
        return [jnp.zeros(full, d) for d in dtypes]
    operator = prepare(recurrence.operator_of(component))
    flags = None if flags is None else launch.whole_bytes(flags)
    operands = [*known, *linear, *([] if flags is None else [flags])]
    shape = tangent_shape([*known, *linear], component, axis, flags is not None, tile)
    widths = {np.dtype(d).itemsize for d in dtypes}
    # What is read of a tile is another list here than folds and holds know.
    tuned = dataclasses.replace(tuning.chosen(shape, method, tuning.SCAN), fold=0)
    method = single_pass(method, shape)
    if method == "repeatable":
        tuned = tuning.in_groups(shape, tuned)
    cut = launch.Cut(
        *(operands, full, axis, tuning.beside(shape, tuned, len(operands) + len(dtypes))),
        reverse=reverse != transposed,
        widths=widths,
    )
    scan = TangentScan(
        geometry=cut.geometry,
        operator=operator,
        dtypes=tuple(np.dtype(a.dtype) for a in operator.out_avals),
        results=tuple(np.dtype(d) for d in dtypes),
        identity=None,
        used=(True,) * len(dtypes),
        linear=False,
        views=cut.views[: len(known) + len(linear)],
        flag_view=None if flags is None else cut.views[-1],
        component=prepared(component),
        backwards=reverse,
        moved=exclusive,
        transposed=transposed,
    )
    outputs = scanning.run(scan, cut, interpret, method=method)
    return [x.reshape(full) for x in outputs]
