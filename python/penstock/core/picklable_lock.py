"""A lock that can be pickled with what it guards: another process has one of its own."""

from __future__ import annotations

import threading
from typing import Any


class PicklableLock:
    """One thread at a time: `with turn: …`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A new lock, that nobody holds."""
        return PicklableLock, ()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
