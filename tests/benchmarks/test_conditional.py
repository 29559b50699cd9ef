"""Segmented scans by conditional indexing, against a loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from benchmarks.cases import conditional
from jscan.kernels import tuning
from tests import reference
from tests.cases import head_flags
from tests.kernels.test_strategies import SUBJECTS

TILE = tuning.Tuning(length=128, lanes=1, warps=1, window=4)
# A GPU's kernels are lowered here without what jscan says of jax's warning.
pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
PLACES = [
    pytest.param(300, True, id="interpreted"),
    pytest.param(9001, False, id="gpu", marks=pytest.mark.gpu),
]


def scanned(operator, elems, flags, interpret, **options):
    """The scan of a pytree of arrays."""

    def run(flags, *leaves):
        return conditional.scan(operator, leaves, flags, TILE, interpret=interpret, **options)

    leaves, tree = jax.tree.flatten(elems)
    return jax.tree.unflatten(tree, jax.jit(run)(flags, *leaves))


@pytest.mark.parametrize(("n", "interpret"), PLACES)
@pytest.mark.parametrize(
    ("name", "dtype", "reverse"),
    [
        # By default operators take the directions in turn.
        pytest.param(
            name,
            subject.dtypes[-1],
            reverse,
            marks=[pytest.mark.thorough] if (number + reverse) % 2 else [],
        )
        for number, (name, subject) in enumerate(SUBJECTS.items())
        for reverse in (False, True)
    ],
)
def test_operators_of_exact_results(name, dtype, reverse, n, interpret):
    subject = SUBJECTS[name]
    elems, flags = subject.elements(n, dtype), head_flags((n,), share=0.02)
    found = scanned(subject.operator, elems, flags, interpret, reverse=reverse)
    expected = reference.scan(subject.combine, elems, flags=flags, reverse=reverse)
    jax.tree.map(reference.assert_equal, found, expected)


@pytest.mark.parametrize(("n", "interpret"), PLACES)
@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16", "bfloat16", "float32"])
def test_sums_of_small_integers_in_every_width(dtype, n, interpret):
    x = np.random.default_rng(3).integers(0, 3, n).astype(jnp.dtype(dtype))
    flags = head_flags((n,), np.uint8, share=0.02)
    flags[::50] = 1
    found = scanned(lax.add, x, flags, interpret)
    np.testing.assert_array_equal(found, reference.scan(np.add, x, flags=flags).astype(x.dtype))
