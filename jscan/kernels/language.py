"""The in-kernel primitives: what a scan needs inside a kernel and Pallas lacks.

    load, store        a tile between memory and registers, at 64-bit offsets where needed
    tile_scan          the warp-composed scan of a register tile: ``tt.scan`` of any operator
    tile_reduce        its reduction, for operators that commute: ``tt.reduce``
    tile_histogram     how often each number is among keys: ``tt.histogram``
    take_ticket        a number that no other program gets, from an atomic counter
    publish, peek      one tagged 64-bit word of tile state, written relaxed and read volatile
    pause              lets a waiting warp sleep
    count_bytes        how many of marks that are bytes are set, four at once
    deinterleave       a tile by places modulo two, four, ..., without a move; `interleave`: back
    nan_max, nan_min   maximum and minimum that propagate NaN, as XLA's do and Triton's do not
    fma                z + x y of floats, rounded once
    fast_exp2, ...     the hardware's instructions
    unsigned, opaque, unknown, settle, hold    values as compilers should see them
    when               part of a body's work on a condition, which is no primitive

Each primitive is called like a function here, and has its abstract evaluation here too, beside its
meaning in plain JAX, which is what an interpreter runs on a machine without a GPU. Engines
(`jscan.kernels.engines`) give the primitives a form for the GPU.

State words live in an ``int32[words, 2]`` array: the value in the low half, the tag in the high
half, so that no kernel needs 64-bit types switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import batching, mlir

from jscan.kernels import internals, meanings, memory
from jscan.kernels.addresses import Terms, shape_of_sum
from jscan.kernels.meanings import mapped as mapped

Aval = jax.core.ShapedArray
"""What is known of a value while a kernel is traced."""


class Ref(Protocol):
    """Memory that a kernel reads and writes; `load` and `store` see it flat."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the array."""


Body = Callable[[jax.Array, Sequence[Ref]], None]
"""A kernel's body: the work of the program of this number, on these references."""


def primitive(name: str, *, multiple_results: bool = False) -> core.Primitive:
    """A primitive of kernels, which `register` tells jax of."""
    made = core.Primitive(f"jscan_{name}")
    made.multiple_results = multiple_results
    return made


tile_scan_p = primitive("tile_scan", multiple_results=True)
tile_reduce_p = primitive("tile_reduce")
load_p = primitive("load", multiple_results=True)
store_p = primitive("store", multiple_results=True)
publish_p = primitive("publish", multiple_results=True)
take_ticket_p = primitive("take_ticket")
peek_p = primitive("peek", multiple_results=True)
pause_p = primitive("pause")
deinterleave_p = primitive("deinterleave", multiple_results=True)
interleave_p = primitive("interleave")
tile_histogram_p = primitive("tile_histogram")
count_bytes_p = primitive("count_bytes")
nan_max_p = primitive("nan_max")
nan_min_p = primitive("nan_min")
fma_p = primitive("fma")
fast_exp2_p = primitive("fast_exp2")
fast_log2_p = primitive("fast_log2")
unsigned_p = primitive("unsigned")
opaque_p = primitive("opaque")
unknown_p = primitive("unknown")
settle_p = primitive("settle")
hold_p = primitive("hold")


def when(condition: jax.Array, work: Callable[[], None]) -> None:
    """Does ``work`` where the scalar ``condition`` holds."""
    lax.cond(condition, work, lambda: None)


# --- register tiles -----------------------------------------------------------------------------


def tile_scan(
    jaxpr: core.ClosedJaxpr, leaves: Sequence[jax.Array], axis: int, *, reverse: bool
) -> list[jax.Array]:
    """Inclusive scan of register tiles along ``axis`` under the operator ``jaxpr``."""
    return tile_scan_p.bind(*leaves, jaxpr=jaxpr, axis=axis, reverse=reverse)


def tile_reduce(jaxpr: core.ClosedJaxpr, leaf: jax.Array, axis: int) -> jax.Array:
    """Reduction of a register tile along ``axis``, in no fixed order: the operator must commute."""
    return tile_reduce_p.bind(leaf, jaxpr=jaxpr, axis=axis)


def tile_histogram(keys: jax.Array, mask: jax.Array, bins: int) -> jax.Array:
    """How often each of the numbers below ``bins`` is among the keys in ``mask``; both int32.

    ``bins`` is a power of two. A key in the mask is in range, and is at one place of the tile.
    """
    return tile_histogram_p.bind(keys, mask, bins=bins)


def count_bytes(marks: jax.Array, *, negative: bool = False) -> jax.Array:
    """How many are not zero, or ``negative``, of a tile as counts of a quarter of its size, int32.

    The tile has one dimension, and a thread four bytes or more. Which four are counted together is
    the layout's: only the sum of all is known. Of neighbours, what is added here is zero.
    """
    sums = count_bytes_p.bind(marks, negative=negative)
    first, second, third, fourth = deinterleave(sums, 4)
    return (first + second) + (third + fourth)


def deinterleave(x: jax.Array, count: int) -> list[jax.Array]:
    """The elements at places 0, 1, ... modulo ``count``, a power of two, along the last dimension.

    Where a thread holds as many neighbours, as it does of 16 bytes, this costs no instruction.
    """
    return deinterleave_p.bind(x, count=count) if count > 1 else [x]


def interleave(parts: Sequence[jax.Array]) -> jax.Array:
    """The inverse of `deinterleave`."""
    return interleave_p.bind(*parts) if len(parts) > 1 else parts[0]


def nan_max(x: jax.Array, y: jax.Array) -> jax.Array:
    """Maximum of floats; NaN if either is."""
    return nan_max_p.bind(x, y)


def nan_min(x: jax.Array, y: jax.Array) -> jax.Array:
    """Minimum of floats; NaN if either is."""
    return nan_min_p.bind(x, y)


def fma(x: jax.Array, y: jax.Array, z: jax.Array, *, minus: bool = False) -> jax.Array:
    """The sum z + x y of floats, rounded once; z - x y where ``minus``."""
    return fma_p.bind(x, y, z, minus=minus)


def fast_exp2(x: jax.Array) -> jax.Array:
    """2^x in one instruction, float32; relative error 2^-22, subnormal results are zero."""
    return fast_exp2_p.bind(x)


def fast_log2(x: jax.Array) -> jax.Array:
    """log2(x) in one instruction, float32; error 2^-22, absolute in [1/2, 2], else relative."""
    return fast_log2_p.bind(x)


def unsigned(scalar: np.generic) -> jax.Array:
    """An unsigned constant. Triton's are signed: a large one has no way in but its bits."""
    bits = scalar.dtype.itemsize * 8
    return unsigned_p.bind(scalar.view(f"int{bits}"), dtype=scalar.dtype)


def opaque(scalar: jax.Array) -> jax.Array:
    """``scalar`` as a value of which the compiler knows nothing, not even its divisibility."""
    return opaque_p.bind(scalar)


def unknown(scalar: jax.Array) -> jax.Array:
    """An int32 as a value of which the assembler too knows nothing: it folds a mere move."""
    return unknown_p.bind(scalar)


def settle(values: jax.Array) -> jax.Array:
    """``values``, computed here and not put off until they are used: that would take registers."""
    return settle_p.bind(values)


def hold(values: jax.Array) -> jax.Array:
    """``values`` in as few registers as they fit, of which the compiler knows nothing from here on.

    It would keep what it once made of them, of narrow ones several times as many registers.
    """
    return hold_p.bind(values)


def pause(after: jax.Array, nanoseconds: int) -> jax.Array:
    """Sleeps for about so long; returns ``after`` unchanged, so that what uses it waits."""
    return pause_p.bind(after, nanoseconds=nanoseconds)


# --- memory -------------------------------------------------------------------------------------


def load(ref: Ref, terms: Terms, *, mask: jax.Array | None = None) -> jax.Array:
    """Reads ``ref`` of real numbers, seen flat, at the sum of ``terms``.

    Lanes outside ``mask`` hold no defined value. Booleans are read as the bytes that they are.
    """
    [value] = load_parts(ref, terms, mask=mask)
    return value


def load_parts(
    ref: Ref, terms: Terms, *, mask: jax.Array | None = None, once: bool = False
) -> list[jax.Array]:
    """The same of any ``ref``: of complex numbers the real and the imaginary parts.

    Both come in one access. What is read ``once`` is the first to leave the cache.
    """
    values, multipliers = zip(*terms, strict=True)
    ref, seen_as = memory.opened(ref)
    how: dict[str, Any] = {"multipliers": multipliers, "seen_as": seen_as, "once": once}
    return load_p.bind(ref, *values, *_present(mask), **how)


def load_seen(ref: Ref, terms: Terms, bits: int, *, mask: jax.Array | None) -> jax.Array:
    """Reads ``ref``, seen as integers of so many bits, at ``terms``; undefined outside ``mask``."""
    values, multipliers = zip(*terms, strict=True)
    how: dict[str, Any] = {"multipliers": multipliers, "seen_as": bits, "once": False}
    [found] = load_p.bind(ref, *values, *_present(mask), **how)
    return found


def store(
    ref: Ref,
    terms: Terms,
    value: jax.Array | Sequence[jax.Array],
    *,
    mask: jax.Array | None = None,
    scattered: bool = False,
    into_bytes: bool = False,
) -> None:
    """Writes ``value`` to ``ref``, seen flat, at the sum of ``terms``, in the lanes of ``mask``.

    To complex numbers, the pair of their parts is written. ``scattered`` says that the last term is
    no place within the tile: it may be any. ``into_bytes``, these are seen as uint8 or int32.
    """
    ref, seen_as = memory.opened(ref)
    values, multipliers = zip(*terms, strict=True)
    parts = value if isinstance(value, Sequence) else [value]
    seen_as = 8 * parts[0].dtype.itemsize if into_bytes else seen_as
    how: dict[str, Any] = {"multipliers": multipliers, "seen_as": seen_as}
    store_p.bind(ref, *values, *parts, *_present(mask), **how, scattered=scattered)


def take_ticket(words: Ref, terms: Terms) -> jax.Array:
    """Adds one to a word (int32), relaxed; returns what it was."""
    values, multipliers = zip(*terms, strict=True)
    return take_ticket_p.bind(words, *values, multipliers=multipliers)


def publish(
    words: Ref, terms: Terms, tag: jax.Array, value: jax.Array, mask: jax.Array | None = None
) -> None:
    """Writes (tag, value), both int32, as one 64-bit word: relaxed, never back to a lower tag."""
    values, multipliers = zip(*terms, strict=True)
    publish_p.bind(words, *values, tag, value, *_present(mask), multipliers=multipliers)


def peek(words: Ref, terms: Terms, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Reads words, volatile, as (tags, values); lanes outside ``mask`` read as tag 0."""
    values, multipliers = zip(*terms, strict=True)
    tags, pieces = peek_p.bind(words, *values, mask, multipliers=multipliers)
    return tags, pieces


def _present(mask: jax.Array | None) -> tuple[jax.Array, ...]:
    return () if mask is None else (mask,)


# --- abstract evaluation ------------------------------------------------------------------------


def _like_first(operand: Aval, **params: Any) -> Aval:
    del params
    return operand


def _like_tile(*operands: Aval, **params: Any) -> Aval:
    """Any may be a scalar, such as a constant of an operator."""
    del params
    return next((x for x in operands if x.shape), operands[0])


def _tile_scan_abstract_eval(*leaves: Aval, **params: Any) -> list[Aval]:
    del params
    return list(leaves)


def _tile_reduce_abstract_eval(leaf: Aval, *, jaxpr: core.ClosedJaxpr, axis: int) -> Aval:
    del jaxpr
    return Aval(leaf.shape[:axis] + leaf.shape[axis + 1 :], leaf.dtype)


def _deinterleave_abstract_eval(x: Aval, *, count: int) -> list[Aval]:
    # Of a tile without dimensions the first engine's compiler ends the process.
    assert x.ndim > 1 or x.shape[0] > count, "a tile of one row has more places than it has parts"
    return [Aval((*x.shape[:-1], x.shape[-1] // count), x.dtype)] * count


def _interleave_abstract_eval(*parts: Aval) -> Aval:
    *rows, length = parts[0].shape
    return Aval((*rows, length * len(parts)), parts[0].dtype)


def _tile_histogram_abstract_eval(keys: Aval, mask: Aval, *, bins: int) -> Aval:
    del keys, mask
    return Aval((bins,), jnp.dtype(jnp.int32))


def _shape_at(operands: Sequence[Aval], multipliers: Sequence[int]) -> tuple[int, ...]:
    return shape_of_sum([o.shape for o in operands[: len(multipliers)]])


def _load_abstract_eval(
    ref: Ref, *operands: Aval, multipliers: Sequence[int], seen_as: int | None, once: bool
) -> list[Aval]:
    del once
    shape = _shape_at(operands, multipliers)
    if seen_as or ref.dtype == jnp.bool_:
        return [Aval(shape, jnp.dtype(jnp.int32 if seen_as == 32 else jnp.uint8))]
    if ref.dtype.kind == "c":
        return [Aval(shape, jnp.dtype(jnp.float32))] * 2
    return [Aval(shape, ref.dtype)]


def _peek_abstract_eval(words: Ref, *operands: Aval, multipliers: Sequence[int]) -> list[Aval]:
    del words
    return [Aval(_shape_at(operands, multipliers), jnp.dtype(jnp.int32))] * 2


def _take_ticket_abstract_eval(words: Ref, *operands: Aval, multipliers: Sequence[int]) -> Aval:
    del words, operands, multipliers
    return Aval((), jnp.dtype(jnp.int32))


def _no_result(ref: Ref, *operands: Aval, **params: Any) -> list[Aval]:
    del ref, operands, params
    return []


# --- registrations ------------------------------------------------------------------------------


def register(
    primitive: core.Primitive, abstract_eval: Callable[..., Any], meaning: Callable[..., Any]
) -> None:
    """Tells jax what ``primitive`` returns, and what it means."""
    primitive.def_abstract_eval(abstract_eval)
    multiple = primitive.multiple_results
    mlir.register_lowering(primitive, mlir.lower_fun(meaning, multiple_results=multiple))


register(tile_scan_p, _tile_scan_abstract_eval, meanings.tile_scan)
register(tile_reduce_p, _tile_reduce_abstract_eval, meanings.tile_reduce)
register(tile_histogram_p, _tile_histogram_abstract_eval, meanings.tile_histogram)
register(deinterleave_p, _deinterleave_abstract_eval, meanings.deinterleave)
register(interleave_p, _interleave_abstract_eval, meanings.interleave)
register(count_bytes_p, lambda x, **_: Aval(x.shape, jnp.dtype(jnp.int32)), meanings.count_bytes)
register(nan_max_p, _like_tile, jnp.maximum)
register(nan_min_p, _like_tile, jnp.minimum)
register(fma_p, _like_tile, meanings.fma)
register(fast_exp2_p, _like_first, lax.exp2)
register(fast_log2_p, _like_first, jnp.log2)
register(unsigned_p, lambda _, *, dtype: Aval((), dtype), meanings.unsigned)
register(opaque_p, _like_first, meanings.first)
register(unknown_p, _like_first, meanings.first)
register(settle_p, _like_first, meanings.first)
register(hold_p, _like_first, meanings.first)
register(pause_p, _like_first, meanings.first)
batching.defbroadcasting(nan_max_p)
batching.defbroadcasting(nan_min_p)
batching.defbroadcasting(fma_p)
batching.defvectorized(fast_exp2_p)
batching.defvectorized(fast_log2_p)

_access = internals.register_access
_access(load_p, _load_abstract_eval, memory.load_meaning, reads=True)
_access(peek_p, _peek_abstract_eval, memory.peek_meaning, reads=True)
_access(
    take_ticket_p, _take_ticket_abstract_eval, memory.take_ticket_meaning, reads=True, writes=True
)
_access(store_p, _no_result, memory.store_meaning, writes=True)
_access(publish_p, _no_result, memory.publish_meaning, writes=True)
