"""Engines: what builds the kernels."""
