"""The only file that blocks: a bounded channel whose items leave in the order of their numbers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from penstock.core.cancel import carried, is_stopped

Item = TypeVar("Item")


class Closed(Exception):
    """The channel was closed: there is nothing more to do."""


class NothingYet(Exception):
    """Nothing came in time; it may still come."""


class Channel(Generic[Item]):
    """Items 0, 1, 2, … put in any order by many threads, taken in order by many.

    `put` waits while its number is `capacity` or more ahead of the next to be taken; the next one can always enter, so
    no order of arrival can block the whole.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._items: dict[int, Item] = {}
        self._next = 0
        self._end: int | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._come = threading.Condition(self._lock)
        self._room: dict[int, threading.Condition] = {}  # whoever waits with an item is woken alone
        self._taker_waits = threading.Condition(self._lock)
        self._takers = 0
        self._held = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, number: int, item: Item) -> None:
        """Adds an item; raises Closed if the channel is closed before there is room."""
        with self._lock:
            while number >= self._next + self.capacity and not self._closed:
                room = self._room[number] = threading.Condition(self._lock)
                room.wait()
            if self._closed:
                raise Closed
            self._items[number] = item
            if number == self._next:
                self._come.notify()

    def take(self, timeout_s: float | None = None) -> tuple[int, Item]:
        """The next item with its number; raises Closed if the channel is closed before it comes, or has ended.

        NothingYet after a wait of `timeout_s`.
        """
        with self._lock:
            in_time = True
            while (self._held or (self._next not in self._items and self._next != self._end)) and not self._closed:
                if not in_time:
                    raise NothingYet
                in_time = self._wait_for_item(timeout_s)
            if self._error is not None:
                raise self._error
            if self._closed or self._next == self._end:
                raise Closed
            number = self._next
            self._next += 1
            item = self._items.pop(number)
            if self._next in self._items:
                self._come.notify()
            elif self._next == self._end:
                self._come.notify_all()
            for waiting in [one for one in self._room if one < self._next + self.capacity]:
                self._room.pop(waiting).notify()
            return number, item

    def _wait_for_item(self, timeout_s: float | None) -> bool:
        """Whether it was woken, and not the time that ended."""
        self._takers += 1
        self._taker_waits.notify()
        try:
            return self._come.wait(timeout_s)
        finally:
            self._takers -= 1

    @contextmanager
    def hold_taker(self) -> Iterator[None]:
        """Waits until somebody waits in `take`, and keeps them there meanwhile; raises Closed if the channel is closed first."""
        with self._lock:
            while (self._held or not self._takers) and not self._closed:
                self._taker_waits.wait()
            if self._closed:
                raise Closed
            self._held = True
        try:
            yield
        finally:
            with self._lock:
                self._held = False
                self._come.notify_all()
                self._taker_waits.notify()

    def waiting(self) -> list[Item]:
        """What was put and not taken yet, in order."""
        with self._lock:
            return [item for _, item in sorted(self._items.items(), key=lambda entry: entry[0])]

    @property
    def end(self) -> int | None:
        """How many items there are in all, once that is known."""
        return self._end

    def finish(self, end: int) -> None:
        """Says that items 0 … end-1 are all; taking the one after them raises Closed."""
        with self._lock:
            self._end = end
            self._come.notify_all()

    def fail(self, error: BaseException) -> None:
        """Closes the channel; whoever takes from it gets the error."""
        with self._lock:
            self._error = error
        self.close()

    def close(self) -> None:
        """Wakes everyone; what was not taken is dropped."""
        with self._lock:
            self._closed = True
            self._items.clear()
            self._come.notify_all()
            self._taker_waits.notify_all()
            while self._room:
                self._room.popitem()[1].notify()


class Tickets(Generic[Item]):
    """An iterator that many threads draw from, each item with its number."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._drawn = 0
        self._lock = threading.Lock()
        self._closed = False
        self.end: int | None = None

    def __len__(self) -> int:
        return 0

    def take(self) -> tuple[int, Item]:
        """The next item with its number; raises Closed after the last or after `close`."""
        with self._lock:
            if self._closed:
                raise Closed
            try:
                item = next(self._items)
            except StopIteration:
                self.end = self._drawn
                raise Closed from None
            self._drawn += 1
            return self._drawn - 1, item

    def close(self) -> None:
        """No more items."""
        self._closed = True


class Gate:
    """Lets the threads numbered 0 … limit - 1 of a stage through; the others wait here."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._closed = False
        self._changed = threading.Condition()

    def wait(self, number: int, look_s: float | None = None) -> None:
        """Until the thread of that number may go on; raises Closed once the gate is closed, or, looked for every `look_s`, its run is stopped."""
        with self._changed:
            while number >= self.limit and not self._closed:
                self._changed.wait(look_s)
                if look_s is not None and is_stopped():
                    raise Closed
            if self._closed:
                raise Closed

    def open_for(self, limit: int) -> None:
        """So many threads may go on from now on."""
        with self._changed:
            self.limit = limit
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody waits any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Joined:
    """Threads that are started together and waited for together."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Runs `work` in a thread of its own that does not keep the process alive."""
        thread = threading.Thread(target=carried(work), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def join(self, timeout_s: float) -> list[str]:
        """Waits for all (but the calling one); the names of those that did not end in time."""
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        deadline = time.monotonic() + timeout_s
        for thread in others:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [thread.name for thread in others if thread.is_alive()]
