"""Scans of many leaves in plain JAX for CPUs: a loop over elements whose leaves lie side by side.

    leaves    a0 a1 a2 ...    b0 b1 b2 ...
    stacked   a0 b0    a1 b1    a2 b2    ...      carry ⊕ (a1 b1) ─► carry, written beside a1 b1

A turn of the loop reads and writes an array or two, whatever the number of leaves, so that XLA
compiles few operations: the product of 3 x 3 matrices in a second, where the tree of
``lax.associative_scan`` on nine leaves takes minutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.combine import Combine
from jscan.heads import choose
from jscan.plain.scan import Combination

LEAVES, EQUATIONS = 8, 40
"""More leaves than that are stacked, or half of them of an operator of more equations."""


def is_large(combine: Combine) -> bool:
    """Whether a tree of this operator takes too long to compile."""
    count = combine.num_leaves
    heavy = len(combine.jaxpr.jaxpr.eqns) > EQUATIONS
    return count > LEAVES or (2 * count >= LEAVES and heavy)


def scan_stacked(
    fn: Combination,
    leaves: list[jax.Array],
    starts: jax.Array | None,
    *,
    axis: int,
    reverse: bool,
) -> list[jax.Array]:
    """Scan inclusively, and restart at ``starts``, if there are any."""
    n = leaves[0].shape[axis]
    kinds = [x.dtype for x in leaves]
    order = sorted(range(len(leaves)), key=lambda i: (kinds[i].name, i))
    groups = [[*group] for _, group in itertools.groupby(order, key=lambda i: kinds[i])]

    def stack(values: Sequence[jax.Array]) -> list[jax.Array]:
        return [jnp.stack([values[i] for i in group], -1) for group in groups]

    def apart(stacks: Sequence[jax.Array]) -> list[jax.Array]:
        pairs = zip(groups, stacks, strict=True)
        found = {i: x[..., k] for group, x in pairs for k, i in enumerate(group)}
        return [found[i] for i in range(len(leaves))]

    def at(x: jax.Array, place: jax.Array | np.int32) -> jax.Array:
        part: jax.Array = lax.dynamic_slice_in_dim(x, place, 1, axis, allow_negative_indices=False)
        return part

    elements = stack(leaves)
    first = np.int32(n - 1 if reverse else 0)

    def step(
        i: jax.Array, carried: tuple[list[jax.Array], list[jax.Array]]
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        before, results = carried
        place = np.int32(n - 1) - i if reverse else i
        here = [at(x, place) for x in elements]
        made = stack(fn(apart(before), apart(here)))
        if starts is not None:
            begins = jnp.broadcast_to(at(starts, place), made[0].shape[:-1])
            made = [choose(begins, x, y) for x, y in zip(here, made, strict=True)]
        return made, [_written(x, y, place, axis) for x, y in zip(results, made, strict=True)]

    begin = [at(x, first) for x in elements]
    results = [
        _written(jnp.zeros_like(x), y, first, axis) for x, y in zip(elements, begin, strict=True)
    ]
    _, results = lax.fori_loop(np.int32(1), np.int32(n), step, (begin, results))
    return apart(results)


def _written(
    whole: jax.Array, part: jax.Array, place: jax.Array | np.int32, axis: int
) -> jax.Array:
    changed: jax.Array = lax.dynamic_update_slice_in_dim(whole, part, place, axis)
    return changed
