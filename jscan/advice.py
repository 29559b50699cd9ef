"""Where the documentation explains an error: a note that Python shows below the message.

A message names the function and the argument that is wrong; its note names a page of docs and a
heading there, that of the argument if it has one, else that of the function.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=Exception)

SEE = "see docs/"

ENGINES = "compatibility.md#engines"
SELECTIONS = "ragged-data.md#select-part-and-count"
VERSIONS = "versions.md#what-it-runs-on"
WITHOUT_GPU = "compatibility.md#without-a-gpu"

ARGUMENTS = {
    "axis_name": "devices.md#axes-that-go-on",
    "bucket_size": "ragged-data.md#reduce-by-segments",
    "fill_value": SELECTIONS,
    "flags": "ragged-data.md#flags",
    "fn": "operators.md#operators-of-your-own",
    "ids": "ragged-data.md#ids",
    "identity": "operators.md#identities",
    "init": "recurrences.md#states-that-go-on",
    "k": SELECTIONS,
    "lengths": "ragged-data.md#lengths",
    "mask": SELECTIONS,
    "method": "how-it-works.md#methods",
    "mode": "ragged-data.md#reduce-by-segments",
    "name": ENGINES,
    "num_segments": "ragged-data.md#reduce-by-segments",
    "offsets": "ragged-data.md#offsets",
    "segment_ids": "ragged-data.md#reduce-by-segments",
    "segments": "ragged-data.md#four-ways-to-say-it",
    "size": SELECTIONS,
    "total": "ragged-data.md#known-and-traced",
    "words": "ragged-data.md#flags",
}
"""Pages by the argument that is wrong, whatever the function."""

MODULES = {
    **dict.fromkeys(
        ("scans", "cumulative", "recurrences", "matrix_recurrences", "tridiagonal"), "scans"
    ),
    **dict.fromkeys(("reductions", "statistics", "selections"), "reductions"),
    **dict.fromkeys(("segments", "plans"), "segments"),
    **dict.fromkeys(("vectors", "compaction", "runs"), "vectors"),
    **dict.fromkeys(("engines", "programs"), "kernels"),
    "networks": "networks",
    "sparse": "sparse",
}
"""Pages of docs/api by the module of a function; their headings are functions and classes."""


def advised(function: F) -> F:
    """A public function whose own errors say where the documentation explains them."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (TypeError, ValueError) as error:
            if str(error).startswith("jscan"):
                advise(error, place_of(function, str(error)))
            raise

    return call  # type: ignore[return-value]


def place_of(function: Callable[..., Any], message: str) -> str:
    """The page and the heading for a message of a function."""
    parameters = inspect.signature(function).parameters
    words = re.findall(r"\w+", message.partition(": ")[2])
    wrong = next((word for word in words if word in parameters), None)
    if wrong in ARGUMENTS:
        return ARGUMENTS[wrong]
    heading = function.__qualname__.partition(".")[0].lower()
    return f"api/{MODULES[function.__module__.removeprefix('jscan.')]}.md#{heading}"


def advise(error: E, place: str) -> E:
    """The error with the note, unless a function that was called has added one."""
    notes = getattr(error, "__notes__", [])
    if not any(note.startswith(SEE) for note in notes):
        error.__notes__ = [f"{SEE}{place}", *notes]  # before what JAX says of its frames
    return error
