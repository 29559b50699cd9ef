"""``scan_p``: one primitive for every scan, and all its rules.

Operands are the K leaves, then the head flags where ``segmented``. All have one rank; a dimension
is full size or 1 (then shared, never copied), and the scanned one is full size everywhere. Results
are the leaves that ``used`` names, at full size and in the leaves' dtypes.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan import extent, fallback, versions
from jscan.combine import Combine
from jscan.derivatives import transposition
from jscan.plain import chunks

scan_p: Any = core.Primitive("jscan_scan")
scan_p.multiple_results = True

_interpret: contextvars.ContextVar[bool] = contextvars.ContextVar("jscan_interpret", default=False)


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Within this context scans are traced to run their kernels interpreted, on any platform."""
    token = _interpret.set(True)
    try:
        yield
    finally:
        _interpret.reset(token)


def interpreting() -> bool:
    """Whether kernels are to run interpreted."""
    return _interpret.get()


def scan(
    leaves: Sequence[jax.Array],
    flags: jax.Array | None,
    *,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    method: str,
) -> list[jax.Array]:
    """Bind ``scan_p``; leaves and flags have one rank."""
    if exclusive and combine.identity is None:
        raise ValueError("an exclusive scan needs an operator with an identity")
    operands = [*leaves] if flags is None else [*leaves, flags]
    results: list[jax.Array] = scan_p.bind(
        *extent.vary_alike(operands),
        combine=combine,
        axis=axis,
        reverse=reverse,
        exclusive=exclusive,
        segmented=flags is not None,
        used=(True,) * len(leaves),
        method=method,
        interpret=interpreting(),
        compact=False,
    )
    return results


def _split(operands: Sequence[Any], segmented: bool) -> tuple[list[Any], Any]:
    return ([*operands[:-1]], operands[-1]) if segmented else ([*operands], None)


def run(primitive: Any, *operands: jax.Array, **params: Any) -> list[jax.Array]:
    """Run a primitive outside ``jit``, compiled once per parameters and shapes."""
    # Under disable_jit the compiled function would come back here.
    with jax.disable_jit(False):
        return _compiled(primitive, tuple(sorted(params.items())))(*operands)


@functools.lru_cache(maxsize=1024)
def _compiled(
    primitive: Any, params: tuple[tuple[str, Any], ...]
) -> Callable[..., list[jax.Array]]:
    def call(*operands: jax.Array) -> list[jax.Array]:
        results: list[jax.Array] = primitive.bind(*operands, **dict(params))
        return results

    call.__name__ = primitive.name
    return jax.jit(call)


def scan_abstract_eval(
    *avals: Any, combine: Combine, segmented: bool, used: tuple[bool, ...], **_: Any
) -> list[Any]:
    """The used leaves at full size; varying axes come from the operands."""
    shape = extent.full_shape(avals)
    leaves, _flags = _split(avals, segmented)
    dtypes = combine.result_dtypes([leaf.dtype for leaf in leaves])
    return [
        leaf.update(shape=shape, dtype=dtype, weak_type=False)
        for leaf, dtype, is_used in zip(leaves, dtypes, used, strict=True)
        if is_used
    ]


def scan_in_plain_jax(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    reverse: bool,
    exclusive: bool,
    segmented: bool,
    used: tuple[bool, ...],
    differentiable: bool = False,
    **_: Any,
) -> list[jax.Array]:
    """The scan on ``lax.associative_scan``."""
    leaves, flags = _split(operands, segmented)
    return fallback.scan(
        leaves,
        flags,
        combine=combine,
        axis=axis,
        reverse=reverse,
        exclusive=exclusive,
        used=used,
        differentiable=differentiable,
    )


def scan_in_kernels(
    *operands: jax.Array,
    segmented: bool,
    method: str,
    interpret: bool,
    compact: bool,
    **params: Any,
) -> list[jax.Array]:
    """The scan in a kernel where one can run it."""
    del compact
    if method == "xla":
        return scan_in_plain_jax(*operands, segmented=segmented, **params)
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    leaves, flags = _split(operands, segmented)
    # Kernels size a scan by its leaves; flags mapped by vmap may be all that has the full size.
    full = extent.full_shape(operands)
    if extent.full_shape(leaves) != full:
        leaves[0] = jnp.broadcast_to(leaves[0], full)
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
    check_runs_anywhere(method)
    return scan_in_plain_jax(*operands, **params)


def scan_on_cpu(
    *operands: jax.Array,
    segmented: bool,
    method: str,
    interpret: bool,
    compact: bool,
    **params: Any,
) -> list[jax.Array]:
    """The scan on a CPU; a ``compact`` one keeps little besides its results, and takes longer."""
    del interpret
    check_runs_anywhere(method)
    if not compact:
        return scan_in_plain_jax(*operands, segmented=segmented, **params)
    leaves, flags = _split(operands, segmented)
    return chunks.scan(leaves, flags, **params)


def check_runs_anywhere(method: str) -> None:
    """Raise for the name of a strategy, where there is no kernel."""
    if method not in ("auto", "xla"):
        raise ValueError(
            f"jscan: method={method!r} needs a CUDA GPU, and this call is being compiled for "
            "another platform; use method='auto' or method='xla' there"
        )


def as_traced(ctx: Any) -> contextlib.AbstractContextManager[Any]:
    """With 64-bit types on where the scan was traced with them, wherever it is lowered."""
    wide = any(a.dtype.itemsize >= 8 and a.dtype.name != "complex64" for a in ctx.avals_in)
    return jax.enable_x64(True) if wide else contextlib.nullcontext()


def lower_to_kernels(
    in_kernels: Callable[..., Any], ctx: Any, *operands: Any, **params: Any
) -> Any:
    """Lower to a kernel, which knows nothing of meshes: it runs on what one device holds."""
    current = jax.sharding.get_abstract_mesh()
    empty = AbstractMesh((), (), abstract_device=current.abstract_device)
    with use_abstract_mesh(empty), as_traced(ctx), versions.lowering_kernels():
        local = ctx.replace(
            avals_in=[jax.core.ShapedArray(a.shape, a.dtype) for a in ctx.avals_in],
            avals_out=[jax.core.ShapedArray(a.shape, a.dtype) for a in ctx.avals_out],
        )
        return mlir.lower_fun(in_kernels, multiple_results=True)(local, *operands, **params)


def register_lowerings(
    primitive: Any,
    in_kernels: Callable[..., Any],
    anywhere: Callable[..., Any],
    *,
    on_cpu: Callable[..., Any] | None = None,
) -> None:
    """Lower ``primitive`` to ``in_kernels`` on CUDA and to ``anywhere`` on every other platform.

    Where the parameter ``interpret`` is set every platform takes the kernels, interpreted. CPUs may
    have a form ``on_cpu`` of their own.
    """
    on_cuda = functools.partial(lower_to_kernels, in_kernels)

    def elsewhere(meaning: Callable[..., Any], ctx: Any, *operands: Any, **params: Any) -> Any:
        if params["interpret"]:
            return on_cuda(ctx, *operands, **params)
        with as_traced(ctx):
            return mlir.lower_fun(meaning, multiple_results=True)(ctx, *operands, **params)

    mlir.register_lowering(primitive, functools.partial(elsewhere, anywhere))
    mlir.register_lowering(primitive, on_cuda, platform="cuda")
    if on_cpu is not None:
        mlir.register_lowering(primitive, functools.partial(elsewhere, on_cpu), platform="cpu")


def batched(
    primitive: Any,
    operands: Sequence[jax.Array],
    dims: Sequence[int | None],
    *,
    axis: int,
    **params: Any,
) -> tuple[list[jax.Array], list[int]]:
    """Give every operand the batch dimension in one place, with size 1 where it is unmapped."""
    places = {d for d in dims if d is not None}
    place = places.pop() if len(places) == 1 else 0
    aligned = [
        lax.expand_dims(x, (place,))
        if d is None
        else jnp.moveaxis(x, d, place)
        if d != place
        else x
        for x, d in zip(operands, dims, strict=True)
    ]
    results = primitive.bind(*aligned, axis=axis + (place <= axis), **params)
    return results, [place] * len(results)


def is_moving(tangent: Any) -> bool:
    """Whether it is a tangent that may not be zero."""
    return type(tangent) is not ad.Zero and tangent.dtype != jax.dtypes.float0


def summed_to(x: jax.Array, like: Any) -> jax.Array:
    """``x``, summed over the dimensions that are 1 in ``like``."""
    shared = [d for d, size in enumerate(like.shape) if size == 1 and x.shape[d] != 1]
    return jnp.sum(x, shared, keepdims=True, dtype=x.dtype) if shared else x


def jvp_of(
    meaning: Callable[..., list[jax.Array]],
    primals: Sequence[jax.Array],
    tangents: Sequence[Any],
    **params: Any,
) -> tuple[list[jax.Array], list[Any]]:
    """Differentiate a primitive as written in plain JAX, in the operands that have a tangent."""
    moving = [i for i, t in enumerate(tangents) if is_moving(t)]

    def of_moving(*moved: jax.Array) -> list[jax.Array]:
        operands = list(primals)
        for i, x in zip(moving, moved, strict=True):
            operands[i] = x
        return meaning(*operands, differentiable=True, **params)

    results, slopes = jax.jvp(
        of_moving, [primals[i] for i in moving], [tangents[i] for i in moving]
    )
    zeros = [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]
    return results, [
        z if t.dtype == jax.dtypes.float0 else t for z, t in zip(zeros, slopes, strict=True)
    ]


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


def scan_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[jax.Array], list[Any]]:
    """Results, and their tangents as recurrences over those of the leaves that have one."""
    # Recurrences are solved by scans, so their files import this one.
    from jscan.derivatives import scan_jvp as rule

    return rule.scan_jvp(primals, tangents, **params)


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


scan_p.def_impl(functools.partial(run, scan_p))
scan_p.def_abstract_eval(scan_abstract_eval)
register_lowerings(scan_p, scan_in_kernels, scan_anywhere, on_cpu=scan_on_cpu)
batching.primitive_batchers[scan_p] = functools.partial(batched, scan_p)
pe.dce_rules[scan_p] = scan_dce
ad.primitive_jvps[scan_p] = scan_jvp
ad.primitive_transposes[scan_p] = scan_transpose
