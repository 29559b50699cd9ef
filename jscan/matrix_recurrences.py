"""Linear recurrences whose coefficients are small matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscan import matrices, meshes
from jscan.advice import advised
from jscan.arguments.arrays import as_array
from jscan.arguments.choices import as_axis_name, check_method
from jscan.arguments.leading import common_dtype
from jscan.arguments.scalars import as_axis, as_switch
from jscan.combine import accumulation_dtype
from jscan.division import flags_along, of_scan
from jscan.eager import NONE, compiled, elements, number
from jscan.starts import started

__all__ = ["matrix_recurrence"]


@advised
def matrix_recurrence(
    A: Any,
    b: Any,
    h0: Any = None,
    *,
    axis: int = 0,
    reverse: bool = False,
    segments: Any = None,
    axis_name: Any = None,
    form: str = "full",
    method: str = "auto",
) -> jax.Array:
    """First-order linear recurrence of vectors along an axis, by matrices.

    ``h[t] = A[t] @ h[t-1] + b[t]``, with ``h[-1] = h0``. With ``reverse`` it is
    ``h[t] = A[t] @ h[t+1] + b[t]`` from the last element on, and ``h0`` is what lies behind it.

    Args:
      A: the matrices, an array of numeric dtype and shape ``(..., k, k)``. What comes before the
        last two dimensions are those of ``b`` before its last, each in full or 1, or only the
        leading ones of them; what is missing is shared, and not copied. ``(k, k)`` is one matrix
        for all. Block-diagonal matrices are smaller ones side by side: ``(n, blocks, k, k)`` with
        ``b`` of shape ``(n, blocks, k)``.
      b: the terms, an array of numeric dtype and shape ``(..., k)``.
      h0: what precedes the first element (the last, when reversed): shaped like the result without
        ``axis``, each dimension in full or 1, or a scalar. Zero if left out. With segments it
        precedes the first of them (the last, when reversed), and zero the others.
      axis: the axis of ``b`` to run along, counted from the end where negative. It is not the last.
      reverse: run from the end. Segments then restart at their last elements.
      segments: ``jscan.Segments``, or head flags of a bool or integer dtype with the shape of the
        result without its last dimension, or ``(length of axis,)``: ``h[t] = b[t]`` at each head
        but the first.
      axis_name: as for ``jscan.linear_recurrence``.
      form: ``"full"``, or ``"rotation"``: ``A`` has shape ``(..., 2)`` and holds (c, s) for the
        matrix ``[[c, -s], [s, c]]``, which multiplies x + iy by c + is. A diagonal state space
        model with complex poles is one of these in real numbers.
      method: as for ``jscan.associative_scan``.

    Returns:
      An array of the shape that ``b`` and the vectors of ``A`` have together, in the dtype to which
      JAX promotes ``A``, ``b`` and ``h0``. float16 and bfloat16 are combined in float32 and rounded
      once at the end.

    Raises:
      TypeError: an argument is not of a numeric dtype; flags are not bool or integer; ``axis_name``
        is not a name.
      ValueError: ``axis``, a shape, ``axis_name``, ``form`` or ``method`` does not fit; the dtypes
        do not promote to one.

    Cost: on a CUDA GPU matrices of up to 7 x 7 (float64 5 x 5) are scanned by kernels, which read
    ``A`` and ``b`` and write h as they lie in memory: those of up to 3 x 3 once, and where there
    are many larger ones twice, since a thread then walks a chunk. Along another axis than the last
    of those before the matrices, of complex128, and where rows are no multiple of 16 bytes, XLA
    transposes them before and behind it: about twice the bytes of the operands. Still larger
    matrices are a tree of products in plain JAX, several times that. A CPU takes one step after
    another, of k² products each, and keeps nothing but the states. The gradient is one more
    recurrence: ``λ[t] = h̄[t] + A[t+1]ᵀ λ[t+1]`` runs the other way, ``b̄ = λ`` and
    ``Ā[t] = λ[t] h[t-1]ᵀ``. Its kernels read ``A`` as it is, but for 3 x 3 and rotations.

    Sources: Blelloch, *Prefix Sums and Their Applications* (1990), §1.4; Smith, Warrington and
    Linderman, *Simplified State Space Layers for Sequence Modeling* (2023), for states of many
    small blocks.

    Example:
      >>> import jax.numpy as jnp
      >>> import jscan
      >>> fibonacci = jnp.array([[1, 1], [1, 0]])
      >>> print(jscan.matrix_recurrence(fibonacci, jnp.zeros((8, 2), int), jnp.array([1, 0]))[:, 0])
      [ 1  2  3  5  8 13 21 34]

      A quarter turn in each step, and the same by (c, s):

      >>> turn = jnp.array([[0.0, -1.0], [1.0, 0.0]])
      >>> print(jscan.matrix_recurrence(turn, jnp.zeros((3, 2)), jnp.array([1.0, 0.0])).round())
      [[ 0.  1.]
       [-1.  0.]
       [ 0. -1.]]
      >>> turn, still = jnp.array([0.0, 1.0]), jnp.zeros((3, 2))
      >>> h = jscan.matrix_recurrence(turn, still, jnp.array([1.0, 0.0]), form="rotation")
      >>> print(h[-1].round())
      [ 0. -1.]
    """
    return _matrix_recurrence(A, b, h0, segments, axis, reverse, axis_name, form, method)


@compiled(elements, elements, number, of_scan, int, bool, NONE, str, str)
@meshes.automatic(lambda given: ([given["b"]], meshes.same))
def _matrix_recurrence(
    A: Any,
    b: Any,
    h0: Any,
    segments: Any,
    axis: int,
    reverse: bool,
    axis_name: Any,
    form: str,
    method: str,
) -> jax.Array:
    """The recurrence of arrays."""
    caller = "jscan.matrix_recurrence"
    check_method(caller, method)
    if form not in matrices.FORMS:
        choices = " or ".join(map(repr, matrices.FORMS))
        raise ValueError(f"{caller}: form must be {choices}; got {form!r}")
    given = {"A": as_array(caller, "A", A), "b": as_array(caller, "b", b)}
    reverse = as_switch(caller, "reverse", reverse)
    shape = _shape(caller, given, form)
    axis = as_axis(caller, "b", axis, shape)
    if axis == len(shape) - 1:
        raise ValueError(
            f"{caller}: axis={axis} is the last dimension of b of shape {given['b'].shape}, which "
            "holds the states; it must be one before that"
        )
    if h0 is not None:
        given["h0"] = as_array(caller, "h0", h0)
    dtype = common_dtype(caller, given)
    held, terms, *start = [x.astype(dtype) for x in given.values()]
    if form == "rotation":
        held = held[..., None]
    held = lax.expand_dims(held, range(held.ndim - 2, len(shape) - 1))
    terms = jnp.broadcast_to(terms, shape)
    names = as_axis_name(caller, axis_name)
    if start:
        along: dict[str, Any] = {"axis": axis, "reverse": reverse, "axis_name": names}

        def times(held: jax.Array, start: jax.Array) -> jax.Array:
            return matrices.times(matrices.whole(held, form), start[..., None])[..., 0]

        # The first state is rounded with the others, once.
        held, terms = (x.astype(accumulation_dtype(dtype)) for x in (held, terms))
        terms = started(caller, held, terms, start[0], times=times, **along)
    flags = flags_along(caller, segments, [terms[..., 0]], axis, names)
    states = matrices.recur(
        held,
        terms[..., None],
        None if flags is None else flags[..., None, None],
        stored=form,
        shared=held.shape[axis] == 1 and shape[axis] != 1,
        axis=axis,
        reverse=reverse,
        method=method,
        axis_name=names,
    )
    return states[..., 0].astype(dtype)


def _shape(caller: str, given: Mapping[str, jax.Array], form: str) -> tuple[int, ...]:
    """The shape that the result has, of matrices and terms that fit together."""
    held, terms = given["A"].shape, given["b"].shape
    sizes = 2 if form == "full" else 1
    if len(terms) < 2:
        raise ValueError(
            f"{caller}: b must have the dimension of the axis and, last, that of the states; got b "
            f"of shape {terms}"
        )
    k = terms[-1]
    expected = (k, k) if form == "full" else (2,)
    if k == 0 or held[-sizes:] != expected or (form == "rotation" and k != 2):
        wanted = "(..., k, k) beside b of shape (..., k), and k at least 1"
        if form == "rotation":
            wanted = "(..., 2) beside b of shape (..., 2) where form='rotation'"
        raise ValueError(
            f"{caller}: A must have shape {wanted}; got A of shape {held} and b of shape {terms}"
        )
    leading = held[:-sizes]
    try:
        if len(leading) >= len(terms):
            raise ValueError
        missing = len(terms) - 1 - len(leading)
        return (*np.broadcast_shapes((*leading, *[1] * missing), terms[:-1]), k)
    except ValueError:
        raise ValueError(
            f"{caller}: before its matrices A must have the dimensions of b before its last, each "
            f"in full or 1, or the leading ones; got A of shape {held} and b of shape {terms}"
        ) from None
