"""Values that are wrong for an argument, by the kind of the argument; the axis is 6 long."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

from jscan import Segments, networks, operators

X = np.arange(1.0, 19.0, dtype=np.float32).reshape(6, 3)
FLAGS = np.array([0, 0, 1, 0, 1, 0], np.int32)

Errors = type[Exception] | tuple[type[Exception], ...]
EITHER = (TypeError, ValueError)


@dataclasses.dataclass(frozen=True)
class Wrong:
    """A wrong value of an argument.

    Attributes:
      label: what is wrong with it.
      value: the value.
      error: what it raises.
      places: where it is wrong: outside of "jit", inside, and as a "traced" argument of ``jit``.
    """

    label: str
    value: Any
    error: Errors
    places: tuple[str, ...] = ("eager", "jit", "traced")

    @property
    def can_be_traced(self) -> bool:
        """Whether ``jit`` takes it for an argument."""
        try:
            leaves = jax.tree.leaves(self.value)
        except ValueError:
            return False
        return all(
            isinstance(leaf, jax.Array)
            or (type(leaf) in (np.ndarray, np.float32) and leaf.dtype.kind in "biufc")
            or (type(leaf) in (bool, int, float) and self.places == ("traced",))
            for leaf in leaves or [None]
        )


def wrong(error: Errors, values: dict[str, Any], *places: str) -> list[Wrong]:
    """Values that raise an error, by what is wrong with them; without ``places``, everywhere."""
    chosen = places or Wrong.places
    return [Wrong(label, value, error, chosen) for label, value in values.items()]


def types(values: dict[str, Any]) -> list[Wrong]:
    """Values of a wrong kind or dtype."""
    return wrong(TypeError, values)


def values(values: dict[str, Any]) -> list[Wrong]:
    """Values of a right kind that are wrong all the same."""
    return wrong(ValueError, values)


def known(values: dict[str, Any]) -> list[Wrong]:
    """Values that are wrong, where they are known."""
    return wrong(ValueError, values, "eager", "jit")


def traced(value: Any) -> list[Wrong]:
    """A value that would be right, were it not traced."""
    return wrong(TypeError, {"traced": value}, "traced")


class Unhashable:
    """What can be called, and not be looked up."""

    __hash__: Any = None

    def __call__(self, *_: Any) -> None:
        """Does nothing."""


# Arrays

KEYS = jax.random.wrap_key_data(jnp.zeros((6, 2), jnp.uint32))
KEY = jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32))
SPARSE = sparse.BCOO((jnp.ones(1), jnp.zeros((1, 1), int)), shape=(6,))
NO_ARRAYS: dict[str, Any] = {
    "a string": "abc",
    "bytes": b"abc",
    "an object": object(),
    "a set": {1, 2},
    "a function": len,
    "a class": float,
    "an ellipsis": ...,
    "objects": np.array([None] * 6),
    "strings": np.array(["a"] * 6),
    "dates": np.zeros(6, "datetime64[D]"),
    "records": np.zeros(6, [("a", np.int32)]),
    "an array with a mask": np.ma.MaskedArray(np.ones(6, np.int32), FLAGS > 0),
    "a tangent of integers": np.zeros(6, jax.dtypes.float0),
    "a sparse array": SPARSE,
    "a shape": jax.ShapeDtypeStruct((6,), jnp.int32),
    "keys": KEYS,
}
NO_LISTS = {"strings in a list": ["a"] * 6, "None in a list": [None] * 6, "a dict": {"a": X}}
RAGGED = wrong(EITHER, {"lists of unequal length": [[1, 2], [3]]})
HUGE = wrong(ValueError, {"a huge integer": [2**70, *[0] * 5]})
NONE = types({"None": None})
OPTIONAL_NUMBERS = [*types({**NO_ARRAYS, **NO_LISTS}), *RAGGED, *HUGE]
NUMBERS = [*OPTIONAL_NUMBERS, *NONE]
BOOLEANS = types({"booleans": X > 1})
COMPLEX = types({"complex numbers": X * 1j})
INTEGERS = types({"integers": FLAGS})
SCALAR = values({"a scalar": np.float32(1)})
FIVE_ROWS = values({"five rows": X[:5]})

LEAVES = [
    *types(NO_ARRAYS),
    *types(
        {
            "a number": 1.0,
            "a huge integer": 2**70,
            "a list of numbers": [1, 2],
            "a ragged list": [[1, 2], [3]],
            "a dict of numbers": {"a": 1},
            "an array and a number": (X, 1.0),
            "an array and a string": (X, "abc"),
            "an array and keys": (X, KEYS),
        }
    ),
    *values(
        {
            "None": None,
            "no leaves": (),
            "nothing but None": [None, None],
            "an empty dict": {},
            "a dict whose keys have no order": {1: X, "a": X},
            "leaves of unequal length": (X, X[:5]),
            "a leaf without axes": (X, np.ones(())),
            "an array without axes": np.ones(()),
        }
    ),
    *SCALAR,
]
SLOPES = [
    *NUMBERS,
    *BOOLEANS,
    *FIVE_ROWS,
    *values({"more axes": X[..., None], "two columns": X[:, :2]}),
]
STARTS = [
    *OPTIONAL_NUMBERS,
    *types({"booleans": np.ones(3, bool)}),
    *values({"another shape": np.ones(7, np.float32), "more axes": X}),
]

# Arrays of integers

FRACTIONS = {"floats": X[:, 0], "complex numbers": X[:, 0] * 1j, "a list of floats": [0.5] * 6}
DISCRETE = [*types({**NO_ARRAYS, **NO_LISTS, **FRACTIONS}), *RAGGED]
MISFITS = values(
    {
        "five elements": FLAGS[:5],
        "five elements in a list": [0, 1, 0, 1, 0],
        "another axis": FLAGS[:3],
        "more axes": np.zeros((6, 3, 1), bool),
        "a shape that would broadcast": FLAGS[:, None],
    }
)
MARKS = [*DISCRETE, *NONE, *values({"a scalar": np.array(1), "a bool": True})]
MASK = [*MARKS, *MISFITS]
SEGMENTS = [
    *DISCRETE,
    *MISFITS,
    *types({"a bool": True, "a number": 3, "the class": Segments}),
    *values(
        {
            "a scalar": np.array(1),
            "lengths of five": Segments.from_lengths(np.array([2, 3])),
            "ids of five": Segments.from_ids(FLAGS[:5]),
            "rows of five": Segments.from_flags(np.zeros((3, 5), bool)),
        }
    ),
]
HEADS = [*DISCRETE, *NONE, *values({"a scalar": np.array(1)})]
NUMBERED = [*DISCRETE, *NONE, *types({"booleans": FLAGS > 0})]
IDS = [
    *NUMBERED,
    *values({"five ids": FLAGS[:5], "more axes": np.zeros((6, 3), int), "a scalar": np.array(0)}),
]
BOUNDS = [*NUMBERED, *values({"more axes": np.zeros((2, 3), int), "a scalar": np.array(6)})]
LENGTHS = [
    *BOUNDS,
    *known({"negative": [2, -1, 5], "of another total": [2, 3], "too long": [2**31, 6]}),
]
OFFSETS = [
    *BOUNDS,
    *values({"none": np.array([], int)}),
    *known({"decreasing": [0, 4, 2, 6], "late": [1, 6], "negative": [-1, 6], "short": [0, 5]}),
]

# Numbers and words that choose the program

AXIS = [
    *types(
        {
            "a float": 0.0,
            "None": None,
            "a string": "0",
            "a tuple": (0, 1),
            "a list": [0],
            "a bool": True,
            "a bool of NumPy": np.True_,
            "a bool of JAX": jnp.array(True),
            "a float of JAX": jnp.array(0.0),
            "an array": np.array([0]),
            "not a number": np.nan,
            "an object": object(),
            "a slice": slice(None),
        }
    ),
    *known({"too large": 99, "too small": -99, "huge": 2**100}),
    *traced(0),
]
SWITCH = [
    *types(
        {
            "None": None,
            "a string": "no",
            "a float": 1.0,
            "an array": np.array([True]),
            "a list": [],
            "a dict": {},
            "a function": len,
            "an object": object(),
            "a key": KEY,
            "a date": np.datetime64(1, "D"),
            "not a number": np.nan,
            "another number": 2,
            "a negative number": -1,
        }
    ),
    *traced(True),
]
OPTIONAL_COUNT = [
    *types(
        {
            "a float": 4.0,
            "a string": "4",
            "a bool": True,
            "a bool of NumPy": np.True_,
            "an array": np.array([4]),
            "a list": [4],
            "a dict": {},
            "an object": object(),
            "not a number": np.nan,
        }
    ),
    *known({"negative": -1, "too large": 2**31 - 1, "huge": 2**70}),
    *traced(4),
]
COUNT = [*OPTIONAL_COUNT, *NONE]
TOTAL = [*OPTIONAL_COUNT, *known({"another total": 7})]
MODE = [*types({"a number": 1, "an array": X}), *values({"an unknown name": "wrap"})]
PAIR = [*types({"None": None, "a number": 1, "a list": []}), *values({"an unknown name": "plus"})]
METHOD = [
    *types(
        {
            "None": None,
            "a number": 0,
            "a bool": True,
            "a list": ["xla"],
            "a set": {"xla"},
            "a dict": {},
            "bytes": b"xla",
            "an array": np.array(["xla"]),
            "an object": object(),
            "a class": str,
        }
    ),
    *values({"another name": "fast", "another case": "AUTO", "no name": ""}),
    *traced(1),
]
NETWORK = values(
    {
        "a name": "sklansky",
        "None": None,
        "a number": 3,
        "a list": [networks.sklansky],
        "another function": jnp.cumsum,
        "a function without a hash": Unhashable(),
    }
)

# Operators and what belongs to them


def _operators(*places: str) -> list[Wrong]:
    """Operators that are wrong; those that call NumPy only in ``places``."""
    mistaken: dict[str, Callable[..., Any]] = {
        "of one argument": lambda a: a,
        "of three arguments": lambda a, b, c: a + b + c,
        "a builtin of one argument": len,
        "another dtype": lambda a, b: a > b,
        "a string for a result": lambda *_: "abc",
        "an object for a result": lambda *_: object(),
        "strings for a result": lambda *_: np.array(["a"]),
        "of bits": operators.bitwise_xor,
        "of pairs": operators.affine,
    }
    misshapen: dict[str, Callable[..., Any]] = {
        "two leaves": lambda a, b: (a, b),
        "no leaf": lambda *_: None,
        "a leaf in a dict": lambda a, b: {"a": a + b},
        "a number for a result": lambda *_: 1.0,
        "a huge number for a result": lambda *_: 2**70,
        "another shape": lambda a, b: jnp.sum(a + b),
        "an array of NumPy": lambda *_: np.ones(7),
    }
    numpy: dict[str, Callable[..., Any]] = {
        "of NumPy": np.add,
        "with NumPy inside": lambda a, b: np.where(a > b, a, b),
    }
    no_function = {"None": None, "a number": 3, "a string": "add", "a list": [jnp.add]}
    return [
        *types({**no_function, "an object": object(), **mistaken}),
        *values(misshapen),
        *wrong(TypeError, numpy, *places),
    ]


OPERATOR = _operators()
# A network calls its operator outside of jit, and there NumPy may be called.
OPERATOR_OF_NETWORK = _operators("jit")
IDENTITY = [
    *types(
        {
            "a string": "zero",
            "a set": {0.0},
            "a function": len,
            "an object": object(),
            "a complex number": 1j,
            "a key": KEY,
            "a shape": jax.ShapeDtypeStruct((), jnp.float32),
            "objects": np.array([None]),
            "strings": np.array(["a"]),
            "a date": np.datetime64(1, "D"),
        }
    ),
    *values(
        {
            "a pair": (0.0, 1.0),
            "a list": [0.0],
            "a dict": {"a": 0.0},
            "a dict whose keys have no order": {1: 0.0, "a": 0.0},
            "None in a list": [None],
            "no leaves": (),
            "a sparse array": SPARSE,
            "another shape": np.zeros(7, np.float32),
            "more axes": np.zeros((6, 3), np.float32),
        }
    ),
]
INIT = IDENTITY
FILL = [
    *types(
        {
            "None": None,
            "a string": "nought",
            "a dict": {},
            "a function": len,
            "an object": object(),
            "a key": KEY,
            "a date": np.datetime64(1, "D"),
        }
    ),
    *values({"a list": [1], "a row": np.zeros(3, np.float32)}),
    *known({"a complex number": 1j, "beyond all floats": 1e40}),
]
AXIS_NAME = [
    *types({"a number": 3, "a list with None": ["a", None]}),
    *values({"outside of shard_map": "a", "names outside of it": ("a", "b")}),
]
DEFAULTS = {"axis_name": None, "method": "auto"}
HOW = {"axis_name": AXIS_NAME, "method": METHOD}
