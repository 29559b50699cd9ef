"""What a choice depends on, what is chosen, and the rules that lead from one to the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jax import lax
from jax.extend import core

from jscan.called import Leaf
from jscan.kernels.complex import real_dtypes
from jscan.kernels.language import fma_p, nan_max_p, nan_min_p
from jscan.kernels.layout import outer_n_inner

HEAVY = 40
"""Operators of more equations than this take half the tile: a tile's program is unrolled, and would
outgrow the instruction cache."""


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The cut of a scan: rows, positions and lanes of a tile, warps a program, tiles a window.

    Reductions, and scans in two passes, read a tile in strips of so many positions; 0 stands for
    the whole tile. A thread takes so many neighbouring lanes ``together``, or positions of a chunk
    that it walks. A tile that is ``held`` as it was read is scanned in strips of so many positions;
    0 for one that is not. One that is cut into chunks has so many positions in each
    (`kernels.chunks`, `kernels.walking`). Of one that is ``woven`` a thread has all lanes of so
    many, and strips are read twice (`kernels.weaving`). Of a row so many neighbours are folded to
    two (`kernels.folding`); 0 where they are scanned as they are. Strips of scans in two
    passes may be read ``ahead``. Tiles of lanes may have so many of them ``shared`` with the next
    one (`kernels.sliding`). Where narrow lanes are ``abreast``, a lane is a word of several
    (`kernels.abreast`).
    """

    length: int
    lanes: int
    warps: int
    window: int
    rows: int = 1
    strip: int = 0
    together: int = 1
    held: int = 0
    chunk: int = 0
    woven: int = 0
    fold: int = 0
    ahead: bool = False
    shared: int = 0
    abreast: bool = False

    @property
    def strip_or_tile(self) -> int:
        """The positions that are read at once."""
        return min(self.strip or self.length, self.length)


LIGHT = 4
"""Operators of more equations are not held: an element is combined once more than otherwise."""

LONG_STEPS = frozenset(("exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "pow"))
"""Functions of many instructions, most of all of float64."""

ROOTS = frozenset(("sqrt", "rsqrt", "cbrt"))
"""Functions of some instructions, and of many of float64."""

THREADS = 32
"""The threads of a warp."""

STRIP = 16
"""Positions of a strip of lanes that a tile is held, or read twice, by."""

SECTOR = 32
"""Bytes of memory that are written at once."""

LONG = 2**14
"""Positions of an axis along which tiles wait for each other, rather than for memory."""

WIDE = 12
"""Elements of more words than this are cut by their bytes."""

LARGE = 24
"""Elements of more words than this, by an operator that does more than to combine them one by one,
are held one a thread, and scanned in two passes."""

WALKED = 48
"""Of so many words and more a thread walks a chunk by itself (`kernels.walking`)."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a choice depends on: (outer, n, inner), and the operands of one element."""

    outer: int
    n: int
    inner: int
    width: int  # bytes of one element, over all leaves, in memory
    leaves: int
    segmented: bool
    equations: int  # of the operator: what one combination costs
    integers: bool = False  # whether all leaves are
    widened_sums: bool = False  # whether elements are added in a wider type than they are stored in
    complex: bool = False  # whether a leaf is of complex numbers, which are two real leaves
    wide_extrema: bool = False  # whether it is the greatest or least of float64: ten instructions
    extrema: bool = False  # whether it is the greatest or least
    widened: bool = False  # whether elements are combined in a wider type than they are stored in
    selects: bool = False  # whether the operator selects what it takes from either side
    long_steps: bool = False  # whether the operator has exponentials or logarithms
    roots: bool = False  # whether the operator takes roots
    logaddexp: bool = False  # whether elements are summed as exponentials
    few_results: bool = False  # whether half of the leaves at most are results
    exclusive: bool = False
    even: bool = True  # whether all leaves are as wide
    narrowest: int = 0  # bytes of the narrowest, where they are not
    wider_results: bool = False  # whether results are wider than what is scanned
    own_flags: bool = False  # whether each lane has flags of its own, rather than those of all
    tile: Tuning | None = None  # the cut to take instead of a chosen one

    @classmethod
    def of(
        cls,
        leaves: Sequence[Leaf],
        axis: int,
        operator: core.ClosedJaxpr,
        *,
        segmented: bool,
        tile: Tuning | None,
        full: Sequence[int] | None = None,
    ) -> Shape:
        """What the choice depends on where ``operator`` combines these leaves along ``axis``.

        ``full`` is their shape and that of what lies beside them; theirs if that is left out.
        """
        full = full or np.broadcast_shapes(*(leaf.shape for leaf in leaves))
        stored = real_dtypes(leaves[0].dtype)[0]
        widened = operator.out_avals[0].dtype.itemsize > stored.itemsize
        widths = {leaf.dtype.itemsize for leaf in leaves}
        return cls(
            *outer_n_inner(full, axis),
            width=sum(leaf.dtype.itemsize for leaf in leaves),
            leaves=sum(len(real_dtypes(leaf.dtype)) for leaf in leaves),
            segmented=segmented,
            equations=sum(2 if e.primitive is fma_p else 1 for e in operator.jaxpr.eqns),
            integers=all(leaf.dtype.kind in "iub" for leaf in leaves),
            widened_sums=widened and [e.primitive.name for e in operator.jaxpr.eqns] == ["add"],
            widened=widened,
            complex=any(leaf.dtype.kind == "c" for leaf in leaves),
            wide_extrema=[e.primitive for e in operator.jaxpr.eqns] in ([nan_max_p], [nan_min_p])
            and leaves[0].dtype == np.float64,
            extrema=len(operator.jaxpr.eqns) == 1
            and operator.jaxpr.eqns[0].primitive in (lax.max_p, lax.min_p, nan_max_p, nan_min_p),
            selects=any(e.primitive is lax.select_n_p for e in operator.jaxpr.eqns),
            long_steps=any(e.primitive.name in LONG_STEPS for e in operator.jaxpr.eqns),
            roots=any(e.primitive.name in ROOTS for e in operator.jaxpr.eqns),
            even=len(widths) == 1,
            narrowest=min(widths) if len(widths) > 1 else 0,
            tile=tile,
        )

    def abreast(self, count: int) -> Shape:
        """The same with so many lanes in a word, which is combined like a number."""
        inner, width = -(-self.inner // count), 4 * self.leaves
        return dataclasses.replace(
            self, inner=inner, width=width, widened=False, widened_sums=False
        )

    def of_all_rows(self) -> Shape:
        """The same as one row, whose lanes are those of all rows."""
        return dataclasses.replace(self, outer=1, inner=self.outer * self.inner)

    @property
    def words(self) -> int:
        """The 32-bit words that an element takes, rounded up to a power of two."""
        return next_power_of_2(max(self.width, 4)) // 4

    @property
    def registers(self) -> int:
        """The registers that an element takes while it is combined: narrow ones take one each."""
        return max(self.words, next_power_of_2(self.leaves))

    @property
    def each(self) -> int:
        """The bytes of a leaf's element in memory; of complex64, of both its parts.

        complex128 is read as two arrays of float64.
        """
        return min(8, self.width // (self.leaves // 2 if self.complex else self.leaves))

    @property
    def large(self) -> bool:
        """Whether a thread holds one element at a time."""
        return self._mixed and self._combined > LARGE

    @property
    def words_and_byte(self) -> bool:
        """Whether there are three leaves, of two words and a byte."""
        return (self.leaves, self.width, self.complex) == (3, 9, False) and not self.even

    @property
    def walked(self) -> bool:
        """Whether a thread had better walk a chunk, where there are enough elements.

        It carries only what results depend on: of recurrences of matrices the states.
        """
        least = WIDE if self.few_results else WALKED - 1
        fits = self.n >= 4 * THREADS and not self.exclusive
        return fits and self._mixed and self._combined > least

    @property
    def together(self) -> int:
        """How many elements a thread that walks takes at once."""
        return 2 if self._combined <= LARGE else 1

    @property
    def _combined(self) -> int:
        """The words of an element while it is combined."""
        return max(self.leaves, -(-self.width // 4))

    @property
    def _mixed(self) -> bool:
        return self.equations > 2 * self.leaves and self.inner == 1

    @property
    def uneven(self) -> bool:
        """Whether rows begin inside of 16 bytes, those of all leaves together."""
        return self.n % (16 // min(self.width, 16)) != 0


@dataclasses.dataclass(frozen=True)
class Rule:
    """The length and warps of a tile, for the shapes that meet all conditions."""

    length: int
    warps: int = 1
    elements: int | None = None  # at most so many along all rows
    widths: tuple[int, int] | None = None  # from so many bytes an element to so many
    operands: tuple[tuple[int, int], ...] = ()  # one of these pairs of bytes and leaves an element
    segmented: bool | None = None
    integers: bool | None = None
    widened_sums: bool | None = None
    wide_extrema: bool | None = None
    extrema: bool | None = None

    def holds(self, shape: Shape) -> bool:
        """Whether the shape meets the conditions."""
        return (
            (self.elements is None or shape.outer * shape.n <= self.elements)
            and (self.widths is None or self.widths[0] <= shape.width <= self.widths[1])
            and (not self.operands or (shape.width, shape.leaves) in self.operands)
            and (self.segmented is None or shape.segmented == self.segmented)
            and (self.integers is None or shape.integers == self.integers)
            and (self.widened_sums is None or shape.widened_sums == self.widened_sums)
            and (self.wide_extrema is None or shape.wide_extrema == self.wide_extrema)
            and (self.extrema is None or shape.extrema == self.extrema)
        )


def first_match(rules: Sequence[Rule], shape: Shape) -> Rule | None:
    """The first rule that holds."""
    return next((rule for rule in rules if rule.holds(shape)), None)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()
