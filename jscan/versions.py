"""The versions that this package runs on: of jax, and of what the second engine is made of.

Everything but the kernels is made of jax's public names. The kernels take internals of Pallas too,
which change from version to version: `jscan.kernels.internals` names them. Errors and warnings on
other versions are here, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import warnings
from collections.abc import Iterator

import jax

from jscan.advice import SEE, VERSIONS, advise


def dotted(version: tuple[int, ...]) -> str:
    """A version as it is written."""
    return ".".join(map(str, version))


@dataclasses.dataclass(frozen=True)
class Range:
    """Versions of a package, in the words of an installer as text.

    Attributes:
      oldest: the first of them.
      beyond: the first after them, if there is one that is known not to do.
    """

    oldest: tuple[int, ...]
    beyond: tuple[int, ...] | None = None

    def __contains__(self, version: tuple[int, ...]) -> bool:
        return self.oldest <= version and (self.beyond is None or version < self.beyond)

    def __str__(self) -> str:
        return f">={dotted(self.oldest)}" + (f",<{dotted(self.beyond)}" if self.beyond else "")


OLDEST, NEWEST = (0, 10, 2), (0, 12)
"""The first and the last version of jax on which the test suite passes."""

RANGE = f"jax{Range(OLDEST, (NEWEST[0], NEWEST[1] + 1))}"
"""The same range in the words of an installer."""

OLDEST_JAX_TRITON = (0, 3, 1)

TRITON = {(0, 3): Range((3, 6), (3, 7)), (0, 4): Range((3, 7))}
"""The versions of triton that each jax-triton takes, from that version of it on. jax-triton itself
names no end; 0.3.1 was made for 3.6, and is tested on no other."""

ANY_TRITON = Range((3, 6))
"""Those that compile programs by themselves."""


def triton_of(jax_triton: tuple[int, ...]) -> Range:
    """The versions of triton that a version of jax-triton takes."""
    return TRITON[max(since for since in TRITON if since <= jax_triton)]


def check() -> None:
    """Raise on a jax that is too old."""
    if jax.__version_info__ < OLDEST:
        error = ImportError(
            f"jscan needs jax {dotted(OLDEST)} or newer, and this is jax "
            f"{jax.__version__}: python -m pip install '{RANGE}'"
        )
        raise advise(error, VERSIONS)


_DEPRECATED = "The Pallas Triton backend is deprecated"
_EXPLAINED = (
    "jscan's kernels are Pallas on Triton, which jax says that it will remove one day (jax "
    f"{jax.__version__} warns of it at every kernel; jscan says it once). Nothing needs to be done "
    f"with {RANGE}. method='xla' runs without kernels on any jax. ({SEE}{VERSIONS})"
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
            unknown = RuntimeError(
                f"jscan's kernels know the internals of jax up to {NEWEST[0]}.{NEWEST[1]}, and "
                f"cannot be compiled by jax {jax.__version__}: python -m pip install '{RANGE}', or "
                "pass method='xla'"
            )
            raise advise(unknown, VERSIONS) from error


check()
