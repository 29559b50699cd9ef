"""How much faster calls are than those that they replace: one table, good and bad together."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.reporting import markdown, tables
from benchmarks.reporting.curves import Results


class Replaced(NamedTuple):
    """A call of another, ours in its place, and the measured case of both."""

    theirs: str
    ours: str
    suite: str
    case: str


CALLS = (
    Replaced("lax.cumsum", "cumsum", "core", "inclusive sum, float32, 2^28"),
    Replaced("lax.cumsum", "cumsum", "core", "inclusive sum, float32, 2^12"),
    Replaced("lax.cumsum", "cumsum", "core", "inclusive sum, int8, 2^29"),
    Replaced("lax.cumlogsumexp", "cumlogsumexp", "core", "logaddexp, float32, 2^28"),
    Replaced("lax.associative_scan", "cumsum", "core", "segmented sum, uint8 heads, 1 %, 2^27"),
    Replaced(
        "lax.associative_scan", "associative_scan", "core", "Welford, three leaves, float32, 2^26"
    ),
    Replaced(
        *("lax.associative_scan", "linear_recurrence", "derivatives"),
        "linear_recurrence and gradient, float32, 2^24",
    ),
    Replaced("lax.cumprod", "cumprod", "derivatives", "cumprod and gradient, float32, 2^24"),
    Replaced(
        *("jax.ops.segment_sum", "segment_sum", "segments"),
        "segment_sum, sorted ids, float32, 2^27 into 2^20",
    ),
    Replaced(
        *("jax.ops.segment_sum", "segment_sum", "segments"),
        "segment_sum of (1048576, 64), sorted ids, float32, into 32768",
    ),
    Replaced("jnp.compress", "pack", "segments", "pack, 50%, float32, 2^26"),
    Replaced("jnp.argsort", "split", "segments", "split, 50%, float32, 2^26"),
    Replaced("jnp.sum", "reduce", "segments", "reduce, sum, float32, 2^28"),
)
"""What most programs would replace, by size and by kind, and where it gains nothing, too."""


def table(results: Results) -> str | None:
    """A line for each of `CALLS`; None unless all their suites have been measured."""
    if not {call.suite for call in CALLS} <= set(results):
        return None
    timed = {
        (suite, case["name"]): case
        for suite in {call.suite for call in CALLS}
        for case in tables.timed(results[suite])
    }
    lines = [
        (f"`{call.theirs}`", f"`jscan.{call.ours}`", *_figures(timed, call))
        for call in CALLS
        if (call.suite, call.case) in timed
    ]
    about = (
        "By GPU time of a call, and as a share of copy speed at the bytes that have to be moved. "
        f"{tables.measured_on(results['core'])}"
    )
    columns = ("in place of", "write", "times as fast", "of copy speed", "measured")
    return f"{markdown.table(columns, lines)}\n\n{markdown.fill(about)}"


def _figures(timed: dict[tuple[str, str], tables.Case], call: Replaced) -> tuple[str, str, str]:
    case = timed[call.suite, call.case]
    peer = case["peers"].get(call.theirs, {})
    times = f"{peer['median_us'] / case['median_us']:.1f}" if "median_us" in peer else "–"
    return times, f"{case['share']:.2f}", call.case
