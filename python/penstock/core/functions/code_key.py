"""Identifies functions, by the bytes of their code, of what they close over and of their arguments."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from penstock.core.errors import PlanError

#: Types whose `repr` identifies a value, in every process.
PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...))


#: Python does not write numbers of more than 4,300 digits.
_MANY_BITS = 1 << 13


def code_key(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """32 hex digits, the same in every process that runs the same code with the same arguments.

    Functions and plain values of the same module that the function uses count too. Modules, classes and other objects do
    not. Raises PlanError for arguments and enclosed values that cannot be identified.
    """
    state = hashlib.blake2b(digest_size=16)
    for part in _of_function(function, set()):
        state.update(part)
    for name in sorted(arguments):
        for part in (name.encode(), *_of_value(arguments[name], f"argument {name!r}", set())):
            state.update(part)
    return state.hexdigest()


def code_bytes(code: CodeType) -> Iterator[bytes]:
    """The bytes of compiled code, its constants and the functions in it, without its position in the file.

    They are the same in every process of one Python version. Another version compiles the same source differently.
    """
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_bytes(constant)
        else:
            yield from _of_value(constant, "a constant", set())


def globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function, and functions in it, may use: (name, value), sorted, without built-ins."""
    for name in sorted(set(names_of(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def names_of(code: CodeType) -> Iterator[str]:
    """The names of globals, attributes and methods that code, and the functions in it, may use."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_of(inner)


def _of_function(function: Any, seen: set[int]) -> Iterator[bytes]:
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        yield from _of_function(function.func, seen)
        yield from _of_value([*function.args, function.keywords], "a partial's argument", seen)
        return
    if not isinstance(function, FunctionType):
        raise PlanError(
            f"from_iterable: {type(function).__qualname__} has no code to identify it by; give the data a name with name=…"
        )
    yield f"{function.__module__}.{function.__qualname__}".encode()
    yield from code_bytes(function.__code__)
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults = [function.__defaults__ or (), function.__kwdefaults__ or {}]
    yield from _of_value([enclosed, defaults], f"what {function.__qualname__} encloses", seen)
    for name, used in globals_of(function):
        if isinstance(used, FunctionType) and used.__module__ == function.__module__:
            yield from _of_function(used, seen)
        elif used is not None and isinstance(used, (*PLAIN, tuple, list, dict)) and _is_plain(used):
            yield from _of_value(used, name, seen)


def _of_value(value: Any, what: str, seen: set[int]) -> Iterator[bytes]:
    """Bytes that identify a value; the type counts, so that 1 is not "1"."""
    kind = type(value).__name__.encode()
    if type(value) is int and value.bit_length() > _MANY_BITS:
        yield kind + hex(value).encode()
    elif isinstance(value, PLAIN):
        yield kind + repr(value).encode("utf-8", "surrogatepass")
    elif isinstance(value, os.PathLike):
        yield b"path" + os.fsencode(value)
    elif isinstance(value, (set, frozenset)):
        yield kind + repr(sorted(map(repr, value))).encode()
    elif isinstance(value, (list, tuple, range)):
        yield kind + str(len(value)).encode()
        for entry in value:
            yield from _of_value(entry, what, seen)
    elif isinstance(value, Mapping):
        yield kind + str(len(value)).encode()
        for key, entry in value.items():
            yield from _of_value(key, what, seen)
            yield from _of_value(entry, what, seen)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufcSUMm":
        yield f"array{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif callable(value):
        yield from _of_function(value, seen)
    else:
        raise PlanError(
            f"from_iterable: {what} is a {type(value).__qualname__}, which cannot be told from another; give the data a "
            f"name with name=…, and a new version=… when it changes"
        )


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(entry) for key, entry in value.items())
    return isinstance(value, PLAIN)
