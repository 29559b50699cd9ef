"""Random programs on random data, compared with loops."""
