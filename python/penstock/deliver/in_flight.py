"""Host memory that copies to a device read from: kept until an event says that they are done."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Protocol


class CopyEvent(Protocol):
    """A point in a stream of a device."""

    def query(self) -> bool:
        """Whether everything before it is done."""

    def synchronize(self) -> None:
        """Waits until everything before it is done."""


class InFlight:
    """Keeps what copies read from until their events have passed, which is looked at whenever the next copies begin: no thread waits for it.

    most: so many events may be under way; only then the thread that wants to copy waits for the oldest, so that a device that falls behind holds
    no more memory than that.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: deque[tuple[CopyEvent, Any]] = deque()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to wait for, as in a forked child."""
        return not self._held or self._process != os.getpid()

    def keep(self, event: CopyEvent, held: Any) -> None:
        """Keeps `held` until the event has passed."""
        with self._lock:
            self._held.append((event, held))

    def let_go(self) -> None:
        """Releases what events have passed; waits for the oldest while there are too many. Raises the device's error if it has one."""
        while (oldest := self._oldest()) is not None:
            if not oldest[0].query():
                if len(self._held) <= self._most:
                    return
                oldest[0].synchronize()
            self._drop(oldest)

    def wait(self) -> None:
        """Waits for all events, and releases everything. After a fork there is nothing that a child could wait for."""
        while self._process == os.getpid() and (oldest := self._oldest()) is not None:
            with suppress(Exception):  # a device that is lost reads no more
                oldest[0].synchronize()
            self._drop(oldest)

    def _oldest(self) -> tuple[CopyEvent, Any] | None:
        with self._lock:
            return self._held[0] if self._held else None

    def _drop(self, oldest: tuple[CopyEvent, Any]) -> None:
        """Another thread may have dropped it meanwhile."""
        with self._lock:
            if self._held and self._held[0] is oldest:
                self._held.popleft()
