"""Wrong input of the vector primitives: the kind of error, and that it names the argument."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jscan
from jscan import Segments

X = np.arange(12.0).reshape(3, 4)
MASK = X > 4
ROW = np.arange(4) > 1
MOVED = np.arange(4.0)

WRONG_CALLS = {
    # enumerate
    "enumerate floats": (TypeError, r"enumerate: mask.*float64", lambda: jscan.enumerate(X)),
    "enumerate a string": (TypeError, r"enumerate: mask", lambda: jscan.enumerate("tff")),
    "enumerate None": (TypeError, r"enumerate: mask", lambda: jscan.enumerate(None)),
    "enumerate a scalar": (ValueError, r"enumerate: axis=0.*mask", lambda: jscan.enumerate(True)),
    "enumerate another axis": (
        ValueError,
        r"enumerate: axis=2.*\(3, 4\)",
        lambda: jscan.enumerate(MASK, 2),
    ),
    "enumerate a traced direction": (
        TypeError,
        r"enumerate: reverse",
        lambda: jax.jit(lambda r: jscan.enumerate(MASK, reverse=r))(True),
    ),
    "enumerate by flags of another length": (
        ValueError,
        r"enumerate: segments.*\(4,\).*\(3, 4\)",
        lambda: jscan.enumerate(MASK, segments=ROW),
    ),
    "enumerate by flags of floats": (
        TypeError,
        r"enumerate: segments.*float64",
        lambda: jscan.enumerate(ROW, segments=MOVED),
    ),
    # distribute
    "distribute a number": (TypeError, r"distribute: x", lambda: jscan.distribute(1.0)),
    "distribute nothing": (ValueError, r"distribute: x", lambda: jscan.distribute({})),
    "distribute along a float": (TypeError, r"distribute: axis", lambda: jscan.distribute(X, 0.5)),
    "distribute leaves of unequal length": (
        ValueError,
        r"distribute: .*\bx\b.*\(4,\).*\(3, 4\)",
        lambda: jscan.distribute((MOVED, X)),
    ),
    "distribute by flags of the first leaf only": (
        ValueError,
        r"distribute: segments.*\(3, 4\)",
        lambda: jscan.distribute((X, X[:, 0]), segments=MASK),
    ),
    # pack
    "pack by floats": (TypeError, r"pack: mask.*float64", lambda: jscan.pack(X, X)),
    "pack by a scalar": (ValueError, r"pack: mask.*\(\)", lambda: jscan.pack(X, True)),
    "pack by the trailing dimension": (
        ValueError,
        r"pack: mask.*\(4,\).*\(3, 4\)",
        lambda: jscan.pack(X, ROW),
    ),
    "pack by a mask of more dimensions": (
        ValueError,
        r"pack: mask.*\(4, 1\).*\(4,\)",
        lambda: jscan.pack(MOVED, ROW[:, None]),
    ),
    "pack to a traced size": (
        TypeError,
        r"pack: size.*trace",
        lambda: jax.jit(lambda size: jscan.pack(X, MASK, size=size))(3),
    ),
    "pack to a size that is a float": (
        TypeError,
        r"pack: size.*2\.0",
        lambda: jscan.pack(X, MASK, size=2.0),
    ),
    "pack to a negative size": (
        ValueError,
        r"pack: size.*-1",
        lambda: jscan.pack(X, MASK, size=-1),
    ),
    "pack to no size by a traced mask": (
        ValueError,
        r"pack: size.*mask is traced",
        lambda: jax.jit(jscan.pack)(X, MASK),
    ),
    "pack to no size by a mapped mask": (
        ValueError,
        r"pack: size.*mask is traced",
        lambda: jax.vmap(jscan.pack)(X, MASK),
    ),
    "pack and fill with a row": (
        ValueError,
        r"pack: fill_value.*\(4,\)",
        lambda: jscan.pack(X, MASK[:, 0], size=3, fill_value=MOVED),
    ),
    "pack and fill with a string": (
        (TypeError, ValueError),
        r"pack: fill_value",
        lambda: jscan.pack(X, MASK, fill_value="nought"),
    ),
    "pack and fill with None": (
        (TypeError, ValueError),
        r"pack: fill_value",
        lambda: jscan.pack(X, MASK, fill_value=None),
    ),
    # split
    "split by floats": (TypeError, r"split: mask.*float64", lambda: jscan.split(MOVED, MOVED)),
    "split by a scalar": (ValueError, r"split: mask.*\(\)", lambda: jscan.split(MOVED, True)),
    "split by the mask of another axis": (
        ValueError,
        r"split: mask.*\(4,\).*\(3,\).*axis=0.*\(3, 4\)",
        lambda: jscan.split(X, ROW),
    ),
    "split by a mask that would broadcast": (
        ValueError,
        r"split: mask.*\(3, 1\)",
        lambda: jscan.split(X, MASK[:, :1]),
    ),
    "split by the mask of the first leaf only": (
        ValueError,
        r"split: mask.*\(3, 4\)",
        lambda: jscan.split((X, X[:, 0]), MASK),
    ),
    "split another axis": (
        ValueError,
        r"split: axis=-3.*\(3, 4\)",
        lambda: jscan.split(X, MASK, axis=-3),
    ),
    "split a list of numbers": (TypeError, r"split: x", lambda: jscan.split([1, 2], ROW[:2])),
    # split_and_segment
    "split no segments": (
        TypeError,
        r"split_and_segment: segments",
        lambda: jscan.split_and_segment(X, MASK, None),
    ),
    "split segments of floats": (
        TypeError,
        r"split_and_segment: segments.*float64",
        lambda: jscan.split_and_segment(MOVED, ROW, MOVED),
    ),
    "split segments of another total": (
        ValueError,
        r"split_and_segment: segments.*\(5,\)",
        lambda: jscan.split_and_segment(MOVED, ROW, Segments.from_lengths(np.array([2, 3]))),
    ),
    "split segments by floats": (
        TypeError,
        r"split_and_segment: mask.*float64",
        lambda: jscan.split_and_segment(MOVED, MOVED, ROW),
    ),
    "split segments by the mask of another axis": (
        ValueError,
        r"split_and_segment: mask.*\(4,\)",
        lambda: jscan.split_and_segment(X, ROW, MASK),
    ),
    "split segments of the first leaf only": (
        ValueError,
        r"split_and_segment: segments.*\(3, 4\)",
        lambda: jscan.split_and_segment((X, X[:, 0]), ROW[:3], MASK),
    ),
}


@pytest.mark.parametrize(("kind", "message", "call"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_wrong_input(kind, message, call):
    with pytest.raises(kind, match=rf"jscan\.{message}"):
        call()


@pytest.mark.parametrize("call", [jax.jit, jax.vmap, jax.grad], ids=["jit", "vmap", "grad"])
def test_errors_are_the_same_under_transformations(call):
    def run(x):
        return jscan.split(x, np.ones(9, bool)).sum()

    with pytest.raises(ValueError, match=r"jscan\.split: mask has shape \(9,\)"):
        call(run)(X)
