"""The cases of the functions that are built of scans.

Products of sparse matrices, tridiagonal systems, compaction, and functions of segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax.numpy as jnp

import jscan
from benchmarks.cases import answers, counterparts, inputs, matrices, operations, tolerances
from benchmarks.cases.case import Build, Case, Inputs, Operation, Peer, call, length, made, others

ELEMENTS = (3242, 294_276)
"""Rows and entries of the matrix of finite elements in the scan paper of 2007."""

PRODUCTS = others("torch.csr_matvec", "cupy.csr_matvec", "cub.ThreadPerRow")
VENDORS = ("torch.csr_matvec", "cupy.csr_matvec")
"""cuSPARSE, as two libraries call it."""


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    kinds = (_products, _systems, _places, _runs, _counts, _parts, _segments, _orders)
    return [case for kind in kinds for case in kind(shrink)]


def _products(shrink: int) -> Iterator[Case]:
    entries, size = length(26, shrink)
    flat, cube = math.isqrt(entries // 5), round((entries / 7) ** (1 / 3))
    few = ELEMENTS[0] >> max(shrink - 6, 0), ELEMENTS[1] >> max(shrink - 6, 0)
    short, dense = entries >> 4, entries // 5
    made_of: tuple[tuple[str, Operation, tuple[int, ...], int, int, float], ...] = (
        (f"5-point stencil of {flat}^2", matrices.stencil, (2, flat), 5 * flat**2, flat**2, 1.0),
        (f"7-point stencil of {cube}^3", matrices.stencil, (3, cube), 7 * cube**3, cube**3, 1.0),
        (f"elements, {few[1]} in {few[0]} rows", matrices.elements, few, few[1], few[0], 1.0),
        (f"power law, {size}", matrices.skewed, (entries, short), entries, short, 2.0),
        (f"one dense row, {size}", matrices.one_dense, (dense,), 5 * dense - 4, dense, 2.0),
        (
            f"every other row empty, {size}",
            matrices.with_empty_rows,
            (entries >> 3, 16),
            entries,
            entries >> 3,
            1.0,
        ),
    )
    for name, build, told, count, rows, target in made_of:
        yield Case(
            f"csr_matvec, {name}",
            made(build, *told),
            jscan.csr_matvec,
            answers.same_as(counterparts.gathered),
            *(8 * count + 12 * rows + 4, target, 0.8 * target, "speedup"),
            peers={"BCSR": counterparts.bcsr, "jax.ops.segment_sum": counterparts.gathered},
            outside=PRODUCTS,
            against=VENDORS,
        )
    for which in (0, 3):
        name, build, told, count, rows, target = made_of[which]
        yield Case(
            f"csr_matmat, four columns, {name}",
            made(build, *told, 4),
            jscan.csr_matmat,
            answers.same_as(counterparts.gathered),
            *(8 * count + 36 * rows + 4, target, 0.8 * target, "speedup"),
            peers={"BCSR": counterparts.bcsr, "jax.ops.segment_sum": counterparts.gathered},
            outside=others(*VENDORS),
            against=VENDORS,
        )
    name, build, told, count, rows, _ = made_of[0]
    yield Case(
        f"csr_matvec, max-plus, {name}",
        made(build, *told),
        call(jscan.csr_matvec, operators="max-plus"),
        answers.same_as(counterparts.gathered_maxima),
        8 * count + 12 * rows + 4,
        peers={"jax.ops.segment_max": counterparts.gathered_maxima},
    )
    transposed = call(counterparts.scattered, rows)
    yield Case(
        f"csr_matvec, transposed, {name}",
        made(build, *told),
        call(jscan.csr_matvec, transpose=True, length=rows),
        answers.same_as(transposed),
        8 * count + 12 * rows + 4,
        peers={"scatter": transposed},
    )


def _systems(shrink: int) -> Iterator[Case]:
    """Batches of systems along the last axis: four arrays are read and one is written."""
    for exponents in ((0, 20), (0, 24), (4, 20), (10, 14), (14, 10), (18, 6)):
        fewer = (shrink + 1) // 2 if exponents[0] else 0
        batch = 1 << max(exponents[0] - fewer, 0)
        n = 1 << max(exponents[1] - (shrink - fewer), 4)
        peers: dict[str, Operation] = {"lax.linalg": counterparts.eliminated}
        if exponents[1] <= 14:
            peers["a loop"] = counterparts.by_a_loop
        yield Case(
            f"tridiagonal_solve of ({batch}, {n}), float32",
            made(inputs.dominated, (batch, n)),
            call(jscan.tridiagonal_solve, axis=-1),
            tolerances.residual,
            20 * batch * n,
            peers=peers,
        )


def _places(shrink: int) -> Iterator[Case]:
    n, size = length(26, shrink)
    for density in (0.01, 0.5):
        kept = inputs.room(n, density)
        peer = call(counterparts.nonzero, kept)
        yield Case(
            f"nonzero, {density:.0%}, {size}",
            made(inputs.mask, n, density),
            call(jscan.nonzero, size=kept),
            answers.same_as(peer),
            n + 4 * kept,
            peers={
                "jnp.nonzero": peer,
                "cumsum and scatter": call(counterparts.scattered_places, kept),
            },
            outside=others("torch.nonzero_static", "cub.SelectPlaces"),
        )
    side = 1 << (n.bit_length() - 1) // 2
    kept = inputs.room(side * (n // side), 0.01)
    peer = call(counterparts.nonzero, kept)
    yield Case(
        f"nonzero, 1%, ({side}, {n // side})",
        made(inputs.mask_of, (side, n // side), 0.01),
        call(jscan.nonzero, size=kept),
        answers.same_as(peer),
        n + 8 * kept,
        peers={"jnp.nonzero": peer},
    )
    for density in (0.01, 0.5):
        kept = inputs.room(n, density)
        peer = call(operations.jnp_pack, kept)
        yield Case(
            f"pack, {density:.0%}, float32, {size}",
            _masked(n, density),
            call(jscan.pack, size=kept),
            answers.same_as(peer),
            *(n + 8 * kept, 0.75, 0.60),
            peers={
                "jnp.compress": peer,
                "cumsum and scatter": call(counterparts.scattered_pack, kept),
            },
            outside=others("cub.Select"),
        )


def _masked(n: int, density: float) -> Inputs:
    return made(inputs.joined, call(inputs.numbers, n), call(inputs.mask, n, density))


def _runs(shrink: int) -> Iterator[Case]:
    """Runs of sixteen elements on average."""
    n, size = length(26, shrink)
    count = n >> 4
    encoded = call(counterparts.encoded, count)
    yield Case(
        f"run_length_encode, int32, {size} in runs of 16",
        made(inputs.runs, n, count),
        call(jscan.run_length_encode, size=count),
        answers.same_as(encoded),
        4 * n + 8 * count + 4,
        peers={
            "jnp.nonzero": encoded,
            "cumsum and scatters": call(counterparts.encoded_by_scatters, count),
        },
        outside=others("cub.RunLengthEncode"),
    )
    decoded = call(counterparts.decoded, n)
    yield Case(
        f"run_length_decode, float32, {size} in runs of 16",
        made(inputs.lengths, n, count),
        call(jscan.run_length_decode, size=n),
        answers.same_as(decoded),
        8 * count + 4 * n,
        peers={"jnp.repeat": decoded},
    )
    neighbours = call(counterparts.unique_neighbours, count)
    yield Case(
        f"unique_sorted, int32, {size} of {count}",
        made(inputs.sorted_ids, n, count),
        call(jscan.unique_sorted, size=count),
        answers.same_as(neighbours),
        4 * n + 4 * count + 4,
        peers={"jnp.unique": call(counterparts.unique, count), "jnp.nonzero": neighbours},
        outside=others("cub.Unique"),
    )


def _counts(shrink: int) -> Iterator[Case]:
    n, size = length(26, shrink)
    for count, keys, which in (
        (256, made(inputs.random_ids, n, 256), "256 keys"),
        (256, made(inputs.random_ids, n, 1), "256 keys, all of them one"),
        (2**16, made(inputs.random_ids, n, 2**16), "2^16 keys"),
    ):
        peer = call(counterparts.bincount, count)
        yield Case(
            f"histogram, {which}, {size}",
            keys,
            call(operations.histogram, count),
            answers.same_as(peer),
            4 * n + 4 * count,
            peers={"jnp.bincount": peer, "lax.sort": call(counterparts.sorted_counts, count)},
            outside=others("torch.bincount", "cupy.bincount", "cub.Histogram"),
        )


def _parts(shrink: int) -> Iterator[Case]:
    n, size = length(26, shrink)
    yield Case(
        f"partition, a tenth is 0, float32, {size}",
        made(inputs.joined, call(inputs.numbers, n), call(inputs.tenths, n)),
        jscan.partition,
        answers.same_as(counterparts.parted),
        9 * n + 12,
        peers={
            "jnp.argsort": counterparts.parted,
            "cumsum and scatter": counterparts.parted_by_scatter,
        },
    )
    yield Case(
        f"split, 50%, float32, {size}",
        _masked(n, 0.5),
        jscan.split,
        answers.same_as(operations.jnp_split),
        *(9 * n, 0.75, 0.60),
        peers={
            "jnp.argsort": operations.jnp_split,
            "cumsum and scatter": counterparts.scattered_split,
        },
    )


def _segments(shrink: int) -> Iterator[Case]:
    """Functions of segments of 128 elements on average, by sorted ids."""
    n, size = length(26, shrink)
    count = n >> 7
    whole = call(inputs.eights, (n,), jnp.float32)
    drawn = call(inputs.normal, n)
    for name, values, moved, bound in (
        ("mean", whole, 8 * n + 4 * count, 1e-6),
        ("norm", whole, 8 * n + 4 * count, 1e-4),
        ("logsumexp", drawn, 8 * n + 4 * count, 1e-5),
        ("softmax", drawn, 12 * n, 1e-6),
        ("argmax", drawn, 8 * n + 4 * count, 0.0),
    ):
        peer = call(getattr(counterparts, f"segment_{name}"), count)
        yield Case(
            f"segment_{name}, float32, {size} into {count}",
            _by_ids(values, n, count),
            call(getattr(jscan, f"segment_{name}"), **_sorted(count)),
            tolerances.close_to(peer, bound) if bound else answers.same_as(peer),
            moved,
            peers={"jax.ops": peer},
        )


def _by_ids(values: Build, n: int, count: int) -> Inputs:
    return made(inputs.joined, values, call(inputs.sorted_ids, n, count))


def _sorted(count: int) -> dict[str, int]:
    return {"num_segments": count, "indices_are_sorted": True}


def _orders(shrink: int) -> Iterator[Case]:
    """Segments sorted, and the first four of each."""
    n, size = length(24, shrink)
    count, k = n >> 7, 4
    operands = _by_ids(call(inputs.numbers, n), n, count)
    sort: tuple[Peer, ...] = others("cub.SegmentedSort")
    yield Case(
        f"segment_sort, float32, {size} into {count}",
        operands,
        call(jscan.segment_sort, **_sorted(count)),
        answers.same_as(counterparts.segment_sort),
        12 * n,
        peers={"lax.sort": counterparts.segment_sort},
        outside=sort,
    )
    peer = call(counterparts.segment_top_k, count, k)
    yield Case(
        f"segment_top_k, four, float32, {size} into {count}",
        operands,
        call(jscan.segment_top_k, **_sorted(count), k=k),
        answers.same_as(peer),
        8 * n + 8 * k * count,
        peers={"lax.sort": peer},
    )
