"""The page that plays the protocol, in a browser: by keys, at two widths, without an error."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.browser import PATH, Browser
from tests.protocol import traces

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "protocol" / "index.html"
WIDTHS = [1100, 375]
PICTURE = "document.getElementById('now').outerHTML + document.getElementById('course').outerHTML"
pytestmark = pytest.mark.skipif(not PATH, reason="needs chromium, which is not here")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def played() -> dict[str, dict[str, Any]]:
    """The traces by their names."""
    return {one["name"]: one for one in traces.traces()}


def words(browser: Browser) -> list[list[str]]:
    """The words that are drawn: tile, piece, tag, value."""
    drawn = "[...document.querySelectorAll('#now g.word')].map(g => g.dataset)"
    each = f"{drawn}.map(d => [d.tile, d.piece, d.tag, d.value])"
    found: list[list[str]] = browser.tell(each)
    return found


def count(browser: Browser) -> str:
    """How many steps have been taken, of how many."""
    shown: str = browser.tell("document.getElementById('count').textContent")
    return shown


@pytest.mark.parametrize("width", WIDTHS)
def test_keys_play_to_the_end_and_step_back_to_the_same_pictures(browser, played, width):
    browser.complaints.clear()
    browser.open(PAGE, "#two-words", width)
    length = len(played["two-words"]["turns"])
    pictures = [browser.tell(PICTURE)]
    for _ in range(length):
        browser.press("ArrowRight")
        pictures.append(browser.tell(PICTURE))
    assert count(browser) == f"{length} / {length}"
    assert len(set(pictures)) == length + 1
    for picture in pictures[-2::-1]:
        browser.press("ArrowLeft")
        assert browser.tell(PICTURE) == picture
    browser.press("End")
    assert browser.tell(PICTURE) == pictures[-1]
    browser.press("Home")
    assert browser.tell(PICTURE) == pictures[0]
    assert browser.complaints == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_trace_ends_with_the_words_of_the_model_and_its_verdict(browser, played, width):
    browser.complaints.clear()
    browser.open(PAGE, width=width)
    for name, one in played.items():
        browser.tell(f"setTrace('{name}', {len(one['turns'])})")
        held = {(t, p): word for t, each in enumerate(one["start"]) for p, word in enumerate(each)}
        for turn in one["turns"]:
            if turn.get("kept") and turn["deed"] != "send":
                tile, piece, *word = turn["word"]
                held[tile, piece] = word
        right = [[str(t), str(p), str(tag), value] for (t, p), (tag, value) in held.items()]
        assert words(browser) == right
        says = browser.tell("document.getElementById('verdict').textContent")
        fault = one["fault"]
        assert says == (f"✕ {fault['says']}".replace("`", "") if fault else "")
        assert browser.tell("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints == []


@pytest.mark.parametrize("width", WIDTHS)
def test_space_runs_to_the_end_and_pauses(browser, width):
    browser.complaints.clear()
    browser.prefer(prefers_reduced_motion="reduce", prefers_color_scheme="dark")
    browser.open(PAGE, "#unticketed", width)
    browser.tell("document.getElementById('pace').options[2].value = 20")
    browser.tell("document.getElementById('pace').value = 20")
    label = "document.getElementById('run').textContent"
    browser.press(" ")
    assert browser.tell(label) == "Pause"
    browser.wait(f"{label} === 'Play'")
    assert count(browser) == "4 / 4"
    browser.press("Home")
    browser.press(" ")
    browser.press(" ")
    assert browser.tell(label) == "Play"
    moves = "getComputedStyle(document.querySelector('#now .fresh') || document.body).animationName"
    assert browser.tell(moves) == "none"
    browser.prefer()
    assert browser.complaints == []
