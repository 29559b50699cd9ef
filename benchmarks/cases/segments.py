"""The cases of reductions, conversions between the forms of segments, pack and split."""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax.numpy as jnp

import jscan
from benchmarks.cases import answers, inputs, operations
from benchmarks.cases.case import Aim, Build, Call, Case, Inputs, Operation, call, length, made
from jscan.operators import add

SEGMENT_SUM = "jax.ops.segment_sum"

# XLA's own reductions over the same bytes: the fastest of them is what read speed means here.
READERS: dict[str, Operation] = {"jnp.sum": jnp.sum, "jnp.max": jnp.max}
READERS_OF_BITS = {
    f"{name} of the bits": call(operations.of_bits, reduce) for name, reduce in READERS.items()
}


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    kinds = (_sorted, _wide, _even, _descriptors, _unsorted, _whole, _conversions, _moves)
    return [case for kind in kinds for case in kind(shrink)]


def _segmented(exponent: int, shrink: int) -> tuple[int, int, str]:
    """Elements, segments of 128 on average, and how to write both."""
    n, size = length(exponent, shrink)
    return n, n >> 7, f"{size} into 2^{(n >> 7).bit_length() - 1}"


def values_and(described: Build, n: int, dtype: str = "float32", *, x64: bool = False) -> Inputs:
    """Values, and what describes their segments."""
    return made(inputs.joined, call(inputs.eights, (n,), dtype), described, x64=x64)


def shapes(n: int) -> dict[str, tuple[Call, int]]:
    """Ids of segments of several shapes, and how many segments there are."""
    short = n // 30 + 2 * math.isqrt(n // 30)  # five standard deviations more than the mean
    return {
        "one segment": (call(inputs.even, n, n), 1),
        "segments of 10 to 50": (call(inputs.short, n, short), short),
        "segments of 3": (call(inputs.even, n, 3), -(-n // 3)),
        "one segment of half, Zipf's law": (call(inputs.half_and_zipf, n, n >> 7), n >> 7),
    }


def _sorted(shrink: int) -> Iterator[Case]:
    n, count, sizes = _segmented(27, shrink)
    ids = call(inputs.sorted_ids, n, count)
    run, peer = call(operations.segment_sum, count), call(operations.ops_segment_sum, count)
    yield Case(
        f"segment_sum, sorted ids, float32, {sizes}",
        values_and(ids, n),
        run,
        answers.sums_by_ids,
        *(8 * n + 4 * count, 13.0, 10.0, "speedup"),
        peers={SEGMENT_SUM: peer},
        against=(SEGMENT_SUM,),
        also=(Aim(0.90, 0.75),),
    )
    yield Case(
        f"segment_sum, sorted ids, bfloat16, {sizes}",
        values_and(ids, n, "bfloat16"),
        run,
        answers.sums_by_ids,
        *(6 * n + 2 * count, 0.75, 0.60),
        peers={SEGMENT_SUM: peer},
    )
    largest = call(operations.ops_segment_max, count)
    yield Case(
        f"segment_max, sorted ids, float32, {sizes}",
        made(inputs.joined, call(inputs.numbers, n), ids),
        call(operations.segment_max, count),
        answers.same_as(largest),
        8 * n + 4 * count,
        peers={"jax.ops.segment_max": largest},
    )


def _wide(shrink: int) -> Iterator[Case]:
    count = max(2**15 >> shrink, 32)
    for full, wide in ((2**20, 64), (12123, 1024)):
        rows, columns = max(full >> shrink, 40), max(wide >> shrink // 2, 8)
        values = call(inputs.eights, (rows, columns), "float32")
        yield Case(
            f"segment_sum of ({rows}, {columns}), sorted ids, float32, into {count}",
            made(inputs.joined, values, call(inputs.sorted_ids, rows, count)),
            call(operations.segment_sum, count),
            answers.sums_by_ids,
            *(4 * (rows * columns + rows + count * columns), 5.0, 3.0, "speedup"),
            peers={SEGMENT_SUM: call(operations.ops_segment_sum, count)},
            against=(SEGMENT_SUM,),
        )


def _even(shrink: int) -> Iterator[Case]:
    """Shapes of segments; each is compared with the fastest of them."""
    n, size = length(27, shrink)
    found = shapes(n)
    names = {shape: f"segment_sum, {shape}, float32, {size}" for shape in found}
    everyone = tuple(names.values())
    for shape, (ids, count) in found.items():
        yield Case(
            names[shape],
            values_and(ids, n),
            call(operations.segment_sum, count),
            answers.sums_by_ids,
            *(8 * n + 4 * count, 0.90, 0.75, "ratio"),
            peers={SEGMENT_SUM: call(operations.ops_segment_sum, count)},
            against=everyone,
            also=(Aim(0.90, 0.75, "share ratio", everyone), Aim(None, None)),
        )


def _descriptors(shrink: int) -> Iterator[Case]:
    n, count, sizes = _segmented(27, shrink)
    for form, described, run, check, peer, moved in (
        (
            "flags",
            inputs.heads,
            call(operations.reduce_by_flags, count),
            answers.sums_by_flags,
            call(operations.ops_sum_by_flags, count),
            5 * n + 4 * count,
        ),
        (
            "runs",
            inputs.runs,
            call(operations.reduce_by_runs, count),
            answers.sums_by_runs,
            call(operations.ops_sum_by_runs, count),
            8 * n + 4 * count,
        ),
        (
            "offsets",
            inputs.offsets,
            operations.reduce_by_offsets,
            answers.sums_by_offsets,
            operations.ops_sum_by_offsets,
            4 * n + 8 * count,
        ),
    ):
        operands = values_and(call(described, n, count), n)
        name = f"reduce by {form}, float32, {sizes}"
        yield Case(name, operands, run, check, moved, peers={SEGMENT_SUM: peer})


def _unsorted(shrink: int) -> Iterator[Case]:
    n, count, sizes = _segmented(27, shrink)
    yield Case(
        f"segment_sum, unsorted ids, float32, {sizes}",
        values_and(call(inputs.random_ids, n, count), n),
        call(operations.unsorted_segment_sum, count),
        answers.sums_by_unsorted_ids,
        8 * n + 4 * count,
        peers={"sorted first": call(operations.sort_then_segment_sum, count)},
    )


def _whole(shrink: int) -> Iterator[Case]:
    n, size = length(28, shrink)
    floats = READERS | READERS_OF_BITS
    yield Case(
        f"reduce, sum, float32, {size}",
        made(inputs.eights, (n,), "float32"),
        call(jscan.reduce, add),
        answers.whole_sum,
        *(4 * n, 0.95, 0.90, "speedup"),
        peers=floats,
        against=tuple(floats),
        also=(Aim(1.0, 0.95, "speedup", ("jnp.sum",)),),
    )
    yield Case(
        f"reduce, last write, int32, {size}",
        made(inputs.rare_writes, n),
        call(jscan.reduce, operations.latest),
        answers.last_write,
        *(4 * n, None, None, "speedup"),
        peers=READERS | {"lax.associative_scan": operations.last_of_scan},
        against=tuple(READERS),
    )


def _conversions(shrink: int) -> Iterator[Case]:
    n, count, sizes = _segmented(27, shrink)
    for forms, build, run, name, peer, moved in (
        (
            "flags to ids",
            inputs.heads,
            operations.flags_to_ids,
            "jnp.cumsum",
            operations.jnp_flags_to_ids,
            5 * n,
        ),
        (
            "flags to offsets",
            inputs.heads,
            call(operations.flags_to_offsets, count),
            "jnp.nonzero",
            call(operations.jnp_flags_to_offsets, count),
            n + 4 * count,
        ),
        (
            "ids of runs to ids",
            inputs.runs,
            operations.runs_to_ids,
            "jnp.cumsum",
            operations.jnp_runs_to_ids,
            8 * n,
        ),
        (
            "offsets to ids",
            inputs.offsets,
            call(operations.offsets_to_ids, n),
            "jnp.repeat",
            call(operations.jnp_offsets_to_ids, n),
            4 * n + 4 * count,
        ),
        (
            "offsets to flags",
            inputs.offsets,
            call(operations.offsets_to_flags, n),
            "scatter",
            call(operations.jnp_offsets_to_flags, n),
            n + 4 * count,
        ),
    ):
        check, peers = answers.same_as(peer), {name: peer}
        yield Case(f"{forms}, {sizes}", made(build, n, count), run, check, moved, peers=peers)


def _moves(shrink: int) -> Iterator[Case]:
    n, size = length(26, shrink)
    numbers, half = call(inputs.numbers, n), call(inputs.mask, n, 0.5)
    yield Case(
        f"enumerate, {size}",
        Inputs(half),
        jscan.enumerate,
        answers.same_as(operations.jnp_enumerate),
        5 * n,
        peers={"jnp.cumsum": operations.jnp_enumerate},
    )
    for density in (0.01, 0.5, 0.99):
        kept = round(density * n)
        peer = call(operations.jnp_pack, kept)
        yield Case(
            f"pack, {density:.0%}, float32, {size}",
            made(inputs.joined, numbers, call(inputs.mask, n, density)),
            call(jscan.pack, size=kept),
            answers.same_as(peer),
            *(n + 8 * kept, 5.0, 3.0, "speedup"),
            peers={"jnp.compress": peer},
            against=("jnp.compress",),
        )
    yield Case(
        f"split, 50%, float32, {size}",
        made(inputs.joined, numbers, half),
        jscan.split,
        answers.same_as(operations.jnp_split),
        *(9 * n, 5.0, 3.0, "speedup"),
        peers={"jnp.argsort": operations.jnp_split},
        against=("jnp.argsort",),
    )
    yield Case(
        f"split_and_segment, 50%, float32, {size}",
        made(inputs.joined, numbers, half, call(inputs.heads, n, n >> 7)),
        operations.split_and_segment,
        answers.same_as(operations.jnp_split_and_segment),
        11 * n,
        peers={"jnp.argsort": operations.jnp_split_and_segment},
    )
