"""Checks of what moves, counts and describes elements, rather than combine them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import jscan
from jscan.report import loops
from jscan.report.check import Check
from jscan.report.inputs import LONG, SHORT, heads, small
from jscan.report.loops import Array


def _marks(n: int) -> Array:
    return np.random.default_rng(8).random(n) < 0.3


def _parts(flags: Array) -> list[Array]:
    """The places of each segment's elements."""
    return np.split(np.arange(len(flags)), np.flatnonzero(flags[1:]) + 1)


def _positions(mask: Array, flags: Array) -> Array:
    counted = loops.scan(lambda a, b: (a[0] + b[0],), [mask.astype(int)], flags, identity=(0,))
    return counted[0].astype(np.int32)


def _split(x: Array, mask: Array) -> Array:
    return np.concatenate([x[~mask], x[mask]])


def _split_parts(x: Array, mask: Array, flags: Array) -> tuple[Array, Array]:
    parts = [(x[part], mask[part]) for part in _parts(flags)]
    sizes = [size for _, m in parts for size in (int(np.sum(~m)), int(np.sum(m))) if size]
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    return np.concatenate([_split(*part) for part in parts]), numbers.astype(np.int32)


def _split_and_segment(x: Any, mask: Any, flags: Any) -> tuple[Any, Any]:
    y, segments = jscan.split_and_segment(x, mask, flags)
    return y, segments.ids


def vectors() -> Iterator[Check]:
    """The vector primitives."""
    x, mask, flags = small(np.int32, LONG), _marks(LONG), heads(LONG)
    yield Check(
        "enumerate",
        "by segments",
        (mask, flags),
        lambda m, f: jscan.enumerate(m, segments=f),
        _positions,
    )
    yield Check(
        "distribute",
        "int32",
        (x, flags),
        lambda x, f: jscan.distribute(x, segments=f),
        lambda x, f: np.concatenate([np.repeat(x[p[:1]], len(p)) for p in _parts(f)]),
    )
    yield Check(
        "pack",
        "int32, of static size",
        (x, mask),
        partial(jscan.pack, size=LONG, fill_value=-9),
        lambda x, m: np.append(x[m], np.full(np.sum(~m), -9, x.dtype)),
    )
    halves = x.astype(np.float16)
    yield Check("pack", "float16", (halves, mask), jscan.pack, lambda x, m: x[m])
    yield Check("split", "int32", (x, mask), jscan.split, _split)
    yield Check("split_and_segment", "int32", (x, mask, flags), _split_and_segment, _split_parts)


SIZE = 150
"""How many results are asked for, which is more than there are of marks and fewer than of runs."""


def _filled(x: Array) -> Array:
    return np.append(x[:SIZE], np.zeros(max(0, SIZE - len(x)), x.dtype))


def _runs(x: Array) -> tuple[Array, Array, Array]:
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    lengths = np.diff(np.append(starts, len(x))).astype(np.int32)
    return _filled(x[starts]), _filled(lengths), np.array(len(starts), np.int32)


def _unique(x: Array) -> tuple[Array, Array]:
    values, _, count = _runs(x)
    return values, count


def _partition(x: Array, signs: Array) -> tuple[Array, Array]:
    parts = [x[signs < 0], x[signs == 0], x[signs > 0]]
    return np.concatenate(parts), np.array([len(part) for part in parts], np.int32)


def _histogram(keys: Array) -> Array:
    counts = np.zeros(6, np.int32)
    for key in keys:
        if 0 <= key < 6:
            counts[key] += 1
    return counts


def compaction() -> Iterator[Check]:
    """What is marked, parts, counts, and runs of equal neighbours."""
    x, mask = small(np.int32, SHORT), _marks(SHORT)
    yield Check(
        "nonzero",
        "bool",
        (mask,),
        lambda m: jscan.nonzero(m, size=SIZE)[0],
        lambda m: _filled(np.flatnonzero(m).astype(np.int32)),
    )
    yield Check("partition", "int32", (x, x), jscan.partition, _partition)
    yield Check("histogram", "int32", (x,), partial(jscan.histogram, length=6), _histogram)
    runs = np.sort(x)
    encode = partial(jscan.run_length_encode, size=SIZE)
    yield Check("run_length_encode", "int32", (x,), encode, _runs)
    lengths = np.abs(x)
    yield Check(
        "run_length_decode",
        "int32",
        (x, lengths),
        partial(jscan.run_length_decode, size=SIZE),
        lambda x, lengths: np.repeat(x, lengths)[:SIZE],
    )
    unique = partial(jscan.unique_sorted, size=SIZE)
    yield Check("unique_sorted", "int32", (runs,), unique, _unique)


def _described(lengths: Any) -> list[Any]:
    """Segments of one kind of description, as all others."""
    count = len(lengths)
    first = jscan.Segments.from_lengths(lengths, total=SHORT)
    by_offsets = jscan.Segments.from_offsets(first.offsets(count), total=SHORT)
    by_ids = jscan.Segments.from_ids(first.ids)
    by_flags = jscan.Segments.from_flags(by_ids.flags)
    return [by_offsets.lengths(count), by_offsets.ids, by_flags.flags, by_flags.ids]


def _descriptions(lengths: Array) -> list[Array]:
    numbers = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    flags = np.append(True, numbers[1:] != numbers[:-1])
    return [lengths, numbers, flags, (np.cumsum(flags) - 1).astype(np.int32)]


def descriptions() -> Iterator[Check]:
    """Segments from lengths, offsets, ids and flags."""
    lengths = np.array([5, 0, 100, 1, 0, 97], np.int32)
    assert lengths.sum() == SHORT
    yield Check("Segments", "in all four forms", (lengths,), _described, _descriptions)
