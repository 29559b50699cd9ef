"""Shapes by chance: how many elements, in what extents, and the axis that a call runs along.

Two thirds and more of the draws have 2^22 to 2^27 elements, where a share of copy speed says what a
kernel does; the others have down to 2^10 and up to 2^28.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence

VOCABULARIES = (28996, 30522, 32000, 32003, 49152, 50257, 50265, 51200, 100277, 128256, 151936)
"""The extents of logits: sizes of vocabularies of language models, few of them round."""
ROUND = (1000, 10**5, 10**6, 10**7, 5 * 10**7)


@dataclasses.dataclass(frozen=True)
class Shape:
    """The extents of an array, the axis that is worked along, and how they were chosen."""

    kind: str
    extents: tuple[int, ...]
    axis: int

    @property
    def length(self) -> int:
        """The extent of the axis."""
        return self.extents[self.axis]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.extents)


def elements(rng: random.Random, largest: int) -> int:
    """How many elements to aim at, ``largest`` at most."""
    top = math.log2(largest)
    low, high = rng.choices([(22.0, 27.0), (10.0, 22.0), (27.0, 28.0)], [75, 17, 8])[0]
    if low >= top:
        low, high = min(10.0, top), top
    exponent = rng.uniform(low, min(high, top))
    return 2 ** round(exponent) if rng.random() < 0.5 else int(2**exponent)


def drawn(rng: random.Random, size: int, kinds: Sequence[str] = ()) -> Shape:
    """A shape of about ``size`` elements, of one of these kinds, or of any."""
    allowed = {kind: KINDS[kind] for kind in kinds or KINDS}
    (kind,) = rng.choices(list(allowed), [weight for weight, _ in allowed.values()])
    extents, axis = allowed[kind][1](rng, size)
    if extents[axis] <= 1:  # where nothing is to be scanned, no kernel runs
        axis = extents.index(max(extents))
    return Shape(kind, tuple(max(extent, 1) for extent in extents), axis)


Extents = tuple[tuple[int, ...], int]


def _row(rng: random.Random, size: int) -> Extents:
    odd = max(size - rng.choice([0, 1, 3, 77, 1023]), 2)
    fitting = [extent for extent in ROUND if size / 4 < extent <= size] or [size]
    return (rng.choice([size, size, odd, prime(size), rng.choice(fitting)]),), 0


def _vocabulary(rng: random.Random, size: int) -> Extents:
    extent = rng.choice(VOCABULARIES)
    while extent * 2 > size and extent > 64:
        extent //= 8
    other = max(size // extent, 1)
    if rng.random() < 0.5:
        other = 1 << (other.bit_length() - 1)
    rows = rng.random() < 0.7
    extents = (other, extent) if rows else (extent, other)
    along = rng.random() < 0.75
    return extents, int(rows == along)


def _primes(rng: random.Random, size: int) -> Extents:
    first = prime(_between(rng, 5, math.sqrt(size) * 8))
    extents = [first, prime(size // first)]
    rng.shuffle(extents)
    return tuple(extents), rng.randrange(2)


def _sequences(rng: random.Random, size: int) -> Extents:
    """Batch, time, channels: all of them powers of two, or nearly."""
    time = 1 << rng.randrange(7, 16)
    batch = 1 << rng.randrange(0, 7)
    while time * batch > size:
        time, batch = max(time // 2, 1), max(batch // 2, 1)
    channels = max(size // (time * batch), 1)
    if rng.random() < 0.4:
        channels = 1 << (channels.bit_length() - 1)
    return (batch, time, channels), rng.choices([1, 2, 0], [6, 3, 1])[0]


def _few_lanes(rng: random.Random, size: int) -> Extents:
    lanes = rng.randint(1, 16)
    return (size // lanes, lanes), 0


def _short_rows(rng: random.Random, size: int) -> Extents:
    extent = _between(rng, 2, 1000)
    return (size // extent, extent), 1


def _long_rows(rng: random.Random, size: int) -> Extents:
    rows = rng.randint(2, 40)
    return (rows, size // rows), 1


def _short_columns(rng: random.Random, size: int) -> Extents:
    extent = _between(rng, 2, 200)
    return (extent, size // extent), 0


def _three(rng: random.Random, size: int) -> Extents:
    return _any_extents(rng, size, 3)


def _four(rng: random.Random, size: int) -> Extents:
    return _any_extents(rng, size, 4)


def _any_extents(rng: random.Random, size: int, rank: int) -> Extents:
    """Extents of all orders of magnitude, some of them primes or powers of two."""
    extents: list[int] = []
    for _ in range(rank - 1):
        extent = _between(rng, 1, size // math.prod(extents))
        kind = rng.random()
        if kind < 0.3:
            extent = prime(extent)
        elif kind < 0.6:
            extent = 1 << (extent.bit_length() - 1)
        extents.append(extent)
    extents.append(size // math.prod(extents))
    rng.shuffle(extents)
    return tuple(extents), rng.randrange(rank)


KINDS: Mapping[str, tuple[int, Callable[[random.Random, int], Extents]]] = {
    "one row": (26, _row),
    "vocabulary": (16, _vocabulary),
    "primes": (12, _primes),
    "batch, time, channels": (12, _sequences),
    "few lanes": (7, _few_lanes),
    "short rows": (7, _short_rows),
    "long rows": (5, _long_rows),
    "short columns": (5, _short_columns),
    "any three": (6, _three),
    "any four": (4, _four),
}
"""How often a kind is drawn, and what draws its extents and the axis."""


def _between(rng: random.Random, low: float, high: float) -> int:
    """A number whose logarithm is as likely anywhere."""
    return int(math.exp(rng.uniform(math.log(low), math.log(max(high, low)))))


def prime(n: int) -> int:
    """The greatest prime up to ``n``, or ``n`` where there is none."""
    return next((p for p in range(n, 2, -1) if _is_prime(p)), n)


def _is_prime(n: int) -> bool:
    return n % 2 == 1 and all(n % d for d in range(3, math.isqrt(n) + 1, 2))
