"""Tables in Markdown, and paragraphs of readable length."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of lines of cells."""
    head, *rest = (
        "".join(f"| {cell} " if cell else "| " for cell in line) + "|" for line in (columns, *lines)
    )
    return "\n".join([head, "|" + "---|" * len(columns), *rest])


def pivot(corner: str, columns: Sequence[str], lines: Mapping[str, Mapping[str, str]]) -> str:
    """A table of named lines, of cells by the names of their columns; a dash where none is."""
    heads = [corner, *map(code, columns)]
    rows = (
        [name, *(cells.get(column, "–") for column in columns)] for name, cells in lines.items()
    )
    return table(heads, rows)


def code(name: str) -> str:
    """As code, where it is a name in some program."""
    return name if " " in name else f"`{name}`"


def fill(paragraph: str) -> str:
    """Lines of readable length, unless it is no plain paragraph."""
    if paragraph.startswith(("#", "|", "![", "- ")):
        return paragraph
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)
