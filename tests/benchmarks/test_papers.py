"""What papers measured beside the same work here: the work, its arithmetic, the page."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.cases import counterparts, inputs, papers
from benchmarks.cases.papers import FIGURES, PRIMITIVES, PRODUCT, Figure
from benchmarks.measuring import cpu, machine
from benchmarks.measuring import papers as measuring
from benchmarks.reporting import then_and_now


def test_split_radix_sort_sorts_integers_of_either_sign():
    with jax.enable_x64(False):
        (keys,) = inputs.words(1000)
        np.testing.assert_array_equal(papers.radix_sort(keys), jnp.sort(keys))


def test_water_keeps_its_volume_and_flows_as_eliminated_systems_do():
    surface, bed = papers.WATER.build(False)
    moved = jax.jit(papers.WATER.jscan)(surface, bed)
    other = jax.jit(papers.water, static_argnums=0)(counterparts.eliminated, surface, bed)
    np.testing.assert_allclose(moved, other, atol=2e-5)
    assert float(jnp.max(jnp.abs(moved - surface))) > 0.05
    volumes = (float(jnp.sum(z - bed)) for z in (moved, surface))
    assert next(volumes) == pytest.approx(next(volumes), rel=1e-5)


@pytest.mark.parametrize(
    ("unit", "value", "of", "now", "better"),
    [
        ("ms", 4.0, None, 2.0, 2.0),
        ("MFLOP/s", 215.0, None, 294.276, 294.276 / 215),
        ("×", 10.0, 20.0, 10.0, 1.0),
        ("×", 1.5, "older", 3.0, 2.0),
        ("×", 1.5, "absent", None, None),
    ],
)
def test_figures_of_a_call_of_two_milliseconds(unit, value, of, now, better):
    figure = Figure(PRIMITIVES, PRODUCT, value, unit, of=of)
    found = figure.of_seconds(2e-3, {"older": 6e-3}, False)
    assert found == (now and pytest.approx(now))
    assert found is None or figure.times_better(found) == pytest.approx(better)


def test_work_is_measured_beside_its_figures(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    monkeypatch.setattr(papers, "SEGMENTED", 2**10)
    monkeypatch.setattr(cpu, "SECONDS", 0.0)
    path = tmp_path / "papers.json"
    assert main(["papers", "--only", "segmented sum", "--out", str(path)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    first, second = result["rows"]
    assert (first["then"], first["unit"], second["unit"]) == (2.61, "ms", "×")
    assert first["times_better"] == pytest.approx(2.61 / first["now"])
    assert second["now"] == pytest.approx(first["times_better"])
    assert first["others"].keys() == {"lax.associative_scan"}
    assert "2.61 ms" in capsys.readouterr().out


def test_what_needs_a_gpu_says_so_elsewhere(monkeypatch):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    found = [*measuring.measured([papers.CHAIN.name])]
    assert all(measuring.is_right(entry) for entry in found)
    (row,) = measuring.rows(found, on_gpu=False)
    assert row["now"] is None
    assert row["why_not"] == "needs a GPU"


def test_every_figure_says_where_it_was_read():
    assert all(figure.paper.source and figure.value > 0 for figure in FIGURES)


COMMITTED = then_and_now.load("papers"), then_and_now.load("functions")


def test_the_page_shows_the_committed_results():
    page = then_and_now.PAGE.read_text(encoding="utf-8")
    assert page == then_and_now.page(*COMMITTED), "run python -m benchmarks pages"


def test_a_gpu_has_its_own_table_as_soon_as_it_was_measured(tmp_path):
    (result,) = (found for device, found in COMMITTED[0].items() if device == "cpu")
    entry = {"now": 0.00512, "times_better": 509.8, "others": {}, "said": "", "unit": "ms"}
    environment = {**result["environment"], "device": "NVIDIA H200", "shared": False}
    gpu = {"environment": environment, "rows": [{**result["rows"][0], **entry}]}
    (tmp_path / "papers-nvidia-h200.json").write_text(json.dumps(gpu), encoding="utf-8")
    (tmp_path / "papers-cpu.json").write_text(json.dumps(result), encoding="utf-8")
    found = then_and_now.load("papers", tmp_path)
    assert [*found] == ["cpu", "NVIDIA H200"]
    page = then_and_now.page(found, {})
    assert "## On one NVIDIA H200" in page
    assert "| 0.00512 ms | 510 × |" in page
    assert "## On a GPU" not in page


def test_products_on_a_gpu_are_compared_by_how_much_their_speed_varies():
    shares = [(0.4, 0.1), (0.6, 0.9)]
    cases = [{"share": a, "peers": {"cub.ThreadPerRow": {"share": b}}} for a, b in shares]
    page = then_and_now.page({}, {"NVIDIA H200": {"cases": cases}})
    assert "varies by 20% of its mean" in " ".join(page.split())
    assert "a thread for each row by 80%" in " ".join(page.split())
