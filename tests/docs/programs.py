"""The Python of a page, and what its comments say that it prints.

`python -m tests.docs.programs README.md FOLDER` writes both into the folder, as tour.py and
tour.txt, for a Python that knows nothing of this checkout.
"""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys

FENCED = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.M)


def program(text: str) -> str:
    """The Python of a page, on the page's own lines, for tracebacks."""
    # Storing an export needs flatbuffers; without it the rest of the page still has to run.
    stores = importlib.util.find_spec("flatbuffers") is not None
    lines = [""] * text.count("\n")
    for block in FENCED.finditer(text):
        if stores or ".serialize()" not in block[1]:
            first = text.count("\n", 0, block.start(1))
            code = block[1].splitlines()
            lines[first : first + len(code)] = code
    return "\n".join(lines)


def main(page: str, folder: str) -> None:
    """Writes a page's program and what it prints."""
    source = program(pathlib.Path(page).read_text(encoding="utf-8"))
    said = "".join(f"{line}\n" for line in PRINTED.findall(source))
    pathlib.Path(folder, "tour.py").write_text(source, encoding="utf-8")
    pathlib.Path(folder, "tour.txt").write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
