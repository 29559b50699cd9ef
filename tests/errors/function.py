"""A public function as tests of errors see it: a call that works, and what can be wrong with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.errors.wrong_values import Wrong


@dataclasses.dataclass(frozen=True)
class Misuse:
    """A call of which several arguments are unusual, and the one that is named."""

    label: str
    argument: str
    error: type[Exception]
    arguments: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Function:
    """A public function.

    Attributes:
      name: what it is called, behind ``jscan.``.
      call: the function.
      valid: arguments with which it works.
      wrong: the wrong values of each of its parameters.
      misuses: wrong calls that take more than one argument.
    """

    name: str
    call: Callable[..., Any]
    valid: dict[str, Any]
    wrong: dict[str, list[Wrong]]
    misuses: tuple[Misuse, ...] = ()

    @property
    def traced(self) -> set[str]:
        """Which valid arguments may be traced, and leave the others as wrong as they are."""
        return {name for name, value in self.valid.items() if isinstance(value, np.ndarray)} - {
            "lengths",
            "offsets",
        }
