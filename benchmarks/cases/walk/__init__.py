"""Cases that nobody chose: calls of the public API, drawn by chance from a seed and a number."""
