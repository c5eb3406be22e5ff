"""What a user's function is made of: its code, that of functions it uses, and the values that it closes over.

What counts, and is the same in every process that runs the same source:

- the code of the function, and of functions that it encloses, has as arguments, or uses by their names, of its own module or
  package (of a script: of files in its folder); methods that a method or a callable object uses likewise;
- values that it encloses, defaults, arguments of `functools.partial`, globals that it names, attributes of its object: numbers,
  text, paths, times, enums, NumPy arrays (large ones by samples), and lists, tuples, sets, dicts and dataclasses of them;
- attributes of objects of classes that the user wrote, and of callable objects that hold nothing but settings (torchvision's
  transforms).

Of everything else (open files, tensors, models, tokenizers, modules, compiled functions) the qualified name of its type.
What a function binds anew itself (`global count`) is no part of it.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from penstock.core.functions.code_key import code_bytes, globals_of, names_of
from penstock.plan.plain_values import (
    attributes,
    digest_of,
    is_plain,
    only_settings,
    plain_bytes,
    qualified_name,
    shown,
)

#: How deep values may lie in others, and how many there may be; of what lies beyond, the types count.
_DEPTH = 16
_VALUES = 100_000


@dataclass(frozen=True, kw_only=True)
class FunctionPart:
    """One thing that decides what a verb does, by the name that a user knows it by.

    shown: numbers in clear; of all else, since text may be secret, "#" and 6 hex digits. is_code: bytes of code, which only
    one version of Python gives.
    """

    name: str
    shown: str
    digest: bytes
    is_code: bool = False


def function_parts(function: Callable[..., Any]) -> tuple[FunctionPart, ...]:
    """All parts, the function's own code first: of `lambda batch: crop(batch, size)` "code", "size", "code of crop"."""
    walk = _Walk(_Home.of(function))
    walk.add_function(function, "")
    return tuple(sorted(walk.parts.values(), key=lambda part: (part.name != "code", part.is_code)))


def place_of(function: Callable[..., Any]) -> str:
    """Name and place for people: "augment, train.py:31"."""
    inner = _unwrapped(function)
    if not isinstance(inner, FunctionType):
        return qualified_name(inner)
    return f"{_short_name(inner)}, {os.path.basename(inner.__code__.co_filename)}:{inner.__code__.co_firstlineno}"


@dataclass(frozen=True)
class _Home:
    """The package, or the folder of scripts, that a function belongs to: what the same people wrote."""

    package: str
    folder: str

    @classmethod
    def of(cls, function: Any) -> _Home:
        inner = _unwrapped(function)
        module = (inner if isinstance(inner, FunctionType) else type(inner)).__module__ or ""
        if _is_installed(module):
            return cls("", "")
        return cls(module.partition(".")[0], _folder_of(module))

    def holds(self, thing: FunctionType | type) -> bool:
        module = thing.__module__ or ""
        if self.package and module.partition(".")[0] == self.package:
            return True
        return bool(self.folder) and "." not in module and _folder_of(module) == self.folder


def _folder_of(module: str) -> str:
    place = getattr(sys.modules.get(module), "__file__", None)
    return os.path.dirname(os.path.abspath(place)) if place else ""


def _is_installed(module: str) -> bool:
    """Whether a module came with Python or by an installer, and not from the user's own folders."""
    top, folder = module.partition(".")[0], _folder_of(module)
    return top in sys.stdlib_module_names or "site-packages" in folder or "dist-packages" in folder


class _Walk:
    """Goes through a function and what it uses, each once, in an order that only the source decides."""

    def __init__(self, home: _Home) -> None:
        self.parts: dict[str, FunctionPart] = {}
        self._home = home
        self._seen: dict[int, Any] = {}  # holds them, so that no other object gets the same number
        self._left = _VALUES

    # Functions

    def add_function(self, function: Any, under: str) -> None:
        """Adds the parts of anything that can be called; `under` is what the user knows it by, "" for the first."""
        if self._is_seen(function):
            return
        if isinstance(function, functools.partial):
            self._add_values(((f"argument {number}", value) for number, value in enumerate(function.args, 1)), under)
            self._add_values(sorted(function.keywords.items()), under)
            self.add_function(function.func, under)
        elif isinstance(function, MethodType) and isinstance(inner := function.__func__, FunctionType):
            self._add_python(inner, under, function.__self__)
            self._add_attributes(function.__self__, under)
        elif isinstance(function, FunctionType):
            self._add_python(function, under)
        elif isinstance(wrapped := attributes(function).get("__wrapped__"), FunctionType):  # by functools.cache
            self.add_function(wrapped, under)
        elif isinstance(function, type) or not attributes(function):
            self._add(under or "function", [qualified_name(function).encode()])
            self._add_methods(function, under, ("__init__", "__new__"))
        else:
            self._add(under or "type", [qualified_name(type(function)).encode()])
            self._add_attributes(function, under)
            self._add_methods(function, under, ("__call__", "forward"))

    def _add_python(self, function: FunctionType, under: str, owner: Any = None) -> None:
        self._is_seen(function)
        code, rebound = function.__code__, set(_rebound(function.__code__))
        is_first = owner is None and not any(part.is_code for part in self.parts.values())
        self._add("code" if is_first else f"code of {_short_name(function)}", self._of_code(function), is_code=True)
        arguments, defaults = code.co_varnames[: code.co_argcount], function.__defaults__ or ()
        self._add_values(zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True), under)
        self._add_values(sorted((function.__kwdefaults__ or {}).items()), under)
        enclosed = zip(code.co_freevars, function.__closure__ or (), strict=True)
        used = [(name, value) for name, cell in enclosed if name != "__class__" for value in _held(cell)]
        used += [(name, value) for name, value in globals_of(function) if not self._is_foreign(value)]
        self._add_values(((name, value) for name, value in used if name not in rebound), under)
        if owner is not None:
            self._add_methods(owner, under, names_of(code))

    def _add_methods(self, owner: Any, under: str, names: Iterable[str]) -> None:
        """Those methods of an object's classes that have one of the names and were written by the same people."""
        kind = owner if isinstance(owner, type) else type(owner)
        for name in sorted(set(names)):
            found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
            method = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
            if isinstance(method, FunctionType) and self._home.holds(method) and id(method) not in self._seen:
                self._add_python(method, under, owner)

    def _of_code(self, function: FunctionType) -> Iterator[bytes]:
        yield from code_bytes(_without_docstring(function))
        for name, used in globals_of(function):
            if self._is_foreign(used):
                yield f"{name}={getattr(used, '__name__', '')} {qualified_name(used)}".encode()

    def _is_foreign(self, used: Any) -> bool:
        """Whether a global counts by its name alone: modules, classes, and functions that others wrote."""
        is_function = isinstance(used, FunctionType)
        return isinstance(used, (ModuleType, type)) or (is_function and not self._home.holds(used))

    def _add_attributes(self, value: Any, under: str) -> None:
        self._is_seen(value)
        if not isinstance(value, (type, ModuleType)):  # of class methods, and of functions of compiled modules
            self._add_values(sorted(attributes(value).items()), under)

    def _is_seen(self, thing: Any) -> bool:
        """Whether a function or object was here before; from now on it was."""
        seen = id(thing) in self._seen
        self._seen[id(thing)] = thing
        return seen

    # Values

    def _add_values(self, named: Iterable[tuple[str, Any]], under: str) -> None:
        for name, value in named:
            label = f"{under}.{name}".lstrip(".")
            if _is_function(value):
                self.add_function(value, label)
            else:
                self._add(label, self._of_value(value, label, 0), shown(value))

    def _add(self, name: str, content: Iterable[bytes], text: str = "", *, is_code: bool = False) -> None:
        digest, number = digest_of(content), 1
        while (label := f"{name} {number}" if number > 1 else name) in self.parts:
            number += 1
        self.parts[label] = FunctionPart(
            name=label, shown=text or f"#{digest[:3].hex()}", digest=digest, is_code=is_code
        )

    def _of_value(self, value: Any, label: str, depth: int) -> Iterator[bytes]:
        """Bytes that identify a value; the types count, so that 1 is not "1"."""
        kind = type(value)
        self._left -= 1
        yield kind.__name__.encode()
        if (plain := plain_bytes(value)) is not None:
            yield from plain
        elif depth > _DEPTH or self._left < 0:
            return
        elif _is_function(value):
            self.add_function(value, label)
        elif issubclass(kind, (list, tuple)):
            entries = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
            yield from self._of_entries([*entries], label, depth)
        elif kind in (set, frozenset):
            yield from sorted(digest_of(self._of_value(entry, label, depth + 1)) for entry in value)
        elif issubclass(kind, (dict, MappingProxyType)):
            yield from self._of_entries([entry for pair in value.items() for entry in pair], label, depth)
        else:
            yield qualified_name(kind).encode()
            for name, held in self._settings(value):
                yield name.encode()
                yield from self._of_value(held, f"{label}.{name}", depth + 1)

    def _of_entries(self, entries: list[Any], label: str, depth: int) -> Iterator[bytes]:
        yield str(len(entries)).encode()
        if all(map(is_plain, entries)):
            yield repr(entries).encode("utf-8", "surrogatepass")
            return
        for entry in entries:
            yield digest_of(self._of_value(entry, label, depth + 1))

    def _settings(self, value: Any) -> list[tuple[str, Any]]:
        """What counts of what an object holds, by name; nothing where only its type does."""
        kind = type(value)
        if is_dataclass(kind):
            held = {field.name: getattr(value, field.name, None) for field in fields(kind)}
        else:
            held = attributes(value)
            named = kind is SimpleNamespace or (kind.__module__, kind.__name__) == ("argparse", "Namespace")
            if not (named or self._home.holds(kind) or (callable(value) and only_settings(held))):
                return []
        return [] if self._is_seen(value) else sorted(held.items())


def _is_function(value: Any) -> bool:
    return isinstance(value, (FunctionType, MethodType, functools.partial)) or (
        isinstance(attributes(value).get("__wrapped__"), FunctionType) and callable(value)
    )


def _unwrapped(function: Any) -> Any:
    """The function, method or object inside of partials and caches."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif not isinstance(function, FunctionType) and (wrapped := attributes(function).get("__wrapped__")):
            function = wrapped
        else:
            return function


def _short_name(function: Any) -> str:
    return str(function.__qualname__).rpartition("<locals>.")[2]


def _held(cell: CellType) -> list[Any]:
    """What a cell holds: nothing yet, or one value."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _without_docstring(function: FunctionType) -> CodeType:
    code = function.__code__
    if function.__doc__ is None or not code.co_consts or code.co_consts[0] != function.__doc__:
        return code
    return code.replace(co_consts=(None, *code.co_consts[1:]))


def _rebound(code: CodeType) -> Iterator[str]:
    """Names of the module or of enclosing functions that the code binds anew: counters, and no settings."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_GLOBAL", "STORE_DEREF"):
            yield str(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _rebound(inner)
