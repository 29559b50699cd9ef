"""Lines, tables and progress on the terminal (with rich, or plain), and JSON files."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

try:
    import rich.console
    import rich.progress
    import rich.table
except ImportError:  # the extra "bench" is not installed
    HAS_RICH = False
else:
    HAS_RICH = True

STYLES = {"target": "green", "floor": "yellow", "below": "red", "WRONG": "red", "FAILED": "red"}


def say(text: str = "") -> None:
    """Prints a line of text at once."""
    print(text, flush=True)


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yields a function that counts one more as done, and prints a line if there is one."""
    if not (HAS_RICH and rich.console.Console().is_terminal):
        yield lambda line: say(line) if line else None
        return
    with rich.progress.Progress(transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(line: str) -> None:
            if line:
                bar.console.print(line, markup=False, highlight=False)
            bar.advance(task)

        yield advance


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table, the first column to the left, the others to the right."""
    if HAS_RICH:
        console = rich.console.Console()
        if not console.is_terminal:
            console = rich.console.Console(width=200)
        shown = rich.table.Table(title=title, title_justify="left")
        for i, column in enumerate(columns):
            shown.add_column(column, justify="right" if i else "left", no_wrap=i > 0)
        for row in rows:
            shown.add_row(*(_styled(cell) for cell in row))
        console.print(shown)
        return
    say(f"\n{title}")
    lines = [list(columns), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.rjust(w) for cell, w in zip(line, widths, strict=True)]
        cells[0] = line[0].ljust(widths[0])
        say("  ".join(cells))


def _styled(cell: str) -> str:
    style = STYLES.get(cell)
    return f"[{style}]{cell}[/{style}]" if style else cell.replace("[", r"\[")


def write(path: pathlib.Path, content: dict[str, Any], *, silent: bool = False) -> None:
    """Writes JSON."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n", silent=silent)


def write_text(path: pathlib.Path, text: str, *, silent: bool = False) -> None:
    """Writes a file in one step, so that an interrupted run leaves the old one alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text)
    unfinished.replace(path)
    if not silent:
        say(f"written to {path}")
