"""Recessions from growth alone: a hidden Markov model, fitted by scans in the log semiring.

Growth y[t] of the United States' real product, quarter by quarter from 1959 to 2009 (statsmodels
brings it along), is normal around the mean of a hidden state, recession or expansion, which moves
on by a matrix of probabilities T. With log products of matrices, (A ⊗ B)ij = log Σk exp(Aik + Bkj),

    Mij[t] = log Tij + log p(y[t] | j),   F[t] = π ⊗ M[0] ⊗ M[1] ⊗ ... ⊗ M[t]

is a scan of an associative operator; log Σj exp Fj of the last is the log likelihood. There is no
backward pass to write: the gradient by log p(y[t] | j) is the probability of state j at t, and by
log Tij how often i is followed by j is to be expected. So a step of expectation maximisation is a
gradient of the scan. Matrices of two by two are four numbers: jscan takes the operator apart into
scalars, for a kernel on a GPU. On a CPU the loop of `lax.scan` is the fastest.

    python examples/hidden_markov.py                          the fit, and times of 65,536 quarters
    python examples/hidden_markov.py --plot recessions.png    with a picture of what was found

Likelihood and gradient are timed beside `lax.scan` and `lax.associative_scan`. The exit status is 0
only if those of all agree with a forward and a backward loop in NumPy, and if no step of the fit
makes the data less likely. Logs of long products are large, and numbers have 64 bits for the sake
of their differences. The extra `examples` brings statsmodels and matplotlib.
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
from jax.nn import logsumexp
from matplotlib.figure import Figure
from statsmodels.datasets import macrodata

import jscan

STEPS = 60
REPEATS = 3
TOLERANCE = 1e-8


class Model(NamedTuple):
    """Logs of the probabilities of the first state and of moves, means, and their deviation."""

    start: Any
    moves: Any
    means: Any
    deviation: Any


class Found(NamedTuple):
    """The log likelihood, probabilities of states ``(time, states)``, and moves to be expected.

    Probabilities are those by the numbers so far, and those by all of them.
    """

    likelihood: Any
    so_far: Any
    states: Any
    moves: Any


def seen(model: Model, y: Any, xp: Any = jnp) -> Any:
    """The log of the density of each number in each state; in NumPy where ``xp`` is."""
    off = (y[:, None] - model.means[None]) / model.deviation
    return -(off**2) / 2 - xp.log(2 * np.pi * model.deviation**2) / 2


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Of matrices in the log semiring."""
    return logsumexp(a[..., :, :, None] + b[..., None, :, :], axis=-2)


Forward = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""F at all places, ``(time, states)``, from the logs of the start, of moves and of densities."""


def by_steps(start: jax.Array, moves: jax.Array, density: jax.Array) -> jax.Array:
    """One step after another, of a vector and a matrix."""

    def after(f: jax.Array, density: jax.Array) -> tuple[jax.Array, jax.Array]:
        f = logsumexp(f[:, None] + moves, axis=0) + density
        return f, f

    return lax.scan(after, start, density)[1]


def by_lax(start: jax.Array, moves: jax.Array, density: jax.Array) -> jax.Array:
    """Of all matrices, the first of which has the start in every row."""
    matrices = moves[None] + density[:, None, :]
    first = jnp.broadcast_to(start, moves.shape)[None]
    return lax.associative_scan(product, jnp.concatenate([first, matrices]))[1:, 0]


def by_jscan(start: jax.Array, moves: jax.Array, density: jax.Array) -> jax.Array:
    """The same, with what comes before the first matrix as such."""
    first = jnp.broadcast_to(start, moves.shape)
    matrices = moves[None] + density[:, None, :]
    return jscan.associative_scan(product, matrices, init=first)[:, 0]


WAYS: dict[str, Forward] = {
    "lax.scan": by_steps,
    "lax.associative_scan": by_lax,
    "jscan.associative_scan": by_jscan,
}


@functools.partial(jax.jit, static_argnums=0)
def expected(forward: Forward, model: Model, y: jax.Array) -> Found:
    """What the numbers say of the states."""

    def likelihood(moves: jax.Array, density: jax.Array) -> tuple[jax.Array, jax.Array]:
        f = forward(model.start, moves, density)
        return logsumexp(f[-1]), f

    both = jax.value_and_grad(likelihood, (0, 1), has_aux=True)
    (value, f), (moves, states) = both(model.moves, seen(model, y))
    return Found(value, jax.nn.softmax(f, axis=1), states, moves)


@jax.jit
def fitted(model: Model, found: Found, y: jax.Array) -> Model:
    """The model that is most likely if moves and states are as expected; the start stays."""
    weight = found.states.sum(0)
    means = (found.states * y[:, None]).sum(0) / weight
    variance = (found.states * (y[:, None] - means[None]) ** 2).sum() / len(y)
    moves = jnp.log(found.moves / found.moves.sum(1, keepdims=True))
    return Model(model.start, moves, means, jnp.sqrt(variance))


def in_numpy(model: Model, y: np.ndarray) -> Found:
    """The same by loops forward and backward over probabilities, which are scaled."""
    start, moves = np.exp(model.start), np.exp(model.moves)
    density = np.exp(seen(model, y, np))
    forth, back, scales = np.empty_like(density), np.ones_like(density), np.empty(len(y))
    f = start
    for t, p in enumerate(density):
        f = (f @ moves) * p
        scales[t] = f.sum()
        forth[t] = f = f / scales[t]
    for t in range(len(y) - 2, -1, -1):
        back[t] = moves @ (density[t + 1] * back[t + 1]) / scales[t + 1]
    before = np.concatenate([start[None], forth[:-1]])
    counts = moves * (before.T @ (density * back / scales[:, None]))
    return Found(np.log(scales).sum(), forth, forth * back, counts)


def difference(what: str, found: Found, wanted: Found) -> list[str]:
    """A line on each number that is beyond the tolerance."""
    lines = []
    for name, x, y in zip(Found._fields, found, wanted, strict=True):
        off, scale = np.abs(np.asarray(x) - y).max(), max(np.abs(y).max(), 1.0)
        if not off <= TOLERANCE * scale:
            lines.append(f"{name} by {what} off by {off:.3g}, of {scale:.3g}")
    return lines


def drawn(model: Model, length: int) -> np.ndarray:
    """Numbers of a model, by chance."""
    random = np.random.default_rng(0)
    moves, state = np.exp(model.moves), 0
    states = np.empty(length, int)
    for t, chance in enumerate(random.random(length)):
        state = int(chance < moves[state, 1])
        states[t] = state
    return np.asarray(model.means)[states] + float(model.deviation) * random.normal(size=length)


def compared(model: Model, y: np.ndarray) -> list[str]:
    """What differs from the loops; times are printed."""
    wanted, wrong = in_numpy(jax.tree.map(np.asarray, model), y), []
    print(
        f"\n{'of ' + str(len(y)) + ' numbers by':26} {'time':>11} {'memory':>10} {'compiled':>10}"
    )
    for name, way in WAYS.items():
        start = time.perf_counter()
        compiled = expected.lower(way, model, jnp.asarray(y)).compile()
        seconds = [time.perf_counter() - start]
        for _ in range(REPEATS):
            start = time.perf_counter()
            found = jax.block_until_ready(compiled(model, jnp.asarray(y)))
            seconds.append(time.perf_counter() - start)
        analysis = compiled.memory_analysis()
        memory = "–" if analysis is None else f"{analysis.temp_size_in_bytes / 1e6:.1f} MB"
        print(f"{name:26} {1e3 * min(seconds[1:]):8.1f} ms {memory:>10} {seconds[0]:8.1f} s")
        wrong += difference(name, found, wanted)
    return wrong


def save_picture(path: Path, years: np.ndarray, y: np.ndarray, found: Found) -> None:
    """Growth, and how likely a recession is."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    so_far, states = (np.asarray(x)[:, 0] for x in (found.so_far, found.states))
    above.bar(years, y, width=0.25, color=np.where(states > 0.5, "C3", "C0"))
    above.set(ylabel="growth in a quarter (%)", title="real product of the United States")
    below.fill_between(years, states, color="C3", alpha=0.4, step="mid", label="by all quarters")
    below.step(years, so_far, color="k", linewidth=0.8, where="mid", label="by those so far")
    below.set(ylabel="probability of\na recession", ylim=(0, 1))
    below.legend(loc="center", bbox_to_anchor=(0.7, 0.75))
    figure.savefig(path, dpi=90, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit the model, print what it finds and times, and check all of it."""
    parser = argparse.ArgumentParser(description="Recessions by a hidden Markov model.")
    parser.add_argument("--length", type=int, default=65536, help="of what is timed (65536)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    length, picture = options.length, options.plot
    if length < 2:
        parser.error("there have to be two numbers at least")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")
    jax.config.update("jax_enable_x64", True)

    data = macrodata.load_pandas().data
    y = 100 * np.diff(np.log(data["realgdp"].to_numpy()))
    years = (data["year"] + (data["quarter"] - 0.5) / 4).to_numpy()[1:]
    even, mostly = np.log([0.5, 0.5]), np.log([[0.7, 0.3], [0.3, 0.7]])
    model = jax.tree.map(jnp.asarray, Model(even, mostly, np.array([-1.0, 1.0]), 1.0))
    likelihoods = []
    for _ in range(STEPS):
        found = expected(by_jscan, model, jnp.asarray(y))
        likelihoods.append(float(found.likelihood))
        model = fitted(model, found, jnp.asarray(y))
    found = expected(by_jscan, model, jnp.asarray(y))
    wrong = difference("jscan in the fit", found, in_numpy(jax.tree.map(np.asarray, model), y))
    if not np.diff(likelihoods).min() > -TOLERANCE:
        wrong.append("a step of the fit makes the data less likely")

    stays = np.exp(np.diagonal(model.moves))
    print(f"{len(y)} quarters, {STEPS} steps of the fit")
    print(f"log likelihood: {likelihoods[0]:.2f}, then {found.likelihood:.2f}")
    for name, mean, stay in zip(("recession", "expansion"), model.means, stays, strict=True):
        print(f"{name}: {mean:5.2f} % a quarter, for {1 / (1 - stay):4.1f} quarters on average")
    wrong += compared(model, drawn(model, length))
    if picture is not None:
        save_picture(picture, years, y, found)
    versions = f"jscan {jscan.__version__}, jax {jax.__version__}"
    print(f"\nran on {jax.devices()[0].device_kind}; {versions}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if wrong else 'all is that of loops in NumPy'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
