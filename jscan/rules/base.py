"""What the rules of all primitives share, and the place where JAX is told of them.

A primitive is lowered to one of its forms, functions of arrays with the parameters as keywords:

    CUDA, or interpreted on any platform    `in_kernels`; where it finds no kernel, `on_gpu`
                                            where there is one, else `plain`
    a CPU                                   `on_cpu` where there is one, else `plain`
    any other platform                      `plain`

In a program for several devices, each runs it on what it holds: `partition` says how.

Outside ``jit`` a primitive is compiled by itself, once for its parameters and shapes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan import engines, meshes, primitives
from jscan.advice import ARGUMENTS, advise
from jscan.derivatives.tangents import Tangent
from jscan.rules import partition

Form: TypeAlias = Callable[..., list[jax.Array]]
"""From a primitive's operands, and its parameters as keywords, to its results."""


class NoKernel(Exception):
    """The reason why no kernel can run, or had better not, raised by a form in kernels."""


def register(
    primitive: core.Primitive,
    *,
    name: str,
    abstract_eval: Callable[..., list[ShapedArray]],
    plain: Form,
    in_kernels: Form,
    dimensions: Callable[..., partition.Dimensions] | None = None,
    across: Form | None = None,
    uneven: Form | None = None,
    on_cpu: Form | None = None,
    on_gpu: Form | None = None,
    divisible: Callable[..., Form | None] | None = None,
    batch: Callable[..., tuple[list[jax.Array], list[int]]] | None = None,
    jvp: Callable[..., tuple[list[jax.Array], list[Tangent]]] | None = None,
    transpose: Callable[..., list[Any]] | None = None,
    dce: Callable[..., tuple[list[bool], core.JaxprEqn | None]] | None = None,
) -> None:
    """Tell JAX the rules of ``primitive``.

    Args:
      primitive: an object of `jscan.primitives`.
      name: what errors call it.
      abstract_eval: the abstract values of the results.
      plain: the form in plain JAX.
      in_kernels: the form in kernels, which raises `NoKernel` where none can run.
      across: the form for a part of an axis that goes on across mesh axes, if there can be one.
      uneven: the same for a part of an axis that does not divide evenly, whose ``length`` it is
        told.
      dimensions: those of operands and results, given their abstract values and the parameters;
        None where there always is a ``divisible`` form.
      on_cpu: the form for CPUs, if they have one of their own.
      on_gpu: the form for CUDA where no kernel runs, if that is not the plain one.
      divisible: for some parameters, a form of other primitives that can be divided instead.
      batch: the rule of ``vmap``, if it is not `batched`.
      jvp: results and tangents from primals and tangents, if it can be differentiated.
      transpose: cotangents of the operands from those of the results, if it can be linear.
      dce: what is left of an equation some of whose results are used.
    """
    primitive.def_impl(functools.partial(_run, primitive))
    primitive.def_abstract_eval(abstract_eval)
    on_cuda = functools.partial(
        _lower_to_kernels, functools.partial(_chosen, name, in_kernels, on_gpu or plain)
    )
    check = functools.partial(_check_method, name, in_kernels)
    spelled = divisible or (lambda **_: None)
    lowerings = {"cuda": on_cuda, None: functools.partial(_lower, plain, on_cuda, False)}
    if on_cpu is not None:
        lowerings["cpu"] = functools.partial(_lower, on_cpu, on_cuda, True)
    for platform, rule in lowerings.items():
        in_parts = functools.partial(
            _in_parts, primitive, uneven, dimensions, check, spelled, platform == "cuda"
        )
        lowering = functools.partial(_lower_to_devices, in_parts, across, rule)
        mlir.register_lowering(primitive, lowering, platform=platform)
    batch = batch or functools.partial(batched, primitive)
    batching.fancy_primitive_batchers[primitive] = functools.partial(_batched, primitive, batch)
    if jvp is not None:
        ad.primitive_jvps[primitive] = _with_settings(jvp)
    if transpose is not None:
        ad.primitive_transposes[primitive] = _with_settings(transpose)
    if dce is not None:
        pe.dce_rules[primitive] = dce


def _run(primitive: core.Primitive, *operands: jax.Array, **params: Any) -> list[jax.Array]:
    compiled = _compiled(primitive, tuple(sorted(params.items())))
    # Under disable_jit the compiled function would come back here; so it would where jax looks for
    # the operation that made a NaN, which is this one.
    with (
        jax.disable_jit(False),
        _outside_of_vmap(params["layout"]),
        jax.debug_nans(False),
        jax.debug_infs(False),
    ):
        results = compiled(*operands)
    _check_finite(primitive, results)
    return results


def _check_finite(primitive: core.Primitive, results: Sequence[jax.Array]) -> None:
    """Raise where a result has what `jax.debug_nans` and `jax.debug_infs` look for."""
    for is_wrong, what in ((jnp.isnan, "nan"), (jnp.isinf, "inf")):
        if getattr(jax.config, f"jax_debug_{what}s") and any(
            jnp.issubdtype(x.dtype, jnp.inexact) and bool(is_wrong(x).any()) for x in results
        ):
            raise FloatingPointError(f"invalid value ({what}) encountered in {primitive.name}")


def _outside_of_vmap(layout: meshes.Layout | None) -> contextlib.AbstractContextManager[None]:
    """A context for compiling what is bound inside of a vmap over a sharded dimension."""
    if layout is None:
        return contextlib.nullcontext()
    # Pallas takes seconds to import, and of what is no kernel only this needs an internal of jax.
    from jscan.kernels import internals

    return internals.outside_of_vmap()


@functools.lru_cache(maxsize=1024)
def _compiled(
    primitive: core.Primitive, params: tuple[tuple[str, Any], ...]
) -> Callable[..., list[jax.Array]]:
    def call(*operands: jax.Array) -> list[jax.Array]:
        results: list[jax.Array] = primitive.bind(*operands, **dict(params))
        return results

    call.__name__ = primitive.name
    return jax.jit(call)


def _lower_to_devices(
    in_parts: Callable[..., Sequence[Any]],
    across: Form | None,
    rule: Callable[..., Sequence[Any]],
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    layout: meshes.Layout | None,
    **params: Any,
) -> Sequence[Any]:
    """Lower for one device by ``rule``, for several ``in_parts``, and for one of these `across`."""
    names = params.get("axis_name")
    if names:
        assert across is not None
        avals: Sequence[Any] = ctx.avals_in
        if not any(aval.mat.varying.intersection(names) for aval in avals):
            # No operand says that it varies: XLA called back, or check_vma is off. The avals of a
            # form are then those of one device, also where jax knows the mesh.
            local = {"avals_in": ctx.avals_in, "avals_out": ctx.avals_out}
            ctx = ctx.replace(**{k: partition.local_avals(v) for k, v in local.items()})
        with _as_traced(ctx, {**params, "layout": None}):
            return mlir.lower_fun(across, multiple_results=True)(ctx, *operands, **params)
    if layout is None:
        divides = partition.is_for_xla_to_divide(ctx)
    else:
        divides = any(entry is not None for entry in layout.entries)
    return (in_parts if divides else rule)(ctx, *operands, layout=layout, **params)


def _in_parts(
    primitive: core.Primitive,
    uneven: Form | None,
    dimensions: Callable[..., partition.Dimensions] | None,
    check: Callable[..., None],
    divisible: Callable[..., Form | None],
    is_cuda: bool,
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    layout: meshes.Layout | None,
    **params: Any,
) -> Sequence[Any]:
    """Lower to parts, in which each device binds ``primitive`` again for what it holds."""
    instead = divisible(**params)
    if instead is not None:
        with _as_traced(ctx, {**params, "layout": layout}):
            rule = mlir.lower_fun(instead, multiple_results=True)
            return rule(ctx, *operands, layout=layout, **params)
    assert dimensions is not None
    divided = dimensions(ctx.avals_in, ctx.avals_out, **params)
    params["layout"] = None
    with _as_traced(ctx, params):
        if layout is not None:
            return partition.lower_by_layout(primitive, divided, layout, ctx, *operands, **params)
        check(ctx, is_cuda=is_cuda or params["interpret"], **params)
        if is_cuda:
            engines.leave_to_xla(partition.sharing(ctx))
        return partition.lower(primitive, uneven, divided, ctx, *operands, **params)


def _check_method(
    name: str, in_kernels: Form, ctx: mlir.LoweringRuleContext, *, is_cuda: bool, **params: Any
) -> None:
    """Raise where the method that is named cannot run on any part that a device may get.

    What it gets is known when XLA calls back. An error then comes from XLA, without its type.
    """
    method = params.get("method", "auto")
    if method in ("auto", "xla"):
        return
    if not is_cuda:
        _refuse_platform(method)
    form = functools.partial(_chosen, name, in_kernels, in_kernels, **params)
    try:
        jax.eval_shape(form, *_parts(ctx, 1, **params))
    except ValueError as error:
        try:
            jax.eval_shape(form, *_parts(ctx, partition.sharing(ctx), **params))
        except ValueError:
            raise error from None


def _parts(
    ctx: mlir.LoweringRuleContext, count: int, *, axis: int, kind: str = "whole", **_: Any
) -> list[jax.ShapeDtypeStruct]:
    """The operands of a primitive whose axis is divided into so many parts."""
    shapes = []
    for i, aval in enumerate(partition.local_avals(ctx.avals_in)):
        shape = [*aval.shape]
        if not (kind == "offsets" and i == len(ctx.avals_in) - 1):
            shape[axis] = -(-shape[axis] // count)
        shapes.append(jax.ShapeDtypeStruct(tuple(shape), aval.dtype))
    return shapes


def _refuse_platform(method: str) -> None:
    error = ValueError(
        f"jscan: method={method!r} needs a CUDA GPU, and this call is being compiled for "
        "another platform; use method='auto' or method='xla' there"
    )
    raise advise(error, ARGUMENTS["method"])


def _chosen(
    name: str,
    in_kernels: Form,
    plain: Form,
    *operands: jax.Array,
    engine: str | None,
    **params: Any,
) -> list[jax.Array]:
    """The results by a kernel, or in plain JAX if none can run and no method is named.

    The ``engine`` is that of the context, too.
    """
    del engine
    method = params.get("method", "auto")
    if method != "xla":
        try:
            nothing_builds = None if params["interpret"] else engines.why_none()
            if nothing_builds is not None:
                raise NoKernel(nothing_builds)
            return in_kernels(*operands, **params)
        except NoKernel as reason:
            if method != "auto":
                message = f"jscan: method={method!r} cannot run this {name}: {reason}"
                raise advise(ValueError(message), ARGUMENTS["method"]) from None
    return plain(*operands, **params)


def _lower_to_kernels(
    form: Form, ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any
) -> Sequence[Any]:
    """Lower a form with kernels for one device."""
    with engines.lowering_kernels():
        return _lower_for_one_device(form, ctx, *operands, **params)


def _lower_for_one_device(
    form: Form, ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any
) -> Sequence[Any]:
    """Lower a form with kernels or loops, which know nothing of meshes."""
    current = jax.sharding.get_abstract_mesh()
    empty = AbstractMesh((), (), abstract_device=current.abstract_device)
    with use_abstract_mesh(empty), _as_traced(ctx, params):
        local = ctx.replace(
            avals_in=partition.local_avals(ctx.avals_in),
            avals_out=partition.local_avals(ctx.avals_out),
        )
        return mlir.lower_fun(form, multiple_results=True)(local, *operands, **params)


def _lower(
    form: Form,
    on_cuda: Callable[..., Any],
    in_loops: bool,
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    **params: Any,
) -> Sequence[Any]:
    """Lower a form without kernels, unless they are to be interpreted."""
    if params["interpret"]:
        return on_cuda(ctx, *operands, **params)
    method = params.get("method", "auto")
    if method not in ("auto", "xla"):
        _refuse_platform(method)
    if in_loops:
        return _lower_for_one_device(form, ctx, *operands, **params)
    with _as_traced(ctx, params):
        return mlir.lower_fun(form, multiple_results=True)(ctx, *operands, **params)


@contextlib.contextmanager
def _as_traced(ctx: mlir.LoweringRuleContext, params: dict[str, Any]) -> Iterator[None]:
    """The context in which a primitive was bound, for what its form traces and binds in turn.

    64-bit types are on where an operand has one.
    """
    dtypes = [aval.dtype for aval in partition.local_avals(ctx.avals_in)]
    wide = any(dtype.itemsize >= 8 and dtype.name != "complex64" for dtype in dtypes)
    with primitives.settings_of(params), jax.enable_x64(True) if wide else contextlib.nullcontext():
        yield


def _with_settings(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that binds with the settings of the primitive whose rule it is."""

    @functools.wraps(rule)
    def ruled(*args: Any, **params: Any) -> Any:
        with primitives.settings_of(params):
            return rule(*args, **params)

    return ruled


def _batched(
    primitive: core.Primitive,
    rule: Callable[..., tuple[list[jax.Array], list[int]]],
    batch: Any,
    operands: Sequence[jax.Array],
    dims: Sequence[int | None],
    **params: Any,
) -> tuple[list[jax.Array], list[Any]]:
    """Batch by ``rule``, unless no operand is mapped."""
    if all(d is None for d in dims):
        results = primitive.bind(*operands, **params)
        return results, [None] * len(results)
    return rule(batch, operands, dims, **params)


def mesh_axis_of(batch: Any) -> meshes.Entry:
    """The Explicit mesh axes over which the dimension that is mapped is sharded."""
    # jax tells of none while the axes of the mesh count as Auto.
    with use_abstract_mesh(AbstractMesh((), ())):
        entry: meshes.Entry = batch.explicit_mesh_axis
    return entry


def batched(
    primitive: core.Primitive,
    batch: Any,
    operands: Sequence[jax.Array],
    dims: Sequence[int | None],
    *,
    axis: int,
    layout: meshes.Layout | None,
    **params: Any,
) -> tuple[list[jax.Array], list[int]]:
    """Bind with the batch dimension in one place, of size 1 where an operand is unmapped."""
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
    if layout is not None:
        layout = layout.with_batch(place, batch.size, mesh_axis_of(batch))
    results = primitive.bind(*aligned, axis=axis + (place <= axis), layout=layout, **params)
    return results, [place] * len(results)
