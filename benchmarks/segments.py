"""The cases of reductions, conversions between the forms of segments, pack and split."""

from __future__ import annotations

import math

import jax.numpy as jnp

from benchmarks import answers, inputs, lengths, operations, peers
from benchmarks.answers import Check
from benchmarks.case import Aim, Case, Inputs, length
from benchmarks.inputs import Build
from benchmarks.operations import Operation

# XLA's own reductions over the same bytes: the fastest of them is what read speed means here.
READERS = {"jnp.sum": peers.whole_sum, "jnp.max": peers.whole_max}
READERS_OF_BITS = {
    "jnp.sum of the bits": peers.sum_of_bits,
    "jnp.max of the bits": peers.max_of_bits,
}


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    return [
        *_sorted(shrink),
        *_wide(shrink),
        *_shapes(shrink),
        *_descriptors(shrink),
        *_unsorted(shrink),
        *_whole(shrink),
        *_conversions(shrink),
        *_moves(shrink),
    ]


def _segmented(exponent: int, shrink: int) -> tuple[int, int, str]:
    """Elements, segments of 128 on average, and how to write both."""
    n, size = length(exponent, shrink)
    return n, n >> 7, f"{size} into 2^{(n >> 7).bit_length() - 1}"


def _values_and(described: Build, n: int) -> Inputs:
    return Inputs(inputs.joined(inputs.eights((n,), jnp.float32), described))


def _sorted(shrink: int) -> list[Case]:
    n, count, sizes = _segmented(27, shrink)
    theirs = "jax.ops.segment_sum"
    ids = inputs.sorted_ids(n, count)
    return [
        Case(
            f"segment_sum, sorted ids, float32, {sizes}",
            _values_and(ids, n),
            operations.segment_sum(count),
            answers.sums_by_ids,
            *(8 * n + 4 * count, 13.0, 10.0, "speedup"),
            peers={theirs: peers.segment_sum(count)},
            against=(theirs,),
            also=(Aim(0.90, 0.75),),
        ),
        Case(
            f"segment_sum, sorted ids, bfloat16, {sizes}",
            Inputs(inputs.joined(inputs.eights((n,), jnp.bfloat16), ids)),
            operations.segment_sum(count),
            answers.sums_by_ids,
            *(6 * n + 2 * count, 0.75, 0.60),
            peers={theirs: peers.segment_sum(count)},
        ),
        Case(
            f"segment_max, sorted ids, float32, {sizes}",
            Inputs(inputs.joined(inputs.numbers(n), ids)),
            operations.segment_max(count),
            answers.same_as(peers.segment_max(count)),
            *(8 * n + 4 * count, None, None),
            peers={"jax.ops.segment_max": peers.segment_max(count)},
        ),
    ]


def _wide(shrink: int) -> list[Case]:
    theirs = "jax.ops.segment_sum"
    count = max(2**15 >> shrink, 32)
    result = []
    for full, columns in ((2**20, 64), (12123, 1024)):
        rows, columns = max(full >> shrink, 40), max(columns >> shrink // 2, 8)
        result.append(
            Case(
                f"segment_sum of ({rows}, {columns}), sorted ids, float32, into {count}",
                Inputs(
                    inputs.joined(
                        inputs.eights((rows, columns), jnp.float32), inputs.sorted_ids(rows, count)
                    )
                ),
                operations.segment_sum(count),
                answers.sums_by_ids,
                *(4 * (rows * columns + rows + count * columns), 5.0, 3.0, "speedup"),
                peers={theirs: peers.segment_sum(count)},
                against=(theirs,),
            )
        )
    return result


def _shapes(shrink: int) -> list[Case]:
    """Shapes of segments; each is compared with the fastest of them."""
    n, size = length(27, shrink)
    short = n // 30 + 2 * math.isqrt(n // 30)  # five standard deviations more than the mean
    shapes = [
        ("one segment", lengths.even(n, n), 1),
        ("segments of 10 to 50", lengths.short(n, short), short),
        ("segments of 3", lengths.even(n, 3), -(-n // 3)),
        ("one segment of half, Zipf's law", lengths.half_and_zipf(n, n >> 7), n >> 7),
    ]
    names = tuple(f"segment_sum, {shape}, float32, {size}" for shape, _, _ in shapes)
    return [
        Case(
            name,
            _values_and(ids, n),
            operations.segment_sum(count),
            answers.sums_by_ids,
            *(8 * n + 4 * count, 0.90, 0.75, "ratio"),
            peers={"jax.ops.segment_sum": peers.segment_sum(count)},
            against=names,
            also=(Aim(0.90, 0.75, "share ratio", names), Aim(None, None)),
        )
        for name, (_, ids, count) in zip(names, shapes, strict=True)
    ]


def _descriptors(shrink: int) -> list[Case]:
    n, count, sizes = _segmented(27, shrink)

    def case(
        form: str, described: Build, run: Operation, check: Check, peer: Operation, width: int
    ) -> Case:
        return Case(
            f"reduce by {form}, float32, {sizes}",
            _values_and(described, n),
            run,
            check,
            *(width * n + (8 if form == "offsets" else 4) * count, None, None),
            peers={"jax.ops.segment_sum": peer},
        )

    return [
        case(
            "flags",
            inputs.heads(n, count),
            operations.reduce_by_flags(count),
            answers.sums_by_flags,
            peers.segment_sum_by_flags(count),
            5,
        ),
        case(
            "runs",
            inputs.runs(n, count),
            operations.reduce_by_runs(count),
            answers.sums_by_runs,
            peers.segment_sum_by_runs(count),
            8,
        ),
        case(
            "offsets",
            inputs.offsets(n, count),
            operations.reduce_by_offsets,
            answers.sums_by_offsets,
            peers.segment_sum_by_offsets,
            4,
        ),
    ]


def _unsorted(shrink: int) -> list[Case]:
    n, count, sizes = _segmented(27, shrink)
    return [
        Case(
            f"segment_sum, unsorted ids, float32, {sizes}",
            _values_and(inputs.random_ids(n, count), n),
            operations.unsorted_segment_sum(count),
            answers.sums_by_unsorted_ids,
            *(8 * n + 4 * count, None, None),
            peers={"sorted first": operations.sort_then_segment_sum(count)},
        )
    ]


def _whole(shrink: int) -> list[Case]:
    n, size = length(28, shrink)
    floats = READERS | READERS_OF_BITS
    return [
        Case(
            f"reduce, sum, float32, {size}",
            Inputs(inputs.eights((n,), jnp.float32)),
            operations.total,
            answers.whole_sum,
            *(4 * n, 0.95, 0.90, "speedup"),
            peers=floats,
            against=tuple(floats),
            also=(Aim(1.0, 0.95, "speedup", ("jnp.sum",)),),
        ),
        Case(
            f"reduce, last write, int32, {size}",
            Inputs(inputs.rare_writes(n)),
            operations.last_write,
            answers.last_write,
            *(4 * n, None, None, "speedup"),
            peers=READERS | {"lax.associative_scan": peers.last_of_scan},
            against=tuple(READERS),
        ),
    ]


def _conversions(shrink: int) -> list[Case]:
    n, count, sizes = _segmented(27, shrink)

    def case(
        forms: str, build: Build, run: Operation, peer: tuple[str, Operation], least: int
    ) -> Case:
        return Case(
            f"{forms}, {sizes}",
            Inputs(build),
            run,
            answers.same_as(peer[1]),
            *(least, None, None),
            peers=dict([peer]),
        )

    flags, runs = inputs.heads(n, count), inputs.runs(n, count)
    offsets = inputs.offsets(n, count)
    return [
        case(
            "flags to ids",
            flags,
            operations.flags_to_ids,
            ("jnp.cumsum", peers.flags_to_ids),
            5 * n,
        ),
        case(
            "flags to offsets",
            flags,
            operations.flags_to_offsets(count),
            ("jnp.nonzero", peers.flags_to_offsets(count)),
            n + 4 * count,
        ),
        case(
            "ids of runs to ids",
            runs,
            operations.runs_to_ids,
            ("jnp.cumsum", peers.runs_to_ids),
            8 * n,
        ),
        case(
            "offsets to ids",
            offsets,
            operations.offsets_to_ids(n),
            ("jnp.repeat", peers.offsets_to_ids(n)),
            4 * n + 4 * count,
        ),
        case(
            "offsets to flags",
            offsets,
            operations.offsets_to_flags(n),
            ("scatter", peers.offsets_to_flags(n)),
            n + 4 * count,
        ),
    ]


def _moves(shrink: int) -> list[Case]:
    n, size = length(26, shrink)
    numbers, half = inputs.numbers(n), inputs.mask(n, 0.5)
    result = [
        Case(
            f"enumerate, {size}",
            Inputs(half),
            operations.enumerate_mask,
            answers.same_as(peers.enumerate_mask),
            *(5 * n, None, None),
            peers={"jnp.cumsum": peers.enumerate_mask},
        )
    ]
    for density in (0.01, 0.5, 0.99):
        kept = round(density * n)
        result.append(
            Case(
                f"pack, {density:.0%}, float32, {size}",
                Inputs(inputs.joined(numbers, inputs.mask(n, density))),
                operations.pack(kept),
                answers.same_as(peers.compress(kept)),
                *(n + 8 * kept, 5.0, 3.0, "speedup"),
                peers={"jnp.compress": peers.compress(kept)},
                against=("jnp.compress",),
            )
        )
    result.append(
        Case(
            f"split, 50%, float32, {size}",
            Inputs(inputs.joined(numbers, half)),
            operations.split,
            answers.same_as(peers.split),
            *(9 * n, 5.0, 3.0, "speedup"),
            peers={"jnp.argsort": peers.split},
            against=("jnp.argsort",),
        )
    )
    result.append(
        Case(
            f"split_and_segment, 50%, float32, {size}",
            Inputs(inputs.joined(numbers, half, inputs.heads(n, n >> 7))),
            operations.split_and_segment,
            answers.same_as(peers.split_and_segment),
            *(11 * n, None, None),
            peers={"jnp.argsort": peers.split_and_segment},
        )
    )
    return result
