"""The arguments of public functions: converted, or refused with an error that names them.

``as_...`` returns what an argument becomes, and ``check_...`` returns nothing. Every function here
takes the name of the public function that was called, with which its errors begin.
"""
