"""Prefix networks: their results, under every transformation, and what is wrong with arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jscan import networks
from tests import reference
from tests.api.networks import CASES, every_network, walk

pytestmark = pytest.mark.sweep

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function as a program that is compiled fast rather than well."""
    return jax.jit(function, compiler_options=QUICK)


def both_ways(scan: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that scans forward and reversed, in one program."""
    return compiled(lambda x: [scan(x, reverse=reverse) for reverse in (False, True)])


def product(a: Any, b: Any) -> Any:
    """Multiplies two by two matrices whose entries are four leaves."""
    return {
        "00": a["00"] * b["00"] + a["01"] * b["10"],
        "01": a["00"] * b["01"] + a["01"] * b["11"],
        "10": a["10"] * b["00"] + a["11"] * b["10"],
        "11": a["10"] * b["01"] + a["11"] * b["11"],
    }


FEW = (*range(10), 12, 16, 17, 31, 33, 64, 70)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=() if n in FEW else pytest.mark.thorough) for n in range(71)]
)
def test_every_length(n):
    x = np.random.default_rng(n).integers(-9, 9, n)
    cases = [case for case in CASES.values() if case.slack in (0, 2)]
    # All forward, and in turn one of them reversed, which are two copies more in any network.
    ways = [*((case, False) for case in cases), (cases[n % len(cases)], True)]
    results = compiled(lambda x: [case.scan(walk, x, reverse=r) for case, r in ways])(x)
    for result, (_, reverse) in zip(results, ways, strict=True):
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result, reference.scan(walk, x, reverse=reverse))


@pytest.mark.sweep
@every_network
@pytest.mark.parametrize(("shape", "axis"), [((13,), 0), ((2, 10, 3), 1), ((2, 8), -1)])
def test_trees_of_matrices_along_any_axis(case, shape, axis):
    random = np.random.default_rng(len(shape))
    matrices = {key: random.integers(-3, 4, shape) for key in ("00", "01", "10", "11")}
    scan = functools.partial(case.scan, product, axis=axis)
    for reverse, results in enumerate(both_ways(scan)(matrices)):
        expected = reference.scan(product, matrices, axis=axis, reverse=bool(reverse))
        jax.tree.map(np.testing.assert_array_equal, results, expected)


@every_network
def test_without_jit(case):
    x = np.random.default_rng(1).integers(-9, 9, 11)
    np.testing.assert_array_equal(case.scan(walk, x), reference.scan(walk, x))


@every_network
def test_leaves_of_unequal_shape(case):
    random = np.random.default_rng(2)
    elems = (random.integers(0, 2, (2, 12)), random.normal(size=(2, 12, 3)))

    def latest(a, b):
        return a[0] | b[0], jnp.where(b[0][..., None] != 0, b[1], a[1])

    def latest_of_one(a, b):
        return a[0] | b[0], np.where(b[0][..., None] != 0, b[1], a[1])

    for reverse, results in enumerate(
        both_ways(functools.partial(case.scan, latest, axis=1))(elems)
    ):
        expected = reference.scan(latest_of_one, elems, axis=1, reverse=bool(reverse))
        jax.tree.map(np.testing.assert_array_equal, results, expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "complex64"])
def test_operators_get_elements_as_they_are(dtype):
    x = jnp.asarray(np.arange(9) % 3, dtype)

    def last(a, b):
        assert a.dtype == b.dtype == x.dtype
        return jnp.where(b == b, b, a)

    for result in compiled(lambda x: [case.scan(last, x) for case in CASES.values()])(x):
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result, x)


@every_network
@pytest.mark.parametrize("n", [0, 1])
def test_no_call_where_there_is_nothing_to_join(case, n):
    def never(_a, _b):
        raise AssertionError

    x = np.arange(3.0 * n).reshape(3, n)
    np.testing.assert_array_equal(case.scan(never, x, 1, reverse=True), x)


@every_network
def test_vmap_of_vmap(case):
    x = np.random.default_rng(3).integers(-9, 9, (3, 11, 2))

    def scans(x, reverse):
        return jax.vmap(jax.vmap(functools.partial(case.scan, walk, reverse=reverse), 1, 1))(x)

    for reverse, result in enumerate(both_ways(scans)(x)):
        expected = reference.scan(walk, x, axis=1, reverse=bool(reverse))
        np.testing.assert_array_equal(result, expected)


@pytest.mark.sweep
@every_network
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_derivatives(case, reverse):
    x = np.random.default_rng(4).uniform(0.5, 1.5, 7)
    weights, direction = np.random.default_rng(5).normal(size=(2, 7))

    def loss(x):
        return jnp.sum(weights * case.scan(jnp.multiply, x, reverse=reverse))

    def everything(x):
        slopes, curved = jax.jvp(jax.grad(loss), (x,), (direction,))
        return slopes, curved, jax.jvp(loss, (x,), (direction,))[1]

    # A result is the product of the elements that it holds, each of them once.
    held = np.tri(7).T if reverse else np.tri(7)
    totals = weights * np.prod(np.where(held == 1, x, 1), axis=1)
    curvatures = np.einsum("t,ti,tj->ij", totals, held / x, held / x)
    np.fill_diagonal(curvatures, 0.0)
    expected = totals @ (held / x)
    slopes, curved, slope = compiled(everything)(x)
    np.testing.assert_allclose(slopes, expected, rtol=1e-12)
    np.testing.assert_allclose(curved, curvatures @ direction, rtol=1e-11)
    np.testing.assert_allclose(slope, expected @ direction, rtol=1e-11)


@every_network
def test_no_slope_is_lost_to_lanes_that_idle(case):
    x = np.array([0.0, 3.0, 4.0, 12.0, 84.0])

    def lengths(x):  # the square root has no slope at zero, which two lanes of zeros would meet
        return case.scan(lambda a, b: jnp.sqrt(a * a + b * b), x)

    expected = np.array([0.0, 3.0, 5.0, 13.0, 85.0])
    slopes = np.tri(5) * x / np.where(expected == 0, 1, expected)[:, None]
    slopes[0, 0] = 1.0  # the first element goes through
    found = compiled(lambda x: (lengths(x), jax.jacrev(lengths)(x), jax.jacfwd(lengths)(x)))(x)
    for result, right in zip(found, (expected, slopes, slopes), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-14)


@every_network
@pytest.mark.parametrize("axis", [0, 1])
def test_explicit_shardings_are_kept(case, axis):
    x = np.random.default_rng(6).integers(-9, 9, (8, 10))
    mesh = jax.make_mesh((4,), ("d",), (AxisType.Explicit,), devices=jax.devices("cpu")[:4])
    spec = PartitionSpec("d", None)
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, spec))
        result = compiled(lambda x: case.scan(walk, x, axis))(sharded)
    assert result.sharding.spec == spec
    np.testing.assert_array_equal(result, reference.scan(walk, x, axis=axis))


@every_network
@pytest.mark.parametrize("n", [13, 16])
def test_pallas_kernels_may_hold_a_network(case, n):
    x = np.random.default_rng(7).integers(-9, 9, (3, n))

    def kernel(x, y):
        y[...] = case.scan(walk, x[...], 1)

    row = pl.BlockSpec((1, n), lambda i: (i, 0))
    scan = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(3,),
        in_specs=[row],
        out_specs=row,
        interpret=True,
    )
    np.testing.assert_array_equal(compiled(scan)(x), reference.scan(walk, x, axis=1))


# --- wrong input --------------------------------------------------------------------------------

X = np.arange(12.0).reshape(3, 4)
SCAN: Any = networks.kogge_stone  # wrong types are what these calls are about
WRONG_CALLS = {
    "fn is not callable": (TypeError, r"fn must be callable; got int", lambda: SCAN(3, X)),
    "fn returns too much": (
        ValueError,
        r"fn must return a pytree like elems.*\(\*, \*\)",
        lambda: SCAN(lambda a, b: (a, b), X),
    ),
    "fn returns nothing": (
        ValueError,
        r"fn must return a pytree like elems.*None",
        lambda: SCAN(lambda _a, _b: None, X),
    ),
    "fn returns another shape": (
        ValueError,
        r"fn.*\(2, 4\).*\(\)",
        lambda: SCAN(lambda a, b: jnp.sum(a + b), X),
    ),
    "fn returns another dtype": (TypeError, r"fn.*bool", lambda: SCAN(lambda a, b: a > b, X)),
    "no leaves": (ValueError, r"elems", lambda: SCAN(jnp.add, {})),
    "leaf is a number": (TypeError, r"elems.*1\.0", lambda: SCAN(jnp.add, [1.0])),
    "leaves of unequal length": (
        ValueError,
        r"elems.*\(3,\).*\(4,\)",
        lambda: SCAN(jnp.add, (np.ones(3), np.ones(4))),
    ),
    "a leaf without the axis": (
        ValueError,
        r"elems.*axis=1",
        lambda: SCAN(jnp.add, (X, np.ones(3)), 1),
    ),
    "axis is too large": (ValueError, r"axis=2.*\(3, 4\)", lambda: SCAN(jnp.add, X, 2)),
    "axis is None": (TypeError, r"axis", lambda: SCAN(jnp.add, X, None)),
    "reverse is traced": (
        TypeError,
        r"reverse",
        lambda: jax.jit(lambda r: SCAN(jnp.add, X, reverse=r))(True),
    ),
}
WRONG_NUMBERS = {
    "slack is negative": (ValueError, r"slack", {"slack": -1}),
    "slack is a float": (TypeError, r"slack", {"slack": 0.5}),
    "slack is None": (TypeError, r"slack", {"slack": None}),
    "n is negative": (ValueError, r"n must", {"n": -1}),
    "n is a float": (TypeError, r"n must", {"n": 8.0}),
    "n is None": (TypeError, r"n must", {"n": None}),
    "slack that there is not": (
        ValueError,
        r"slack=1 is for ladner_fischer, not sklansky",
        {"network": networks.sklansky, "slack": 1},
    ),
    "another function": (ValueError, r"network.*kogge_stone.*cumsum", {"network": jnp.cumsum}),
    "a list": (ValueError, r"network.*kogge_stone", {"network": [networks.sklansky]}),
    "a name": (ValueError, r"network.*kogge_stone.*'sklansky'", {"network": "sklansky"}),
}


@pytest.mark.parametrize(("kind", "message", "call"), WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_wrong_input(kind, message, call):
    with pytest.raises(kind, match=rf"jscan\.networks\.kogge_stone: .*{message}"):
        call()


@every_network
def test_every_network_names_itself(case):
    with pytest.raises(ValueError, match=rf"jscan\.networks\.{case.name}: axis=3"):
        case.scan(jnp.add, X, 3)


@pytest.mark.parametrize("function", [networks.depth, networks.size, networks.levels])
@pytest.mark.parametrize(
    ("kind", "message", "arguments"), WRONG_NUMBERS.values(), ids=WRONG_NUMBERS.keys()
)
def test_wrong_numbers(function, kind, message, arguments):
    with pytest.raises(kind, match=rf"jscan\.networks\.{function.__name__}: .*{message}"):
        function(**{"network": networks.ladner_fischer, "n": 8, **arguments})


@pytest.mark.parametrize("slack", [-1, 0.5, None, "1"])
def test_wrong_slack_of_a_scan(slack):
    with pytest.raises((TypeError, ValueError), match=r"networks\.ladner_fischer: slack"):
        networks.ladner_fischer(jnp.add, X, slack=slack)
