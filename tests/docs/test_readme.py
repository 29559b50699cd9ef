"""The README's Python runs, in its order, in one program, and prints what its comments say."""

from __future__ import annotations

import importlib.util
import re

from tests.docs.test_examples import ROOT, run

FENCED = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.M)
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_blocks(tmp_path):
    # Storing an export needs flatbuffers; without it the rest of the README still has to run.
    stores = importlib.util.find_spec("flatbuffers") is not None
    lines = [""] * README.count("\n")  # code keeps its line numbers, for tracebacks
    for block in FENCED.finditer(README):
        if stores or ".serialize()" not in block[1]:
            first = README.count("\n", 0, block.start(1))
            code = block[1].splitlines()
            lines[first : first + len(code)] = code
    source = "\n".join(lines)
    script = tmp_path / "README.py"
    script.write_text(source, encoding="utf-8")
    result = run(script)
    assert result.returncode == 0, result.stderr
    expected = PRINTED.findall(source)
    assert len(expected) == source.count("print(") > 10
    assert result.stdout.splitlines() == expected


def test_commands_name_files_that_exist():
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```$", README, re.M | re.S))
    files = re.findall(r"(?<![\w/])(?:examples|\.ci)/\S+", commands)
    assert files
    for file in files:
        assert (ROOT / file).is_file(), file
