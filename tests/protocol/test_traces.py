"""The traces that a page plays: what the model does, with all that is worth seeing."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

from tests.protocol import traces
from tests.protocol.mistakes import MISTAKES
from tests.protocol.model import Row


@functools.cache
def played() -> dict[str, dict[str, Any]]:
    """All traces by their names."""
    return {one["name"]: one for one in traces.traces()}


def test_the_page_plays_what_the_model_does():
    """`python -m tests.protocol.traces` writes them anew."""
    assert traces.PLACE.read_text() == traces.text(played().values())


def test_one_of_each_mistake_is_played():
    titles = [one["title"] for one in played().values() if one["fault"]]
    assert titles == [mistake.name for mistake in MISTAKES]
    assert all(mistake.reason for mistake in MISTAKES)
    assert len(played()) == len(traces.SCHEDULES) + len(MISTAKES)


@pytest.mark.parametrize("schedule", traces.SCHEDULES, ids=lambda schedule: schedule.name)
def test_right_ones_end_with_every_prefix(schedule):
    row: Row = schedule.launch.row
    one = played()[schedule.name]
    words = {(t["word"][0], t["word"][1]): t["word"][2:] for t in one["turns"] if "word" in t}
    protocol = schedule.launch.protocol
    right = {
        (tile, piece): [2, row.right(tile, 2)]
        for tile in range(row.tiles)
        for piece in range(protocol.pieces)
    }
    assert words == right
    ends = {turn["program"]: turn["step"] for turn in one["turns"]}
    assert [*ends.values()] == ["store"] * row.tiles


def test_right_ones_show_what_there_is_to_see():
    turns = [turn for one in played().values() if not one["fault"] for turn in one["turns"]]
    looks = [turn for turn in turns if "saw" in turn]
    assert {turn["outcome"] for turn in looks} == {"waits", "further", "found"}
    words = [
        word for turn in looks for seen in turn["saw"] for each in seen.values() for word in each
    ]
    assert not all(newest for _, _, newest in words)
    assert any("words that disagree" in turn["says"] for turn in looks)


def test_verdicts_name_what_is_right():
    for one in played().values():
        if not one["fault"]:
            continue
        says = one["fault"]["says"]
        assert re.match(r"Wrong: .* is .*, not .*\.|Stuck: tiles? .* waits? for ever", says)
        if one["fault"]["verdict"] == "stuck":
            assert one["turns"][-1]["outcome"] == "waits"
