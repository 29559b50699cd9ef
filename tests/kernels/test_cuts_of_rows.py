"""Which cut rows get whose elements are neighbours in memory: words of 64 bits, and halves."""

from __future__ import annotations

from typing import Any

import pytest

from jscan.kernels import strategies, tuning
from jscan.kernels.tuning import Rows, Shape

ROW: dict[str, Any] = {
    "outer": 1,
    "n": 2**25,
    "inner": 1,
    "leaves": 1,
    "segmented": False,
    "equations": 1,
}


def fold(rows: Rows | None = None, **what: Any) -> tuple[int, int]:
    shape = Shape(**(ROW | what))
    cut = tuning.folded(shape, tuning.lookback(shape), rows or Rows())
    return cut.length, cut.fold


@pytest.mark.parametrize(
    ("row", "exclusive", "what", "length"),
    [
        (32003, False, {}, 1024),
        (32003, True, {}, 2048),
        (2**19 + 1, False, {}, 2048),
        (32003, True, {"complex": True, "leaves": 2}, 1024),
        (32003, False, {"width": 8, "leaves": 2}, 2048),
        (32003, False, {"n": 2**23}, 2048),
        (32003, False, {"width": 4}, 4096),
        (2**20 + 1, False, {"width": 4}, 4096),
    ],
)
def test_rows_of_64_bits_that_are_walked_are_in_short_tiles(row, exclusive, what, length):
    shape = Shape(**(ROW | {"width": 8, "exclusive": exclusive} | what))
    cut = tuning.rows(shape, row, walks=True, exclusive=exclusive, reverse=False)
    assert (cut.length, cut.strip) == (length, 512)


def test_extrema_of_one_odd_row():
    odd = Shape(**(ROW | {"n": 2**25 + 1, "width": 8, "wide_extrema": True, "extrema": True}))

    def length(shape: Shape, *, reverse: bool = False) -> int:
        tuned = tuning.chosen(shape, "auto", tuning.SCAN)
        way: dict[str, Any] = {"reverse": reverse, "exclusive": False}
        return strategies.settled(shape, tuned, "auto", **way).length

    assert length(odd) == 1024
    assert length(odd, reverse=True) == 512
    for other in ({"n": 2**25}, {"outer": 3}):
        assert length(Shape(**(vars(odd) | other))) == 512
    assert length(Shape(**(vars(odd) | {"segmented": True}))) < 512
    lie = Rows(row=32003)
    tuned = tuning.chosen(odd, "auto", tuning.SCAN)
    settled = strategies.settled(odd, tuned, "auto", reverse=False, exclusive=False, rows=lie)
    assert settled.length == 512


def test_sums_of_integers_of_64_bits_of_ragged_rows_are_folded():
    ragged: dict[str, Any] = {"outer": 2**10, "n": 30522, "width": 8, "integers": True}
    assert fold(**ragged) == (1024, 2)
    for other in (
        {"n": 2**15},
        {"integers": False},
        {"exclusive": True},
        {"n": 30523},
        {"equations": 3},
        {"extrema": True},
    ):
        assert not fold(**(ragged | other))[1]
    assert not fold(Rows(reverse=True), **ragged)[1]


def test_recurrences_of_integers_of_64_bits():
    recurrence: dict[str, Any] = {"leaves": 2, "width": 16, "equations": 3, "few_results": True}

    def length(**what: Any) -> int:
        return tuning.lookback(Shape(**(ROW | recurrence | {"outer": 40} | what))).length

    assert length(n=1877152, integers=True) == 256
    assert length(n=1877152) == length(n=2**20, integers=True) == 512
    assert length(n=1877153, integers=True) == length(n=30000, integers=True) == 512


def test_exclusive_words_of_rows():
    def length(**what: Any) -> int:
        return tuning.lookback(
            Shape(**(ROW | {"outer": 512, "n": 2**17, "width": 4} | what))
        ).length

    assert length(exclusive=True) == 2048
    assert length() == length(exclusive=True, outer=1, n=2**26) == 4096


def test_products_of_one_row():
    pair: dict[str, Any] = {"leaves": 2, "width": 8, "equations": 6}
    assert fold(**pair) == (2048, 4)
    assert fold(selects=True, **pair) == (1024, 4)
    assert fold(**{**pair, "equations": 9}) == (1024, 4)


def test_halves_of_rows():
    several: dict[str, Any] = {"width": 2, "equations": 3}
    row = Rows(row=50257, walks=True)
    assert fold(row, exclusive=True, **several) == (1024, 8)
    for other in ({"selects": True}, {"equations": 1}, {"leaves": 2, "width": 4}):
        assert fold(row, exclusive=True, **(several | other)) == (2048, 8)
    long_row = Rows(row=2**20 + 1, walks=True)
    assert fold(long_row, exclusive=True, **several) == fold(row, **several) == (2048, 8)
    roots: dict[str, Any] = {"width": 2, "equations": 4, "roots": True}
    assert fold(row, **roots) == fold(outer=512, n=2**17, **roots) == (1024, 8)
    assert fold(outer=2**14, n=1626, **roots) == (1024, 8)
    assert not fold(outer=2**14, n=1001, **roots)[1]
    assert fold(long_row, exclusive=True, **roots) == (2048, 8)


def test_rows_of_halves_under_roots_are_no_block():
    roots: dict[str, Any] = {"outer": 2**15, "width": 2, "equations": 4, "roots": True}
    assert tuning.suits_no_block(Shape(**(ROW | roots | {"n": 1626})))
    others: list[dict[str, Any]] = [{"n": 1624}, {"n": 1002}, {"outer": 9}, {"equations": 24}]
    others += [{name: True} for name in ("segmented", "long_steps")] + [{"roots": False}]
    for other in others:
        assert not tuning.suits_no_block(Shape(**(ROW | roots | {"n": 1626} | other)))


def test_three_halves_by_segments():
    three: dict[str, Any] = {"leaves": 3, "width": 6, "equations": 3, "segmented": True}
    assert fold(**three) == fold(Rows(row=9999), **three) == (1024, 8)
    assert fold(**(three | {"width": 7, "even": False})) == (1024, 8)
    assert not fold(Rows(row=99), **three)[1]
