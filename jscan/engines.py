"""The engines that build kernels for a GPU: which one runs, and why.

    pallas       kernels by Pallas on Triton, which comes with jax, and which jax will remove
    jax-triton   the same kernels as programs in Triton's language, by the packages jax-triton and
                 triton

The one that `engine` or the environment's JSCAN_ENGINE names runs. Where none is named, the first
that is there does. Without any, all runs in plain JAX. Nothing of an engine is imported here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, overload

import jax

from jscan import versions
from jscan.advice import ENGINES, SEE, advise, advised
from jscan.versions import ANY_TRITON, OLDEST_JAX_TRITON, RANGE, dotted

NAMES = ("pallas", "jax-triton")
"""The engines, in the order in which they are tried."""

VARIABLE = "JSCAN_ENGINE"
"""The name of an engine in the environment, read when this package is imported."""

# It is in the keys of JAX's caches, so that a function traced in another context is traced anew.
_named = jax.make_user_context(os.environ.get(VARIABLE) or None)


_writing = jax.make_user_context(None)


class Written:
    """Programs that were written and not run: see `writing`."""

    def __init__(self) -> None:
        self.programs: list[Any] = []  # `jscan.kernels.engines.source.Program`
        self.left = 0  # the devices among which XLA divides calls whose programs are not there


@dataclasses.dataclass(frozen=True)
class Choice:
    """The engine that runs, and why.

    Attributes:
      name: "pallas" or "jax-triton"; None where no kernel runs.
      reason: why, in a sentence; where no kernel runs, with what to install.
    """

    name: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.name or 'no engine'}: {self.reason}"


@overload
def engine() -> Choice: ...
@overload
def engine(name: str) -> contextlib.AbstractContextManager[None]: ...
@advised
def engine(name: str | None = None) -> Choice | contextlib.AbstractContextManager[None]:
    """The engine that would build kernels for a GPU; or, given a name, a context that names it.

    Both engines run the same kernels. "pallas" comes with jax, which says that it will remove it
    one day; "jax-triton" needs the packages jax-triton and triton. The environment's
    ``JSCAN_ENGINE`` names one for a whole process. By default the first runs where this jax has it,
    else the second where it is installed, else plain JAX.

    Args:
      name: "pallas" or "jax-triton". The context holds in the thread that enters it. Functions that
        were compiled in another context are compiled anew.

    Returns:
      Without ``name``, an object with the ``name`` of the engine that runs in programs for a GPU,
      and the ``reason``; whether there is a GPU plays no part. The name is None where plain JAX
      takes the place of kernels, and where the environment names an engine that is not there: then
      kernels raise `ImportError`. With ``name``, a context manager.

    Raises:
      ValueError: there is no engine of this name.
      ImportError: it is not installed, or what it needs is too old; the text says what to install.

    Example:
      >>> import jscan
      >>> jscan.engine().name in ("pallas", "jax-triton", None)
      True
    """
    if name is None:
        return choice()
    reason = why_missing(check_name(name, "jscan.engine: name"))
    if reason is not None:
        raise advise(ImportError(f"jscan.engine: {reason}"), ENGINES)
    return named(name)


@contextlib.contextmanager
def named(name: str | None) -> Iterator[None]:
    """Makes primitives that are bound in this context run on this engine, None being the default.

    Interpreted kernels need nothing of an engine to be installed.
    """
    with _named(name):
        yield


@contextlib.contextmanager
def writing() -> Iterator[Written]:
    """Makes the second engine write the programs of kernels that are lowered, and run none.

    Nothing of it needs to be installed.
    """
    written = Written()
    with _named("jax-triton"), _writing(written):
        yield written


def being_written() -> Written | None:
    """Where programs are kept that are not to be run, if they are not."""
    written: Written | None = _writing.value
    return written


def leave_to_xla(devices: int) -> None:
    """Notes that kernels of a call are lowered when XLA divides it, and not before."""
    written = being_written()
    if written is not None:
        written.left = max(written.left, devices)


def name_in_context() -> str | None:
    """The name that the context or the environment gives, if any does."""
    name: str | None = _named.value
    return name if name is None else check_name(name, VARIABLE)


def check_name(name: str, what: str) -> str:
    """The name, if it is that of an engine."""
    if name not in NAMES:
        choices = " or ".join(map(repr, NAMES))
        raise advise(ValueError(f"{what} must be {choices}; got {name!r}"), ENGINES)
    return name


def choice() -> Choice:
    """The engine that runs."""
    name = name_in_context()
    if name is not None:
        reason = why_missing(name)
        if reason is not None:
            return Choice(None, f"{name} is named, so that kernels raise ImportError: {reason}")
        return Choice(name, "it is named")
    pallas, jax_triton = map(why_missing, NAMES)
    if pallas is None:
        return Choice("pallas", "it comes with jax, and no other is named")
    if jax_triton is None:
        return Choice("jax-triton", pallas)
    return Choice(None, f"plain JAX runs, since {pallas}; {jax_triton}")


def name_for_kernels() -> str:
    """The engine of kernels that are lowered or interpreted; the latter needs none installed."""
    return name_in_context() or choice().name or "jax-triton"


_told = threading.Event()


def why_none() -> str | None:
    """Why no engine runs, None if one does; said once in a warning as well.

    Raises `ImportError` where one is named that is not there.
    """
    if being_written() is not None:
        return None
    name = name_in_context()
    missing = why_missing(name) if name is not None else None
    if missing is not None:
        raise advise(ImportError(f"jscan: {missing}"), ENGINES)
    found = choice()
    if found.name is not None:
        return None
    if not _told.is_set():
        # Set before the warning: where warnings are errors, only the first call is to fail.
        _told.set()
        warnings.warn(
            f"jscan runs without its kernels on this GPU ({SEE}{ENGINES}): {found.reason}",
            RuntimeWarning,
            stacklevel=2,
        )
    return found.reason


def lowering_kernels() -> contextlib.AbstractContextManager[None]:
    """`jscan.versions.lowering_kernels` for the engine that runs."""
    return versions.lowering_kernels(by_pallas=name_for_kernels() == "pallas")


INSTALL = "python -m pip install 'jscan[cuda]' brings it, and what it needs"
"""The command that mends what is missing of the second engine."""


# --- what is installed --------------------------------------------------------------------------


def why_missing(name: str) -> str | None:
    """Why the engine cannot run, with the command that mends it; None if it can."""
    return _MISSING[name]()


def _why_no_pallas() -> str | None:
    # Looked for and not imported: that is left to `jscan.kernels.internals`.
    if _is_there("jax._src.pallas.triton"):
        return None
    return f"jax {jax.__version__} has no Pallas for Triton: python -m pip install '{RANGE}' has it"


def _why_no_jax_triton() -> str | None:
    ours = _version("jax-triton") if _is_there("jax_triton") else None
    if ours is None:
        return f"jax-triton is not installed: {INSTALL}"
    if ours < OLDEST_JAX_TRITON:
        oldest = dotted(OLDEST_JAX_TRITON)
        return f"jax-triton {dotted(ours)} is too old: python -m pip install 'jax-triton>={oldest}'"
    reason = why_no_triton(versions.triton_of(ours), f" for jax-triton {dotted(ours)}")
    if reason is not None:
        return reason
    if not any(map(_is_there, ("jax_cuda13_plugin", "jax_cuda12_plugin"))):
        return f"jax has no plugin for CUDA, which jax-triton needs: {INSTALL}"
    return None


def why_no_triton(known: versions.Range = ANY_TRITON, purpose: str = "") -> str | None:
    """Why triton cannot compile, with the command that mends it; None if it can."""
    install = f"python -m pip install 'triton{known}'"
    found = _version("triton") if _is_there("triton") else None
    if found is None:
        return f"triton is not installed{purpose}: {install}"
    if found not in known:
        age = "old" if found < known.oldest else "new"
        return f"triton {dotted(found)} is too {age}{purpose}: {install}"
    return None


_MISSING: dict[str, Callable[[], str | None]] = {
    "pallas": _why_no_pallas,
    "jax-triton": _why_no_jax_triton,
}


def _is_there(module: str) -> bool:
    """Whether a module can be imported; it is not."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # of what it is in, or of what stands in its place
        return False


def _version(package: str) -> tuple[int, ...] | None:
    """The version of an installed package, as far as it is numbers."""
    try:
        text = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else None
