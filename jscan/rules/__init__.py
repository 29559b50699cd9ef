"""The primitives: a file each with its rules."""
