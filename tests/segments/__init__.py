"""Segments: their descriptors and conversions, and scans and reductions by them."""
