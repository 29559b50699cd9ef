"""Times until a call is compiled, on each engine that is there, in processes of their own.

    python -m benchmarks.tools.compile_times

prints a table of medians over ``--repeats`` processes, at 2^20 elements:

    import jscan    which brings no engine and no compiler
    first           the first call of a process that has compiled nothing: it imports both, too
    cold            a call that the process has not compiled
    warm            the same call, with JAX's caches cleared: an engine may remember its kernels
    stored          a call that JAX's compilation cache holds, in another process

Each ends with the first result, since what jax-triton makes is loaded, and compiled to the end,
when it first runs. On a machine without a GPU calls are lowered for an H200, and nothing is stored:
jax-triton's compiler works while it is lowered, and what compiles the first engine's kernels, XLA,
is not there.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Times = dict[str, float]
"""Milliseconds by the name of a row and a column."""


def timed() -> Times:
    """What this process takes, which has imported neither jax nor jscan."""
    import jax  # imported by itself, so that the next line pays for jscan alone

    start = time.perf_counter()
    import jscan

    found = {"import jscan": _since(start)}

    from benchmarks.cases.case import Operation
    from benchmarks.measuring import machine, overhead

    is_gpu = machine.has_gpu()

    def compiled(operation: Operation, operands: Sequence[Any]) -> float:
        def call(*operands: Any) -> Any:  # new for jax
            return operation(*operands)

        start = time.perf_counter()
        if is_gpu:
            jax.block_until_ready(jax.jit(call)(*operands))
        else:
            machine.lower_for_cuda(call, operands)
        return _since(start)

    def operands_of(pair: overhead.Pair) -> Sequence[Any]:
        if not is_gpu:
            return pair.shapes(overhead.LENGTH)
        return jax.block_until_ready(pair.operands(overhead.LENGTH))

    pairs = [(pair, operands_of(pair)) for pair in overhead.COMPILED]
    found["first"] = compiled(jscan.cummin, pairs[0][1])
    for state in ("cold", "warm"):
        for pair, operands in pairs:
            if state == "warm":
                jax.clear_caches()
            found[f"{pair.name}/{state}"] = compiled(pair.jscan, operands)
    return found


def _since(start: float) -> float:
    return 1e3 * (time.perf_counter() - start)


# --- processes ----------------------------------------------------------------------------------


def engines_here() -> list[str]:
    """The engines that are installed."""
    from jscan import engines

    return [name for name in engines.NAMES if engines.why_missing(name) is None]


def measured(engine: str) -> Times:
    """The times of an engine, those with a stored program among them where there is a GPU."""
    from benchmarks.measuring import machine

    with tempfile.TemporaryDirectory() as folder:
        found = _in_a_process(engine, folder, {})
        if machine.has_gpu():
            stored = {
                "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            }
            _in_a_process(engine, folder, stored)
            again = _in_a_process(engine, folder, stored)
            for name, took in again.items():
                if name.endswith("/cold"):
                    found[name.replace("/cold", "/stored")] = took
    return found


def _in_a_process(engine: str, folder: str, environment: Mapping[str, str]) -> Times:
    """`timed` in a process whose compilers find nothing that others left."""
    told = {
        **os.environ,
        "JSCAN_ENGINE": engine,
        "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of the first engine
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several processes share the GPU
        "TRITON_CACHE_DIR": tempfile.mkdtemp(dir=folder),
        "CUDA_CACHE_DISABLE": "1",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tools.compile_times", "--here"],
        env=told,
        cwd=pathlib.Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Times = json.loads(done.stdout.splitlines()[-1])
    return found


def medians(runs: Sequence[Times]) -> Times:
    """The median of each time."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def rows(times: Mapping[str, Times]) -> Iterator[list[str]]:
    """A line for each call, of a cell for each engine: cold, warm and stored."""
    cells: dict[str, dict[str, list[str]]] = {}
    for engine, found in times.items():
        for name, took in found.items():
            of = cells.setdefault(name.split("/")[0], collections.defaultdict(list))
            of[engine].append(f"{took:.0f}")
    for name, by_engine in cells.items():
        yield [name, *(", ".join(by_engine[engine]) for engine in times)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table, or what a process found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tools.compile_times")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each kind")
    parser.add_argument("--here", action="store_true", help="the times of this process, as JSON")
    options = parser.parse_args(arguments)
    if options.here:
        sys.stdout.write(json.dumps(timed()) + "\n")
        return

    from benchmarks.measuring import machine
    from benchmarks.reporting import markdown, terminal

    names = engines_here()
    runs: dict[str, list[Times]] = {name: [] for name in names}
    for _ in range(options.repeats):
        for name in names:
            runs[name].append(measured(name))
    is_gpu = machine.has_gpu()
    terminal.say("ms: cold, warm, stored" if is_gpu else "ms of lowering for an H200: cold, warm")
    terminal.say(markdown.table(["call", *names], rows({n: medians(r) for n, r in runs.items()})))


if __name__ == "__main__":
    main()
