"""The cut of an array into tiles: what is chosen, and the device's figures that it is chosen by."""

from jscan.kernels.tuning.choose import REDUCTION as REDUCTION
from jscan.kernels.tuning.choose import SCAN as SCAN
from jscan.kernels.tuning.choose import beside as beside
from jscan.kernels.tuning.choose import block as block
from jscan.kernels.tuning.choose import chain as chain
from jscan.kernels.tuning.choose import chosen as chosen
from jscan.kernels.tuning.choose import device as device
from jscan.kernels.tuning.choose import entries as entries
from jscan.kernels.tuning.choose import longest_block as longest_block
from jscan.kernels.tuning.choose import lookback as lookback
from jscan.kernels.tuning.choose import parts as parts
from jscan.kernels.tuning.choose import scatter as scatter
from jscan.kernels.tuning.choose import serial as serial
from jscan.kernels.tuning.choose import strips as strips
from jscan.kernels.tuning.choose import suits_block as suits_block
from jscan.kernels.tuning.choose import suits_levels as suits_levels
from jscan.kernels.tuning.choose import suits_two_passes as suits_two_passes
from jscan.kernels.tuning.choose import suits_words as suits_words
from jscan.kernels.tuning.choose import tree as tree
from jscan.kernels.tuning.choose import walks as walks
from jscan.kernels.tuning.cut import Shape as Shape
from jscan.kernels.tuning.cut import Tuning as Tuning
from jscan.kernels.tuning.cut import next_power_of_2 as next_power_of_2
from jscan.kernels.tuning.one_row import moved as moved
from jscan.kernels.tuning.one_row import rows as rows
from jscan.kernels.tuning.one_row import suits_one_row as suits_one_row
