"""The cuts that are chosen beside lanes, each worked through, against a sequential loop."""

from __future__ import annotations

from typing import Any

import pytest

from jscan.kernels.tuning import chunks, weaving
from tests import reference
from tests.engines import Engine
from tests.functions import affine
from tests.kernels.cut_scans import Scan, add, scanned

by_kernel = pytest.mark.parametrize(
    "strategy",
    [
        Engine("lookback-interpreted", "lookback", (), interpreted=True),
        pytest.param(Engine("lookback-gpu", "lookback", (), gpu=True), marks=pytest.mark.gpu),
    ],
    ids=lambda e: e.name,
)


def joined(a: Any, b: Any) -> Any:
    """Three equations; of signs no byte overflows but as both do."""
    return (a[0] + b[0] + a[0] * b[0],)


def case(*of_scan: Any, exclusive: bool, cut: dict[str, int]) -> tuple[Scan, dict[str, int]]:
    """A scan, and the cut that it has to have."""
    return Scan(*of_scan)._replace(exclusive=exclusive), cut


HELD = {"held": 16}
LONG_TILE = {"length": 256, "chunk": 16, "warps": 4}
CASES = {
    "wide by own flags": case(
        "int64", 1, add, (200, 67), "own", exclusive=False, cut={"length": 64, **HELD}
    ),
    "wide by shared flags": case(
        "int64", 1, add, (90, 70), "shared", exclusive=True, cut={"lanes": 32, **HELD}
    ),
    "wide pairs": case(
        "int64", 2, affine, (100, 67), "shared", exclusive=False, cut={"length": 32, **HELD}
    ),
    "pairs of words": case(
        "int32", 2, affine, (150, 66), "own", exclusive=False, cut={"lanes": 64, **HELD}
    ),
    "words": case(
        "int32", 1, add, (150, 203), "shared", exclusive=False, cut={"length": 64, "shared": 8}
    ),
    "words behind": case(
        "int32", 1, add, (100, 203), "own", exclusive=True, cut={"length": 32, "shared": 8}
    ),
    "whole words": case(
        "int32", 1, add, (4100, 64), "shared", exclusive=False, cut={"length": 128, **HELD}
    ),
    "many words": case(
        "int32", 1, add, (80, 1001), None, exclusive=False, cut={"length": 64, "shared": 8}
    ),
    "halves": case(
        "int16", 1, add, (150, 260), "own", exclusive=False, cut={"length": 64, "shared": 16}
    ),
    "odd halves by own flags": case(
        "int16", 1, add, (150, 259), "own", exclusive=False, cut={"shared": 0}
    ),
    "odd halves": case(
        "int16", 1, add, (150, 259), "shared", exclusive=False, cut={"length": 32, "shared": 16}
    ),
    "steep halves": case("int16", 1, joined, (4200, 67), "own", exclusive=True, cut={"strip": 16}),
    "odd pairs of bytes": case(
        "int8", 2, affine, (150, 131), "own", exclusive=False, cut={"lanes": 32, **HELD}
    ),
    "pairs of bytes in a chain": case(
        "int8", 2, affine, (2**14, 64), None, exclusive=False, cut={"strip": 16}
    ),
    "halves behind": case(
        "int16", 1, add, (100, 259), "shared", exclusive=True, cut={"length": 32, "shared": 16}
    ),
    "three halves": case(
        "int16", 3, add, (150, 66), None, exclusive=False, cut={"length": 64, **HELD}
    ),
    "three halves by flags": case("int16", 3, add, (150, 66), "own", exclusive=False, cut=HELD),
    "pairs of halves": case(
        "int16", 2, affine, (4200, 67), "shared", exclusive=False, cut={"strip": 16}
    ),
    "whole halves behind": case(
        "int16", 1, add, (150, 64), "own", exclusive=True, cut={"length": 64, **HELD}
    ),
    "pairs of whole halves": case(
        "int16", 2, affine, (150, 64), "own", exclusive=False, cut={"length": 64, **HELD}
    ),
    "three bytes": case(
        "int8", 3, add, (150, 64), None, exclusive=False, cut={"length": 64, **HELD}
    ),
    "three bytes by flags": case(
        "int8", 3, add, (150, 64), "shared", exclusive=False, cut={"length": 32, **HELD}
    ),
    "pairs of bytes by own flags": case(
        "int8", 2, affine, (150, 128), "own", exclusive=False, cut={"lanes": 128, "held": 8}
    ),
    "complex of whole sectors": case(
        "complex64", 1, add, (150, 64), "own", exclusive=False, cut={"length": 64, **HELD}
    ),
    "three words": case(
        "int32", 3, add, (150, 64), "own", exclusive=False, cut={"lanes": 32, **HELD}
    ),
    "three words, not of sectors": case(
        "int32", 3, add, (150, 67), None, exclusive=False, cut={"length": 32, "lanes": 64, **HELD}
    ),
    "words under three equations": case(
        "int32", 1, joined, (150, 64), "shared", exclusive=True, cut={"length": 64, **HELD}
    ),
    "bytes behind": case(
        "int8", 1, add, (300, 131), "shared", exclusive=True, cut={"warps": 4, **HELD}
    ),
    "bytes by shared flags": case(
        "int8", 1, add, (300, 136), "shared", exclusive=False, cut={"strip": 16}
    ),
    "bytes by own flags": case(
        "int8", 1, add, (300, 136), "own", exclusive=False, cut={"strip": 8}
    ),
    "heavy bytes": case("int8", 1, joined, (600, 64), None, exclusive=False, cut={"strip": 16}),
    "complex": case(
        "complex64", 1, add, (100, 67), "shared", exclusive=False, cut={"length": 32, **HELD}
    ),
    "few halves": case("float16", 1, add, (300, 14), "own", exclusive=False, cut=LONG_TILE),
    "few words": case("int32", 1, add, (600, 21), "shared", exclusive=True, cut=LONG_TILE),
    "few pairs": case("int32", 2, affine, (300, 26), None, exclusive=False, cut=LONG_TILE),
    "some wide": case("int64", 1, add, (300, 37), "shared", exclusive=False, cut=LONG_TILE),
    "some words": case("int32", 1, add, (300, 40), None, exclusive=True, cut={"lanes": 64}),
    "few halves woven": case(
        "int16", 1, add, (1100, 7), "shared", exclusive=True, cut={"woven": 8, "warps": 2}
    ),
    "nine words": case("int32", 1, add, (700, 9), "shared", exclusive=False, cut={"woven": 4}),
    "four pairs": case("int16", 2, affine, (1100, 4), None, exclusive=False, cut={"length": 1024}),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("scan", "cut"), CASES.values(), ids=list(CASES))
@by_kernel
def test_what_is_chosen(strategy, scan, cut, reverse, monkeypatch):
    for module in (weaving, chunks):
        monkeypatch.setattr(module, "ENOUGH", 0)  # as of many elements
    monkeypatch.setattr(chunks, "LONGER", 257)
    found = scanned(strategy, scan, monkeypatch, reverse=reverse)
    for actual, wanted in found.pairs:
        reference.assert_equal(actual, wanted)
    assert found.cuts
    for _, chosen in found.cuts:
        assert cut.items() <= vars(chosen).items(), chosen
