"""The README and the pages of the site as texts, and the anchors of their headings."""

from __future__ import annotations

import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
HEADING = re.compile(r"^#+ (.*)$", re.M)
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in path.parts
}
"""Texts by path."""


@functools.cache
def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    plain = (re.sub(r"[^\w\- ]", "", heading).lower() for heading in HEADING.findall(text))
    return {heading.replace(" ", "-") for heading in plain}


def leads_somewhere(place: str) -> bool:
    """Whether a page of the documentation has this heading."""
    page, _, heading = place.partition("#")
    text = PAGES.get(f"docs/{page}", "")
    return heading in anchors(text)
