"""The benchmarks, which are a package of their own beside jscan."""
