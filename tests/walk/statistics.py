"""Rows of the table: functions of the elements of each segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests.walk.cuts import COUNT
from tests.walk.reductions import ids_of
from tests.walk.row import LENGTH, ROWS, Row

FORMS = ("sorted", "any", "planned", "segments")


@dataclass(frozen=True)
class Statistic:
    """A function of segments, and the same of the elements of one segment.

    `of_members` takes NumPy or jax.numpy, the data (n, rows) and which elements are meant, and
    returns an element for the segment, or one for each element that is meant.
    """

    name: str
    of_members: Callable[[Any, Any, Any], Any]
    empty: float = 0.0
    each: bool = False
    linear: bool = False


def _mean(xp: Any, x: Any, members: Any) -> Any:
    return xp.sum(xp.where(members, x, 0), 0) / xp.sum(xp.where(members, xp.ones_like(x), 0), 0)


def _logsumexp(xp: Any, x: Any, members: Any) -> Any:
    return xp.log(xp.sum(xp.where(members, xp.exp(x), 0), 0))


def _softmax(xp: Any, x: Any, members: Any) -> Any:
    terms = xp.where(members, xp.exp(x), 0)
    return terms / xp.sum(terms, 0, keepdims=True)


def statistic(of: Statistic, form: str) -> Row:
    """A row for a function of segments, of data (n, rows)."""

    def draw(rng: np.random.Generator) -> list[Any]:
        ids = ids_of(rng)
        if form == "segments":
            ids = np.arange(LENGTH) * COUNT // LENGTH
        return [rng.normal(size=(LENGTH, ROWS)), np.sort(ids) if form == "sorted" else ids]

    def function(data: Any, ids: Any) -> Any:
        call = getattr(jscan, of.name)
        if form == "planned":
            return call(data, jscan.SegmentPlan(ids, COUNT))
        if form == "segments":
            return call(data, jscan.Segments.from_ids(ids), COUNT)
        return call(data, ids, COUNT, form == "sorted")

    def by(xp: Any) -> Callable[..., Any]:
        def run(data: Any, ids: Any) -> Any:
            wide = xp.asarray(data)
            each, totals = xp.zeros_like(wide), []
            for s in range(COUNT):
                members = xp.broadcast_to((ids == s)[:, None], wide.shape)
                there = xp.any(members)
                # No derivative may pass through what an empty segment makes of nothing.
                some = xp.where(there, members, True)
                found = of.of_members(xp, wide, some)
                if of.each:
                    each = xp.where(members, found, each)
                else:
                    totals.append(xp.where(there, found, of.empty))
            return each if of.each else xp.stack(totals)

        return run

    def numbers(_: Any, ids: Any) -> Any:
        return np.broadcast_to(np.where(ids < 0, COUNT, ids), (ROWS, LENGTH))

    return Row(
        f"{of.name} {form}",
        (of.name,),
        function,
        draw,
        ("nr", "n"),
        ("nr",) if of.each else ("sr",),
        by(np),
        by(jnp),
        linear=((0,),) if of.linear else (),
        undecided=() if of.linear else (0,),
        numbers=numbers,
    )


STATISTICS = tuple(
    statistic(of, form)
    for of in (
        Statistic("segment_mean", _mean, linear=True),
        Statistic("segment_logsumexp", _logsumexp, empty=-np.inf),
        Statistic("segment_softmax", _softmax, each=True),
    )
    for form in FORMS
)
