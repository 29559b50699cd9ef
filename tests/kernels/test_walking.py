"""Elements of many numbers: one a thread, in two passes, or chunks that a thread walks."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

import jscan
from jscan import blocks, primitives
from jscan.kernels import tuning
from tests.cases import head_flags
from tests.kernels.test_elements import looped, signed_permutations
from tests.kernels.test_lowering import cuda_program

both_engines = pytest.mark.parametrize("builder", ["pallas", "jax-triton"])
both_directions = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reversed"])


def product(a: Any, b: Any) -> Any:
    return [a[0] @ b[0]]


def walked(together: int) -> tuning.Tuning:
    """Chunks of four positions, for eight threads."""
    return tuning.Tuning(32, 1, 1, 1, chunk=4, together=together)


def blocks_of(shape: tuple[int, ...], dtype: Any = "float32") -> np.ndarray:
    """Seven matrices of two by two as 28 numbers: more than a few, and quick to compile."""
    return signed_permutations((*shape, 7), 2, dtype).reshape(*shape, 28)


def by_blocks(a: Any, b: Any) -> Any:
    """The products of seven matrices."""
    shape = (*a.shape[:-1], 7, 2, 2)
    return (a.reshape(shape) @ b.reshape(shape)).reshape(a.shape)


def products(a: Any, b: Any) -> Any:
    return [by_blocks(a[0], b[0])]


@pytest.mark.sweep
@pytest.mark.parametrize("together", [1, 2])
@both_directions
@pytest.mark.parametrize(
    ("shape", "segmented", "started"),
    [((513,), False, False), ((257,), True, True), ((3, 300), True, False), ((128,), False, True)],
    ids=str,
)
def test_threads_walk_their_chunks(shape, segmented, started, reverse, together):
    x, axis = signed_permutations(shape, 2, "int32"), len(shape) - 1
    flags = head_flags(shape, seed=3) if segmented else None
    init = signed_permutations((), 2, "int32") if started else None

    def scan(x: jax.Array) -> jax.Array:
        how = {"axis": axis, "reverse": reverse, "segments": flags, "init": init}
        return jscan.associative_scan(jnp.matmul, x, method="reduce_then_scan", **how)

    with primitives.interpreted(), primitives.tiled(walked(together)):
        found = jax.jit(scan)(x)
    n = shape[axis]
    if init is not None:  # as an element in front, in the segment that is open there
        at = (n if reverse else 0, 0)
        x = np.insert(x, at[0], init, axis=axis)
        flags = None if flags is None else np.insert(flags, at[0], False, axis=axis)
    [want] = looped(product, (x,), flags, axis=axis, reverse=reverse)
    if init is not None:
        want = np.delete(want, n if reverse else 0, axis=axis)
    np.testing.assert_array_equal(found, want)


def check_blocks(shape: tuple[int, ...], axis: int, dtype: Any, **how: Any) -> None:
    """Compares a scan of elements of 28 numbers with a loop."""
    x, flags = blocks_of(shape, dtype), head_flags(shape, seed=5)
    found = jax.jit(
        lambda x: jscan.associative_scan(by_blocks, x, segments=flags, axis=axis, **how)
    )(x)
    [want] = looped(products, (x,), flags, axis=axis, reverse=how.get("reverse", False))
    np.testing.assert_array_equal(found, want)


def test_large_elements_go_through_kernels():
    with primitives.interpreted(), primitives.tiled(tuning.Tuning(8, 1, 1, 1, strip=4)):
        check_blocks((30,), 0, "float32", method="reduce_then_scan")


ROWS_AND_LANES = pytest.mark.parametrize(
    ("shape", "axis"), [((2, 77), 1), ((5, 20), 1), ((60, 3), 0), ((2, 40, 2), 1), ((1,), 0)]
)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
@both_directions
@ROWS_AND_LANES
def test_large_elements_in_plain_jax(shape, axis, reverse, dtype):
    check_blocks(shape, axis, dtype, reverse=reverse)


@pytest.mark.gpu
@both_engines
@both_directions
@ROWS_AND_LANES
def test_large_elements_of_rows_and_lanes(shape, axis, reverse, builder):
    with jscan.engine(builder):
        check_blocks(shape, axis, "float32", reverse=reverse)


@pytest.mark.parametrize("place", [0, 1])
def test_batches_and_derivatives_of_large_elements(place):
    """The derivative is that of the scan in plain JAX."""
    x = np.moveaxis(blocks_of((3, 40)), 0, place)

    def rows(x: jax.Array) -> jax.Array:
        return jax.vmap(lambda y: jscan.associative_scan(by_blocks, y), place)(x)

    def loops(x: jax.Array) -> jax.Array:
        scan = functools.partial(jax.lax.associative_scan, by_blocks)
        return jax.vmap(scan, place)(x)

    def total(f: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(f(x)))

    found, slope = jax.jit(lambda x: (rows(x), jax.grad(functools.partial(total, rows))(x)))(x)
    np.testing.assert_array_equal(found, loops(jnp.asarray(x)))
    wanted = jax.grad(functools.partial(total, loops))(x)
    np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-4)


def test_exclusive_scans_of_large_elements_begin_with_what_is_given():
    x = blocks_of((70,))
    init = blocks_of(())
    found = jscan.associative_scan(by_blocks, x, init=init, exclusive=True)
    [want] = looped(products, (np.concatenate([init[None], x[:-1]]),), None, axis=0, reverse=False)
    np.testing.assert_array_equal(found, want)


def test_operators_that_compute_the_same_are_the_same():
    def wholes() -> list[Any]:
        leaf = jax.ShapeDtypeStruct((9, 5, 5), np.float32)
        tree = jax.tree.structure(0)
        twice = np.float32(2) * np.eye(5, dtype=np.float32)[None]
        given = [lambda a, b: a @ b, lambda p, q: p @ q, lambda a, b: a @ twice @ b]
        found = [blocks.taken_apart("jscan", fn, [leaf], tree, 0) for fn in given]
        return [apart.whole for apart in found if isinstance(apart, blocks.Apart)]

    first, again, other = wholes()
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert other == wholes()[2]


def test_results_may_be_as_narrow_as_the_elements():
    x = signed_permutations((40,), 5, "bfloat16")
    found = jscan.associative_scan(lambda a, b: (a @ b).astype(jnp.bfloat16), x)
    [want] = looped(product, (x,), None, axis=0, reverse=False)
    np.testing.assert_array_equal(found, want)


def test_constants_vary_as_elements_do():
    """In `shard_map`, where they are the same on all devices."""
    x = signed_permutations((1, 20), 5, "float32")
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    none = np.zeros((5, 5), np.float32)

    def scan(x: jax.Array) -> jax.Array:
        return jscan.associative_scan(lambda a, b: (a @ b) * 1.0 + none[None], x[0])[None]

    spec = jax.sharding.PartitionSpec("d")
    found = jax.jit(jax.shard_map(scan, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    [want] = looped(product, (x,), None, axis=1, reverse=False)
    np.testing.assert_array_equal(found, want)


def divided(shape: tuple[int, ...]) -> jax.Array:
    """Elements whose second dimension two devices divide."""
    mesh = jax.make_mesh((2,), ("d",), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    spec = jax.sharding.PartitionSpec(None, "d")
    return jax.device_put(signed_permutations(shape, 5, "float32"), NamedSharding(mesh, spec))


def test_batches_stay_where_they_are():
    """What two devices divide beside the axis is gathered by none."""
    compiled = jax.jit(lambda x: jscan.associative_scan(jnp.matmul, x)).lower(divided((40, 4)))
    assert "all-gather" not in str(compiled.compile().as_text())


def test_a_named_method_says_that_it_runs_on_one_device():
    scan = jax.jit(lambda x: jscan.associative_scan(jnp.matmul, x, method="reduce_then_scan"))
    with pytest.raises(ValueError, match="by kernels on one device alone"):
        scan(divided((40, 4)))


def test_operators_that_do_little_stay_in_plain_jax():
    leaves = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((9,), (9, 40))]
    tree = jax.tree.structure((0, 0))
    found = blocks.taken_apart("jscan", lambda a, b: (a[0] + b[0], a[1] + b[1]), leaves, tree, 0)
    assert found == "it does little with the 41 numbers of its elements"


@pytest.mark.parametrize("method", ["lookback", "serial_lookback", "chained"])
def test_one_pass_says_that_two_are_needed(method):
    x = blocks_of((300,))
    message = "elements of so many numbers are scanned in two passes"
    with pytest.raises(ValueError, match=message), primitives.interpreted():
        jax.jit(lambda x: jscan.associative_scan(by_blocks, x, method=method))(x)
    matrices, terms = np.ones((300, 5, 5), np.float32), np.ones((300, 5), np.float32)
    with pytest.raises(ValueError, match=message), primitives.interpreted():
        jax.jit(lambda *x: jscan.matrix_recurrence(*x, method=method))(matrices, terms)


@pytest.mark.parametrize(
    ("shape", "kernels"),
    [
        ((2**16, 8, 8), {"jscan_chunk_totals": 1, "jscan_chunks": 1, "jscan_tiles": 2}),
        ((2**16, 5, 5), {"jscan_part_totals": 1, "jscan_parts": 1}),
        ((2**16, 20, 8, 8), {"jscan_block": 1}),
    ],
    ids=str,
)
def test_what_large_elements_lower_to(shape, kernels):
    operand = jax.ShapeDtypeStruct(shape, np.float32)
    text = cuda_program(
        lambda x: jscan.associative_scan(jnp.matmul, x, axis=len(shape) - 3), operand
    )
    for name, count in kernels.items():
        assert text.count(f'name = "{name}"') == count
    assert "dot_general" not in text


# --- recurrences of matrices ---------------------------------------------------------------------


def total_of_states(matrices: jax.Array, terms: jax.Array, **how: Any) -> jax.Array:
    return jnp.sum(jnp.sin(jscan.matrix_recurrence(matrices, terms, **how)))


def recurrence(shape: tuple[int, ...], size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    matrices = rng.normal(size=(*shape, size, size)) * 0.6 / np.sqrt(size)
    return matrices.astype(np.float32), rng.normal(size=(*shape, size)).astype(np.float32)


def compare_gradients(given: Any, run: Any, **how: Any) -> None:
    """With those of a tree in plain JAX, on a CPU.

    On a GPU XLA's program of such a tree, by segments and of 300001 elements, reads memory that is
    not its own (jax 0.11.2).
    """
    by_tree = functools.partial(total_of_states, method="xla", **how)
    with jax.default_device(jax.devices("cpu")[0]):
        want = jax.jit(jax.grad(by_tree, (0, 1)))(*given)
    found = run(jax.grad(functools.partial(total_of_states, **how), (0, 1)))
    for x, y in zip(found, want, strict=True):
        np.testing.assert_allclose(x, np.asarray(y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "size", "segmented", "reverse"),
    [
        ((150,), 2, True, False),
        ((150,), 2, False, True),
        ((2, 68), 2, True, True),
        ((40,), 3, False, False),
    ],
)
def test_gradients_read_matrices_where_they_lie(shape, size, segmented, reverse):
    """Transposed, from the place before; those of three by three do not begin with words."""
    given, axis = recurrence(shape, size), len(shape) - 1
    flags = head_flags(shape, seed=7) if segmented else None

    def run(f: Any) -> Any:
        with primitives.interpreted(), primitives.tiled(walked(2)):
            return jax.jit(f)(*given)

    how = {"axis": axis, "reverse": reverse, "segments": flags}
    compare_gradients(given, run, **how)


def test_gradients_move_no_matrices():
    matrices = jax.ShapeDtypeStruct((2**20, 4, 4), np.float32)
    terms = jax.ShapeDtypeStruct((2**20, 4), np.float32)
    text = cuda_program(jax.grad(total_of_states, (0, 1)), matrices, terms)
    assert text.count('name = "jscan_chunks"') == 2
    moved = [line for line in text.splitlines() if "stablehlo.transpose" in line]
    assert not [line for line in moved if "1048576x4x4" in line]


@pytest.mark.parametrize("axis", [0, 1])
def test_recurrences_of_seven_states_go_through_kernels(axis):
    """Along another axis than the last, too: what lies between is moved."""
    shape = (2**14, 2) if axis == 0 else (2, 2**14)
    given = [jax.ShapeDtypeStruct((*shape, *size), np.float32) for size in ((7, 7), (7,))]
    text = cuda_program(lambda *x: jscan.matrix_recurrence(*x, axis=axis), *given)
    assert 'name = "jscan_chunks"' in text


def test_gradients_of_gradients_of_recurrences():
    given = recurrence((37,), 2)

    def slopes(method: str, *x: jax.Array) -> jax.Array:
        found = jax.grad(functools.partial(total_of_states, method=method), (0, 1))(*x)
        return jnp.stack([jnp.sum(jnp.cos(g)) for g in found]).sum()

    second = [
        jax.jit(jax.grad(functools.partial(slopes, m), (0, 1)))(*given) for m in ("auto", "xla")
    ]
    for x, y in zip(*second, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


# --- on GPUs ------------------------------------------------------------------------------------


@pytest.mark.gpu
@both_engines
@both_directions
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize(("n", "k"), [(20_004, 5), (20_003, 6), (20_004, 8), (31, 8), (130, 7)])
def test_products_of_large_matrices(n, k, dtype, reverse, builder):
    """By the cuts that are chosen, by segments."""
    x, flags = signed_permutations((n,), k, dtype), head_flags((n,), share=0.001)
    with jscan.engine(builder):
        found = jax.jit(
            lambda x: jscan.associative_scan(jnp.matmul, x, segments=flags, reverse=reverse)
        )(x)
    [want] = looped(product, (x,), flags, axis=0, reverse=reverse)
    np.testing.assert_array_equal(found, want)


@pytest.mark.gpu
@both_engines
@both_directions
@pytest.mark.parametrize(("shape", "size"), [((300_001,), 4), ((3, 100_000), 4), ((20_000,), 7)])
def test_gradients_of_long_recurrences(shape, size, reverse, builder):
    given, flags = recurrence(shape, size), head_flags(shape, share=0.001)

    def run(f: Any) -> Any:
        with jscan.engine(builder):
            return jax.jit(f)(*given)

    compare_gradients(given, run, axis=len(shape) - 1, reverse=reverse, segments=flags)
