"""Random calls of everything that scans, against loops; examples.py says what and how many."""

from __future__ import annotations

import pytest

from tests.fuzz import devices as fuzz_devices
from tests.fuzz import functions as fuzz_functions
from tests.fuzz import programs as fuzz_programs
from tests.fuzz import recurrences as fuzz_recurrences
from tests.fuzz.examples import METHODS, PARTS, SUITES, forms, fuzzed

pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")


test_scans = fuzzed("scans")(fuzz_programs.check)
test_reductions = fuzzed("reductions")(fuzz_programs.check)
test_recurrences = fuzzed("recurrences", fuzz_recurrences.recurrence)(fuzz_recurrences.check)
test_vectors = fuzzed("vectors", fuzz_functions.vector)(fuzz_functions.check_vector)
test_derivatives = fuzzed("derivatives", fuzz_functions.derivative)(fuzz_functions.check_derivative)
test_zeros = fuzzed("zeros", fuzz_functions.zeros)(fuzz_functions.check_zeros)
test_devices = fuzzed("devices", fuzz_devices.divided)(fuzz_devices.check)


def test_the_parts_are_all_dealt_out_here_and_again_on_a_gpu():
    here, interpreted, gpu = (sum(parts) for parts in zip(*SUITES.values(), strict=True))
    assert here + interpreted == gpu == PARTS


def test_forms_are_of_many_kinds():
    here, interpreted = forms("here"), forms("interpreted")
    assert {f.method for f in interpreted if f.suite == "scans"} == set(METHODS)
    assert len({f.subject for f in here}) >= 12
    assert len({f.segments for f in here}) >= 8
    assert len({f.wrapper for f in here}) == 5
    assert sum(0 in f.shape for f in here) < len(here) / 10
