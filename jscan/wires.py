"""The wires of parallel prefix networks, and scans along them.

A node (s, t) joins wire t with wire s to its left: x[t] = fn(x[s], x[t]). A network is drawn in
rows of nodes, and each row goes into the first level in which everything that it reads is written:

    rows     (0, 1) (2, 3)      (1, 3)      (1, 2)      three rows of the tree on four wires
    levels   (0, 1) (2, 3)      (1, 3) (1, 2)           of which the last two can run together

A level is one call of the operator. It reads and writes slices of nodes at even distances. Arrays
of indices would do for any nodes, but the kernel of a Pallas program cannot have constants.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jscan import called, meshes

Level = list[tuple[int, int]]
"""Nodes (source, target) that run together. An idle lane is its own source and keeps its value."""


@dataclasses.dataclass(frozen=True)
class Network:
    """A network for every number of wires.

    Attributes:
      rows: its nodes as they are drawn; some rows may be empty.
      depth: the number of its levels.
      size: the number of its nodes.
    """

    rows: Callable[[int], list[Level]]
    depth: Callable[[int], int]
    size: Callable[[int], int]

    def levels(self, n: int) -> list[Level]:
        """The levels on ``n`` wires: whole rows, each as early as what it reads allows."""
        written, read = [0] * n, [0] * n  # the last level to do so with a wire, counted from 1
        found: list[Level] = []
        for row in filter(None, self.rows(n)):
            level = max(max(written[s] + 1, written[t] + 1, read[t]) for s, t in row)
            if level > len(found):
                found.append([])
            found[level - 1] += row
            for s, t in row:
                written[t], read[s] = level, max(read[s], level)
        return found


def scan(
    caller: str,
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    levels: Sequence[Level],
    *,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """The scans of ``leaves`` along ``axis``, counted from 0, a call of ``fn`` for each level."""
    values = [meshes.gather(x, axis) for x in leaves]
    if reverse:
        values = [lax.rev(x, (axis,)) for x in values]
    for level in levels:
        values = _run_level(caller, fn, values, treedef, level, axis)
    if reverse:
        values = [lax.rev(x, (axis,)) for x in values]
    return [meshes.place_like(x, like) for x, like in zip(values, leaves, strict=True)]


def _run_level(
    caller: str,
    fn: Callable[[Any, Any], Any],
    leaves: Sequence[jax.Array],
    treedef: jax.tree_util.PyTreeDef,
    level: Level,
    axis: int,
) -> list[jax.Array]:
    """The wires behind a level."""
    sources, targets = _as_combs([(s, t) for s, t in level if s != t])
    idle = sum(s == t for s, t in level)
    left, right = ([_take(x, combs, idle, axis) for x in leaves] for combs in (sources, targets))
    results = called.apply(caller, fn, left, right, treedef)
    avals = [jax.typeof(result) for result in results]
    called.check_results(caller, avals, left, [x.dtype for x in left])
    put = functools.partial(_put, combs=targets, idle=idle, axis=axis)
    return [meshes.automatically(put, x, y, like=[x]) for x, y in zip(leaves, results, strict=True)]


class _Comb(NamedTuple):
    """Wires at even distances, which a slice reads or writes; a step of 0 repeats one wire."""

    start: int
    step: int
    length: int


def _as_combs(nodes: Sequence[tuple[int, int]]) -> tuple[list[_Comb], list[_Comb]]:
    """Sources and targets of nodes in few combs.

    Each comb is the longest that begins with the leftmost target that is left.
    """
    source_of = {t: s for s, t in nodes}
    sources, targets = [], []
    while source_of:
        target, source = min(source_of.items())
        steps, longest = (1, 1), 1
        for t, s in source_of.items():
            if t <= target or s < source:
                continue
            length = 2
            while source_of.get(target + length * (t - target)) == source + length * (s - source):
                length += 1
            if length > longest:
                steps, longest = (s - source, t - target), length
        sources.append(_Comb(source, steps[0], longest))
        targets.append(_Comb(target, steps[1], longest))
        for i in range(longest):
            del source_of[target + i * steps[1]]
    return sources, targets


def _take(x: jax.Array, combs: Sequence[_Comb], idle: int, axis: int) -> jax.Array:
    """The elements of ``x`` on ``combs``, preceded by ``idle`` copies of the first of them."""
    if idle:
        # An idle lane repeats the work of a busy one, and so makes no NaN or infinity of its own.
        combs = [_Comb(combs[0].start, 0, idle), *combs]
    parts = []
    for start, step, length in combs:
        if step:
            part = lax.slice_in_dim(x, start, start + (length - 1) * step + 1, step, axis)
        else:
            part = jnp.repeat(lax.slice_in_dim(x, start, start + 1, axis=axis), length, axis)
        parts.append(part)
    return lax.concatenate(parts, axis)


def _put(x: jax.Array, y: jax.Array, combs: Sequence[_Comb], idle: int, axis: int) -> jax.Array:
    """``x`` with the elements of ``y`` but for the first ``idle`` put on ``combs``."""
    done = idle
    for start, step, length in combs:
        places = slice(start, start + (length - 1) * step + 1, step)
        part = lax.slice_in_dim(y, done, done + length, axis=axis)
        x = x.at[(*[slice(None)] * axis, places)].set(part)
        done += length
    return x


def _ceil_log2(n: int) -> int:
    return max(n - 1, 0).bit_length()


def _distances(n: int) -> list[int]:
    """1, 2, 4, 8 and so on below ``n``."""
    return [1 << k for k in range(_ceil_log2(n))]


def _kogge_stone_rows(n: int) -> list[Level]:
    return [[(t - d, t) for t in range(d, n)] for d in _distances(n)]


def _kogge_stone_size(n: int) -> int:
    return n * _ceil_log2(n) - (1 << _ceil_log2(n)) + 1


def _hockney_jesshope_rows(n: int) -> list[Level]:
    return [[(t if t < d else t - d, t) for t in range(n)] for d in _distances(n)]


def _hockney_jesshope_size(n: int) -> int:
    return n * _ceil_log2(n)


def _sklansky_rows(n: int) -> list[Level]:
    return [[(t - t % d - 1, t) for t in range(n) if t & d] for d in _distances(n)]


def _sklansky_size(n: int) -> int:
    """The ones in all of 0 .. n - 1: of 2 d numbers in a row, the last d have the bit d."""
    return sum(n // (2 * d) * d + max(0, n % (2 * d) - d) for d in _distances(n))


def _brent_kung_rows(n: int) -> list[Level]:
    up = [[(t - d, t) for t in range(2 * d - 1, n, 2 * d)] for d in _distances(n)]
    down = [[(t - d, t) for t in range(3 * d - 1, n, 2 * d)] for d in _distances(n)]
    return up + down[::-1]


def _brent_kung_depth(n: int) -> int:
    if n < 4:
        return max(n - 1, 0)
    return (4 * n // 5).bit_length() + (4 * n // 7).bit_length() - 2


def _brent_kung_size(n: int) -> int:
    """Up the tree n - ν(n), and down it one for each of 1 .. n that is not a power of two."""
    return 2 * n - n.bit_count() - n.bit_length()


def _han_carlson_rows(n: int) -> list[Level]:
    first, last = ([(t - 1, t) for t in range(start, n, 2)] for start in (1, 2))
    between = [[(2 * s + 1, 2 * t + 1) for s, t in row] for row in _kogge_stone_rows(n // 2)]
    return [first, *between, last]


def _han_carlson_depth(n: int) -> int:
    return max(n - 1, 0) if n < 3 else 2 + _ceil_log2((n - 1) // 2)


def _han_carlson_size(n: int) -> int:
    return max(n - 1, 0) + _kogge_stone_size(n // 2)


def _ladner_fischer_rows(wires: Sequence[int], slack: int) -> list[Level]:
    n = len(wires)
    if n < 2:
        return []
    if slack == 0:
        left, right = wires[: (n + 1) // 2], wires[(n + 1) // 2 :]
        fan = [(left[-1], wire) for wire in right]
        return [*_ladner_fischer_rows(left, 1), *_ladner_fischer_rows(right, 0), fan]
    pairs = [(wires[i - 1], wires[i]) for i in range(1, n, 2)]
    others = [(wires[i - 1], wires[i]) for i in range(2, n - 1, 2)]
    inner = [*wires[1::2], *wires[n - n % 2 :]]
    return [pairs, *_ladner_fischer_rows(inner, slack - 1), others]


def _ladner_fischer_depth(n: int, slack: int) -> int:
    if 2 * n > 9 << slack:
        return _ceil_log2(n) + slack
    return max(_ceil_log2(n), _brent_kung_depth(n - 1))


@functools.cache
def _ladner_fischer_size(n: int, slack: int) -> int:
    if n < 2:
        return 0
    if slack == 0:
        left, right = _ladner_fischer_size((n + 1) // 2, 1), _ladner_fischer_size(n // 2, 0)
        return left + right + n // 2
    return _ladner_fischer_size((n + 1) // 2, slack - 1) + 2 * (n // 2) - 1


def ladner_fischer(slack: int) -> Network:
    """P_k(n) of Ladner and Fischer, with ``slack`` for k."""
    return Network(
        lambda n: _ladner_fischer_rows(range(n), slack),
        lambda n: _ladner_fischer_depth(n, slack),
        lambda n: _ladner_fischer_size(n, slack),
    )


KOGGE_STONE = Network(_kogge_stone_rows, _ceil_log2, _kogge_stone_size)
HOCKNEY_JESSHOPE = Network(_hockney_jesshope_rows, _ceil_log2, _hockney_jesshope_size)
SKLANSKY = Network(_sklansky_rows, _ceil_log2, _sklansky_size)
BRENT_KUNG = Network(_brent_kung_rows, _brent_kung_depth, _brent_kung_size)
HAN_CARLSON = Network(_han_carlson_rows, _han_carlson_depth, _han_carlson_size)
