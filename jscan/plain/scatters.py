"""Reductions by segments as scatters, with their derivatives."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan.arguments.identity import Neutral

Places: TypeAlias = jax.Array | tuple[jax.Array, ...]
"""Indices along the first axis, or an array of them for each of several axes."""

UPDATES = {"add": "add", "mul": "multiply", "max": "max", "min": "min"}
"""Methods of ``x.at`` by the name of the primitive that combines a segment's elements."""

REDUCED = {"add": lax.add, "mul": lax.mul, "max": lax.max, "min": lax.min}
"""The operators themselves."""


def scatter(
    name: str,
    x: jax.Array,
    places: Places,
    shape: tuple[int, ...],
    identity: Neutral | int,
    *,
    unique: bool = False,
    on_cpu: bool = False,
) -> jax.Array:
    """An array of ``shape`` full of ``identity``, with which ``x`` is combined at ``places``.

    Elements of places in front of the first and behind the end are dropped.
    """
    if name in ("max", "min") and jnp.issubdtype(x.dtype, jnp.inexact):
        return _extremum(x, places, name, shape, identity, unique)
    return _update(name, x, places, shape, identity, on_cpu=on_cpu, unique_indices=unique)


def _update(
    name: str,
    x: jax.Array,
    places: Places,
    shape: tuple[int, ...],
    identity: Any,
    *,
    on_cpu: bool = False,
    **how: Any,
) -> jax.Array:
    # GPUs have no atomic operations of one or two bytes: bytes into 41 segments took 0.5 s (H200,
    # 2026-11-23). The low bits of words are the same.
    narrow = x.dtype.kind in "iu" and x.dtype.itemsize < 4 and not on_cpu
    wide = x.astype(jnp.int32 if x.dtype.kind == "i" else jnp.uint32) if narrow else x
    given: dict[str, Any] = {"shape": shape, "identity": identity}

    def update(x: jax.Array, places: Places) -> jax.Array:
        return updated(name, x, places, **given, **how)

    # Extrema of floats are compared with what is there before they wait for it.
    waits = name in ("add", "mul") or x.dtype.kind in "iu"
    copies = copies_of(wide.size, math.prod(shape)) if waits else 1
    if copies == 1 or on_cpu or isinstance(places, tuple) or how.get("unique_indices"):
        return update(wide, places).astype(x.dtype)
    apart = functools.partial(in_copies, name, **given, copies=copies)
    result: jax.Array = lax.platform_dependent(wide, places, cuda=apart, default=update)
    return result.astype(x.dtype)


def updated(
    name: str,
    x: jax.Array,
    places: Places,
    *,
    shape: tuple[int, ...],
    identity: Any,
    **how: Any,
) -> jax.Array:
    """An array of ``shape`` full of ``identity``, with which ``x`` is combined as it is."""
    update = getattr(jnp.full(shape, identity, x.dtype).at[places], UPDATES[name])
    result: jax.Array = update(x, mode="drop", wrap_negative_indices=False, **how)
    return result


def in_copies(
    name: str,
    x: jax.Array,
    places: jax.Array,
    *,
    shape: tuple[int, ...],
    identity: Any,
    copies: int,
) -> jax.Array:
    """The same by so many ``copies`` of the result, which neighbours take in turn.

    Atomic operations at one place wait for each other. Sums of 2^24 numbers, float32, in one
    segment take 29467 µs, and 85 so; in 16 4317 and 202; in 256 2099 and 210; in 1344 1347 and 214;
    in 16384 332 and 216; in 167774 211 and 215, but 4201 and 1568 where most are in few; products
    in 16 22240 and 1456; maxima of float32 in 1344 104 and 177 (H100, 2026-11-28).
    """
    if copies == 1:
        return updated(name, x, places, shape=shape, identity=identity)
    count, *beside = shape
    turn = lax.iota(jnp.int32, places.shape[0]) & np.int32(copies - 1)
    # What is dropped is behind the end, or in front, however far.
    exist = (places >= 0) & (places < np.int32(count))
    own = jnp.where(exist, places, np.int32(count)) * np.int32(copies) + turn
    wide = (count * copies, *beside)
    parts = updated(name, x, own, shape=wide, identity=identity)
    parts = parts.reshape(count, copies, *beside)
    result: jax.Array = lax.reduce(parts, np.asarray(identity, x.dtype), REDUCED[name], (1,))
    return result


PLACES = 2**18
"""So many places are apart enough for the atomic operations of a GPU."""
FEWEST = 2**14
"""Fewer elements wait for no longer than it takes to fill copies and to combine them."""
LANES = 32
"""Elements that a GPU adds at once, all of which may be of one place."""
IN_CACHE = 2**22
"""Places that lie in a GPU's cache, and are filled and read in no time beside the elements'."""


def copies_of(size: int, places: int) -> int:
    """How many copies of so many places ``size`` elements are scattered to: a power of two."""
    if size < FEWEST or not places:
        return 1
    # Four elements a place, so that places take no more time than elements.
    most = min(max(PLACES, min(LANES * places, IN_CACHE)), size // 4)
    return 1 << (max(most // places, 1).bit_length() - 1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _extremum(
    x: jax.Array,
    places: Places,
    name: str,
    shape: tuple[int, ...],
    identity: Neutral | int,
    unique: bool,
) -> jax.Array:
    update = functools.partial(_update, places=places, shape=shape, unique_indices=unique)

    def itself(x: jax.Array) -> jax.Array:
        return update(name, x, identity=identity)

    def turned(x: jax.Array) -> jax.Array:
        """By a maximum. XLA has an atomic one of float32, and compares and swaps for the minimum.

        2^22 elements into 16 segments 2138 µs, and 68 so, into 16384 139 and 31 (H100, 2026-11-27).
        """
        return -update("max", -x, identity=-jnp.asarray(identity, x.dtype))

    if name == "min" and x.dtype == np.float32:
        result: jax.Array = lax.platform_dependent(x, cuda=turned, default=itself)
        return result
    return itself(x)


@_extremum.defjvp
def _extremum_jvp(
    name: str,
    shape: tuple[int, ...],
    identity: Neutral | int,
    unique: bool,
    primals: tuple[jax.Array, Places],
    tangents: tuple[jax.Array, Any],
) -> tuple[jax.Array, jax.Array]:
    """The mean of the tangents of the elements that are the extremum, as in JAX's own rule.

    That rule divides zero by zero in a segment without elements, which ``jax.debug_nans`` reports.
    """
    x, places = primals
    result = _extremum(x, places, name, shape, identity, unique)
    chosen = x == _at(result, places)
    zero = jnp.zeros_like(x)
    total = _update("add", jnp.where(chosen, tangents[0], zero), places, shape, 0)
    count = _update("add", jnp.where(chosen, zero + 1, zero), places, shape, 0)
    return result, total / jnp.maximum(count, 1)


def _at(result: jax.Array, places: Places) -> jax.Array:
    """The result that each place has; 0 of those that are dropped."""
    found: jax.Array = result.at[places].get(mode="fill", fill_value=0, wrap_negative_indices=False)
    return found
