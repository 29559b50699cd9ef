"""The rules of ``scan_p``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import ad, batching
from jax.interpreters import partial_eval as pe

from jscan import extent
from jscan.combine import Combine
from jscan.derivatives import transposition
from jscan.derivatives.scan_jvp import scan_jvp
from jscan.derivatives.tangents import summed_to
from jscan.plain import chunks
from jscan.plain.scan import scan_in_plain_jax, split
from jscan.primitives import scan_p
from jscan.rules import base


def scan_abstract_eval(
    *avals: Any, combine: Combine, segmented: bool, used: tuple[bool, ...], **_: Any
) -> list[Any]:
    """The used leaves at full size; varying axes come from the operands."""
    shape = extent.full_shape(avals)
    leaves, _flags = split(avals, segmented)
    dtypes = combine.result_dtypes([leaf.dtype for leaf in leaves])
    return [
        leaf.update(shape=shape, dtype=dtype, weak_type=False)
        for leaf, dtype, is_used in zip(leaves, dtypes, used, strict=True)
        if is_used
    ]


def scan_in_kernels(
    *operands: jax.Array,
    segmented: bool,
    method: str,
    interpret: bool,
    tile: Any,
    compact: bool,
    **params: Any,
) -> list[jax.Array]:
    """The scan in a kernel where one can run it."""
    del compact
    if method == "xla":
        return scan_in_plain_jax(*operands, segmented=segmented, **params)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    leaves, flags = split(operands, segmented)
    # Kernels size a scan by its leaves; flags mapped by vmap may be all that has the full size.
    full = extent.full_shape(operands)
    if extent.full_shape(leaves) != full:
        leaves[0] = jnp.broadcast_to(leaves[0], full)
    with base.cut_by(tile):
        reason = kernels.why_not(
            leaves,
            combine=params["combine"],
            axis=params["axis"],
            exclusive=params["exclusive"],
            method=method,
        )
        if reason is None:
            return kernels.scan(leaves, flags, method=method, interpret=interpret, **params)
    if method != "auto":
        raise ValueError(f"jscan: method={method!r} cannot run this scan: {reason}")
    return scan_in_plain_jax(*operands, segmented=segmented, **params)


def scan_anywhere(*operands: jax.Array, method: str, **params: Any) -> list[jax.Array]:
    """The scan where there is no kernel."""
    base.check_runs_anywhere(method)
    return scan_in_plain_jax(*operands, **params)


def scan_on_cpu(
    *operands: jax.Array,
    segmented: bool,
    method: str,
    interpret: bool,
    tile: Any,
    compact: bool,
    **params: Any,
) -> list[jax.Array]:
    """The scan on a CPU; a ``compact`` one keeps little besides its results, and takes longer."""
    del interpret, tile
    base.check_runs_anywhere(method)
    if not compact:
        return scan_in_plain_jax(*operands, segmented=segmented, **params)
    leaves, flags = split(operands, segmented)
    return chunks.scan(leaves, flags, **params)


def scan_dce(used_outputs: Sequence[bool], *rest: Any) -> tuple[list[bool], core.JaxprEqn | None]:
    """Drop results that nobody uses, then leaves that no remaining result depends on."""
    # jax 0.12 passes which inputs are live between the two arguments it always passed.
    eqn: core.JaxprEqn = rest[-1]
    num_operands = len(eqn.invars)
    if not any(used_outputs):
        return [False] * num_operands, None
    if all(used_outputs):
        return [True] * num_operands, eqn
    combine: Combine = eqn.params["combine"]
    outputs = [i for i, is_used in enumerate(eqn.params["used"]) if is_used]
    wanted = [i for i, is_wanted in zip(outputs, used_outputs, strict=True) if is_wanted]
    kept = combine.closure(wanted)
    flags = [combine.num_leaves] if eqn.params["segmented"] else []
    avals = [v.aval for v in eqn.invars]
    if extent.full_shape([avals[i] for i in [*kept, *flags]]) != extent.full_shape(avals):
        # The leaves kept are shared by a batch whose size only the dropped ones carry.
        kept = list(range(combine.num_leaves))
    kept_operands = {*kept, *flags}
    params = dict(
        eqn.params,
        combine=combine if len(kept) == combine.num_leaves else combine.restrict(kept),
        used=tuple(i in wanted for i in kept),
    )
    used_inputs = [i in kept_operands for i in range(num_operands)]
    return used_inputs, eqn.replace(
        invars=[v for v, is_used in zip(eqn.invars, used_inputs, strict=True) if is_used],
        outvars=[v for v, is_used in zip(eqn.outvars, used_outputs, strict=True) if is_used],
        params=params,
    )


def scan_transpose(cotangents: Sequence[Any], *operands: Any, **params: Any) -> list[Any]:
    """A sum's transpose is the sum from the other end; others are transposed as their tangents."""
    combine: Combine = params["combine"]
    moving = transposition.undefined(operands)
    wanted = tuple(i for i, is_used in enumerate(params["used"]) if is_used)
    transposition.check_linear("scan", combine, moving, wanted, identity=params["exclusive"])
    if combine.is_sum:
        return _transposed_sum(cotangents, *operands, **params)

    rules = scan_in_plain_jax, scan_jvp
    return transposition.by_tangents(*rules, cotangents, operands, **params)


def _transposed_sum(
    cotangents: Sequence[Any], *operands: Any, combine: Combine, reverse: bool, **params: Any
) -> list[Any]:
    """The sum from the other end, anew in each segment all the same."""
    leaves, flags = [*operands[: combine.num_leaves]], [*operands[combine.num_leaves :]]
    outputs = [i for i, is_used in enumerate(params["used"]) if is_used]
    given = {i: c for i, c in zip(outputs, cotangents, strict=True) if type(c) is not ad.Zero}
    back: dict[int, jax.Array] = {}
    if given:
        part = combine if len(given) == combine.num_leaves else combine.restrict(list(given))
        every = {**params, "used": (True,) * len(given)}
        summed = scan_p.bind(*given.values(), *flags, combine=part, reverse=not reverse, **every)
        back = dict(zip(given, summed, strict=True))
    results: list[Any] = []
    for i, leaf in enumerate(leaves):
        if not ad.is_undefined_primal(leaf):
            results.append(None)
        elif i in back:
            results.append(summed_to(back[i], leaf.aval))
        else:
            results.append(ad.Zero(leaf.aval))
    return [*results, *[None] * len(flags)]


scan_p.def_impl(functools.partial(base.run, scan_p))
scan_p.def_abstract_eval(scan_abstract_eval)
base.register_lowerings(scan_p, scan_in_kernels, scan_anywhere, on_cpu=scan_on_cpu)
batching.primitive_batchers[scan_p] = functools.partial(base.batched, scan_p)
pe.dce_rules[scan_p] = scan_dce
ad.primitive_jvps[scan_p] = scan_jvp
ad.primitive_transposes[scan_p] = scan_transpose
