"""Segmented scans by heads of a bit each, which are given or come from offsets or ids."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from benchmarks.cases import answers, inputs, operations
from benchmarks.cases.case import Case, call, length, made
from benchmarks.cases.segments import values_and


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    return [*_given(shrink), *_from_offsets(shrink), *_from_ids(shrink)]


def _given(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    peer = operations.sum_by_unpacked_bits
    for dtype, width in (("float32", 4), ("int8", 1)):
        for reverse in (False, True):
            yield Case(
                f"segmented sum by bits, 1 %, {dtype}, {size}" + ", reversed" * reverse,
                values_and(call(inputs.words_of_heads, n, 0.01), n, dtype),
                call(operations.sum_by_bits, reverse=reverse),
                answers.same_as(call(peer, reverse=reverse)),
                *(2 * width * n + n // 8, 0.92, 0.82),
                peers={"unpacked first": call(peer, reverse=reverse)},
            )


def _from_offsets(shrink: int) -> Iterator[Case]:
    n, size = length(27, shrink)
    peer = operations.sum_by_scattered_offsets
    for each in (10, 100, 10**4):
        count = max(n // each, 1)
        yield Case(
            f"segmented sum by offsets, segments of {each}, float32, {size}",
            values_and(call(inputs.offsets, n, count), n),
            operations.sum_by_offsets,
            answers.same_as(peer),
            *(8 * n + 4 * count, 0.85, 0.70),
            peers={"scattered first": peer},
        )


def _from_ids(shrink: int) -> Iterator[Case]:
    """Ids of each width beside flags of a byte; then of rows that begin inside of words, and lanes.

    Bytes are those of values and of what describes segments, each read or written once.
    """
    n, size = length(26, shrink)
    peer = operations.sum_by_changes
    for dtype, width in (("uint8", 1), ("int16", 2), ("int32", 4), ("int64", 8)):
        ids = call(inputs.ids_of_runs, (n,), dtype, 100)
        yield Case(
            f"segmented sum by ids, segments of 100, {dtype}, {size}",
            values_and(ids, n, x64=width == 8),
            operations.sum_by_ids,
            dataclasses.replace(answers.same_as(peer), x64=width == 8),
            *((8 + width) * n, 0.80, 0.70),
            peers={"compared by XLA": peer},
        )
    yield Case(
        f"segmented sum beside ids, by flags, 1 %, uint8, {size}",
        made(inputs.flagged, (n,), (n,), "uint8", args=(0.01,)),
        operations.segmented_sum,
        answers.segmented_sum,
        *(9 * n, 0.85, 0.70),
    )
    rows, lanes = n >> 10, 16
    for shape, of_ids, axis in (
        ((rows, 1001), (rows, 1001), 1),
        ((n // lanes, lanes), (n // lanes,), 0),
    ):
        values = call(inputs.eights, shape, "float32")
        ids = call(inputs.ids_of_runs, of_ids, "int16", 100)
        yield Case(
            f"segmented sum by ids, segments of 100, int16, {shape} along axis {axis}",
            made(inputs.joined, values, ids),
            call(operations.sum_by_ids, axis=axis),
            answers.same_as(call(peer, axis=axis)),
            *(8 * math.prod(shape) + 2 * math.prod(of_ids), 0.75, 0.60),
            peers={"compared by XLA": call(peer, axis=axis)},
        )
