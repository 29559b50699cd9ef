"""The versions of jax that this package runs on, and what it says on others.

Everything but the kernels is made of jax's public names. Kernels are made of Pallas's internals
too (`jscan.kernels.internals`), which change from version to version.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator

import jax

OLDEST, NEWEST = (0, 10, 2), (0, 12)
"""The suite passes on these and on what lies between."""

RANGE = f"jax>={'.'.join(map(str, OLDEST))},<{NEWEST[0]}.{NEWEST[1] + 1}"
"""The same, as an installer takes it."""


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
"""Python's filters of warnings belong to all threads: two that leave them would undo each other."""


@contextlib.contextmanager
def lowering_kernels() -> Iterator[None]:
    """Says what follows from jax's warnings, once, and what to do where its internals differ."""
    with _one_at_a_time:
        if jax.__version_info__ >= (0, 11) and not _told.is_set():
            _told.set()  # first, so that who makes errors of warnings meets one error, and no more
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
