"""The public functions: names, arguments, results and errors."""
