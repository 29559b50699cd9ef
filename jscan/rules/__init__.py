"""The rules of the primitives, a file each; to import them is to register them."""

from jscan.rules import collect as collect
from jscan.rules import elements as elements
from jscan.rules import eliminate as eliminate
from jscan.rules import histogram as histogram
from jscan.rules import locate as locate
from jscan.rules import matrix as matrix
from jscan.rules import move as move
from jscan.rules import product as product
from jscan.rules import rank as rank
from jscan.rules import reduce as reduce
from jscan.rules import scan as scan
from jscan.rules import sort as sort
from jscan.rules import spread as spread
from jscan.rules import summary as summary
from jscan.rules import tail as tail
from jscan.rules import tangent as tangent
