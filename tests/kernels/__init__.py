"""Kernels: what they are lowered to, their tiles, strategies, sizes and rounding errors."""
