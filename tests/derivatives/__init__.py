"""Derivatives of the public functions: values, orders, memory and cost."""
