"""What compaction becomes for a GPU."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import jax
import pytest

import jscan
from jscan import engines
from tests.kernels.test_lowering import calls, cuda_program

N = 5000
ENCODE = partial(jscan.run_length_encode, size=70)
DECODE = partial(jscan.run_length_decode, size=N)
CALLS: dict[str, tuple[int, Any, list[tuple[int, ...]], list[str]]] = {
    "nonzero": (1, partial(jscan.nonzero, size=3000), [(N,)], ["bool"]),
    "nonzero of rows": (1, partial(jscan.nonzero, size=3000), [(50, 100)], ["uint8"]),
    "histogram": (1, partial(jscan.histogram, length=9), [(N,)], ["uint8"]),
    "histogram of many numbers": (0, partial(jscan.histogram, length=999), [(N,)], ["int16"]),
    "partition": (1, jscan.partition, [(N,), (N,)], ["float32", "int8"]),
    "run_length_encode": (1, ENCODE, [(N,)], ["int32"]),
    "run_length_encode of floats": (1, ENCODE, [(N,)], ["float32"]),
    "run_length_decode": (2, DECODE, [(300,), (300,)], ["float32", "int32"]),
    "unique_sorted": (1, partial(jscan.unique_sorted, size=70), [(N,)], ["uint16"]),
}
"""How many kernels run, the function, and its operands."""


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_how_many_kernels_run(name, batched):
    kernels, function, shapes, dtypes = CALLS[name]
    lead = (6,) if batched else ()
    operands = [
        jax.ShapeDtypeStruct((*lead, *shape), dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    program = cuda_program(jax.vmap(function) if batched else function, *operands)
    assert calls(program) == kernels
    assert not re.search(r"stablehlo\.(sort|while)", program)


@pytest.mark.parametrize(("n", "looks_back"), [(2, False), (2**16, True)])
def test_parts_of_one_tile_wait_for_nothing(n, looks_back):
    """Triton 3.6 fails to compile a wait of which it knows that it never begins."""
    operands = [jax.ShapeDtypeStruct((n,), dtype) for dtype in ("float32", "int8")]
    with engines.writing() as written:
        jax.jit(jscan.partition).trace(*operands).lower(lowering_platforms=("cuda",))
    [program] = written.programs
    assert ("atomic" in program.text) == looks_back
