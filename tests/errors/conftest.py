"""Errors keep all of their frames here, also those that are jax's own."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def all_frames() -> Iterator[None]:
    """Spares jax the search for its own frames, which takes two thirds of a test of many errors."""
    before = jax.config.jax_traceback_filtering  # type: ignore[attr-defined]
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)
