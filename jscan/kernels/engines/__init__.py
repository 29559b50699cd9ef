"""The seam between kernels and what builds them.

    launch.call ──► Engine.run: a body, its operands, its results ──► arrays
    operator    ──► Engine.why_inexpressible: a scalar function   ──► a reason, or None

The body of a kernel is a function of a program's number and of references. Traced, it holds
nothing but elementwise, shape and control primitives of `jax.lax` and those of
`jscan.kernels.language`, whose module says what each of them means; `jscan.kernels.addresses` says
how an address is formed. To build a program from that is an engine's work. An engine is a module of
this package with the members of `Engine`, and has its entry in `running`:

    pallas       Triton IR, by Pallas' rules and ours
    jax_triton   text in Triton's language (`source`), which Triton compiles

`jscan.engines` says which one is chosen. Without a GPU both run the body by `grid`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

import jax
from jax.extend import core

from jscan.engines import name_for_kernels
from jscan.kernels.language import Body


class Engine(Hashable, Protocol):
    """What builds and runs kernels."""

    NAME: str
    """The engine in errors: "NAME cannot express the operator"."""

    def run(
        self,
        body: Body,
        operands: Sequence[jax.Array],
        starts: Sequence[jax.Array],
        results: Sequence[jax.ShapeDtypeStruct],
        *,
        programs: int,
        warps: int,
        name: str,
        interpret: bool,
    ) -> list[jax.Array]:
        """Runs ``body`` in so many ``programs`` of so many ``warps``; returns the ``results``.

        The body takes references to the operands, then to the results. The last results start as
        the arrays ``starts`` and may be written into these; the others start undefined. An array of
        two dimensions is the words of tile state, which start as zeros; all others are flat.
        ``interpret`` asks for a run without a GPU, one program after another.
        """

    def why_inexpressible(self, jaxpr: core.ClosedJaxpr) -> str | None:
        """Why a kernel cannot hold this function of scalars; None if one can."""


def running() -> Engine:
    """The engine that runs; others are not imported, since theirs may not be installed."""
    if name_for_kernels() == "pallas":
        from jscan.kernels.engines import pallas

        return pallas
    from jscan.kernels.engines import jax_triton

    return jax_triton
