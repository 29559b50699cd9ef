"""A kernel to learn from: a tiled scan in three phases, its tiles scanned by a prefix network.

    x          a b c d      e f g h      i j k l      cut into tiles
    phase 1    a .. a-d     e .. e-h     i .. i-l     a program for each tile scans it
    phase 2         a-d          a-h          a-l     one program scans the last elements
    phase 3    a .. a-d     a-e .. a-h   a-i .. a-l   a program for each tile joins what is before

What happens inside of a tile, and to the last elements, is up to one of `jscan.networks`. They
differ in depth D, the levels that run one after another, and in size S, the operators in all of
them, and less of one is more of the other. Brent's theorem says what that costs: p lanes, of which
each is one operator at a time, take a network with S(i) operators in level i

    ⌈S(1) / p⌉ + ⌈S(2) / p⌉ + ..  ≤  D + (S - D) / p

steps. With a lane for every element depth is all that counts, and the networks of least depth win:
Kogge and Stone's, Sklansky's. With few lanes size counts, and the tree of Brent and Kung wins,
though it is almost twice as deep; with a single one, nothing beats a loop of n - 1 steps. Scans on
GPUs use both ends: each thread runs a loop over a few elements, and a network is left with no more
totals than there are threads.

    python examples/teaching_kernel.py               every network
    python examples/teaching_kernel.py brent_kung    one of them, with a picture
    python examples/teaching_kernel.py --length 5000 --tile 256

The kernels are interpreted, so that they run on any machine, slowly. Two operators are scanned
with: a sum, and one that does not commute, which of two numbers keeps the later unless that is 0.
The exit status is 0 only if every result agrees with a loop in NumPy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from jscan import networks

Operator = Callable[[Any, Any], Any]
NETWORKS: dict[str, Callable[..., Any]] = {
    name: getattr(networks, name)
    for name in (
        "kogge_stone",
        "hockney_jesshope",
        "sklansky",
        "ladner_fischer",
        "han_carlson",
        "brent_kung",
    )
}
OPERATORS: dict[str, Operator] = {
    "sum": lambda a, b: a + b,
    "latest": lambda a, b: b + a * (b == 0).astype(b.dtype),
}


def scan(network: Callable[..., Any], fn: Operator, x: jax.Array, tile: int) -> jax.Array:
    """The inclusive scan of ``x`` in three phases."""
    count = pl.cdiv(x.size, tile)
    tile_of_x = pl.BlockSpec((tile,), lambda i: (i,))
    one_of_totals = pl.BlockSpec((1,), lambda i: (i,))
    total_before = pl.BlockSpec((1,), lambda i: (jnp.maximum(i - 1, 0),))

    def scan_tile(x: Any, scanned: Any, total: Any) -> None:
        # Past the end of x there is anything; it cannot reach an element to its left.
        scanned[...] = network(fn, x[...])
        total[...] = scanned[tile - 1 :]

    def scan_totals(totals: Any, prefixes: Any) -> None:
        prefixes[...] = network(fn, totals[...])

    def add_prefix(scanned: Any, prefix: Any, y: Any) -> None:
        after_others = fn(prefix[...], scanned[...])
        y[...] = jnp.where(pl.program_id(0) == 0, scanned[...], after_others)

    whole = jax.ShapeDtypeStruct(x.shape, x.dtype)
    totals_of_tiles = jax.ShapeDtypeStruct((count,), x.dtype)
    scanned, totals = pl.pallas_call(
        scan_tile,
        out_shape=[whole, totals_of_tiles],
        grid=(count,),
        in_specs=[tile_of_x],
        out_specs=[tile_of_x, one_of_totals],
        interpret=True,
    )(x)
    prefixes = pl.pallas_call(scan_totals, out_shape=totals_of_tiles, interpret=True)(totals)
    result: jax.Array = pl.pallas_call(
        add_prefix,
        out_shape=whole,
        grid=(count,),
        in_specs=[tile_of_x, total_before],
        out_specs=tile_of_x,
        interpret=True,
    )(scanned, prefixes)
    return result


def scan_in_numpy(fn: Operator, x: np.ndarray) -> np.ndarray:
    """The same, one element after another."""
    y = x.copy()
    for t in range(1, len(x)):
        y[t] = fn(y[t - 1], x[t])
    return y


def steps(network: Callable[..., Any], tile: int, lanes: int) -> int:
    """How many steps a tile takes where ``lanes`` operators run at a time."""
    return sum(pl.cdiv(len(level), lanes) for level in networks.levels(network, tile))


def print_picture(network: Callable[..., Any], tile: int) -> None:
    """A line for each level: a number is an operator, and the first element of what it totals."""
    print("level  operators")
    first = list(range(tile))
    for i, level in enumerate(networks.levels(network, tile), start=1):
        totals = {t: first[s] for s, t in level if s != t}
        first = [totals.get(t, before) for t, before in enumerate(first)]
        cells = [f"{totals.get(t, '|'):>3}" for t in range(tile if tile <= 32 else 0)]
        print(f"{i:5}{len(level):11}  {''.join(cells)}".rstrip())
    print()


def print_costs(names: Sequence[str], tile: int) -> None:
    """Depth and operators of networks, and their steps on 1, 2, 4, 8 lanes and so on."""
    lanes = [2**k for k in range((tile - 1).bit_length() + 1)]
    print(f"a tile of {tile}, and its steps on so many lanes")
    print(f"{'network':17}{'depth':>5}{'operators':>11} ", *(f"{p:5}" for p in lanes))
    for name in names:
        network = NETWORKS[name]
        taken = [f"{steps(network, tile, p):5}" for p in lanes]
        depth, size = networks.depth(network, tile), networks.size(network, tile)
        print(f"{name:17}{depth:5}{size:11} ", *taken)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what networks cost, scan with them, and check the results."""
    parser = argparse.ArgumentParser(description="A tiled scan with prefix networks.")
    parser.add_argument("network", nargs="?", choices=NETWORKS, help="which one (default: all)")
    parser.add_argument("--length", type=int, default=1000, help="of the axis (default: 1000)")
    parser.add_argument("--tile", type=int, default=32, help="elements in a tile (default: 32)")
    options = parser.parse_args(arguments)
    length, tile = options.length, options.tile
    if min(length, tile) < 1:
        parser.error("there has to be an element at least, on the axis and in a tile")
    names = [options.network] if options.network else list(NETWORKS)

    if options.network:
        print_picture(NETWORKS[options.network], tile)
    print_costs(names, tile)

    x = np.random.default_rng(0).integers(-9, 10, length, dtype=np.int32)
    x[np.abs(x) > 4] = 0
    wrong = []
    for operator, fn in OPERATORS.items():
        expected = scan_in_numpy(fn, x)
        for name in names:
            result = np.asarray(scan(NETWORKS[name], fn, jnp.asarray(x), tile))
            for t in np.flatnonzero(result != expected)[:1]:
                wrong.append(f"{operator} by {name}: element {t} is {result[t]}, not {expected[t]}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    agree = f"{length} elements agree with a loop in NumPy, in every network and operator"
    print(f"\ncheck: {'FAILED' if wrong else agree}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
