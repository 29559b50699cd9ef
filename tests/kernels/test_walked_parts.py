"""Parts of lanes that threads walk in two passes, each kind that is chosen, beside a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jscan
from jscan.kernels import strategies, tuning
from jscan.kernels.tuning import walked_parts
from tests import reference
from tests.cases import head_flags
from tests.engines import Engine, by_kernel
from tests.functions import affine


def add(a: Any, b: Any) -> Any:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def exponentials(a: Any, b: Any) -> Any:
    """A maximum, and a sum that is scaled to it."""
    top = jax.numpy.maximum(a[0], b[0])
    return top, a[1] * jax.numpy.exp(a[0] - top) + b[1] * jax.numpy.exp(b[0] - top)


class Case(NamedTuple):
    """A scan along the last axis but one, and lanes, strips and shared lanes of its parts."""

    dtype: str
    leaves: int
    combine: Callable[[Any, Any], Any]
    shape: tuple[int, ...]
    segmented: str | None
    cut: tuple[int, int, int]
    exclusive: bool = False


CASES = {
    "wide, few lanes": Case("int64", 1, add, (500, 5), "own", (8, 64, 0)),
    "wide, some lanes": Case("int64", 1, add, (300, 19), "shared", (32, 16, 0)),
    "of a batch": Case("int64", 1, add, (3, 90, 19), "shared", (32, 16, 0)),
    "wide pairs": Case("int64", 2, affine, (600, 6), "shared", (8, 64, 0)),
    "wide pairs, whole": Case("int64", 2, affine, (600, 11), None, (16, 64, 0)),
    "exponentials": Case("float64", 2, exponentials, (300, 3), "own", (4, 64, 0)),
    "three words": Case("int32", 3, add, (400, 3), "own", (4, 64, 0)),
    "pairs of words": Case("int32", 2, affine, (300, 19), "own", (32, 16, 0)),
    "pairs of words, few lanes": Case("int32", 2, affine, (300, 5), "own", (8, 32, 0)),
    "pairs of halves": Case("int16", 2, affine, (600, 8), "shared", (8, 64, 0)),
    "pairs of halves by own flags": Case("int16", 2, affine, (200, 41), "own", (64, 16, 0)),
    "bytes": Case("int8", 1, add, (600, 28), "own", (32, 16, 0)),
    "halves of a warp": Case("int16", 1, add, (300, 32), "shared", (32, 16, 0)),
    "complex, many lanes": Case("complex64", 2, affine, (100, 67), "shared", (32, 8, 8)),
    "complex, of sectors": Case("complex64", 2, affine, (100, 68), "own", (32, 8, 0)),
    "many exponentials": Case("float64", 2, exponentials, (100, 66), "shared", (32, 16, 4)),
    "three wide": Case("int64", 3, add, (100, 65), "own", (32, 8, 4)),
    "halves behind": Case("int16", 1, add, (300, 131), "own", (64, 16, 16), exclusive=True),
    "long pairs of halves": Case("int16", 2, affine, (300, 131), "own", (64, 8, 16)),
}


@pytest.mark.parametrize("name", CASES)
@by_kernel
def test_what_is_chosen(strategy, name, monkeypatch):
    """In one direction each."""
    case, reverse = CASES[name], len(name) % 2 == 0
    found = _scanned(strategy, case, reverse, monkeypatch)
    lanes, strip, shared = case.cut
    assert (found.lanes, found.strip, found.shared) == (lanes, strip, shared)


def _scanned(
    strategy: Engine, case: Case, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> tuning.Tuning:
    """Compares the scan with a loop's; returns its cut."""
    monkeypatch.setattr(walked_parts, "ENOUGH", 0)
    monkeypatch.setattr(walked_parts, "LONGER", 16)
    cuts: list[tuning.Tuning] = []
    settled = strategies.settled

    def recorded(shape: Any, tuned: Any, method: str, **named: Any) -> tuning.Tuning:
        assert method == "reduce_then_scan"
        cuts.append(settled(shape, tuned, method, **named))
        return cuts[-1]

    monkeypatch.setattr("jscan.kernels.scanning.settled", recorded)
    rng, axis = np.random.default_rng(11), len(case.shape) - 2
    values = tuple(rng.integers(-1, 2, case.shape).astype(case.dtype) for _ in range(case.leaves))
    if case.dtype == "complex64":
        values = tuple(x + 1j * np.flip(x) for x in values)
    flags, form = None, dict[str, Any](axis=axis, reverse=reverse)
    if case.segmented:
        flags = head_flags(case.shape if case.segmented == "own" else case.shape[:-1], share=0.03)
    if case.exclusive:
        form |= {"exclusive": True, "identity": tuple(np.zeros((), x.dtype) for x in values)}

    def call(*x: Any) -> Any:
        return jscan.associative_scan(case.combine, x, segments=flags, method="auto", **form)

    with jax.enable_x64(True), strategy.active():
        actual = jax.tree.map(np.asarray, jax.jit(call)(*values))
        expected = reference.scan(case.combine, values, flags=flags, **form)
    for one, wanted in zip(actual, expected, strict=True):
        if case.combine is exponentials:
            np.testing.assert_allclose(one, wanted, rtol=1e-12, atol=1e-12)
        else:
            reference.assert_equal(one, wanted.astype(case.dtype))
    assert len(cuts) == 1
    assert cuts[0].length < case.shape[axis], "it is one part"
    return cuts[0]


def test_who_keeps_tiles_that_look_back():
    long: dict[str, Any] = {"segmented": True, "equations": 2}
    shape = tuning.Shape(1, 2**20, 40, 8, 1, **long)
    assert walked_parts.of_lanes(shape) is not None
    for other in (
        tuning.Shape(1, 2**20, 40, 4, 1, **long),  # one word
        tuning.Shape(1, 2**20, 40, 8, 1, segmented=False, equations=2),
        tuning.Shape(1, 2**11, 2**12, 8, 1, **long),  # too short
        tuning.Shape(128, 2**14, 40, 8, 1, **long),  # columns enough
        tuning.Shape(1, 2**20, 64, 8, 1, **long),
        tuning.Shape(1, 2**20, 5, 72, 9, **long),  # it would spill
        tuning.Shape(1, 2**20, 2**17, 16, 4, complex=True, **long),  # one part
        tuning.Shape(1, 2**31, 40, 8, 1, **long),
        tuning.Shape(1, 2**20, 40, 8, 1, tile=tuning.Tuning(64, 32, 1, 2), **long),
    ):
        assert walked_parts.of_lanes(other) is None, other
