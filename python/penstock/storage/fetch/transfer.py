"""One call for many requests: which of them are done, and the destinations of their responses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from penstock.core.cancel import stop_flag
from penstock.core.columns.spec import Bytes
from penstock.storage.fetch.plan import Requests
from penstock.storage.fetch.queue import Get, Request, UnansweredRequest


class Landing(Protocol):
    """Writes responses to their destinations without the interpreter, each until it is closed."""

    def close(self, request: int, /) -> bool:
        """Close a request, for which nothing is written from now on; whether it was open."""

    def close_all(self) -> None:
        """Close all requests."""

    def since(self, request: int, /) -> float | None:
        """Seconds since a request was first made; None if it still waits."""


class FetchCall:
    """One call of `Scheduler.fetch`. One thread sets it up and waits; others make its requests."""

    def __init__(self, get: Get, planned: Requests, out: Bytes) -> None:
        self._get, self._planned, self._out = get, planned, out
        self._begun: dict[int, tuple[float | None, int]] = {}
        self._left = set(range(len(planned)))
        self._to_copy = len(planned)
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._hedged: set[int] = set()
        #: The landing of the native client, if it makes requests of this call.
        self.landing: Landing | None = None
        self.stop, self._unwanted = threading.Event(), stop_flag()
        if not len(planned):
            self._done.set()

    def requests(self) -> list[Request]:
        """All its requests. They reference the call, but not the reverse, so that its memory is free when it ends."""
        planned = self._planned
        places = zip(planned.shard.tolist(), planned.offset.tolist(), planned.length.tolist(), strict=True)
        return [Request(self, number, self._get, *place) for number, place in enumerate(places)]

    @property
    def planned(self) -> tuple[Bytes, Requests]:
        """The memory to fill, and the requests."""
        return self._out, self._planned

    def land_on(self, landing: Landing) -> None:
        """Let a landing receive the responses that are still needed; called by one thread, once."""
        self.landing = landing
        if self.stop.is_set():
            landing.close_all()
        with self._lock:
            done = set(range(len(self._planned))) - self._left
        for number in done:  # by another transport
            landing.close(number)

    def landed(self, number: int) -> None:
        """Note that the landing has a whole response."""
        with self._lock:
            if number in self._left:
                self._leave(number)
                self._count_copied()

    def wants(self, number: int) -> bool:
        """Whether a request's response is still needed."""
        return number in self._left and not self.stop.is_set() and not self._unwanted.is_set()

    def begin(self, number: int, size: int) -> None:
        """Note that a request starts, with others of `size` bytes in all."""
        if self._begun.get(number, (None, 0))[0] is None:
            self._begun[number] = time.monotonic(), size

    def submit(self, number: int, size: int) -> None:
        """Like `begin`, for the native client: the landing knows when the request starts."""
        self._begun[number] = None, size

    def put(self, number: int, answer: Any) -> None:
        """Copy a response to its destination, unless that is done already."""
        with self._lock:
            if not self.wants(number):
                return  # the slower of the two, or too late
            self._leave(number)
        if self.landing is not None:
            self.landing.close(number)
        try:
            self._copy(number, np.frombuffer(answer, dtype=np.uint8))
        except BaseException as error:
            self.fail(error)
            return
        with self._lock:
            self._count_copied()

    def _leave(self, number: int) -> None:
        self._left.remove(number)
        self._begun.pop(number, None)

    def _count_copied(self) -> None:
        self._to_copy -= 1
        if not self._to_copy:
            self._done.set()

    def fail(self, error: BaseException) -> None:
        """Note that a request failed for good, and with it the whole call."""
        with self._lock:
            self._error = self._error or error
        self.stop.set()
        self._done.set()

    def _copy(self, number: int, data: Bytes) -> None:
        planned = self._planned
        for copy in range(int(planned.first_copy[number]), int(planned.first_copy[number + 1])):
            source, at, size = int(planned.source[copy]), int(planned.at[copy]), int(planned.size[copy])
            self._out[at : at + size] = data[source : source + size]

    def wait(self, timeout_s: float) -> bool:
        """Whether all requests are done."""
        return self._done.wait(timeout_s)

    def late(self, late_after_s: Callable[[int], float | None]) -> Iterable[Request]:
        """Slow requests, to be hedged; each once."""
        limits: dict[int, float | None] = {}
        for number, (began_at, size) in self._begun.copy().items():  # one step, as a list of the items is not
            if size.bit_length() not in limits:
                limits[size.bit_length()] = late_after_s(size)
            limit_s = limits[size.bit_length()]
            since_s = self._since_s(number, began_at)
            if limit_s is not None and since_s > limit_s and number not in self._hedged:
                self._hedged.add(number)
                yield self.requests()[number]

    def pending(self) -> list[UnansweredRequest]:
        """Its requests that are not answered."""
        begun = self._begun.copy()
        return [
            UnansweredRequest(
                self._get.target(one.shard)[0],
                one.offset,
                one.length,
                self._since_s(one.number, begun[one.number][0]) if one.number in begun else 0.0,
            )
            for one in self.requests()
            if self.wants(one.number)
        ]

    def _since_s(self, number: int, began_at: float | None) -> float:
        """Seconds since a request was first made; 0 if it still waits."""
        since_s = None if self.landing is None else self.landing.since(number)
        if since_s is not None:
            return since_s
        return 0.0 if began_at is None else time.monotonic() - began_at

    def end(self) -> None:
        """End the call. Threads that still copy, after an error elsewhere, write to memory that the call holds."""
        self.stop.set()
        if self.landing is not None:
            self.landing.close_all()

    def check(self) -> None:
        """Raise the call's error, if there is one."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # else the error's traceback and this call would reference each other
