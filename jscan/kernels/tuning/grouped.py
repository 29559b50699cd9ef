"""The windows of tiles whose groups are fixed (`kernels.repeatable`): as many tiles as a group."""

from __future__ import annotations

import dataclasses

from jscan.kernels.tuning.cut import Shape, Tuning

BESIDE_LANES = 8
"""Tiles of a group beside lanes, each of which has words of its own: a window is dear."""


def in_groups(shape: Shape, chosen: Tuning) -> Tuning:
    """The tile as it was ``chosen``, with a window that holds a group."""
    if shape.tile is not None or shape.inner == 1:
        return chosen
    return dataclasses.replace(chosen, window=max(chosen.window, BESIDE_LANES))
