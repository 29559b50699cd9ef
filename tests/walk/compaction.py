"""Rows of the table: compaction, and runs of equal elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import jscan
from tests.walk.row import LENGTH, ROWS, Row

SIZE = 5
"""Of results: too few for some operands, and too many for others."""


def indices(form: str, *, trailing: tuple[int, ...] = ()) -> Row:
    """A row for nonzero."""
    shape = (LENGTH, *trailing)

    def expected(mask: Any) -> list[Any]:
        places = [np.full(SIZE, -1, np.int32) for _ in shape]
        for into, place in zip(places, np.nonzero(mask), strict=True):
            into[: len(place)] = place[:SIZE]
        return places

    return Row(
        f"nonzero {form}",
        ("nonzero",),
        lambda mask: jscan.nonzero(mask, size=SIZE, fill_value=-1),
        lambda rng: [rng.random(shape) < 0.4],
        ("n" + "." * len(trailing),),
        (".",) * len(shape),
        expected,
    )


def _begins(x: Any, xp: Any) -> Any:
    """Where runs of a row begin, as many as there are elements; its length where there is none."""
    first = xp.ones(1, bool)
    heads = xp.concatenate([first, x[1:] != x[:-1]])
    return xp.sort(xp.where(heads, xp.arange(LENGTH), xp.full(LENGTH, LENGTH)))


def _first_of_runs(x: Any, xp: Any) -> Any:
    """The first elements of runs, and zeros behind them."""
    begins = _begins(x, xp)[:SIZE]
    taken = xp.take(x, xp.minimum(begins, LENGTH - 1))
    return xp.where(begins < LENGTH, taken, xp.zeros_like(taken))


def _few(rng: np.random.Generator, dtype: str) -> Any:
    return rng.integers(0, 2, LENGTH).astype(dtype)


def encoded(form: str, dtype: str) -> Row:
    """A row for run_length_encode."""

    def expected(x: Any) -> Any:
        begins = _begins(x, np)
        lengths = np.diff([*begins, LENGTH])[:SIZE].astype(np.int32)
        return _first_of_runs(x, np), lengths, np.int32((begins < LENGTH).sum())

    def sequential(x: Any) -> Any:
        begins = _begins(x, jnp)
        lengths = jnp.diff(begins, append=LENGTH)[:SIZE].astype(jnp.int32)
        return _first_of_runs(x, jnp), lengths, (begins < LENGTH).sum(dtype=jnp.int32)

    return Row(
        f"run_length_encode {form}",
        ("run_length_encode",),
        lambda x: jscan.run_length_encode(x, size=SIZE),
        lambda rng: [_few(rng, dtype)],
        ("n",),
        (".", ".", ""),
        expected,
        sequential,
    )


def unique(form: str, dtype: str) -> Row:
    """A row for unique_sorted."""

    def by(xp: Any) -> Callable[..., Any]:
        def run(x: Any) -> Any:
            count = (_begins(x, xp) < LENGTH).sum().astype(np.int32)
            return _first_of_runs(x, xp), count

        return run

    return Row(
        f"unique_sorted {form}",
        ("unique_sorted",),
        lambda x: jscan.unique_sorted(x, size=SIZE),
        lambda rng: [np.sort(_few(rng, dtype))],
        ("n",),
        (".", ""),
        by(np),
        by(jnp),
    )


def decoded(form: str, *, fill: float = 0.0) -> Row:
    """A row for run_length_decode of rows, to a size that is too small for some lengths."""

    def by(xp: Any) -> Callable[..., Any]:
        def run(values: Any, lengths: Any) -> Any:
            ends = xp.cumsum(lengths)
            number = (xp.arange(2 * LENGTH)[:, None] >= ends[None, :]).sum(1)
            taken = xp.take(values, xp.minimum(number, LENGTH - 1), axis=0)
            there = xp.broadcast_to((number < LENGTH)[:, None], taken.shape)
            return xp.where(there, taken, xp.full_like(taken, fill))

        return run

    return Row(
        f"run_length_decode {form}",
        ("run_length_decode",),
        lambda values, lengths: jscan.run_length_decode(
            values, lengths, size=2 * LENGTH, fill_value=fill
        ),
        lambda rng: [rng.normal(size=(LENGTH, ROWS)), rng.integers(0, 5, LENGTH)],
        ("nr", "n"),
        (".r",),
        by(np),
        by(jnp),
        linear=((0,),) if fill == 0 else (),
        undecided=() if fill == 0 else (0,),
    )


def counted(form: str, *, trailing: tuple[int, ...] = ()) -> Row:
    """A row for histogram, of which some keys are out of range."""
    shape = (LENGTH, *trailing)

    def expected(keys: Any) -> Any:
        return (keys.reshape(-1, 1) == np.arange(SIZE)).sum(0).astype(np.int32)

    return Row(
        f"histogram {form}",
        ("histogram",),
        lambda keys: jscan.histogram(keys, SIZE),
        lambda rng: [rng.integers(-1, SIZE + 2, shape)],
        ("n" + "." * len(trailing),),
        (".",),
        expected,
    )


def parted(form: str, *, full: bool) -> Row:
    """A row for partition along the last axis."""

    def by(xp: Any) -> Callable[..., Any]:
        def run(x: Any, signs: Any) -> Any:
            sign = xp.sign(signs)
            lengths = [(sign == wanted).sum(-1).astype(np.int32) for wanted in (-1, 0, 1)]
            order = xp.argsort(sign, axis=-1, stable=True)
            y = xp.take_along_axis(x, order, axis=1) if full else xp.take(x, order, axis=1)
            return y, xp.stack(lengths, -1)

        return run

    label = "rn" if full else "n"
    shape = (ROWS, LENGTH) if full else (LENGTH,)
    return Row(
        f"partition {form}",
        ("partition",),
        lambda x, signs: jscan.partition(x, signs, axis=1),
        lambda rng: [rng.normal(size=(ROWS, LENGTH)), rng.integers(-2, 3, shape)],
        ("rn", label),
        ("rn", label.replace("n", ".")),
        by(np),
        by(jnp),
        linear=((0,),),
    )


COMPACTION = (
    counted("of a row"),
    counted("of three dimensions", trailing=(2, 3)),
    parted("of rows by one sign", full=False),
    parted("of rows by signs each", full=True),
    indices("of a row"),
    indices("of three dimensions", trailing=(2, 3)),
    encoded("of integers", "int32"),
    encoded("of floats", "float64"),
    unique("of integers", "int16"),
    unique("of floats", "float64"),
    decoded("of rows"),
    decoded("with something behind", fill=7.0),
)
