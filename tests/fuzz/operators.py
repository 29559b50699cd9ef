"""The operators that fuzzing scans with: each in JAX and NumPy at once, on lists of leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jscan import operators
from tests import reference
from tests.cases import COMPLEX, FLOATS, INTEGERS, NUMBERS, REAL, highest, lowest

Leaves = list[Any]
BOTH = (*INTEGERS, "bool")


@dataclasses.dataclass(frozen=True)
class Subject:
    """An associative operator.

    `combine(xp, a, b)` works on lists of leaves with the functions of `xp`, NumPy or jax.numpy;
    `identity` and `draw` make leaves of given dtypes. An operator with `leaves` 0 takes any number
    of them, each by itself. `trailing` are dimensions that one element of each leaf has of its own.
    `rounds` bounds the roundings per element that one term of a result goes through; 0 where
    results are exact. `exact` says that numbers drawn "small" are combined without rounding.
    """

    name: str
    combine: Callable[[Any, Leaves, Leaves], Leaves]
    identity: Callable[[Sequence[Any]], Leaves]
    draw: Callable[[np.random.Generator, tuple[int, ...], Sequence[Any], str], Leaves]
    dtypes: tuple[str, ...]
    leaves: int = 0
    operator: operators.Operator | None = None
    cumulative: str = ""
    trailing: tuple[tuple[int, ...], ...] = ()
    rounds: int = 0
    exact: bool = True

    def kinds(self, dtype: str) -> tuple[str, ...]:
        """The dtypes of the leaves where `dtype` is drawn."""
        return ("bool", dtype) if self.name == "written" else (dtype,) * self.leaves

    def in_numpy(self, a: Any, b: Any) -> Leaves:
        """The operator on lists of NumPy arrays."""
        return self.combine(np, list(a), list(b))


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, flavour: str) -> Any:
    """Random numbers, of which the "small" are added without rounding."""
    dtype = jnp.dtype(dtype)
    sparse = rng.random(shape) < (0.1 if flavour == "sparse" else 1.0)
    if jnp.issubdtype(dtype, jnp.bool_):
        return (rng.random(shape) < 0.5) & sparse
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        if flavour == "small":
            return rng.integers(max(info.min, -3), 4, shape).astype(dtype)
        if flavour == "special":
            edges = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
            return rng.choice(edges, shape)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True) * sparse.astype(
            dtype
        )
    if flavour == "small":
        x = rng.integers(-63, 64, shape) / 8
    elif flavour == "special":
        specials = [0.0, -0.0, np.nan, np.inf, -np.inf]
        x = np.where(rng.random(shape) < 0.8, rng.normal(size=shape), rng.choice(specials, shape))
    else:
        x = rng.normal(size=shape) * sparse
    if jnp.issubdtype(dtype, jnp.complexfloating):
        x = np.where(np.isfinite(x), x, 0) + 1j * rng.integers(-8, 8, shape)
    return x.astype(dtype)


def factors(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, flavour: str) -> Any:
    """Numbers of which products neither overflow nor vanish; the "small" ones are exact."""
    dtype = jnp.dtype(dtype)
    if not jnp.issubdtype(dtype, jnp.inexact):
        return numbers(rng, shape, dtype, flavour)
    sign = rng.choice((-1.0, 1.0), shape)
    x = sign if flavour == "small" else sign * rng.uniform(0.97, 1.03, shape)
    if flavour == "sparse":
        x = np.where(rng.random(shape) < 0.1, 0.0, x)
    if flavour == "special":
        x = np.where(rng.random(shape) < 0.1, rng.choice([np.inf, np.nan, 0.0], shape), x)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        x = np.where(np.isfinite(x), x, 1.0) * rng.choice([1, 1j], shape)
    return x.astype(dtype)


def each(
    draw: Callable[[np.random.Generator, tuple[int, ...], Any, str], Any],
) -> Callable[[np.random.Generator, tuple[int, ...], Sequence[Any], str], Leaves]:
    """Draws every leaf alike."""
    return lambda rng, shape, dtypes, flavour: [draw(rng, shape, d, flavour) for d in dtypes]


def leafwise(name: str) -> Callable[[Any, Leaves, Leaves], Leaves]:
    """A ufunc, which NumPy and JAX call by the same name, on every leaf."""
    return lambda xp, a, b: [getattr(xp, name)(x, y) for x, y in zip(a, b, strict=True)]


def constant(*values: Any) -> Callable[[Sequence[Any]], Leaves]:
    """An identity of so many leaves."""
    return lambda dtypes: [np.asarray(v, d)[()] for v, d in zip(values, dtypes, strict=True)]


def of_dtype(value: Callable[[Any], Any]) -> Callable[[Sequence[Any]], Leaves]:
    """An identity that is each leaf's own."""
    return lambda dtypes: [np.asarray(value(jnp.dtype(d)), d)[()] for d in dtypes]


def compose_affine(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """The map x -> a0 x + a1, then b."""
    del xp
    return [b[0] * a[0], b[0] * a[1] + b[1]]


def slopes_and_offsets(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Affine maps; no specials, as another order meets infinity times zero in other places."""
    flavour = "any" if flavour == "special" else flavour
    return [factors(rng, shape, dtypes[0], flavour), numbers(rng, shape, dtypes[1], flavour)]


def multiply_blocks(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """Matrices as one array of them."""
    return [xp.matmul(a[0], b[0])]


def multiply_matrices(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """2×2 matrices as four leaves, modulo a power of two."""
    del xp
    return [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    ]


def keep_later(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """The later one that is not empty."""
    return [xp.where(b[0] != 0, b[0], a[0])]


def keep_later_write(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """The value written last, and whether there is one."""
    return [a[0] | b[0], xp.where(b[0], b[1], a[1])]


def writes(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Values, and which of them are written: the others are zero, as in the identity."""
    written, value = rng.random(shape) < 0.3, numbers(rng, shape, dtypes[1], flavour)
    return [written, np.where(written, value, np.zeros((), value.dtype))]


def match_brackets(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """The bicyclic monoid: closing and opening brackets that are left when pairs cancel."""
    pairs = xp.minimum(a[1], b[0])
    return [a[0] + b[0] - pairs, a[1] + b[1] - pairs]


def brackets(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Small counts of closing and of opening brackets, one kind at a time where "sparse"."""
    counts = [rng.integers(0, 4, shape).astype(d) for d in dtypes]
    if flavour == "sparse":
        side = rng.random(shape) < 0.5
        counts = [np.where(side ^ bool(k), x, np.zeros((), x.dtype)) for k, x in enumerate(counts)]
    return counts


def compose_permutations(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """Permutations of four things, a then b: the image of i is in bits 2i and 2i + 1."""
    del xp
    image = [((b[0] >> (((a[0] >> (2 * i)) & 3) * 2)) & 3) << (2 * i) for i in range(4)]
    return [image[0] | image[1] | image[2] | image[3]]


def permutations(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Random permutations; where "sparse", mostly the one that moves nothing."""
    order = rng.permuted(np.broadcast_to(np.arange(4), (*shape, 4)), axis=-1)
    packed = np.sum(order << (2 * np.arange(4)), axis=-1)
    rest = rng.random(shape) < (0.7 if flavour == "sparse" else 0.0)
    return [np.where(rest, 0b11100100, packed).astype(dtypes[0])]


def mark(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """Sums of elements that carry all ones; padding that takes part clears bits for good."""
    del xp
    return [a[0] + b[0], a[1] & b[1]]


def marked(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Values with all ones."""
    return [numbers(rng, shape, dtypes[0], flavour), np.full(shape, -1, dtypes[1])]


def move_vectors(xp: Any, a: Leaves, b: Leaves) -> Leaves:
    """Affine maps of the plane, as arrays of matrices and vectors: no elementwise operator."""
    del xp
    product = (b[0][..., :, :, None] * a[0][..., None, :, :]).sum(-2, dtype=a[0].dtype)
    moved = (b[0] * a[1][..., None, :]).sum(-1, dtype=a[1].dtype)
    return [product, moved + b[1]]


def maps_of_the_plane(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Matrices and vectors."""
    trailing = ((2, 2), (2,))
    return [numbers(rng, shape + t, d, flavour) for t, d in zip(trailing, dtypes, strict=True)]


def blocks(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Matrices of two rows."""
    return [numbers(rng, (*shape, 2, 2), dtypes[0], flavour)]


def large_blocks(
    rng: np.random.Generator, shape: tuple[int, ...], dtypes: Sequence[Any], flavour: str
) -> Leaves:
    """Matrices of five rows, whose numbers are too many for a loop."""
    return [numbers(rng, (*shape, 5, 5), dtypes[0], flavour)]


def _of(name: str, ufunc: str, identity: Any, draw: Any, dtypes: Any, **more: Any) -> Subject:
    operator = getattr(operators, name)
    return Subject(
        name, leafwise(ufunc), of_dtype(identity), each(draw), dtypes, operator=operator, **more
    )


SUBJECTS = (
    _of("add", "add", lambda _: 0, numbers, NUMBERS, cumulative="cumsum", rounds=1),
    Subject(
        *("affine", compose_affine, constant(1, 0), slopes_and_offsets),
        (*INTEGERS, "int32", "int32", *FLOATS, *COMPLEX),
        leaves=2,
        operator=operators.affine,
        # A term is a product of up to n factors, and is added up to n times.
        rounds=2,
        exact=False,
    ),
    Subject(
        *("matrices", multiply_matrices, constant(1, 0, 0, 1), each(numbers)),
        *(("uint32", "int8", "uint64"), 4),
    ),
    _of("max", "maximum", lowest, numbers, (*REAL, "bool"), cumulative="cummax"),
    Subject("brackets", match_brackets, constant(0, 0), brackets, ("int32", "int64"), 2),
    _of("mul", "multiply", lambda _: 1, factors, NUMBERS, cumulative="cumprod", rounds=1),
    Subject(
        *("permutations", compose_permutations, constant(0b11100100), permutations),
        *(("uint8", "int32", "uint64"), 1),
    ),
    Subject("later", keep_later, constant(0), each(numbers), INTEGERS, 1),
    _of("min", "minimum", highest, numbers, (*REAL, "bool"), cumulative="cummin"),
    Subject(
        *("blocks", multiply_blocks, lambda dtypes: [np.eye(2, dtype=dtypes[0])], blocks),
        *(("uint32", "int8"), 1),
        trailing=((2, 2),),
    ),
    _of("bitwise_xor", "bitwise_xor", lambda _: 0, numbers, BOTH),
    Subject(
        *("written", keep_later_write, constant(False, 0), writes),
        *((*NUMBERS, "bool"), 2),
    ),
    _of(
        *("logaddexp", "logaddexp", lambda _: -np.inf, numbers, FLOATS),
        cumulative="cumlogsumexp",
        rounds=8,
        exact=False,
    ),
    Subject("marks", mark, constant(0, -1), marked, ("int32", "int64"), 2),
    _of("bitwise_and", "bitwise_and", lambda d: np.invert(np.zeros((), d)), numbers, BOTH),
    _of("bitwise_or", "bitwise_or", lambda _: 0, numbers, BOTH),
    Subject(
        "plane",
        move_vectors,
        lambda dtypes: [np.eye(2, dtype=dtypes[0]), np.zeros(2, dtypes[1])],
        maps_of_the_plane,
        *(("uint32", "int16"), 2),
        trailing=((2, 2), (2,)),
    ),
    Subject(
        *("large blocks", multiply_blocks, lambda dtypes: [np.eye(5, dtype=dtypes[0])]),
        *(large_blocks, ("uint32", "int8"), 1),
        trailing=((5, 5),),
    ),
)
BY_NAME = {subject.name: subject for subject in SUBJECTS}


def errors(
    subject: Subject,
    leaves: Leaves,
    flavour: str,
    expected: Leaves,
    axis: int,
    scan: Any,
    precise: bool,
) -> list[Any]:
    """How wrong rounding may make each leaf of the result, None where there is no rounding.

    `scan` is that of the reference. What is `precise` is rounded once, but for float64, in which
    the reference itself adds.
    """
    floats = [np.asarray(x).dtype.kind not in "iub" for x in leaves]
    if not any(floats) or not subject.rounds or (subject.exact and flavour == "small"):
        return [None] * len(leaves)
    n = leaves[0].shape[axis]
    wide = [reference.widen(x) for x in leaves]
    if subject.name == "logaddexp":
        # As in tests/cases.py: a few roundings of a number no larger than the largest met.
        sizes = [np.max(np.abs(x), axis=axis, keepdims=True, initial=0.0) for x in wide]
        finite = [np.where(np.isfinite(s), s, 0.0) + np.log(max(n, 1)) + 1 for s in sizes]
        magnitudes = [np.max(f, initial=1.0) for f in finite]
    else:
        magnitudes = scan([np.abs(x) for x in wide])
    results: list[Any] = []
    for x, magnitude, wanted, rounded in zip(leaves, magnitudes, expected, floats, strict=True):
        dtype = np.asarray(x).dtype
        # A product of complex numbers rounds its six operations to within sqrt(5) units.
        steps = subject.rounds * (3 if dtype.kind == "c" else 1)
        if not rounded:
            results.append(None)
            continue
        with np.errstate(all="ignore"):
            once = 0.0
            if precise and dtype != np.float64:
                eps = reference.accumulation_eps(dtype)
                magnitude, once = eps * magnitude, eps * np.abs(wanted)
            bound = reference.bound(magnitude, wanted, dtype, n=n, steps=steps) + once
        results.append(bound)
    return results
