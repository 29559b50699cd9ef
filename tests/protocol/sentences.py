"""What a turn of a program is, in a sentence; values between `backquotes`."""

from __future__ import annotations

from collections.abc import Sequence

from jscan.kernels.steps import Step
from tests.protocol.exploration import Exploration, Launch, Snapshot
from tests.protocol.mistakes import APART, Untagged
from tests.protocol.model import AGGREGATE, EMPTY, PREFIX, Program, Protocol, Publish, Row, Word
from tests.protocol.turns import Deed, Seen, Turn, assembled

NOUNS = {EMPTY: "nothing", AGGREGATE: "aggregate", PREFIX: "prefix"}


def sentence(launch: Launch, turn: Turn, *, kept: bool = True) -> str:
    """A turn; whether a write is `kept` is the word's to say, which never goes back."""
    row, after = launch.row, turn.after
    if turn.deed is Deed.START:
        if after.tile < 0:
            return f"Program {turn.number} starts."
        aggregate = row.aggregate(after.tile)
        return f"The program of tile {after.tile} starts: the total of its tile is `{aggregate}`."
    if turn.deed is Deed.TAKE:
        ticket = f"Program {turn.number} takes ticket {after.tile}: tile {after.tile} is its own"
        return f"{ticket}, with the total `{row.aggregate(after.tile)}`."
    if turn.publish is not None:
        return _published(launch, turn, turn.publish, kept=kept)
    return _looked(launch, turn)


def _published(launch: Launch, turn: Turn, publish: Publish, *, kept: bool) -> str:
    tag, value = publish.word
    tile, row = publish.tile, launch.row
    what = f"`{value}` as its {NOUNS[tag]}"
    count = len(launch.protocol.initial(row, tile))
    if isinstance(launch.protocol, Untagged):
        what = (f"the value {what}", f"the tag, {NOUNS[tag]}")[publish.piece]
    elif count > 1:
        what += f", in word {publish.piece + 1} of {count}"
    if turn.deed is Deed.SEND:
        return f"Tile {tile} sends {what}. The write is on its way."
    if turn.deed is Deed.LAND:
        told = f"What tile {tile} has sent arrives: {what}."
    elif turn.before is not None and turn.before.step is Step.PUBLISH_AGGREGATE and tag == PREFIX:
        told = f"Tile {tile} at once publishes {what}{_why_complete(row, tile)}."
    else:
        told = f"Tile {tile} publishes {what}."
    if not kept:
        told += " The word holds no lower tag, and stays as it is."
    return told


def _why_complete(row: Row, tile: int) -> str:
    if tile == 0:
        return ": nothing comes before it"
    return ": a segment begins in it" if row.complete(tile) else ""


def _looked(launch: Launch, turn: Turn) -> str:
    assert turn.look is not None
    assert turn.before is not None
    tile, after = turn.after.tile, turn.after
    tiles = [t for t in turn.look.tiles if t >= 0]
    if not tiles:
        where = f"Tile {tile} looks back to before tile 0, where nothing is"
        return f"{where}{_outcome(launch.protocol, turn.before, after)}"
    where = f"Tile {tile} looks back at {_listed('tile', tiles)}"
    if len(turn.seen) == 1:
        outcome = _outcome(launch.protocol, turn.before, after)
        return f"{where}: {_read(launch, turn.seen[0])}{outcome}"
    warps = [f"warp {n} sees {_read(launch, seen)}" for n, seen in enumerate(turn.seen)]
    told = f"{where}: {'; '.join(warps)}."
    if after.piece == APART:
        told += " One goes on and one looks again: they wait for each other."
    return told


def _outcome(protocol: Protocol, before: Program, after: Program) -> str:
    if after == before:
        return ". It has to look again."
    if after.step is Step.LOOK_BACK:
        no = "no prefix among them" if protocol.window > 1 else "no prefix"
        has = f"It has {_quoted(after.total)}, {no}"
        return f". {has}, and goes on to what is before tile {after.end}."
    if after.tile == 0:
        return ": that is all there is to find."
    found = f". It takes {_quoted(after.total)} for what comes before it"
    return f"{found}, and has nothing more to tell." if after.step is Step.STORE else f"{found}."


def _read(launch: Launch, seen: Seen) -> str:
    pairs = zip(assembled(launch, seen), seen, strict=True)
    return ", ".join(_word(word, read) for word, read in pairs if read)


def _word(word: Word, read: Sequence[Word]) -> str:
    tag, value = word
    if tag != EMPTY:
        return f"{NOUNS[tag]} `{value}`" if value else f"{NOUNS[tag]} without a value"
    return "nothing yet" if {tag for tag, _ in read} == {EMPTY} else "words that disagree"


def _listed(noun: str, numbers: Sequence[int]) -> str:
    if len(numbers) < 2:
        return " ".join([noun, *map(str, numbers)])
    *most, last = map(str, numbers)
    return f"{noun}s {', '.join(most)} and {last}"


def verdict(launch: Launch, found: Exploration, last: Turn) -> str:
    """What an exploration has found in the end."""
    if found.verdict == "stuck":
        return _stuck(found.path[-1])
    row, tile = launch.row, last.after.tile
    if last.publish is None:
        what, right, wrong = f"what comes before tile {tile}", row.before(tile), last.after.total
    else:
        tag, wrong = last.publish.word
        what, right = f"the {NOUNS[tag]} of tile {tile}", row.right(tile, tag)
    return f"Wrong: {what} is {_quoted(right)}, not {_quoted(wrong)}."


def _quoted(value: str) -> str:
    return f"`{value}`" if value else "nothing"


def _stuck(last: Snapshot) -> str:
    programs = [running.program for running in last.programs]
    waiting = [p.tile for p in programs if p is not None and p.step is not Step.STORE]
    told = (
        f"Stuck: {_listed('tile', sorted(waiting))} wait{'s' if len(waiting) == 1 else ''} for ever"
    )
    return told + (", and no other program can start." if None in programs else ".")


def conditions(launch: Launch) -> str:
    """How much there is, and what may happen in which order."""
    protocol, row = launch.protocol, launch.row
    count = len(protocol.initial(row, 0))
    told = [
        f"{row.tiles} tiles",
        "a word for each" if count == 1 else f"{count} words for each",
        "windows of one tile" if protocol.window == 1 else f"windows of {protocol.window} tiles",
        "all programs at once" if launch.slots is None else f"{launch.slots} programs at a time",
        "started in order" if launch.in_order else "started in any order",
        *(["tiles numbered by tickets"] if protocol.tickets else []),
        *(["writes that arrive in any order"] if launch.reordered else []),
    ]
    return ", ".join(told)
