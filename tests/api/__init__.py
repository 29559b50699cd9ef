"""What the public functions compute, for every operator, dtype, axis and form."""
