"""The pages, their promises and figures, and the examples."""
