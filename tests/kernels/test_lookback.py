"""The search over tile state, with states made by hand.

Interpreted kernels run one after another, so that every tile finds its neighbour's prefix at once.
Here a single tile looks back over words that stand as they may on a GPU in mid-flight: aggregates
only for many windows, restarts, pieces.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from jscan.combine import trace
from jscan.kernels import lookback
from jscan.kernels.description import Scan
from jscan.kernels.forms import OperatorAggregates
from jscan.kernels.layout import Geometry, View
from jscan.kernels.operator import commuting_identity, prepare
from jscan.kernels.state import AGGREGATE, PREFIX
from jscan.kernels.tile import Tile
from tests.functions import affine, last_write

LEAF = jax.tree.structure(0)


def search(fn, leaves, tags, *, window, identity=None):
    """What a tile finds that stands behind tiles with these words."""
    dtypes = tuple(np.dtype(x.dtype) for x in leaves)
    tree = jax.tree.structure(0 if len(leaves) == 1 else tuple(range(len(leaves))))
    shapes = [jax.ShapeDtypeStruct((2,), d) for d in dtypes]
    combine = trace(fn, shapes, tree, 0, None)
    assert combine is not None
    operator = prepare(combine)
    tiles = len(tags) + 1
    geometry = Geometry(1, tiles * 8, 1, 1, 8, 1, False, False)
    view = View((1, tiles * 8, 1), (1, 1))
    scan = Scan(
        geometry, operator, dtypes, dtypes, None, (True,) * len(leaves), False, (view,), None
    )
    state = lookback.tile_state(scan)
    pieces = [p for x in leaves for p in lookback_pieces(x)]
    words = np.zeros((state.words, 2), np.int32)
    for k, piece in enumerate(pieces):
        words[k * tiles : (k + 1) * tiles - 1] = np.stack([piece, tags], axis=-1)

    def kernel(words, *outputs):
        tile = Tile(geometry, jnp.int32(tiles - 1))
        aggregates = OperatorAggregates(scan.operator, identity)
        one = lookback.Lookback(scan.operator, state, words, tile, window, aggregates)
        for output, found in zip(outputs, one.prefix(one.peek(tile.index)), strict=True):
            output[...] = found

    found = pl.pallas_call(
        kernel, out_shape=[jax.ShapeDtypeStruct((), d) for d in dtypes], interpret=True
    )(words)
    return [np.asarray(x)[()] for x in found]


def lookback_pieces(values):
    values = np.asarray(values)
    if values.dtype.itemsize == 8:
        return [values.view(np.int32)[0::2], values.view(np.int32)[1::2]]
    return [values.view(np.int32)]


def sequential(fn, leaves, tags):
    """The total of the aggregates since the last prefix, by a loop."""
    start = int(np.flatnonzero(np.asarray(tags) == PREFIX)[-1])
    total = [x[start] for x in leaves]
    for i in range(start + 1, len(tags)):
        step = [x[i] for x in leaves]
        total = [np.asarray(t) for t in fn(tuple(total), tuple(step))]
    return total


def words(n, prefixes):
    tags = np.full(n, AGGREGATE)
    tags[list(prefixes)] = PREFIX
    return tags


CASES = [
    pytest.param(1, [0], 4, id="one tile before"),
    pytest.param(4, [0], 4, id="a whole window"),
    pytest.param(5, [0], 4, id="one more than a window"),
    pytest.param(37, [0], 4, id="many windows"),
    pytest.param(37, [0, 30], 4, id="a prefix in the second window"),
    pytest.param(37, [0, 36], 4, id="the neighbour's prefix"),
    pytest.param(37, [0, 33, 35], 4, id="two prefixes in the window"),
    pytest.param(100, [0, 1], 32, id="windows of a warp"),
    pytest.param(64, list(range(64)), 8, id="prefixes everywhere"),
]


@pytest.mark.product
@pytest.mark.parametrize(("tiles", "prefixes", "window"), CASES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums(tiles, prefixes, window, dtype):
    values = np.random.default_rng(tiles).integers(-(2**30), 2**30, tiles).astype(dtype)
    tags = words(tiles, prefixes)
    want = [values[max(prefixes) :].sum(dtype=dtype)]
    assert search(jnp.add, [values], tags, window=window, identity=dtype(0)) == want
    assert search(jnp.add, [values], tags, window=window) == want  # in order, as for any operator


@pytest.mark.parametrize(("tiles", "prefixes", "window"), CASES)
def test_operators_that_do_not_commute(tiles, prefixes, window):
    rng = np.random.default_rng(tiles)
    tags = words(tiles, prefixes)
    values = rng.integers(0, 3, tiles).astype(np.int32)
    values[0] = 7
    kept = values[max(prefixes) :]
    want = kept[np.flatnonzero(kept)[-1]] if kept.any() else 0
    assert search(last_write, [values], tags, window=window) == [want]

    leaves = [rng.integers(-3, 4, tiles).astype(np.int32) for _ in range(2)]
    with np.errstate(over="ignore"):
        want = sequential(affine, leaves, tags)
    assert search(affine, leaves, tags, window=window) == want


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_fills_a_window_leaves_every_float_as_it_is(dtype):
    """0.0 would take the sign of -0.0."""
    combine = trace(jnp.add, [jax.ShapeDtypeStruct((2,), dtype)], LEAF, 0, None)
    assert combine is not None
    filler = commuting_identity(prepare(combine))
    for x in np.array([-0.0, 0.0, 1.5, -np.inf], dtype):
        assert (x + filler).tobytes() == x.tobytes()


def test_words_before_the_prefix_do_not_matter():
    values = np.arange(1, 21, dtype=np.int32)
    tags = words(20, [0, 12])
    tags[3:9] = 0  # tiles that have not published yet
    assert search(jnp.add, [values], tags, window=8, identity=np.int32(0)) == [values[12:].sum()]
    assert search(last_write, [values], tags, window=8) == [20]
