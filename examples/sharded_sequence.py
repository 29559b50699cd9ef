"""A long sequence that is sharded over devices, and a batch that is: what moves between them.

The model is a diagonal state-space model whose states decay by what comes in:

    h[t] = a[t] h[t-1] + (1 - a[t]) B x[t]      a[t] = sigmoid(ν + ω x[t])
    y[t] = C h[t]

It runs twice, both times inside of `jax.jit`, and nothing but the layout of its inputs says that
there are several devices. First each device has a part of one sequence: the loss and its gradients
by parameters and by inputs are those of one device, and only totals of parts move. Then each device
has some sequences of a batch, and the parameters are on all: in a step of training only the
gradient moves.

    python examples/sharded_sequence.py                              all devices; a CPU counts as 8
    python examples/sharded_sequence.py --length 1000000 --devices 4

The exit status is 0 only if values agree, and no more moves than that.
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jscan

LENGTHS = {"cpu": 2**16, "gpu": 2**24}
PARTS_OF_A_CPU = 8
SEQUENCES = 4
"""In the batch, for each device."""
STEPS = 20
RATE = 1.0
REPEATS = 5
TOLERANCE = 1e-4
"""Float32 rounds by 6e-8. Gradients are sums over a sequence in another order on several devices,
and differ by less than a tenth of it."""


class Model(NamedTuple):
    """ν and ω are ``(channels,)``, B and C ``(channels, channels)``."""

    nu: Any
    omega: Any
    b: Any
    c: Any


class Collective(NamedTuple):
    """An operation that moves numbers between devices, and how many its results have."""

    name: str
    elements: int


def model_of(seed: int, channels: int) -> Model:
    """States of which half is gone after 1 to 100 steps."""
    random = np.random.default_rng(seed)
    decay = 0.5 ** (1 / np.geomspace(1, 100, channels))
    b, c = random.normal(0, channels**-0.5, (2, channels, channels))
    omega = random.normal(0, 0.5, channels)
    model = Model(np.log(decay / (1 - decay)), omega, b, c)
    return Model(*(x.astype(np.float32) for x in model))


def outputs(model: Model, x: jax.Array) -> jax.Array:
    """What the model makes of a sequence ``(time, channels)``."""
    a = jax.nn.sigmoid(model.nu[None] + model.omega[None] * x)
    h = jscan.linear_recurrence(a, (1 - a) * (x @ model.b))
    return h @ model.c


def loss_of(model: Model, x: jax.Array, target: jax.Array) -> jax.Array:
    """The mean square by which outputs are off."""
    return jnp.mean((outputs(model, x) - target) ** 2)


def forward_and_backward(model: Model, x: jax.Array, target: jax.Array) -> dict[str, Any]:
    """The loss of a sequence, and its gradients by parameters and by inputs."""
    loss, (slopes, slopes_of_x) = jax.value_and_grad(loss_of, argnums=(0, 1))(model, x, target)
    named = {f"slope of {name}": slope for name, slope in slopes._asdict().items()}
    return {"loss": loss, **named, "slope of x": slopes_of_x}


def trained(model: Model, x: jax.Array, target: jax.Array) -> tuple[Model, jax.Array]:
    """The model after a step of gradient descent on a batch, and the loss before it."""

    def mean_loss(model: Model) -> jax.Array:
        return jnp.mean(jax.vmap(loss_of, (None, 0, 0))(model, x, target))

    loss, slopes = jax.value_and_grad(mean_loss)(model)
    return jax.tree.map(lambda p, slope: p - RATE * slope, model, slopes), loss


def collectives(program: str) -> list[Collective]:
    """The collectives of a compiled program."""
    names = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
    found = []
    for shapes, name in re.findall(rf"= (.*?) ({names})(?:-start)?\(", program):
        sizes = re.findall(r"\w+\[([\d,]*)\]", shapes)
        elements = [prod(int(size) for size in own.split(",") if size) for own in sizes]
        found.append(Collective(name, sum(elements)))
    return found


def seconds_of(run: Callable[..., Any], *operands: Any) -> float:
    """The median time of a few calls."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run(*operands))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def print_collectives(moved: Sequence[Collective]) -> None:
    """A line for each kind of collective."""
    for name, count in Counter(own.name for own in moved).items():
        sizes = [own.elements for own in moved if own.name == name]
        print(f"  {count:2} {name:12} of {max(sizes)} numbers at most, {sum(sizes)} in all")
    if not moved:
        print("  nothing moves")


def sequence_over_devices(mesh: Mesh, length: int, channels: int) -> list[str]:
    """Run a sequence on one device and on all, print how, and return what is wrong."""
    random = np.random.default_rng(2)
    x = random.standard_normal((length, channels), np.float32)
    one, count = mesh.devices[0], mesh.size
    print(f"a sequence of {length} steps and {channels} channels, {length // count} a device")
    target = jax.jit(outputs)(*jax.device_put((model_of(1, channels), x), one))
    operands = model_of(0, channels), x, np.asarray(target)

    alone = jax.device_put(operands, one)
    parts, whole = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())
    divided = jax.device_put(operands, (whole, parts, parts))
    run = jax.jit(forward_and_backward)
    programs = {
        name: (run.lower(*own).compile(), own)
        for name, own in (("one device", alone), (f"{count} devices", divided))
    }
    for name, (program, own) in programs.items():
        jax.block_until_ready(program(*own))
        print(f"  forward and backward on {name:11} {1e3 * seconds_of(program, *own):9.2f} ms")
    expected, actual = (jax.device_get(program(*own)) for program, own in programs.values())
    compiled = programs[f"{count} devices"][0]
    moved = collectives(compiled.as_text() or "")
    print_collectives(moved)

    wrong = []
    print("  largest differences, of the largest number:")
    for name, values in expected.items():
        off = float(np.abs(actual[name] - values).max() / np.abs(values).max())
        print(f"    {name:15} {off:.1e}")
        if not off <= TOLERANCE:
            wrong.append(f"{name} is off by {off:.1e} of the largest number")
    # A total for each channel of each device moves, or the loss and the gradient by parameters.
    limit = max(count * channels, 1 + sum(p.size for p in operands[0]))
    wrong += [f"{own.elements} numbers in {own.name}" for own in moved if own.elements > limit]
    return wrong


def batch_over_devices(mesh: Mesh, length: int, channels: int) -> list[str]:
    """Train on a batch whose sequences are on different devices, and return what is wrong."""
    batch = SEQUENCES * mesh.size
    x = np.random.default_rng(3).standard_normal((batch, length, channels), np.float32)
    parts, whole = NamedSharding(mesh, P("devices")), NamedSharding(mesh, P())
    model, teacher = jax.device_put((model_of(0, channels), model_of(1, channels)), whole)
    x = jax.device_put(x, parts)
    target = jax.jit(jax.vmap(outputs, (None, 0)))(teacher, x)
    print(f"\na batch of {batch} sequences of {length} steps, {SEQUENCES} a device")
    step = jax.jit(trained, out_shardings=whole).lower(model, x, target).compile()
    moved = collectives(step.as_text() or "")
    losses = []
    for _ in range(STEPS):
        model, loss = step(model, x, target)
        losses.append(float(loss))
    print(f"  a step of training {1e3 * seconds_of(step, model, x, target):9.2f} ms")
    print_collectives(moved)
    print(f"  loss {losses[0]:.4f} before the first step, {losses[-1]:.4f} before the last")

    parameters = sum(p.size for p in model)
    wrong = [f"{own.name} in a step of training" for own in moved if own.name != "all-reduce"]
    elements = sum(own.elements for own in moved)
    if elements > parameters + 1:
        wrong.append(f"{elements} numbers move, of {parameters} parameters and a loss")
    if not losses[-1] < losses[0]:
        wrong.append(f"the loss went from {losses[0]} to {losses[-1]}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both layouts, print what they cost, and check them."""
    parser = argparse.ArgumentParser(description="A sequence that is sharded over devices.")
    parser.add_argument("--length", type=int, help="steps (default: 2^24 on GPUs, 2^16 elsewhere)")
    parser.add_argument("--channels", type=int, default=4, help="of the model (default: 4)")
    parser.add_argument(
        "--devices", type=int, help=f"how many (default: all; a CPU counts as {PARTS_OF_A_CPU})"
    )
    options = parser.parse_args(arguments)
    given = [options.length, options.channels, options.devices]
    if min(x for x in given if x is not None) < 1:
        parser.error("there has to be a step, a channel and a device at least")
    with contextlib.suppress(RuntimeError):  # once JAX runs, a CPU has the devices that it has
        jax.config.update("jax_num_cpu_devices", options.devices or PARTS_OF_A_CPU)
    devices = jax.devices()[: options.devices]
    count, channels = len(devices), options.channels
    if count < (options.devices or 1):
        parser.error(f"there are {count} devices, not {options.devices}")
    length = options.length or LENGTHS.get(devices[0].platform, LENGTHS["cpu"])
    if length % count:
        parser.error(f"{length} steps do not divide evenly over {count} devices")

    mesh = Mesh(np.array(devices), ("devices",), axis_types=(AxisType.Auto,))
    wrong = sequence_over_devices(mesh, length, channels)
    wrong += batch_over_devices(mesh, length // count, channels)
    versions = f"jscan {jscan.__version__}, jax {jax.__version__}"
    kind = f"{devices[0].platform} ({devices[0].device_kind})"
    print(f"\nran: {count} devices of {kind}; {versions}, Python {platform.python_version()}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    agree = "the values are those of one device, and only totals and gradients move"
    print(f"check: {'FAILED' if wrong else agree}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
