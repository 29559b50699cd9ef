"""Fuzzing: calls of every suite on operands that lie over eight devices."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from tests.fuzz import functions, programs, recurrences
from tests.fuzz.examples import Data, Form, Lying, form_of
from tests.fuzz.segments import COUNTED

Check = Callable[[Form, Data, str], None]
SUITES: dict[str, tuple[Callable[[Form], Form], Check]] = {
    "scans": (lambda form: form, programs.check),
    "reductions": (lambda form: form, programs.check),
    "recurrences": (recurrences.recurrence, recurrences.check),
    "vectors": (functions.vector, functions.check_vector),
    "derivatives": (functions.derivative, functions.check_derivative),
}
"""The form of each suite's example, and its check."""

MANNERS = ("shard_map", "Auto", "shard_map", "Explicit")
MESHES = ((8,), (4, 2), (2, 4), (2, 2, 2))


def divided(form: Form) -> Form:
    """A form of some suite, whose shape the mesh divides evenly."""
    draw = random.Random(f"devices {form.number}")
    manner = MANNERS[form.number % len(MANNERS)]
    suites = [name for name in SUITES if manner != "shard_map" or name != "vectors"]
    suite = suites[form.number // len(MANNERS) % len(suites)]
    form = SUITES[suite][0](form_of(suite, "here", form.number))
    sizes = draw.choice(MESHES)
    names = draw.sample("abc"[: len(sizes)], len(sizes))
    taken = draw.randint(1, len(names))
    entries: list[tuple[str, ...]] = [()] * len(form.shape)
    entries[form.along], rest = tuple(names[:taken]), tuple(names[taken:])
    others = [d for d in range(len(form.shape)) if d != form.along]
    if others and draw.random() < 0.7:
        entries[draw.choice(others)] = rest
    lying = Lying(manner, sizes, tuple(entries), shared=draw.random() < 0.3)
    shape = [min(size, 3) * lying.parts(d) for d, size in enumerate(form.shape)]
    shape[form.along] = draw.choice((1, 1, 2, 3, 5)) * lying.parts(form.along)
    form = dataclasses.replace(
        form,
        shape=tuple(shape),
        wrapper=draw.choice(("jit", "jit", "vmap", "loop")),
        source="whole",
        lying=lying,
    )
    return _told(form, lying) if manner == "shard_map" else form


def _told(form: Form, lying: Lying) -> Form:
    """The form with segments and an identity that parts of an axis can have."""
    segments, mapped = form.segments, form.mapped
    if form.suite in ("scans", "reductions") and not _takes_segments(form):
        segments, mapped = "none", (True, *mapped[1:])
    elif segments in (*COUNTED, "rows", "packed", "ids", "rows of ids"):
        segments = "flags"
    elif segments in ("unsorted", "planned"):
        segments = "sorted"
    return dataclasses.replace(
        form,
        segments=segments,
        mapped=mapped,
        identity="scalars",
        lying=dataclasses.replace(lying, shared=False),
    )


def _takes_segments(form: Form) -> bool:
    """Whether the operator can be segmented across devices: a reduction needs a known identity."""
    known = form.operator.operator is not None or form.function != "reduce"
    return known and not form.operator.trailing


def check(form: Form, data: Data, place: str) -> None:
    """One example on devices."""
    SUITES[form.suite][1](form, data, place)
