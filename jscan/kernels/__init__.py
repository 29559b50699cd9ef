"""GPU kernels: functions of arrays that run them, and of shapes that say why none can run.

An engine builds the kernels (`jscan.kernels.engines`); the other modules know none by name.
"""

from jscan.kernels.marking import words_of_bounds as words_of_bounds
from jscan.kernels.marking import words_of_ends as words_of_ends
from jscan.kernels.multiplying import product as product
from jscan.kernels.multiplying import why_no_product as why_no_product
from jscan.kernels.ranking import rank as rank
from jscan.kernels.reducing import reduce as reduce
from jscan.kernels.refusals import suits_no_kernel as suits_no_kernel
from jscan.kernels.refusals import why_not as why_not
from jscan.kernels.refusals import why_not_shape as why_not_shape
from jscan.kernels.scanning import scan as scan
from jscan.kernels.scanning_elements import scan_elements as scan_elements
from jscan.kernels.solving import tangent as tangent
from jscan.kernels.solving import why_no_tangent as why_no_tangent
from jscan.kernels.tailing import tail as tail
