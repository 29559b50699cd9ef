"""What the page that plays the protocol plays: turns of the model, right ones and mistaken ones.

python -m tests.protocol.traces    writes docs/protocol/traces.js

The right ones are random schedules, by seeds that show much in few turns. Each mistake comes by the
shortest way to where it shows, as the exploration finds it.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jscan.kernels.steps import Step
from tests.protocol.exploration import Launch, explore
from tests.protocol.mistakes import APART, MISTAKES, Mistake, Untagged
from tests.protocol.model import Protocol, Row, Word, chained, lookback
from tests.protocol.sentences import conditions, sentence, verdict
from tests.protocol.turns import Deed, Turn, along, in_vain, wander

PLACE = pathlib.Path(__file__).parents[2] / "docs" / "protocol" / "traces.js"

HEAD = "// Written by `python -m tests.protocol.traces`: turns of the model in tests/protocol.\n"


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A random schedule of a right protocol."""

    name: str
    title: str
    text: str
    launch: Launch
    seed: int


SCHEDULES = (
    Schedule(
        "lookback",
        "Decoupled lookback",
        "Each tile publishes its own total, its aggregate, before it knows what comes before it."
        " Then it adds up what tiles before it have published, until it meets a prefix.",
        Launch(lookback(3), Row(8)),
        123,
    ),
    Schedule(
        "segments",
        "Segments: two tiles with a restart",
        "Where a segment begins inside of a tile, what comes before cannot matter to those behind:"
        " its aggregate is its prefix, and nobody looks past it.",
        Launch(lookback(3), Row(8, frozenset([3, 6]))),
        4,
    ),
    Schedule(
        "two-words",
        "Values of 64 bits: two words for each tile",
        "A word holds 32 bits under a tag. A value of two words counts once both have the same"
        " tag, so that nothing has to be ordered, and no fence is needed.",
        Launch(lookback(2, pieces=2), Row(5)),
        10,
    ),
    Schedule(
        "few-programs",
        "Few programs at a time",
        "Programs start in order, three at a time. A tile waits only for tiles before it, whose"
        " programs have started.",
        Launch(lookback(4), Row(8), slots=3),
        114,
    ),
    Schedule(
        "serial-lookback",
        "Serial lookback: windows of one tile",
        "The same protocol, one tile at a time.",
        Launch(lookback(1), Row(6)),
        2,
    ),
    Schedule(
        "chained",
        "Chained: prefixes alone, and tickets",
        "Each tile waits for the prefix of the one before it. Programs take their tile's number"
        " from a counter once they run, so that they may start in any order.",
        Launch(chained(), Row(6), in_order=False, slots=3),
        55,
    ),
)


def traces() -> Iterator[dict[str, Any]]:
    """All that there is to play."""
    for schedule in SCHEDULES:
        about = {"name": schedule.name, "title": schedule.title, "text": schedule.text}
        turns = without_repetition(wander(schedule.launch, schedule.seed))
        yield {**about, **trace(schedule.launch, turns), "fault": None}
    yield from map(mistaken, MISTAKES)


def mistaken(mistake: Mistake) -> dict[str, Any]:
    """The way to where a mistake shows."""
    launch, found = mistake.launch, explore(mistake.launch)
    turns = [*along(launch, found.path)]
    tiles = [turns[-1].after.tile]
    if found.verdict == "stuck":
        programs = [running.program for running in found.path[-1].programs]
        tiles = [p.tile for p in programs if p is not None and p.step is not Step.STORE]
        turns += in_vain(launch, found.path[-1])
    fault = {"verdict": found.verdict, "tiles": tiles, "says": verdict(launch, found, turns[-1])}
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", mistake.protocol.__name__).lower()
    about = {"name": name, "title": mistake.name, "text": mistake.reason}
    return {**about, **trace(launch, turns), "fault": fault}


def without_repetition(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Turns, without looks in vain that see what the look before them has seen."""
    before: dict[int, Turn] = {}
    for turn in turns:
        if before.get(turn.number) != turn:
            yield turn
        before[turn.number] = turn


def trace(launch: Launch, turns: Iterable[Turn]) -> dict[str, Any]:
    """What a page needs to know, to draw every state of a launch."""
    protocol, row = launch.protocol, launch.row
    tiles = range(row.tiles)
    histories = {
        (tile, piece): history
        for tile in tiles
        for piece, history in enumerate(protocol.initial(row, tile))
    }
    start = [[history[-1] for history in protocol.initial(row, tile)] for tile in tiles]
    played = []
    for turn in turns:
        word: dict[str, Any] = {}
        if turn.publish is not None:
            place, before = (turn.publish.tile, turn.publish.piece), None
            if turn.deed is not Deed.SEND:
                before = histories[place]
                histories[place] = protocol.landed(before, turn.publish.word)
            kept = histories[place] != before
            word = {"word": [*place, *turn.publish.word], "kept": kept}
        says = sentence(launch, turn, kept=word.get("kept", True))
        newest = {place: history[-1] for place, history in histories.items()}
        seen = {"outcome": outcome(turn), "saw": [*saw(turn, newest)]} if turn.look else {}
        played.append({**deed(turn), **word, **seen, "says": says})
    return {
        "conditions": conditions(launch),
        "aggregates": [row.aggregate(tile) for tile in tiles],
        "restarts": sorted(row.restarts),
        "tickets": protocol.tickets,
        "words": names(protocol),
        "start": start,
        "turns": played,
    }


def names(protocol: Protocol) -> list[str]:
    """What the words of a tile are called."""
    if isinstance(protocol, Untagged):
        return ["value", "tag"]
    return ["word"] if protocol.pieces == 1 else ["low", "high"]


def deed(turn: Turn) -> dict[str, Any]:
    """Who does what, and where that leaves him."""
    after = turn.after
    step = "wait for each other" if after.piece == APART else after.step.value
    about = {"program": turn.number, "deed": turn.deed.value, "tile": after.tile}
    return {**about, "step": step, "end": after.end, "total": after.total}


def outcome(turn: Turn) -> str:
    """What comes of a look."""
    if turn.after == turn.before or turn.after.piece == APART:
        return "waits"
    return "further" if turn.after.step is Step.LOOK_BACK else "found"


def saw(turn: Turn, newest: dict[tuple[int, int], Word]) -> Iterator[dict[int, list[Any]]]:
    """What each look has read of each tile, and whether that is what the words hold by now."""
    assert turn.look is not None
    for seen in turn.seen:
        yield {
            tile: [[*word, word == newest[tile, piece]] for piece, word in enumerate(words)]
            for tile, words in zip(turn.look.tiles, seen, strict=True)
            if tile >= 0
        }


def text(played: Iterable[dict[str, Any]]) -> str:
    """A program for a browser that holds traces, a line for each turn."""
    lines = [HEAD + '"use strict";\nconst TRACES = [']
    for one in played:
        *about, turns = [{k: v for k, v in one.items() if k != "turns"}, one["turns"]]
        [head] = about
        lines.append(json.dumps(head)[:-1] + ', "turns": [')
        lines += [f"  {json.dumps(turn)}," for turn in turns]
        lines.append("]},")
    return "\n".join([*lines, "];\n"])


if __name__ == "__main__":
    PLACE.write_text(text(traces()))
