"""A cache in memory of what was used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Lru(Generic[_K, _V]):
    """Values by key, together of `limit` at most; the least recently used is evicted first. For any number of threads.

    weigh: how much of the limit a value takes, 1 by default; a single value may take more. evicted: called with each evicted value.
    """

    def __init__(
        self,
        limit: int,
        *,
        weigh: Callable[[_V], int] = lambda _: 1,
        evicted: Callable[[_V], object] = lambda _: None,
    ) -> None:
        self._limit, self._weigh, self._evicted = limit, weigh, evicted
        self._values: OrderedDict[_K, _V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def get(self, key: _K) -> _V | None:
        """The value, None if it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def values(self) -> list[_V]:
        """All values."""
        with self._lock:
            return list(self._values.values())

    def put(self, key: _K, value: _V) -> _V:
        """Add a value, and return it."""
        with self._lock:
            self._drop(key)
            self._values[key] = value
            self._weight += self._weigh(value)
            self._evict()
        return value

    def bound(self, limit: int) -> None:
        """Takes another limit from now on, and evicts what is above it."""
        with self._lock:
            self._limit = limit
            self._evict()

    def drop(self, key: _K) -> None:
        """Evict a value, if it is there."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Evict all values."""
        with self._lock:
            while self._values:
                self._drop(next(iter(self._values)))

    def _evict(self) -> None:
        while self._weight > self._limit and len(self._values) > 1:
            self._drop(next(iter(self._values)))

    def _drop(self, key: _K) -> None:
        if key in self._values:
            value = self._values.pop(key)
            self._weight -= self._weigh(value)
            self._evicted(value)
