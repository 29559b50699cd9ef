"""What runs where no kernel does, in plain JAX."""
