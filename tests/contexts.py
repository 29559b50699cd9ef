"""One MLIR context for the programs of a test file, where jax makes one for each program.

It is of more than a dozen dialects. Most programs of the tests are small, and making contexts would
take a sixth of all their time. Newer versions of jax take a context several times themselves.
Programs are the same in either.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import jax
import pytest
from jax._src.interpreters import mlir
from jaxlib.mlir import ir


@contextlib.contextmanager
def one_for_all() -> Iterator[None]:
    """Lowers a thread's programs in one context, which keeps their constants until the end.

    One that is lowered while another is has a context of its own: it would be put into the other.
    """
    if jax.__version_info__ >= (0, 11):
        yield
        return
    make, of_thread = mlir.make_ir_context, threading.local()

    def context() -> ir.Context:
        if ir.Context.current:
            return make()
        if not hasattr(of_thread, "context"):
            of_thread.context = make()
        return of_thread.context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "make_ir_context", context)
        yield
