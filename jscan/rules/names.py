"""Names of programs that XLA divides, made of what they compute.

A program's text says of a callback no more than its address, which another one may have later on,
and which differs from process to process. A cache of compiled programs may leave the address out
of its keys, too. So each program has a name: the same in every process, since processes that
compile one program together compare its text, and another one for another computation.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jscan.combine import Combine
from jscan.derivatives.components import Component
from jscan.derivatives.jacobian import Matrix
from jscan.jaxprs import scalar_structure, structure


def name_of(*parts: Any) -> str:
    """The name of what is made of these parts by this version of the code."""
    return hashlib.sha256((_code() + text_of(parts)).encode()).hexdigest()[:32]


def text_of(value: Any) -> str:
    """A value as text, the same in every process.

    Of a function no more is said than its name. Derivative rules alone are given as such, and what
    is divided needs none.
    """
    if isinstance(value, (Combine, Component, Matrix)):
        return text_of(value.key)
    if isinstance(value, (core.ClosedJaxpr, core.Jaxpr)):
        # One class in jax 0.12, where a jaxpr is its own, and two before.
        jaxpr: Any = getattr(value, "jaxpr", value)
        return text_of((structure(jaxpr), list(getattr(value, "consts", ()))))
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(text_of, value))})"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(text_of, value)))}}}"
    if isinstance(value, Mapping):
        return text_of({(key, text_of(item)) for key, item in value.items()})
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return text_of(scalar_structure(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return type(value).__name__ + text_of(fields)
    return re.sub(r"\b0x[0-9a-f]+\b", "", repr(value))


@functools.cache
def _code() -> str:
    """A digest of jscan's code, which makes a program of the parts."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
