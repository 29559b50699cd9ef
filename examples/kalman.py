"""Carbon dioxide at Mauna Loa: a Kalman filter and its smoother, each of them a scan.

Weekly means y[t] from 1958 to 2001, which statsmodels brings along and of which 59 are missing, are
seen through states that move on by a matrix:

    x[t] = F x[t-1] + noise Q,   y[t] = hᵀ x[t] + noise r

They are level and slope, and in the larger model also a season that turns once a year. The filter
is a scan of an element for each week, the smoother another from the right (Särkkä and
García-Fernández, *Temporal Parallelization of Bayesian Smoothers*, 2021):

    (A, b, C, η, J) ⊕ (A', b', C', η', J')  with  X = A' (I + C J')⁻¹,  Y = Aᵀ (I + J' C)⁻¹:
    (X A,  X (b + C η') + b',  X C A'ᵀ + C',  Y (η' - J' b) + η,  Y J' A + J)

    (E, g, L) ⊕ (E', g', L')  =  (E' E,  E' g + g',  E' L E'ᵀ + L')

With two states an element of the filter has 16 numbers, with four 56, of the smoother 10 and 36.
On a GPU jscan takes the operators apart into scalars, for kernels: with four states and 65536 weeks
their scans are twenty times as fast as the trees of `lax.associative_scan` (H100; `python -m
benchmarks states --only "elements of"`), but a call here is most of all launches. On a CPU elements
of 24 numbers and less go through a loop, larger ones through such a tree. There the loop of
`lax.scan`, which multiplies the least, is the fastest.

    python examples/kalman.py                   2284 weeks, by both models
    python examples/kalman.py --weeks 65536     the same weeks to and fro, for times
    python examples/kalman.py --plot air.png    with a picture of a gap and of the level

The exit status is 0 only if all means and deviations of both passes are within 0.002 ppm of those
of a loop in NumPy in double precision. The extra `examples` brings statsmodels and matplotlib.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from matplotlib.figure import Figure
from statsmodels.datasets import co2

import jscan

YEAR = 365.25 / 7  # in weeks
REPEATS = 3
TOLERANCE = 2e-3
"""In ppm. Float32 rounds the 40 ppm of the series by 2e-6, and a tree keeps the roundings of some
hundred products of elements; the loop is ten times closer."""

Leaves = tuple[Any, ...]
States = tuple[Any, Any]
"""Means ``(time, states)`` and covariances ``(time, states, states)``."""


class Model(NamedTuple):
    """How states move on (F), the noise of that (Q), how they are seen (h), that noise (r)."""

    move: Any
    noise: Any
    seen: Any
    error: Any


def with_slope(level: float, slope: float, error: float) -> Model:
    """Level and slope."""
    return Model(np.array([[1.0, 1], [0, 1]]), np.diag([level, slope]), np.array([1.0, 0]), error)


def with_season(level: float, slope: float, season: float, error: float) -> Model:
    """And a season of a year, which may change."""
    turn, none = 2 * np.pi / YEAR, np.zeros((2, 2))
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    move = np.block([[with_slope(level, slope, error).move, none], [none, turned]])
    return Model(move, np.diag([level, slope, season, season]), np.array([1.0, 0, 1, 0]), error)


MODELS = {
    "level and slope": with_slope(0.02, 0.014, 0.074),
    "and a season": with_season(0.1, 1e-6, 2e-5, 0.04),
}
"""Variances in ppm² a week, near those that are the most likely."""


def beginning(model: Model, y: np.ndarray) -> States:
    """What is known of the states before the first week."""
    size = len(model.seen)
    return np.append(y[0], np.zeros(size - 1)), np.diag([10, 0.01, 10, 10][:size])


# --- by scans -----------------------------------------------------------------------------------


def inverse(x: jax.Array, product: Callable[..., jax.Array] = jnp.matmul) -> jax.Array:
    """Of matrices of two by two, or of four by elimination of blocks: a kernel has no library.

    No pivot is looked for. Of I + C J, with C and J positive semidefinite, none was small here.
    """
    if x.shape[-1] == 2:
        a, b, c, d = (x[..., i, j] for i in range(2) for j in range(2))
        rows = [jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)]
        return jnp.stack(rows, -2) / (a * d - b * c)[..., None, None]
    a, b, c, d = x[..., :2, :2], x[..., :2, 2:], x[..., 2:, :2], x[..., 2:, 2:]
    first = inverse(a)
    right, below = product(first, b), product(c, first)
    rest = inverse(d - product(c, right))
    across = product(right, rest)
    top = jnp.concatenate([first + product(across, below), -across], -1)
    return jnp.concatenate([top, jnp.concatenate([-product(rest, below), rest], -1)], -2)


def times(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """Products of matrices and vectors."""
    return (matrix * vector[..., None, :]).sum(-1)


def product(*factors: jax.Array) -> jax.Array:
    """Products of matrices, as sums that XLA fuses: outside of scans it calls a library for `@`."""
    return functools.reduce(lambda a, b: (a[..., None] * b[..., None, :, :]).sum(-2), factors)


def joined(first: Leaves, then: Leaves) -> Leaves:
    """Two elements of the filter in a row, as one."""
    (a, b, c, eta, j), (a2, b2, c2, eta2, j2) = first, then
    middle = inverse(jnp.eye(a.shape[-1], dtype=a.dtype) + c @ j2)
    forth, back = a2 @ middle, a.mT @ middle.mT
    return (
        forth @ a,
        times(forth, b + times(c, eta2)) + b2,
        forth @ c @ a2.mT + c2,
        times(back, eta2 - times(j2, b)) + eta,
        back @ j2 @ a + j,
    )


def joined_back(later: Leaves, sooner: Leaves) -> Leaves:
    """Two elements of the smoother in a row, as one."""
    (e, g, c), (e2, g2, c2) = later, sooner
    return e2 @ e, times(e2, g) + g2, e2 @ c @ e2.mT + c2


Scan = Callable[..., Any]


def by_lax(fn: Any, elements: Leaves, *, init: Leaves | None = None, reverse: bool = False) -> Any:
    """`lax.associative_scan` behind a first element, which it has no argument for."""
    if init is None:
        return lax.associative_scan(fn, elements, reverse)
    longer = jax.tree.map(lambda x, y: jnp.concatenate([x[None], y]), init, elements)
    return jax.tree.map(lambda x: x[1:], lax.associative_scan(fn, longer))


def filtered(scan: Scan, model: Model, start: States, y: jax.Array) -> States:
    """The states of each week by all weeks up to it; a week that is NaN was not seen."""
    f, q, h, r = model
    unit, nothing = jnp.eye(len(h), dtype=y.dtype), jnp.zeros((len(h), len(h)), y.dtype)
    value, is_seen = jnp.nan_to_num(y)[:, None], (~jnp.isnan(y)).astype(y.dtype)[:, None, None]
    spread = h @ q @ h + r
    gain, seen = q @ h / spread, h @ f
    kept = unit - is_seen * gain[:, None] * h
    told = is_seen * seen[:, None] * seen / spread
    elements = product(kept, f), value * gain, product(kept, q), value * seen / spread, told
    before = nothing, start[0], start[1], nothing[0], nothing
    _, mean, covariance, _, _ = scan(joined, elements, init=before)
    return mean, covariance


def smoothed(scan: Scan, model: Model, found: States) -> States:
    """The states of each week by all weeks, from those by the weeks up to each."""
    mean, covariance = found
    f = model.move
    predicted = product(f, covariance, f.mT) + model.noise
    is_last = jnp.arange(len(mean))[:, None, None] == len(mean) - 1
    back = jnp.where(is_last, 0, product(covariance, f.mT, inverse(predicted, product)))
    told = covariance - product(back, predicted, back.mT)
    elements = back, mean - times(back, times(f, mean)), told
    _, mean, covariance = scan(joined_back, elements, reverse=True)
    return mean, covariance


def by_scans(scan: Scan, model: Model, start: States, y: jax.Array) -> Leaves:
    """Both passes."""
    found = filtered(scan, model, start, y)
    return found, smoothed(scan, model, found)


# --- one week after another ---------------------------------------------------------------------


def week(model: Model, state: States, y: Any, is_seen: Any) -> States:
    """A step of the filter, in NumPy or JAX."""
    (mean, covariance), (f, q, h, r) = state, model
    mean, covariance = f @ mean, f @ covariance @ f.T + q
    gain = is_seen * (covariance @ h) / (h @ covariance @ h + r)
    return mean + gain * (y - h @ mean), covariance - gain[:, None] * (h @ covariance)


def week_back(model: Model, state: States, found: States, inv: Any) -> States:
    """A step of the smoother, from what was found a week later."""
    (mean, covariance), (later, known) = found, state
    f = model.move
    predicted = f @ covariance @ f.T + model.noise
    back = covariance @ f.T @ inv(predicted)
    return mean + back @ (later - f @ mean), covariance + back @ (known - predicted) @ back.T


def in_numpy(model: Model, start: States, y: np.ndarray) -> Leaves:
    """Both passes in double precision."""
    forth = [start]
    for value, is_seen in zip(np.nan_to_num(y), ~np.isnan(y), strict=True):
        forth.append(week(model, forth[-1], value, is_seen))
    back = [forth[-1]]
    for found in forth[-2:0:-1]:
        back.append(week_back(model, back[-1], found, np.linalg.inv))
    passes = forth[1:], back[::-1]
    return tuple(tuple(map(np.array, zip(*found, strict=True))) for found in passes)


def by_steps(model: Model, start: States, y: jax.Array) -> Leaves:
    """The same by `lax.scan`."""

    def forth(state: States, given: Leaves) -> tuple[States, States]:
        state = week(model, state, *given)
        return state, state

    def back(state: States, found: States) -> tuple[States, States]:
        state = week_back(model, state, found, inverse)
        return state, state

    is_seen = (~jnp.isnan(y)).astype(y.dtype)
    last, found = lax.scan(forth, start, (jnp.nan_to_num(y), is_seen))
    before = jax.tree.map(lambda x: x[:-1], found)
    sooner = lax.scan(back, last, before, reverse=True)[1]
    return found, jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), sooner, last)


WAYS: dict[str, Callable[..., Leaves]] = {
    "lax.scan": by_steps,
    "lax.associative_scan": functools.partial(by_scans, by_lax),
    "jscan.associative_scan": functools.partial(by_scans, jscan.associative_scan),
}


def deviations(covariance: Any) -> np.ndarray:
    """Of each state."""
    found: np.ndarray = np.sqrt(np.diagonal(np.asarray(covariance), axis1=-2, axis2=-1))
    return found


def difference(found: Leaves, expected: Leaves) -> float:
    """The largest of means and of deviations; NaN where anything is."""
    off: list[Any] = []
    for (mean, covariance), (mean2, covariance2) in zip(found, expected, strict=True):
        off += [mean - mean2, deviations(covariance) - deviations(covariance2)]
    return float(np.max([np.abs(x).max() for x in off]))


def run(name: str, model: Model, y: np.ndarray) -> tuple[Leaves, list[str]]:
    """What jscan finds, and what is wrong with what any finds; times are printed."""
    start = beginning(model, y)
    expected = in_numpy(model, start, y)
    given: Any = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (model, start, y))
    found: Leaves = ()
    wrong = []
    for way, both in WAYS.items():
        begin = time.perf_counter()
        compiled = jax.jit(both).lower(*given).compile()
        seconds = [time.perf_counter() - begin]
        found = jax.block_until_ready(compiled(*given))
        for _ in range(REPEATS):
            begin = time.perf_counter()
            jax.block_until_ready(compiled(*given))
            seconds.append(time.perf_counter() - begin)
        analysis = compiled.memory_analysis()
        memory = "–" if analysis is None else f"{analysis.temp_size_in_bytes / 1e6:.1f} MB"
        off = difference(found, expected)
        took = f"{1e3 * min(seconds[1:]):9.1f} ms {memory:>9} {seconds[0]:10.1f} s"
        print(f"{name:16} {way:24} {took} {off:12.1e}")
        if not off <= TOLERANCE:
            wrong.append(f"{name} by {way} is off by {off:.3g} ppm")
    return found, wrong


def save_picture(path: Path, years: np.ndarray, y: np.ndarray, mean: float, found: Leaves) -> None:
    """A gap as both passes see it, and the level of all years."""
    seen = MODELS["and a season"].seen
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    around = slice(260, 345)
    for one, name, color in zip(found, ("filter", "smoother"), ("C0", "C3"), strict=True):
        means, covariances = (np.asarray(x)[around] for x in one)
        line, band = mean + means @ seen, 2 * np.sqrt(seen @ covariances @ seen)
        left.plot(years[around], line, color=color, label=name)
        left.fill_between(years[around], line - band, line + band, color=color, alpha=0.2)
    left.plot(years[around], mean + y[around], "k.", label="measured", markersize=4)
    left.set(ylabel="carbon dioxide (ppm)", title="weeks without a measurement, two deviations")
    right.plot(years, mean + y, color="0.7", linewidth=0.8, label="measured")
    right.plot(years, mean + np.asarray(found[1][0])[:, 0], color="C3", label="level, smoothed")
    right.set_title("the level without the season")
    for axes in (left, right):
        axes.legend(loc="upper left")
    figure.savefig(path, dpi=90, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Filter and smooth by both models, and check all of it."""
    parser = argparse.ArgumentParser(description="Carbon dioxide at Mauna Loa, filtered.")
    parser.add_argument("--weeks", type=int, default=2284, help="how many (default: all, 2284)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    weeks, picture = options.weeks, options.plot
    if weeks < 500:
        parser.error("there have to be 500 weeks at least, a gap among them")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")
    data = co2.load_pandas().data["co2"]
    mean = float(data.mean())
    measured = data.to_numpy() - mean
    y = np.pad(measured, (0, max(weeks - len(data), 0)), "symmetric")[:weeks]
    print(f"{weeks} weeks, {np.isnan(y).sum()} of them missing\n")
    columns = f"{'time':>12} {'memory':>9} {'to compile':>12} {'off by, ppm':>12}"
    print(f"{'states':16} {'both passes by':24} {columns}")
    wrong: list[str] = []
    for name, model in MODELS.items():
        with jax.default_matmul_precision("highest"):  # a GPU may round operands
            found, more = run(name, model, y)
        wrong += more
    if picture is not None:
        years = 1958 + (data.index - np.datetime64("1958-01-01")).days.to_numpy()[:weeks] / 365.25
        known = jax.tree.map(lambda x: x[: len(years)], found)
        save_picture(picture, years, y[: len(years)], mean, known)
    print(
        f"\nran on {jax.devices()[0].device_kind}; jscan {jscan.__version__}, jax {jax.__version__}"
    )
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if wrong else 'means and deviations are those of a loop in NumPy'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
