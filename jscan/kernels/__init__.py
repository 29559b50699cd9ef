"""GPU kernels: Pallas on Triton. `scan` runs one, `why_not` says what stands in the way."""

from jscan.kernels.launch import METHODS as METHODS
from jscan.kernels.launch import scan as scan
from jscan.kernels.launch import why_not as why_not
from jscan.kernels.launch import why_not_shape as why_not_shape
from jscan.kernels.ranking import rank as rank
from jscan.kernels.reduce import reduce as reduce
from jscan.kernels.tangent import tangent as tangent
from jscan.kernels.tangent import why_no_tangent as why_no_tangent
