"""The kinds of calls that are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from benchmarks.cases.walk import (
    compaction,
    products,
    reductions,
    scans,
    statistics,
    systems,
    vectors,
)
from benchmarks.cases.walk.calls import Drawn

FAMILIES: Mapping[str, tuple[int, Callable[[random.Random, int], Drawn]]] = {
    "cumulative": (30, scans.draw_cumulative),
    "operators": (9, scans.draw_operator),
    "lambdas": (15, scans.draw_lambda),
    "linear_recurrence": (10, scans.draw_recurrence),
    "tridiagonal_solve": (4, systems.draw_system),
    "by ids": (11, reductions.draw_by_ids),
    "products": (4, products.draw_product),
    "statistics": (8, statistics.draw_statistic),
    "plans": (4, reductions.draw_plan),
    "reduce": (11, reductions.draw_reduce),
    "pack": (4, vectors.draw_pack),
    "split": (3, vectors.draw_split),
    "split_and_segment": (1, vectors.draw_split_segments),
    "enumerate": (3, vectors.draw_enumerate),
    "distribute": (2, vectors.draw_distribute),
    "nonzero": (2, compaction.draw_nonzero),
    "histogram": (2, compaction.draw_histogram),
    "partition": (2, compaction.draw_partition),
    "run_length_encode": (2, compaction.draw_encode),
    "run_length_decode": (2, compaction.draw_decode),
    "unique_sorted": (2, compaction.draw_unique),
    "Segments": (3, vectors.draw_convert),
    "matrix_recurrence": (4, systems.draw_matrices),
    "init": (4, scans.draw_started),
    "precise": (3, scans.draw_precise),
    "blocks": (3, systems.draw_blocks),
}
"""How often a kind of call is drawn, and what draws it."""
