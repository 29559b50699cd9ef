"""Functions of segments by ids: calls that work, and the values of arguments that are wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import jscan
from jscan import SegmentPlan, Segments
from tests.errors import wrong_values as wrong
from tests.errors.function import Function, Misuse
from tests.errors.wrong_values import FLAGS, Wrong, X

PLANNED: dict[str, Any] = {"segment_ids": SegmentPlan(FLAGS, 3), "indices_are_sorted": False}
"""Arguments of a segment reduction by a plan."""


def _reduction(call: Callable[..., Any], elements: list[Wrong]) -> Function:
    precise = "precise" in inspect.signature(call).parameters
    return Function(
        call.__name__,
        call,
        {
            "data": X,
            "segment_ids": np.cumsum(FLAGS),
            "num_segments": 3,
            "indices_are_sorted": True,
            "unique_indices": False,
            "bucket_size": None,
            "mode": None,
            "out_sharding": None,
            **wrong.DEFAULTS,
            **({"precise": True} if precise else {}),
        },
        {
            "data": [*wrong.NUMBERS, *elements, *wrong.FIVE_ROWS],
            "segment_ids": wrong.IDS,
            "num_segments": wrong.OPTIONAL_COUNT,
            "indices_are_sorted": wrong.SWITCH,
            "unique_indices": wrong.SWITCH,
            "bucket_size": [*wrong.OPTIONAL_COUNT, *wrong.values({"no element": 0})],
            "mode": wrong.MODE,
            "out_sharding": wrong.types({"a string": "rows", "an array": X}),
            **wrong.HOW,
            **({"precise": wrong.SWITCH} if precise else {}),
        },
        (
            Misuse(
                "a kernel for ids in any order",
                "indices_are_sorted",
                ValueError,
                {"indices_are_sorted": False, "method": "lookback"},
            ),
            *(
                [Misuse("buckets of pairs", "bucket_size", ValueError, {"bucket_size": 2})]
                if precise
                else []
            ),
            *(
                Misuse(label, argument, ValueError, {**PLANNED, argument: value})
                for label, argument, value in (
                    ("another number than the plan's", "num_segments", 4),
                    ("a promise beside a plan", "indices_are_sorted", True),
                    ("a promise beside a plan", "unique_indices", True),
                    ("dropped ids are in no segment", "mode", "clip"),
                    ("a plan of other elements", "segment_ids", SegmentPlan(FLAGS[1:], 3)),
                )
            ),
        ),
    )


METHOD = {"method": "auto"}, {"method": wrong.METHOD}
PAYLOAD = {"payload": X}, {"payload": [one for one in wrong.LEAVES if one.label != "None"]}
K = {"k": 2}, {"k": [*wrong.OPTIONAL_COUNT, *wrong.NONE]}


def _statistic(
    call: Callable[..., Any],
    elements: list[Wrong],
    how: tuple[dict[str, Any], dict[str, list[Wrong]]] = METHOD,
) -> Function:
    """A function of the elements of each segment, its last argument given and given wrongly."""
    ids = np.cumsum(FLAGS)
    valid, mistakes = how
    return Function(
        call.__name__,
        call,
        {
            "data": X,
            "segment_ids": ids,
            "num_segments": 3,
            "indices_are_sorted": True,
            **valid,
        },
        {
            "data": [*wrong.NUMBERS, *elements, *wrong.FIVE_ROWS],
            "segment_ids": wrong.IDS,
            "num_segments": wrong.OPTIONAL_COUNT,
            "indices_are_sorted": wrong.SWITCH,
            **mistakes,
        },
        (
            *(
                Misuse(
                    "a kernel for ids in any order",
                    "indices_are_sorted",
                    ValueError,
                    {"indices_are_sorted": False, "method": "lookback"},
                )
                for name in valid
                if name == "method"
            ),
            Misuse(
                "another number than the plan's",
                "num_segments",
                ValueError,
                {**PLANNED, "num_segments": 4},
            ),
            Misuse(
                "a promise beside a plan",
                "indices_are_sorted",
                ValueError,
                {**PLANNED, "indices_are_sorted": True},
            ),
            Misuse(
                "segments of other elements",
                "segment_ids",
                ValueError,
                {"segment_ids": Segments.from_lengths(np.array([2, 3]))},
            ),
        ),
    )


BY_SEGMENT = (
    _reduction(jscan.segment_sum, wrong.BOOLEANS),
    _reduction(jscan.segment_prod, wrong.BOOLEANS),
    _reduction(jscan.segment_max, wrong.COMPLEX),
    _reduction(jscan.segment_min, wrong.COMPLEX),
    _statistic(jscan.segment_mean, []),
    _statistic(jscan.segment_logsumexp, wrong.COMPLEX),
    _statistic(jscan.segment_softmax, wrong.COMPLEX),
    _statistic(jscan.segment_norm, []),
    _statistic(jscan.segment_argmax, wrong.COMPLEX),
    _statistic(jscan.segment_argmin, wrong.COMPLEX),
    _statistic(jscan.segment_sort, [], PAYLOAD),
    _statistic(jscan.segment_top_k, wrong.COMPLEX, K),
)
