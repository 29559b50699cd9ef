"""The cumulative functions: every dtype, axis, direction and form, on every engine."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from tests.cases import (
    BY_NAME,
    CUMULATIVES,
    FULL,
    PLAIN,
    SEGMENTED_FORMS,
    Cumulative,
    every_cumulative,
    every_form,
    form_name,
    head_flags,
    values,
)
from tests.engines import Engine

every_dtype = pytest.mark.parametrize(
    ("cumulative", "dtype"),
    [pytest.param(c, d, id=f"{c.name}-{d}") for c in CUMULATIVES for d in c.dtypes],
)


def check(
    cumulative: Cumulative, x, engine: Engine, *, axis=0, reverse=False, exclusive=False, flags=None
):
    """Runs one cumulative function on one engine and compares it with the sequential loop."""
    actual = cumulative.function(
        x, axis, reverse, exclusive=exclusive, segments=flags, method=engine.method
    )
    assert isinstance(actual, jax.Array)
    cumulative.check(actual, x, axis=axis, reverse=reverse, exclusive=exclusive, flags=flags)


def check_form(cumulative: Cumulative, dtype: str, form: tuple[bool, bool, bool], engine: Engine):
    """Checks one row of one dtype in one of FORMS."""
    reverse, exclusive, segmented = form
    x = values(cumulative.name, (70,), dtype)
    flags = head_flags((70,)) if segmented else None
    check(cumulative, x, engine, reverse=reverse, exclusive=exclusive, flags=flags)


@pytest.mark.sweep
@every_dtype
@pytest.mark.parametrize("form", [PLAIN, FULL], ids=form_name)
def test_every_dtype(cumulative, dtype, form, engine):
    check_form(cumulative, dtype, form, engine)


@pytest.mark.sweep
@every_cumulative
@every_form
def test_every_form(cumulative, form, engine):
    check_form(cumulative, "float32", form, engine)


@pytest.mark.grid
@every_dtype
@every_form
def test_every_dtype_in_every_form(cumulative, dtype, form, engine):
    check_form(cumulative, dtype, form, engine)


@pytest.mark.product
@every_cumulative
def test_plain(cumulative, engine):
    check(cumulative, values(cumulative.name, (3, 200), "float32"), engine, axis=1)


@pytest.mark.product
@every_form
def test_forms_along_the_last_axis(form, engine):
    reverse, exclusive, segmented = form
    n = min(engine.longest, 5000)
    flags = head_flags((2, n), share=0.01) if segmented else None
    x = values("cumsum", (2, n), "int32")
    check(BY_NAME["cumsum"], x, engine, axis=1, reverse=reverse, exclusive=exclusive, flags=flags)


@pytest.mark.product
@every_form
def test_forms_along_the_first_axis(form, engine):
    reverse, exclusive, segmented = form
    n = min(engine.longest, 300)
    flags = head_flags((n, 5), share=0.05) if segmented else None
    x = values("cumsum", (n, 5), "float32")
    check(BY_NAME["cumsum"], x, engine, reverse=reverse, exclusive=exclusive, flags=flags)


def test_sizes(engine, size):
    check(BY_NAME["cumsum"], values("cumsum", (size,), "int32"), engine)


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
def test_sizes_of_segmented_exclusive_maximum(engine, size, reverse):
    x = values("cummax", (size,), "int16")
    flags = head_flags((size,), share=0.02)
    check(BY_NAME["cummax"], x, engine, reverse=reverse, exclusive=True, flags=flags)


@pytest.mark.sweep
@every_cumulative
@pytest.mark.parametrize("axis", range(-5, 5))
def test_every_axis_of_five(cumulative, axis, engine):
    x = values(cumulative.name, (2, 3, 7, 4, 5), cumulative.dtypes[1])
    check(cumulative, x, engine, axis=axis)


@pytest.mark.sweep
@every_form
@pytest.mark.parametrize("axis", range(5))
def test_every_axis_of_five_in_every_form(form, axis, engine):
    reverse, exclusive, segmented = form
    shape = (3, 2, 6, 4, 5)
    flags = head_flags(shape, "uint8", share=0.3) if segmented else None
    x = values("cumprod", shape, "int64")
    check(
        BY_NAME["cumprod"], x, engine, axis=axis, reverse=reverse, exclusive=exclusive, flags=flags
    )


@pytest.mark.product
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_middle_axis(axis, engine):
    check(BY_NAME["cummin"], values("cummin", (3, 40, 9), "float32"), engine, axis=axis)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((0,), 0), ((3, 0), 1), ((0, 3), 1), ((3, 0), 0), ((2, 0, 4), 2), ((1,), 0), ((4, 1, 3), 1)],
)
@every_form
@pytest.mark.sweep
def test_empty_and_single(shape, axis, form, engine):
    reverse, exclusive, segmented = form
    flags = np.zeros(shape, bool) if segmented else None
    x = values("cumsum", shape, "float32")
    check(
        BY_NAME["cumsum"], x, engine, axis=axis, reverse=reverse, exclusive=exclusive, flags=flags
    )


@every_cumulative
@pytest.mark.sweep
def test_exclusive_of_nothing_is_the_identity(cumulative, engine):
    y = cumulative.function(jnp.ones((2, 1), "float32"), 1, exclusive=True, method=engine.method)
    np.testing.assert_array_equal(y, np.full((2, 1), cumulative.identity("float32"), "float32"))


@pytest.mark.sweep
def test_exclusive_never_reads_the_last_element(engine):
    x = values("cumsum", (100,), "float32")
    last_is_nan = x.copy()
    last_is_nan[-1] = np.nan
    y = jscan.cumsum(last_is_nan, exclusive=True, method=engine.method)
    np.testing.assert_array_equal(y, jscan.cumsum(x, exclusive=True, method=engine.method))


@pytest.mark.parametrize("form", SEGMENTED_FORMS, ids=form_name)
@pytest.mark.sweep
def test_one_row_of_flags_is_shared(form, engine):
    reverse, exclusive, _ = form
    x = values("cumsum", (4, 50, 3), "int32")
    row = head_flags((50,))
    keywords = {"reverse": reverse, "exclusive": exclusive, "method": engine.method}
    shared = jscan.cumsum(x, 1, segments=row, **keywords)
    full = np.broadcast_to(row[:, None], x.shape)
    np.testing.assert_array_equal(shared, jscan.cumsum(x, 1, segments=full, **keywords))
    BY_NAME["cumsum"].check(shared, x, axis=1, reverse=reverse, exclusive=exclusive, flags=row)


def test_flags_per_row(engine):
    x = values("cumsum", (6, 120), "int32")
    check(BY_NAME["cumsum"], x, engine, axis=1, flags=head_flags(x.shape))


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_accepts_numpy_and_jax_arrays(convert):
    np.testing.assert_array_equal(jscan.cumsum(convert(np.arange(5))), [0, 1, 3, 6, 10])


def test_input_is_left_as_it_was(engine):
    x = jnp.asarray(values("cumsum", (64,), "int32"))
    before = np.array(x)
    jscan.cumsum(x, reverse=True, exclusive=True, method=engine.method)
    np.testing.assert_array_equal(x, before)


@every_cumulative
def test_defaults_match_lax(cumulative):
    x = values(cumulative.name, (6, 5), "float32")
    ours, theirs = cumulative.function(x), getattr(jax.lax, cumulative.name)(x)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_allclose(ours, theirs, rtol=float(6 * 8 * np.finfo("float32").eps))


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64", "bfloat16"])
def test_without_64_bit_types(dtype):
    with jax.enable_x64(False):
        x = values("cumsum", (40,), dtype)
        y = jscan.cumsum(x, segments=head_flags((40,)))
        BY_NAME["cumsum"].check(y, x, flags=head_flags((40,)))
