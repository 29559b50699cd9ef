"""Libraries outside JAX beside the benchmarks' cases, with fakes where they are not installed."""

from __future__ import annotations

import math
import stat

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.cases.case import Peer
from benchmarks.measuring import cub, machine, measure, outside
from benchmarks.measuring.measure import Stopwatch, Times
from benchmarks.measuring.programs import compile_all, found, plan, programs_of
from benchmarks.reporting import report
from tests.benchmarks.test_benchmarks import TINY, case


class Fake:
    """A library that finds the sum, three elements of it wrong by a half."""

    installed: str | None = "1.2.3"
    released = started = 0

    def version(self):
        return self.installed

    def start(self):
        self.started += 1

    def time(self, operation, axis, operands, like, iterations):
        if operation != "cumsum":
            raise NotImplementedError(operation)
        (x,) = operands
        result = np.cumsum(np.asarray(x), axis)
        result[:3] += 0.5
        assert result.shape == like.shape
        return [3.0] * iterations, jnp.asarray(result)

    def release(self):
        self.released += 1


@pytest.fixture
def fake(monkeypatch):
    library = Fake()
    monkeypatch.setitem(outside.LIBRARIES, "torch", library)
    return library


def measured(operation="cumsum"):
    x = jnp.arange(10, dtype=jnp.float32)
    peer = Peer("torch", operation)
    return outside.measure(peer, (x,), jnp.cumsum(x), outside.distance, 4)


def test_a_library_is_timed_and_its_answer_compared(fake):
    assert measured() == ([3.0] * 4, 0.5)
    assert fake.released == 1
    assert outside.available("torch")
    assert machine.record()["torch"] == "1.2.3"


def test_operations_of_several_operands_are_prepared_for_a_shape():
    keys = jnp.array([1, 4, 1], jnp.int32)
    call = outside.CuPy().prepared(np, "bincount", 0, [keys], jnp.zeros(6, jnp.int32))
    np.testing.assert_array_equal(call(), [0, 2, 0, 0, 1, 0])


def test_an_absent_library_and_one_that_fails_say_so(fake):
    assert measured("cumprod") == "NotImplementedError: cumprod"
    assert fake.released == 1
    fake.installed = None
    assert measured() == "not installed"
    assert not outside.available("torch")


def test_only_the_libraries_of_the_cases_are_started(fake):
    outside.start([Peer("torch", "cumsum"), Peer("torch", "cummax"), Peer("cupy", "cumsum")])
    assert fake.started == 1


class Clock(Stopwatch):
    """A stopwatch that takes no GPU, beside which 1000 bytes are copied in a microsecond."""

    def __init__(self):
        self.words = 250
        self._copies = [[("copy", 0.002)]]

    def wake(self):
        pass

    def time(self, compiled, operands, rounds, iterations):
        jax.block_until_ready(compiled(*operands))
        return Times((7.0,) * rounds * iterations, ())

    def time_copy(self, rounds, iterations):
        pass


@pytest.mark.usefixtures("fake")
def test_libraries_stand_among_the_peers_of_a_case(monkeypatch):
    monkeypatch.setitem(outside.LIBRARIES, "cub", Fake())
    one = case("strategies", "sum, float32, 2^16, auto", TINY)
    executables = compile_all(programs_of([one]), lambda: None)
    (done,) = measure.run_all([one], executables, Clock(), 1, 2, lambda _: None)
    assert done.is_right
    assert done.peer_errors == {"torch.cumsum": 0.5}
    assert done.peers["cub.InclusiveSum"] == "NotImplementedError: InclusiveSum"

    (entry,) = report.as_json("strategies", [done], Clock(), {})["cases"]
    assert entry["share"] == round(8 * 2**10 / 1000 / 7, 4)
    theirs = entry["peers"]["torch.cumsum"]
    assert theirs["median_us"] == 3.0
    assert theirs["error"] == 0.5
    assert theirs["clock"] == "CUDA events"
    assert "error" not in entry["peers"]["lax.cumsum"]
    assert (entry["line"], entry["at"]) == ("auto", 2**10)


def test_distances():
    infinity = jnp.array([jnp.inf, 1.0, -2.0])
    assert outside.distance(infinity, infinity) == 0
    assert outside.distance(infinity, jnp.array([jnp.inf, 0.0, 2.0])) == 4
    assert math.isnan(outside.distance(jnp.array([jnp.nan]), jnp.array([1.0])))
    unsigned = jnp.array([0, 255], jnp.uint8), jnp.array([255, 255], jnp.uint8)
    assert outside.distance(*unsigned) == 255
    assert outside.distance(jnp.array([3 + 4j]), jnp.array([0j])) == 5


@pytest.mark.parametrize(("milliseconds", "calls"), [(0.001, 6), (80.0, 2), (900.0, 1)])
def test_long_calls_are_timed_less_often(milliseconds, calls):
    now = [0.0]

    def call():
        now[0] += milliseconds
        return "result"

    def record():
        return now[0]

    def elapsed(begin, end):
        return end - begin

    times, result = outside.timed(call, record, elapsed, lambda: None, 6)
    np.testing.assert_allclose(times, [1e3 * milliseconds] * calls)
    assert result == "result"


def test_what_the_compiler_of_cub_complains_of_is_an_answer(monkeypatch, tmp_path):
    compiler = tmp_path / "nvcc"
    compiler.write_text("#!/bin/sh\necho no such architecture >&2\nexit 3\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(cub, "nvcc", lambda: str(compiler))
    monkeypatch.setattr(cub, "capability", lambda: "12")
    library = cub.Cub()
    monkeypatch.setattr(library, "version", lambda: "13.0")
    monkeypatch.setitem(outside.LIBRARIES, "cub", library)
    x = jnp.arange(4, dtype=jnp.float32)
    for _ in range(2):
        answer = outside.measure(Peer("cub", "InclusiveSum"), (x,), x, outside.distance, 1)
        assert answer == "RuntimeError: nvcc: no such architecture"


def test_segments_in_the_forms_that_cub_takes():
    heads = jnp.array([1, 0, 0, 1, 1, 0], jnp.uint8)
    np.testing.assert_array_equal(cub.keys_of(heads), [1, 1, 1, 2, 3, 3])
    ids = jnp.array([0, 0, 2, 2, 2], jnp.int32)
    np.testing.assert_array_equal(cub.offsets_of(ids, 4), [0, 2, 2, 5, 5])


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("strategies", "sum, float32, 2^20, auto"),
        ("dtypes", "sum, float64, 2^27"),
        ("skew", "segmented sum, segments of 10, 2^26, auto"),
        ("reductions", "whole sum, float32, 2^28, auto"),
        ("reductions", "segment_sum, segments of 3, float32, 2^27, auto"),
        ("functions", "csr_matvec, power law, 2^26"),
        ("functions", "csr_matmat, four columns, power law, 2^26"),
        ("functions", "nonzero, 50%, 2^26"),
        ("functions", "pack, 50%, float32, 2^26"),
        ("functions", "run_length_encode, int32, 2^26 in runs of 16"),
        ("functions", "unique_sorted, int32, 2^26 of 4194304"),
        ("functions", "histogram, 256 keys, 2^26"),
        ("functions", "segment_sort, float32, 2^24 into 131072"),
    ],
)
def test_installed_libraries_find_what_jscan_does(suite, name):
    one = case(suite, name, 8)
    executables = compile_all(programs_of([one]), lambda: None)
    programs = plan(one)
    operands = measure.built(programs.build, one, executables)
    with jax.enable_x64(programs.run.x64):
        like = jax.tree.leaves(found(executables, programs.run)(*operands))[0]
        for peer in one.outside:
            answer = outside.measure(peer, operands, like, outside.distance, 3)
            if not outside.available(peer.library):
                assert answer == "not installed"
                continue
            assert not isinstance(answer, str), answer
            times, error = answer
            assert min(times) > 0
            assert error == 0
