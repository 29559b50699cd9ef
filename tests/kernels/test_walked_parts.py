"""Parts of lanes that threads walk in two passes, each kind that is chosen, beside a loop."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jscan.kernels import tuning
from jscan.kernels.tuning import walked_parts
from tests import reference
from tests.engines import by_kernel
from tests.functions import affine
from tests.kernels.cut_scans import Scan, add, scanned


def exponentials(a: Any, b: Any) -> Any:
    """A maximum, and a sum that is scaled to it."""
    top = jax.numpy.maximum(a[0], b[0])
    return top, a[1] * jax.numpy.exp(a[0] - top) + b[1] * jax.numpy.exp(b[0] - top)


Cut = tuple[int, int, int]
"""Lanes, strips and shared lanes of parts."""


CASES: dict[str, tuple[Scan, Cut]] = {
    "wide, few lanes": (Scan("int64", 1, add, (500, 5), "own"), (8, 64, 0)),
    "wide, some lanes": (Scan("int64", 1, add, (300, 19), "shared"), (32, 16, 0)),
    "of a batch": (Scan("int64", 1, add, (3, 90, 19), "shared"), (32, 16, 0)),
    "wide pairs": (Scan("int64", 2, affine, (600, 6), "shared"), (8, 64, 0)),
    "wide pairs, whole": (Scan("int64", 2, affine, (600, 11), None), (16, 64, 0)),
    "exponentials": (Scan("float64", 2, exponentials, (300, 3), "own"), (4, 64, 0)),
    "three words": (Scan("int32", 3, add, (400, 3), "own"), (4, 64, 0)),
    "pairs of words": (Scan("int32", 2, affine, (300, 19), "own"), (32, 16, 0)),
    "pairs of words, few lanes": (Scan("int32", 2, affine, (300, 5), "own"), (8, 32, 0)),
    "pairs of halves": (Scan("int16", 2, affine, (600, 8), "shared"), (8, 64, 0)),
    "pairs of halves by own flags": (Scan("int16", 2, affine, (200, 41), "own"), (64, 16, 0)),
    "bytes": (Scan("int8", 1, add, (600, 28), "own"), (32, 16, 0)),
    "halves of a warp": (Scan("int16", 1, add, (300, 32), "shared"), (32, 16, 0)),
    "complex, many lanes": (Scan("complex64", 2, affine, (100, 67), "shared"), (32, 8, 8)),
    "complex, of sectors": (Scan("complex64", 2, affine, (100, 68), "own"), (32, 8, 0)),
    "many exponentials": (Scan("float64", 2, exponentials, (100, 66), "shared"), (32, 16, 4)),
    "three wide": (Scan("int64", 3, add, (100, 65), "own"), (32, 8, 4)),
    "three doubles": (Scan("float64", 3, add, (300, 7), None), (8, 32, 0)),
    "three doubles by segments": (Scan("float64", 3, add, (200, 11), "shared"), (16, 16, 0)),
    "halves behind": (Scan("int16", 1, add, (300, 131), "own", exclusive=True), (64, 16, 16)),
    "halves by own flags": (Scan("int16", 1, add, (300, 36), "own"), (64, 16, 0)),
    "one column of halves": (Scan("int16", 1, add, (300, 89), None), (128, 32, 0)),
    "one column, behind": (Scan("int16", 1, add, (300, 73), None, exclusive=True), (128, 32, 0)),
    "one column of pairs": (Scan("int16", 2, affine, (300, 113), "own"), (128, 16, 0)),
    "one column of bytes": (Scan("int8", 2, affine, (300, 113), None), (128, 16, 0)),
    "long pairs of halves": (Scan("int16", 2, affine, (300, 131), "own"), (64, 8, 16)),
}


@pytest.mark.parametrize("name", CASES)
@by_kernel
def test_what_is_chosen(strategy, name, monkeypatch):
    """In one direction each."""
    monkeypatch.setattr(walked_parts, "ENOUGH", 0)
    monkeypatch.setattr(walked_parts, "LONGER", 16)
    monkeypatch.setattr(walked_parts, "COLUMN", 256)
    (scan, wanted_cut), reverse = CASES[name], len(name) % 2 == 0
    found = scanned(strategy, scan, monkeypatch, reverse=reverse)
    for actual, wanted in found.pairs:
        if scan.combine is exponentials:
            np.testing.assert_allclose(actual, wanted, rtol=1e-12, atol=1e-12)
        else:
            reference.assert_equal(actual, wanted)
    [(method, cut)] = found.cuts
    assert method == "reduce_then_scan"
    assert cut.length < scan.shape[-2], "it is one part"
    assert (cut.lanes, cut.strip, cut.shared) == wanted_cut


def test_who_keeps_tiles_that_look_back():
    long: dict[str, Any] = {"segmented": True, "equations": 2}
    shape = tuning.Shape(1, 2**20, 40, 8, 1, own_flags=True, **long)
    assert walked_parts.of_lanes(shape) is not None
    for other in (
        tuning.Shape(1, 2**20, 40, 8, 1, **long),  # by flags that lanes share
        tuning.Shape(1, 2**20, 40, 4, 1, **long),  # one word
        tuning.Shape(1, 2**20, 40, 8, 1, segmented=False, equations=2),
        tuning.Shape(1, 2**11, 2**12, 8, 1, **long),  # too short
        tuning.Shape(128, 2**14, 40, 8, 1, **long),  # columns enough
        tuning.Shape(1, 2**20, 64, 8, 1, **long),
        tuning.Shape(1, 2**20, 5, 72, 9, **long),  # it would spill
        tuning.Shape(1, 2**20, 2**17, 16, 4, complex=True, **long),  # one part
        tuning.Shape(1, 2**31, 40, 8, 1, **long),
        tuning.Shape(1, 2**20, 96, 2, 1, **long),  # whole sectors
        tuning.Shape(4, 2**20, 89, 2, 1, **long),  # columns enough
        tuning.Shape(1, 2**17, 89, 2, 1, **long),
        tuning.Shape(1, 2**20, 40, 8, 1, tile=tuning.Tuning(64, 32, 1, 2), **long),
    ):
        assert walked_parts.of_lanes(other) is None, other
