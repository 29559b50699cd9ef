"""Kernels as programs in Triton's language: the text of one, from its body.

    program ──► tracing the body: a jaxpr
            ──► function: a line for an equation, or an expression inside of one
                  arithmetic  library  conversions  tiles  memory  control: the rules
            ──► text: a function for the kernel, and one for each combine operator

Nothing here needs Triton, or a GPU.
"""

from jscan.kernels.engines.source.compiling import Program as Program
from jscan.kernels.engines.source.writing import program as program
from jscan.kernels.engines.source.writing import why_inexpressible as why_inexpressible
