"""From arrays to the kernels of a strategy.

block                rows that fit a tile
lookback             one pass over longer ones; as serial_lookback, looking at one tile at a time
chained              one pass, every tile behind its neighbour
repeatable           one pass whose groups are fixed
reduce_then_scan     two passes in a fixed order
scan_then_propagate  the same, and every element written twice

Each has a module of its name, but serial_lookback, which is a window of one tile.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jscan import extent
from jscan.combine import Combine
from jscan.kernels import (
    abreast,
    block,
    chained,
    launch,
    lookback,
    reduce_then_scan,
    repeatable,
    scan_then_propagate,
    shifting,
    spreading,
    trivial,
    tuning,
    weaving,
)
from jscan.kernels.complex import read_dtypes, real_dtypes, real_identity
from jscan.kernels.description import Scan
from jscan.kernels.exponentials import once
from jscan.kernels.flagging import Marks, full_of, one_byte
from jscan.kernels.launch import (
    Cut,
    joined,
    readable,
)
from jscan.kernels.operator import front, prepare
from jscan.kernels.spreading import Bits
from jscan.kernels.start import placed
from jscan.kernels.strategies import LOOKING, settled, single_pass
from jscan.logsums import is_complex_logaddexp, is_logaddexp
from jscan.starts import Start


def scan(
    leaves: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    used: Sequence[bool],
    method: str,
    kind: str = "flags",
    interpret: bool = False,
    tile: tuning.Tuning | None = None,
    start: Sequence[jax.Array] | None = None,
    start_open: jax.Array | None = None,
) -> list[jax.Array]:
    """Scans ``leaves`` along ``axis``; returns the used ones in the full shape.

    Every operand's dimensions are full or 1, and `why_not` has nothing to object to. A leaf that is
    1 along the ``axis`` is read in place. The operands are cut by ``tile``, or as suits their shape
    where that is None. ``start`` holds what comes before the first element of each leaf, as
    combined, and ``start_open`` where it does so: see `jscan.starts`. Flags are of a ``kind`` of
    `flagging.Marks`.
    """
    before, full = Start.of(start, start_open), full_of(leaves, flags, kind, axis)
    few, n = full[axis] < 2 or 0 in full, full[axis]
    if flags is not None and (few or before is not None):
        flags, kind = Marks(kind, flags, axis, n, interpret).as_bytes(), "flags"
    if before is not None:
        leaves, flags, before = _together(leaves, flags, before)
    if flags is not None and kind == "flags" and _are_wide(flags, leaves, full[axis + 1 :]):
        flags = one_byte(flags, interpret=interpret)
    marks = None if flags is None else Marks(kind, flags, axis, n, interpret)
    full = full_of(leaves, flags, kind, axis)
    if math.prod(full) == 0 or full[axis] == 1:
        how: dict[str, Any] = {"combine": combine, "axis": axis, "reverse": reverse}
        return trivial.scan(leaves, flags, before, full, exclusive=exclusive, used=used, **how)
    operands = readable(leaves)
    operator, segmented = prepare(combine), flags is not None
    results = combine.result_dtypes([leaf.dtype for leaf in leaves])
    written = tuple(w for dtype in results for w in read_dtypes(dtype))
    shape = tuning.Shape.of(leaves, axis, operator, segmented=segmented, tile=tile, full=full)
    of_results, row = full, 0
    wanted = tuple(u for d, u in zip(results, used, strict=True) for _ in read_dtypes(d))
    real_used = tuple(u for d, u in zip(results, used, strict=True) for _ in real_dtypes(d))
    of_pairs = zip(operands, written, strict=True)
    wider = any(result.itemsize > leaf.dtype.itemsize for leaf, result in of_pairs)
    known = dataclasses.replace(
        shape,
        few_results=2 * sum(real_used) <= shape.leaves,
        exclusive=exclusive,
        own_flags=marks is not None and marks.differ_beside(axis, full),
        wider_results=wider,
        logaddexp=_is_linear(combine) and not (wider or (combine.apart and exclusive)),
    )
    alone = shape.inner == 1 and marks is not None and not marks.are_shared(full)
    asked = dataclasses.replace(known, own_flags=known.own_flags or alone)
    together = method == "auto" and before is None and tuning.suits_lanes_of_rows(asked)
    together &= all(x.size == math.prod(full) for x in operands)
    if before is None and method in LOOKING and not together:
        of_rows = (
            marks is not None and marks.are_shared(full) and tuning.suits_repeated_flags(shape)
        )
        beside_leaves = [] if marks is None or of_rows else [marks.of_bytes]
        row = _row([*operands, *beside_leaves], written, full, shape, reverse=reverse)
        if row and of_rows and marks is not None:
            marks = marks.of_rows(shape.outer)
    shape = known
    if together:
        shape, method = shape.of_all_rows(), "block"
    if row:
        operands = [x.reshape(-1) for x in operands]
        full, axis = (math.prod(full),), 0
        method = single_pass(method, shape)
        shape = dataclasses.replace(shape, outer=1, n=full[0])
    down = tuning.down_lanes(shape) if method == "auto" else None
    if down or (method == "auto" and tuning.suits_two_passes(shape, sum(real_used))):
        method = "reduce_then_scan"
    lanes = None
    if before is None and (down or method in ("auto", "lookback")):
        lanes = abreast.lanes(combine, operands, written, shape, walks=down is not None)
    if lanes is not None:
        shape = shape.abreast(lanes.count)
    walks = row > 0 and not segmented and _neutral_is_known(combine, real_used)
    if lanes is not None:
        tuned = lanes.tuned
    elif down or together:
        tuned = down or tuning.lanes_of_rows(shape)
    elif row:
        tuned = tuning.rows(shape, row, walks=walks, exclusive=exclusive, reverse=reverse)
    else:
        tuned = tuning.chosen(shape, method, tuning.SCAN)
        if method in ("auto", "block") and tuned.length >= shape.n:
            tuned = tuning.columns(shape, tuned)
    whole = not (shape.large or shape.walked)  # a thread takes single elements of what is not
    may_lead = not (segmented and before is not None) and _takes_a_lead(
        combine, real_used, exclusive and before is None, segmented
    )
    along_words = tuning.suits_words(shape) or (reverse and shape.outer == 1)
    by_words = whole and not row and may_lead and along_words
    # Tiles with places in front of a row are not held.
    leads = by_words and shape.uneven and shape.inner == 1 and (reverse or shape.outer > 1)
    held = not (row or leads)
    takes_bits = not leads or tuning.suits_bits_of_words(shape)
    if marks is not None and leads and takes_bits and tuned.rows == 1 and tuned.length < shape.n:
        marks = marks.in_words(full)
    weaves = functools.partial(weaving.may_weave, shape=shape, reverse=reverse, may_lead=may_lead)
    way: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive, "may_weave": weaves}
    of_bits = marks is None or (takes_bits and marks.width(flat=row > 0) is not None)
    flag_bytes = 0 if marks is None or of_bits else marks.of_bytes.dtype.itemsize
    lie = tuning.Rows(row, walks, flag_bytes, reverse)
    if lanes is None:
        tuned = settled(shape, tuned, method, **way, may_hold=held, rows=lie)
    # A cut that is given may be one that cannot be woven.
    woven = tuned.woven if method != "scan_then_propagate" and weaves(tuned) else 0
    if exclusive and combine.apart:
        tuned = tuning.with_flags_in_front(shape, tuned)
    # Neighbours that a thread folds are told apart by it, whatever the operator.
    linear = _is_linear(combine) and not tuned.fold
    cut_into = functools.partial(
        Cut,
        full=full,
        axis=axis,
        tuned=tuned,
        reverse=reverse,
        exclusive=exclusive,
        widths={dtype.itemsize for dtype in written},
        row=row,
        mirrored=not linear or tuning.suits_mirrored(shape),
        beside=not linear,
        # Segmented, wide elements take more registers so: uint64 255, 186 before (sm_90).
        turned=whole and (not segmented or max(d.itemsize for d in written) <= shifting.WIDEST),
        by_words=by_words,
        woven=woven,
        may_repeat=True,
        abreast=1 if lanes is None else lanes.count,
        lanes_of_rows=together,
    )
    cut, flag_bits = cut_into(operands), None
    if marks is not None and takes_bits:
        flag_bits = _add_bits(cut, marks, full, axis, flat=row > 0)
    if marks is not None and flag_bits is None:
        read = marks.as_bytes()
        cut = cut_into([*operands, read.reshape(-1) if row else read])
    described = described_as(combine, cut, written, wanted, flag_bits, segmented=segmented)
    if lanes is not None:
        described = lanes.of(described)
    beside: list[jax.Array] = []
    if before is not None:
        beside, place = placed(before, full, axis)
        described = dataclasses.replace(described, start=place)
    outputs = run(described, cut, interpret, beside, single_pass(method, shape))
    kept = [dtype for dtype, u in zip(results, used, strict=True) if u]
    return joined([x.reshape(of_results) for x in outputs], kept)


def _add_bits(
    cut: Cut, marks: Marks, full: tuple[int, ...], axis: int, *, flat: bool
) -> Bits | None:
    """Adds words of flags to the operands that are cut; None where no tile can read these."""
    width, strips = marks.width(flat=flat), (cut.tuned.strip_or_tile, cut.tuned.held)
    if (
        width is None
        or cut.tuned.chunk
        or not all(spreading.fits(cut.geometry, s, width) for s in strips)
    ):
        return None
    words = marks.words(flat=flat)
    of_words = (*full[:axis], words.shape[axis], *full[axis + 1 :])
    operand, view = launch.view(words, of_words, axis)
    cut.operands.append(operand)
    return Bits(view, width)


def _row(
    operands: Sequence[Any],
    results: Sequence[np.dtype],
    full: tuple[int, ...],
    shape: tuning.Shape,
    *,
    reverse: bool,
) -> int:
    """The length of the rows, if these are better scanned one behind the other; else 0.

    Rows that begin inside of words would be read and written element by element. One behind the
    other they are an array that begins with a word, in which scans restart.
    """
    dtypes = [*(x.dtype for x in operands if x.size > 1), *results]
    aligned = all(shape.n * dtype.itemsize % 16 == 0 for dtype in dtypes)
    # The end of a lone row is compiled apart (`Scan.on_tile`), but for logaddexp of halves, which
    # walks it: 0.86 of copy speed in reverse, 0.64 to 0.68 forwards before (H100, 2026-11-27).
    apart = not (reverse or shape.segmented or tuning.is_heavy_half(shape))
    alone = shape.outer == 1 and apart
    whole = all(x.size in (1, math.prod(full)) for x in operands)
    fits = (shape.outer + 1) * shape.n < extent.FAR
    suits = shape.inner == 1 and not aligned and not alone and whole and fits and not shape.large
    return shape.n if suits and tuning.suits_one_row(shape) else 0


def _are_wide(flags: jax.Array, leaves: Sequence[jax.Array], beside: Sequence[int]) -> bool:
    """Whether flags that lanes share are wider than a leaf, which would be read as they are.

    Singly: float16 products of (100277, 256) by flags of int32 took 512 accesses for 128 (sm_90).
    Of few lanes a pass over the flags costs more: logaddexp of (14999659, 5), bfloat16, 325 µs, 351
    with it (H100, 2026-11-26).
    """
    lanes, full = math.prod(beside), max(leaf.size for leaf in leaves)
    own = flags.size // max(1, math.prod(flags.shape[: flags.ndim - len(beside)]))
    shared = lanes >= tuning.THREADS and own == 1 and flags.size < full
    return shared and flags.dtype.itemsize > min(leaf.dtype.itemsize for leaf in leaves)


def _together(
    leaves: Sequence[jax.Array], flags: jax.Array | None, start: Start
) -> tuple[list[jax.Array], jax.Array | None, Start]:
    """The operands of a scan with a start; the leaves have the full shape together."""
    given = [*leaves, *([] if flags is None else [flags]), *start.arrays]
    given = extent.vary_alike(given)
    full = extent.full_shape(given)
    count = len(leaves)
    beside = given[count : count + 1] if flags is not None else []
    leaves, rest = extent.at_full_size(given[:count], full, beside), given[count:]
    if flags is not None:
        flags, *rest = rest
    return leaves, flags, Start(rest[:count], None if start.open is None else rest[count])


def _takes_a_lead(
    combine: Combine, used: tuple[bool, ...], exclusive: bool, segmented: bool
) -> bool:
    """Whether places in front of a row can be filled with what leaves no trace."""
    return exclusive or segmented or _neutral_is_known(combine, used)


def _neutral_is_known(combine: Combine, used: tuple[bool, ...]) -> bool:
    return _is_linear(combine) or front(prepare(combine), used) is not None


def _is_linear(combine: Combine) -> bool:
    return is_logaddexp(combine) or is_complex_logaddexp(combine)


def described_as(
    combine: Combine,
    cut: Cut,
    results: tuple[np.dtype, ...],
    used: tuple[bool, ...],
    flag_bits: Bits | None,
    *,
    segmented: bool,
) -> Scan:
    """The scan as its kernels see it; flags are the last operand where it is ``segmented``."""
    by_bytes = segmented and flag_bits is None
    operator, apart = once(prepare(combine)), combine.apart and cut.geometry.exclusive
    return Scan(
        geometry=cut.geometry,
        operator=operator,
        dtypes=tuple(np.dtype(a.dtype) for a in operator.out_avals),
        results=results,
        identity=None if combine.identity is None else tuple(real_identity(combine.identity)),
        used=used,
        linear=_is_linear(combine) and not apart,
        views=cut.views[:-1] if by_bytes else cut.views,
        flag_view=cut.views[-1] if by_bytes else None,
        flag_bits=flag_bits,
        restarts_at_rows=cut.geometry.row > 0,
        identity_apart=apart,
        restarts_at_second=apart and not segmented and cut.geometry.row == 0,
    )


def run(
    scan: Scan,
    cut: Cut,
    interpret: bool,
    beside: Sequence[jax.Array] = (),
    method: str = "lookback",
) -> list[jax.Array]:
    """Runs the kernels of a scan. Operands that are not cut into tiles come ``beside``."""
    in_strips = method == "reduce_then_scan" and cut.tuned.strip > 0
    if scan.geometry.tiles == 1 and not in_strips:
        body: Callable[..., None] = functools.partial(block.kernel, scan)
        return cut.call(scan, beside, body, None, "jscan_block", interpret)
    if method == "reduce_then_scan":
        return reduce_then_scan.run(scan, cut, interpret, beside)
    if method == "scan_then_propagate":
        return scan_then_propagate.run(scan, cut, interpret, beside)
    if method == "chained":
        body = functools.partial(chained.kernel, scan)
        return cut.call(scan, beside, body, chained.tile_state(scan), "jscan_chained", interpret)
    words = cut.tuned.window * cut.tuned.lanes
    assert cut.tuned.warps == 1 or words >= 32 * cut.tuned.warps, cut.tuned
    walks = cut.tuned.strip > 0 and scan.geometry.row > scan.geometry.length
    walks = walks and scan.neutral is not None and not scan.flagged
    if method == "repeatable":
        body = functools.partial(repeatable.kernel, scan, cut.tuned, walks=walks)
        state = repeatable.tile_state(scan, cut.tuned)
        return cut.call(scan, beside, body, state, "jscan_repeatable", interpret)
    body = functools.partial(lookback.kernel, scan, cut.tuned, walks=walks)
    return cut.call(scan, beside, body, lookback.tile_state(scan), "jscan_lookback", interpret)
