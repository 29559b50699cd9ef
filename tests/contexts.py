"""One MLIR context for the programs of a test file, where jax makes one for each program.

It is of more than a dozen dialects. Most programs of the tests are small, and making contexts would
take a sixth of all their time. Newer versions of jax take a context several times themselves.
Programs are the same in either.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import jax
import pytest
from jax._src.interpreters import mlir
from jaxlib.mlir import ir


@contextlib.contextmanager
def one_for_all() -> Iterator[None]:
    """Lowers this thread's programs in one context, which keeps their constants until the end.

    One that is lowered while another is has a context of its own: it would be put into the other.
    So have those of other threads, of which some are XLA's.
    """
    if jax.__version_info__ >= (0, 11):
        yield
        return
    make, here = mlir.make_ir_context, threading.get_ident()
    shared = functools.cache(make)

    def context() -> ir.Context:
        alone = ir.Context.current is None and threading.get_ident() == here
        return shared() if alone else make()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "make_ir_context", context)
        yield
