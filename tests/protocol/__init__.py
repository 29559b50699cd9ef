"""The protocol of tiles that wait: a model, run in every order, and the kernels beside it."""
