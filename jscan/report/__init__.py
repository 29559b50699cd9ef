"""What `python -m jscan` tells: what runs here, whether it is right, and how fast it is.

Nothing else of the package imports these modules.
"""
