"""The prefix networks that tests run through, with what the literature says of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from jscan import networks

FIBONACCI = [0, 1]
while len(FIBONACCI) < 20:
    FIBONACCI.append(FIBONACCI[-1] + FIBONACCI[-2])


@dataclasses.dataclass(frozen=True)
class Case:
    """A network, and what is known of its depth, size and fan-out for n = 2^m from n = 8 · 2^k."""

    name: str
    depth: Callable[[int], int]
    size: Callable[[int, int], int]
    fan_out: Callable[[int], int]
    slack: int = 0

    @property
    def function(self) -> Callable[..., Any]:
        """The public function."""
        function: Callable[..., Any] = getattr(networks, self.name)
        return function

    @property
    def options(self) -> dict[str, int]:
        """What says that the network has slack."""
        return {"slack": self.slack} if self.slack else {}

    def scan(self, *arguments: Any, **keywords: Any) -> Any:
        """Scans along the wires of the network."""
        return self.function(*arguments, **keywords, **self.options)

    def levels(self, n: int) -> list[list[tuple[int, int]]]:
        """Returns the nodes on n wires."""
        return networks.levels(self.function, n, **self.options)


def ladner_fischer(k: int) -> Case:
    """Returns P_k of the paper."""
    return Case(
        "ladner_fischer",
        lambda m: m + k,
        lambda n, m: 2 * n + 2 * n // 2**k - FIBONACCI[m - k + 5] + 1 - k,
        lambda n: n // 2 ** (k + 1),
        k,
    )


CASES = {
    "kogge_stone": Case("kogge_stone", lambda m: m, lambda n, m: n * m - n + 1, lambda _: 2),
    "hockney_jesshope": Case("hockney_jesshope", lambda m: m, lambda n, m: n * m, lambda _: 2),
    "sklansky": Case("sklansky", lambda m: m, lambda n, m: n * m // 2, lambda n: n // 2),
    "brent_kung": Case("brent_kung", lambda m: 2 * m - 2, lambda n, m: 2 * n - 2 - m, lambda _: 2),
    "han_carlson": Case("han_carlson", lambda m: m + 1, lambda n, m: n * m // 2, lambda _: 2),
    **{f"ladner_fischer {k}": ladner_fischer(k) for k in (0, 1, 2, 4)},
}
every_network = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def walk(a: Any, b: Any) -> Any:
    """Joins two walks along a line, each twice its steps, plus 1 if it ends with a turn.

    Steps after a turn count the other way, so that no two walks may be exchanged.
    """
    return ((b >> 1) + (a >> 1) * (1 - 2 * (b & 1))) * 2 + ((a ^ b) & 1)
