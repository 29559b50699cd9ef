"""Parallel prefix networks in plain JAX: to teach with, to compare, and for short axes.

A network has a wire for each element and runs level by level. A node ``(s, t)`` joins wire ``t``
with a wire ``s`` to its left, ``x[t] = fn(x[s], x[t])``, and all nodes of a level read what the
levels before have left. The six functions here scan along the wires of six networks. Each level is
one call of ``fn`` on the elements that the level joins and on no others, so that `depth` is the
number of calls and `size` the number of elements in all of them together. With n = 2^m, and k for
the slack of ``ladner_fischer``:

    network            depth      size                                      fan-out
    kogge_stone        m          n m - n + 1                               2
    hockney_jesshope   m          n m                                       2
    sklansky           m          n m / 2                                   n / 2
    ladner_fischer     m + k      2 (1 + 2^-k) n - F(m - k + 5) + 1 - k     n / 2^(k+1)
    han_carlson        m + 1      n m / 2                                   2
    brent_kung         2 m - 2    2 n - 2 - m                               2

Here F(i) is the i-th Fibonacci number, and the fan-out is how many nodes of one level read one
wire, their own included. All of it holds from n = 8 · 2^k on, and most of it below, as the formulas
for any n say that each function has. No network has a depth of less than ⌈log2 n⌉, nor depth and
size that add up to less than 2 n - 2 (Snir, *Depth-Size Trade-offs for Parallel Prefix
Computation*, 1986).

No ``method=`` of jscan runs a network. `jscan.associative_scan` is the scan for long axes and for
speed: a network here is a number of operations, on slices, that grows with its length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from jscan import advice, wires
from jscan.arguments import choices, scalars, trees

__all__ = [
    "brent_kung",
    "depth",
    "han_carlson",
    "hockney_jesshope",
    "kogge_stone",
    "ladner_fischer",
    "levels",
    "size",
    "sklansky",
]


@advice.advised
def kogge_stone(
    fn: Callable[[Any, Any], Any], elems: Any, axis: int = 0, *, reverse: bool = False
) -> Any:
    """Scan by recursive doubling: each element takes in the one 1, then 2, 4, 8 before it.

        0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
        |  0  1  2  3  4  5  6  7  8  9 10 11 12 13 14
        |  |  0  0  1  2  3  4  5  6  7  8  9 10 11 12
        |  |  |  |  0  0  0  0  1  2  3  4  5  6  7  8
        |  |  |  |  |  |  |  |  0  0  0  0  0  0  0  0

    Columns are wires and lines levels; a number is a node, and the first element of its total.

    The depth is L = ⌈log2 n⌉ and the size n L - 2^L + 1, for every n. Fan-out is 2, paid for with
    more nodes than any other network here but `hockney_jesshope`.

    Args:
      fn: an associative operator; it need not commute. ``fn(a, b)`` takes two pytrees like
        ``elems``, of any length along ``axis``, and combines them element by element; ``a`` is
        earlier. It is called on elements as they are: float16 and bfloat16 are not widened.
      elems: a pytree of arrays of any dtype with one length along ``axis``, 0 and 1 included.
      axis: the axis to scan, counted from the end where negative.
      reverse: scan from the end; the network is mirrored, and ``a`` is later than ``b``, as in
        ``jax.lax.associative_scan``.

    Returns:
      A pytree like ``elems``, of the same shapes and dtypes: the inclusive scan.

    Raises:
      TypeError: ``fn`` is not callable or returns another dtype; a leaf is not an array.
      ValueError: ``axis`` or a length does not fit, or ``fn`` returns another shape.

    Source: Kogge and Stone, *A Parallel Algorithm for the Efficient Solution of a General Class of
    Recurrence Equations* (1973). Hillis and Steele, *Data Parallel Algorithms* (1986), have the
    same wires, with a processor for each.

    Example:
      >>> import jax.numpy as jnp
      >>> from jscan import networks
      >>> print(networks.kogge_stone(jnp.add, jnp.array([3, 1, 4, 1, 5])))
      [ 3  4  8  9 14]
      >>> networks.depth(networks.kogge_stone, 16), networks.size(networks.kogge_stone, 16)
      (4, 49)
    """
    return _scan(kogge_stone, fn, elems, axis, reverse)


@advice.advised
def hockney_jesshope(
    fn: Callable[[Any, Any], Any], elems: Any, axis: int = 0, *, reverse: bool = False
) -> Any:
    """Scan by recursive doubling on an array computer, whose lanes all work in every step.

        0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
        .  0  1  2  3  4  5  6  7  8  9 10 11 12 13 14
        .  .  0  0  1  2  3  4  5  6  7  8  9 10 11 12
        .  .  .  .  0  0  0  0  1  2  3  4  5  6  7  8
        .  .  .  .  .  .  .  .  0  0  0  0  0  0  0  0

    Columns are wires and lines levels; a number is a node, and the first element of its total.

    The results are those of `kogge_stone` and so are the wires. A step of an array computer is one
    operation on all lanes, though, here with the elements shifted by 1, then 2, 4, 8. Lanes that
    have nothing so far to their left, marked ``.``, compute as well, and the step costs as much as
    if they were needed. The original shifts zeros in; as ``fn`` need not have an identity, such a
    lane repeats what the first busy one computes, and drops it. The depth is L = ⌈log2 n⌉ and the
    size n L, for every n; fan-out is 2.

    Arguments, results and errors are those of `kogge_stone`.

    Source: after Hockney and Jesshope, *Parallel Computers* (1981), the cascade of partial sums.

    Example:
      >>> import jax.numpy as jnp
      >>> from jscan import networks
      >>> print(networks.hockney_jesshope(jnp.add, jnp.array([3, 1, 4, 1, 5])))
      [ 3  4  8  9 14]
      >>> network = networks.hockney_jesshope
      >>> networks.depth(network, 16), networks.size(network, 16)
      (4, 64)
    """
    return _scan(hockney_jesshope, fn, elems, axis, reverse)


@advice.advised
def sklansky(
    fn: Callable[[Any, Any], Any], elems: Any, axis: int = 0, *, reverse: bool = False
) -> Any:
    """Scan by halves: both at once, then the left one's total goes to all of the right one.

        0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
        |  0  |  2  |  4  |  6  |  8  | 10  | 12  | 14
        |  |  0  0  |  |  4  4  |  |  8  8  |  | 12 12
        |  |  |  |  0  0  0  0  |  |  |  |  8  8  8  8
        |  |  |  |  |  |  |  |  0  0  0  0  0  0  0  0

    Columns are wires and lines levels; a number is a node, and the first element of its total.

    The depth is ⌈log2 n⌉. The size is the number of ones in the binary numbers from 0 to n - 1,
    since wire t is a target once for each one in t: (n / 2) log2 n at powers of two. A wire is read
    by up to n / 2 nodes at once.

    Arguments, results and errors are those of `kogge_stone`.

    Source: Sklansky, *Conditional-Sum Addition Logic* (1960).

    Example:
      >>> import jax.numpy as jnp
      >>> from jscan import networks
      >>> print(networks.sklansky(jnp.add, jnp.array([3, 1, 4, 1, 5])))
      [ 3  4  8  9 14]
      >>> networks.depth(networks.sklansky, 16), networks.size(networks.sklansky, 16)
      (4, 32)
    """
    return _scan(sklansky, fn, elems, axis, reverse)


@advice.advised
def ladner_fischer(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    axis: int = 0,
    *,
    reverse: bool = False,
    slack: int = 0,
) -> Any:
    """Scan by halves, where only the total of the left half has to be early, which saves nodes.

        0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
        |  0  |  2  |  4  |  6  |  8  | 10  | 12  | 14
        |  |  |  0  |  |  |  4  |  |  8  8  |  | 12 12
        |  |  |  |  |  0  |  0  |  |  |  |  8  8  8  8
        |  |  0  |  0  |  0  |  0  0  0  0  0  0  0  0

    Columns are wires and lines levels; a number is a node, and the first element of its total.

    This is P_k(n) of the paper for k = ``slack``, levels more than the least there are. P_0 scans
    the left ⌈n/2⌉ by P_1 and the right ⌊n/2⌋ by P_0, and hands the left total to the right. P_k
    joins pairs, scans their totals (and an odd last element) by P_(k-1), and hands each to the next
    pair's first. The depth is ⌈log2 n⌉ + k where 2 n > 9 · 2^k; below, the greater of ⌈log2 n⌉ and
    the depth of `brent_kung` for n - 1. The size S_k(n) is 0 for n < 2, and else

        S_0(n) = S_1(⌈n/2⌉) + S_0(⌊n/2⌋) + ⌊n/2⌋      S_k(n) = S_(k-1)(⌈n/2⌉) + 2 ⌊n/2⌋ - 1

    so that S_0(n) < 4 n. At powers of two slack leads from there down to `brent_kung` itself. Up to
    n = 14, P_0 is as large as the network of `sklansky`, which is often given this one's name.

    Other arguments, results and errors are those of `kogge_stone`.

    Args:
      fn: an associative operator.
      elems: a pytree of arrays.
      axis: the axis to scan.
      reverse: scan from the end.
      slack: how much deeper than ⌈log2 n⌉ the network may be, for the sake of its size.

    Returns:
      A pytree like ``elems``.

    Raises:
      TypeError: ``slack`` is not an integer.
      ValueError: ``slack`` is negative.

    Source: Ladner and Fischer, *Parallel Prefix Computation* (1980).

    Example:
      >>> import jax.numpy as jnp
      >>> from jscan import networks
      >>> print(networks.ladner_fischer(jnp.add, jnp.array([3, 1, 4, 1, 5]), slack=1))
      [ 3  4  8  9 14]
      >>> [networks.size(networks.ladner_fischer, 1024, slack=k) for k in range(4)]
      [3487, 2695, 2326, 2158]
    """
    slack = scalars.as_size("jscan.networks.ladner_fischer", "slack", slack)
    return _scan(ladner_fischer, fn, elems, axis, reverse, slack)


@advice.advised
def brent_kung(
    fn: Callable[[Any, Any], Any], elems: Any, axis: int = 0, *, reverse: bool = False
) -> Any:
    """Scan by a tree: totals of 2, 4, 8 elements on the way up, and on the way down all others.

        0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
        |  0  |  2  |  4  |  6  |  8  | 10  | 12  | 14
        |  |  |  0  |  |  |  4  |  |  |  8  |  |  | 12
        |  |  |  |  |  |  |  0  |  |  |  |  |  |  |  8
        |  |  |  |  |  |  |  |  |  |  |  0  |  |  |  0
        |  |  |  |  |  0  |  |  |  0  |  |  |  0  |  |
        |  |  0  |  0  |  0  |  0  |  0  |  0  |  0  |

    Columns are wires and lines levels; a number is a node, and the first element of its total.

    The size is 2 n - 1 - ν(n) - ⌊log2 n⌋, where ν(n) counts the ones in n as a binary number:
    2 n - 2 - log2 n at powers of two. The depth is n - 1 for 0 < n < 4, and then
    ⌊log2(4 n / 5)⌋ + ⌊log2(4 n / 7)⌋: 2 log2 n - 2 at powers of two. The tree has 2 log2 n - 1
    rows, by which its depth is often given, but the last one up and the first one down do not need
    each other and are one level here. Rows are not split between levels, which costs a level for
    some n that are not powers of two. Fan-out is 2.

    Arguments, results and errors are those of `kogge_stone`.

    Source: Brent and Kung, *A Regular Layout for Parallel Adders* (1982).

    Example:
      >>> import jax.numpy as jnp
      >>> from jscan import networks
      >>> print(networks.brent_kung(jnp.add, jnp.array([3, 1, 4, 1, 5])))
      [ 3  4  8  9 14]
      >>> networks.depth(networks.brent_kung, 16), networks.size(networks.brent_kung, 16)
      (6, 26)
    """
    return _scan(brent_kung, fn, elems, axis, reverse)


@advice.advised
def han_carlson(
    fn: Callable[[Any, Any], Any], elems: Any, axis: int = 0, *, reverse: bool = False
) -> Any:
    """Scan pairs by `kogge_stone`, between a first and a last level as in `brent_kung`.

        0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
        |  0  |  2  |  4  |  6  |  8  | 10  | 12  | 14
        |  |  |  0  |  2  |  4  |  6  |  8  | 10  | 12
        |  |  |  |  |  0  |  0  |  2  |  4  |  6  |  8
        |  |  |  |  |  |  |  |  |  0  |  0  |  0  |  0
        |  |  0  |  0  |  0  |  0  |  0  |  0  |  0  |

    Columns are wires and lines levels; a number is a node, and the first element of its total.

    The size is n - 1 and that of `kogge_stone` for ⌊n/2⌋: (n / 2) log2 n at powers of two, which is
    about half the nodes of `kogge_stone` for one level more. The depth is n - 1 for 0 < n < 3, and
    then 2 + ⌈log2⌊(n - 1) / 2⌋⌉: log2 n + 1 at powers of two from 8 on. Fan-out is 2.

    Arguments, results and errors are those of `kogge_stone`.

    Source: Han and Carlson, *Fast Area-Efficient VLSI Adders* (1987).

    Example:
      >>> import jax.numpy as jnp
      >>> from jscan import networks
      >>> print(networks.han_carlson(jnp.add, jnp.array([3, 1, 4, 1, 5])))
      [ 3  4  8  9 14]
      >>> networks.depth(networks.han_carlson, 16), networks.size(networks.han_carlson, 16)
      (5, 32)
    """
    return _scan(han_carlson, fn, elems, axis, reverse)


@advice.advised
def depth(network: Callable[..., Any], n: int, *, slack: int = 0) -> int:
    """The number of levels of a network on ``n`` wires: how often a scan calls its ``fn``.

    Args:
      network: one of the six functions.
      n: the length of the scanned axis.
      slack: as for ``ladner_fischer``; 0 for any other network.

    Returns:
      What the formulas in the functions' documentation give.

    Raises:
      TypeError: ``n`` or ``slack`` is not an integer.
      ValueError: ``network`` is not one of the six, a number is negative, or ``slack`` is given for
        a network other than ``ladner_fischer``.

    Example:
      >>> from jscan import networks
      >>> networks.depth(networks.brent_kung, 1024)
      18
    """
    caller = "jscan.networks.depth"
    return _network(caller, network, slack).depth(scalars.as_size(caller, "n", n))


@advice.advised
def size(network: Callable[..., Any], n: int, *, slack: int = 0) -> int:
    """The number of nodes of a network on ``n`` wires: how many elements ``fn`` makes in a scan.

    Arguments, result and errors are as for `depth`.

    Example:
      >>> from jscan import networks
      >>> networks.size(networks.brent_kung, 1024)
      2036
    """
    caller = "jscan.networks.size"
    return _network(caller, network, slack).size(scalars.as_size(caller, "n", n))


@advice.advised
def levels(network: Callable[..., Any], n: int, *, slack: int = 0) -> list[wires.Level]:
    """The nodes of a network on ``n`` wires, level by level, as pairs (source, target).

    An idle lane of ``hockney_jesshope`` is its own source. Arguments and errors are as for `depth`.

    Example:
      >>> from jscan import networks
      >>> networks.levels(networks.sklansky, 4)
      [[(0, 1), (2, 3)], [(1, 2), (1, 3)]]
    """
    caller = "jscan.networks.levels"
    return _network(caller, network, slack).levels(scalars.as_size(caller, "n", n))


def _scan(
    network: Callable[..., Any],
    fn: Callable[[Any, Any], Any],
    elems: Any,
    axis: int,
    reverse: bool,
    slack: int = 0,
) -> Any:
    caller = f"jscan.networks.{network.__name__}"
    choices.check_operator(caller, fn)
    leaves, treedef, axis = trees.as_leaves_along(caller, "elems", elems, axis)
    reverse = scalars.as_switch(caller, "reverse", reverse)
    nodes = _network(caller, network, slack).levels(leaves[0].shape[axis])
    results = wires.scan(caller, fn, leaves, treedef, nodes, axis=axis, reverse=reverse)
    return jax.tree.unflatten(treedef, results)


def _network(caller: str, network: Any, slack: int) -> wires.Network:
    slack = scalars.as_size(caller, "slack", slack)
    if network is ladner_fischer:
        return wires.ladner_fischer(slack)
    known = next((found for function, found in _NETWORKS.items() if function is network), None)
    if known is None:
        names = ", ".join(function.__name__ for function in (*_NETWORKS, ladner_fischer))
        raise ValueError(f"{caller}: network must be one of {names}; got {network!r}")
    if slack:
        raise ValueError(f"{caller}: slack={slack} is for ladner_fischer, not {network.__name__}")
    return known


_NETWORKS = {
    kogge_stone: wires.KOGGE_STONE,
    hockney_jesshope: wires.HOCKNEY_JESSHOPE,
    sklansky: wires.SKLANSKY,
    brent_kung: wires.BRENT_KUNG,
    han_carlson: wires.HAN_CARLSON,
}
