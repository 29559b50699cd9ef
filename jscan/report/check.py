"""A call beside a loop: what a check is, and what is wrong where one fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan.report.loops import Array

ROUNDED = 2e-5
"""The most by which a float32 result may differ, as a share of 1 and of the loop's number. The
inputs of most checks are such that sums are exact, and nothing may differ."""

ROUNDED_ONCE = 1.2e-7
"""The same where there is one rounding, to float32."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A call of a public function, and the loop that computes the same.

    Attributes:
      of: the function's name.
      form: what else tells the call from others: the dtype, a direction, segments.
      operands: arrays of NumPy, of both.
      call: makes the call's results of them, a pytree of arrays.
      loop: makes the loop's, a pytree of the same leaves in the dtypes that results have.
      tolerance: the most by which they may differ, as `ROUNDED` is meant.
    """

    of: str
    form: str
    operands: tuple[Array, ...]
    call: Callable[..., Any]
    loop: Callable[..., Any]
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        """The function and the form."""
        return f"{self.of}, {self.form}"

    def why_wrong(self) -> str | None:
        """What differs, or the error that the call raises; None where all agrees."""
        try:
            found = jax.tree.leaves(self.call(*map(jnp.asarray, self.operands)))
            wanted = jax.tree.leaves(self.loop(*self.operands))
            found = [np.asarray(x) for x in found]
        except Exception as error:  # of any kind: the report goes on, and says which
            return f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        if len(found) != len(wanted):
            return f"{len(found)} arrays, and the loop has {len(wanted)}"
        reasons = [
            differing(a, np.asarray(b), self.tolerance) for a, b in zip(found, wanted, strict=True)
        ]
        return next((reason for reason in reasons if reason is not None), None)


def differing(found: Array, wanted: Array, tolerance: float) -> str | None:
    """The first element that differs by more than it may, or a shape or dtype; None if none."""
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        kinds = [f"{x.dtype}{list(x.shape)}" for x in (found, wanted)]
        return f"{kinds[0]}, and the loop has {kinds[1]}"
    if jnp.issubdtype(found.dtype, jnp.inexact):
        width = np.complex128 if np.iscomplexobj(found) else np.float64
        a, b = found.astype(width), wanted.astype(width)
        with np.errstate(invalid="ignore"):  # inf - inf, of which == has the say
            close = np.abs(a - b) <= tolerance * (1 + np.abs(b))
        agree = (a == b) | close | (np.isnan(a) & np.isnan(b))
    else:
        agree = found == wanted
    if np.all(agree):
        return None
    place = tuple(int(i) for i in np.argwhere(~agree)[0])
    count = int(np.sum(~agree))
    at = f"element {list(place)}" if place else "the result"
    return f"{at} is {found[place]}, and the loop has {wanted[place]} ({count} of {agree.size} so)"
