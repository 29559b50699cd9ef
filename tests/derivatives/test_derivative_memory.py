"""How much memory a gradient takes between its arguments and its result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators
from tests.cases import CUMULATIVES, every_cumulative

pytestmark = pytest.mark.sweep

SIZES = [2**14, 2**17, 2**20]
LIMIT = 2.5  # one array for the results that slopes are read from, one for cotangents, and a margin

FORMS: dict[str, dict[str, Any]] = {
    "whole": {},
    "reverse": {"reverse": True},
    "segmented": {"segmented": True},
    "reverse segmented": {"reverse": True, "segmented": True},
    "along a middle axis": {"axis": 1},
    "segmented along a middle axis": {"axis": 1, "segmented": True},
}
EXCLUSIVE = {
    "exclusive": {"exclusive": True},
    "exclusive reverse segmented": {"exclusive": True, "reverse": True, "segmented": True},
}
every_form = pytest.mark.parametrize("form", FORMS)
every_size = pytest.mark.parametrize("size", SIZES)


def shape_of(size, form):
    """A row of so many elements, or as many in three dimensions."""
    return (8, size // 64, 8) if "axis" in options_of(form) else (size,)


def options_of(form):
    """The arguments of the scan."""
    return dict((FORMS | EXCLUSIVE)[form])


def loss_of(scan, form):
    """The sum of weighted results."""
    options = options_of(form)
    segmented = options.pop("segmented", False)

    def loss(x, weights, flags):
        return jnp.sum(weights * scan(x, segments=flags if segmented else None, **options))

    return loss


def arguments(size, form):
    """Abstract operands, weights and flags."""
    shape = shape_of(size, form)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    flags = jax.ShapeDtypeStruct((shape[options_of(form).get("axis", 0)],), jnp.bool_)
    return x, x, flags


def temporaries(function, *operands):
    """Bytes that the compiled function takes besides its arguments and results."""
    analysis = jax.jit(function).lower(*operands).compile().memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


def check_temporaries(cumulative, form, size):
    """Asserts that a gradient's temporaries are no more than LIMIT times its argument."""
    gradient = jax.grad(loss_of(cumulative.function, form))
    ratio = temporaries(gradient, *arguments(size, form)) / (4 * size)
    assert ratio <= LIMIT


@pytest.mark.parametrize("form", ["whole", "reverse segmented", "exclusive"])
@pytest.mark.parametrize("cumulative", [CUMULATIVES[1], CUMULATIVES[-1]], ids=lambda c: c.name)
def test_temporaries_of_a_gradient(cumulative, form):
    check_temporaries(cumulative, form, 2**17)


@pytest.mark.thorough
@every_size
@pytest.mark.parametrize("form", [*FORMS, *EXCLUSIVE])
@every_cumulative
def test_temporaries_of_a_gradient_in_every_form(cumulative, form, size):
    check_temporaries(cumulative, form, size)


@pytest.mark.gpu
@every_size
@every_form
@every_cumulative
def test_temporaries_of_a_gradient_on_a_gpu(cumulative, form, size):
    check_temporaries(cumulative, form, size)


def inner(value: Any) -> Iterator[Any]:
    """The jaxprs in a parameter of an equation."""
    if hasattr(value, "eqns"):
        yield value
    elif hasattr(value, "jaxpr"):
        yield from inner(value.jaxpr)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from inner(part)


def largest(jaxpr: Any) -> int:
    """The most elements of any array in a jaxpr or in one inside of it."""
    variables = [*jaxpr.invars, *jaxpr.constvars]
    sizes = [0]
    for equation in jaxpr.eqns:
        variables += [*equation.invars, *equation.outvars]
        sizes += [largest(sub) for value in equation.params.values() for sub in inner(value)]
    sizes += [math.prod(v.aval.shape) for v in variables if hasattr(v.aval, "shape")]
    return max(sizes)


def lowered_elements(function, *operands):
    """The most elements of any array in the program that XLA gets on this machine."""
    text = jax.jit(function).lower(*operands).as_text()
    shapes = [part.split(">")[0] for part in text.split("tensor<")[1:]]
    return max(math.prod(int(d) for d in shape.split("x")[:-1]) for shape in shapes)


DERIVATIVES = {
    "gradient": jax.grad,
    "gradient of a gradient": lambda loss: jax.grad(lambda *x: jnp.sum(jax.grad(loss)(*x))),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("form", ["whole", "segmented along a middle axis"])
@every_cumulative
def test_no_array_holds_the_square_of_the_axis(cumulative, form, derivative):
    size = 2**12
    gradient = DERIVATIVES[derivative](loss_of(cumulative.function, form))
    operands = arguments(size, form)
    assert largest(jax.make_jaxpr(gradient)(*operands).jaxpr) <= 2 * size
    assert lowered_elements(gradient, *operands) <= 2 * size


def test_no_array_of_an_affine_gradient_holds_the_square_of_the_axis():
    x = jax.ShapeDtypeStruct((4096,), jnp.float32)

    @partial(jax.grad, argnums=(0, 1))
    def gradient(a, b):
        return jnp.sum(jscan.associative_scan(operators.affine, (a, b))[1] ** 2)

    assert largest(jax.make_jaxpr(gradient)(x, x).jaxpr) <= 2 * 4096
    assert lowered_elements(gradient, x, x) <= 2 * 4096


def test_temporaries_grow_with_the_axis_and_no_faster():
    gradient = jax.grad(loss_of(jscan.cumprod, "whole"))
    used = [temporaries(gradient, *arguments(size, "whole")) for size in SIZES]
    for (n, a), (m, b) in itertools.pairwise(zip(SIZES, used, strict=True)):
        assert b / a <= m / n * LIMIT


def test_the_walk_finds_what_is_inside_of_a_loop():
    @jax.jit
    def outer(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: y + jnp.sum(jnp.outer(x, x)), 0.0)

    traced = jax.make_jaxpr(outer)(np.ones(50, "float32"))
    assert largest(traced.jaxpr) == 2500
