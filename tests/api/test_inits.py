"""What an ``init`` may be: its values, dtypes, layouts, and what errors say of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from tests.functions import affine

OUT_OF_RANGE: dict[str, tuple[str, Any]] = {
    "a negative number": ("uint8", -1),
    "a large number": ("int8", 300),
    "a number of four bits": ("int4", 8),
    "a large float": ("float32", 1e39),
    "a scalar of NumPy": ("float32", np.float64(1e39)),
    "an array of NumPy": ("int8", np.array(300)),
    "a row of NumPy": ("int8", np.array([1, 300])),
    "wider than JAX holds": ("int32", np.int64(2**40)),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_known_init_is_checked_by_its_value(name):
    dtype, init = OUT_OF_RANGE[name]
    x = jnp.ones((3, 2), dtype)

    def run(x):
        return jscan.associative_scan(jnp.maximum, x, init=init)

    for f in (run, jax.jit(run), jax.vmap(run, 0, 0) if np.ndim(init) == 0 else run):
        with pytest.raises(ValueError, match=r"init=.* is out of range for elements of " + dtype):
            f(x)


def test_what_jax_makes_of_a_python_number_is_checked_by_its_value():
    x = jnp.zeros(2, jnp.uint8)
    assert jscan.cummax(x, init=jnp.asarray(7)).tolist() == [7, 7]
    with pytest.raises(ValueError, match="init=-1 is out of range for elements of uint8"):
        jscan.cummax(x, init=jnp.asarray(-1))
    assert jax.jit(lambda x, init: jscan.cummax(x, init=init))(x, 7).tolist() == [7, 7]


def test_a_known_init_that_fits_may_be_wider():
    x = jnp.ones(2, jnp.int8)
    for init in (100, np.int64(100), np.array(100), True):
        assert jscan.cumsum(x, init=init).tolist() == [int(init) + 1, int(init) + 2]
    assert jscan.cumsum(jnp.ones(2, jnp.float32), init=-jnp.inf).tolist() == [-jnp.inf] * 2


NOT_PROMOTED = [("uint8", "int32"), ("int8", "int32"), ("float32", "float64")]


@pytest.mark.parametrize(("dtype", "given"), NOT_PROMOTED)
def test_an_array_of_a_dtype_that_does_not_promote_is_refused(dtype, given):
    x, init = jnp.ones(3, dtype), jnp.ones((), given)
    message = (
        f"init has dtype {given}, which does not promote to {dtype}, in which elements of {dtype} "
        f"are combined; pass init.astype({dtype!r})"
    )
    for f in (jscan.cummax, jax.jit(jscan.cummax)):
        with pytest.raises(TypeError, match=re.escape(message)):
            f(x, init=init)
    assert jscan.cummax(x, init=init.astype(dtype)).tolist() == [1, 1, 1]


PROMOTED = [
    ("bfloat16", "float32"),
    ("float16", "bfloat16"),
    ("float32", "int32"),
    ("int32", "int8"),
]


@pytest.mark.parametrize(("dtype", "given"), PROMOTED)
def test_an_array_of_a_dtype_that_promotes_is_taken(dtype, given):
    found = jscan.cumsum(jnp.ones(2, dtype), init=jnp.full((), 2, given))
    assert found.dtype == dtype
    assert found.tolist() == [3, 4]


def test_errors_name_the_leaf():
    x = jnp.ones(3, jnp.float32)
    with pytest.raises(ValueError, match=r"init\[1\] has shape \(3,\)"):
        jscan.associative_scan(affine, (x, x), init=(1.0, jnp.ones(3, jnp.float32)))
    whole = jnp.ones(3, jnp.int8)
    for init in ((1, 300), (np.int64(1), np.int64(300))):
        with pytest.raises(ValueError, match=r"init\[1\]=300 is out of range"):
            jscan.associative_scan(affine, (whole, whole), init=init)
    with pytest.raises(TypeError, match=r"init\[0\]\.astype\('int8'\)"):
        jscan.associative_scan(affine, (whole, whole), init=(jnp.int32(1), 1))


def test_a_list_is_no_init_of_one_array():
    with pytest.raises(ValueError, match="of 3 leaves; expected one number or one array"):
        jscan.cumsum(jnp.ones((2, 3)), init=[1.0, 2.0, 3.0])


def product(a, b):
    return jnp.einsum("...ij,...jk->...ik", a, b)


WHOLE: dict[str, Callable[..., Any]] = {
    "inclusive": lambda x, init: jscan.associative_scan(product, x, axis=1, init=init),
    "exclusive": lambda x, init: jscan.associative_scan(
        product, x, axis=1, init=init, exclusive=True, reverse=True
    ),
    "by flags": lambda x, init: jscan.associative_scan(
        product, x, axis=1, init=init, segments=jnp.array([0, 1, 0])
    ),
}


@pytest.mark.product
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("specs", [(P(), P("rows")), (P("rows"), P()), (P("rows"), P("rows"))])
def test_an_operator_on_whole_arrays_takes_an_init_of_another_layout(name, specs):
    rng, f = np.random.default_rng(0), WHOLE[name]
    x, init = (rng.uniform(0, 1, s).astype(np.float32) for s in ((4, 3, 5, 5), (4, 5, 5)))

    def total(x, init):
        return jnp.sum(f(x, init))

    whole, slopes = jax.jit(f), jax.jit(jax.grad(total, (0, 1)))
    want = whole(x, init), *slopes(x, init)
    devices = jax.devices("cpu")[:4]
    mesh = jax.make_mesh((4,), ("rows",), (AxisType.Explicit,), devices=devices)
    with jax.set_mesh(mesh):
        placed = [
            jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip((x, init), specs, strict=True)
        ]
        found = whole(*placed), *slopes(*placed)
        assert f(*placed).sharding.spec[0] == (specs[0] or (None,))[0]
    for got, wanted in zip(found, want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4)
