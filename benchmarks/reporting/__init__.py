"""What is shown of it: the terminal, JSON, tables, plots, the README and the pages of docs."""
