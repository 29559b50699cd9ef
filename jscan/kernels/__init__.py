"""GPU kernels: Pallas on Triton. `scan` runs one, `why_not` says what stands in the way."""

from jscan.kernels.ranking import rank as rank
from jscan.kernels.reduce import reduce as reduce
from jscan.kernels.strategies import scan as scan
from jscan.kernels.strategies import why_not as why_not
from jscan.kernels.strategies import why_not_shape as why_not_shape
from jscan.kernels.tangent import tangent as tangent
from jscan.kernels.tangent import why_no_tangent as why_no_tangent
