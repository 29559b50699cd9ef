"""Measurements of jscan beside what JAX itself offers.

``python -m benchmarks core`` measures every case of the core on one GPU: GPU time (CUPTI, the
kernels of one call added up, the fill of the state included) as a share of copy speed, that is of
``x + 1`` on 2^28 words of 32 bits in the same process, with the answer of every case checked on
the GPU and the same operation of ``jax.lax`` beside it. ``python -m benchmarks segments`` does so
for reductions, conversions between the forms of segments, pack and split, with ``jax.ops`` and
``jax.numpy`` beside them. ``python -m benchmarks latency`` measures the time of a call and
``python -m benchmarks compile`` the time to compile and the size of the program, both on any
machine; where there is no GPU ``core`` runs those two and says so. Each prints a table and writes
JSON with the versions of everything that matters. With ``--dry-run``, ``core`` and ``segments``
lower every case for CUDA at its full size and check its answer at a small one, on a machine without
a GPU. ``benchmarks/memcheck.py`` runs one kernel of each kind for compute-sanitizer.
"""
