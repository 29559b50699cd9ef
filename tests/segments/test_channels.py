"""Segments of each row of a batch, which its channels share."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan
from jscan import Segments, operators, primitives
from tests import reference
from tests.cases import every_form
from tests.functions import affine
from tests.kernels.test_lowering import calls, cuda_program
from tests.kernels.test_reduction_lowering import kernel_operands

B, N, D = 2, 13, 3
FLAGS = (np.random.default_rng(1).uniform(size=(B, N)) < 0.3).astype(np.uint8)
X = np.random.default_rng(2).integers(-9, 9, (B, N, D)).astype(np.int32)
GIVEN = {
    "flags": lambda: FLAGS,
    "Segments of flags": lambda: Segments.from_flags(jnp.asarray(FLAGS)),
    "Segments of ids": lambda: Segments.from_ids(jnp.cumsum(jnp.asarray(FLAGS, jnp.int32), 1)),
    "packed": lambda: Segments.from_packed(Segments.from_flags(FLAGS).packed(), N),
}
every_kind = pytest.mark.parametrize("kind", GIVEN)


def spread(flags, like):
    """Flags of every element."""
    extra = (1,) * (like.ndim - flags.ndim)
    return np.broadcast_to(flags.reshape(flags.shape + extra), like.shape)


@pytest.mark.sweep
@every_kind
@every_form
@pytest.mark.parametrize("interpreted", [False, True])
def test_scans(kind, form, interpreted):
    reverse, exclusive, segmented = form
    if not segmented:
        exclusive = not exclusive  # every form is segmented here
    how = {"axis": 1, "reverse": reverse, "exclusive": exclusive}
    wanted = reference.scan(np.add, X, flags=spread(FLAGS, X), identity=0, **how)
    run = jax.jit(lambda x: jscan.cumsum(x, segments=GIVEN[kind](), **how))
    if interpreted:
        with primitives.interpreted():
            found = run(X)
    else:
        found = run(X)
    np.testing.assert_array_equal(found, wanted)


@every_kind
def test_an_axis_in_front_of_the_rows(kind):
    x = np.moveaxis(X, 1, 0)
    given = FLAGS.T if kind == "flags" else GIVEN[kind]()
    found = jscan.cummax(x, segments=given)
    want = reference.scan(np.maximum, x, flags=spread(FLAGS.T, x))
    np.testing.assert_array_equal(found, want)


@every_kind
def test_several_dimensions_of_channels_and_a_gradient(kind):
    x = np.random.default_rng(3).normal(size=(B, N, D, 2))

    def loss(x, segments):
        _, b = jscan.associative_scan(affine, (x, x), axis=1, segments=segments)
        return jnp.sum(jnp.sin(b)) + jnp.sum(
            jscan.linear_recurrence(x, x, axis=1, segments=segments)
        )

    found = jax.jit(jax.grad(loss))(x, GIVEN[kind]())
    want = jax.jit(jax.grad(loss))(x, spread(FLAGS, x))
    np.testing.assert_allclose(found, want, rtol=1e-12)


@every_kind
def test_reductions(kind):
    found = jscan.reduce(operators.add, X, axis=1, segments=GIVEN[kind](), num_segments=N)
    rows = [
        jscan.reduce(operators.add, x, segments=flags, num_segments=N)
        for x, flags in zip(X, FLAGS, strict=True)
    ]
    np.testing.assert_array_equal(found, np.stack(rows))


def test_in_a_batch():
    x = np.stack([X, X + 1])
    found = jax.vmap(lambda x: jscan.cumsum(x, 1, segments=FLAGS))(x)
    want = reference.scan(np.add, x, axis=2, flags=np.stack([spread(FLAGS, X)] * 2))
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("reverse", [False, True])
def test_of_an_axis_that_goes_on_across_devices(reverse):
    x, flags = X[:, :12], FLAGS[:, :12]
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))

    def part(x, flags):
        how = {"init": 5, "reverse": reverse, "segments": flags}
        return jscan.cumsum(x, 1, axis_name="i", **how)

    along = P(None, "i")
    run = jax.shard_map(part, mesh=mesh, in_specs=(along, along), out_specs=along)
    init = np.full((B, D), 5)
    want = reference.scan(np.add, x, axis=1, reverse=reverse, init=init, flags=spread(flags, x))
    np.testing.assert_array_equal(jax.jit(run)(x, flags), want)
    placed = [jax.device_put(v, NamedSharding(mesh, along)) for v in (x, flags)]
    whole = jax.jit(lambda x, f: jscan.cumsum(x, 1, reverse=reverse, init=5, segments=f))
    np.testing.assert_array_equal(whole(*placed), want)


@pytest.mark.parametrize(
    "run", [jscan.cumsum, lambda x, **how: jscan.linear_recurrence(x, x, **how)]
)
def test_kernels_read_a_flag_once_for_all_channels(run):
    x = jax.ShapeDtypeStruct((4, 1 << 12, 64), jnp.float32)
    flags = jax.ShapeDtypeStruct((4, 1 << 12), jnp.uint8)
    program = cuda_program(lambda x, flags: partial(run, axis=1)(x, segments=flags), x, flags)
    assert calls(program) == 1
    [read] = kernel_operands(program)
    assert read.count(f"<{4 << 12}xi8>") + read.count(f"<{4 << 12}xui8>") == 1
    assert f"{4 << 18}xi8" not in program
    assert f"{4 << 18}xui8" not in program


def test_what_fits_no_leading_dimensions_is_named():
    with pytest.raises(ValueError, match=r"its leading dimensions \(2, 13\), or \(13,\)"):
        jscan.cumsum(X, 1, segments=FLAGS[:, :5])
    with pytest.raises(ValueError, match="segments has shape"):
        jscan.cumsum(X, 2, segments=FLAGS)
