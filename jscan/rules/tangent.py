"""The rules of ``tangent_p``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from jscan import extent
from jscan.derivatives import transposition
from jscan.derivatives.components import Component
from jscan.derivatives.tangents import is_moving, summed_to
from jscan.plain.recurrence import split, tangent_in_chunks, tangent_in_plain_jax
from jscan.primitives import tangent_p
from jscan.rules import base


def tangent_abstract_eval(*avals: Any, dtypes: tuple[Any, ...], **_: Any) -> list[Any]:
    """Results at full size."""
    shape = extent.full_shape(avals)
    return [avals[0].update(shape=shape, dtype=dtype, weak_type=False) for dtype in dtypes]


def tangent_in_kernels(
    *operands: jax.Array, method: str, interpret: bool, tile: Any, **params: Any
) -> list[jax.Array]:
    """The recurrence in one kernel where one can run it, else in those that a scan takes."""
    if method != "xla":
        # Pallas takes seconds to import, and only GPU programs need it.
        from jscan import kernels

        known, linear, flags = split(operands, params["component"], params["segmented"])
        full = extent.full_shape(operands)
        if extent.full_shape([*known, *linear]) != full:
            linear[0] = jnp.broadcast_to(linear[0], full)
        operands_read = [*known, *linear]
        # Rows that fit a tile may not do so with the leaves of their derivative.
        with base.cut_by(tile):
            for way in (method, "auto"):
                reason = kernels.why_no_tangent(
                    operands_read, component=params["component"], axis=params["axis"], method=way
                )
                if reason is None:
                    return kernels.tangent(
                        known, linear, flags, method=way, interpret=interpret, **params
                    )
    way = "auto" if method == "block" else method
    return tangent_in_plain_jax(*operands, method=way, **params)


def tangent_anywhere(*operands: jax.Array, method: str, **params: Any) -> list[jax.Array]:
    """The recurrence where there is no kernel."""
    base.check_runs_anywhere(method)
    return tangent_in_plain_jax(*operands, method=method, **params)


def tangent_on_cpu(*operands: jax.Array, method: str, **params: Any) -> list[jax.Array]:
    """The recurrence on a CPU, chunk by chunk."""
    base.check_runs_anywhere(method)
    return tangent_in_chunks(*operands, **params)


def tangent_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[jax.Array], list[Any]]:
    """Linear in what comes in; in what it reads, the derivative of its plain form."""
    known, linear, flags = split(primals, params["component"], params["segmented"])
    moved, coming, _ = split(tangents, params["component"], params["segmented"])
    results = tangent_p.bind(*primals, **params)
    flagged = [] if flags is None else [flags]
    total: list[Any] = [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    if any(type(t) is not ad.Zero for t in coming):
        coming = [ad.instantiate_zeros(t) for t in coming]
        total = tangent_p.bind(*known, *coming, *flagged, **params)
    moving = [i for i, t in enumerate(moved) if is_moving(t)]
    if moving:

        def of_known(*values: jax.Array) -> list[jax.Array]:
            operands = list(known)
            for i, x in zip(moving, values, strict=True):
                operands[i] = x
            return tangent_in_plain_jax(*operands, *linear, *flagged, **params, differentiable=True)

        _, slope = jax.jvp(of_known, [known[i] for i in moving], [moved[i] for i in moving])
        total = [s if type(t) is ad.Zero else t + s for t, s in zip(total, slope, strict=True)]
    return results, total


def tangent_transpose(
    cotangents: Sequence[Any], *operands: Any, component: Component, segmented: bool, **params: Any
) -> list[Any]:
    """In what comes in the same recurrence, the other way; in what it reads by its plain form."""
    known, linear, flags = split(operands, component, segmented)
    if transposition.undefined(known):
        if transposition.undefined(linear):
            raise TypeError(
                "jscan: this tangent of a scan is not linear in the scan's elements and their "
                "tangents together, so it has no transpose in both"
            )

        def of_known(*moved: jax.Array) -> list[jax.Array]:
            _, full = transposition.at_zero(operands, transposition.undefined(operands), moved)
            how = {**params, "component": component, "segmented": segmented}
            return tangent_in_plain_jax(*full, **how, differentiable=True)

        return transposition.transposed(of_known, cotangents, operands, [])
    avals = [x.aval if ad.is_undefined_primal(x) else jax.typeof(x) for x in linear]
    flagged = [] if flags is None else [flags]
    whole = tangent_p.bind(
        *known,
        *(ad.instantiate_zeros(c) for c in cotangents),
        *flagged,
        component=component,
        segmented=segmented,
        **{
            **params,
            "transposed": not params["transposed"],
            "dtypes": tuple(a.dtype for a in avals),
        },
    )
    back = [
        summed_to(x, aval) if ad.is_undefined_primal(given) else None
        for x, aval, given in zip(whole, avals, linear, strict=True)
    ]
    return [*[None] * len(known), *back, *[None] * len(flagged)]


tangent_p.def_impl(functools.partial(base.run, tangent_p))
tangent_p.def_abstract_eval(tangent_abstract_eval)
base.register_lowerings(tangent_p, tangent_in_kernels, tangent_anywhere, on_cpu=tangent_on_cpu)
batching.primitive_batchers[tangent_p] = functools.partial(base.batched, tangent_p)
ad.primitive_jvps[tangent_p] = tangent_jvp
ad.primitive_transposes[tangent_p] = tangent_transpose
