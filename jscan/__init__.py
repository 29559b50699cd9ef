"""Parallel prefix scans and segmented scans for JAX."""

from jscan import operators as operators
from jscan.scans import associative_scan as associative_scan
from jscan.scans import cumsum as cumsum
from jscan.segments import Segments as Segments

__version__ = "0.1.0"
