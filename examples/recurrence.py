"""A state-space model of a nerve cell, trained with three kinds of scan side by side.

From the potential x[t] of a cell, recorded every 0.5 ms, the model forecasts x[t+1]:

    h[t] = λ h[t-1] + γ B x[t]      λ = exp(-exp(ν) + iθ),  γ = sqrt(1 - |λ|²)
    y[t] = Re(C h[t]) + D x[t]

with complex states h, each of which decays and turns by itself, as in the linear recurrent unit of
Orvieto et al. (2023). Adam fits ν, θ, B, C and D to the first two thirds of the recording. Every
step is taken with `jax.lax.scan`, `jax.lax.associative_scan` and `jscan.linear_recurrence`, from
the same parameters, and timed; training goes on from the last. The recording is the one behind
matplotlib's first logo: `membrane.dat`, which matplotlib brings along as sample data.

    python examples/recurrence.py                       32 states, 300 steps
    python examples/recurrence.py --plot forecast.png   with a picture of the forecasts

The exit status is 0 only if losses and slopes of the three agree at every step, and jscan's
forecasts with a loop in NumPy. The extra `examples` brings matplotlib.
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
import matplotlib
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure

import jscan

MILLIVOLTS = 100  # in a unit of the file
INTERVAL = 0.0005  # seconds from one sample to the next
RATE = 0.01
KEEP_MEAN, KEEP_SQUARE = 0.9, 0.99
TOLERANCE = 6e-5
"""Float32 rounds by 6e-8, and a state of |λ| = 0.999 keeps the errors of a thousand steps. They
cancel in part: losses, slopes and forecasts differ by less than a tenth of it."""

Recurrence = Callable[[jax.Array, jax.Array], jax.Array]


def step_by_step(a: jax.Array, b: jax.Array) -> jax.Array:
    """States one after another; ``a`` is ``(states,)`` and ``b`` is ``(time, states)``."""

    def after(h: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = a * h + b
        return h, h

    return lax.scan(after, jnp.zeros_like(a), b)[1]


def by_pairs(a: jax.Array, b: jax.Array) -> jax.Array:
    """The same as a scan of maps ``h -> a h + b``, two of which in a row are one again."""
    maps = jnp.broadcast_to(a, b.shape), b
    return lax.associative_scan(lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), maps)[1]


WAYS: dict[str, Recurrence] = {
    "jax.lax.scan": step_by_step,
    "jax.lax.associative_scan": by_pairs,
    "jscan.linear_recurrence": lambda a, b: jscan.linear_recurrence(a[None], b),
}


class Model(NamedTuple):
    """ν and θ are ``(states,)``, B and C ``(2, states)`` for real and imaginary parts, D scalar."""

    nu: Any
    theta: Any
    b: Any
    c: Any
    d: Any


Training = tuple[Model, jax.Array, jax.Array, jax.Array]
"""A model, what Adam remembers of slopes and of their squares, and the number of steps so far."""


def beginning(states: int) -> Training:
    """|λ| from 0.5 to 0.999, slow turns more often than fast ones, and almost y = x."""
    random = np.random.default_rng(0)
    decay = np.sqrt(random.uniform(0.5**2, 0.999**2, states))
    theta = np.pi * random.uniform(0, 1, states) ** 2
    b, c = random.normal(0, np.sqrt(0.5), (2, 2, states))
    model = Model(np.log(-np.log(decay)), theta, b, 0.1 * c / np.sqrt(states), np.ones(()))
    model = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), model)
    nothing = jnp.zeros_like(ravel_pytree(model)[0])
    return model, nothing, nothing, jnp.zeros((), jnp.float32)


@functools.partial(jax.jit, static_argnums=0)
def forecast(recurrence: Recurrence, model: Model, x: jax.Array) -> jax.Array:
    """What the model says, at each time, that comes next."""
    decay = jnp.exp(-jnp.exp(model.nu))
    a = lax.complex(decay * jnp.cos(model.theta), decay * jnp.sin(model.theta))
    b, c = lax.complex(model.b[0], model.b[1]), lax.complex(model.c[0], model.c[1])
    b *= lax.complex(jnp.sqrt(1 - decay**2), jnp.zeros_like(decay))
    h = recurrence(a, x.astype(b.dtype)[:, None] * b[None])
    return (h * c[None]).sum(axis=1).real + model.d * x


@functools.partial(jax.jit, static_argnums=0)
def trained(
    recurrence: Recurrence, training: Training, x: jax.Array
) -> tuple[Training, jax.Array, jax.Array]:
    """The training after a step of Adam, and the loss and the slopes before it."""
    model, mean, square, count = training
    parameters, model_of = ravel_pytree(model)

    def loss_of(parameters: jax.Array) -> jax.Array:
        return jnp.mean((forecast(recurrence, model_of(parameters), x[:-1]) - x[1:]) ** 2)

    loss, slope = jax.value_and_grad(loss_of)(parameters)
    count = count + 1
    mean = KEEP_MEAN * mean + (1 - KEEP_MEAN) * slope
    square = KEEP_SQUARE * square + (1 - KEEP_SQUARE) * slope**2
    size = jnp.sqrt(square / (1 - KEEP_SQUARE**count)) + 1e-8
    parameters -= RATE * mean / (1 - KEEP_MEAN**count) / size
    return (model_of(parameters), mean, square, count), loss, slope


def forecast_in_numpy(model: Model, x: np.ndarray) -> np.ndarray:
    """The same forecasts in double precision, sample by sample."""
    nu, theta, d = (np.asarray(p, np.float64) for p in (model.nu, model.theta, model.d))
    b, c = ([1, 1j] @ np.asarray(p, np.complex128) for p in (model.b, model.c))
    a = np.exp(-np.exp(nu) + 1j * theta)
    b *= np.sqrt(1 - abs(a) ** 2)
    h, y = np.zeros_like(a), np.zeros(len(x))
    for t, sample in enumerate(x.astype(np.float64)):
        h = a * h + b * sample
        y[t] = (c @ h).real + d * sample
    return y


def differences(what: str, actual: Any, expected: Any, scale: float) -> list[str]:
    """A line on the worst of the numbers, if that is off by more than the tolerance."""
    off = np.abs(np.asarray(actual) - np.asarray(expected))
    wrong = [f"{what} by up to {off.max():.3g}, of {scale:.3g}"]
    return [] if (off <= TOLERANCE * scale).all() else wrong


def fit(
    steps: dict[str, Any], training: Training, x: jax.Array, count: int
) -> tuple[Model, dict[str, list[float]], list[str]]:
    """The model after ``count`` steps, the seconds that each took each way, and what differed."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    found, steepest = [], 0.0
    for i in range(count):
        results = {}
        for name, step in steps.items():
            start = time.perf_counter()
            results[name] = jax.block_until_ready(step(training, x))
            seconds[name].append(time.perf_counter() - start)
        training, loss, slope = results["jscan.linear_recurrence"]
        # Near a minimum a slope is a small difference of large sums, whose rounding it keeps.
        steepest = max(steepest, float(jnp.linalg.norm(slope)))
        for name, (_, other_loss, other_slope) in results.items():
            where = f"of {name} in step {i} differs from jscan's"
            found += differences(f"loss {where}", other_loss, loss, float(loss))
            found += differences(f"slope {where}", other_slope, slope, steepest)
    return training[0], seconds, found


def print_costs(steps: dict[str, Any], seconds: dict[str, list[float]], size: int) -> None:
    """Time and memory of a step; ``size`` is that of all states h in bytes."""
    print(f"{'a step of training with':26} {'median time':>12} {'memory':>9} {'in states h':>12}")
    for name, step in steps.items():
        memory = step.memory_analysis().temp_size_in_bytes
        numbers = f"{1e3 * np.median(seconds[name]):9.2f} ms {memory / 1e6:6.1f} MB"
        print(f"{name:26} {numbers} {memory / size:12.2f}")


def print_errors(x: np.ndarray, y: np.ndarray, fitted: int) -> None:
    """How far forecasts are off, beside the forecast that nothing changes."""
    print(f"\n{'error of the forecast of':26} {'fitted part':>12} {'the rest':>12}")
    for name, said in {"no change": x[:-1], "the model": y}.items():
        parts = np.split(said - x[1:], [fitted - 1])
        print(f"{name:26}", *(f"{np.sqrt(np.mean(part**2)):9.3f} mV" for part in parts))


def save_picture(path: Path, x: np.ndarray, y: np.ndarray, fitted: int) -> None:
    """A quarter of a second of what was not fitted: potential, forecasts, and their errors."""
    shown = slice(fitted, fitted + 500)
    seconds = INTERVAL * np.arange(1, len(x))[shown]
    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    above.plot(seconds, x[1:][shown], color="0.6", linewidth=3, label="recorded")
    above.plot(seconds, y[shown], color="C3", linewidth=1, label="forecast a sample ahead")
    above.set_ylabel("potential (mV)")
    for name, said, color in (("no change", x[:-1], "0.6"), ("the model", y, "C3")):
        below.plot(seconds, (said - x[1:])[shown], color=color, label=name)
    below.set(xlabel="time (s)", ylabel="error (mV)")
    above.legend(loc="upper right")
    below.legend(loc="upper right")
    figure.savefig(path, dpi=100, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, print costs and errors, and check all of it."""
    parser = argparse.ArgumentParser(description="A state-space model of a nerve cell.")
    parser.add_argument("--states", type=int, default=32, help="of the model (default: 32)")
    parser.add_argument("--steps", type=int, default=300, help="of training (default: 300)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    states, count, picture = options.states, options.steps, options.plot
    if min(states, count) < 1:
        parser.error("there has to be a state and a step at least")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")

    recording = Path(matplotlib.get_data_path(), "sample_data", "membrane.dat")
    x = MILLIVOLTS * np.fromfile(recording, "<f4")
    fitted = len(x) * 2 // 3
    mean, spread = x[:fitted].mean(), x[:fitted].std()
    series = jnp.asarray((x - mean) / spread)
    training = beginning(states)
    part = series[:fitted]
    steps = {name: trained.lower(way, training, part).compile() for name, way in WAYS.items()}
    model, seconds, found = fit(steps, training, part, count)
    expected = forecast_in_numpy(model, np.asarray(series[:-1]))
    said = forecast(WAYS["jscan.linear_recurrence"], model, series[:-1])
    found += differences("forecast of jscan differs from NumPy's", said, expected, 1.0)

    print(f"{len(x)} samples, {fitted} of them fitted; {states} states, {count} steps\n")
    print_costs(steps, seconds, (fitted - 1) * states * np.dtype(np.complex64).itemsize)
    y = mean + spread * np.asarray(said)
    print_errors(x, y, fitted)
    if picture is not None:
        save_picture(picture, x, y, fitted)
    versions = f"jscan {jscan.__version__}, jax {jax.__version__}"
    print(f"\nran on {jax.devices()[0].device_kind}; {versions}")
    for line in found[:10]:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if found else 'losses, slopes and forecasts agree'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
