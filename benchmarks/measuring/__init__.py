"""How it is measured: compilation, clocks, other libraries, the machine, rounding errors."""
