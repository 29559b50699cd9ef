"""The example on sorts that are made of scans, run as a user would run it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import jscan
from tests.docs.test_examples import ROOT, module_of, run

QUICKSORT = ROOT / "examples" / "quicksort.py"
SORTS = ["quicksort by jscan", "radix sort by jscan", "jnp.sort", "numpy.sort"]
KINDS = ["any integers", "sixteen values", "in order already"]


@pytest.fixture
def quicksort(monkeypatch) -> ModuleType:
    """The example as a module."""
    return module_of(QUICKSORT, monkeypatch)


def test_every_sort_is_that_of_numpy(tmp_path):
    picture = tmp_path / "passes.png"
    result = run(QUICKSORT, "--length", 1000, "--plot", picture)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "1000 keys of 32 bits"
    assert [line.split("  ")[0] for line in lines if "passes" in line] == KINDS
    number = r"([\d.]+)"
    rows = re.findall(rf"^(.+?) +{number} ms +{number} million(?: +(\d+))?$", result.stdout, re.M)
    assert [name for name, *_ in rows] == 3 * SORTS
    passes = [int(count) for *_, count in rows if count]
    # Sixteen values are fifteen cuts, and keys in order are none. Of a radix sort all is known.
    assert passes[1::2] == [32, 32, 32]
    assert 10 <= passes[0] < 100
    assert 4 <= passes[2] <= 30
    assert passes[4] == 0
    assert lines[-1] == "check: all keys are where NumPy has them"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "keys",
    [[7], [2, 2, 2], [2, 1], [5, 3, 7, 4, 6], [*range(30, 0, -1)], [-(2**31), 2**31 - 1, 0, -1]],
    ids=["one", "equal", "two", "the paper's", "falling", "ends"],
)
def test_both_sorts_of_a_few_keys(quicksort, keys):
    given = np.array(keys, np.int32)
    ordered, passes = quicksort.quicksort(given)
    np.testing.assert_array_equal(ordered, sorted(keys))
    assert passes < 2 * len(keys)
    np.testing.assert_array_equal(quicksort.radix_sort(given)[0], sorted(keys))


@pytest.mark.parametrize(
    ("name", "noticed"),
    [("split", "radix sort by jscan"), ("split_and_segment", "quicksort by jscan")],
)
def test_it_fails_where_jscan_does(quicksort, monkeypatch, capsys, name, noticed):
    right = getattr(jscan, name)

    def wrong(x: Any, mask: Any, *rest: Any) -> Any:
        return right(x, ~mask, *rest)

    monkeypatch.setattr(jscan, name, wrong)
    assert quicksort.main(["--length", "50"]) == 1
    output = capsys.readouterr()
    assert "check: FAILED" in output.out
    found = re.findall(r"^wrong: .+, (.+): key \d+ is -?\d+, not -?\d+$", output.err, re.M)
    assert set(found) == {noticed}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--length", "0"], "there has to be a key at least"),
        (["--plot", "not/there.png"], "cannot write not/there.png: there is no such folder"),
    ],
    ids=["no key", "no folder"],
)
def test_it_says_what_is_wrong_with_arguments(quicksort, capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        quicksort.main(arguments)
    assert message in capsys.readouterr().err
