"""Rows of the table: functions of the elements of each segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
    keeps: bool = False  # dropped elements are what they were
    counts: bool = False  # results are places


def _mean(xp: Any, x: Any, members: Any) -> Any:
    return xp.sum(xp.where(members, x, 0), 0) / xp.sum(xp.where(members, xp.ones_like(x), 0), 0)


def _norm(xp: Any, x: Any, members: Any) -> Any:
    return xp.sqrt(xp.sum(xp.where(members, x * x, 0), 0))


def _argmax(xp: Any, x: Any, members: Any) -> Any:
    return xp.argmax(xp.where(members, x, -np.inf), 0).astype(np.int32)


def _argmin(xp: Any, x: Any, members: Any) -> Any:
    return xp.argmin(xp.where(members, x, np.inf), 0).astype(np.int32)


def _sorted(xp: Any, x: Any, members: Any) -> Any:
    ordered = xp.sort(xp.where(members, x, np.inf), 0)
    before = xp.cumsum(xp.where(members, 1, 0), 0)
    return xp.take_along_axis(ordered, xp.maximum(before - 1, 0), 0)


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
            each, totals = (wide if of.keeps else xp.zeros_like(wide)), []
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
        None if of.counts else by(jnp),
        linear=((0,),) if of.linear else (),
        undecided=() if of.linear or of.counts else (0,),
        numbers=numbers,
    )


K = 2


def greatest(form: str) -> Row:
    """A row for segment_top_k, of data (n, rows)."""
    like = statistic(Statistic("segment_argmax", _argmax), form)

    def function(data: Any, ids: Any) -> Any:
        if form == "planned":
            return jscan.segment_top_k(data, jscan.SegmentPlan(ids, COUNT), k=K)
        if form == "segments":
            return jscan.segment_top_k(data, jscan.Segments.from_ids(ids), COUNT, k=K)
        return jscan.segment_top_k(data, ids, COUNT, form == "sorted", k=K)

    def by(xp: Any) -> Callable[..., Any]:
        def run(data: Any, ids: Any) -> Any:
            found: tuple[list[Any], list[Any]] = [], []
            for s in range(COUNT):
                members = xp.broadcast_to((ids == s)[:, None], data.shape)
                order = xp.argsort(xp.where(members, -data, np.inf), axis=0)[:K]
                there = xp.arange(K)[:, None] < xp.sum(members, 0)[None]
                values = xp.take_along_axis(data, order, 0)
                found[0].append(xp.where(there, values, -np.inf))
                found[1].append(xp.where(there, order, -1).astype(np.int32))
            return tuple(map(xp.stack, found))

        return run

    return replace(
        like,
        name=f"segment_top_k {form}",
        covers=("segment_top_k",),
        function=function,
        results=("s.r", "s.r"),
        expected=by(np),
        sequential=by(jnp),
        undecided=(0,),
    )


STATISTICS = tuple(
    statistic(of, form)
    for of in (
        Statistic("segment_mean", _mean, linear=True),
        Statistic("segment_norm", _norm),
        Statistic("segment_argmax", _argmax, empty=-1, counts=True),
        Statistic("segment_argmin", _argmin, empty=-1, counts=True),
        Statistic("segment_sort", _sorted, each=True, keeps=True),
        Statistic("segment_logsumexp", _logsumexp, empty=-np.inf),
        Statistic("segment_softmax", _softmax, each=True),
    )
    for form in FORMS
) + tuple(map(greatest, FORMS))
