"""What every public function says of every wrong value of every argument.

An error is a TypeError or a ValueError that begins with the function and names the argument, and
that a statement of this package raises: no mishap inside jax, NumPy or jscan. A note says which
page of the documentation explains the argument, and the page has that heading.
"""

from __future__ import annotations

import inspect
import linecache
import pathlib
import re
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import pytest

import jscan
from jscan import networks
from jscan.advice import SEE
from tests.docs.headings import leads_somewhere
from tests.errors.function import Function
from tests.errors.public_functions import FUNCTIONS
from tests.errors.wrong_values import Errors

PACKAGE = pathlib.Path(inspect.getfile(jscan)).parent

every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
every_argument = pytest.mark.parametrize(
    ("function", "argument"),
    [
        pytest.param(function, argument, id=f"{function.name}-{argument}")
        for function in FUNCTIONS
        for argument in function.wrong
    ],
)


def complaint(
    call: Callable[[], Any], function: Function, argument: str, expected: Errors
) -> str | None:
    """What is wrong with how a wrong call fails; None if nothing."""
    try:
        call()
    except (TypeError, ValueError) as error:
        raised = error
    else:
        return "works"
    message = str(raised)
    if not isinstance(raised, expected):
        return f"raises {raised!r}"
    if not message.startswith(f"jscan.{function.name}: "):
        return f"does not begin with the function: {message}"
    if not re.search(rf"\b{argument}\b", message):
        return f"does not name the argument: {message}"
    places = [note.removeprefix(SEE) for note in raised.__notes__ if note.startswith(SEE)]
    if not (len(places) == 1 and leads_somewhere(places[0])):
        return f"does not lead into the documentation: {places}"
    *_, (frame, number) = traceback.walk_tb(raised.__traceback__)
    file = frame.f_code.co_filename
    line = linecache.getline(file, number)
    if PACKAGE not in pathlib.Path(file).parents or not line.strip().startswith("raise "):
        return f"is raised by {file}:{number}: {line}"
    return None


def run(place: str, function: Function, arguments: dict[str, Any], argument: str) -> Any:
    """A call, inside ``jit`` unless it is "eager"; there valid arrays are traced.

    So is the argument of that name where the place is "traced".
    """
    if place == "eager":
        return function.call(**arguments)
    given = {
        name: value
        for name, value in arguments.items()
        if (name in function.traced and value is function.valid[name])
        or (name == argument and place == "traced")
    }
    return jax.jit(lambda given: function.call(**{**arguments, **given}))(given)


@every_function
def test_the_valid_call_works(function):
    for place in ("eager", "jit"):
        run(place, function, function.valid, "")


@every_argument
def test_a_wrong_value_is_named(function: Function, argument: str):
    complaints = {}
    for wrong in function.wrong[argument]:
        arguments = {**function.valid, argument: wrong.value}
        for place in wrong.places:
            if place != "traced" or wrong.can_be_traced:
                call = partial(run, place, function, arguments, argument)
                complaints[wrong.label, place] = complaint(call, function, argument, wrong.error)
    assert not {case: found for case, found in complaints.items() if found}


@every_function
def test_a_wrong_combination_is_named(function: Function):
    complaints = {}
    for misuse in function.misuses:
        arguments = {**function.valid, **misuse.arguments}
        for place in ("eager", "jit"):
            call = partial(run, place, function, arguments, misuse.argument)
            found = complaint(call, function, misuse.argument, misuse.error)
            complaints[misuse.label, place] = found
    assert not {case: found for case, found in complaints.items() if found}


@pytest.mark.parametrize(
    "function", [f for f in FUNCTIONS if "fn" in f.valid], ids=lambda f: f.name
)
@pytest.mark.parametrize("error", [LookupError, TypeError, ValueError])
def test_what_an_operator_raises_passes_through(function, error):
    def fn(*_):
        raise error("mine")

    with pytest.raises(error) as caught:
        function.call(**{**function.valid, "fn": fn})
    assert caught.value.args == ("mine",)


def public(scope: Any) -> dict[str, Any]:
    """The functions and classes of a module, or the methods of a class, that people call."""
    protocol = ("tree_flatten", "tree_unflatten")  # these are for JAX
    return {
        name: value
        for name, value in inspect.getmembers(scope, callable)
        if not name.startswith("_") and name not in protocol
        if getattr(value, "__module__", "").startswith("jscan")
    }


def test_every_public_function_is_tested():
    functions = {name for name, value in public(jscan).items() if not inspect.isclass(value)}
    functions |= {f"networks.{name}" for name in public(networks)}
    functions |= {f"Segments.{name}" for name in public(jscan.Segments)}
    functions |= {"SegmentPlan", *(f"SegmentPlan.{name}" for name in public(jscan.SegmentPlan))}
    of_engines = {"engine", "triton_source"}  # tests/api/test_engines.py and test_programs.py
    assert functions - of_engines == {function.name for function in FUNCTIONS}


@every_function
def test_every_parameter_is_tested(function):
    parameters = set(inspect.signature(function.call).parameters)
    assert parameters == set(function.valid) == set(function.wrong)
    assert all(function.wrong.values())
