"""Random generators that objects hold which a function uses, and that can be seeded: those of Albumentations' transforms."""

from __future__ import annotations

import functools
import random
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import numpy as np

from penstock.core.functions.random_use import names_used, values_used

_T = TypeVar("_T")

#: How deep values may lie in others, how many are looked at, and how many entries of a list.
_DEPTH, _VALUES, _ENTRIES = 6, 5_000, 200

#: One lock for each object, since one is seeded and drawn from at a time.
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_finding = threading.Lock()


class HeldGenerators:
    """The generators of a function's objects: `around(call)` seeds them for each of its rows, or its batch."""

    def __init__(self, function: Any) -> None:
        self._held = list(_found(function))
        with _finding:
            self._locks = [_locks.setdefault(one, threading.RLock()) for one in sorted(self._held, key=id)]

    def __bool__(self) -> bool:
        return bool(self._held)

    def around(self, call: Callable[..., _T]) -> Callable[..., _T]:
        """`call`, which takes `seed=None`. Whatever it is given, it gets a `seed` that seeds what is held as well; nobody else draws meanwhile."""
        if not self._held:
            return call

        def alone(seed: Callable[[int], None] | None = None) -> _T:
            with ExitStack() as locks:
                for lock in self._locks:
                    locks.enter_context(lock)
                return call(functools.partial(self._seed, seed))

        return alone

    def _seed(self, seed: Callable[[int], None] | None, word: int) -> None:
        if seed is not None:
            seed(word)
        for one in self._held:
            one.set_random_state(np.random.Generator(np.random.Philox(key=word)), random.Random(word))  # noqa: S311  # no secrets


def _found(function: Any) -> Iterator[Any]:
    """What can be seeded, of all that a function uses."""
    home = _package(function)
    left, seen = deque([(function, 0)]), dict[int, Any]()
    while left and len(seen) < _VALUES:
        value, depth = left.popleft()
        if id(value) in seen or depth > _DEPTH:
            continue
        seen[id(value)] = value  # holds it, so that no other gets its number
        if _is_seedable(value):
            yield value
        else:
            left.extend((inner, depth + 1) for inner in _inside(value, home))


def _is_seedable(value: Any) -> bool:
    """Whether it draws as Albumentations' transforms do: from `random_generator` and `py_random`, which a method sets."""
    held = _attributes(value)
    return (
        isinstance(held.get("random_generator"), np.random.Generator)
        and isinstance(held.get("py_random"), random.Random)
        and callable(getattr(type(value), "set_random_state", None))
        and type(value).__hash__ is not None
    )


def _inside(value: Any, home: str) -> Iterator[Any]:
    """What a value holds or uses; of functions and classes only those of the same package."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, FunctionType):
        if _package(value) == home:
            yield from _used_by(value)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from list(value)[:_ENTRIES]
    elif isinstance(value, dict):
        yield from list(value.values())[:_ENTRIES]
    elif not isinstance(value, (type, ModuleType)):
        yield from _attributes(value).values()
        if _package(type(value)) == home:
            yield from (one for one in vars(type(value)).values() if isinstance(one, FunctionType))


def _used_by(function: FunctionType) -> Iterator[Any]:
    names = names_used(function)
    for value in (*values_used(function), *(function.__kwdefaults__ or {}).values()):
        if isinstance(value, ModuleType):  # module.train_transform
            yield from (one for name in names if _is_seedable(one := vars(value).get(name)))
        else:
            yield value


def _attributes(value: Any) -> dict[str, Any]:
    held = getattr(value, "__dict__", None) if not isinstance(value, (type, ModuleType)) else None
    return held if isinstance(held, dict) else {}


def _package(value: Any) -> str:
    inner = value.__func__ if isinstance(value, MethodType) else value
    while isinstance(inner, functools.partial):
        inner = inner.func
    owner = inner if isinstance(inner, (FunctionType, type)) else type(inner)
    return str(getattr(owner, "__module__", "")).partition(".")[0]
