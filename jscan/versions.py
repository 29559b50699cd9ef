"""The versions of jax that this package runs on, and its errors and warnings on others.

Everything but the kernels is made of jax's public names. The kernels take internals of Pallas too,
which change from version to version: `jscan.kernels.internals` names them.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator

import jax

OLDEST, NEWEST = (0, 10, 2), (0, 12)
"""The first and the last version on which the test suite passes."""

RANGE = f"jax>={'.'.join(map(str, OLDEST))},<{NEWEST[0]}.{NEWEST[1] + 1}"
"""The same range in the words of an installer."""


def check() -> None:
    """Raise on a jax that is too old."""
    if jax.__version_info__ < OLDEST:
        raise ImportError(
            f"jscan needs jax {'.'.join(map(str, OLDEST))} or newer, and this is jax "
            f"{jax.__version__}: python -m pip install '{RANGE}'"
        )


_DEPRECATED = "The Pallas Triton backend is deprecated"
_EXPLAINED = (
    "jscan's kernels are Pallas on Triton, which jax says that it will remove one day (jax "
    f"{jax.__version__} warns of it at every kernel; jscan says it once). Nothing needs to be done "
    f"with {RANGE}. method='xla' runs without kernels on any jax."
)
_told = threading.Event()
_one_at_a_time = threading.RLock()
"""Held while filters of warnings are changed. They belong to all threads, and two threads that put
them back as they found them would undo each other's changes."""


@contextlib.contextmanager
def lowering_kernels(*, by_pallas: bool) -> Iterator[None]:
    """A context that explains jax's deprecation of Triton once, and errors of an unknown jax.

    jax itself warns at every kernel ``by_pallas``, which is silenced here.
    """
    with _one_at_a_time:
        if by_pallas and jax.__version_info__ >= (0, 11) and not _told.is_set():
            # Set before the warning: where warnings are errors, only the first call is to fail.
            _told.set()
            warnings.warn(_EXPLAINED, DeprecationWarning, stacklevel=3)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", re.escape(_DEPRECATED), DeprecationWarning)
                yield
        except (AttributeError, ImportError, TypeError) as error:
            if jax.__version_info__[:2] <= NEWEST:
                raise
            raise RuntimeError(
                f"jscan's kernels know the internals of jax up to {NEWEST[0]}.{NEWEST[1]}, and "
                f"cannot be compiled by jax {jax.__version__}: python -m pip install '{RANGE}', or "
                "pass method='xla'"
            ) from error


check()
