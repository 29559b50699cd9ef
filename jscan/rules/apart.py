"""Exclusive scans whose identity is kept apart, by the inclusive scans that kernels need not make.

Kernels write such an identity where a scan begins, and combine it with nothing (`Combine.apart`).
Elsewhere, and for derivatives, the results are those of an inclusive scan, moved on by one place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from jscan import heads
from jscan.combine import Combine
from jscan.derivatives.tangents import Tangent, zero_of


def is_apart(*, combine: Combine, exclusive: bool, **_: Any) -> bool:
    """Whether parameters of ``scan_p`` are those of such a scan."""
    return combine.apart and exclusive


class Moved:
    """The inclusive scan by head flags of an exclusive one by head flags, and the way between them.

    Attributes:
      params: its parameters.
    """

    def __init__(self, operands: Sequence[Any], params: Mapping[str, Any]):
        combine: Combine = params["combine"]
        assert combine.identity is not None
        alone = dataclasses.replace(combine, identity=None, apart=False)
        self.params = {**params, "combine": alone, "exclusive": False}
        pairs = zip(combine.identity, params["used"], strict=True)
        self._identity = [x for x, is_used in pairs if is_used]
        self._along: dict[str, Any] = {"axis": params["axis"], "reverse": params["reverse"]}
        self._starts: jax.Array | None = None
        if params["segmented"]:
            self._starts = heads.segment_starts(operands[-1], **self._along)

    def on(self, results: Sequence[jax.Array]) -> list[jax.Array]:
        """The exclusive results."""
        return heads.shift(results, self._starts, self._identity, **self._along)

    def tangents_on(self, tangents: Sequence[Tangent], like: Sequence[Any]) -> list[Tangent]:
        """Their tangents, which are zero at the identity."""
        return [
            zero_of(x) if isinstance(t, ad.Zero) else self._one_on(t)
            for t, x in zip(tangents, like, strict=True)
        ]

    def _one_on(self, x: jax.Array) -> jax.Array:
        zero: Any = np.zeros((), x.dtype)[()]
        [moved] = heads.shift([x], self._starts, [zero], **self._along)
        return moved

    def back(self, cotangent: Tangent) -> Tangent:
        """The cotangent of an inclusive result from that of an exclusive one."""
        if isinstance(cotangent, ad.Zero):
            return cotangent
        if self._starts is not None:
            cotangent = heads.choose(self._starts, jnp.zeros_like(cotangent), cotangent)
        zero = np.zeros((), cotangent.dtype)[()]
        axis, reverse = self._along["axis"], self._along["reverse"]
        return heads.moved_on(cotangent, zero, axis=axis, reverse=not reverse)
