"""The rows that datasets hold in memory, as long as one of them, or a loader, is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.derived.row_cache.rows import RowCache


class MemoryCaches:
    """What a `cache()` in memory holds, by key: all datasets that are made from it share it. In another process it is empty."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], RowCache] = {}
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], RowCache]) -> RowCache:
        """The rows of a key."""
        with self._lock:
            place = os.getpid(), key
            if place not in self._found:
                self._found[place] = make()
            return self._found[place]

    def after_fork(self) -> None:
        """A thread of the parent may have held the lock."""

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryCaches, ()
