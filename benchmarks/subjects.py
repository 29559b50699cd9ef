"""What is scanned by one strategy after another: operands, check, bytes and peers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax.numpy as jnp
from jax import lax

from benchmarks import answers, inputs, methods, operations
from benchmarks.answers import Check
from benchmarks.case import Case, Inputs
from benchmarks.inputs import Build
from benchmarks.operations import Operation
from benchmarks.outside import Peer

SCAN = "lax.associative_scan"
EVERYWHERE = ("auto", "xla")
"""Methods that need no GPU."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """An operation that every strategy can do; fields are those of `Case`, which it becomes."""

    inputs: Inputs
    run: Callable[[str], Operation]
    check: Check
    bytes: int
    peers: Mapping[str, Operation] = dataclasses.field(default_factory=dict)
    outside: tuple[Peer, ...] = ()

    def case(
        self,
        name: str,
        method: str,
        *,
        group: str,
        at: float | str,
        line: str = "",
    ) -> Case:
        """A case of one method; "auto" brings the peers along. The method is the line's name."""
        first = method == "auto"
        return Case(
            name,
            self.inputs,
            self.run(method),
            self.check,
            self.bytes,
            peers=self.peers if first else {},
            outside=self.outside if first else (),
            elsewhere=None if method in EVERYWHERE else self.run("auto"),
            line=line or method,
            group=group,
            at=at,
        )


Of = Callable[[int], Subject]
"""A subject by how many elements it has."""


def number(n: int) -> str:
    """How a size is written: as a power of two where it is one."""
    return f"2^{n.bit_length() - 1}" if n.bit_count() == 1 else str(n)


def shrunk(n: int, shrink: int) -> int:
    """A size divided by 2^shrink, but not to less than 2^10 where it is more."""
    return max(n >> shrink, min(n, 2**10))


def plain_sum(n: int) -> Subject:
    """A sum of float32: 8 bytes an element."""
    peers = {"lax.cumsum": operations.lax_cumsum()}
    if n.bit_count() == 1:
        peers[SCAN] = operations.lax_scan(lax.add)
    return Subject(
        Inputs(inputs.signs((n,), jnp.float32)),
        methods.cumsum,
        answers.sum_of_integers(),
        8 * n,
        peers,
        (
            Peer("torch", "cumsum"),
            Peer("cupy", "cumsum"),
            Peer("cub", "InclusiveSum"),
            Peer("cuda.compute", "inclusive_scan"),
        ),
    )


def segmented_sum(n: int, heads: Build, args: tuple[float, ...] = ()) -> Subject:
    """A segmented sum of float32 with uint8 heads: 9 bytes an element.

    CUB takes keys of 4 bytes in place of heads, and so moves 12; its share is of the 9 as well.
    """
    return Subject(
        Inputs(heads, args),
        methods.segmented_sum,
        answers.segmented_sum,
        9 * n,
        {SCAN: operations.lax_segmented_sum},
        (Peer("cub", "InclusiveSumByKey"),),
    )


def affine(n: int) -> Subject:
    """A recurrence in float32: 12 bytes an element."""
    return Subject(
        Inputs(inputs.reflections((n,))),
        methods.recurrence,
        answers.recurrence,
        12 * n,
        {SCAN: operations.lax_recurrence},
    )


def both_affine(n: int) -> Subject:
    """The same with the products of slopes as a result: 16 bytes an element."""
    return Subject(
        Inputs(inputs.reflections((n,))), methods.affine, answers.both_recurrences, 16 * n
    )


def segmented_affine(n: int, density: float) -> Subject:
    """A segmented recurrence in float32 with uint8 heads: 13 bytes an element."""
    return Subject(
        Inputs(inputs.flagged_reflections(n), (density,)),
        methods.segmented_recurrence,
        answers.segmented_recurrence,
        13 * n,
    )
