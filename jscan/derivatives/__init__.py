"""Derivatives of scans, as recurrences that scans solve."""
