"""The layout of arrays and tiles: how an operand lies in memory, and how a scan is cut.

Every operand is seen as (outer, n, inner), the scanned axis in the middle. A `View` says where the
elements of one operand lie; a dimension of size 1 is broadcast, and read in place. A `Geometry` is
the cut of the whole into tiles of (rows, length, lanes).

Memory is read and written in words of 16 bytes. Where rows begin inside of words, tiles are cut
along the words all the same, so that the first tile of a row has places in front of the row:

    words    │ a b c d │ e f g h │ i j k l │ m n o p │ q r s t │
    rows       └──── row 0 ────┘ └──── row 1 ────┘ └─ ...
    tiles    [                   ]    [                   ]
                                 [                   ]
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import extent

VECTOR = 8
"""The most elements that a thread takes from memory at once, where operands differ in width. A tile
has one register layout, which its widest access decides: 16 one-byte elements a thread would spread
the same thread's words over 64 bytes. Segmented sum, 2^27, uint8 flags: 0.97 of copy speed with 8,
0.86 with 16, 0.73 with 4 (H200, 2026-11-20)."""


WORD = 16
"""A tile whose first position is a multiple of this begins with a word of memory, at any dtype: so
many bytes are one."""


def fronted(n: int, *, reverse: bool) -> bool:
    """Whether tiles have to be cut from the front of a reversed axis to begin with words."""
    return reverse and n % WORD != 0


def outer_n_inner(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """The shape with the dimensions before ``axis`` as one, and those behind it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


Period = tuple[int, int]
"""(repeat, count): row or lane i of an array is (i // repeat) % count of the operand's."""


@dataclasses.dataclass(frozen=True)
class View:
    """The place of each (row, position, lane) in an operand's memory."""

    shape: tuple[int, int, int]  # the operand's own (outer, n, inner), 1 where it is broadcast
    row_period: Period
    numbers: int = 1  # of each element, side by side: see `jscan.kernels.elements`
    behind: int = 0  # how many places earlier in the scan elements of several numbers are read
    once: bool = False  # whether it is read once, and leaves the cache before others
    lane_period: Period | None = None  # where some of its lanes are repeated, but not one for all

    def follows(self, g: Geometry) -> bool:
        """Whether the operand has the rows of the array that is scanned, one behind the other."""
        return self.shape == (g.outer, g.n, g.inner) and self.row_period == (1, g.outer)

    @property
    def strides(self) -> tuple[int, int, int]:
        """The steps from one row, position and lane to the next, in numbers.

        Where an operand has one element for all positions, or all lanes, there is no step.
        """
        (_, n, inner), each = self.shape, self.numbers
        return (n * inner * each, 0 if n == 1 else inner * each, 0 if inner == 1 else each)


def collapse(shape: Sequence[int], full: Sequence[int], axis: int) -> View | None:
    """The view of an operand of ``shape`` inside ``full``; its dimensions are full or 1.

    None where its broadcast dimensions do not collapse to one period of rows, and one of lanes.
    Such an operand has to be materialised.
    """
    rows = _period(shape[:axis], full[:axis])
    lanes = _period(shape[axis + 1 :], full[axis + 1 :])
    if rows is None or lanes is None:
        return None
    repeats = lanes[1] not in (1, math.prod(full[axis + 1 :]))
    period = lanes if repeats else None
    return View((rows[1], shape[axis], lanes[1]), rows, lane_period=period)


def _period(shape: Sequence[int], full: Sequence[int]) -> Period | None:
    """How often each of an operand's elements is repeated, and how many it has.

    None where there is no such number: repeated dimensions lie between others.
    """
    own = [(s, f) for s, f in zip(shape, full, strict=True) if f > 1]
    kept = [i for i, (s, _) in enumerate(own) if s > 1]
    if not kept:
        return 1, 1
    first, last = kept[0], kept[-1]
    if kept != list(range(first, last + 1)):
        return None
    repeat = math.prod(f for _, f in own[last + 1 :])
    return repeat, math.prod(f for _, f in own[first : last + 1])


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The cut of (outer, n, inner) into tiles of (rows, length, lanes)."""

    outer: int
    n: int
    inner: int
    rows: int
    length: int
    lanes: int
    reverse: bool
    exclusive: bool
    mixed: bool = False  # whether operands differ in bytes an element
    word: int = 1  # elements of memory's words along which tiles are cut; 1 where rows are
    together: int = 1  # neighbouring lanes that a thread takes at once
    mirrored: bool = False  # whether a tile of a reversed scan is held in scan order
    row: int = 0  # elements of each row, where the axis is rows one behind the other; else 0
    threads: int = 32  # of a program
    narrow: bool = False  # whether operands and results have few bytes each (`shifting.WIDEST`)
    at_once: int = 1  # neighbours that an access takes, where a tile of one lane is mirrored
    fronted: bool = False  # whether tiles are cut from the front though the axis is one row
    woven: int = 0  # positions of which a thread has all lanes (`jscan.kernels.weaving`)
    shared: int = 0  # lanes that a tile has in common with the next one (`jscan.kernels.sliding`)
    per_word: int = 1  # elements of a word by which tiles that share lanes are read and written
    abreast: int = 1  # lanes of the array in one of the tile, which is a word of so many numbers
    narrow_lanes: int = 0  # lanes of the array, where several are abreast (`jscan.kernels.abreast`)
    of_row: int = 0  # lanes of each row, where lanes are those of all rows; else 0
    row_by_row: bool = False  # whether programs of a row's tiles are neighbours

    @property
    def elements(self) -> int:
        """The number of elements of the array."""
        return self.outer * self.n * (self.narrow_lanes or self.inner)

    @property
    def whole(self) -> View:
        """The view of an array that is no broadcast."""
        inner = self.of_row or self.inner
        outer = self.outer * self.inner // inner
        return View((outer, self.n, inner), (1, outer))

    @property
    def tiles(self) -> int:
        """The number of tiles along the axis, which may begin anywhere in its first word."""
        return -(-(self.n + self.word - 1) // self.length)

    def by_words(self, word: int, strip: int) -> Geometry:
        """The same, cut along words of so many elements where rows begin inside of them.

        Places are read ``strip`` by ``strip``.
        """
        rows_fit = self.rows == 1 or self.outer * self.n < extent.FAR
        counted = max(self.outer * word, self.n + 2 * self.length) < extent.FAR
        longer = dataclasses.replace(self, word=word)
        # A row that fits a tile still has to, and a word's elements to be one strip's.
        whole = self.length % word == 0 and strip % word == 0
        fits = whole and (self.tiles > 1 or longer.tiles == 1)
        # Of rows shorter than a word several would lie in the array's last one.
        suits = self.inner == 1 and self.n % word != 0 and self.n >= word
        return longer if suits and fits and rows_fit and counted else self

    def turned(self, count: int, strip: int) -> Geometry:
        """The same, held in scan order where it is reversed, if it is a tile of one lane.

        Where tiles begin with words, ``count`` elements are accessed at once, and elsewhere those
        that have a common address: as many as a thread has of neighbours, since a word that several
        threads had would be turned through shared memory.
        """
        if self.inner > 1 or self.lanes > 1 or self.far or not self.reverse:
            return self
        begins = self.from_front or self.word > 1
        at_once = math.gcd(count if begins else math.gcd(count, self.n), strip)
        if self.rows == 1:
            # A tile of one word has no dimension left once it is taken apart.
            at_once = math.gcd(at_once, max(min(self.length, strip) // 2, 1))
        return dataclasses.replace(self, mirrored=True, at_once=at_once)

    def with_lanes_of_rows(self) -> Geometry:
        """The same, one row of all rows' lanes."""
        lanes = self.outer * self.inner
        assert self.rows == self.word == self.abreast == 1, "a tile is of lanes"
        assert self.shared == self.woven == self.row == 0, "lanes are apart"
        return dataclasses.replace(self, outer=1, inner=lanes, of_row=self.inner, together=1)

    def in_words(self, abreast: int) -> Geometry:
        """The same with so many lanes of the array in each of its own."""
        words = -(-self.inner // abreast)
        return dataclasses.replace(self, inner=words, narrow_lanes=self.inner, abreast=abreast)

    def view_of_words(self, view: View) -> View:
        """The view of an operand of which a lane is a word."""
        return dataclasses.replace(view, shape=(*view.shape[:2], self.inner))

    @property
    def leads(self) -> bool:
        """Whether tiles may have places in front of a row."""
        if self.from_front:
            return self.reverse and self.n % self.length != 0
        return self.word > 1 and (self.outer > 1 or self.reverse)

    @property
    def from_front(self) -> bool:
        """Whether tiles are cut from the axis's first element in memory, in either direction."""
        return self.row > 0 or self.fronted

    @property
    def row_blocks(self) -> int:
        """The number of tiles across the rows."""
        return -(-self.outer // self.rows)

    @property
    def lane_blocks(self) -> int:
        """The number of tiles across the lanes.

        Of those that share lanes the last one has no word for the last few.
        """
        if self.shared:
            lanes, spare = (self.narrow_lanes, self.abreast) if self.shifts else (self.inner, 1)
            left = lanes - self.shared * spare + 4
            return max(1, -(-left // (self.lane_step * spare)))
        return -(-self.inner // self.lanes)

    @property
    def shifts(self) -> bool:
        """Whether lanes are words of the array, whose rows begin inside of them."""
        return self.abreast > 1 and self.narrow_lanes % self.abreast > 0

    @property
    def lane_step(self) -> int:
        """The lanes from where a tile begins to where the next one does."""
        return self.lanes - self.shared

    def lanes_left(self, block: jax.Array) -> jax.Array:
        """The lanes from the first one of a tile on, or as many as it has; none where negative."""
        if self.shared:
            return np.int32(self.inner) - block * np.int32(self.lane_step)
        return size_of(block, self.inner, self.lanes)

    @property
    def lanes_end(self) -> bool:
        """Whether the last tile has lanes that do not exist."""
        return self.inner != self.lanes + (self.lane_blocks - 1) * self.lane_step

    def offset(self, place: jax.Array, *, accessed: bool) -> jax.Array:
        """The place in memory of each place of a tile as it is held, or as it is ``accessed``.

        A mirrored tile of one lane is accessed word by word from its end on, and each word in the
        order of memory.
        """
        if not self.mirrored:
            return place
        if not accessed:
            return np.int32(self.length - 1) - place
        count = np.int32(self.at_once)
        return self.words_before(place, self.at_once) * count + lax.rem(place, count)

    def words_before(self, place: jax.Array, count: int) -> jax.Array:
        """How many words of ``count`` elements lie before each place as it is accessed."""
        number = lax.div(place, np.int32(count))
        return np.int32(self.length // count - 1) - number if self.mirrored else number

    @property
    def turns(self) -> bool:
        """Whether what is accessed is turned, word by word, to be held in scan order."""
        return self.mirrored and self.at_once > 1

    @property
    def backwards(self) -> bool:
        """Whether the last element of a tile, as it is held, comes first in the scan."""
        return self.reverse and not self.mirrored

    @property
    def programs(self) -> int:
        """The number of tiles in all, each of them a program's."""
        return self.tiles * self.row_blocks * self.lane_blocks

    def place(self, program: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The place of a program's tile across the lanes, across the rows, and along the axis.

        Tiles along the axis are numbered slowest, so that a tile's predecessors in its row have
        lower program numbers and, where there are many rows, ran long before; or rows are.
        """
        lane_block = lax.rem(program, np.int32(self.lane_blocks))
        rest = lax.div(program, np.int32(self.lane_blocks))
        fast = np.int32(self.tiles if self.row_by_row else self.row_blocks)
        first, second = lax.rem(rest, fast), lax.div(rest, fast)
        return (lane_block, second, first) if self.row_by_row else (lane_block, first, second)

    @property
    def shape(self) -> tuple[int, ...]:
        """The register tile's shape. A tile of one row has no dimension of rows; likewise lanes."""
        rows = (self.rows,) if self.rows > 1 else ()
        return (*rows, self.length, *self.per_lane)

    @property
    def per_lane(self) -> tuple[int, ...]:
        """The shape of one position in a tile of one row: one value for each lane, or a scalar."""
        return (self.lanes,) if self.lanes > 1 else ()

    @property
    def edge(self) -> tuple[int, ...]:
        """The shape of one position: one value for each row and lane, or a scalar."""
        return (*((self.rows,) if self.rows > 1 else ()), *self.per_lane)

    @property
    def axis(self) -> int:
        """The register tile's scanned dimension."""
        return 1 if self.rows > 1 else 0

    @property
    def far(self) -> bool:
        """Whether positions along the axis do not fit 32 bits."""
        return self.n >= extent.FAR

    @property
    def far_lanes(self) -> bool:
        """Whether lanes do not fit 32 bits."""
        return self.inner >= extent.FAR

    @property
    def shift(self) -> int:
        """How many positions to the left a scan reads, in scan order: one where it is exclusive."""
        return 1 if self.exclusive else 0


def size_of(block: jax.Array, total: int, size: int) -> jax.Array:
    """The number of elements in a block of ``size`` out of ``total``: the last may have fewer."""
    blocks = -(-total // size)
    last = block == np.int32(blocks - 1)
    return jnp.where(last, np.int32(total - (blocks - 1) * size), np.int32(size))
