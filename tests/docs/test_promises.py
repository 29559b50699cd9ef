"""What the documentation promises of each method, where another test does not say it already."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from benchmarks.measuring import rounding
from jscan.arguments.choices import METHODS
from tests.docs.test_examples import ROOT
from tests.kernels.test_lowering import TRITON, array, cuda_program

PAGE = (ROOT / "docs" / "repeatable.md").read_text(encoding="utf-8")
FIXED = ("block", "chained", "repeatable", "reduce_then_scan", "scan_then_propagate")
LONG = 2**24


def promised(column):
    """A column of the table, by method."""
    table = PAGE.split("## What each method promises")[1].split("\n\n")[1]
    rows = [line.strip("|").split("|") for line in table.splitlines()]
    place = [cell.strip() for cell in rows[0]].index(column)
    return {row[0].strip(' `"'): row[place].strip() for row in rows[2:]}


def allocated(method):
    """The shapes of what the kernels of a sum of float32 write besides its result."""
    program = cuda_program(lambda x: jscan.cumsum(x, method=method), array(LONG))
    calls = [line.rsplit("->", 1)[1] for line in program.splitlines() if TRITON in line]
    shapes = [s for line in calls for s in re.findall(r"tensor<([^>]*)>", line)]
    shapes.remove(f"{LONG}xf32")
    return shapes


def test_every_method_has_its_promises():
    assert set(promised("how a tile waits")) == set(METHODS) - {"auto"}


def test_those_with_fixed_groups_are_the_ones_that_repeat():
    fixed = [
        m for m, groups in promised("groups of elements").items() if groups == "fixed by the shape"
    ]
    assert sorted(fixed) == sorted([*FIXED, "xla"])


@pytest.mark.parametrize(
    ("method", "tile", "tickets"),
    [("lookback", 4096, 0), ("serial_lookback", 4096, 0), ("chained", 32768, 1)],
)
def test_memory_of_methods_that_wait(method, tile, tickets):
    """A tile has a word of 8 bytes, as two of 4; and there is one for the tickets."""
    [words] = [int(n) for n in re.findall(r"^(\d+)x2xi32$", "\n".join(allocated(method)), re.M)]
    assert words == LONG // tile + tickets


def test_memory_of_groups():
    """Beside two words for each tile 16 copies of those for each group and supergroup."""
    [words] = [
        int(n) for n in re.findall(r"^(\d+)x2xi32$", "\n".join(allocated("repeatable")), re.M)
    ]
    tiles = LONG // 4096
    assert words == 2 * (tiles + 16 * (tiles // 16 + tiles // 256))
    assert words < 2 * 2.07 * tiles


def test_memory_of_two_passes():
    sizes = [
        np.prod([int(n) for n in re.findall(r"(\d+)x", s)]) for s in allocated("reduce_then_scan")
    ]
    assert len(sizes) == 2  # totals of parts, and the scan of them
    assert max(sizes) <= 2112


def test_memory_of_scan_then_propagate():
    large = [s for s in allocated("scan_then_propagate") if s.startswith(str(LONG))]
    assert large == [f"{LONG}xf32"]


@pytest.mark.parametrize("method", [m for m in METHODS if m != "auto"])
def test_no_element_goes_through_more_additions_than_are_promised(method):
    formula = promised("additions of float32 that an element goes through, at most")[method]
    formula = formula.replace("log2 n", "* log2(n)").replace("135 log2(n)", "135 * log2(n)")
    lengths = (1000, 4096) if method == "block" else (2**20, 2**24 + 1, 2**28)
    for n in lengths:
        most = eval(formula, {"n": n, "log2": np.log2})
        assert rounding.depth(method, n) <= most
    assert rounding.depth(method, n) > most / 2, "and not by far fewer"


@pytest.mark.gpu
@pytest.mark.parametrize("method", FIXED)
def test_twenty_runs_give_the_same_bits(method):
    n = 4096 if method == "block" else 2**22 + 1
    x = jax.random.normal(jax.random.key(0), (n,))
    heads = jax.random.uniform(jax.random.key(1), (n,)) < 0.001
    ids = jnp.cumsum(heads.astype(jnp.int32))
    count = int(ids[-1]) + 1

    @jax.jit
    def run(x, heads, ids):
        sums = jscan.cumsum(x, method=method), jscan.cumsum(x, segments=heads, method=method)
        totals = jscan.segment_sum(x, ids, count, True, method=method)
        return *sums, totals, jax.grad(lambda x: jscan.cumprod(x, method=method)[-1])(x)

    first = run(x, heads, ids)
    for _ in range(20):
        for one, other in zip(first, run(x, heads, ids), strict=True):
            assert one.tobytes() == other.tobytes()
