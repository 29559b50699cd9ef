"""The operators of the table: for jscan, for a loop in NumPy and for one to be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscan import operators
from tests import slopes
from tests.functions import affine

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers of both signs."""
    return rng.normal(size=shape)


def factors(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers of both signs whose products stay of magnitude one."""
    return rng.uniform(0.6, 1.4, shape) * rng.choice((-1.0, 1.0), shape)


def with_a_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Factors, one of which in each row is zero; none of them is the first."""
    x = factors(rng, shape)
    x[np.arange(shape[0]), rng.integers(1, shape[1], shape[0])] = 0.0
    return x


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Counts."""
    return rng.uniform(0.5, 2.0, shape)


def integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Small integers."""
    return rng.integers(-4, 5, shape).astype(np.int32)


def bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Bytes."""
    return rng.integers(0, 256, shape).astype(np.uint8)


def rare(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Bools, of which most are false."""
    return rng.random(shape) < 0.3


def complex_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers of the complex plane, of magnitude one or so."""
    return factors(rng, shape) * np.exp(1j * rng.uniform(0, 6, shape))


def fifths(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers of matrices of five rows whose products do not grow."""
    return rng.normal(size=shape) / 5


def halves(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """bfloat16."""
    return rng.normal(size=shape).astype(jnp.bfloat16)


@dataclass(frozen=True)
class Operation:
    """An operator three times, its identity, and how to draw its leaves.

    Without `leaves` of more than one, elements are arrays and not tuples of them.
    """

    operator: Any
    in_jax: Callable[[Any, Any], Any]
    in_numpy: Callable[[Any, Any], Any]
    identity: Any
    leaves: Sequence[Draw]
    trailing: tuple[int, ...] = ()
    covers: tuple[str, ...] = ()
    # Which leaves the operator is linear in: sets of them.
    linear: tuple[tuple[int, ...], ...] = ()
    undecided: tuple[int, ...] = ()


def times_in_jax(p: Any, q: Any) -> Any:
    """Products of matrices."""
    return jnp.einsum("...ij,...jk->...ik", p, q)


def times_in_numpy(p: Any, q: Any) -> Any:
    """Products of matrices."""
    return np.einsum("...ij,...jk->...ik", p, q)


MIDDLE = np.array([[0.9, 0.2], [-0.3, 0.8]])


def about_the_middle_in_jax(p: Any, q: Any) -> Any:
    """Products of matrices with a given one between each two: it closes over an array."""
    return jnp.einsum("...ij,jk,...kl->...il", p, jnp.asarray(MIDDLE, p.dtype), q)


def about_the_middle_in_numpy(p: Any, q: Any) -> Any:
    """The same."""
    return p @ MIDDLE @ q


def latest_in_jax(p: Any, q: Any) -> Any:
    """The last value with a flag."""
    return p[0] | q[0], jnp.where(q[0], q[1], p[1])


def latest_in_numpy(p: Any, q: Any) -> Any:
    """The last value with a flag."""
    return p[0] | q[0], np.where(q[0], q[1], p[1])


@jax.custom_jvp
def sum_with_its_own_rule(p: Any, q: Any) -> Any:
    """A sum whose rule says what is true.

    Of another rule the second derivatives of `lax.scan` and of `lax.associative_scan` differ.
    """
    return p + q


@sum_with_its_own_rule.defjvp
def its_own_rule(primals: Any, tangents: Any) -> Any:
    """The tangent is the sum of tangents."""
    return sum_with_its_own_rule(*primals), tangents[0] + tangents[1]


def keyed(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator on each array of a pytree."""
    return lambda p, q: jax.tree.map(combine, p, q)


SUM = Operation(
    operators.add, jnp.add, np.add, 0, [normal], covers=("operators.add",), linear=((0,),)
)
PRODUCT = Operation(
    operators.mul, jnp.multiply, np.multiply, 1, [factors], covers=("operators.mul",)
)
MAXIMUM = Operation(
    operators.max, jnp.maximum, np.maximum, -np.inf, [normal], covers=("operators.max",)
)
MINIMUM = Operation(
    operators.min, jnp.minimum, np.minimum, np.inf, [normal], covers=("operators.min",)
)
LOGADDEXP = Operation(
    operators.logaddexp,
    jnp.logaddexp,
    np.logaddexp,
    -np.inf,
    [normal],
    covers=("operators.logaddexp",),
)
AFFINE = Operation(
    operators.affine,
    affine,
    affine,
    (1, 0),
    [factors, normal],
    covers=("operators.affine",),
    linear=((1,),),
)
OWN_SUM = Operation(lambda a, b: a + b, jnp.add, np.add, 0, [normal], linear=((0,),))
OWN_AFFINE = Operation(affine, affine, affine, (1, 0), [factors, normal], linear=((1,),))
MATRICES = Operation(
    times_in_jax, times_in_jax, times_in_numpy, np.eye(2), [normal], trailing=(2, 2)
)
LARGER_MATRICES = replace(MATRICES, identity=np.eye(5), leaves=[fifths], trailing=(5, 5))
ABOUT_THE_MIDDLE = Operation(
    about_the_middle_in_jax,
    about_the_middle_in_jax,
    about_the_middle_in_numpy,
    np.linalg.inv(MIDDLE),
    [normal],
    trailing=(2, 2),
)
WELFORD = Operation(
    slopes.merge_moments,
    slopes.merge_moments,
    slopes.merge_moments_in_numpy,
    (0, 0, 0),
    [positive, normal, positive],
    undecided=(2,),  # sums of squares are added up, and something of the other leaves with them
)
# What keeps its second argument; anything is an identity on the left, which is where it stands.
LAST = Operation(lambda _, b: b, lambda _, b: b, lambda _, b: b, 0, [normal], linear=((0,),))
# This has no identity: a value without a flag does not replace any other.
LATEST = Operation(
    latest_in_jax, latest_in_jax, latest_in_numpy, (False, 0), [rare, normal], linear=((1,),)
)
# linear_transpose of a function with a rule of its own is up to JAX, which may see the rule or not.
OWN_RULE = Operation(
    sum_with_its_own_rule, sum_with_its_own_rule, np.add, 0, [normal], undecided=(0,)
)
TWO_SUMS = Operation(
    operators.add,
    keyed(jnp.add),
    keyed(np.add),
    (0, 0),
    [normal, normal],
    linear=((0,), (1,), (0, 1)),
)
AND = Operation(
    operators.bitwise_and,
    jnp.bitwise_and,
    np.bitwise_and,
    255,
    [bits],
    covers=("operators.bitwise_and",),
)
OR = Operation(
    operators.bitwise_or,
    jnp.bitwise_or,
    np.bitwise_or,
    0,
    [bits],
    covers=("operators.bitwise_or",),
)
XOR = Operation(
    operators.bitwise_xor,
    jnp.bitwise_xor,
    np.bitwise_xor,
    0,
    [bits],
    covers=("operators.bitwise_xor",),
)
