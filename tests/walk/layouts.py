"""Where operands lie: on one device, or over the devices of a mesh, in each of its manners."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

Function = Callable[..., list[Any]]
Labels = tuple[Sequence[str], Sequence[str]]
"""Those of operands and those of results."""


@dataclass(frozen=True)
class Layout:
    """A mesh, and which of its axes each letter of a label is laid over."""

    name: str
    devices: tuple[int, ...] = ()
    letters: str = ""
    explicit: bool = False
    # Whether the mesh is the current one, or known by its arrays alone.
    current: bool = False
    # What shard_map is of: the function under test, or the program that transforms it.
    mapped: str = ""
    # Whether the function is told that its axis goes on across the mesh.
    across: bool = False

    def spec(self, label: str) -> P:
        """The partition of an array with this label."""
        return P(*(self._axis(letter) for letter in label))

    def _axis(self, letter: str) -> str | None:
        place = self.letters.find(letter)
        return f"mesh {letter}" if place >= 0 else None

    def mesh(self) -> jax.sharding.Mesh:
        """The mesh, of CPU devices."""
        kind = AxisType.Explicit if self.explicit else AxisType.Auto
        count = 1
        for size in self.devices:
            count *= size
        names = tuple(f"mesh {letter}" for letter in self.letters)
        kinds = (kind,) * len(names)
        return jax.make_mesh(self.devices, names, kinds, devices=jax.devices("cpu")[:count])

    def divides(self, labels: Sequence[str]) -> bool:
        """Whether each of the letters is in some label."""
        return all(any(letter in label for label in labels) for letter in self.letters)

    def mapped_over(self, mesh: jax.sharding.Mesh, function: Function, labels: Labels) -> Function:
        """What each device of a mesh runs on its parts of arrays."""
        given, made = ([self.spec(label) for label in each] for each in labels)
        return jax.shard_map(function, mesh=mesh, in_specs=tuple(given), out_specs=made)

    def told(self, function: Function) -> Function:
        """The function under test, told how its axis goes on."""
        return functools.partial(function, axis_name=self._axis("n")) if self.across else function

    def run(
        self,
        program_of: Callable[[Function], Function],
        function: Function,
        arrays: Sequence[Any],
        *,
        labels: Labels,
        own: Labels,
        compiled: bool,
    ) -> list[Any]:
        """The results of a program of a function, on arrays laid out by their labels.

        `labels` are those of the program's operands and of its results, `own` the function's.
        """
        if not self.devices:
            program = program_of(function)
            return list((jax.jit(program) if compiled else program)(*arrays))
        mesh = self.mesh()
        function = self.told(function)
        if self.mapped == "function":
            function = self.mapped_over(mesh, function, own)
        program = program_of(function)
        if self.mapped == "program":
            program = self.mapped_over(mesh, program, labels)
        placed = [
            jax.device_put(x, NamedSharding(mesh, self.spec(label)))
            for x, label in zip(arrays, labels[0], strict=True)
        ]
        with jax.set_mesh(mesh) if self.current else contextlib.nullcontext():
            return list((jax.jit(program) if compiled else program)(*placed))

    def assert_kept(self, y: Any, label: str) -> None:
        """Asserts that what is not scanned is sharded as it was, where types tell."""
        if not self.explicit:
            return
        found = jax.typeof(y).sharding.spec
        for dimension, letter in enumerate(label):
            if letter != "n" and self._axis(letter) is not None:
                assert found[dimension] == self._axis(letter), f"{found} of {label}"


ONE_DEVICE = Layout("one device")
ACROSS = Layout(
    "shard_map of the function across the axis", (4,), "n", mapped="function", across=True
)
LAYOUTS = (
    ONE_DEVICE,
    Layout("Auto mesh over rows", (4,), "r"),
    Layout("Auto mesh over the axis", (4,), "n"),
    Layout("Explicit mesh over rows", (4,), "r", explicit=True, current=True),
    Layout("Explicit mesh over the axis", (4,), "n", explicit=True, current=True),
    Layout("Explicit mesh over both", (2, 2), "rn", explicit=True, current=True),
    Layout("Explicit mesh over a batch", (2,), "b", explicit=True, current=True),
    Layout("Explicit mesh of arrays over rows", (4,), "r", explicit=True),
    Layout("Explicit mesh of arrays over the axis", (4,), "n", explicit=True),
    Layout("shard_map of the function", (4,), "r", mapped="function"),
    Layout("shard_map of the program", (4,), "r", mapped="program"),
    ACROSS,
    Layout("shard_map of the program across the axis", (4,), "n", mapped="program", across=True),
    Layout("shard_map across the axis over both", (2, 2), "rn", mapped="function", across=True),
)
