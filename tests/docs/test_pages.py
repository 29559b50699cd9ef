"""Pages: their Python prints what its comments say, and their links lead somewhere."""

from __future__ import annotations

import json
import re

import pytest

import jscan
from jscan import operators
from tests.docs.headings import PAGES, anchors
from tests.docs.programs import FENCED, PRINTED, program
from tests.docs.test_examples import ROOT, run

LINK = re.compile(r"(?:(?<!!)\[[^\]]*\]\(|(?:href|src)=\")([^)\s\"]+)[)\"]")
FRONT = ("README.md", "docs/index.md")
RUNNER = """
import contextlib, io, json, sys, traceback

said = {}
for name, source in json.load(open(sys.argv[1])).items():
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(source, name, "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc(file=output)
    said[name] = output.getvalue().splitlines()
print(json.dumps(said))
"""
"""Runs pages in one process, each in a namespace of its own."""


def test_every_block_of_a_page_ends():
    assert [name for name, text in PAGES.items() if len(re.findall("^```", text, re.M)) % 2] == []


def test_pages_print_what_their_comments_say(tmp_path):
    programs = {name: program(text) for name, text in PAGES.items() if FENCED.search(text)}
    assert len(programs) > 8
    script, sources = tmp_path / "pages.py", tmp_path / "pages.json"
    script.write_text(RUNNER, encoding="utf-8")
    sources.write_text(json.dumps(programs), encoding="utf-8")
    result = run(script, sources)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    expected = {name: PRINTED.findall(source) for name, source in programs.items()}
    assert said == expected
    for name, source in programs.items():
        assert len(expected[name]) == source.count("print("), name
    assert sum(map(len, expected.values())) > 80


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    """Sphinx looks at them too; these are as they are where the page is read as a file."""
    folder = (ROOT / page).parent
    wrong = []
    for link in LINK.findall(PAGES[page]):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        file = (folder / path).resolve() if path else ROOT / page
        name = str(file.relative_to(ROOT))
        found = file.exists() and (not anchor or anchor in anchors(PAGES[name]))
        wrong += [] if found else [link]
    assert not wrong


def test_every_page_is_in_a_table_of_contents():
    named = {
        str((ROOT / page).parent.relative_to(ROOT) / f"{line}.md")
        for page, text in PAGES.items()
        for listed in re.findall(r"^```{toctree}\n(.*?)^```$", text, re.M | re.S)
        for line in listed.split()
    }
    assert {page for page in PAGES if page != "README.md"} - named == {"docs/index.md"}


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/examples.md"])
def test_commands_name_files_that_exist(page):
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```$", PAGES[page], re.M | re.S))
    files = re.findall(r"(?<![\w/])(?:examples|\.ci)/\S+", commands)
    assert files
    for file in files:
        assert (ROOT / file).is_file(), file


def test_readme_is_short():
    assert PAGES["README.md"].count("\n") <= 150


def test_readme_and_front_page_set_up_alike():
    commands = [re.findall(r"^```bash\n.*?^```$", PAGES[page], re.M | re.S) for page in FRONT]
    assert commands[0] == commands[1] != []


def test_api_has_every_public_name():
    api = {page: text for page, text in PAGES.items() if page.startswith("docs/api/")}
    documented = re.findall(r"^\.\. auto\w+:: jscan\.([\w.]+)$", "\n".join(api.values()), re.M)
    assert {*jscan.__all__, "enumerate"} <= set(documented)
    named = set(re.findall(r"^\| `(\w+)`", api["docs/api/operators.md"], re.M))
    named |= {name.removeprefix("operators.") for name in documented}
    assert {*operators.__all__, "max", "min"} <= named
