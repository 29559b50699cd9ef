"""Every strategy, for every operator on every dtype, forwards and in reverse, whole and segmented.

Interpreted kernels cost seconds a case, so each strategy meets some operators there, each in one
form and on one dtype; the whole product is `thorough`, and runs on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscan
from jscan import operators
from jscan.kernels import tuning
from tests import reference
from tests.cases import (
    BY_NAME,
    FORMS,
    INTEGERS,
    NUMBERS,
    form_name,
    head_flags,
    highest,
    values,
)
from tests.engines import Engine
from tests.functions import affine, last_flagged, multiply_matrices
from tests.kernels.test_lowering import cuda_program

SHORT = tuning.Tuning(length=16, lanes=1, warps=1, window=4, strip=8)
MIDDLE = tuning.Tuning(length=1024, lanes=1, warps=2, window=64, strip=256)
NAMES = (
    "lookback",
    "serial_lookback",
    "chained",
    "repeatable",
    "reduce_then_scan",
    "scan_then_propagate",
)

ENGINES = [
    Engine("block-interpreted", "block", (65,), interpreted=True),
    *(Engine(f"{name}-interpreted", name, (300,), interpreted=True, tile=SHORT) for name in NAMES),
    Engine("block-gpu", "block", (1000,), gpu=True),
    Engine("lookback-gpu", "lookback", (9001,), gpu=True),
    # Tiles that a device is tuned for hold the whole row, or take the compiler twice as long.
    *(Engine(f"{name}-gpu", name, (9001,), gpu=True, tile=MIDDLE) for name in NAMES[1:]),
]


@pytest.fixture
def strategy(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The strategy to test, active for the length of the test."""
    with request.param.active() as active:
        yield active


@dataclass(frozen=True)
class Subject:
    """An operator, the same in NumPy, its identity, its dtypes, and elements of one."""

    operator: Callable[[Any, Any], Any]
    combine: Callable[[Any, Any], Any]
    identity: Callable[[Any], Any]
    dtypes: tuple[str, ...]
    elements: Callable[[int, str], Any]


def several(count: int) -> Callable[[int, str], Any]:
    """Leaves of random values."""
    return lambda n, dtype: tuple(values("cumsum", (n,), dtype, seed) for seed in range(count))


def writes(n: int, dtype: str) -> Any:
    """Values, and which of them are written: the others are zero, as in the identity."""
    written, value = head_flags((n,), share=0.3, seed=9), values("cumsum", (n,), dtype)
    return written, np.where(written, value, np.zeros((), value.dtype))


def one(n: int, dtype: str) -> Any:
    """A leaf of random values."""
    return values("cummax", (n,), dtype)


# Operators whose results are exact, so that no bound is needed; those that round are among the
# cumulative functions.
SUBJECTS = {
    "bitwise_and": Subject(
        operators.bitwise_and, np.bitwise_and, lambda d: ~np.zeros((), d)[()], INTEGERS, one
    ),
    "bitwise_or": Subject(
        operators.bitwise_or, np.bitwise_or, lambda _: 0, (*INTEGERS, "bool"), one
    ),
    "bitwise_xor": Subject(operators.bitwise_xor, np.bitwise_xor, lambda _: 0, INTEGERS, one),
    "min of Booleans": Subject(operators.min, np.minimum, highest, ("bool",), one),
    "affine": Subject(operators.affine, affine, lambda _: (1, 0), INTEGERS, several(2)),
    "matrices": Subject(
        multiply_matrices, multiply_matrices, lambda _: (1, 0, 0, 1), INTEGERS, several(4)
    ),
    "last write": Subject(
        last_flagged,
        last_flagged,
        lambda d: (False, np.zeros((), d)[()]),
        (*NUMBERS, "bool"),
        writes,
    ),
}
OPERATORS = (*BY_NAME, *SUBJECTS)
FEW = ("cumsum", "cumlogsumexp", "bitwise_xor", "affine", "last write")


def dtypes(name: str) -> tuple[str, ...]:
    """What an operator takes."""
    return BY_NAME[name].dtypes if name in BY_NAME else SUBJECTS[name].dtypes


def check(engine: Engine, name: str, dtype: str, form: tuple[bool, bool, bool]) -> None:
    """Scans and compares with the sequential scan."""
    reverse, exclusive, segmented = form
    n = engine.longest
    flags = head_flags((n,), share=0.02) if segmented else None
    options: dict[str, Any] = {"reverse": reverse, "exclusive": exclusive}
    if name in BY_NAME:
        x = values(name, (n,), dtype)
        scanned = BY_NAME[name].function(x, segments=flags, method=engine.method, **options)
        BY_NAME[name].check(scanned, x, flags=flags, **options)
        return
    subject = SUBJECTS[name]
    elems, identity = subject.elements(n, dtype), subject.identity(np.dtype(jnp.dtype(dtype)))
    if not isinstance(subject.operator, operators.Operator):
        options["identity"] = identity
    actual = jscan.associative_scan(
        subject.operator, elems, segments=flags, method=engine.method, **options
    )
    expected = reference.scan(
        subject.combine, elems, flags=flags, **{**options, "identity": identity}
    )
    jax.tree.map(reference.assert_equal, actual, expected)


def cases(index: int, engine: Engine) -> Iterator[Any]:
    """Every operator on every dtype.

    On a GPU each meets a form and its opposite, taken in turn, and the other six are thorough.
    Interpreted kernels meet a few in one form each, and the rest are thorough.
    """
    for number, name in enumerate(OPERATORS):
        # No count of dtypes has a factor of 11: each engine meets another one, while there are any.
        chosen = (11 * index + number) % len(dtypes(name))
        for place, dtype in enumerate(dtypes(name)):
            case = f"{engine.name}-{name}-{dtype}"
            if engine.gpu:
                first = (index + number + place) % 4
                two = [FORMS[first], FORMS[-1 - first]]
                others = [form for form in FORMS if form not in two]
                gpu, thorough = pytest.mark.gpu, pytest.mark.thorough
                yield pytest.param(engine, name, dtype, two, id=case, marks=gpu)
                marks = [gpu, thorough]
                yield pytest.param(engine, name, dtype, others, id=f"{case}-others", marks=marks)
                continue
            few = place == chosen and name in FEW
            one = [FORMS[(5 * number + 3) % len(FORMS)]]
            marks = [] if few else [pytest.mark.thorough]
            yield pytest.param(engine, name, dtype, one, id=case, marks=marks)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("strategy", "name", "dtype", "forms"),
    [case for index, engine in enumerate(ENGINES) for case in cases(index, engine)],
    indirect=["strategy"],
)
def test_every_operator_on_every_dtype(strategy, name, dtype, forms):
    for form in forms:
        check(strategy, name, dtype, form)


@pytest.mark.thorough
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize(
    "strategy", [e for e in ENGINES if not e.gpu], indirect=True, ids=lambda e: e.name
)
def test_every_operator_in_every_form(strategy, name, form):
    check(strategy, name, dtypes(name)[-1], form)


@pytest.mark.parametrize(("axis", "segmented"), [(0, False), (1, True), (2, False)])
@pytest.mark.parametrize(
    "strategy",
    [e for e in ENGINES if not e.gpu and e.method in ("chained", "scan_then_propagate")],
    indirect=True,
    ids=lambda e: e.name,
)
def test_rows_and_lanes(strategy, axis, segmented):
    x = np.random.default_rng(axis).integers(-99, 99, (3, 40, 5), dtype=np.int32)
    x = np.moveaxis(x, 1, axis)
    flags = head_flags(x.shape, share=0.1) if segmented else None
    actual = jscan.cumsum(x, axis, reverse=segmented, segments=flags, method=strategy.method)
    expected = reference.scan(np.add, x, axis=axis, reverse=segmented, flags=flags)
    reference.assert_equal(actual, expected)


@pytest.mark.product
@pytest.mark.parametrize(
    ("method", "kernels"),
    [
        ("serial_lookback", ["jscan_lookback"]),
        ("chained", ["jscan_chained"]),
        ("repeatable", ["jscan_repeatable"]),
        ("scan_then_propagate", ["jscan_tiles", "jscan_totals", "jscan_propagate"]),
        ("reduce_then_scan", ["jscan_part_totals", "jscan_totals", "jscan_parts"]),
    ],
)
@pytest.mark.parametrize("segmented", [False, True])
def test_the_kernels_of_a_strategy(method, kernels, segmented):
    def scan(x, flags):
        return jscan.cumsum(x, segments=flags if segmented else None, method=method)

    x = jax.ShapeDtypeStruct((2**20,), jnp.float32)
    program = cuda_program(scan, x, jax.ShapeDtypeStruct(x.shape, jnp.uint8))
    assert [name for name in kernels if name not in program] == []


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["chained", "scan_then_propagate"])
def test_twenty_runs_give_the_same_bits(method):
    x = jax.random.normal(jax.random.key(0), (2**22,))
    flags = jax.random.uniform(jax.random.key(1), x.shape) < 0.001

    @jax.jit
    def run(x, flags):
        affine = jscan.associative_scan(operators.affine, (jnp.cos(x), x), method=method)
        return *affine, *(jscan.cumsum(x, segments=f, method=method) for f in (None, flags))

    first = run(x, flags)
    for _ in range(20):
        for before, again in zip(first, run(x, flags), strict=True):
            assert before.tobytes() == again.tobytes()


@pytest.mark.product
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("method", NAMES)
def test_tiles_of_several_lanes(method, segmented):
    """Lanes that do not fill a tile, behind rows that do not fill one either."""
    x = np.random.default_rng(0).integers(-99, 99, (2, 37, 6), dtype=np.int32)
    flags = head_flags((37,), share=0.1) if segmented else None
    lanes = tuning.Tuning(length=8, lanes=4, warps=1, window=4, strip=4)
    with Engine(method, method, (), interpreted=True, tile=lanes).active():
        scanned = jscan.cumsum(x, 1, segments=flags, method=method)
        ids = np.sort(np.arange(37) % 5)
        sums = jscan.segment_sum(x[0, :, :], ids, 5, indices_are_sorted=True, method=method)
    reference.assert_equal(scanned, reference.scan(np.add, x, axis=1, flags=flags))
    expected = [x[0, ids == segment].sum(0) for segment in range(5)]
    np.testing.assert_array_equal(sums, expected)
