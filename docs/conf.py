"""The site's build: ``python -m sphinx -W -b html docs docs/_build/html``.

Pages are plain Markdown, so that they read well wherever Markdown is shown. Their Python is run
while the site is built, page by page, each from its first line to its last, in the process that
builds: one that fails, or prints something else than its comments say, is a warning, and a warning
ends the build.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import shutil
import sys
import traceback
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import jscan
from tests.docs.programs import PRINTED, program

project = "jscan"
author = "the authors of jscan"
version = release = jscan.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_build", "**/README.md"]
html_theme = "sphinx_book_theme"
html_title = "jscan"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "use_download_button": False,
    "navbar_persistent": [],
}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.header"
]  # the page of all figures is included below a heading of its own

default_role = "py:obj"
add_module_names = False
autodoc_member_order = "bysource"
toc_object_entries = False  # each has a heading of its own
autodoc_typehints = "none"  # docstrings say more: shapes, dtypes, what is static
napoleon_google_docstring = True
napoleon_numpy_docstring = False


def run_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Runs a page's Python in a namespace of its own; warns where it is not as the page says."""
    del app
    page, output = program(source[0]), io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(page, name, "exec", dont_inherit=True), {"__name__": "__main__"})
    except Exception:
        logging.getLogger(__name__).warning(traceback.format_exc(), location=name)
        return
    said, expected = output.getvalue().splitlines(), PRINTED.findall(page)
    if said != expected:
        logging.getLogger(__name__).warning("%s is printed, not %s", said, expected, location=name)


def with_links(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """A docstring in which names of this package are links."""
    del app, what, name, obj, options
    lines[:] = [re.sub(r"``(jscan\.[\w.]+)``", r":py:obj:`\1`", line) for line in lines]


def with_pictures(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """A docstring whose indented pictures and tables are shown as they are written."""
    del app, what, name, obj, options
    paragraphs = "\n".join(lines).split("\n\n")
    section = False
    for number, paragraph in enumerate(paragraphs):
        drawn = all(line.startswith("    ") for line in paragraph.splitlines() if line)
        if not paragraph.startswith(" "):
            section = re.match(r"\w+:\n", paragraph) is not None
        elif drawn and not section:
            paragraphs[number] = f"::\n\n{paragraph}"
    lines[:] = "\n\n".join(paragraphs).splitlines()


def add_player(app: Sphinx, error: Exception | None) -> None:
    """Puts the page that plays the protocol, which needs no building, beside the built ones."""
    if error is None and app.builder.format == "html":
        player = pathlib.Path(app.srcdir) / "protocol"
        shutil.copytree(player, pathlib.Path(app.outdir) / "protocol", dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Adds what is here to Sphinx."""
    app.connect("source-read", run_page)
    app.connect("autodoc-process-docstring", with_links)
    app.connect("autodoc-process-docstring", with_pictures, priority=400)  # before napoleon
    app.connect("build-finished", add_player)
