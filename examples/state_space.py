"""A selective state-space layer reads digits pixel by pixel, many of them packed into one row.

The 1797 images of eight by eight that scikit-learn brings along are read in lines, from the first
pixel with ink to the last, 57 to 63 of them. A token u[t] is made of the nine latest pixels. States
fade and take up as the token says, as in Mamba (Gu and Dao, 2023):

    Δ = softplus(u W + w),   a = exp(-Δ exp(A)),   b = Δ (u B) u
    h[t] = a[t] h[t-1] + b[t]        for each of 16 channels and 8 states
    y[t] = (u C)ᵀ h[t] + D u[t]

and an image's digit is told from y at its last pixel. A batch is one row of images of any lengths,
no pixel of which is padding; `segments` begins each image with a state of nothing. `lax.scan` and
`lax.associative_scan` have no such argument: for them a is 0 where an image begins.

    python examples/state_space.py                      600 steps of Adam
    python examples/state_space.py --plot digits.png    with a picture of what is read when

Each way computes loss and gradient of the same batch, and its time and memory are printed. The exit
status is 0 only if these agree, if the loss falls to half, and if new images that are packed give
what each gives by itself and what a loop in NumPy gives. The extra `examples` brings scikit-learn
and matplotlib.
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
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import jscan

CHANNELS, STATES, DIGITS = 16, 8, 10
WINDOW = 9  # pixels of a token: the last is below the first
BATCH = 64
TRAINED, TIMED = 1500, 500  # images
RATE, KEEP_MEAN, KEEP_SQUARE = 0.01, 0.9, 0.99
REPEATS = 3
TOLERANCE = 1e-4
"""Float32 rounds by 6e-8, and losses and logits are sums of some thousand products."""

Recurrence = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""States from a, b of (time, channels, states), and from where images begin, of (time,)."""


def step_by_step(a: jax.Array, b: jax.Array, heads: jax.Array) -> jax.Array:
    """States one after another."""

    def after(h: jax.Array, given: Any) -> tuple[jax.Array, jax.Array]:
        a, b = given
        h = a * h + b
        return h, h

    kept = jnp.where(heads[:, None, None], 0, a)
    return lax.scan(after, jnp.zeros_like(b[0]), (kept, b))[1]


def by_pairs(a: jax.Array, b: jax.Array, heads: jax.Array) -> jax.Array:
    """The same as a scan of maps ``h -> a h + b``, two of which in a row are one again."""
    kept = jnp.where(heads[:, None, None], 0, a)
    return lax.associative_scan(lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), (kept, b))[1]


WAYS: dict[str, Recurrence] = {
    "lax.scan": step_by_step,
    "lax.associative_scan": by_pairs,
    "jscan.linear_recurrence": lambda a, b, heads: jscan.linear_recurrence(a, b, segments=heads),
}


Model = dict[str, Any]
"""Arrays by what they are for."""


class Images(NamedTuple):
    """Images in a row: tokens ``(time, window)``, where images begin and end, and their digits."""

    tokens: Any
    heads: Any
    ends: Any
    digits: Any


def tokens_of(image: np.ndarray) -> np.ndarray:
    """Each pixel between the first and the last with ink, with those before it."""
    line = np.pad(np.trim_zeros(image.ravel()), (WINDOW - 1, 0)) / np.float32(16)
    return np.lib.stride_tricks.sliding_window_view(line, WINDOW)


def packed(images: np.ndarray, digits: np.ndarray, room: int | None = None) -> Images:
    """Images one after another, and nothing behind them up to the room that all batches have."""
    tokens = np.concatenate(parts := [tokens_of(image) for image in images])
    ends = np.cumsum([len(part) for part in parts])
    row = np.zeros((room or ends[-1], WINDOW), np.float32)
    row[: ends[-1]] = tokens
    heads = np.zeros(len(row), bool)
    heads[np.append(0, ends[:-1])] = True
    return Images(row, heads, ends.astype(np.int32) - 1, digits)


def apart(images: Images) -> Images:
    """The same, each in a row of its own of one length."""
    begins = np.flatnonzero(images.heads)
    longest = (images.ends + 1 - begins).max()
    places = np.minimum(begins[:, None] + np.arange(longest), len(images.tokens) - 1)
    heads = np.tile(np.arange(longest) == 0, (len(begins), 1))
    ends = (images.ends - begins)[:, None]
    return Images(images.tokens[places], heads, ends, images.digits[:, None])


def beginning() -> Model:
    """States that keep 3 to 30 tokens."""
    random = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return random.normal(size=shape) / np.sqrt(shape[0])

    model = {
        "into": matrix(WINDOW, CHANNELS),
        "shift": np.zeros(CHANNELS),
        "pace": matrix(CHANNELS, CHANNELS),
        "rest": np.full(CHANNELS, -2.0),
        "fade": np.tile(np.log(np.geomspace(0.25, 2, STATES)), (CHANNELS, 1)),
        "write": matrix(CHANNELS, STATES),
        "read": matrix(CHANNELS, STATES),
        "skip": np.ones(CHANNELS),
        "out": matrix(CHANNELS, DIGITS),
    }
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), model)


def logits(recurrence: Any, model: Model, images: Images, xp: Any = jnp) -> Any:
    """What speaks for each digit, image by image; in NumPy where ``xp`` is."""
    u = xp.tanh(images.tokens @ model["into"] + model["shift"][None])
    pace = xp.logaddexp(0, u @ model["pace"] + model["rest"][None])[..., None]
    a = xp.exp(-pace * xp.exp(model["fade"])[None])
    b = pace * (u @ model["write"])[:, None, :] * u[..., None]
    h = recurrence(a, b, images.heads)
    y = (h * (u @ model["read"])[:, None, :]).sum(-1) + model["skip"][None] * u
    return y[images.ends] @ model["out"]


def in_numpy(a: np.ndarray, b: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """States by a loop."""
    h, state = np.empty_like(b), np.zeros_like(b[0])
    for t, is_head in enumerate(heads):
        state = (0 if is_head else a[t] * state) + b[t]
        h[t] = state
    return h


def loss_of(recurrence: Recurrence, model: Model, images: Images) -> jax.Array:
    """The mean of -log p of the right digits."""
    log_p = jax.nn.log_softmax(logits(recurrence, model, images))
    return -jnp.take_along_axis(log_p, images.digits[:, None], 1).mean()


@functools.partial(jax.jit, static_argnums=0)
def loss_and_slope(recurrence: Recurrence, model: Model, images: Images) -> tuple[Any, Any]:
    """The loss, and its gradient as one array."""
    loss, slope = jax.value_and_grad(functools.partial(loss_of, recurrence))(model, images)
    return loss, ravel_pytree(slope)[0]


def fit(images: np.ndarray, digits: np.ndarray, steps: int) -> tuple[Model, list[float]]:
    """The model after so many steps of Adam, each of which is shorter, and the losses."""
    random, recurrence = np.random.default_rng(0), WAYS["jscan.linear_recurrence"]
    parameters, model_of = ravel_pytree(beginning())
    mean = square = jnp.zeros_like(parameters)
    losses = []
    for count in range(1, steps + 1):
        some = random.choice(len(images), BATCH, replace=False)
        batch = packed(images[some], digits[some], BATCH * images[0].size)
        loss, slope = loss_and_slope(recurrence, model_of(parameters), batch)
        mean = KEEP_MEAN * mean + (1 - KEEP_MEAN) * slope
        square = KEEP_SQUARE * square + (1 - KEEP_SQUARE) * slope**2
        size = jnp.sqrt(square / (1 - KEEP_SQUARE**count)) + 1e-8
        rate = RATE * (1 - (count - 1) / steps)
        parameters -= rate * mean / (1 - KEEP_MEAN**count) / size
        losses.append(float(loss))
    return model_of(parameters), losses


def compared(model: Model, batch: Images) -> list[str]:
    """What differs from jscan's loss and slope; times and memory are printed."""
    wrong = []
    expected = loss_and_slope(WAYS["jscan.linear_recurrence"], model, batch)
    print(f"\n{'loss and gradient with':26} {'time':>11} {'memory':>10}")
    for name, way in WAYS.items():
        compiled = loss_and_slope.lower(way, model, batch).compile()
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            found = jax.block_until_ready(compiled(model, batch))
            seconds.append(time.perf_counter() - start)
        analysis = compiled.memory_analysis()
        memory = "–" if analysis is None else f"{analysis.temp_size_in_bytes / 1e6:.1f} MB"
        print(f"{name:26} {1e3 * min(seconds):8.1f} ms {memory:>10}")
        for what, x, y in zip(("loss", "slope"), found, expected, strict=True):
            wrong += difference(f"the {what} of {name}", x, y)
    return wrong


def difference(what: str, found: Any, expected: Any) -> list[str]:
    """A line on the largest, if that is beyond the tolerance."""
    scale = max(np.abs(expected).max(), 1.0)
    off = np.abs(np.asarray(found) - np.asarray(expected)).max()
    return [] if off <= TOLERANCE * scale else [f"{what} is off by {off:.3g}, of {scale:.3g}"]


def save_picture(path: Path, model: Model, images: np.ndarray, digits: np.ndarray) -> None:
    """Some images, and what the model takes them for while it reads them."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    rows = figure.subplots(len(images), 2, width_ratios=[1, 4])
    for (left, right), image, digit in zip(rows, images, digits, strict=True):
        one = packed(image[None], digit[None])
        read = one._replace(ends=np.arange(len(one.tokens)))
        said = logits(WAYS["jscan.linear_recurrence"], model, read)
        left.imshow(image, cmap="gray_r")
        left.set_axis_off()
        shown = right.imshow(jax.nn.softmax(said).T, cmap="Blues", clim=(0, 1), aspect="auto")
        right.set(yticks=range(DIGITS), ylabel="digit")
        right.get_yticklabels()[digit].set(color="C3", weight="bold")
    right.set_xlabel("pixels read")
    figure.colorbar(shown, ax=rows[:, 1], label="probability")
    figure.savefig(path, dpi=90, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, print losses and costs, and check all of it."""
    parser = argparse.ArgumentParser(description="Digits read by a selective state-space layer.")
    parser.add_argument("--steps", type=int, default=600, help="of training (default: 600)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    steps, picture = options.steps, options.plot
    if steps < 20:
        parser.error("there have to be 20 steps at least")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.images))
    images, digits = data.images[order], data.target[order].astype(np.int32)
    model, losses = fit(images[:TRAINED], digits[:TRAINED], steps)
    parts = np.array_split(losses, 10)
    print(f"mean losses of ten parts of {steps} steps")
    print(*(f"{np.mean(part):.3f}" for part in parts))
    begin, end = np.mean(parts[0]), np.mean(parts[-1])

    new = packed(images[TRAINED:], digits[TRAINED:])
    recurrence = WAYS["jscan.linear_recurrence"]
    found = jax.jit(functools.partial(logits, recurrence))(model, new)
    alone = jax.jit(jax.vmap(functools.partial(logits, recurrence), (None, 0)))(model, apart(new))
    doubles = jax.tree.map(lambda x: np.asarray(x, np.float64), model)
    right = np.mean(np.argmax(found, 1) == new.digits)
    print(
        f"\n{right:.1%} of {len(new.digits)} new images, {len(new.tokens)} pixels, are read rightly"
    )
    wrong = compared(model, packed(images[:TIMED], digits[:TIMED]))
    wrong += difference("what packed images give", found, alone[:, 0])
    wrong += difference("what jscan gives", found, logits(in_numpy, doubles, new, np))
    if not end < begin / 2:
        wrong.append(f"the loss fell from {begin:.3g} to {end:.3g} only")
    if picture is not None:
        save_picture(picture, model, images[TRAINED:][:3], digits[TRAINED:][:3])
    print(
        f"\nran on {jax.devices()[0].device_kind}; jscan {jscan.__version__}, jax {jax.__version__}"
    )
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if wrong else 'losses, slopes and packed images agree'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
