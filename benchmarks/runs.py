"""What the command line does: measures suites, tries them without a GPU, compares on a CPU."""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from benchmarks.cases import cpu_reductions, cpu_scans
from benchmarks.cases import static as static_cases
from benchmarks.cases.case import Case
from benchmarks.cases.cpu_inputs import Comparison, comparison
from benchmarks.cases.suites import SUITES
from benchmarks.measuring import (
    accuracy,
    cpu,
    devices,
    machine,
    measure,
    outside,
    overhead,
    static,
)
from benchmarks.measuring.measure import Outcome, Stopwatch
from benchmarks.measuring.programs import Program, compile_all, copy_program, plan, programs_of
from benchmarks.reporting import report, static_table, terminal
from jscan import engines

RESULTS = machine.REPOSITORY / "benchmarks" / "results"
COPY_WORDS = 2**28
SMALL = 14  # by this power of two a dry run divides the sizes of what it computes
COMPARED = ("core", "strategies", "all")
"""What has a comparison with a GPU's suite to offer where there is no GPU."""
SHRUNK_ON_A_CPU = {"functions": 6}
"""Suites whose cases a CPU measures beside plain JAX, and the power of two that divides them."""
ON_ANY_MACHINE = {
    "accuracy": "errors of inclusive sums over the length; up to 2^20 where there is no GPU",
    "latency": "the time of a call, beside lax.associative_scan",
    "compile": "the time to compile and the size of the program",
    "overhead": "the time of a call outside of jit beside a jitted one, and what it compiles",
}
"""The suites that are no lists of cases, each with a line of help."""
ON_SEVERAL_DEVICES = {
    "devices": "scans of arrays that are sharded over the GPUs of one host, by the wall clock",
}
"""The suites that `all` leaves out, since they measure more than one GPU."""
BESIDE_PLAIN_JAX = {
    "cpu": "calls in plain JAX on a CPU, beside what else there is in JAX, by the wall clock",
}
"""The suites that measure what runs where there is no GPU, and that `all` leaves out."""
WITHOUT_A_GPU = {
    "static": "registers, spills and accesses to memory of kernels, by Triton's compiler",
}
"""The suites that need none, and that `all` leaves out."""
SECONDS = {"all": 540, "accuracy": 90, "devices": 225}
"""Suites with a limit of time, and after how many seconds no further part of them is begun."""
PART = {"all": "suite", "accuracy": "length", "devices": "case"}
"""What is not begun then."""


def asked(options: argparse.Namespace) -> int:
    """Does what the command line says; 1 if something was wrong or failed, 2 without a GPU."""
    suite = options.suite
    if suite in WITHOUT_A_GPU:
        return look(options)
    if suite in BESIDE_PLAIN_JAX:
        return beside(options, suite)
    if suite not in ("all", *SUITES):
        return _way(suite)(options, suite)
    if options.dry_run:
        return dry_run(options, list(SUITES) if suite == "all" else [suite])
    if machine.has_gpu():
        return everything(options) if suite == "all" else run(options, suite)
    if suite in SHRUNK_ON_A_CPU:
        return shrunk(options, suite)
    if suite in COMPARED:
        terminal.say(f"No CUDA GPU here: this is the CPU comparison, not the figures of {suite}.")
        return compare(options, suite)
    terminal.say("No CUDA GPU here: --dry-run lowers the cases and checks their answers.")
    return 2


def _way(suite: str) -> Callable[[argparse.Namespace, str], int]:
    """What measures a suite."""
    if suite in SUITES:
        return run
    if suite in ON_SEVERAL_DEVICES:
        return together
    return study if suite == "accuracy" else compare


def run(options: argparse.Namespace, suite: str) -> int:
    """Measures every case of a suite on the GPU."""
    chosen = _chosen(SUITES[suite].cases(options.shrink), options.only)
    outside.start([peer for case in chosen for peer in case.outside])
    words = max(COPY_WORDS >> options.shrink, 2**12)
    copy = copy_program(words)
    programs = [copy, *programs_of(chosen)]
    start = time.monotonic()
    with terminal.progress("compiling", len(set(programs))) as advance:
        executables = compile_all(programs, lambda: advance(""))
    terminal.say(f"{len(executables)} programs compiled in {time.monotonic() - start:.0f} s")
    copied = executables[copy]
    if isinstance(copied, Exception):
        raise copied
    stopwatch = Stopwatch(copied, words)
    with terminal.progress("measuring", len(chosen)) as advance:
        outcomes = measure.run_all(
            chosen,
            executables,
            stopwatch,
            options.rounds,
            options.iterations,
            lambda outcome: advance(report.line(outcome)),
        )
    stopwatch.time_copy(1, options.iterations)
    report.show_cases(outcomes, stopwatch)
    _write(options, suite, report.as_json(suite, outcomes, stopwatch, _environment(options)))
    return _status(outcomes)


def everything(options: argparse.Namespace) -> int:
    """Measures every suite, then errors, calls and compilation, and writes a file for each.

    A suite whose turn comes after the budget is spent is left out.
    """
    begin = time.monotonic()
    status = 0
    took = []
    for name in (*SUITES, *ON_ANY_MACHINE):
        start = time.monotonic()
        if start - begin > options.budget:
            took.append(f"{name} left out")
            status = 1
            continue
        terminal.say(f"\n{name}")
        try:
            one = _way(name)(options, name)
        except Exception as error:  # the other suites are worth having
            terminal.say(f"{name} FAILED: {type(error).__name__}: {error}")
            one = 1
        status = max(status, one)
        took.append(f"{name} {time.monotonic() - start:.0f} s")
        terminal.say(took[-1])
    terminal.say(", ".join(took))
    return status


def study(options: argparse.Namespace, suite: str) -> int:
    """Measures errors on this machine; ``--out`` is the folder of the file."""
    seconds = min(options.budget, SECONDS[suite]) if options.suite == "all" else options.budget
    content = {"suite": suite, "environment": _environment(options), **accuracy.result(seconds)}
    accuracy.show(content)
    _write(options, suite, content)
    wrong = accuracy.beyond(content)
    for line in wrong:
        terminal.say(f"WRONG OR FAILED: {line}")
    return 1 if wrong else 0


def compare(options: argparse.Namespace, suite: str) -> int:
    """What a call and a compilation cost beside lax, on this machine."""
    content = {"suite": suite, "environment": _environment(options), **overhead.measured(suite)}
    overhead.show(content)
    _write(options, suite, content)
    return 0


def together(options: argparse.Namespace, suite: str) -> int:
    """Measures several devices; the file in the folder ``--out`` is written after each case."""
    if not machine.has_gpu() and not options.shrink:
        terminal.say("No CUDA GPU here: --shrink 14 measures small arrays on CPU devices.")
        return 2
    chosen = devices.chosen(options.only, options.shrink)
    content: dict[str, Any] = {"measured": [], "left_out": [case.name for case in chosen]}
    environment = _environment(options) | {"devices": devices.counts()[-1]}
    for found in devices.measured(chosen, options.budget, *devices.effort(options.shrink)):
        content = {"suite": suite, "environment": environment, **found}
        _write(options, suite, content, silent=True)
        terminal.say(devices.line(content["measured"][-1]))
    terminal.say(f"left out: {', '.join(content['left_out']) or 'nothing'}")
    wrong = devices.wrong(content)
    for line in wrong:
        terminal.say(f"WRONG OR FAILED: {line}")
    return 1 if wrong or content["left_out"] else 0


def beside(options: argparse.Namespace, suite: str) -> int:
    """Measures calls on this machine's processor beside other plain JAX."""
    cases = [*cpu_scans.cases(), *cpu_reductions.cases()]
    return _on_a_cpu(options, suite, cases, RESULTS / "cpu" / "beside-plain-jax.json")


def shrunk(options: argparse.Namespace, suite: str) -> int:
    """Measures a suite of a GPU on this machine's processor, with smaller operands."""
    cases = SUITES[suite].cases(options.shrink or SHRUNK_ON_A_CPU[suite])
    path = RESULTS / f"{suite}-{machine.device_name()}.json"
    return _on_a_cpu(options, suite, [comparison(case) for case in cases], path)


def _on_a_cpu(
    options: argparse.Namespace, suite: str, cases: Sequence[Comparison], usual: pathlib.Path
) -> int:
    """Measures comparisons, and writes them to ``usual`` unless the options say otherwise."""
    cases = [case for case in cases if options.only in case.name]
    if not cases:
        sys.exit(f"no case's name contains {options.only!r}")
    entries = []
    company = machine.company()
    on_cpu = jax.default_device(jax.local_devices(backend="cpu")[0])
    with on_cpu, terminal.progress("measuring", len(cases)) as advance:
        bandwidth = cpu.copy_speed()
        for entry in cpu.measured(cases, bandwidth):
            entries.append(entry)
            advance(cpu.line(entry))
    cpu.show(entries)
    content = {
        "suite": suite,
        "environment": _environment(options) | company,
        "copy": {"bytes_per_second": round(bandwidth)},
        "cases": entries,
    }
    if options.out or not options.only:
        terminal.write(options.out or usual, content)
    wrong = cpu.wrong(entries)
    for text in wrong:
        terminal.say(f"WRONG OR FAILED: {text}")
    return 1 if wrong else 0


def look(options: argparse.Namespace) -> int:
    """Compiles kernels, without a GPU, and compares with a report; 1 if something is worse."""
    missing = engines.why_no_triton()
    if missing is not None:
        terminal.say(f"static: {missing}")
        return 2
    turns = static.turns(by_turns=options.by_turns)
    names = [name for name in turns if options.only in name]
    if not names:
        sys.exit(f"no call's name contains {options.only!r}")
    versions = static.versions()
    terminal.say(", ".join(f"{name} {version}" for name, version in versions.items()))
    if options.compare:
        compiler = json.loads(options.compare.read_text(encoding="utf-8"))["environment"]["triton"]
        if compiler != versions["triton"]:
            install = f"python -m pip install triton=={compiler}"
            terminal.say(f"{options.compare} is of triton {compiler}: {install}")
            return 2
    kernels: list[static.Looks] = []
    known: list[static.Looks] = []
    if options.compare and not options.out:
        committed, environment = static_table.read(options.compare)
        known = committed if environment == versions else []
    looks_of = functools.partial(static.looks_of, known=known)
    with terminal.progress("compiling", len(names)) as advance:
        calls = [(name, turns[name]) for name in names]
        for of_call in static.measured(calls, options.jobs, looks_of):
            kernels += of_call
            advance("")
    static_table.show(kernels)
    path = options.out
    if path is None and not (options.only or options.compare or options.by_turns):
        path = RESULTS / f"static-{versions['target'].replace('_', '-')}.json"
    if path is not None:
        static_table.write(path, kernels, versions)
    looked = {name: turns[name] for name in names}
    return _compared(options.compare, looked, kernels, versions) if options.compare else 0


def _compared(
    path: pathlib.Path,
    looked: Mapping[str, Sequence[str]],
    kernels: Sequence[static.Looks],
    versions: dict[str, str],
) -> int:
    committed, environment = static_table.read(path)
    others = [f"{name} {v}" for name, v in environment.items() if versions.get(name) != v]
    if others:
        terminal.say(f"{path} is of {', '.join(others)}")
    unseen = dict.fromkeys(static_cases.calls(), ())
    by = {**dict.fromkeys((looks.call for looks in committed), static.here()), **unseen, **looked}
    committed = [looks for looks in committed if looks.engine in by[looks.call]]
    found = static_table.differences(committed, kernels)
    for difference in found:
        terminal.say(difference.text)
    worse = sum(difference.worse for difference in found)
    terminal.say(f"{len(kernels)} kernels: {len(found)} differ from {path}, {worse} are worse")
    return 1 if worse else 0


def dry_run(options: argparse.Namespace, suites: Sequence[str]) -> int:
    """Lowers every case for CUDA as it is, and checks its answer here on small operands.

    Where the operation needs a GPU the answer is that of the same operation by another method.
    """
    status = 0
    for suite in suites:
        outcomes = _tried(options, suite)
        report.show_cases(outcomes, None)
        if options.out:
            _write(options, suite, report.as_json(suite, outcomes, None, _environment(options)))
        status = max(status, _status(outcomes))
    terminal.say(
        "Dry run: every case was lowered for CUDA at its full size; answers are of small "
        "operands on this machine, those of strategies that need a GPU by the default method; "
        "nothing was timed."
    )
    return status


def _tried(options: argparse.Namespace, suite: str) -> list[Outcome]:
    cases = SUITES[suite].cases
    full = cases(0)
    chosen = _chosen(full, options.only)
    pairs = zip(cases(options.shrink or SMALL), full, strict=True)
    small = [case.portable for case, original in pairs if original in chosen]
    executables = compile_all(programs_of(small), lambda: None)
    outcomes = []
    with terminal.progress("lowering and checking", len(chosen)) as advance:
        computed = measure.run_all(small, executables, None, 1, 1, lambda _: None)
        for case, outcome in zip(chosen, computed, strict=True):
            outcome.case = case
            outcome.failure = _lowering_failure(case) or outcome.failure
            for name in (*case.peers, *(peer.name for peer in case.outside)):
                outcome.peers[name] = "not timed"
            outcomes.append(outcome)
            advance(report.line(outcome))
    return outcomes


def _lowering_failure(case: Case) -> str | None:
    try:
        failures = (_why_not_lowered(program) for program in plan(case).programs())
        return next((failure for failure in failures if failure), None)
    except Exception as error:  # reported with the case, whatever it is
        return machine.told(error)


@functools.cache
def _why_not_lowered(program: Program) -> str | None:
    try:
        program.lower_for_cuda()
    except Exception as error:  # reported with the case, whatever it is
        return machine.told(error)
    return None


def _chosen(cases: Sequence[Case], only: str) -> list[Case]:
    """The cases named, and those that their ratios refer to."""
    named = [case for case in cases if only in case.name]
    if not named:
        sys.exit(f"no case's name contains {only!r}")
    needed = {case.name for case in named}.union(*(case.relatives for case in named))
    return [case for case in cases if case.name in needed]


def _environment(options: argparse.Namespace) -> dict[str, Any]:
    environment = machine.record(options.commit)
    terminal.say(", ".join(f"{name} {value}" for name, value in environment.items() if value))
    return environment


def _write(
    options: argparse.Namespace, suite: str, content: dict[str, Any], *, silent: bool = False
) -> None:
    """To ``--out``, which of suites with a limit of time is the folder, or to the usual file."""
    path: pathlib.Path = options.out or RESULTS
    if options.out is None or options.suite in SECONDS:
        path /= f"{suite}-{machine.device_name()}.json"
    terminal.write(path, content, silent=silent)


def _status(outcomes: Sequence[Outcome]) -> int:
    bad = [outcome for outcome in outcomes if not outcome.is_right]
    for outcome in bad:
        why = outcome.failure or f"{outcome.case.check.measures}: {outcome.error}"
        terminal.say(f"WRONG OR FAILED: {outcome.case.name}: {why}")
    return 1 if bad else 0
