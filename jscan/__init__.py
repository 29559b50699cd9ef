"""Parallel prefix scans and segmented scans for JAX, at the speed of the GPU's memory."""

from jscan import versions as versions  # first, to raise for a jax that is too old

# isort: split
from jscan import networks as networks
from jscan import operators as operators
from jscan import rules as rules  # tells JAX the rules of the primitives
from jscan.compaction import histogram as histogram
from jscan.compaction import nonzero as nonzero
from jscan.compaction import partition as partition
from jscan.cumulative import cumlogsumexp as cumlogsumexp
from jscan.cumulative import cummax as cummax
from jscan.cumulative import cummin as cummin
from jscan.cumulative import cumprod as cumprod
from jscan.cumulative import cumsum as cumsum
from jscan.engines import engine as engine
from jscan.matrix_recurrences import matrix_recurrence as matrix_recurrence
from jscan.plans import SegmentPlan as SegmentPlan
from jscan.programs import triton_source as triton_source
from jscan.recurrences import linear_recurrence as linear_recurrence
from jscan.reductions import reduce as reduce
from jscan.reductions import segment_max as segment_max
from jscan.reductions import segment_min as segment_min
from jscan.reductions import segment_prod as segment_prod
from jscan.reductions import segment_sum as segment_sum
from jscan.runs import run_length_decode as run_length_decode
from jscan.runs import run_length_encode as run_length_encode
from jscan.runs import unique_sorted as unique_sorted
from jscan.scans import associative_scan as associative_scan
from jscan.segments import Segments as Segments
from jscan.selections import segment_argmax as segment_argmax
from jscan.selections import segment_argmin as segment_argmin
from jscan.selections import segment_sort as segment_sort
from jscan.selections import segment_top_k as segment_top_k
from jscan.sparse import csr_matmat as csr_matmat
from jscan.sparse import csr_matvec as csr_matvec
from jscan.statistics import segment_logsumexp as segment_logsumexp
from jscan.statistics import segment_mean as segment_mean
from jscan.statistics import segment_norm as segment_norm
from jscan.statistics import segment_softmax as segment_softmax
from jscan.tridiagonal import tridiagonal_solve as tridiagonal_solve
from jscan.vectors import distribute as distribute
from jscan.vectors import enumerate as enumerate
from jscan.vectors import pack as pack
from jscan.vectors import split as split
from jscan.vectors import split_and_segment as split_and_segment

__version__ = "1.0.0rc1"

# Without enumerate, which a star import would put in the place of Python's own.
__all__ = [
    "SegmentPlan",
    "Segments",
    "associative_scan",
    "csr_matmat",
    "csr_matvec",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "distribute",
    "engine",
    "histogram",
    "linear_recurrence",
    "matrix_recurrence",
    "networks",
    "nonzero",
    "operators",
    "pack",
    "partition",
    "reduce",
    "run_length_decode",
    "run_length_encode",
    "segment_argmax",
    "segment_argmin",
    "segment_logsumexp",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_norm",
    "segment_prod",
    "segment_softmax",
    "segment_sort",
    "segment_sum",
    "segment_top_k",
    "split",
    "split_and_segment",
    "tridiagonal_solve",
    "triton_source",
    "unique_sorted",
]


def __dir__() -> list[str]:
    """The public names; modules that only this package imports are left out."""
    special = [name for name in globals() if name.startswith("__")]
    return [*__all__, "enumerate", *special]
