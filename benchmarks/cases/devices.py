"""Scans of arrays that are sharded over the devices of one host, along the first dimension.

    rows       whole rows on each device: nothing has to move between devices
    axis       a part of the scanned axis on each device, long or short: totals move
    one axis   an axis of one length for every number of devices

Beside them stand what their bounds consist of: a copy of each part, and a gather of one number a
device. Operands are whole numbers, so that sums are exact and any order of additions is right.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax

import jscan
from benchmarks.cases import operations
from benchmarks.cases.case import Operation, call
from benchmarks.cases.inputs import Arrays, Shape, draw
from benchmarks.measuring.programs import add_one

MESH_AXIS = "devices"
ALONE, AUTO, EXPLICIT, MAPPED = "one device", "Auto", "Explicit", "shard_map"
JSCAN, JAX, CUMSUM, PAIRS = "jscan", "jax", "lax.cumsum", "lax.associative_scan"
ROUNDED = 0.02
"""What gradients may differ by from neighbour to neighbour; a missing element makes about one."""
REPEATED = 8
"""How often a program applies what takes no longer than a launch."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scan:
    """One operation on sharded arrays.

    Attributes:
      what: its name.
      shape: of a device's part, or of all parts together where ``is_divided``.
      build: makes the operands of a part from a seed and a shape.
      run: the operation, by whose it is.
      recurrence: (a, b) of results y[t] = a[t] y[t-1] + b[t], from operands, in scan order.
      moved: bytes an element that a device moves at least, alone and beside others.
      axis: the scanned one, which is sharded if it is the first.
      reverse: whether scan order is from the end.
      bound: the most that a result may be off its recurrence.
      repeated: how often one program applies the operation.
      fed: the operand that results take the place of when it is applied again.
      is_divided: whether devices share one length.
    """

    what: str
    shape: Shape
    build: Callable[[jax.Array, Shape], Arrays]
    run: Mapping[str, Operation]
    recurrence: Callable[..., tuple[jax.Array, jax.Array]]
    moved: tuple[int, int]
    axis: int = 0
    reverse: bool = False
    bound: float = 0.0
    repeated: int = 1
    fed: int = 0
    is_divided: bool = False

    def part(self, count: int) -> Shape:
        """The shape of the part of one of so many devices."""
        first, *rest = self.shape
        return (first // count if self.is_divided else first, *rest)


@dataclasses.dataclass(frozen=True)
class Case:
    """A scan by somebody's operation, in a layout on so many devices."""

    scan: Scan
    who: str
    way: str
    count: int

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return f"{self.scan.what}, {self.who}, {self.way}, {self.count}"

    @property
    def bytes(self) -> int:
        """What a device moves at least."""
        return self.scan.moved[self.count > 1] * math.prod(self.scan.part(self.count))

    @property
    def applied(self) -> int:
        """How often one program applies the operation; once where it has many launches itself."""
        return 1 if self.who == PAIRS else self.scan.repeated

    @property
    def exchanges(self) -> bool:
        """Whether devices have to tell each other anything."""
        return self.count > 1 and self.scan.axis == 0 and self.scan.what != "copy"

    def program(self) -> Operation:
        """The operation as often as one program applies it; only the first results are checked.

        Each result is an operand of the next, so that nothing is done once for all.
        """
        run, fed = self.scan.run[self.who], self.scan.fed

        def applied(*operands: jax.Array) -> list[jax.Array]:
            results = [run(*operands)]
            for _ in range(self.applied - 1):
                again = results[-1][: operands[fed].shape[0]]
                results.append(run(*operands[:fed], again, *operands[fed + 1 :]))
            return results

        return applied


def _numbers(seed: jax.Array, shape: Shape) -> Arrays:
    return ((draw(seed, shape, 3) - 1).astype(jnp.float32),)


def _flagged(seed: jax.Array, shape: Shape) -> Arrays:
    heads = draw(seed + 100, shape, 100) == 0
    return (*_numbers(seed, shape), heads.astype(jnp.uint8))


def _reflections(seed: jax.Array, shape: Shape) -> Arrays:
    signs = 1 - 2 * draw(seed + 100, shape, 2).astype(jnp.float32)
    return (signs, *_numbers(seed, shape))


def _ones(seed: jax.Array, shape: Shape) -> Arrays:
    del seed
    return (jnp.ones(shape, jnp.float32),)


def _sums(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.ones((), x.dtype), x


def _segmented_sums(x: jax.Array, heads: jax.Array) -> tuple[jax.Array, jax.Array]:
    return (heads == 0).astype(x.dtype), x


def _as_is(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    return a, b


def _slopes(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.ones((), x.dtype), jnp.cos(lax.cumsum(x, 1))


def _total(x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.sin(jscan.cumsum(x, -1)))


def _gathered(x: jax.Array) -> jax.Array:
    return lax.all_gather(x, MESH_AXIS, tiled=True)


GATHER = Scan(
    "gather", (1,), _ones, {JAX: _gathered}, lambda x: (0 * x, x), (0, 0), repeated=REPEATED
)


def scans_of_rows(shape: Shape) -> list[Scan]:
    """Scans of rows; the derivative reads and writes twice, for its sums and for its own scan."""
    sums = {JSCAN: call(jscan.cumsum, axis=1), CUMSUM: call(lax.cumsum, axis=1)}
    segmented = {JSCAN: call(operations.segmented_sum, axis=1)}
    gradient, of_each = jax.grad(_total), jax.vmap(jax.grad(_total))
    back = functools.partial(Scan, moved=(16, 16), axis=1, reverse=True, bound=ROUNDED)
    return [
        Scan("rows, cumsum", shape, _numbers, sums, _sums, (8, 8), 1),
        Scan("rows, segmented cumsum", shape, _flagged, segmented, _segmented_sums, (9, 9), 1),
        back("rows, gradient", shape, _numbers, {JSCAN: gradient}, _slopes),
        back("rows, vmap of gradient", shape, _numbers, {JSCAN: of_each}, _slopes),
    ]


def scans_of_an_axis(name: str, n: int, repeated: int = 1) -> list[Scan]:
    """Scans whose axis goes on across devices; without segments their operands are read twice."""
    make = functools.partial(Scan, repeated=repeated)
    sums: dict[str, Operation] = {
        JSCAN: jscan.cumsum,
        CUMSUM: lax.cumsum,
        PAIRS: call(operations.lax_scan, lax.add),
    }
    affine: dict[str, Operation] = {
        JSCAN: jscan.linear_recurrence,
        PAIRS: operations.lax_recurrence,
    }
    segmented: dict[str, Operation] = {JSCAN: operations.segmented_sum}
    return [
        make(f"{name}, cumsum", (n,), _numbers, sums, _sums, (8, 12)),
        make(f"{name}, segmented cumsum", (n,), _flagged, segmented, _segmented_sums, (9, 9)),
        make(f"{name}, linear_recurrence", (n,), _reflections, affine, _as_is, (12, 20), fed=1),
    ]


def cases(counts: Sequence[int], shrink: int, exponent: int = 28) -> list[Case]:
    """All cases, what matters most first; ``exponent`` is that of a long part."""
    n = 2 ** max(exponent - shrink, 4)
    rows = scans_of_rows((max(2, 4096 >> shrink), max(16, 65536 >> shrink)))
    long = scans_of_an_axis("axis", n)
    short = scans_of_an_axis("short axis", max(16, 2**20 >> shrink), REPEATED)
    one = dataclasses.replace(long[0], what="one axis, cumsum", is_divided=True)
    copy = Scan("copy", (n,), _numbers, {JAX: add_one}, lambda x: (0 * x, x + 1), (8, 8))
    several = [count for count in counts if count > 1]

    def of(scans: Sequence[Scan], who: str, *ways: str) -> Iterator[Case]:
        for scan in scans:
            if who in scan.run:
                if AUTO in ways:
                    yield Case(scan, who, ALONE, 1)
                yield from (Case(scan, who, way, count) for count in several for way in ways)

    return [
        *of([copy], JAX, AUTO),
        *of([GATHER], JAX, MAPPED),
        *of([*rows, *long, one], JSCAN, AUTO),
        *of(short, JSCAN, AUTO, EXPLICIT),
        *of([*rows, *long, one], JSCAN, EXPLICIT),
        *of(rows, JSCAN, MAPPED),
        *of([*rows, *short, *long], CUMSUM, AUTO),
        *of([*short, *long], PAIRS, AUTO),
    ]
