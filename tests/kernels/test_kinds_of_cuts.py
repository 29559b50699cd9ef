"""Which cut some kinds of scans get: few lanes of long axes, and rows of several leaves."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jscan.kernels import strategies, tuning

_LANES: dict[str, Any] = {
    "outer": 1,
    "n": 2**20,
    "width": 4,
    "leaves": 1,
    "segmented": False,
    "equations": 1,
}


def test_few_lanes_of_long_axes_are_in_long_tiles():
    def cut(inner: int, **what: Any) -> tuning.Tuning:
        shape = tuning.Shape(**({**_LANES, "inner": inner} | what))
        return tuning.as_read(
            shape, tuning.lookback(shape), reverse=False, exclusive=False, may_weave=lambda _: True
        )

    by_segments: dict[str, Any] = {"segmented": True, "own_flags": True}
    of_16, of_32, of_64 = (
        tuning.Tuning(256, lanes, warps, window=16, chunk=16)
        for lanes, warps in ((16, 4), (32, 4), (64, 8))
    )
    pair: dict[str, Any] = {"leaves": 2, "equations": 3}
    assert cut(14, width=2, **by_segments) == cut(12, width=8, **by_segments) == of_16
    assert cut(11, width=16, **pair) == cut(12, **by_segments) == of_16
    assert cut(22, width=8, **pair) == cut(32, width=2) == cut(21, **by_segments) == of_32
    assert cut(55, width=8) == cut(47, width=2) == of_32
    assert cut(37) == cut(50, width=2) == of_64
    others = [cut(12), cut(22), cut(22, n=2**12, width=8), cut(37, **by_segments), cut(14, width=1)]
    others += [cut(22, width=8, long_steps=True, **pair), cut(19, width=2, segmented=True)]
    assert not any(found in (of_16, of_32, of_64) for found in others)


def test_lanes_that_cannot_be_woven_are_cut_as_if_they_were():
    shape = tuning.Shape(**{**_LANES, "inner": 4, "width": 4, "leaves": 2, "equations": 3})

    def cut(shape: tuning.Shape, *, weaves: bool) -> tuning.Tuning:
        tuned = tuning.lookback(shape)
        return tuning.as_read(
            shape, tuned, reverse=True, exclusive=False, may_weave=lambda _: weaves
        )

    woven = cut(shape, weaves=True)
    assert woven.woven == 8
    assert cut(shape, weaves=False) == dataclasses.replace(woven, woven=0)
    by_segments = dataclasses.replace(shape, n=2**21, inner=3, segmented=True)
    assert cut(by_segments, weaves=False) != dataclasses.replace(
        cut(by_segments, weaves=True), woven=0
    )


def test_rows_of_several_kinds_are_folded():
    row: dict[str, Any] = {**_LANES, "inner": 1, "n": 2**25}

    def fold(*, outer: int = 1, reverse: bool = False, **what: Any) -> tuning.Tuning:
        shape = tuning.Shape(**(row | {"outer": outer} | what))
        rows = tuning.Rows(shape.n, walks=False, flags=0, reverse=reverse)
        return tuning.folded(shape, tuning.lookback(shape), rows)

    def folds(length: int, count: int, warps: int = 1) -> tuning.Tuning:
        return tuning.Tuning(length, 1, warps, window=32 * warps, fold=count)

    own: dict[str, Any] = {"leaves": 2, "even": False, "equations": 4, "selects": True}
    assert fold(outer=2, width=5, **own) == folds(1024, 8)
    assert fold(outer=2, width=9, **own) == fold(width=9, **own) == folds(1024, 2)
    assert fold(width=5, **own) == folds(2048, 8)
    assert fold(width=3, exclusive=True, **own) == folds(2048, 8, warps=2)
    of_complex: dict[str, Any] = {
        "width": 9,
        "leaves": 3,
        "even": False,
        "complex": True,
        "equations": 7,
    }
    assert fold(**of_complex) == fold(outer=2, **of_complex) == folds(1024, 2)
    welford: dict[str, Any] = {"width": 12, "leaves": 3, "equations": 10}
    assert fold(segmented=True, **welford) == folds(512, 4)
    assert fold(width=2, equations=4, selects=True) == folds(2048, 8)
    assert fold(width=8, equations=4) == folds(1024, 2)
    assert fold(width=16, leaves=2, equations=3, exclusive=True) == folds(1024, 2)
    assert not fold(width=16, leaves=2, equations=3).fold
    heavy: dict[str, Any] = {"width": 16, "leaves": 2, "equations": 8, "long_steps": True}
    assert fold(segmented=True, **heavy) == folds(256, 4)
    mixed: dict[str, Any] = {"width": 9, "leaves": 3, "even": False, "equations": 3}
    assert fold(**mixed) == fold(outer=2, segmented=True, **mixed) == folds(1024, 4)
    assert fold(n=2**25 - 2, width=2) == fold(width=2, exclusive=True) == folds(4096, 8)
    assert fold(width=2) == fold(width=2, reverse=True) == folds(4096, 8)
    assert not fold(width=2, widened_sums=True).fold
    assert not fold(n=2**25 - 2, width=2, reverse=True).fold
    assert fold(outer=2, width=2, equations=4) == folds(2048, 8)
    assert fold(outer=2, width=4, leaves=2, equations=3) == folds(1024, 8)
    of_bytes: dict[str, Any] = {"width": 1, "segmented": True}
    assert fold(**of_bytes).fold == 16
    assert not fold(wider_results=True, **of_bytes).fold


def test_pairs_of_words_are_folded_by_the_length_of_rows():
    shape = tuning.Shape(1, 2**25 + 2, 1, 8, 2, segmented=False, equations=3)

    def fold(row: int, *, reverse: bool, walks: bool = True) -> tuple[int, int]:
        rows = tuning.Rows(row, walks=walks, flags=0, reverse=reverse)
        folded = tuning.folded(shape, tuning.lookback(shape), rows)
        return folded.length, folded.fold

    assert fold(2**20, reverse=True) == fold(2**20, reverse=False) == (2048, 4)
    assert fold(9999, reverse=True) == (1024, 4)
    assert fold(9999, reverse=True, walks=False) == (512, 4)


def test_logaddexp_of_rows_is_in_short_tiles():
    logaddexp: dict[str, Any] = {"equations": 20, "long_steps": True, "inner": 1}

    def cut(**what: Any) -> tuple[int, int]:
        found = tuning.lookback(tuning.Shape(**(_LANES | logaddexp | what)))
        return found.length, found.warps

    assert cut(outer=256, n=2**17, width=2) == cut(outer=256, n=2**17) == (1024, 1)
    assert cut(n=2**26 + 1) == (4096, 4)
    assert cut(n=2**26) == cut(n=2**26, width=2) == (4096, 1)
    of_complex: dict[str, Any] = {"width": 8, "leaves": 2, "complex": True, "equations": 99}
    assert cut(n=2**26, **of_complex) == (2048, 4)


@pytest.mark.parametrize(
    ("outer", "n", "reverse", "length"),
    [
        (2**14, 7076, True, 512),
        (2**14, 7076, False, 2048),
        (2**14, 3023, True, 1024),
        (1, 2**26, True, 1024),
        (1, 2**26, False, 2048),
    ],
)
def test_words_of_eight_bytes_that_are_turned_are_in_short_tiles(outer, n, reverse, length):
    row: dict[str, Any] = {"outer": outer, "n": n, "inner": 1, "width": 8, "integers": True}
    shape = tuning.Shape(**(_LANES | row))
    assert _settled(shape, reverse=reverse).length == length


def _settled(shape: tuning.Shape, *, reverse: bool) -> tuning.Tuning:
    tuned = tuning.chosen(shape, "auto", tuning.SCAN)
    return strategies.settled(shape, tuned, "auto", reverse=reverse, exclusive=False)


def test_whole_rows_of_integers_from_their_ends_are_by_two_warps():
    rows: dict[str, Any] = {"outer": 2**15, "n": 1867, "inner": 1, "integers": True}

    def warps(*, reverse: bool = True, **what: Any) -> int:
        return _settled(tuning.Shape(**(_LANES | rows | what)), reverse=reverse).warps

    assert warps() == 2
    assert warps(reverse=False) == warps(integers=False) == warps(n=1868) == warps(n=1001) == 1


def test_pairs_of_many_steps_beside_lanes_are_in_tiles_of_32_positions():
    pair: dict[str, Any] = {"leaves": 2, "width": 8, "equations": 8, "segmented": True}

    def length(**what: Any) -> int:
        return tuning.lookback(tuning.Shape(**({**_LANES, "inner": 2048} | pair | what))).length

    assert length() == length(width=16, segmented=False) == 32
    assert length(exclusive=True) == length(leaves=1, width=8, inner=999) == 16
    assert length(leaves=4, width=32) == length(leaves=4, width=16) == 16


def test_cuts_beside_lanes_by_an_h200():
    of_bytes = tuning.Tuning(48, 128, 1, window=1, strip=8, ahead=True, shared=8)
    shape = tuning.Shape(**{**_LANES, "n": 47, "inner": 2**20})
    assert tuning.walked_words(shape, of_bytes, odd=True).strip == 4
    assert tuning.walked_words(shape, dataclasses.replace(of_bytes, shared=0), odd=False).strip == 8

    def down(**what: Any) -> tuple[int, int]:
        found = tuning.down_lanes(tuning.Shape(**{**_LANES, "n": 130, "inner": 2**19 + 1} | what))
        assert found is not None
        return found.lanes, found.strip

    assert down(segmented=True) == (128, 4)
    assert down() == down(segmented=True, exclusive=True) == (128, 8)
    assert down(width=2) == (64, 16)
    assert down(width=2, segmented=True) == (64, 8)
    whole: dict[str, Any] = {"width": 2, "exclusive": True, "inner": 128256, "n": 458}
    assert down(**whole) == (128, 16)
    assert down(segmented=True, **whole) == (128, 8)
    three: dict[str, Any] = {"leaves": 3, "width": 9, "equations": 3, "inner": 36108, "n": 2048}
    assert down(even=False, **three)[0] == 64

    def block(n: int, inner: int, **what: Any) -> tuple[int, int]:
        found = tuning.block(tuning.Shape(**{**_LANES, "n": n, "inner": inner} | what))
        assert found is not None
        return found.rows, found.warps

    halves: dict[str, Any] = {"width": 2, "segmented": True}
    assert block(3, 2**24, **halves) == (1, 2)
    assert block(3, 2**24, **halves | {"leaves": 2, "width": 4}) == (1, 1)
    logaddexp: dict[str, Any] = {"segmented": True, "long_steps": True, "equations": 20}
    assert block(223, 1, outer=2**16, **logaddexp)[0] == 1
    assert block(256, 1, outer=2**16, **logaddexp)[0] == 2


def test_a_walk_by_one_warp_holds_as_much_as_one_of_several():
    shape = tuning.Shape(**{**_LANES, "n": 2**25, "inner": 1, "width": 2, "leaves": 2})
    several, one = tuning.lookback(shape), tuning.serial(shape)
    assert several.warps == 2
    assert (one.length, one.warps, one.window) == (several.length // 2, 1, 1)
