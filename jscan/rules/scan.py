"""The rules of ``scan_p``."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import ad

from jscan import bits, compensation, extent
from jscan.combine import Combine
from jscan.derivatives import recurrence, transposition
from jscan.derivatives.scan_jvp import scan_jvp
from jscan.derivatives.tangents import Tangent, summed_to, zero_of
from jscan.described import flags_of
from jscan.heads import choose
from jscan.plain import sequence
from jscan.plain.across import scan_across
from jscan.plain.scan import scan_plainly
from jscan.plain.uneven import scan_uneven
from jscan.primitives import joined, scan_p
from jscan.rules import base, partition
from jscan.rules.apart import Moved, is_apart
from jscan.starts import Scanned, Start, first_of, of_scan


def scan_abstract_eval(
    *avals: ShapedArray, combine: Combine, used: tuple[bool, ...], **_: Any
) -> list[ShapedArray]:
    """The used leaves at full size, which vary over the same mesh axes as before."""
    shape = extent.full_shape(avals)
    leaves = avals[: combine.num_leaves]
    dtypes = combine.result_dtypes([leaf.dtype for leaf in leaves])
    return [
        leaf.update(shape=shape, dtype=dtype, weak_type=False)
        for leaf, dtype, is_used in zip(leaves, dtypes, used, strict=True)
        if is_used
    ]


def scan_in_kernels(
    *operands: jax.Array,
    combine: Combine,
    axis: int,
    exclusive: bool,
    segmented: bool,
    method: str,
    tile: Hashable,
    reverse: bool,
    used: tuple[bool, ...],
    interpret: bool,
    started: bool,
    kind: str = "flags",
    **_: Any,
) -> list[jax.Array]:
    """The scan by the kernels of a strategy."""
    # Pallas takes seconds to import, and only GPU programs need it.
    from jscan import kernels

    full = extent.full_shape(operands)
    given = of_scan(operands, combine=combine, segmented=segmented, started=started)
    beside = [] if given.flags is None else [bits.beside(given.flags, kind, axis)]
    leaves = extent.at_full_size(given.leaves, full, beside)
    how: dict[str, Any] = {"combine": combine, "axis": axis, "exclusive": exclusive}
    how |= {"method": method, "tile": tile}
    reason = kernels.why_not(leaves, **how, full=full)
    if reason is not None:
        raise base.NoKernel(reason)
    flags = given.flags
    own = flags is None or (kind == "flags" and flags.size == math.prod(full))
    if method == "auto" and tile is None and own and not started:
        call: dict[str, Any] = {"combine": combine, "axis": axis, "exclusive": exclusive}
        call |= {"full": full}
        if kernels.suits_no_kernel(leaves, flags, **call):
            raise base.NoKernel("two positions are combined in one loop of XLA's")
    if flags is not None and kind in ("offsets", "ends"):
        to_words = kernels.words_of_bounds if kind == "offsets" else kernels.words_of_ends
        flags = to_words(flags, axis=axis, n=full[axis], interpret=interpret)
        kind = "bits"
    how |= {"reverse": reverse, "used": used, "interpret": interpret, "kind": kind}
    return kernels.scan(leaves, flags, **how, **_begins(given))


def _begins(given: Scanned) -> dict[str, Any]:
    """The start as arguments of a form."""
    return {"start": given.values, "start_open": given.open} if given.start else {}


def scan_without_kernels(*operands: jax.Array, **params: Any) -> list[jax.Array]:
    """The scan in plain JAX."""
    operands, params = _by_flags(operands, params)
    return scan_plainly(*operands, **params)


def scan_on_cpu(*operands: jax.Array, **params: Any) -> list[jax.Array]:
    """The scan in plain JAX, by what is fastest there."""
    operands, params = _by_flags(operands, params)
    if is_apart(**params):
        moved = Moved(operands, params)
        return moved.on(scan_on_cpu(*operands, **moved.params))
    given = of_scan(operands, **params)
    del params["started"]
    n = extent.full_shape(operands)[params["axis"]]
    whole = extent.whole_along(params["axis"], joined(given.leaves, given.flags), n)
    return sequence.scan_on_cpu(*whole, **params, **_begins(given))


def _by_flags(
    operands: Sequence[Any], params: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The operands and parameters of the same scan by head flags."""
    form = bits.FORMS.get(params["kind"])
    if form is None:
        return tuple(operands), {**params}
    place, axis = params["combine"].num_leaves, params["axis"]
    n = extent.full_shape([_aval(x) for x in operands[:place]])[axis]
    flags = flags_of(form(operands[place]), axis=axis, n=n)
    return (*operands[:place], flags, *operands[place + 1 :]), {**params, "kind": "flags"}


def _aval(x: Any) -> Any:
    return x.aval if ad.is_undefined_primal(x) else x


def _bound_inclusively(*operands: jax.Array, **params: Any) -> list[jax.Array]:
    """A scan whose identity is apart, by one that can be divided."""
    operands, params = _by_flags(operands, params)
    moved = Moved(operands, params)
    return moved.on(scan_p.bind(*operands, **moved.params))


def _bound_by_flags(*operands: jax.Array, **params: Any) -> list[jax.Array]:
    """The scan by flags, which can be divided with the leaves."""
    operands, params = _by_flags(operands, params)
    results: list[jax.Array] = scan_p.bind(*operands, **params)
    return results


def scan_divisible(*, combine: Combine, exclusive: bool, kind: str, **_: Any) -> base.Form | None:
    """A form that can be divided instead of words or bounds, or of an identity apart."""
    if is_apart(combine=combine, exclusive=exclusive):
        return _bound_inclusively
    return None if kind == "flags" else _bound_by_flags


def scan_tangents(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[jax.Array], list[Tangent]]:
    """Results and tangents; recurrences, and what asks whether a start is dropped, read flags."""
    reads = is_apart(**params) or params["started"] or not params["combine"].is_sum
    if params["kind"] != "flags" and reads:
        place = params["combine"].num_leaves
        primals, params = _by_flags(primals, params)
        tangents = [*tangents[:place], zero_of(primals[place]), *tangents[place + 1 :]]
    if is_apart(**params):
        moved = Moved(primals, params)
        results, slopes = scan_jvp(primals, tangents, **moved.params)
        return moved.on(results), moved.tangents_on(slopes, results)
    return scan_jvp(primals, tangents, **params)


def scan_transpose(
    cotangents: Sequence[Tangent], *operands: Any, combine: Combine, **params: Any
) -> list[Any]:
    """The sum from the other end for a sum, and the transpose of its tangents for another scan."""
    params["combine"] = combine
    if is_apart(**params):
        operands, params = _by_flags(operands, params)
        moved = Moved(operands, params)
        return scan_transpose([moved.back(x) for x in cotangents], *operands, **moved.params)
    if params["started"]:
        operands, params = _by_flags(operands, params)
    moving = transposition.undefined(operands)
    shift = combine.num_leaves + params["segmented"]
    # A scan is linear in the start of a leaf where it is so in the leaf.
    moving = tuple(sorted({i - shift if i >= shift else i for i in moving}))
    wanted = tuple(i for i, is_used in enumerate(params["used"]) if is_used)
    if compensation.adds_pairs(combine) and moving == wanted == (0,):
        return _transposed_pairs(cotangents, *operands, **params)
    transposition.check_linear("scan", combine, moving, wanted, identity=params["exclusive"])
    if combine.is_sum:
        return _transposed_sum(cotangents, *operands, **params)
    operands, params = _by_flags(operands, params)
    return transposition.by_tangents(scan_plainly, scan_jvp, cotangents, operands, **params)


def _transposed_pairs(
    cotangents: Sequence[Tangent], *operands: Any, combine: Combine, **params: Any
) -> list[Any]:
    """The cotangents of what is summed, as of a plain sum, and none of what is lost."""
    given = of_scan(operands, combine=combine, **params)
    start = [given.start[0], *given.start[2:]] if given.start else []
    params |= {"combine": recurrence.sum_of(combine.dtypes[0]), "used": (True,)}
    back = _transposed_sum(cotangents, *joined(given.leaves[:1], given.flags), *start, **params)
    for lost in (1, 3 + params["segmented"]) if given.start else (1,):
        back.insert(lost, None)
    return back


def _transposed_sum(
    cotangents: Sequence[Tangent],
    *operands: Any,
    combine: Combine,
    reverse: bool,
    segmented: bool,
    used: tuple[bool, ...],
    started: bool,
    **params: Any,
) -> list[Any]:
    """The sums of cotangents from the other end, which restart in each segment all the same."""
    leaves, flags, start = of_scan(operands, combine=combine, segmented=segmented, started=started)
    outputs = [i for i, is_used in enumerate(used) if is_used]
    given = {i: c for i, c in zip(outputs, cotangents, strict=True) if not isinstance(c, ad.Zero)}
    back: dict[int, jax.Array] = {}
    if given:
        part = combine if len(given) == combine.num_leaves else combine.restrict(list(given))
        summed = scan_p.bind(
            *joined([*given.values()], flags),
            combine=part,
            reverse=not reverse,
            segmented=segmented,
            used=(True,) * len(given),
            started=False,
            **params,
        )
        back = dict(zip(given, summed, strict=True))
    at_start: dict[int, jax.Array] = {}
    if start:
        how: dict[str, Any] = {"axis": params["axis"], "reverse": reverse}
        reaches = Start(()).reaches(flags, axis_name=params["axis_name"], **how)
        for i, x in back.items():
            total = first_of(x, **how)
            if params["exclusive"]:
                total = total + first_of(given[i], **how)
            none = jnp.zeros_like(total)
            at_start[i] = total if reaches is None else choose(reaches, total, none)

    def summed_back(operands: Sequence[Any], found: Mapping[int, jax.Array]) -> list[Any]:
        return [
            None
            if not ad.is_undefined_primal(x)
            else transposition.as_wide_as(summed_to(found[i], x.aval), x.aval)
            if i in found
            else ad.Zero(x.aval)
            for i, x in enumerate(operands)
        ]

    of_start = summed_back(start[: len(leaves)], at_start)
    rest = [None] * (len(start) - len(of_start))
    return [*summed_back(leaves, back), *[None] * segmented, *of_start, *rest]


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
    avals: list[Any] = [v.aval for v in eqn.invars]
    for i in flags:
        avals[i] = bits.beside(avals[i], eqn.params["kind"], eqn.params["axis"])
    begin = combine.num_leaves + len(flags)
    is_open = range(begin + combine.num_leaves, num_operands)

    def needed(leaves: Sequence[int]) -> set[int]:
        start = [begin + i for i in leaves] if eqn.params["started"] else []
        return {*leaves, *flags, *start, *is_open}

    if extent.full_shape([avals[i] for i in needed(kept)]) != extent.full_shape(avals):
        # The leaves kept are shared by a batch whose size only the dropped ones carry.
        kept = list(range(combine.num_leaves))
    kept_operands = needed(kept)
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


base.register(
    scan_p,
    name="scan",
    abstract_eval=scan_abstract_eval,
    plain=scan_without_kernels,
    across=scan_across,
    uneven=scan_uneven,
    in_kernels=scan_in_kernels,
    dimensions=partition.together,
    on_cpu=scan_on_cpu,
    divisible=scan_divisible,
    jvp=scan_tangents,
    transpose=scan_transpose,
    dce=scan_dce,
)
