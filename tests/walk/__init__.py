"""The walk: every public function times every transformation times every layout, from one table.

``table`` lists the functions, ``transformations`` and ``layouts`` what is done to them, ``cases``
multiplies the three.
"""
