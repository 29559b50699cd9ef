"""From arrays to a kernel: how operands are cut, and the one place where an engine is called."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence, Set
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent
from jscan.called import Leaf
from jscan.kernels import engines, shifting, sliding, tuning
from jscan.kernels.complex import read_dtypes
from jscan.kernels.language import Body, Ref
from jscan.kernels.layout import VECTOR, Geometry, View, collapse, fronted, outer_n_inner
from jscan.kernels.state import TileState

_SUPPORTED = frozenset(
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    ]
)


def why_not_dtypes(leaves: Sequence[Leaf]) -> str | None:
    """Why no kernel can read these leaves; None if one can."""
    for leaf in leaves:
        if jnp.dtype(leaf.dtype).name not in _SUPPORTED:
            return f"kernels take no {jnp.dtype(leaf.dtype).name} leaves"
    return None


class Results(Protocol):
    """A description of what a kernel writes."""

    @property
    def written(self) -> list[tuple[int, np.dtype]]:
        """The size and dtype of each array that it writes."""


class Cut:
    """The operands of a kernel, and how they are cut into tiles."""

    def __init__(
        self,
        operands: Sequence[jax.Array],
        full: Sequence[int],
        axis: int,
        tuned: tuning.Tuning,
        *,
        reverse: bool = False,
        exclusive: bool = False,
        widths: Set[int] = frozenset(),
        by_words: bool = False,
        row: int = 0,
        mirrored: bool = True,
        turned: bool = False,
        beside: bool = True,
        numbers: Sequence[int] = (),
        woven: int = 0,
        may_repeat: bool = False,
        abreast: int = 1,
        lanes_of_rows: bool = False,
    ):
        """Cuts operands that are broadcast to the shape ``full``, along ``axis``.

        ``widths`` are the item sizes of results, where those differ from the operands'. The cut is
        ``by_words`` only if it can be, and rows begin inside of words. The axis may be rows of
        ``row`` elements one behind the other. Tiles of lanes are ``mirrored`` where ``reverse``,
        and those of one if they may be ``turned``. What is ``beside`` narrow elements is taken from
        their words.
        The first operands have so many ``numbers`` an element, the others one. Tiles are ``woven``
        of so many positions a thread, and then held in scan order where ``reverse``, and cut from
        the front where they would not begin with words. Operands that repeat their lanes are read
        in place where they ``may_repeat`` them. Of lanes so many are ``abreast``, in a word. Those
        of all rows may be one row's, ``lanes_of_rows``.
        """
        self.tuned = tuned
        in_words = [abreast > 1 and x.size == math.prod(full) for x in operands]
        of_results = {abreast * width for width in widths}
        read = zip(operands, in_words, strict=True)
        widths = of_results | {x.dtype.itemsize * (abreast if word else 1) for x, word in read}
        narrow = beside and max(widths) <= shifting.WIDEST
        self.geometry = Geometry(
            *outer_n_inner(full, axis),
            *(tuned.rows, tuned.length, tuned.lanes),
            *(reverse, exclusive),
            mixed=len(widths) > 1,
            row=row,
            together=1 if tuned.lanes == 1 else tuned.together,
            mirrored=(mirrored or woven > 0) and reverse and tuned.lanes > 1 and not tuned.chunk,
            threads=32 * tuned.warps,
            narrow=narrow,
            fronted=woven > 0 and fronted(full[axis], reverse=reverse),
            woven=woven,
            shared=tuned.shared,
        )
        if abreast > 1:
            self.geometry = self.geometry.in_words(abreast)
        # A thread takes one lane, or the lanes that 4 bytes hold: no access should have fewer.
        together = max(tuned.together, 4 // max(widths))
        if self.geometry.inner % together == 0 and self.geometry.lanes % together == 0:
            self.geometry = dataclasses.replace(self.geometry, together=together)
        if self.geometry.shifts:
            apart = sliding.in_elements(self.geometry)
            assert sliding.fits(apart, {sliding.WORD // abreast}), "rows cannot be shifted"
        elif tuned.chunk or not sliding.fits(self.geometry, widths):
            self.geometry = dataclasses.replace(self.geometry, shared=0)
        else:
            per_word = max(1, sliding.WORD // max(widths))
            self.geometry = dataclasses.replace(self.geometry, together=1, per_word=per_word)
        if lanes_of_rows:
            self.geometry = self.geometry.with_lanes_of_rows()
        word = VECTOR if len(widths) > 1 else 16 // min(widths)
        if by_words:
            self.geometry = self.geometry.by_words(word, tuned.strip_or_tile)
        if turned and mirrored and reverse:
            strip = min(tuned.strip_or_tile, tuned.held or tuned.length)
            # Wide flags, or flags of wide elements, come singly, as the elements' neighbours do.
            least = min(widths if narrow else of_results)
            self.geometry = self.geometry.turned(min(word, 16 // least), strip)
        each = [*numbers, *[1] * (len(operands) - len(numbers))]
        pairs = zip(operands, each, strict=True)
        may_repeat = may_repeat and not (woven or self.geometry.far_lanes)
        viewed = (view(x, full, axis, count, may_repeat=may_repeat) for x, count in pairs)
        flat, views = zip(*viewed, strict=True)
        self.operands: list[jax.Array] = list(flat)
        seen = zip(views, in_words, strict=True)
        self.views: tuple[View, ...] = tuple(
            self.geometry.view_of_words(v) if word else v for v, word in seen
        )

    def call(
        self,
        results: Results,
        beside: Sequence[jax.Array],
        body: Body,
        state: TileState | None,
        name: str,
        interpret: bool,
        starts: Sequence[jax.Array] = (),
    ) -> list[jax.Array]:
        """Runs ``body`` in a program for each tile, and returns what it writes.

        Operands that are not cut come ``beside``; the words of ``state`` come last.
        """
        g = self.geometry

        def in_range(program: jax.Array, refs: Sequence[Ref]) -> None:
            body(lax.rem(program, np.int32(g.programs)), refs)

        # Compilers do not know how many programs there are. Told so, they know that no place
        # overflows, and masks of shifted places take a third of the instructions away.
        shifted = g.reverse or g.exclusive or g.n % g.length
        return call(
            *(
                in_range if shifted and g.tiles == g.programs else body,
                [*self.operands, *beside],
                results.written,
            ),
            programs=g.programs,
            warps=self.tuned.warps,
            name=name,
            interpret=interpret,
            starts=starts,
            words=0 if state is None else state.words,
        )


def whole_bytes(integers: jax.Array) -> jax.Array:
    """The integers in whole bytes: those of 2 and 4 bits may lie packed in memory."""
    if integers.dtype.name in _SUPPORTED:
        return integers
    has_sign = jnp.issubdtype(integers.dtype, jnp.signedinteger)
    return integers.astype(jnp.int8 if has_sign else jnp.uint8)


def signed(integers: jax.Array) -> jax.Array:
    """The same bits as integers with a sign, where 32 bits do not hold all without one."""
    if integers.dtype.name not in ("uint32", "uint64"):
        return integers
    dtype = jnp.dtype(integers.dtype.name[1:])
    return lax.bitcast_convert_type(integers, dtype)


def one_byte(flags: jax.Array) -> jax.Array:
    """The flags in one byte each; any value but zero is a flag."""
    if flags.dtype.name in ("bool", "int8", "uint8"):
        return flags
    return lax.ne(flags, lax.full_like(flags, 0))


def view(
    operand: jax.Array,
    full: Sequence[int],
    axis: int,
    numbers: int = 1,
    *,
    may_repeat: bool = False,
) -> tuple[jax.Array, View]:
    """The operand, flat, and how it lies in memory.

    It is broadcast in memory where no simple view describes it, or where it repeats its lanes and
    may not (``may_repeat``). Where an element has several ``numbers``, they are its last dimension.
    """
    shape, each = operand.shape, (numbers,) if numbers > 1 else ()
    found = collapse(shape[: len(full)], full, axis)
    # A mapped row is a tensor where a program has several, and its address must fit 32 bits.
    wide = operand.size >= 2**31 or math.prod(full[:axis]) >= extent.FAR
    if found is not None and found.lane_period is not None and not may_repeat:
        found = None
    if found is None or (wide and found.row_period not in ((1, 1), (1, math.prod(full[:axis])))):
        operand = jnp.broadcast_to(operand, (*full, *each))
        found = View(outer_n_inner(full, axis), (1, math.prod(full[:axis])))
    return operand.reshape(-1), dataclasses.replace(found, numbers=numbers)


def call(
    body: Body,
    operands: Sequence[jax.Array],
    written: Sequence[tuple[int, np.dtype]],
    *,
    programs: int,
    warps: int,
    name: str,
    interpret: bool,
    starts: Sequence[jax.Array] = (),
    words: int = 0,
    varies: Any = None,
) -> list[jax.Array]:
    """Runs ``body`` in so many programs, and returns the arrays that it writes.

    ``written`` holds their sizes and dtypes; the last ones start as ``starts``. ``body`` takes
    references to the operands, the results and, if there are any, the state ``words``, which start
    as zeros. ``varies`` is the manual axis type of the results, if not the first operand's.
    """
    # Engines are told of it, even where no mesh axis varies over the arrays: Pallas asks for it.
    varies = jax.typeof(operands[0]).mat if varies is None else varies
    starts = [*starts]
    shapes: list[tuple[tuple[int, ...], np.dtype]] = [((size,), dtype) for size, dtype in written]
    if words:
        starts.append(jnp.zeros((words, 2), jnp.int32))
        shapes.append(((words, 2), np.dtype(np.int32)))
    results = [jax.ShapeDtypeStruct(s, d, manual_axis_type=varies) for s, d in shapes]
    outputs = engines.running().run(
        *(body, operands, starts, results),
        programs=programs,
        warps=warps,
        name=name,
        interpret=interpret,
    )
    return outputs[: len(written)]


def readable(leaves: Sequence[jax.Array]) -> list[jax.Array]:
    """The leaves as kernels read them (`complex.read_dtypes`)."""
    read: list[jax.Array] = []
    for leaf in leaves:
        whole = len(read_dtypes(leaf.dtype)) == 1
        read += [leaf] if whole else [lax.real(leaf), lax.imag(leaf)]
    return read


def joined(outputs: Sequence[jax.Array], dtypes: Sequence[np.dtype]) -> list[jax.Array]:
    """The results of ``dtypes``, of which ``outputs`` may hold the parts instead."""
    rest = iter(outputs)
    found = []
    for dtype in dtypes:
        first = next(rest)
        apart = dtype.kind == "c" and first.dtype.kind != "c"
        found.append(lax.complex(first, next(rest)) if apart else first)
    return found
