"""Programs beside the benchmarks: texts that calls lower to, and kernels for a memory checker."""
