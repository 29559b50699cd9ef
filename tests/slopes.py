"""Operators to differentiate, with A = ∂f/∂y[t-1] and B = ∂f/∂x[t] of each written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jscan
from jscan import operators
from tests import reference
from tests.functions import multiply_matrices

Array = reference.Array
Entries = dict[tuple[int, int], Any]
Slopes = Callable[[Any, Any], tuple[Entries, Entries]]


@dataclass(frozen=True)
class Rule:
    """An operator, what it computes, and its two Jacobians, of all of which none knows another.

    `slopes` takes previous values and elements to the entries of A and of B that are not zero;
    `draw` takes a generator and a shape to leaves over which results neither vanish nor overflow;
    `steps` is how often one step and its slopes round.
    """

    name: str
    scan: Callable[..., Any]
    combine: Callable[[Any, Any], Any]
    slopes: Slopes
    draw: Callable[[np.random.Generator, tuple[int, ...]], Sequence[Array]]
    steps: int = 4

    def data(self, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> tuple[Any, Any, Any]:
        """Leaves, their tangents, and cotangents of the results."""
        rng = np.random.default_rng([seed, *shape])
        xs = tuple(x.astype(dtype) for x in self.draw(rng, shape))
        dxs, gs = (tuple(rng.normal(size=shape).astype(dtype) for _ in xs) for _ in range(2))
        return xs, dxs, gs


def bilinear(*outputs: Sequence[tuple[int, int | None, int]]) -> tuple[Any, Slopes]:
    """NumPy's version and the Jacobians of a sum of products.

    Each output is a sequence of terms (sign, i, j): the product of the previous value i, or of 1
    where that is None, and of the element j.
    """

    def combine(p: Any, q: Any) -> Any:
        return [sum(s * (1 if i is None else p[i]) * q[j] for s, i, j in row) for row in outputs]

    def slopes(p: Any, q: Any) -> tuple[Entries, Entries]:
        a: Entries = {}
        b: Entries = {}
        for r, row in enumerate(outputs):
            for s, i, j in row:
                b[r, j] = b.get((r, j), 0.0) + s * (1.0 if i is None else p[i])
                if i is not None:
                    a[r, i] = a.get((r, i), 0.0) + s * q[j]
        return a, b

    return combine, slopes


def rotate(p: Any, q: Any) -> Any:
    """Complex numbers as two leaves, which depend on each other."""
    return p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]


def circulate(p: Any, q: Any) -> Any:
    """Circulant 3x3 matrices times vectors, plus vectors: twice three states, one after another."""

    def times(c: Any, v: Any) -> Any:
        return tuple(c[0] * v[k] + c[1] * v[k - 1] + c[2] * v[k - 2] for k in range(3))

    moved = times(q[:3], p[3:])
    return (*times(q[:3], p[:3]), *(x + y for x, y in zip(moved, q[3:], strict=True)))


def multiply_quaternions(p: Any, q: Any) -> Any:
    """Four states that depend on each other: more than a kernel takes together."""
    return (
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
        p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
    )


def merge_moments(p: Any, q: Any) -> Any:
    """Welford's count, mean and sum of squared differences."""
    total = p[0] + q[0]
    count = jnp.where(total > 0, total, 1.0)
    difference = q[1] - p[1]
    mean = p[1] + difference * (q[0] / count)
    return total, mean, p[2] + q[2] + difference * difference * (p[0] * q[0] / count)


def merge_moments_in_numpy(p: Any, q: Any) -> Any:
    """The same from sums, by the definition of a mean."""
    total = p[0] + q[0]
    mean = (p[0] * p[1] + q[0] * q[1]) / total
    return total, mean, p[2] + p[0] * (p[1] - mean) ** 2 + q[2] + q[0] * (q[1] - mean) ** 2


def slopes_of_moments(p: Any, q: Any) -> tuple[Entries, Entries]:
    """Of n' = n + k, m' = (n m + k u) / n' and s' = s + v + (u - m)² n k / n'."""
    (n, m, _), (k, u, _) = p, q
    total, d = n + k, u - m
    a = {(0, 0): 1.0, (1, 0): -d * k / total**2, (1, 1): n / total}
    a |= {(2, 0): (d * k / total) ** 2, (2, 1): -2 * d * n * k / total, (2, 2): 1.0}
    b = {(0, 0): 1.0, (1, 0): d * n / total**2, (1, 1): k / total}
    b |= {(2, 0): (d * n / total) ** 2, (2, 1): 2 * d * n * k / total, (2, 2): 1.0}
    return a, b


def either(p: Any, q: Any) -> Any:
    """The probability of one or the other of two independent events."""
    return p + q - p * q


@jax.custom_jvp
def skewed_sum(p: Any, q: Any) -> Any:
    """A sum whose slopes are said to be 1/2 and 2."""
    return p + q


@skewed_sum.defjvp
def skewed_sum_jvp(primals: Any, tangents: Any) -> Any:
    return skewed_sum(*primals), tangents[0] * 0.5 + tangents[1] * 2.0


@jax.custom_vjp
def skewed_product(p: Any, q: Any) -> Any:
    """A product whose slope in the second is said to be half of what it is."""
    return p * q


def skewed_product_forwards(p: Any, q: Any) -> Any:
    return skewed_product(p, q), (p, q)


def skewed_product_backwards(kept: Any, g: Any) -> Any:
    return g * kept[1], g * kept[0] * 0.5


skewed_product.defvjp(skewed_product_forwards, skewed_product_backwards)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Sequence[Array]:
    """One leaf."""
    return [rng.normal(size=shape)]


def near_one(rng: np.random.Generator, shape: tuple[int, ...]) -> Sequence[Array]:
    """Factors of which a thousand neither vanish nor overflow."""
    return [rng.uniform(0.97, 1.03, shape) * rng.choice((-1.0, 1.0), shape)]


def shares(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> list[Array]:
    """Positive numbers whose sum is one."""
    x = rng.uniform(0.2, 1.0, (count, *shape))
    return list(x / x.sum(0))


def small_turns(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> list[Array]:
    """Numbers of magnitude one or nearly, the angles of which add up to a few."""
    limit = 2 / (4 + max(shape))
    turns = rng.uniform(-limit, limit, (count, *shape))
    return [np.sqrt(1 - np.sum(turns**2, 0)), *turns]


def slope_and_offset(rng: np.random.Generator, shape: tuple[int, ...]) -> Sequence[Array]:
    """Slopes near one."""
    return [*near_one(rng, shape), rng.normal(size=shape)]


def moments(rng: np.random.Generator, shape: tuple[int, ...]) -> Sequence[Array]:
    """Counts, means and squares."""
    return [rng.uniform(0.5, 2.0, shape), rng.normal(size=shape), rng.uniform(0.0, 1.0, shape)]


PRODUCT = bilinear([(1, 0, 0)])
AFFINE = bilinear([(1, 0, 0)], [(1, 1, 0), (1, None, 1)])
MATRICES = bilinear(*([(1, 2 * r, c), (1, 2 * r + 1, 2 + c)] for r in (0, 1) for c in (0, 1)))
ROTATION = bilinear([(1, 0, 0), (-1, 1, 1)], [(1, 0, 1), (1, 1, 0)])
CIRCULANTS = bilinear(
    *([(1, (k - i) % 3, i) for i in range(3)] for k in range(3)),
    *([*((1, 3 + (k - i) % 3, i) for i in range(3)), (1, None, 3 + k)] for k in range(3)),
)
QUATERNIONS = bilinear(
    [(1, 0, 0), (-1, 1, 1), (-1, 2, 2), (-1, 3, 3)],
    [(1, 0, 1), (1, 1, 0), (1, 2, 3), (-1, 3, 2)],
    [(1, 0, 2), (-1, 1, 3), (1, 2, 0), (1, 3, 1)],
    [(1, 0, 3), (1, 1, 2), (-1, 2, 1), (1, 3, 0)],
)


def scalars(combine: Callable[[Any, Any], Any], a: Any, b: Any) -> tuple[Any, Slopes]:
    """A function of two numbers and its two slopes, as functions of tuples of one."""

    def slopes(p: Any, q: Any) -> tuple[Entries, Entries]:
        return {(0, 0): a(p[0], q[0])}, {(0, 0): b(p[0], q[0])}

    return lambda p, q: [combine(p[0], q[0])], slopes


def share_of(better: Callable[[Any, Any], Any], p: Any, q: Any) -> Any:
    """What max or min passes to p: all if it is selected, and half if the two are equal."""
    return np.where(p == q, 0.5, better(p, q) * 1.0)


def scan_of_one(name: str) -> Callable[..., Any]:
    """A public function of one array, on a tuple of one."""
    return lambda xs, **options: (getattr(jscan, name)(xs[0], **options),)


def scan_with(fn: Callable[[Any, Any], Any], identity: Any) -> Callable[..., Any]:
    """The scan of a tuple of leaves by an operator."""

    def scan(xs: Any, **options: Any) -> Any:
        elems = tuple(xs) if isinstance(identity, tuple) else xs[0]
        out = jscan.associative_scan(fn, elems, identity=identity, **options)
        return tuple(jax.tree.leaves(out))

    return scan


def same(value: float) -> Callable[[Any, Any], float]:
    """A slope that is the same everywhere."""
    return lambda _p, _q: value


RULES = (
    Rule("cumsum", scan_of_one("cumsum"), *scalars(np.add, same(1.0), same(1.0)), normal),
    Rule("cumprod", scan_of_one("cumprod"), *PRODUCT, near_one),
    Rule(
        "cummax",
        scan_of_one("cummax"),
        *scalars(
            np.maximum,
            lambda p, q: share_of(np.greater, p, q),
            lambda p, q: share_of(np.greater, q, p),
        ),
        normal,
    ),
    Rule(
        "cummin",
        scan_of_one("cummin"),
        *scalars(
            np.minimum, lambda p, q: share_of(np.less, p, q), lambda p, q: share_of(np.less, q, p)
        ),
        normal,
    ),
    Rule(
        "cumlogsumexp",
        scan_of_one("cumlogsumexp"),
        *scalars(
            np.logaddexp,
            lambda p, q: np.exp(p - np.logaddexp(p, q)),
            lambda p, q: np.exp(q - np.logaddexp(p, q)),
        ),
        normal,
        steps=20,  # an exponential is as wrong as its operand, a logarithm of up to about ten
    ),
    Rule("affine", scan_with(operators.affine, (1, 0)), *AFFINE, slope_and_offset, 6),
    Rule(
        "welford",
        scan_with(merge_moments, (0, 0, 0)),
        merge_moments_in_numpy,
        slopes_of_moments,
        moments,
        steps=30,
    ),
    Rule(
        "matrices",
        scan_with(multiply_matrices, (1, 0, 0, 1)),
        *MATRICES,
        lambda rng, shape: [*shares(rng, shape, 2), *shares(rng, shape, 2)],
        steps=8,
    ),
    Rule(
        "rotation",
        scan_with(rotate, (1, 0)),
        *ROTATION,
        lambda rng, shape: small_turns(rng, shape, 1),
        steps=8,
    ),
    Rule(
        "circulants",
        scan_with(circulate, (1, 0, 0, 0, 0, 0)),
        *CIRCULANTS,
        lambda rng, shape: [*shares(rng, shape, 3), *rng.normal(size=(3, *shape))],
        steps=12,
    ),
    Rule(
        "quaternions",
        scan_with(multiply_quaternions, (1, 0, 0, 0)),
        *QUATERNIONS,
        lambda rng, shape: small_turns(rng, shape, 3),
        steps=16,
    ),
    Rule(
        "either",
        scan_with(either, 0),
        *scalars(either, lambda _, q: 1 - q, lambda p, _: 1 - p),
        lambda rng, shape: [rng.uniform(-0.03, 0.03, shape)],
    ),
    Rule("custom_jvp", scan_with(skewed_sum, 0), *scalars(np.add, same(0.5), same(2.0)), normal),
    Rule(
        "custom_vjp",
        scan_with(skewed_product, 1),
        *scalars(np.multiply, lambda _, q: q, lambda p, _: p * 0.5),
        near_one,
    ),
)
BY_NAME = {rule.name: rule for rule in RULES}
