"""A jax without Pallas for Triton, as later ones will be: for processes with this in PYTHONPATH.

Python imports a module of this name before anything else, in child processes, too.
"""

import sys

sys.modules["jax._src.pallas.triton"] = None  # type: ignore[assignment]
