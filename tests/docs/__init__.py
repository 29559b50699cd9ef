"""The README, its promises and figures, and the examples."""
