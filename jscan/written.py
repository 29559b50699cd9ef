"""A function as what it does: its code, and the values that it reads beside its arguments.

Two functions that are written alike and read the same compute the same, though they are other
objects: a lambda in a loop is a new one each time. What a function reads is looked up whenever it
is asked for, since a global, a default or the cell of a closure may be bound anew. A function is
described only where everything that it reads cannot change by itself: numbers, strings and tuples
of these, scalars of NumPy and JAX, functions and types of JAX and of Python, and functions that are
described in their turn. Lists, arrays of NumPy, objects and classes are not, nor is a function that
writes to what is not its own.

    code        which names it reads: globals, cells, attributes of modules
    values      what stands behind these names now
    scalars     the numbers among them, which may differ between functions that are written alike
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import math
import operator
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jscan.operators import KINDS

Function = Callable[..., Any]


class Written(NamedTuple):
    """A function that is described.

    Attributes:
      key: equal for functions that are written alike and read the same, but for their scalars.
      scalars: the numbers that it reads: of Python, of NumPy, or arrays of JAX without dimensions.
    """

    key: Hashable
    scalars: tuple[Any, ...]


class Unreadable(Exception):
    """Raised for what may change, or may do more than return a value."""


def written(function: Any) -> Written | None:
    """The description of a function, or None where it has none."""
    scalars: list[Any] = []
    try:
        key = _Reader(scalars.append).value(function)
        hash(key)
    except (Unreadable, TypeError):  # an operator of the user may have no hash
        return None
    return Written(key, tuple(scalars))


def rewritten(function: Any, scalars: Sequence[Any]) -> Any:
    """The function that reads these scalars instead of its own; it must be described."""
    return _rebuilt(function, iter(scalars))


# --- code ---------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """A name that code reads, and the attributes of it that are read at once."""

    name: str
    is_global: bool
    attributes: tuple[str, ...]


_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_CELLS = frozenset({"LOAD_DEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_CLASSDEREF"})
_BETWEEN = frozenset({"CACHE", "EXTENDED_ARG", "NOP"})
_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME"})
_ELSEWHERE = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_REFUSED = _WRITES | {
    *("STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME"),
    *("LOAD_BUILD_CLASS", "IMPORT_STAR", "LOAD_LOCALS", "LOAD_SUPER_ATTR"),
}


@functools.lru_cache(maxsize=1024)
def _reads(code: types.CodeType) -> tuple[_Read, ...] | None:
    """What code reads, and the code of functions in it; None where it writes to what it reads."""
    found: dict[_Read, None] = {}
    free = frozenset(code.co_freevars)
    for body in _bodies(code):
        own = frozenset(body.co_cellvars)
        instructions = [i for i in dis.get_instructions(body) if i.opname not in _BETWEEN]
        for place, instruction in enumerate(instructions):
            name, what = instruction.opname, instruction.argval
            if name in _REFUSED or (name in _ELSEWHERE and what in free - own):
                return None
            is_global = name in _GLOBALS
            if is_global or (name in _CELLS and what in free - own):
                found[_Read(what, is_global, _attributes(instructions[place + 1 :]))] = None
    return tuple(found)


def _bodies(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code, and that of the functions which it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _bodies(constant)


def _attributes(following: Sequence[dis.Instruction]) -> tuple[str, ...]:
    """The attributes that the next instructions read of a value."""
    read = itertools.takewhile(lambda i: i.opname in ("LOAD_ATTR", "LOAD_METHOD"), following)
    return tuple(instruction.argval for instruction in read)


# --- values -------------------------------------------------------------------------------------

_ABSENT: Any = object()
_JITTED = type(jax.jit(lambda x: x))
_CONSTANT = (type(None), bool, str, bytes, type(...), np.bool_)
_NUMBERS = (int, float, complex)
# fmt: off
_PURE_BUILTINS = frozenset({
    "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "filter", "float", "int",
    "isinstance", "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "set",
    "slice", "sorted", "str", "sum", "tuple", "zip",
})
# fmt: on
_PURE = {
    id(found): found
    for module, names in (
        (builtins, _PURE_BUILTINS),
        (math, [name for name in dir(math) if callable(getattr(math, name))]),
        (operator, operator.__all__),
    )
    for name in names
    if not name.startswith("_") and (found := getattr(module, name))
}
"""What returns the same for the same arguments, and does nothing else, by its identity."""


class _Reader:
    """Describes values, and functions by what they read."""

    def __init__(self, found: Callable[[Any], None]):
        self.found = found
        self.open: set[int] = set()
        self.fixed = False

    def value(self, value: Any) -> Any:
        """The description of a value; a number is passed to ``found``, or described where fixed."""
        kind = type(value)
        if kind in _CONSTANT:
            return kind, value
        if is_scalar(value):
            if self.fixed:
                return constant(value)
            self.found(value)
            return kind, getattr(value, "dtype", None), getattr(value, "weak_type", None)
        if kind is tuple:
            return kind, *map(self.value, value)
        if kind is functools.partial and not value.__dict__:
            names = tuple(value.keywords)
            given = value.func, *value.args, *value.keywords.values()
            return kind, names, *map(self.value, given)
        if isinstance(value, np.dtype) or kind in KINDS:
            return kind, value
        if isinstance(value, _JITTED) or _is_of_a_library(value):
            return _Same(value)
        if kind is types.FunctionType:
            return self.function(value)
        raise Unreadable

    def function(self, function: types.FunctionType) -> Hashable:
        """The description of a function of Python."""
        reads = _reads(function.__code__)
        if reads is None or function.__dict__ or id(function) in self.open:
            raise Unreadable
        self.open.add(id(function))
        named = function.__kwdefaults__ or {}
        described = [self.value(x) for x in (*(function.__defaults__ or ()), *named.values())]
        for read in reads:
            found = _looked_up(function, read)
            before, self.fixed = self.fixed, self.fixed or found.of_module
            described.append(self.value(found.value))
            self.fixed = before
        self.open.remove(id(function))
        return function.__code__, len(function.__defaults__ or ()), tuple(named), *described


class _Same:
    """A value that is compared by identity, and kept, so that no other takes its place."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def is_scalar(value: Any) -> bool:
    """Whether a value is a number that cannot change."""
    if type(value) in _NUMBERS:
        return True
    if isinstance(value, np.generic):
        return value.dtype.kind in "iufc"
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer) or value.shape:
        return False
    dtype: Any = value.dtype  # that of a key is no dtype of NumPy
    numeric = isinstance(dtype, np.dtype) and dtype.kind in "iufc"
    return numeric and value.is_fully_addressable and not (value.committed or value.is_deleted())


def constant(scalar: Any) -> Hashable:
    """A number of Python or NumPy as it is; the value of an array is on a device, and not read."""
    if isinstance(scalar, jax.Array):
        raise Unreadable
    return type(scalar), repr(scalar)


class _Found(NamedTuple):
    """What a name stands for, and whether it is an attribute of a module."""

    value: Any
    of_module: bool


def _looked_up(function: types.FunctionType, read: _Read) -> _Found:
    """What is read of a name; `_ABSENT`, which has no description, where it stands for nothing."""
    if read.is_global:
        value = function.__globals__.get(read.name, _ABSENT)
        if value is _ABSENT:
            value = getattr(builtins, read.name, _ABSENT)
    else:
        place = function.__code__.co_freevars.index(read.name)
        try:
            value = (function.__closure__ or ())[place].cell_contents
        except ValueError:  # the cell is empty
            value = _ABSENT
    attributes, of_module = read.attributes, isinstance(value, types.ModuleType)
    while attributes and isinstance(value, types.ModuleType):
        value, attributes = getattr(value, attributes[0], _ABSENT), attributes[1:]
    if attributes and not (is_scalar(value) or _is_of_a_library(value)):
        value = _ABSENT
    return _Found(value, of_module)


def _is_of_a_library(value: Any) -> bool:
    """Whether a value is a function or type of JAX, NumPy or Python, which nobody changes."""
    if _PURE.get(id(value)) is value:
        return True
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is value
    if not (isinstance(module, str) and isinstance(name, str)):
        return False
    root = module.partition(".")[0]
    # A function of the user that wraps one of JAX has its name, and its own globals.
    source = getattr(value, "__globals__", {}).get("__name__", module)
    if source.partition(".")[0] != root:
        return False
    if root in ("jax", "jaxlib") or (root == "numpy" and isinstance(value, type)):
        return getattr(sys.modules.get(module), name, None) is value
    return False


# --- other scalars ------------------------------------------------------------------------------


def _rebuilt(value: Any, scalars: Iterator[Any]) -> Any:
    """A described value with other scalars, which are taken in the order of `_Reader`."""
    kind = type(value)
    if kind in _CONSTANT:
        return value
    if is_scalar(value):
        return next(scalars)
    if kind is tuple:
        return tuple(_rebuilt(x, scalars) for x in value)
    if kind is functools.partial:
        func = _rebuilt(value.func, scalars)
        args = [_rebuilt(x, scalars) for x in value.args]
        named = {name: _rebuilt(x, scalars) for name, x in value.keywords.items()}
        return functools.partial(func, *args, **named)
    if kind is not types.FunctionType or _is_of_a_library(value):
        return value
    defaults = tuple(_rebuilt(x, scalars) for x in value.__defaults__ or ())
    named = {name: _rebuilt(x, scalars) for name, x in (value.__kwdefaults__ or {}).items()}
    code = value.__code__
    names = dict(value.__globals__)
    cells = dict(zip(code.co_freevars, value.__closure__ or (), strict=True))
    for read in _reads(code) or ():
        found = _looked_up(value, read)
        if found.of_module:
            continue
        new = _rebuilt(found.value, scalars)
        if read.is_global and read.name in names:
            names[read.name] = new
        elif not read.is_global:
            cells[read.name] = types.CellType(new)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, names, value.__name__, defaults or None, closure)
    made.__kwdefaults__ = named or None
    return made
