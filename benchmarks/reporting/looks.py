"""How figures look: colours, markers, line styles, legends.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; markers, line styles and
hatches do it in grey. What jscan runs is solid and filled, what others run dashed and hollow.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from benchmarks.reporting.curves import Curve, family, rank

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#666666"

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "0.4",
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.facecolor": "white",
    "font.size": 9,
    "grid.color": "0.88",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.fonttype": "path",  # a page that embeds the picture has no say in its fonts
    "svg.hashsalt": "jscan",  # equal figures get equal names of their parts
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}
WIDTH = 10.0  # inches, of which a page shows about 85 pixels each


def style() -> contextlib.AbstractContextManager[None]:
    """Within which figures are built and saved, whatever is set for others."""
    return matplotlib.style.context(["default", STYLE])


Look = dict[str, Any]
"""How one curve is drawn: arguments of matplotlib's plot."""
HOLLOW: Look = {"markerfacecolor": "white", "zorder": 2}


def solid(color: str, marker: str, dash: Any = "-") -> Look:
    """A line of filled markers."""
    return {"color": color, "linestyle": dash, "marker": marker, "zorder": 3}


def hollow(color: str, marker: str, dash: Any) -> Look:
    """A line of hollow markers, behind those that are filled."""
    return solid(color, marker, dash) | HOLLOW


_DOTS, _DASHES, _MIXED, _LONG = (0, (1, 1.5)), (0, (4, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2))
LOOKS = {
    "lookback": solid(BLUE, "o"),
    "block": solid(SKY, "P"),
    "chained": solid(VERMILION, "s"),
    "serial_lookback": solid(ORANGE, "D"),
    "repeatable": solid(BLUE, "*", _DASHES),
    "reduce_then_scan": solid(GREEN, "^"),
    "scan_then_propagate": solid(PURPLE, "v"),
    "xla": solid(BLACK, "x", _DOTS),
    "lax.associative_scan": hollow(GREY, "o", _DOTS),
    "lax.cumsum, ...": hollow(GREY, "s", _DASHES),
    "jax.ops": hollow(BLUE, "v", _MIXED),
    "jax.numpy": hollow(BLACK, "s", _DOTS),
    "PyTorch": hollow(VERMILION, "^", _MIXED),
    "CuPy": hollow(GREEN, "v", _DASHES),
    "CUB": hollow(BLACK, "d", _LONG),
    "cuda.compute": hollow(PURPLE, ">", _LONG),
}
_COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK, BLUE, GREEN, VERMILION, PURPLE)
_OWN = [
    solid(color, marker, "-" if place < 6 else _DASHES)
    for place, (color, marker) in enumerate(zip(_COLORS, "os^DvPX^soD", strict=True))
]
_GREY_FIRST = (GREY, BLACK, VERMILION, GREEN, BLUE, PURPLE, ORANGE, SKY)
_OTHERS = [
    hollow(color, marker, dash)
    for color, marker, dash in zip(
        _GREY_FIRST, "os^vdD<>", itertools.cycle((_DOTS, _DASHES, _MIXED, _LONG)), strict=False
    )
]
FILLS = (
    *((BLUE, ""), (ORANGE, "///"), (SKY, "..."), (GREEN, "\\\\\\")),
    *((PURPLE, "xxx"), (VERMILION, "|||"), (GREY, "---")),
)
"""Colours and hatches of bars that stand together."""

# "auto" is always one of the others, so it lies broad and pale under that one's line.
AUTO: dict[str, Any] = {"color": "0.83", "linewidth": 7, "solid_capstyle": "round", "zorder": 1}
COPY: dict[str, Any] = {"color": "0.3", "linewidth": 0.9, "linestyle": (0, (1, 1)), "zorder": 1.5}


def looks(panels: Iterable[Sequence[Curve]]) -> dict[str, Look]:
    """A look for every name, in the order of legends.

    It is the name's own or its family's, which names that never meet in a panel may share; or else
    one that no other name has. A name with a remark behind a comma looks like the name, but hollow.
    """
    together = [[(curve.is_peer, curve.name) for curve in panel] for panel in panels]
    everyone = sorted(dict.fromkeys(itertools.chain(*together)), key=lambda named: rank(*named))
    known = {name: _known(name, is_peer) for is_peer, name in everyone}
    chosen: dict[str, Look] = {}
    for is_peer, name in everyone:
        met = {other for panel in together if (is_peer, name) in panel for _, other in panel}
        look = known[name]
        if look is None or look in (chosen[other] for other in met if other in chosen):
            taken = (*known.values(), *chosen.values())
            free = (look for look in (_OTHERS if is_peer else _OWN) if look not in taken)
            look = next(free, (hollow if is_peer else solid)(GREY, "*", _MIXED))
        chosen[name] = look
    return chosen


def _known(name: str, is_peer: bool) -> Look | None:
    if is_peer:
        return LOOKS.get(family(name))
    start, *remark = name.split(", ")
    look = LOOKS.get(start)
    return look | HOLLOW | {"linestyle": _DASHES} if look and remark else look


def typeset(text: str) -> str:
    """Powers with their exponents raised."""
    return re.sub(r"\^(\d+)", r"$^{\1}$", text)


def legend(figure: Figure, entries: Mapping[str, Artist]) -> None:
    """Below everything, in as many columns as there is room for, equally long."""
    names = list(entries)
    columns = len(names)
    while columns > 1 and _legend_width(names, columns) > WIDTH - 0.2:
        columns -= 1
    columns = math.ceil(len(names) / math.ceil(len(names) / columns))
    figure.legend(list(entries.values()), names, loc="outside lower center", ncols=columns)


def _legend_width(names: Sequence[str], columns: int) -> float:
    """About how many inches a legend takes, which fills its columns one after another."""
    deep, longer = divmod(len(names), columns)
    rest = iter(names)
    widths = (
        max(map(len, itertools.islice(rest, deep + (column < longer)))) for column in range(columns)
    )
    return sum(0.82 + 0.085 * width for width in widths)
