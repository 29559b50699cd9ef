"""Fuzzing: the leaves of an example as a pytree, and its operator on such trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from tests.fuzz.examples import Form


def tree_of(form: Form, leaves: list[Any]) -> Any:
    """The leaves in the form's pytree; two leaves of maps stay a pair for the affine operator."""
    if form.subject == "affine":
        return tuple({"x": x} if form.tree == "dict" else x for x in leaves)
    if form.tree == "bare" and len(leaves) == 1:
        return leaves[0]
    if form.tree == "dict":
        return {f"{len(leaves) - i}": x for i, x in enumerate(leaves)}
    if form.tree == "nested":
        return [leaves[0], {"rest": tuple(leaves[1:])}]
    return tuple(leaves)


def operator_of(form: Form, xp: Any) -> Callable[[Any, Any], Any]:
    """The form's operator on its pytree, made of the functions of `xp`."""
    subject = form.operator

    def fn(a: Any, b: Any) -> Any:
        return tree_of(form, subject.combine(xp, listed(form, a), listed(form, b)))

    return fn


def listed(form: Form, tree: Any) -> list[Any]:
    """The leaves in the operator's order, which is not that of a dict's keys."""
    leaves = jax.tree.leaves(tree)
    return leaves[::-1] if form.tree == "dict" and form.subject != "affine" else leaves
