"""Lines of a report, and a bar that shows how far it is."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

WIDTH = 24


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A function that counts one more as done, and shows its name beside a bar.

    The bar is on stderr, and there is none where that is no terminal.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    done, one_at_a_time = 0, threading.Lock()

    def advance(name: str) -> None:
        nonlocal done
        with one_at_a_time:
            done += 1
            filled = "#" * (WIDTH * done // total)
            print(
                f"\r[{filled:.<{WIDTH}}] {done}/{total} {name:48.48}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    try:
        yield advance
    finally:
        print(f"\r{'':{WIDTH + 64}}\r", end="", file=sys.stderr, flush=True)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def columns_to_the_left(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Names and what they stand for, as lines."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {text}" for name, text in rows]
