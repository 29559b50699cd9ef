"""Arrays of one value.

XLA writes a constant of 179 MB in 211 µs, this kernel in 50: 0.2 and 0.8 of copy speed (H200,
2026-11-22, benchmarks/NOTES.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan.kernels import language, launch
from jscan.kernels.language import Ref
from jscan.kernels.layout import Geometry
from jscan.kernels.registers import constant
from jscan.kernels.tile import Tile

LENGTH = 4096
SMALL = 2**18
"""Up to this many elements XLA's constant costs no more, and XLA fuses it with other kernels."""


def filled(size: int, value: Any, varies: Any, *, interpret: bool) -> jax.Array:
    """An array of ``size`` times the NumPy scalar ``value``, of the manual axis type ``varies``."""
    dtype = np.dtype(value.dtype)
    if size <= SMALL or interpret:
        return jnp.full((size,), value, dtype)
    bits = bits_of(value)
    geometry = Geometry(1, size, 1, 1, LENGTH, 1, False, False)

    def kernel(program: jax.Array, refs: Sequence[Ref]) -> None:
        [result] = refs
        tile, values = Tile(geometry, program), constant(geometry.shape, bits)
        if size % LENGTH == 0:
            tile.store(result, values)
            return
        # Masks of an end inside of a word would make every write one of a single element.
        last = tile.index == np.int32(geometry.tiles - 1)
        language.when(last, lambda: tile.store(result, values))
        language.when(~last, lambda: tile.without_ends(of_rows=False).store(result, values))

    [words] = launch.call(
        *(kernel, [], [(size, bits.dtype)]),
        programs=geometry.programs,
        warps=4,
        name="jscan_fill",
        interpret=interpret,
        varies=varies,
    )
    if dtype == jnp.bool_:
        return words != 0
    result: jax.Array = jax.lax.bitcast_convert_type(words, dtype)
    return result


def bits_of(value: Any) -> Any:
    """A NumPy scalar as an integer: Booleans and narrow floats are written as their bits."""
    return np.asarray(value).view(f"int{8 * np.dtype(value.dtype).itemsize}")[()]
