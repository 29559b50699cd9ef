"""Pages, tables and plots show the committed results."""

from __future__ import annotations

import pytest

from benchmarks.reporting import curves, pages, plots, replaced, tables

COMMITTED = curves.load_all(pages.RESULTS)


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_pages_show_the_committed_results(page):
    text = page.read_text(encoding="utf-8")
    assert pages.rewritten(page, text, COMMITTED)[0] == text, "run python -m benchmarks pages"


def test_every_figure_is_on_a_page():
    shown = [mark for page in pages.PAGES for mark in pages.marks(page.read_text(encoding="utf-8"))]
    assert set(shown) == set(pages.MARKS)


def test_page_of_tables_shows_the_committed_results():
    drawn = [suite for suite, result in COMMITTED.items() if plots.draw(result)]
    text = pages.TABLES.read_text(encoding="utf-8")
    assert tables.page(COMMITTED, drawn) == text, "run python -m benchmarks pages"


def test_committed_plots_are_of_the_committed_results():
    drawn = {suite for suite, result in COMMITTED.items() if plots.draw(result)}
    assert {file.stem for file in (pages.RESULTS / "plots").iterdir()} == drawn
    for suite in drawn:
        picture = (pages.RESULTS / "plots" / f"{suite}.svg").read_text(encoding="utf-8")
        source = plots.source(curves.path(pages.RESULTS, suite))
        assert source in picture, f"{suite}: run python -m benchmarks pages"


@pytest.mark.parametrize("suite", pages.TELLING)
def test_cases_shown_on_pages_were_measured(suite):
    measured = {case["name"]: case for case in tables.timed(COMMITTED[suite])}
    assert set(pages.TELLING[suite]) <= set(measured)
    for call in replaced.CALLS:
        if call.suite == suite:
            assert "median_us" in measured[call.case]["peers"][call.theirs], call


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_an_edited_figure_is_put_right(page):
    text = page.read_text(encoding="utf-8")
    for mark in pages.marks(text):
        edited = text.replace(f"<!-- {mark} -->\n", f"<!-- {mark} -->\n1.00 ")
        assert edited != text
        right = text if pages.MARKS[mark](COMMITTED) is not None else edited
        assert pages.rewritten(page, edited, COMMITTED)[0] == right
