"""Results as Markdown: a table for each suite, all of them on one page, and a few rows of some."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from benchmarks.reporting import accuracy_table, curves, devices_table, markdown
from benchmarks.reporting.curves import Curve, Place, Result, Results
from benchmarks.reporting.markdown import fill
from benchmarks.reporting.plots import SHORT

Case = dict[str, Any]


def page(results: Results, drawn: Collection[str]) -> str:
    """Everything that was measured, suite by suite, with the figures of those in ``drawn``."""
    parts = [
        "# All figures",
        "Written by `python -m benchmarks pages` from the JSON beside this page, which has what "
        "is left out here: spread, kernels, and errors of the answers. A share is that of copy "
        "speed, at the bytes that any implementation has to move; copy speed is `x + 1` on 2^28 "
        "32-bit words in the same process. Libraries outside JAX are timed by CUDA events, which "
        "see more than the GPU's work: nothing outside takes less than 6 µs. `InclusiveSumByKey` "
        "moves 12 bytes an element, keys of 4 bytes among them, where its share is of the 9 that "
        "jscan's heads need; `torch.cummax` and `cummin` write indices too.",
    ]
    for suite, (heading, about, table) in SUITES.items():
        parts.append(f"## {heading}")
        result = results.get(suite)
        if result is None:
            parts.append(f"Not measured yet; `python -m benchmarks {suite}` does it.")
            continue
        parts.append(f"{about} {measured_on(result)}")
        if suite in drawn:
            parts.append(f"![{heading}](plots/{suite}.svg)")
        parts += table(result)
        parts += why_not(result)
    return "\n\n".join(fill(part) for part in parts) + "\n"


OTHERS = (
    ("torch", "torch", "PyTorch"),
    ("cupy", "cupy", "CuPy"),
    ("cub", "nvcc", "CUB of CUDA"),
    ("cuda.compute", "cuda.compute", "cuda.compute"),
)
"""Libraries outside JAX: how their peers' names begin, where their versions are, their names."""


def measured_on(result: Result) -> str:
    """The machine, and what copy speed was on it."""
    environment = result["environment"]
    text = (
        f"{environment.get('devices', 'One')} {environment['device']}, "
        f"driver {environment['driver']}, "
        f"jax {environment['jax']}, {environment['date'][:10]}."
    )
    peers = {name for case in result.get("cases", ()) for name in case["peers"]}
    peers |= {entry["subject"] for entry in result.get("errors", ()) if "max_eps" in entry}
    others = [
        f"{title} {environment[key]}"
        for start, key, title in OTHERS
        if environment.get(key) and any(name.startswith(f"{start}.") for name in peers)
    ]
    if others:
        text = f"{text} Beside it {', '.join(others)}."
    copy = result.get("copy")
    return f"{text} Copy speed was {copy['bytes_per_second'] / 1e12:.2f} TB/s." if copy else text


def core(cases: Iterable[Case]) -> str:
    """Scans: small ones by their times, the others by their shares."""

    def figure(entry: dict[str, Any], case: Case) -> str:
        if "median_us" not in entry:
            return "–"
        if case["median_us"] < SHORT or "share" not in entry:
            return f"{entry['median_us']:.1f} µs"
        return f"{entry['share']:.2f}"

    lines = [
        (
            case["name"],
            f"{case['median_us']:.1f}",
            figure(case, case),
            ", ".join(f"`{name}` {figure(peer, case)}" for name, peer in case["peers"].items()),
        )
        for case in cases
    ]
    return markdown.table(["case", "µs", "jscan", "others"], lines)


def _beside_others(case: Case) -> tuple[str, str, str, str]:
    peers = ", ".join(
        f"`{name}` {peer['median_us'] / case['median_us']:.2f} ×"
        if "median_us" in peer
        else f"`{name}` –"
        for name, peer in case["peers"].items()
    )
    return case["name"], f"{case['median_us']:.1f}", f"{case['share']:.2f}", peers


def beside_others(cases: Iterable[Case]) -> str:
    """Times and shares, and how many times as long others take."""
    return markdown.table(["case", "µs", "share", "others"], map(_beside_others, cases))


def with_temporaries(cases: Iterable[Case]) -> str:
    """The same, and what programs allocate in multiples of their largest operand."""

    def multiple(entry: dict[str, Any]) -> str:
        number = entry.get("temporaries")
        return "–" if number is None else f"{number:.1f}"

    lines = [
        (
            *_beside_others(case),
            multiple(case),
            ", ".join(multiple(peer) for peer in case["peers"].values() if "median_us" in peer),
        )
        for case in cases
    ]
    return markdown.table(["case", "µs", "share", "others", "temporaries", "of others"], lines)


def evenness(result: Result) -> str:
    """How little the shape of segments matters to a reduction of one length."""
    aims = [aim for case in result["cases"] for aim in (case, *case["also"])]
    by_time, by_share = (
        [aim["score"] for aim in aims if aim["unit"] == unit] for unit in ("ratio", "share ratio")
    )
    return (
        f"The slowest shape of segments against the fastest, of the {len(by_time)} on 2^27 "
        f"elements: {min(by_time):.2f} by time and {min(by_share):.2f} by share."
    )


def timed(result: Result) -> list[Case]:
    """The cases that were timed."""
    return [case for case in result["cases"] if "median_us" in case]


def of_cases(table: Callable[[Iterable[Case]], str]) -> Callable[[Result], list[str]]:
    """The table of all cases of a result."""
    return lambda result: [table(timed(result))]


def of_curves(result: Result) -> list[str]:
    """A table for each panel: lines are places, columns are curves."""
    found = [
        markdown.pivot(group, [curve.name for curve in panel], dict(_lines(panel)))
        for group, panel in curves.panels(result).items()
    ]
    return found or [beside_others(timed(result))]


def of_clusters(result: Result) -> list[str]:
    """One table of panels that have few places."""
    panels = curves.panels(result)
    names = list(dict.fromkeys(curve.name for found in panels.values() for curve in found))
    lines = {
        group if len(curves.places(panel)) == 1 else f"{group}, {label}": cells
        for group, panel in panels.items()
        for label, cells in _lines(panel)
    }
    return [markdown.pivot("segments", names, lines) if panels else beside_others(timed(result))]


def _lines(panel: Iterable[Curve]) -> Iterator[tuple[str, dict[str, str]]]:
    """The places of a panel by their labels, and the cells of its curves there."""
    where = curves.places(panel)
    for at, label in zip(where, curves.labels(where), strict=True):
        yield label, {curve.name: _cell(curve, at) for curve in panel}


def _cell(curve: Curve, at: Place) -> str:
    point = curve.point(at)
    if point is None:
        return "–"
    share = f" ({point.share:.2f})" if point.share and point.share >= 0.005 else ""
    return f"{point.microseconds:.1f}{share}"


def of_overhead(result: Result) -> list[str]:
    """Milliseconds beside lax, and the size of programs if there is one."""
    form = curves.milliseconds
    lines = [
        (e["name"], form(e["jscan"]["median_ms"]), form(e["lax"]["median_ms"]), f"{e['ratio']:.2f}")
        for e in result.get(result["suite"], ())
    ]
    found = [markdown.table(["operation", "jscan, ms", "`jax.lax`, ms", "ratio"], lines)]
    counts = ("cuda_triton_calls", "cuda_text_bytes", "compiled_instructions")
    sizes = [
        (
            f"{entry['name']}, {curves.labels([2**17, entry['n']])[1]}",
            *(str(entry[count]) for count in (*counts, "compiled_instructions_lax")),
        )
        for entry in result.get("sizes", ())
        if "compiled_instructions" in entry
    ]
    if sizes:
        columns = ["program", "kernels", "bytes of StableHLO", "HLO instructions", "of `jax.lax`"]
        found.append(markdown.table(columns, sizes))
    return found


def of_calls(result: Result) -> list[str]:
    """Milliseconds beside a jitted function, and what calls after the first compile."""
    form = curves.milliseconds
    lines = [
        (
            e["name"],
            *(form(e[who]["median_ms"]) for who in ("jscan", "lax")),
            f"{e['ratio']:.2f}",
            str(e["compiled"]),
        )
        for e in result["overhead"]
    ]
    return [markdown.table(["call", "jscan, ms", "jitted, ms", "ratio", "compiled"], lines)]


def why_not(result: Result) -> list[str]:
    """Why peers were not timed, said once for each of them and each reason."""
    reasons: dict[str, None] = {}
    for case in result.get("cases", ()):
        for name, peer in case["peers"].items():
            if "why_not" in peer:
                reason = re.sub(r"/\S*/", "", peer["why_not"].splitlines()[0])  # no one's folders
                reasons[f"`{name}` ({reason})"] = None
    return [f"Not timed: {', '.join(reasons)}."] if reasons else []


_PLACES = "GPU time in microseconds, and in brackets the share, by"
_OTHERS = "GPU time, the share, and how many times as long others take."
_BARS = "Bars show jscan's share and markers others'; at the edge the speedup over the fastest."

SUITES: dict[str, tuple[str, str, Callable[[Result], list[str]]]] = {
    "core": (
        "Scans",
        f"GPU time; small scans in microseconds, the others as a share. {_BARS}",
        of_cases(core),
    ),
    "strategies": ("Strategies", f"{_PLACES} the number of elements.", of_curves),
    "repeatable": ("Groups that are fixed", f"{_PLACES} the number of elements.", of_curves),
    "tiles": ("Tiles", f"{_PLACES} the length of a tile or of a window.", of_curves),
    "skew": ("Lengths of segments", f"{_PLACES} the length of segments.", of_curves),
    "rows": ("Lengths of rows", f"{_PLACES} the length of rows.", of_curves),
    "scaling": ("Programs", f"{_PLACES} the number of programs.", of_curves),
    "reductions": ("Ways to reduce", f"{_PLACES} the shape of the segments.", of_clusters),
    "dtypes": ("Dtypes", f"{_OTHERS} {_BARS}", of_cases(beside_others)),
    "operators": ("Operators", f"{_OTHERS} {_BARS}", of_cases(beside_others)),
    "segments": (
        "Reductions by segments, conversions, pack and split",
        f"{_OTHERS} {_BARS}",
        of_cases(beside_others),
    ),
    "bits": ("Head flags of a bit each", f"{_OTHERS} {_BARS}", of_cases(beside_others)),
    "functions": (
        "Functions that are built of scans",
        f"{_OTHERS} {_BARS} What a CPU takes is on `docs/then_and_now.md`.",
        of_cases(beside_others),
    ),
    "derivatives": (
        "Recurrences and gradients",
        "GPU time of one call, the share, how many times as long others take, and what programs "
        f"allocate beside operands and results, in multiples of one operand. {_BARS}",
        of_cases(with_temporaries),
    ),
    "states": (
        "Complex recurrences and small matrices",
        "GPU time of one call, the share, how many times as long others take, and what programs "
        f"allocate beside operands and results, in multiples of one operand. {_BARS}",
        of_cases(with_temporaries),
    ),
    "accuracy": (
        "Rounding",
        "The largest error of inclusive sums by their length: of float32 in eps of the sum of "
        "sizes, of halves in spacings at the exact sum.",
        accuracy_table.whole,
    ),
    "devices": (
        "Several devices",
        "Scans of sharded arrays by the wall clock: calls queued one behind the other, until all "
        "devices are done. The share is of what the bytes that each device has to move take at "
        "copy speed, and a gather of one number a device where totals move; a derivative of rows "
        "moves each element four times. Beside it the time of one device for such a part, as a "
        "share, which of `one axis` is the speedup; and the collectives of the program, with the "
        "elements of the largest.",
        devices_table.whole,
    ),
    "latency": ("Calls", "The time of one call by the wall clock.", of_overhead),
    "overhead": (
        "Calls outside of `jit`",
        "The time of one call of 1000 elements by the wall clock, beside that of a jitted function "
        "that computes the same, and how many programs the calls after the first compile. Each "
        "call is one of the same kind, but for what is new in it.",
        of_calls,
    ),
    "compile": ("Compiling", "The time to trace, lower and compile.", of_overhead),
}
"""In the order of the page: a suite's heading, what its figures are, and its tables."""
