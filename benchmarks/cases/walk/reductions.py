"""Reductions by chance: of an axis, of segments of it, by ids."""

from __future__ import annotations

import math
import random

from benchmarks.cases.case import Operation, call
from benchmarks.cases.walk import operations, shapes, values
from benchmarks.cases.walk.calls import (
    PERIODS,
    Division,
    Drawn,
    Operand,
    divided,
    dtype_of,
    leaf,
)
from benchmarks.cases.walk.operators import (
    ADD,
    AFFINE,
    LAMBDAS,
    LOGADDEXP,
    MAX,
    MIN,
    MUL,
    OR,
    Drawable,
)
from benchmarks.cases.walk.shapes import Shape

TRAILING = (1, 2, 3, 7, 16, 33, 64, 100, 128, 256, 500, 1024)
BY_IDS = {"segment_sum": ADD, "segment_prod": MUL, "segment_max": MAX, "segment_min": MIN}


def draw_by_ids(rng: random.Random, size: int) -> Drawn:
    """`jscan.segment_sum` and the like, by sorted ids or others."""
    (name,) = rng.choices(list(BY_IDS), [4, 1, 2, 1])
    operator = BY_IDS[name]
    dtype = dtype_of(rng, operator.dtypes)
    trailing = rng.choice([(), (), (rng.choice(TRAILING),), (rng.choice(TRAILING), 4)])
    n = max(size // math.prod(trailing), 1)
    shape = Shape("trailing dimensions" if trailing else "one row", (n, *trailing), 0)
    period = n if rng.random() < 0.05 else rng.choice([p for p in PERIODS if p <= n])
    is_sorted = rng.random() < 0.75
    count = values.count_of(period, n)
    make = call(values.ids, period) if is_sorted else call(values.unsorted_ids, count)
    ids = Operand((n,), rng.choice(["int32", "int32", "int32", "uint32"]), make, True)
    x = leaf(shape.extents, dtype, operator.values[0])
    how = {"indices_are_sorted": True} if is_sorted else {}
    run = call(operations.by_ids, name, count, **how)
    order = "sorted" if is_sorted else "unsorted"
    return Drawn(
        *(name, (f"into {count}", f"{order} {ids.dtype} ids"), shape, dtype, operator.name),
        *(order, run),
        leaves=(x,),
        others=(ids,),
        results=(Operand((count, *trailing), dtype),),
        slopes=operator.slopes,
        peers={f"jax.ops.{name}": call(operations.ops_by_ids, name, count, **how)},
        reference=call(run, method="xla"),
    )


def draw_plan(rng: random.Random, size: int) -> Drawn:
    """`jscan.SegmentPlan`, by which is reduced or gathered, as an operand of the program."""
    name = rng.choice([*BY_IDS, "gather", "gather"])
    operator = BY_IDS.get(name, ADD)
    dtype = dtype_of(rng, operator.dtypes)
    trailing = rng.choice([(), (rng.choice(TRAILING),), (rng.choice(TRAILING),)])
    n = max(size // math.prod(trailing), 1)
    count = values.count_of(rng.choice([p for p in PERIODS if p <= n]), n)
    parts = ids, order, in_order = tuple(
        Operand((n,), "int32", call(values.part_of_plan, part, count), True) for part in range(3)
    )
    each, every = Operand((n, *trailing), dtype), Operand((count, *trailing), dtype)
    if name == "gather":
        x, result, first, second = every, each, [ids], [order, in_order]
        run = call(operations.gathered, count)
        peer, reference = {"indexing": call(operations.jnp_gathered)}, None
    else:
        x, result, first, second = each, every, [order, in_order], [ids]
        run = call(operations.by_plan, name, count)
        peer = {f"jax.ops.{name}": call(operations.ops_by_plan, name, count)}
        reference = call(run, method="xla")
    shape = Shape("trailing dimensions" if trailing else "one row", each.shape, 0)
    x = leaf(x.shape, dtype, operator.values[0])
    return Drawn(
        *("SegmentPlan", (name, f"{count} segments"), shape, dtype, operator.name, "by a plan"),
        run=run,
        leaves=(x,),
        others=parts,
        results=(result,),
        slopes=operator.slopes,
        peers=peer,
        reference=reference or peer["indexing"],
        moved=(x, result, *first),
        again=tuple(second),
    )


JNP_REDUCES = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def draw_reduce(rng: random.Random, size: int) -> Drawn:
    """A reduction of an axis, or of segments of it."""
    operator = rng.choice((ADD, MUL, MAX, MIN, LOGADDEXP, AFFINE, OR, *rng.sample(LAMBDAS, 7)))
    dtype, shape = dtype_of(rng, operator.dtypes), shapes.drawn(rng, size)
    division = divided(rng, shape) if rng.random() < 0.6 else Division()
    return reduction(operator, dtype, shape, division)


def reduction(operator: Drawable, dtype: str, shape: Shape, division: Division) -> Drawn:
    """A reduction with the operator, of an axis or of what it is divided into."""
    extents, axis = shape.extents, shape.axis
    dtypes = operator.leaf_dtypes(dtype)
    leaves = tuple(
        leaf(extents, own, kind) for own, kind in zip(dtypes, operator.values, strict=True)
    )
    neutral = operator.neutral(dtype)
    form, count = division.form, division.count if division.form else None
    how = {} if neutral is None else {"identity": neutral}
    told = operator.combine, len(leaves), form, count
    run = call(operations.reduced, *told, axis=axis, **how)
    kept = [] if count is None else [count]
    left = (*extents[:axis], *kept, *extents[axis + 1 :])
    peers: dict[str, Operation] = {}
    if operator.name in JNP_REDUCES:
        name = JNP_REDUCES[operator.name]
        if not form:
            peers[f"jnp.{name}"] = call(operations.jnp_reduced, name, axis)
        elif len(division.operands[0].shape) == 1:
            peers[f"jax.ops.segment_{name}"] = call(
                operations.ops_reduced, f"segment_{name}", form, count, axis
            )
    elif operator.identity is not None and not form:
        peers["lax.reduce"] = call(
            operations.lax_reduced, operator.combine, operator.identity(dtype), len(leaves), axis
        )
    words = (operator.name, *filter(None, [division.word]))
    return Drawn(
        *("reduce", words, shape, dtype, operator.name),
        *("segmented" if form else "whole", run),
        leaves=leaves,
        others=division.operands,
        results=tuple(Operand(left, own) for own in dtypes),
        slopes=operator.slopes,
        peers=peers,
        reference=call(run, method="xla"),
    )
