"""One port, file or run for all loaders of a process that ask for it: training and validation have the same `observe=`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.observe.exporters.readings import Readings


class SharedThing:
    """What loaders share."""

    def left(self, number: int) -> None:
        """The loader of this number is closed."""

    def end(self) -> None:
        """The last one is closed. Called once."""


HeldT = TypeVar("HeldT", bound=SharedThing)


class Place(Generic[HeldT]):
    """A loader's place at what it shares. number: the lowest that nobody else there has, so that there are never more numbers than loaders at once."""

    def __init__(self, held: HeldT, number: int, leave: Callable[[], None]) -> None:
        self.held, self.number, self.leave = held, number, leave
        self.readings = Readings(number)


class Shared(Generic[HeldT]):
    """What was opened in this process, by key."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[HeldT, set[int]]] = {}
        self._lock = threading.Lock()

    def take(self, key: str, open_it: Callable[[], HeldT]) -> Place[HeldT]:
        """A place at what has this key, opened for the first. A fork opens its own."""
        key = f"{os.getpid()} {key}"
        with self._lock:
            if key not in self._held:
                self._held[key] = open_it(), set()
            held, numbers = self._held[key]
            number = next(one for one in range(len(numbers) + 1) if one not in numbers)
            numbers.add(number)
        return Place(held, number, lambda: self._leave(key, number))

    def _leave(self, key: str, number: int) -> None:
        with self._lock:
            held, numbers = self._held[key]
            numbers.discard(number)
            if not numbers:
                del self._held[key]
            held.left(number)
            if not numbers:
                held.end()


class SharingExporter(Generic[HeldT]):
    """An exporter of one loader into something shared, which is opened at once, so that what cannot be is known when the loader is made."""

    def __init__(self, shared: Shared[HeldT], key: str, open_it: Callable[[], HeldT]) -> None:
        self.place = shared.take(key, open_it)

    def close(self) -> None:
        """Leaves, and ends what nobody else shares."""
        self.place.leave()
