"""What pages, tables and plots make of results that are made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks.reporting import accuracy_table, curves, orderings, pages, plots, replaced, tables
from tests.docs.test_examples import ROOT

ENVIRONMENT = {
    "device": "NVIDIA H200",
    "driver": "1.2",
    "jax": "0.11.2",
    "nvcc": "13.1",
    "torch": "2.11",
    "date": "2026-01-02T03:04:05+00:00",
}
STRATEGIES = ("auto", "lookback", "chained", "reduce_then_scan")


def case(line, group, at, us, peers=None):
    """A case of 8000 bytes, which a copy of `result` moves in a microsecond."""
    return {
        "name": f"{group}, {line}, {at}",
        "bytes": 8000,
        "line": line,
        "group": group,
        "at": at,
        "unit": "share",
        "also": [],
        **timed(us),
        "peers": peers or {},
    }


def timed(us):
    return {"median_us": us, "min_us": us, "max_us": us, "share": 1 / us}


def result(suite, cases):
    copy = {"bytes": 2**31, "bytes_per_second": 8_000_000_000}
    return {"suite": suite, "environment": ENVIRONMENT, "copy": copy, "cases": cases}


def over(lines, group, places):
    """Every line in a group, each ten microseconds slower than the one before it."""
    peers = {"lax.cumsum": timed(90.0), "cub.InclusiveSum": {"why_not": "not installed"}}
    return [
        case(line, group, at, 20.0 + 10 * number, peers if line == "auto" else None)
        for at in places
        for number, line in enumerate(lines)
    ]


def overhead(suite):
    times = {"jscan": {"median_ms": 0.25}, "lax": {"median_ms": 1500.0}}
    entry = {"name": "sum", **times, "ratio": 0.1}
    return {"suite": suite, "environment": ENVIRONMENT, suite: [entry]}


def rounding():
    """Errors of two subjects on two inputs."""
    found = []
    for dtype, worst in (("float32", 0.25), ("float16", 0.5)):
        for name, n in (("all 0.1", 2**10), ("all 0.1", 2**20), ("descending", 2**20)):
            entry = {"dtype": dtype, "input": name, "n": n, "not_finite": 0, "mean_eps": 0.125}
            back = {"steps_back": 2, "step_back_ulps": 1.0} if name == "all 0.1" else {}
            for subject, times in (("lookback", 1), ("float32 loop", 1000)):
                size = {"max_eps": worst * times, "max_ulps": worst * times, "bound_eps": 2e3}
                found.append(entry | back | size | {"subject": subject})
    found[-1]["not_finite"] = 1
    failed = {"dtype": "float32", "input": "all 0.1", "n": 2**20, "subject": "xla", "why_not": "no"}
    return {
        "suite": "accuracy",
        "environment": ENVIRONMENT,
        "inputs": {"all 0.1": {"rises": True}, "descending": {"rises": False}},
        "depths": [{"subject": "lookback", "n": 2**20, "bound": 4000, "counted": 300}],
        "errors": [*found, failed],
    }


def several_devices():
    """Rows by jscan and by lax, and a case that failed."""
    found = [
        {
            "name": f"rows, cumsum, {who}, {way}, {count}",
            "what": "rows, cumsum",
            "who": who,
            "way": way,
            "devices": count,
            "bytes": 8000,
            "seconds": 2e-6,
            "share": 0.5,
            "collectives": [{"name": "all-gather", "count": 1, "elements": 2}][count == 1 :],
        }
        for who in ("jscan", "lax.cumsum")
        for way, count in (("one device", 1), ("Auto", 2))
    ]
    failed = {"name": "axis, cumsum", "what": "axis, cumsum", "why_not": "no memory"}
    environment = ENVIRONMENT | {"devices": 2}
    content = {"environment": environment, "measured": [*found, failed], "left_out": ["gather"]}
    return {"suite": "devices", **content}


def made_up():
    """A small result for every suite."""
    sizes = (2**10, 2**20, 2**27)
    cases = {
        "core": over(["auto"], "sum", sizes),
        "segments": over(["auto"], "sum", sizes),
        "bits": over(["auto"], "sum", sizes),
        "functions": over(["auto"], "nonzero", sizes),
        "derivatives": over(["auto"], "gradient", sizes),
        "states": over(["auto"], "products", sizes),
        "strategies": over(STRATEGIES, "sum", sizes) + over(STRATEGIES, "affine", sizes[1:]),
        "repeatable": over(["lookback", "repeatable"], "sum", sizes),
        "tiles": over(["lookback", "chained"], "sum", (512, 1024))
        + over(["tiles of 2048"], "window", (1, 8, 32))
        + over(["operator transformation", "conditional indexing"], "heads", (512, 1024)),
        "skew": over(STRATEGIES, "even", (1, 100, 10**6))
        + over(STRATEGIES, "skewed", ("Zipf's law", "half")),
        "rows": over(["auto"], "last axis", sizes),
        "dtypes": over(["auto"], "dtypes", ("int8", "float32")),
        "operators": over(["auto"], "operators", ("add", "max")),
        "reductions": over(["auto", "tree", "matrix"], "one segment", (2**27,))
        + over(["auto", "tree", "matrix"], "segments of 3", (2**20, 2**27)),
        "scaling": over(["reduce_then_scan"], "parts", (33, 132, 528)),
    }
    results = {suite: result(suite, found) for suite, found in cases.items()}
    aims = [{"unit": "share ratio", "score": 0.9}]
    results["segments"]["cases"][0] |= {"unit": "ratio", "score": 0.8, "also": aims}
    results |= {suite: overhead(suite) for suite in ("latency", "compile", "overhead")}
    results["overhead"]["overhead"] = [e | {"compiled": 0} for e in results["overhead"]["overhead"]]
    return results | {"accuracy": rounding(), "devices": several_devices()}


@pytest.fixture
def results(tmp_path):
    """The folder of made-up results."""
    for suite, content in made_up().items():
        curves.path(tmp_path, suite).write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


DRAW = """
import pathlib, sys
from benchmarks.reporting import curves, plots
folder = pathlib.Path(sys.argv[1])
plots.write_all(folder, curves.load_all(folder))
"""


def test_every_suite_has_a_plot_that_is_the_same_when_drawn_again(results):
    assert plots.write_all(results, curves.load_all(results)) == list(plots.FIGURES)
    pictures = {file: file.read_bytes() for file in (results / "plots").iterdir()}
    assert len(pictures) == len(plots.FIGURES)
    for picture in pictures.values():
        assert b"<svg" in picture
        assert b"<dc:date>" not in picture
        assert b"<text" not in picture  # letters are shapes, whatever fonts a reader has
    for file in pictures:
        file.unlink()
    # Another process orders sets in another way.
    again = [sys.executable, "-W", "error", "-c", DRAW, str(results)]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    subprocess.run(again, check=True, env=environment, timeout=600)
    assert {file: file.read_bytes() for file in (results / "plots").iterdir()} == pictures


def test_a_plot_without_a_result_is_removed(results):
    outdated = results / "plots" / "core.svg"
    outdated.parent.mkdir()
    outdated.write_text("", encoding="utf-8")
    assert plots.write_all(results, {}) == []
    assert not outdated.exists()


def drawn(suite, cases):
    """The axes of a figure."""
    figure = plots.draw(result(suite, cases))
    assert figure is not None
    return figure.axes


def lines_of(axes):
    return {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}


def test_strategies_are_drawn_as_elements_per_second_and_as_shares():
    cases = [case("lookback", "sum", at, us) for at, us in ((1000, 5.0), (2000, 8.0))]
    rates, shares = (lines_of(axes)["lookback"] for axes in drawn("strategies", cases))
    assert rates == [[1000, 0.2], [2000, 0.25]]
    assert shares == [[1000, 1 / 5], [2000, 1 / 8]]


def test_bars_are_shares_and_markers_those_of_the_fastest_of_a_kind():
    peers = {"lax.cumsum": timed(50.0), "lax.cummax": timed(40.0), "scatter": {"why_not": "no"}}
    short = case("auto", "sum", 1, plots.SHORT / 2)
    (axes,) = drawn("core", [short, case("auto", "sum", 2, 20.0, peers)])
    assert [bar.get_width() for bar in axes.patches] == [1 / 20]
    assert lines_of(axes)["lax.cumsum, ..."] == [[1 / 40, 0]]
    assert "0.05   2.0 ×" in {text.get_text() for text in axes.texts}


def test_layouts_over_devices_begin_with_one_device():
    figure = plots.draw(several_devices())
    assert figure is not None
    (axes,) = figure.axes
    assert lines_of(axes) == {name: [[1, 0.5], [2, 0.5]] for name in ("Auto", "lax.cumsum")}


def test_programs_are_counted_in_multiprocessors():
    cases = [case("lookback", "sum", at, 4.0) for at in (66, 132, 264)]
    (axes,) = drawn("scaling", cases)
    assert lines_of(axes)["lookback"] == [[66, 0.002], [132, 0.002], [264, 0.002]]
    (above,) = axes.child_axes
    assert [label.get_text() for label in above.get_xticklabels()] == ["0.5", "1", "2"]


@pytest.mark.parametrize("missing", ["line", "group", "at"])
def test_results_that_say_not_where_cases_are_have_no_plot(missing):
    old = result("strategies", over(STRATEGIES, "sum", (2**10, 2**20)))
    for entry in old["cases"]:
        del entry[missing]
    assert plots.draw(old) is None
    assert pages.figures_of_strategies({"strategies": old}) is None
    assert orderings.table({"strategies": old}) is None
    assert "| sum, auto, 1024 | 20.0 |" in tables.page({"strategies": old}, [])


def test_what_has_not_been_measured_stays_as_it_is():
    for page in pages.PAGES:
        text = page.read_text(encoding="utf-8")
        assert pages.rewritten(page, text, {}) == (text, pages.marks(text))
    assert tables.page({}, []).count("Not measured yet") == len(tables.SUITES)


def test_pages_of_made_up_results(results):
    measured = curves.load_all(results)
    page = tables.page(measured, measured)
    assert "Not measured yet" not in page
    assert "Not timed: `cub.InclusiveSum` (not installed)." in page
    about = "One NVIDIA H200, driver 1.2, jax 0.11.2, 2026-01-02."
    assert tables.measured_on(measured["latency"]) == about
    scans = f"{about} Beside it CUB of CUDA 13.1. Copy speed was 0.01 TB/s."
    assert tables.measured_on(measured["core"]) == scans
    assert "| sum | `auto` | `lookback` | `chained` | `reduce_then_scan` | `lax.cumsum` |" in page
    assert "| 2^27 | 20.0 (0.05) | 30.0 (0.03) | 40.0 (0.03) | 50.0 (0.02) | 90.0 (0.01) |" in page
    assert "| segments of 3, 2^20 | 20.0 (0.05) | 30.0 (0.03) | 40.0 (0.03) | 90.0 (0.01) |" in page
    assert "| sum | 0.250 | 1500 | 0.10 |" in page
    assert "| `jscan` | `Auto` | 2 | 2.0 | 0.50 | – | `all-gather` of 2 |" in page
    assert "Not timed: axis, cumsum (no memory)." in page
    assert "Left out: gather." in page
    assert replaced.table(measured) is not None
    text = "".join(f"<!-- {mark} -->\n<!-- /{mark} -->\n" for mark in pages.MARKS)
    text, kept = pages.rewritten(pages.TABLES.parents[2] / "docs" / "page.md", text, measured)
    assert kept == []
    for suite in ("strategies", "skew", "accuracy"):
        assert f"](../benchmarks/results/plots/{suite}.svg)" in text
    assert "of the 1 on 2^27 elements: 0.80 by time and 0.90 by share." in text
    assert "| float32, 2^20 | `lookback` | float32 loop |" in text


def test_errors_of_made_up_results():
    measured = rounding()
    assert accuracy_table.whole(measured)[2].splitlines()[2:] == [
        "| 2^10 | 0.5 | 500 |",
        "| 2^20 | 0.5 | 500 |",
    ]
    assert accuracy_table.by_input(measured).splitlines()[2:] == [
        "| all 0.1 | 0.25 | 250 |",
        "| descending | 0.25 | 250 |",
    ]
    assert accuracy_table.by_strategy(measured).splitlines()[2:] == [
        "| `lookback` | 4000 | 300 | 2000 | 0.25 (all 0.1) | 0.12 |",
        "| float32 loop | 1048575 | – | 524288 | 250 (all 0.1) | 0.12 |",
    ]
    assert accuracy_table.of_halves(measured).splitlines()[2:] == [
        "| `lookback` | 0.5 |",
        "| float32 loop | 500 |",
    ]
    steps = f"{1e6 * 4 / (2**10 + 2**20):.3g} in a million, by up to 1"
    assert accuracy_table.steps_back(measured).splitlines()[2:] == [
        f"| `lookback` | {steps} | {steps} |",
        f"| float32 loop | {steps} | {steps} |",
    ]
    assert "| 2^20 | 0.5 | overflows |" in accuracy_table.whole(measured)[3]


def test_errors_are_drawn_by_input_and_without_zeros():
    measured = rounding()
    measured["errors"][0]["max_eps"] = 0.0
    figure = plots.draw(measured)
    assert figure is not None
    assert lines_of(figure.axes[0]) == {"lookback": [], "float32 loop": []}
    assert lines_of(figure.axes[1]) == {
        "lookback": [[2**20, 0.25]],
        "float32 loop": [[2**10, 250], [2**20, 250]],
    }


def test_orderings_of_made_up_results(results):
    table = orderings.table(curves.load_all(results))
    assert table is not None
    assert table.splitlines()[2:] == [
        "| `lookback` against `chained` | sum | 512: 1.50 ×; 1024: 1.50 × |",
        "| `lookback` against `chained` | | sum, 2^27: 1.33 ×; affine, 2^27: 1.33 × |",
        "| `lookback` against `reduce_then_scan` | | sum, 2^27: 1.67 ×; affine, 2^27: 1.67 × |",
        "| operator transformation against conditional indexing | heads "
        "| 512: 1.50 ×; 1024: 1.50 × |",
        "| `tree` against `matrix` | segments of 3 | 2^20: 1.33 ×; 2^27: 1.33 × |",
        "| `tree` against `matrix` | | one segment: 1.33 × |",
        "| `reduce_then_scan`, as a share of copy speed | | sum, 2^27: 0.02; affine, 2^27: 0.02 |",
        '| `"auto"` against the best method, where it is least of 13 | affine, 2^20 '
        "| 1.50 × of `lookback` |",
    ]


def test_auto_is_compared_with_the_best_method_where_it_is_furthest_behind():
    cases = [
        *(case("auto", "sum", at, us) for at, us in ((1, 10.0), (2, 30.0), (3, 40.0))),
        *(case("xla", "sum", at, us) for at, us in ((1, 9.0), (2, 18.0))),
        *(case("lookback", "sum", at, us) for at, us in ((1, 12.0), (2, 15.0))),
    ]
    cases[0]["peers"] = {"lax.cumsum": timed(1.0)}
    assert list(orderings.automatic([curves.panels(result("strategies", cases))])) == [
        (
            '`"auto"` against the best method, where it is least of 2',
            "sum, 2",
            "0.50 × of `lookback`",
        )
    ]


def test_a_peer_counts_by_its_best_time_and_jscan_may_be_there_once():
    peers = [{"torch.cumsum": timed(us)} for us in (7.0, 5.0, 6.0)]
    cases = [
        case(line, "sum", 4, 9.0, timed_peers)
        for line, timed_peers in zip(STRATEGIES, peers, strict=False)
    ]
    (*own, peer) = curves.panels(result("strategies", cases))["sum"]
    assert [curve.name for curve in own] == ["auto", "lookback", "chained"]
    assert (peer.name, peer.is_peer) == ("torch.cumsum", True)
    assert [point.microseconds for point in peer.points] == [5.0]
    with pytest.raises(ValueError, match="sum, auto, 4: auto of sum is there twice"):
        curves.panels(result("strategies", [*cases, cases[0]]))


@pytest.mark.parametrize(
    ("places", "labels"),
    [
        ((512, 1024, 65536), ["512", "1024", "65536"]),
        ((512, 1024, 1000, 2**27), ["512", "2^10", "1000", "2^27"]),
        ((1, 32, 10**5, 10**6 + 1), ["1", "32", "10^5", "1000001"]),
        ((0.25, 3), ["0.25", "3"]),
        (("Zipf's law", 2), ["Zipf's law", "2"]),
    ],
)
def test_labels_of_places(places, labels):
    assert curves.labels(places) == labels
