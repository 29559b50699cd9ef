"""Every public function: a call that works, and for each argument the values that are wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from jscan import SegmentPlan, Segments, networks, operators
from tests.errors import wrong_values as wrong
from tests.errors.by_segment import BY_SEGMENT
from tests.errors.compaction_functions import COMPACTION
from tests.errors.function import Function, Misuse
from tests.errors.packed import PACKED
from tests.errors.products import PRODUCTS
from tests.errors.systems import SYSTEMS
from tests.errors.wrong_values import FLAGS, Wrong, X, values

KNOWN = Segments.from_lengths(np.array([2, 0, 4]))
WHOLE_NUMBERS = {"elems": FLAGS, "identity": 0}
BOTH = (X, X[:, 0])  # leaves of unequal shape, which are combined as whole arrays


def plus(a: Any, b: Any) -> Any:
    """An operator whose identity jscan does not know."""
    return a + b


def _whole(label: str, error: type[Exception], fn: Callable[..., Any]) -> Misuse:
    arguments = {"fn": fn, "elems": BOTH, "identity": (0.0, 0.0)}
    return Misuse(f"whole arrays, {label}", "fn", error, arguments)


def _unfit(label: str, error: type[Exception], operator: Any, *elems: Any) -> Misuse:
    return Misuse(label, "elems", error, {"fn": operator, "elems": elems, "identity": None})


COMBINATIONS = (
    _whole("one leaf of two", ValueError, lambda a, b: a[0] + b[0]),
    _whole("three leaves", ValueError, lambda a, b: (*a, b[0])),
    _whole("a dict", ValueError, lambda a, b: {"a": a[0] + b[0], "b": b[1]}),
    _whole("nothing", ValueError, lambda *_: None),
    _whole("None for a leaf", ValueError, lambda a, _: (a[0], None)),
    _whole("numbers", ValueError, lambda *_: (1.0, 2**70)),
    _whole("strings", TypeError, lambda *_: ("a", "b")),
    _whole("another shape", ValueError, lambda a, b: (a[1], b[0])),
    _whole("another dtype", TypeError, lambda a, b: (a[0] > b[0], b[1])),
    _whole("an array of NumPy", TypeError, lambda a, b: (np.zeros(a[0].shape), b[1])),
    _whole("one argument", TypeError, lambda a: a),
    _unfit("offsets of fewer axes", ValueError, operators.affine, X, X[:, 0]),
    _unfit("offsets of another structure", ValueError, operators.affine, (X, X), X),
    _unfit("slopes that are integers", TypeError, operators.affine, X.astype(np.int32), X),
    _unfit("three leaves for pairs", TypeError, operators.affine, X, X, X),
    _unfit("no bits in whole arrays", TypeError, operators.bitwise_or, X, X[:, 0]),
    _unfit("no order in whole arrays", TypeError, operators.max, X * 1j, X[:, 0]),
    Misuse("no identity", "identity", ValueError, {"identity": None}),
    Misuse("an integer out of range", "identity", ValueError, {"elems": FLAGS, "identity": 2**70}),
    Misuse("a float for integers", "identity", TypeError, {"elems": FLAGS, "identity": 0.5}),
    Misuse(
        "a kernel for whole arrays",
        "method",
        ValueError,
        {
            **_whole("", ValueError, plus).arguments,
            "fn": lambda a, b: (jnp.sort(a[0]) + b[0], b[1]),
            "method": "lookback",
        },
    ),
)


def _cumulative(call: Callable[..., Any], elements: list[Wrong]) -> Function:
    precise = "precise" in inspect.signature(call).parameters
    return Function(
        call.__name__,
        call,
        {
            "x": X,
            "axis": 0,
            "reverse": False,
            "exclusive": False,
            "init": X[0],
            "segments": FLAGS,
            **wrong.DEFAULTS,
            **({"precise": True} if precise else {}),
        },
        {
            "x": [*wrong.NUMBERS, *elements, *wrong.SCALAR],
            "axis": wrong.AXIS,
            "reverse": wrong.SWITCH,
            "exclusive": wrong.SWITCH,
            "init": wrong.INIT,
            "segments": wrong.SEGMENTS,
            **wrong.HOW,
            **({"precise": wrong.SWITCH} if precise else {}),
        },
    )


def _network(call: Callable[..., Any]) -> Function:
    slack = "slack" in inspect.signature(call).parameters
    return Function(
        f"networks.{call.__name__}",
        call,
        {"fn": plus, "elems": X, "axis": 0, "reverse": False, **({"slack": 1} if slack else {})},
        {
            "fn": wrong.OPERATOR_OF_NETWORK,
            "elems": wrong.LEAVES,
            "axis": wrong.AXIS,
            "reverse": wrong.SWITCH,
            **({"slack": wrong.COUNT} if slack else {}),
        },
        tuple(
            Misuse(one.label, one.argument, one.error, {"fn": one.arguments["fn"], "elems": BOTH})
            for one in COMBINATIONS
            if one.argument == "fn"
        ),
    )


def _count_of_network(call: Callable[..., Any]) -> Function:
    return Function(
        f"networks.{call.__name__}",
        call,
        {"network": networks.ladner_fischer, "n": 8, "slack": 1},
        {
            "network": wrong.NETWORK,
            "n": wrong.COUNT,
            "slack": wrong.COUNT,
        },
        (Misuse("slack of another", "slack", ValueError, {"network": networks.sklansky}),),
    )


def _part(name: str, valid: dict[str, Any], mistakes: dict[str, list[Wrong]]) -> Function:
    return Function(f"Segments.{name}", getattr(Segments, name), valid, mistakes)


SCANS = (
    Function(
        "associative_scan",
        jscan.associative_scan,
        {
            "fn": plus,
            "elems": X,
            "reverse": False,
            "axis": 0,
            "exclusive": True,
            "identity": 0.0,
            "init": X[0],
            "segments": FLAGS,
            **wrong.DEFAULTS,
        },
        {
            "fn": wrong.OPERATOR,
            "elems": wrong.LEAVES,
            "reverse": wrong.SWITCH,
            "axis": wrong.AXIS,
            "exclusive": wrong.SWITCH,
            "identity": wrong.IDENTITY,
            "init": wrong.INIT,
            "segments": wrong.SEGMENTS,
            **wrong.HOW,
        },
        (
            *(replace(one, arguments={"init": None, **one.arguments}) for one in COMBINATIONS),
            Misuse("a start out of range", "init", ValueError, {**WHOLE_NUMBERS, "init": 2**70}),
            Misuse("a start that is a float", "init", TypeError, {**WHOLE_NUMBERS, "init": 0.5}),
        ),
    ),
    _cumulative(jscan.cumsum, wrong.BOOLEANS),
    _cumulative(jscan.cumprod, wrong.BOOLEANS),
    _cumulative(jscan.cummax, [*wrong.BOOLEANS, *wrong.COMPLEX]),
    _cumulative(jscan.cummin, [*wrong.BOOLEANS, *wrong.COMPLEX]),
    _cumulative(jscan.cumlogsumexp, [*wrong.BOOLEANS, *wrong.INTEGERS]),
    Function(
        "linear_recurrence",
        jscan.linear_recurrence,
        {
            "a": X,
            "b": X,
            "h0": X[0],
            "axis": 0,
            "reverse": False,
            "exclusive": True,
            "segments": FLAGS,
            **wrong.DEFAULTS,
        },
        {
            "a": wrong.SLOPES,
            "b": [*wrong.NUMBERS, *wrong.BOOLEANS, *wrong.SCALAR, *values({"fewer axes": X[:, 0]})],
            "h0": wrong.STARTS,
            "axis": wrong.AXIS,
            "reverse": wrong.SWITCH,
            "exclusive": wrong.SWITCH,
            "segments": wrong.SEGMENTS,
            **wrong.HOW,
        },
    ),
)
REDUCTIONS = (
    Function(
        "reduce",
        jscan.reduce,
        {
            "fn": plus,
            "elems": X,
            "axis": 0,
            "identity": 0.0,
            "segments": FLAGS,
            "num_segments": 3,
            **wrong.DEFAULTS,
        },
        {
            "fn": wrong.OPERATOR,
            "elems": wrong.LEAVES,
            "axis": wrong.AXIS,
            "identity": wrong.IDENTITY,
            "segments": wrong.SEGMENTS,
            "num_segments": wrong.OPTIONAL_COUNT,
            **wrong.HOW,
        },
        (
            *COMBINATIONS,
            Misuse("a number of no segments", "num_segments", ValueError, {"segments": None}),
            Misuse(
                "an empty axis",
                "identity",
                ValueError,
                {"elems": X[:0], "identity": None, "segments": None, "num_segments": None},
            ),
        ),
    ),
)
VECTORS = (
    Function(
        "enumerate",
        jscan.enumerate,
        {"mask": FLAGS, "axis": 0, "reverse": False, "segments": FLAGS},
        {
            "mask": wrong.MARKS,
            "axis": wrong.AXIS,
            "reverse": wrong.SWITCH,
            "segments": wrong.SEGMENTS,
        },
    ),
    Function(
        "distribute",
        jscan.distribute,
        {"x": X, "axis": 0, "segments": FLAGS, "reverse": False},
        {
            "x": wrong.LEAVES,
            "axis": wrong.AXIS,
            "segments": wrong.SEGMENTS,
            "reverse": wrong.SWITCH,
        },
    ),
    Function(
        "pack",
        jscan.pack,
        {"x": X, "mask": FLAGS, "size": 4, "fill_value": 0},
        {
            "x": [*wrong.LEAVES, *wrong.FIVE_ROWS],
            "mask": wrong.MASK,
            "size": wrong.OPTIONAL_COUNT,
            "fill_value": wrong.FILL,
        },
        tuple(
            Misuse(
                f"{value} into {dtype}",
                "fill_value",
                ValueError,
                {"x": FLAGS.astype(dtype), "fill_value": value},
            )
            for dtype, value in (
                *(("int32", 2.5), ("int32", np.nan), ("int32", np.inf), ("int32", 2**31)),
                *(("int8", 300), ("uint8", -1), ("bool", 2), ("float16", 70000), ("int32", 1j)),
                *(("int8", np.int64(2**40)), ("int32", np.float32(0.5)), ("int32", jnp.array(0.5))),
            )
        ),
    ),
    Function(
        "split",
        jscan.split,
        {"x": X, "mask": FLAGS, "axis": 0},
        {"x": wrong.LEAVES, "mask": wrong.MASK, "axis": wrong.AXIS},
    ),
    Function(
        "split_and_segment",
        jscan.split_and_segment,
        {"x": X, "mask": FLAGS, "segments": FLAGS, "axis": 0},
        {
            "x": wrong.LEAVES,
            "mask": wrong.MASK,
            "axis": wrong.AXIS,
            "segments": [*wrong.SEGMENTS, *wrong.NONE],
        },
    ),
)
PARTS = (
    Function(
        "SegmentPlan",
        SegmentPlan,
        {"segment_ids": FLAGS, "num_segments": 3},
        {"segment_ids": wrong.BOUNDS, "num_segments": wrong.OPTIONAL_COUNT},
    ),
    Function(
        "SegmentPlan.gather",
        SegmentPlan(FLAGS, 6).gather,
        {"values": X},
        {"values": [*wrong.NUMBERS, *wrong.FIVE_ROWS, *wrong.SCALAR]},
    ),
    _part("from_flags", {"flags": FLAGS}, {"flags": wrong.HEADS}),
    *PACKED,
    _part("from_ids", {"ids": FLAGS}, {"ids": wrong.HEADS}),
    _part(
        "from_lengths",
        {"lengths": np.array([2, 0, 4]), "total": 6},
        {"lengths": wrong.LENGTHS, "total": wrong.TOTAL},
    ),
    _part(
        "from_offsets",
        {"offsets": np.array([0, 2, 2, 6]), "total": 6},
        {"offsets": wrong.OFFSETS, "total": wrong.TOTAL},
    ),
    Function(
        "Segments.lengths",
        KNOWN.lengths,
        {"num_segments": 3},
        {"num_segments": wrong.OPTIONAL_COUNT},
    ),
    Function(
        "Segments.offsets",
        KNOWN.offsets,
        {"num_segments": 3},
        {"num_segments": wrong.OPTIONAL_COUNT},
    ),
)
NETWORKS = (
    _network(networks.kogge_stone),
    _network(networks.sklansky),
    _network(networks.ladner_fischer),
    _network(networks.brent_kung),
    _network(networks.han_carlson),
    _network(networks.hockney_jesshope),
    _count_of_network(networks.depth),
    _count_of_network(networks.size),
    _count_of_network(networks.levels),
)
FUNCTIONS = (
    *SCANS,
    *SYSTEMS,
    *REDUCTIONS,
    *BY_SEGMENT,
    *PRODUCTS,
    *VECTORS,
    *COMPACTION,
    *PARTS,
    *NETWORKS,
)
