"""Notes that lead from an error into the documentation."""

from __future__ import annotations

import traceback
from functools import partial

import jax
import jax.numpy as jnp
import pytest

import jscan
from jscan import advice, capabilities, engines
from jscan.advice import ARGUMENTS, SEE
from tests.docs.headings import leads_somewhere


def notes(error: BaseException) -> list[str]:
    """The notes of this package at an error."""
    return [note for note in getattr(error, "__notes__", ()) if note.startswith(SEE)]


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments_lead_to_headings(argument):
    assert leads_somewhere(ARGUMENTS[argument])


@pytest.mark.parametrize("place", [advice.ENGINES, advice.VERSIONS, advice.WITHOUT_GPU])
def test_places_are_headings(place):
    assert leads_somewhere(place)


X = jnp.ones(4)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (partial(jscan.cumsum, X, axis=7), "api/scans.md#cumsum"),
        (partial(jscan.cumsum, X, segments=X), "ragged-data.md#four-ways-to-say-it"),
        (partial(jscan.cumsum, X, method="quick"), "how-it-works.md#methods"),
        (partial(jscan.Segments.from_offsets, [1, 3]), "ragged-data.md#offsets"),
        (partial(jscan.Segments.from_flags, X), "ragged-data.md#flags"),
        (partial(jscan.SegmentPlan, X), "ragged-data.md#reduce-by-segments"),
        (partial(jscan.engine, "cuda"), "compatibility.md#engines"),
        (partial(jscan.networks.size, jscan.cumsum, 4), "api/networks.md#size"),
    ],
)
def test_an_error_names_its_page(call, place):
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert notes(raised.value) == [f"{SEE}{place}"]
    assert f"\n{SEE}{place}\n" in "".join(traceback.format_exception(raised.value))


@pytest.mark.skipif("jax.default_backend() == 'gpu'", reason="it runs there")
@pytest.mark.parametrize("jit", [lambda call: call, jax.jit])
def test_a_method_for_another_platform_names_its_page(jit):
    call = jit(lambda x: jscan.cumsum(x, method="lookback"))
    with pytest.raises(ValueError, match="needs a CUDA GPU") as raised:
        call(X)
    assert notes(raised.value) == [f"{SEE}how-it-works.md#methods"]


def test_errors_of_other_makers_have_no_note():
    def fails(*_):
        raise ValueError("an operator's own error")

    with pytest.raises(ValueError, match="own error") as raised:
        jscan.associative_scan(fails, X)
    assert notes(raised.value) == []


def test_a_call_inside_of_a_call_leaves_one_note():
    def sums(a, b):
        return jscan.cumsum(a, axis=7) + b

    with pytest.raises(ValueError, match="axis=7") as raised:
        jscan.associative_scan(sums, X)
    assert notes(raised.value) == [f"{SEE}api/scans.md#cumsum"]


def test_what_is_missing_names_its_page(monkeypatch):
    monkeypatch.setattr(engines, "why_missing", lambda name: f"{name} is not installed")
    with pytest.raises(ImportError, match="not installed") as raised:
        jscan.engine("jax-triton")
    assert notes(raised.value) == [f"{SEE}{advice.ENGINES}"]


def test_a_gpu_that_nobody_knows_names_its_page():
    with pytest.raises(RuntimeError, match="no compute capability") as raised:
        capabilities.of_kind("Abacus")
    assert notes(raised.value) == [f"{SEE}{advice.ENGINES}"]
