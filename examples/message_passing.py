"""Messages along the ties of a real network, gathered where they arrive.

Edges are sorted by destination, as the rows of a CSR matrix are, so the edges into a node are a
segment: `segment_sum` adds what arrives there and `segment_max` keeps the highest. One jitted
program computes, for a graph that comes with networkx,

    rank        PageRank: a weighted sum over neighbours, until nothing moves
    hub         the best connected node within reach: a maximum, until nothing changes
    pull        of each of two leaders, the nodes of highest rank: a weighted mean over
                neighbours, ROUNDS times, in which the leaders keep to themselves
    attention   how far a node listens to each neighbour: a softmax over the edges into it
    opinion     the mean of the neighbours' pulls by attention, which splits the nodes in two
    slope       the gradient, by the weight of every edge, of how far the two pulls differ

It runs with `jscan` and again with `jax.ops`, whose functions take the same arguments. The results
are compared with each other and with a loop in NumPy, ranks and hubs with networkx's own as well.

    python examples/message_passing.py                  Zachary's karate club
    python examples/message_passing.py les_miserables   another graph of networkx

The exit status is 0 only if every number agrees. The extra `examples` brings networkx.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import networkx  # type: ignore[import-untyped]
import numpy as np

import jscan

GRAPHS = ("karate_club", "davis_southern_women", "florentine_families", "les_miserables")
DAMPING = 0.85
SETTLED = 1e-13
ROUNDS = 4
SHARPNESS = 3.0
BUMP = 1e-5
TOLERANCE = 1e-9
"""In float64, sums in another order and difference quotients of BUMP stay below a tenth of it."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Network:
    """Both directions of every tie, sorted by destination; ``ops`` is jscan or jax.ops."""

    source: Any
    destination: Any
    weight: Any
    nodes: int = dataclasses.field(metadata={"static": True})
    ops: ModuleType = dataclasses.field(default=jscan, metadata={"static": True})

    def add(self, messages: jax.Array) -> jax.Array:
        """The sum of the messages ``(edges, ...)`` to each node: ``(nodes, ...)``."""
        return self.ops.segment_sum(messages, self.destination, self.nodes, indices_are_sorted=True)

    def highest(self, messages: jax.Array) -> jax.Array:
        """The highest of the messages ``(edges, ...)`` to each node: ``(nodes, ...)``."""
        return self.ops.segment_max(messages, self.destination, self.nodes, indices_are_sorted=True)


def network_of(graph: Any) -> Network:
    """The rows of the adjacency matrix, one after another; a tie without a weight counts 1."""
    number = {node: i for i, node in enumerate(graph)}
    rows = [
        (number[source], number[destination], tie.get("weight", 1))
        for destination, neighbours in graph.adjacency()
        for source, tie in neighbours.items()
    ]
    source, destination, weight = np.array(rows, np.float64).T
    return Network(source.astype(np.int32), destination.astype(np.int32), weight, len(number))


def pagerank(network: Network) -> jax.Array:
    """Each round a node sends its rank along its edges in proportion to their weights."""
    nodes, source = network.nodes, network.source
    share = network.weight / network.add(network.weight)[source]

    def again(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rank, _ = state
        return (1 - DAMPING) / nodes + DAMPING * network.add(share * rank[source]), rank

    start = jnp.full(nodes, 1 / nodes), jnp.zeros(nodes)
    return jax.lax.while_loop(lambda s: jnp.abs(s[0] - s[1]).sum() > SETTLED, again, start)[0]


def hubs(network: Network) -> jax.Array:
    """The node of most ties in reach of each, the last of equal ones.

    Ties and number share an integer, so the highest one says which node it came from.
    """
    ties = network.add(jnp.ones_like(network.source))
    own = ties * network.nodes + jnp.arange(network.nodes, dtype=ties.dtype)

    def again(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        best, _ = state
        return jnp.maximum(best, network.highest(best[network.source])), best

    best, _ = jax.lax.while_loop(lambda s: (s[0] != s[1]).any(), again, (own, own - 1))
    return best % network.nodes


def pulls(network: Network, weight: jax.Array, leaders: jax.Array) -> jax.Array:
    """``(nodes, 2)``: how far each leader draws each node, as a function of the weights."""
    own = jax.nn.one_hot(leaders, network.nodes, dtype=weight.dtype, axis=0)
    strength = network.add(weight)[:, None]
    pull = own
    for _ in range(ROUNDS):
        mean = network.add(weight[:, None] * pull[network.source]) / strength
        pull = jnp.where(own.any(axis=1, keepdims=True), own, mean)
    return pull


def softmax(network: Network, score: jax.Array) -> jax.Array:
    """Shares of the edges into each node, which add up to 1 there.

    With a node's highest score taken away no exp overflows and no sum of them is 0.
    """
    share = jnp.exp(score - network.highest(score)[network.destination])
    return share / network.add(share)[network.destination]


def message_passing(network: Network) -> dict[str, jax.Array]:
    """All that the head of this file lists."""
    source, destination, weight = network.source, network.destination, network.weight
    rank = pagerank(network)
    _, leaders = jax.lax.top_k(rank, 2)
    pull = pulls(network, weight, leaders)
    likeness = (pull[source] * pull[destination]).sum(axis=1)
    attention = softmax(network, SHARPNESS * likeness + jnp.log(weight))

    def distance(weight: jax.Array) -> jax.Array:
        return jnp.mean(jnp.diff(pulls(network, weight, leaders)) ** 2)

    return {
        "rank": rank,
        "hub": hubs(network),
        "leaders": leaders,
        "pull": pull,
        "attention": attention,
        "opinion": network.add(attention[:, None] * pull[source]),
        "slope": jax.grad(distance)(weight),
    }


def in_numpy(network: Network) -> dict[str, Any]:
    """The same, edge by edge; the slope as a difference quotient."""
    source, destination, weight = network.source, network.destination, network.weight
    nodes = network.nodes

    def add(messages: Any) -> Any:
        total = np.zeros((nodes, *messages.shape[1:]), messages.dtype)
        for edge, node in enumerate(destination):
            total[node] += messages[edge]
        return total

    def pulls(weight: Any) -> Any:
        pull = np.eye(nodes)[:, leaders]
        for _ in range(ROUNDS):
            pull = add(weight[:, None] * pull[source]) / add(weight)[:, None]
            pull[leaders] = np.eye(2)
        return pull

    def distance(weight: Any) -> Any:
        return np.mean(np.diff(pulls(weight)) ** 2)

    rank, before = np.full(nodes, 1 / nodes), np.zeros(nodes)
    share = weight / add(weight)[source]
    while abs(rank - before).sum() > SETTLED:
        rank, before = (1 - DAMPING) / nodes + DAMPING * add(share * rank[source]), rank
    best = add(np.ones_like(source)) * nodes + np.arange(nodes)
    while (best[source] > best[destination]).any():
        for sender, receiver in zip(source, destination, strict=True):
            best[receiver] = max(best[receiver], best[sender])
    leaders = np.argsort(-rank)[:2]
    pull = pulls(weight)
    score = np.exp(SHARPNESS * (pull[source] * pull[destination]).sum(axis=1)) * weight
    attention = score / add(score)[destination]
    bumps = BUMP * np.eye(len(weight))
    rises = [distance(weight + bump) - distance(weight - bump) for bump in bumps]
    return {
        "rank": rank,
        "hub": best % nodes,
        "leaders": leaders,
        "pull": pull,
        "attention": attention,
        "opinion": add(attention[:, None] * pull[source]),
        "slope": np.array(rises) / (2 * BUMP),
    }


def in_networkx(graph: Any) -> dict[str, Any]:
    """Ranks and hubs as networkx finds them."""
    nodes = list(graph)
    rank = networkx.pagerank(graph, DAMPING, tol=SETTLED / len(nodes), max_iter=1000)
    hub = np.zeros(len(nodes), int)
    for component in networkx.connected_components(graph):
        numbers = [nodes.index(node) for node in component]
        hub[numbers] = max(numbers, key=lambda i: (graph.degree[nodes[i]], i))
    return {"rank": np.array([rank[node] for node in nodes]), "hub": hub}


def disagreements(results: dict[str, Any], others: dict[str, dict[str, Any]]) -> list[str]:
    """The first difference of each result from each of the others."""
    found = []
    for where, expected in others.items():
        for name, right in expected.items():
            wrong = np.argwhere(~(abs(results[name] - right) <= TOLERANCE))
            if wrong.size:
                i = tuple(map(int, wrong[0]))
                found.append(f"{name}{list(i)} is {results[name][i]}, not {right[i]} as in {where}")
    return found


def print_results(graph: Any, network: Network, results: dict[str, Any]) -> None:
    """A few of the numbers, and what they say about the graph."""
    names = np.array([str(node) for node in graph])
    clubs = np.array([data.get("club", "-") for _, data in graph.nodes(data=True)])
    rank, leaders, attention = results["rank"], results["leaders"], results["attention"]
    lead = results["opinion"][:, 0] - results["opinion"][:, 1]
    side = np.where(lead > 0, *leaders)
    print(f"{'highest rank':20} {'rank':>8}  {'sides with':20} joined")
    for i in np.argsort(-rank)[:5]:
        print(f"{names[i]:20} {rank[i]:8.6f}  {names[side[i]]:20} {clubs[i]}")
    print(f"best connected of its component: {', '.join(names[np.unique(results['hub'])])}")
    counts = [f"{np.sum((side == i) & (abs(lead) > TOLERANCE))} with {names[i]}" for i in leaders]
    print(f"split: {' and '.join(counts)} of {len(names)}")
    if "-" not in clubs:
        wrong = names[clubs != clubs[side]]
        right = f"{len(names) - len(wrong)} of {len(names)}"
        print(f"the recorded split agrees for {right}, not for {', '.join(wrong)}")
    i = np.argmin(abs(lead))
    row = np.flatnonzero(network.destination == i)
    row = row[np.argsort(-attention[row], kind="stable")][:4]
    heard = ", ".join(f"{names[network.source[e]]} ({attention[e]:.3f})" for e in row)
    print(f"{names[i]}, the least decided, listens to {heard}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Pass the messages, print what they say, and check all of it."""
    parser = argparse.ArgumentParser(description="Message passing on a real graph.")
    parser.add_argument("graph", nargs="?", choices=GRAPHS, default=GRAPHS[0])
    name = parser.parse_args(arguments).graph
    jax.config.update("jax_enable_x64", True)

    graph = getattr(networkx, f"{name}_graph")()
    network = network_of(graph)
    program = jax.jit(message_passing)
    results = jax.device_get(program(network))
    others = {
        "jax.ops": jax.device_get(program(dataclasses.replace(network, ops=jax.ops))),
        "NumPy": in_numpy(network),
        "networkx": in_networkx(graph),
    }
    print(f"{name}: {network.nodes} nodes, {graph.number_of_edges()} ties\n")
    print_results(graph, network, results)
    kind = jax.devices()[0].device_kind
    print(f"\nran on {kind}; jscan {jscan.__version__}, jax {jax.__version__}")
    found = disagreements(results, others)
    for line in found:
        print(f"wrong: {line}", file=sys.stderr)
    agrees = "every number agrees with jax.ops, a loop in NumPy and networkx"
    print(f"check: {'FAILED' if found else agrees}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
