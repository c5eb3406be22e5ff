"""Finds the global random generators of `random`, NumPy or torch in a function's code."""

from __future__ import annotations

import dis
import functools
import random
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

#: Functions of torch, and methods of its tensors, that draw from the CPU's default generator unless another is passed.
_TORCH_DRAWS = frozenset({
    "bernoulli", "bernoulli_", "cauchy_", "dropout", "exponential_", "geometric_", "log_normal_", "multinomial", "normal",
    "normal_", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random_", "randperm",
    "uniform_",
})  # fmt: skip

#: What makes separate generators in `numpy.random`.
_OWN = frozenset({"default_rng", "Generator", "RandomState", "SeedSequence"})


def mentions_generators(function: Any) -> bool:
    """Whether a function's code shows that it draws; False without code, as for compiled functions.

    mentions_generators(lambda row: row["x"] + np.random.rand()) is True. The functions of the same module that it calls, what
    it closes over, and partials are checked too.
    """
    return _mentions(function, set())


def _mentions(function: Any, seen: set[int]) -> bool:
    if id(function) in seen:
        return False
    seen.add(id(function))
    if isinstance(function, functools.partial):
        return any(_mentions(value, seen) for value in (function.func, *function.args, *function.keywords.values()))
    owner = getattr(function, "__self__", None)
    if any(owner is one for one in _owners()):  # a user's object may be an array, which has no truth
        return True  # random.random, np.random.rand
    if isinstance(function, MethodType):
        return _mentions(function.__func__, seen)
    if not isinstance(function, FunctionType):
        call = vars(type(function)).get("__call__")
        return isinstance(call, FunctionType) and _mentions(call, seen)
    names = names_used(function)
    return any(_draws(value, names, function.__module__, seen) for value in values_used(function))


def _draws(value: Any, names: set[str], module: str, seen: set[int]) -> bool:
    """Whether a value used by code, together with these names, is a generator or a function that mentions one."""
    if value is random:
        return True
    if value is np or value is np.random:
        return (value is np.random or "random" in names) and not names & _OWN
    if value is sys.modules.get("torch", random):
        return bool(names & _TORCH_DRAWS)
    inside = isinstance(value, (functools.partial, MethodType)) or getattr(value, "__module__", None) == module
    return (inside or getattr(value, "__self__", None) in _owners()) and _mentions(value, seen)


def _owners() -> tuple[Any, ...]:
    """The global generators whose bound methods are the functions of their modules."""
    functions: tuple[Any, ...] = (random.seed, np.random.rand)
    return tuple(function.__self__ for function in functions)


def names_used(function: FunctionType) -> set[str]:
    """Names of globals, attributes and methods in a function's code, and in that of functions in it, but for those of a variable `rng`."""
    names = set[str]()
    for code in _codes(function.__code__):
        is_of_rng = False
        for step in dis.get_instructions(code):
            is_attribute = step.opname in ("LOAD_ATTR", "LOAD_METHOD")
            if isinstance(step.argval, str) and step.argval in code.co_names and not (is_attribute and is_of_rng):
                names.add(step.argval)
            is_of_rng = is_of_rng if is_attribute else step.argval == "rng"
    return names


def values_used(function: FunctionType) -> Iterator[Any]:
    """What a function closes over, its defaults, and the globals and modules that its code names."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not filled yet
    yield from function.__defaults__ or ()
    for code in _codes(function.__code__):
        for step in dis.get_instructions(code):
            known = {"LOAD_GLOBAL": function.__globals__, "IMPORT_NAME": sys.modules}.get(step.opname, {})
            if step.argval in known:
                yield known[step.argval]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of the functions in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)
