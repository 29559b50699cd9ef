"""The cuts that are chosen beside lanes, each worked through, against a sequential loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jscan
from jscan.kernels import strategies, tuning
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine
from tests.functions import affine

by_kernel = pytest.mark.parametrize(
    "strategy",
    [
        Engine("lookback-interpreted", "lookback", (), interpreted=True),
        pytest.param(Engine("lookback-gpu", "lookback", (), gpu=True), marks=pytest.mark.gpu),
    ],
    ids=lambda e: e.name,
)


def add(a: Any, b: Any) -> Any:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def joined(a: Any, b: Any) -> Any:
    """Three equations; of signs no byte overflows but as both do."""
    return (a[0] + b[0] + a[0] * b[0],)


class Case(NamedTuple):
    """A scan along the first axis, and the cut that it has to have."""

    dtype: str
    leaves: int
    combine: Callable[[Any, Any], Any]
    shape: tuple[int, int]
    segmented: str | None
    exclusive: bool
    cut: dict[str, int]


HELD = {"held": 16}
CASES = {
    "wide by own flags": Case("int64", 1, add, (200, 67), "own", False, {"length": 64, **HELD}),
    "wide by shared flags": Case("int64", 1, add, (90, 70), "shared", True, {"lanes": 32, **HELD}),
    "wide pairs": Case("int64", 2, affine, (100, 67), "shared", False, {"length": 32, **HELD}),
    "pairs of words": Case("int32", 2, affine, (150, 66), "own", False, {"lanes": 32, **HELD}),
    "words": Case("int32", 1, add, (150, 203), "shared", False, {"length": 64, "shared": 8}),
    "words behind": Case("int32", 1, add, (100, 203), "own", True, {"length": 32, "shared": 8}),
    "whole words": Case("int32", 1, add, (4100, 64), "shared", False, {"length": 128, **HELD}),
    "many words": Case("int32", 1, add, (80, 1001), None, False, {"length": 64, "shared": 8}),
    "halves": Case("int16", 1, add, (150, 260), "own", False, {"length": 64, "shared": 16}),
    "odd halves by own flags": Case("int16", 1, add, (150, 259), "own", False, {"shared": 0}),
    "odd halves": Case("int16", 1, add, (150, 259), "shared", False, {"length": 32, "shared": 16}),
    "steep halves": Case("int16", 1, joined, (4200, 67), "own", True, {"strip": 16}),
    "odd pairs of bytes": Case("int8", 2, affine, (150, 131), "own", False, {"lanes": 32, **HELD}),
    "pairs of bytes in a chain": Case("int8", 2, affine, (2**14, 64), None, False, {"strip": 16}),
    "halves behind": Case(
        "int16", 1, add, (100, 259), "shared", True, {"length": 32, "shared": 16}
    ),
    "three halves": Case("int16", 3, add, (150, 66), None, False, {"length": 64, **HELD}),
    "three halves by flags": Case("int16", 3, add, (150, 66), "own", False, HELD),
    "pairs of halves": Case("int16", 2, affine, (4200, 67), "shared", False, {"strip": 16}),
    "bytes behind": Case("int8", 1, add, (300, 131), "shared", True, {"warps": 4, **HELD}),
    "bytes by shared flags": Case("int8", 1, add, (300, 136), "shared", False, {"strip": 16}),
    "bytes by own flags": Case("int8", 1, add, (300, 136), "own", False, {"strip": 8}),
    "heavy bytes": Case("int8", 1, joined, (600, 64), None, False, {"strip": 16}),
    "complex": Case("complex64", 1, add, (100, 67), "shared", False, {"length": 32, **HELD}),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@by_kernel
def test_what_is_chosen(strategy, case, reverse, monkeypatch):
    cuts: list[tuning.Tuning] = []
    settled = strategies.settled

    def recorded(*arguments: Any, **named: Any) -> tuning.Tuning:
        cuts.append(settled(*arguments, **named))
        return cuts[-1]

    monkeypatch.setattr("jscan.kernels.scanning.settled", recorded)
    rng = np.random.default_rng(7)
    values = tuple(rng.integers(-1, 2, case.shape).astype(case.dtype) for _ in range(case.leaves))
    if case.dtype == "complex64":
        values = tuple(x + 1j * np.flip(x) for x in values)
    flags, form = None, {"axis": 0, "reverse": reverse}
    if case.segmented:
        flags = head_flags(case.shape if case.segmented == "own" else case.shape[:1], share=0.05)
    if case.exclusive:
        form |= {"exclusive": True, "identity": tuple(np.zeros((), x.dtype) for x in values)}

    def call(*x: Any) -> Any:
        return jscan.associative_scan(case.combine, x, segments=flags, method="lookback", **form)

    with jax.enable_x64(True), strategy.active():
        found = jax.tree.map(np.asarray, jax.jit(call)(*values))
    expected = reference.scan(case.combine, values, flags=flags, **form)
    for actual, wanted in zip(found, expected, strict=True):
        reference.assert_equal(actual, wanted.astype(case.dtype))
    assert cuts
    for cut in cuts:
        assert case.cut.items() <= vars(cut).items(), cut
