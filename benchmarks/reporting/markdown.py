"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], lines: Iterable[str]) -> str:
    """A table of lines that `cells` has made."""
    head = [cells(columns[0], columns[1:]), "|" + "---|" * len(columns)]
    return "\n".join([*head, *lines])


def cells(label: str, rest: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join([label, *rest])} |"
