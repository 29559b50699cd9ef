"""Measurements of jscan beside what JAX itself and others offer.

``python -m benchmarks all`` measures every suite on one GPU and writes a file for each: GPU time
(CUPTI, the kernels of one call added up, the fill of the state included) as a share of copy speed,
that is of ``x + 1`` on 2^28 words of 32 bits in the same process, with the answer of every case
checked on the GPU and the same operation of ``jax.lax`` beside it. By their own names there are

    core         scans of every kind            segments    reductions, conversions, pack, split
    derivatives  recurrences and gradients      strategies  every strategy over the length
    dtypes       sums of every dtype            operators   scans with every operator
    rows         many short rows to few long    skew        segments of every size, even and skewed
    tiles        forced tiles and windows       reductions  every strategy of reductions
    scaling      forced numbers of programs     functions   what is built of scans

where ``torch``, ``cupy``, ``cuda.compute`` and CUB's headers stand beside jscan if they are
installed, timed by CUDA events. ``latency`` measures the time of a call and ``compile`` the time to
compile and the size of the program, ``accuracy`` (after the suites of ``all``) the errors of sums
over the length, all three on any machine. ``devices``, which is not one of
``all``, measures arrays that are sharded over the GPUs of one host. Where there is no GPU ``core``,
``strategies`` and ``all`` compare with ``lax`` on the CPU and say so. Each prints a table and
writes JSON with the versions of everything that matters. With ``--dry-run`` every case is lowered
for CUDA at its full size and its answer checked at a small one, on a machine without a GPU.
``static``, which is not one of ``all`` either, compiles kernels of both engines by the triton
wheel's compiler, without a GPU, and lists registers, spills and widths of accesses to memory; with
``--compare`` it fails where they are worse than in a report, with ``--by-turns`` it looks at each
call by one engine, in half the time.
``papers`` measures the work that papers on scans measured, beside their figures.
``python -m benchmarks pages`` makes the tables and plots from the results.

    cases      what is measured: operations, inputs, answers, and the suites of them
    measuring  compilation, clocks, other libraries, the machine, rounding errors
    reporting  the terminal, JSON, tables, plots, the README and the pages of docs
    tools      memcheck runs one kernel of each kind for compute-sanitizer; lowered compares the
               texts that calls lower to
"""

import os

# JAX is not to take the GPU's memory at once: other libraries in the process need some of it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
