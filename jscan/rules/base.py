"""What the rules of all primitives share."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, use_abstract_mesh

from jscan import primitives, versions


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


def check_runs_anywhere(method: str) -> None:
    """Raise for the name of a strategy, where there is no kernel."""
    if method not in ("auto", "xla"):
        raise ValueError(
            f"jscan: method={method!r} needs a CUDA GPU, and this call is being compiled for "
            "another platform; use method='auto' or method='xla' there"
        )


@contextlib.contextmanager
def as_traced(ctx: Any, params: dict[str, Any]) -> Iterator[None]:
    """The context in which a primitive was traced, for what its lowering traces in turn.

    64-bit types are on where operands have them. What is bound takes over the settings.
    """
    wide = any(a.dtype.itemsize >= 8 and a.dtype.name != "complex64" for a in ctx.avals_in)
    with (
        primitives.interpreted(params["interpret"]),
        primitives.tiled(params.get("tile")),
        jax.enable_x64(True) if wide else contextlib.nullcontext(),
    ):
        yield


@contextlib.contextmanager
def cut_by(tile: Any) -> Iterator[None]:
    """Makes kernels cut their operands by ``tile``, unless it is None."""
    if tile is None:
        yield
        return
    from jscan.kernels import tuning

    with tuning.forced(tile):
        yield


def lower_to_kernels(
    in_kernels: Callable[..., Any], ctx: Any, *operands: Any, **params: Any
) -> Any:
    """Lower to a kernel, which knows nothing of meshes: it runs on what one device holds."""
    current = jax.sharding.get_abstract_mesh()
    empty = AbstractMesh((), (), abstract_device=current.abstract_device)
    with use_abstract_mesh(empty), as_traced(ctx, params), versions.lowering_kernels():
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
        with as_traced(ctx, params):
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
