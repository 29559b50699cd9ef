"""A body as a call of Pallas, compiled or interpreted: of Pallas, what is not for Triton alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from jscan.kernels.language import Body, Ref


def run(
    body: Body,
    operands: Sequence[jax.Array],
    starts: Sequence[jax.Array],
    results: Sequence[jax.ShapeDtypeStruct],
    *,
    programs: int,
    name: str,
    **how: Any,
) -> list[jax.Array]:
    """Runs ``body`` in a grid of so many programs: see `jscan.kernels.engines.Engine`.

    ``how`` is for Pallas: parameters of a compiler, or ``interpret=True``, which runs one program
    after another by the meanings that the primitives have in plain JAX.
    """
    count, first, given = len(operands), len(results) - len(starts), [*starts]
    aliases = {count + i: first + i for i in range(len(given))}
    if how.get("interpret"):
        for i, result in enumerate(results[:first]):
            if result.dtype.kind == "c":  # of which the interpreter can make none
                aliases[count + len(given)] = i
                given.append(jnp.full(result.shape, np.nan, result.dtype))

    def kernel(*refs: Ref) -> None:
        body(pl.program_id(0), refs[:count] + refs[count + len(given) :])

    outputs = pl.pallas_call(
        kernel,
        grid=(programs,),
        out_shape=list(results),
        input_output_aliases=aliases,
        name=name,
        **how,
    )(*operands, *given)
    return list(outputs)
