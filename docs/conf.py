"""The site's build: ``python -m sphinx -W -b html docs docs/_build/html``.

Pages are plain Markdown, so that they read well wherever Markdown is shown. Their Python is run
while the site is built, page by page, each from its first line to its last: one that fails is a
warning, and a warning ends the build. What their comments say is printed is a test's matter.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from typing import Any

from sphinx.application import Sphinx

import jscan

os.environ.setdefault("JAX_PLATFORMS", "cpu")

project = "jscan"
author = "the authors of jscan"
version = release = jscan.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
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

nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_show_tb = True
nb_remove_code_outputs = True  # comments say what is printed

default_role = "py:obj"
add_module_names = False
autodoc_member_order = "bysource"
toc_object_entries = False  # each has a heading of its own
autodoc_typehints = "none"  # docstrings say more: shapes, dtypes, what is static
napoleon_google_docstring = True
napoleon_numpy_docstring = False

NOTEBOOK = "---\nfile_format: mystnb\nkernelspec: {name: python3}\n---\n"


def as_notebook(app: Sphinx, name: str, source: list[str]) -> None:
    """A page whose blocks of Python are cells to run."""
    del app, name
    [text] = source
    cells = re.sub(r"^```python$", "```{code-cell}", text, flags=re.M)
    if cells != text:
        source[0] = NOTEBOOK + cells


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
    app.connect("source-read", as_notebook)
    app.connect("autodoc-process-docstring", with_links)
    app.connect("autodoc-process-docstring", with_pictures, priority=400)  # before napoleon
    app.connect("build-finished", add_player)
