"""Segmented scans by heads of a bit each, which are given or come from offsets."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases import answers, inputs, operations
from benchmarks.cases.case import Case, call, length
from benchmarks.cases.segments import values_and


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    return [*_given(shrink), *_from_offsets(shrink)]


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
