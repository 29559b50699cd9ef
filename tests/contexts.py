"""One MLIR context for the programs of a test file.

Jax makes one for each program, of more than a dozen dialects. Most programs of the tests are small,
and making contexts would take a sixth of all their time. Programs are the same in either. One that
is lowered while another is has a context of its own: it would be put into the other.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import pytest
from jax._src.interpreters import mlir
from jaxlib.mlir import ir


@contextlib.contextmanager
def one_for_all() -> Iterator[None]:
    """Lowers programs in one context, which keeps their constants until the end."""
    with pytest.MonkeyPatch.context() as patch:
        make = mlir.make_ir_context
        shared = functools.cache(make)
        patch.setattr(mlir, "make_ir_context", lambda: (make if ir.Context.current else shared)())
        yield
