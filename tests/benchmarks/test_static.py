"""The suite that needs no GPU: what Triton's compiler says of kernels, and its report."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.__main__ import main
from benchmarks.cases import static as cases
from benchmarks.measuring import static
from benchmarks.reporting import static_table
from benchmarks.runs import RESULTS
from jscan import engines

REPORT = RESULTS / "static-sm-90.json"
QUICK = "cumsum method=block, float32, 1000"
SAMPLE = (
    QUICK,
    "segmented cumsum, float32 bool, 67108864",
    "reduce affine axis=1, float32, 1280×50257",
)
MISSING = engines.why_no_triton()

by_triton = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def looks(**changes):
    """A kernel, as others are but for these changes."""
    same = {"warps": 4, "registers": 100, "spilled": 0, "shared_loads": 0, "shared_stores": 0}
    widths = {"loads": {"16": 8, "8": 4}, "stores": {"16": 8}}
    place = {"call": "cumsum", "engine": "pallas", "kernel": "jscan_block", "number": 0}
    return static.Looks(**{**place, **same, **widths, "shared": 0, "instructions": 9, **changes})


@by_triton
def test_kernels_are_as_the_report_says():
    """Registers depend on the compiler, and what it gets on jax; what is read at once does not."""
    committed, environment = static_table.read(REPORT)
    calls = [(name, static.here()) for name in SAMPLE]
    found = [looks for call in static.measured(calls, 2, static.looks_of) for looks in call]
    committed = [k for k in committed if k.call in SAMPLE and k.engine in static.here()]
    if environment != static.versions():
        committed, found = (
            [dataclasses.replace(looks, registers=0, spilled=0) for looks in report]
            for report in (committed, found)
        )
    assert {looks.call for looks in found} == {*SAMPLE}
    wrong = [each.text for each in static_table.differences(committed, found) if each.worse]
    assert wrong == []


@by_triton
def test_the_command_compares_and_fails_where_kernels_are_worse(tmp_path, capsys):
    arguments = ["static", "--only", QUICK, "--jobs", "1"]
    own = tmp_path / "own.json"
    assert main([*arguments, "--out", str(own)]) == 0
    report, versions = static_table.read(own)
    assert [each.engine for each in report] == static.here()
    assert all(each.registers > 0 and each.loads and each.stores for each in report)
    assert main([*arguments, "--compare", str(own)]) == 0
    assert f"{len(report)} kernels: 0 differ" in capsys.readouterr().out
    fewer = dataclasses.replace(report[0], registers=report[0].registers // 2)
    static_table.write(own, [fewer, *report[1:]], {**versions, "jax": "0.0"})
    assert main([*arguments, "--compare", str(own)]) == 1
    out = capsys.readouterr().out
    assert f"registers {fewer.registers} → {report[0].registers} (WORSE)" in out
    assert "is of jax 0.0" in out
    static_table.write(own, report, {**versions, "triton": "3.0"})
    assert main([*arguments, "--compare", str(own)]) == 2
    assert "is of triton 3.0: python -m pip install triton==3.0" in capsys.readouterr().out


@by_triton
def test_what_is_known_of_the_same_text_is_not_compiled_again(monkeypatch):
    call, engine = cases.calls()[QUICK], ["jax-triton"]
    [found] = static.looks_at(call, engine)
    known = dataclasses.replace(found, registers=1)
    assert static.looks_at(call, engine, [dataclasses.replace(known, text="another")]) == [found]
    monkeypatch.setattr(static, "with_resources", None)
    assert static.looks_at(call, engine, [known]) == [known]


@by_triton
def test_calls_are_compared_by_one_engine_each_in_turn(tmp_path, capsys, monkeypatch):
    calls = [*cases.calls()][:4]
    report = [looks(call=call, engine=engine) for call in calls for engine in static.ENGINES]
    monkeypatch.setattr(static, "here", lambda: list(static.ENGINES))
    asked = []

    def measured(told, *_):
        asked.extend(told)
        yield [
            each for each in report for name, by in told if each.call == name and each.engine in by
        ]

    monkeypatch.setattr(static, "measured", measured)
    own = tmp_path / "own.json"
    static_table.write(own, report, static.versions())
    assert main(["static", "--by-turns", "--compare", str(own)]) == 0
    assert "4 kernels: 0 differ" in capsys.readouterr().out
    assert asked[:4] == [*zip(calls, [("pallas",), ("jax-triton",)] * 2, strict=True)]
    assert [name for name, _ in asked] == [*cases.calls()]
    assert main(["static", "--compare", str(own)]) == 0
    assert "8 kernels: 0 differ" in capsys.readouterr().out


def test_the_report_is_of_these_calls():
    committed, environment = static_table.read(REPORT)
    assert {(looks.call, looks.engine) for looks in committed} == {
        (name, engine) for name in cases.calls() for engine in static.ENGINES
    }
    assert {"jax", "triton", "target"} <= environment.keys()
    assert len({looks.key for looks in committed}) == len(committed)
    assert all(looks.text for looks in committed)
    assert {looks.kernel.removeprefix("jscan_") for looks in committed} == {
        *(
            "block",
            "lookback",
            "move",
            "rank",
            "repeatable",
            "chained",
            "tiles",
            "propagate",
            "totals",
            "parts",
            "part_totals",
            "chunks",
            "chunk_totals",
            "count",
            "partition",
            "eliminate",
        ),
        *("reduce", "rows", "partials", "locate", "fill", "fill_absent", "mark", "flags"),
    }


def test_a_call_that_no_name_contains_is_refused():
    with pytest.raises(SystemExit, match="contains 'nonsense'" if MISSING is None else "2"):
        raise SystemExit(main(["static", "--only", "nonsense"]))


def test_a_report_is_read_as_it_was_written(tmp_path):
    report = [looks(), looks(call="of ×", loads={})]
    static_table.write(tmp_path / "x.json", report, {"triton": "3"})
    assert static_table.read(tmp_path / "x.json") == (report, {"triton": "3"})
    assert len((tmp_path / "x.json").read_text().splitlines()) == len(report) + 2


def test_accesses_are_counted_by_width():
    ptx = """
\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
\tld.volatile.global.v2.b32 {%r1, %r2}, [%rd1];
\t@%p2 ld.global.L1::evict_last.v2.b64 { %rd1, %rd2 }, [ %rd1 + 0 ];
\tld.param.b64 \t%rd1, [jscan_block_param_0];
\t@%p1 st.global.b8 [ %rd1 + 0 ], { %r1 };
\tst.relaxed.gpu.global.v2.b32 [ %rd1 + 0 ], { %r1, %r2 };
\t@%p1 atom.global.gpu.acq_rel.add.s32 %r1, [ %rd1 + 0 ], %r2;
\tatom.global.gpu.relaxed.add.u32 %r1, [ %rd1 + 0 ], %r2;
\tst.shared.v4.b32 [%r1], {%r1, %r2, %r3, %r4};
\tld.shared.u16 %rs1, [%r1+2];
\tldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
"""
    assert static.accesses(ptx) == {
        ("loads", "global"): {"16": 2, "8": 1},
        ("loads", "shared"): {"2": 2},
        ("stores", "global"): {"8": 1, "4": 2, "1": 1},
        ("stores", "shared"): {"16": 1},
    }


@pytest.mark.parametrize(
    ("changes", "text", "worse"),
    [
        ({"registers": 110}, "registers 100 → 110", False),
        ({"registers": 111}, "registers 100 → 111 (WORSE)", True),
        ({"registers": 50, "instructions": 12}, "registers 100 → 50, instructions 9 → 12", False),
        ({"spilled": 4}, "spilled 0 → 4 (WORSE)", True),
        ({"loads": {"16": 16, "8": 8}}, "loads 8×16 4×8 → 16×16 8×8", False),
        ({"loads": {"8": 8}}, "loads 8×16 4×8 → 8×8 (WORSE)", True),
        ({"stores": {"4": 32}}, "stores 8×16 → 32×4 (WORSE)", True),
        ({"stores": {}}, "stores 8×16 → 0 (WORSE)", True),
    ],
)
def test_what_is_worse(changes, text, worse):
    (found,) = static_table.differences([looks()], [looks(**changes)])
    assert found == static_table.Difference(f"cumsum: block, pallas: {text}", worse)


def test_registers_are_no_loss_in_place_of_spills():
    (found,) = static_table.differences([looks(spilled=9)], [looks(registers=200)])
    assert found.text.endswith("registers 100 → 200, spilled 9 → 0")
    assert not found.worse


def test_kernels_that_come_and_go():
    assert static_table.differences([looks()], [looks()]) == []
    (none,) = static_table.differences([looks()], [])
    assert none.worse
    assert none.text == "cumsum: block, pallas is gone, and the call has no kernel"
    other = looks(kernel="jscan_lookback", spilled=8)
    new, gone = static_table.differences([looks()], [other])
    assert new.worse
    assert new.text == "cumsum: lookback, pallas is new, and spills 8"
    assert not gone.worse
    fine, _ = static_table.differences([looks()], [dataclasses.replace(other, spilled=0)])
    assert not fine.worse
