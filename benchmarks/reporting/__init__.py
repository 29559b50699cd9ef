"""What is shown of it: the terminal, JSON, tables, plots and the README."""
