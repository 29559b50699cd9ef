"""Sums of one number of elements as many short rows and as few long ones, along either axis."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp

from benchmarks import answers, inputs, methods, operations
from benchmarks.case import Case, Inputs
from benchmarks.outside import Peer
from benchmarks.strategies import LARGEST_TILE, LONG, SHORT
from benchmarks.subjects import Subject

EXPONENT = 26
ROWS = (0, 4, 8, 10, 12, 16, 20)  # of two
BY_EVERY_STRATEGY = {1: (8, 16), 0: (10,)}
AXES = {1: "last", 0: "first"}


def cases(shrink: int = 0) -> list[Case]:
    """All of them, with sizes divided by about 2^shrink."""
    result = []
    for axis, where in AXES.items():
        for rows in ROWS:
            if axis == 0 and rows == 0:
                continue  # a scan of one element is no kernel
            shape = _shape(rows, shrink)
            subject = _subject(shape, axis)
            for method in _methods(rows, axis):
                name = f"sum of {shape}, {where} axis, float32, {method}"
                result.append(subject.case(name, method, group=f"{where} axis", at=shape[axis]))
    return result


def _methods(rows: int, axis: int) -> tuple[str, ...]:
    if rows not in BY_EVERY_STRATEGY[axis]:
        return ("auto",)
    scanned = 2 ** (EXPONENT - rows) if axis else 2**rows
    return SHORT if 4 * scanned <= LARGEST_TILE else LONG


def _shape(rows: int, shrink: int) -> tuple[int, int]:
    """2^rows rows, or fewer and shorter ones, but no two shapes alike."""
    fewer = rows * shrink // EXPONENT
    return 1 << (rows - fewer), 1 << (EXPONENT - rows - (shrink - fewer))


def _subject(shape: tuple[int, int], axis: int) -> Subject:
    return Subject(
        Inputs(inputs.signs(shape, jnp.float32)),
        functools.partial(methods.cumsum, axis=axis),
        answers.sum_of_integers(axis),
        8 * math.prod(shape),
        {"lax.cumsum": operations.lax_cumsum(axis)},
        (Peer("torch", "cumsum", axis), Peer("cupy", "cumsum", axis)),
    )
