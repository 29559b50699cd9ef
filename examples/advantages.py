"""A policy learns to balance a pole from advantages over packed episodes: a scan from the right.

64 carts run side by side for 256 steps. Where a pole has fallen the next episode begins, so that a
column holds several episodes of any lengths, one after another. With rewards r, values V of the
critic and δ[t] = r[t] + γ V[t+1] - V[t], in which V is 0 behind a fall, generalised advantages
(Schulman et al., 2016) are

    A[t] = δ[t] + γλ A[t+1],   A = δ at the last step of an episode

which is `jscan.linear_recurrence`, reversed, by segments. Nothing is padded, and nothing flows from
an episode to the one before it. `lax.scan` and `lax.associative_scan` take a coefficient of 0 at
falls for it.

    python examples/advantages.py                  100 updates
    python examples/advantages.py --plot pole.png  with a picture of lengths and advantages

The exit status is 0 only if all three agree with a loop in NumPy, on what was played last and on
episodes of random lengths in 64 columns of 16,384 steps, which are timed; and if episodes get three
times as long as they were at first. The extra `examples` brings matplotlib.
"""

from __future__ import annotations

import argparse
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

import jscan

CARTS, PLAYED, TIMED = 64, 256, 16384
DISCOUNT, FADING = 0.99, 0.95  # γ and λ
HIDDEN, RATE, KEEP_MEAN, KEEP_SQUARE = 32, 0.01, 0.9, 0.99
REPEATS = 3
TOLERANCE = 1e-5  # of the largest advantage

Model = dict[str, Any]
"""Arrays by what they are for."""


class Played(NamedTuple):
    """What happened, ``(time, carts)`` each: seen, done, and whether the pole then fell."""

    seen: Any
    pushed: Any
    fell: Any


# --- the pole -----------------------------------------------------------------------------------


def begun(key: jax.Array) -> jax.Array:
    """Carts at the start of an episode: place, speed, angle and its speed, all small."""
    return jax.random.uniform(key, (CARTS, 4), minval=-0.05, maxval=0.05)


def moved(state: jax.Array, push: jax.Array) -> jax.Array:
    """The carts a fiftieth of a second later (Barto, Sutton and Anderson, 1983)."""
    _, speed, angle, turn = state.T
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    force = (jnp.where(push, 10.0, -10.0) + 0.05 * turn**2 * sine) / 1.1
    turning = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    change = jnp.stack([speed, force - 0.05 * turning * cosine / 1.1, turn, turning], 1)
    return state + 0.02 * change


def said(model: Model, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The log odds of a push to the right, and the value of what is seen."""
    inside = jnp.tanh(seen @ model["into"] + model["shift"])
    both = inside @ model["out"] + model["level"]
    return both[..., 0], both[..., 1]


def played(model: Model, state: jax.Array, key: jax.Array) -> tuple[jax.Array, Played]:
    """Where the carts are after some time, and what happened."""

    def step(state: jax.Array, key: jax.Array) -> tuple[jax.Array, Played]:
        ours, again = jax.random.split(key)
        push = jax.random.bernoulli(ours, jax.nn.sigmoid(said(model, state)[0]))
        after = moved(state, push)
        fell = (abs(after[:, 0]) > 2.4) | (abs(after[:, 2]) > 0.21)
        return jnp.where(fell[:, None], begun(again), after), Played(state, push, fell)

    return lax.scan(step, state, jax.random.split(key, PLAYED))


# --- advantages ---------------------------------------------------------------------------------

Recurrence = Callable[[jax.Array, jax.Array], jax.Array]
"""A from δ and from where episodes end, ``(time, carts)`` each."""


def by_jscan(delta: jax.Array, ends: jax.Array) -> jax.Array:
    """By segments, which begin behind an end."""
    heads = jnp.concatenate([jnp.ones_like(ends[:1]), ends[:-1]])
    kept = jnp.full((1, 1), DISCOUNT * FADING, delta.dtype)
    return jscan.linear_recurrence(kept, delta, reverse=True, segments=heads)


def by_pairs(delta: jax.Array, ends: jax.Array) -> jax.Array:
    """As a scan of maps ``A -> k A + δ``, two of which in a row are one again."""
    maps = jnp.where(ends, 0, DISCOUNT * FADING), delta
    join: Any = lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1])  # noqa: E731
    return lax.associative_scan(join, maps, reverse=True)[1]


def by_steps(delta: jax.Array, ends: jax.Array) -> jax.Array:
    """One step before another."""

    def before(later: jax.Array, given: Any) -> tuple[jax.Array, jax.Array]:
        delta, is_end = given
        found = delta + jnp.where(is_end, 0, DISCOUNT * FADING) * later
        return found, found

    return lax.scan(before, jnp.zeros_like(delta[0]), (delta, ends), reverse=True)[1]


WAYS: dict[str, Recurrence] = {
    "lax.scan": by_steps,
    "lax.associative_scan": by_pairs,
    "jscan.linear_recurrence": by_jscan,
}


def in_numpy(delta: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The same in double precision, cart by cart."""
    found = delta.astype(np.float64)
    for t in range(len(delta) - 2, -1, -1):
        found[t] += np.where(ends[t], 0, DISCOUNT * FADING) * found[t + 1]
    return found


def deltas(values: jax.Array, behind: jax.Array, fell: jax.Array) -> jax.Array:
    """Rewards of 1, less what was thought to come; ``behind`` are values after the last step."""
    after = jnp.concatenate([values[1:], behind[None]])
    return 1 + DISCOUNT * jnp.where(fell, 0, after) - values


# --- learning -----------------------------------------------------------------------------------


def beginning() -> Model:
    """A policy that knows nothing."""
    random = np.random.default_rng(0)
    model = {
        "into": random.normal(size=(4, HIDDEN)),
        "shift": np.zeros(HIDDEN),
        "out": 0.1 * random.normal(size=(HIDDEN, 2)),
        "level": np.zeros(2),
    }
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), model)


def loss_of(model: Model, happened: Played, advantage: jax.Array, returns: jax.Array) -> jax.Array:
    """Of the policy, whose pushes are as good as their advantages, and of the critic."""
    odds, values = said(model, happened.seen)
    log_p = jax.nn.log_sigmoid(jnp.where(happened.pushed, odds, -odds))
    good = (advantage - advantage.mean()) / advantage.std()
    return -(log_p * good).mean() + 0.005 * ((values - returns) ** 2).mean()


@jax.jit
def updated(training: Any, state: jax.Array, key: jax.Array) -> Any:
    """The training after a step of Adam, the carts after some time, and what happened to them."""
    parameters, mean, square, count = training
    model_of = ravel_pytree(beginning())[1]
    model = model_of(parameters)
    state, happened = played(model, state, key)
    values = said(model, happened.seen)[1]
    delta = deltas(values, said(model, state)[1], happened.fell)
    advantage = by_jscan(delta, happened.fell)
    slope = jax.grad(loss_of)(model, happened, advantage, advantage + values)
    slope, count = ravel_pytree(slope)[0], count + 1
    mean = KEEP_MEAN * mean + (1 - KEEP_MEAN) * slope
    square = KEEP_SQUARE * square + (1 - KEEP_SQUARE) * slope**2
    size = jnp.sqrt(square / (1 - KEEP_SQUARE**count)) + 1e-8
    parameters -= RATE * mean / (1 - KEEP_MEAN**count) / size
    return (parameters, mean, square, count), state, (delta, happened.fell, advantage)


def compared(delta: np.ndarray, ends: np.ndarray) -> list[str]:
    """What differs from the loop; times are printed."""
    wanted, wrong = in_numpy(delta, ends), []
    given = jnp.asarray(delta), jnp.asarray(ends)
    print(f"\n{f'{len(delta)} steps of {CARTS} carts by':26} {'time':>11} {'memory':>10}")
    for name, way in WAYS.items():
        compiled = jax.jit(way).lower(*given).compile()
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            found = jax.block_until_ready(compiled(*given))
            seconds.append(time.perf_counter() - start)
        analysis = compiled.memory_analysis()
        memory = "–" if analysis is None else f"{analysis.temp_size_in_bytes / 1e6:.1f} MB"
        print(f"{name:26} {1e3 * min(seconds):8.1f} ms {memory:>10}")
        off, scale = np.abs(np.asarray(found) - wanted).max(), np.abs(wanted).max()
        if not off <= TOLERANCE * scale:
            wrong.append(f"advantages by {name} are off by {off:.3g}, of {scale:.3g}")
    return wrong


def save_picture(path: Path, lengths: Sequence[float], fell: np.ndarray, found: np.ndarray) -> None:
    """How long poles stand, and the advantages of a cart whose pole falls."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(lengths)
    left.set(xlabel="update", ylabel="steps for a fall", ylim=(0, None))
    cart = int(fell.sum(0).argmax())
    right.plot(found[:, cart], color="C0")
    right.axhline(0, color="0.7", linewidth=0.8)
    for place in np.flatnonzero(fell[:, cart]):
        right.axvline(place + 0.5, color="C3", linewidth=0.8)
    right.set(xlabel="step of a cart; its pole falls at red lines", ylabel="advantage")
    figure.savefig(path, dpi=90, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn, print lengths of episodes and times, and check all of it."""
    parser = argparse.ArgumentParser(description="A pole balanced by packed episodes.")
    parser.add_argument("--updates", type=int, default=100, help="of the policy (default: 100)")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to save a picture")
    options = parser.parse_args(arguments)
    updates, picture = options.updates, options.plot
    if updates < 20:
        parser.error("there have to be 20 updates at least")
    if picture is not None and not picture.parent.is_dir():
        parser.error(f"cannot write {picture}: there is no such folder")

    parameters = ravel_pytree(beginning())[0]
    nothing, key = jnp.zeros_like(parameters), jax.random.key(0)
    training, state = (parameters, nothing, nothing, 0.0), begun(key)
    lengths: list[float] = []
    kept: list[np.ndarray] = []
    for _ in range(updates):
        key, ours = jax.random.split(key)
        training, state, last = updated(training, state, ours)
        lengths.append(last[1].size / max(int(last[1].sum()), 1))
        kept = kept or [*map(np.asarray, last)]
    tenth = updates // 10
    first, best = np.mean(lengths[:2]), np.mean(lengths[-tenth:])
    print(f"{updates} updates of {CARTS * PLAYED} steps each")
    print(f"steps for a fall: {first:.0f} in the first two updates, {best:.0f} in the last {tenth}")

    delta, fell, found = (np.asarray(x) for x in last)
    wrong = []
    if not np.abs(found - in_numpy(delta, fell)).max() <= TOLERANCE * np.abs(found).max():
        wrong.append("advantages of what was played last are not those of the loop")
    if not best > 3 * first:
        wrong.append("the policy does not learn")
    random = np.random.default_rng(0)
    drawn = random.normal(size=(TIMED, CARTS)).astype(np.float32)
    wrong += compared(drawn, random.random(drawn.shape) < 1 / best)
    if picture is not None:
        save_picture(picture, lengths, *kept[1:])
    versions = f"jscan {jscan.__version__}, jax {jax.__version__}"
    print(f"\nran on {jax.devices()[0].device_kind}; {versions}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    print(f"check: {'FAILED' if wrong else 'advantages are those of a loop in NumPy'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
