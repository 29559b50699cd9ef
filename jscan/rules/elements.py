"""The rules of ``elements_p``: those of ``scan_p`` on the numbers of elements, but for kernels.

Kernels read and write elements as they lie. Derivatives and parts on several devices are those of
the scan of numbers, or of a scan in plain JAX by the whole operator where there is one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import ad

from jscan import extent
from jscan.blocks import Whole
from jscan.combine import Combine, accumulation_dtype
from jscan.derivatives import transposition
from jscan.derivatives.tangents import Tangent, is_moving, zero_of
from jscan.elements import apart, elements_p, leading, numbers, parted
from jscan.plain.scan import scan_flat
from jscan.rules import base
from jscan.rules.scan import scan_in_kernels
from jscan.starts import Start


def elements_abstract_eval(
    *avals: ShapedArray, combine: Combine, used: tuple[bool, ...], **_: Any
) -> list[ShapedArray]:
    """The used arrays at full size."""
    shape, results, first = leading(avals), [], 0
    dtypes = combine.result_dtypes(
        [x.dtype for x in avals[: len(used)] for _ in range(x.shape[-1])]
    )
    for x, is_used in zip(avals, used, strict=False):
        if is_used:
            whole = (*shape, x.shape[-1])
            results.append(x.update(shape=whole, dtype=dtypes[first], weak_type=False))
        first += x.shape[-1]
    return results


def elements_in_plain_jax(
    *operands: jax.Array, whole: Whole | None, **params: Any
) -> list[jax.Array]:
    """The scan of numbers, or by the whole operator."""
    return apart(*operands, **params) if whole is None else _by_whole(whole, *operands, **params)


def _by_whole(
    whole: Whole,
    *operands: jax.Array,
    axis: int,
    reverse: bool,
    segmented: bool,
    started: bool,
    used: tuple[bool, ...],
    **_: Any,
) -> list[jax.Array]:
    """The scan by an operator on elements that are whole."""
    arrays, flags, before = parted(operands, len(used), segmented=segmented)
    full = leading(operands)
    wide = [
        jnp.broadcast_to(x, (*full, x.shape[-1])).astype(accumulation_dtype(x.dtype))
        for x in arrays
    ]
    results = scan_flat(
        whole,
        wide,
        None if flags is None else flags[..., 0],
        axis=axis,
        reverse=reverse,
        identity=None,
        start=Start(before) if started else None,
    )
    each = zip(results, arrays, used, strict=True)
    return [y.astype(x.dtype) for y, x, is_used in each if is_used]


def elements_in_kernels(
    *operands: jax.Array, whole: Whole | None, axis: int, method: str, **params: Any
) -> list[jax.Array]:
    """The scan by kernels; elements of many numbers that have others between them are moved."""
    last = operands[0].ndim - 2
    if whole is not None:
        method = method_of_large(method)
    if whole is None or axis == last:
        return _in_kernels(*operands, axis=axis, method=method, **params)
    moved = [jnp.moveaxis(x, axis, last) for x in operands]
    results = _in_kernels(*moved, axis=last, method=method, **params)
    return [jnp.moveaxis(x, last, axis) for x in results]


def method_of_large(method: str) -> str:
    """The method by which elements of many numbers are scanned, in two passes.

    Raises:
      base.NoKernel: it is another, whose one pass would combine a window of tiles, too.
    """
    if method == "repeatable":
        return "reduce_then_scan"
    if method in ("lookback", "serial_lookback", "chained"):
        raise base.NoKernel(
            "elements of so many numbers are scanned in two passes, as by 'auto', "
            "'reduce_then_scan' and 'scan_then_propagate'"
        )
    return method


def _in_kernels(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    segmented: bool,
    started: bool,
    used: tuple[bool, ...],
    method: str,
    tile: Hashable,
    interpret: bool,
    **_: Any,
) -> list[jax.Array]:
    """The scan by kernels that read and write elements as they lie, or their numbers."""
    arrays, flags, before = parted(operands, len(used), segmented=segmented)
    how: dict[str, Any] = {"combine": combine, "axis": axis, "reverse": reverse, "method": method}
    how |= {"tile": tile, "interpret": interpret}
    flags = None if flags is None else flags[..., 0]
    found = in_place(arrays, flags, before if started else None, used=used, **how)
    if found is not None:
        return found
    leaves = extent.at_full_size(numbers(arrays), leading(operands))
    counts = [x.shape[-1] for x in arrays]
    scanned = iter(
        scan_in_kernels(
            *(*leaves, *([] if flags is None else [flags]), *numbers(before)),
            exclusive=False,
            segmented=segmented,
            started=started,
            used=tuple(u for u, n in zip(used, counts, strict=True) for _ in range(n)),
            **how,
        )
    )
    kept = [n for is_used, n in zip(used, counts, strict=True) if is_used]
    return [jnp.stack([next(scanned) for _ in range(n)], -1) for n in kept]


def in_place(
    arrays: Sequence[jax.Array],
    flags: jax.Array | None,
    start: Sequence[jax.Array] | None,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    used: Sequence[bool],
    method: str,
    tile: Hashable,
    interpret: bool,
    behind: Sequence[int] = (),
) -> list[jax.Array] | None:
    """The scan by kernels that read and write elements as they lie; None where none can.

    Each array may be that of elements so many places ``behind``.
    """
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    how: dict[str, Any] = {"combine": combine, "axis": axis, "method": method, "tile": tile}
    shape = leading([*arrays, *([] if flags is None else [flags[..., None]])])
    full = [jax.ShapeDtypeStruct(shape, x.dtype) for x in arrays for _ in range(x.shape[-1])]
    if kernels.why_not(full, exclusive=False, **how) is not None:
        return None
    how |= {"reverse": reverse, "used": used, "interpret": interpret, "start": start}
    found = kernels.scan_elements(arrays, flags, behind=behind, **how)
    return None if isinstance(found, str) else found


def elements_batch(
    batch: Any, operands: Sequence[jax.Array], dims: Sequence[int | None], **params: Any
) -> tuple[list[jax.Array], list[int]]:
    """The scans of a batch, whose dimension comes first if it was the last."""
    moved: list[jax.Array] = []
    places: list[int | None] = []
    for x, d in zip(operands, dims, strict=True):
        comes_last = d is not None and d == x.ndim - 1
        moved.append(jnp.moveaxis(x, -1, 0) if comes_last else x)
        places.append(0 if comes_last else d)
    return base.batched(elements_p, batch, moved, places, **params)


def elements_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """Results and tangents of the scan in plain JAX."""
    moving = [i for i, t in enumerate(tangents) if is_moving(t)]
    if not moving:
        results = elements_p.bind(*primals, **params)
        return results, [zero_of(x) for x in results]

    def of_moving(*moved: jax.Array) -> list[jax.Array]:
        there = dict(zip(moving, moved, strict=True))
        given = (there.get(i, x) for i, x in enumerate(primals))
        return elements_in_plain_jax(*given, **params)

    given: list[Any] = [tangents[i] for i in moving]
    results, found = jax.jvp(of_moving, [primals[i] for i in moving], given)
    return results, found


def elements_transpose(
    cotangents: Sequence[Tangent], *operands: Any, combine: Combine, **params: Any
) -> list[Any]:
    """The cotangents of the scan in plain JAX, where that is linear in what is asked for."""
    moving = transposition.undefined(operands)

    def of_moving(*moved: jax.Array) -> list[jax.Array]:
        there = dict(zip(moving, moved, strict=True))
        given = [there.get(i, x) for i, x in enumerate(operands)]
        return elements_in_plain_jax(*given, combine=combine, **params)

    arrays, _, _ = parted(operands, len(params["used"]), segmented=params["segmented"])
    dtypes = [x.aval.dtype if ad.is_undefined_primal(x) else x.dtype for x in operands]
    first = 0
    for i, x in enumerate(arrays):
        dtypes[i] = combine.dtypes[first]
        first += (x.aval if ad.is_undefined_primal(x) else x).shape[-1]
    return transposition.transposed(of_moving, cotangents, operands, dtypes)


def elements_dce(
    used_outputs: Sequence[bool], *rest: Any
) -> tuple[list[bool], core.JaxprEqn | None]:
    """Drop results that nobody uses, then arrays that no remaining result depends on."""
    # jax 0.12 passes which inputs are live between the two arguments it always passed.
    eqn: core.JaxprEqn = rest[-1]
    operands = len(eqn.invars)
    if not any(used_outputs):
        return [False] * operands, None
    params = dict(eqn.params)
    avals: list[Any] = [v.aval for v in eqn.invars]
    combine, used = params["combine"], params["used"]
    wanted = iter(used_outputs)
    used = tuple(is_used and next(wanted) for is_used in used)
    if params["whole"] is not None:
        params["used"] = used
        kept_results = [v for v, is_used in zip(eqn.outvars, used_outputs, strict=True) if is_used]
        return [True] * operands, eqn.replace(outvars=kept_results, params=params)
    owner = [i for i in range(len(used)) for _ in range(avals[i].shape[-1])]
    kept = {i for i, is_used in enumerate(used) if is_used}
    while True:
        leaves = [k for k, i in enumerate(owner) if i in kept]
        more = {owner[k] for k in combine.closure(leaves)}
        if more == kept:
            break
        kept = more
    behind = len(used) + params["segmented"]
    live = [i in kept or len(used) <= i < behind or i - behind in kept for i in range(operands)]
    if leading([a for a, is_live in zip(avals, live, strict=True) if is_live]) != leading(avals):
        # The arrays kept are shared by a batch whose size only the dropped ones carry.
        live, kept = [True] * operands, {*range(len(used))}
        leaves = [*range(combine.num_leaves)]
    params["used"] = tuple(is_used for i, is_used in enumerate(used) if i in kept)
    if len(leaves) < combine.num_leaves:
        params["combine"] = combine.restrict(leaves)
    return live, eqn.replace(
        invars=[v for v, is_live in zip(eqn.invars, live, strict=True) if is_live],
        outvars=[v for v, is_used in zip(eqn.outvars, used_outputs, strict=True) if is_used],
        params=params,
    )


def _divided(*, whole: Whole | None, method: str, **_: Any) -> base.Form:
    """The form on several devices."""
    if whole is not None and method not in ("auto", "xla"):
        raise ValueError(
            f"jscan: method={method!r} cannot run this scan: elements of so many numbers are "
            "scanned by kernels on one device alone; use method='auto' or method='xla'"
        )
    return elements_in_plain_jax


base.register(
    elements_p,
    name="scan",
    abstract_eval=elements_abstract_eval,
    plain=elements_in_plain_jax,
    across=apart,
    in_kernels=elements_in_kernels,
    divisible=_divided,
    batch=elements_batch,
    jvp=elements_jvp,
    transpose=elements_transpose,
    dce=elements_dce,
)
