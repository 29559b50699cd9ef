"""The steps of a tile that talks to others, named once.

The kernels mark them, so that a step is seen in the program and in a profile; the model of the
protocol (tests/protocol) takes the same steps, so that a test finds a kernel that departs from it.
"""

from __future__ import annotations

import contextlib
import enum

import jax


class Step(enum.Enum):
    """A step of a tile, in the order of the kernels' pictures."""

    TAKE_TICKET = "take a ticket"
    LOAD = "load"
    PUBLISH_AGGREGATE = "publish the aggregate"
    SCAN = "scan"
    LOOK_BACK = "look back"
    PUBLISH_GROUP = "publish the group's total"
    PUBLISH_PREFIX = "publish the prefix"
    STORE = "store"

    def marked(self) -> contextlib.AbstractContextManager[None]:
        """A context that names what is traced in it after the step; lowered code stays the same."""
        return jax.named_scope(self.value)
