"""Many requests at once: paced, retried, and hedged when one takes unusually long.

All calls share one queue, so that what was asked for first is fetched first. A thread makes a request, copies the answer to
where it belongs and takes the next. Nobody waits for a request that nobody wants any more: it ends in its own time, and its answer
is dropped.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.spec import Bytes
from penstock.stopping import LOOK_S, StoppedError, is_stopped
from penstock.storage.pace import Pace
from penstock.storage.ranges import Requests
from penstock.storage.retry import Retry, TransientError, with_retries

#: Makes one request, without retries: (shard, offset, length) -> the bytes. Raises TransientError, or the final error.
Get = Callable[[int, int, int], Any]

#: Of all requests, the share that may be made twice.
_HEDGED_SHARE = 0.05
#: A thread without work ends after this.
_IDLE_S = 5.0
#: How long the end of the process waits for requests that are under way.
_PATIENCE_S = 1.0

_all: weakref.WeakSet[_Threads] = weakref.WeakSet()


class Fetcher:
    """Makes requests in threads of its own and copies their answers to where they belong. For several callers at once."""

    def __init__(self, pace: Pace, retry: Retry) -> None:
        self.pace, self._retry = pace, retry
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._threads = _Threads(self.pace, self._retry)
        weakref.finalize(self, self._threads.close)

    def fetch(self, get: Get, requests: Requests, out: Bytes) -> None:
        """Fills `out`; raises the first final error, or the last transient one after the retries' deadline.

        StoppedError if whoever the calling thread works for wants nothing any more.
        """
        if self._owner != os.getpid():  # threads do not survive a fork
            self._begin()
        call = _Call(get, requests, out)
        self._threads.add([(call, request) for request in range(len(requests))])
        try:
            while not call.wait(LOOK_S):
                if is_stopped():
                    raise StoppedError
                self._hedge(call)
        finally:
            call.end()
        call.check()

    def _hedge(self, call: _Call) -> None:
        """Makes late requests a second time, as far as the budget allows."""
        traffic = self.pace.traffic
        for request in call.late(self.pace.late_after_s):
            if traffic.hedges > _HEDGED_SHARE * traffic.requests:
                return
            self.pace.hedged()
            call.hedged.add(request)
            self._threads.add([(call, request)], first=True)


class _Threads:
    """A queue of requests, and threads that make them. They hold nothing of the fetcher, so that it can be collected."""

    def __init__(self, pace: Pace, retry: Retry) -> None:
        self._pace, self._retry, self._owner = pace, retry, os.getpid()
        self._queue: deque[tuple[_Call, int]] = deque()
        self._started = self._running = 0
        self._closed = False
        self._changed = threading.Condition()
        _all.add(self)

    def add(self, work: list[tuple[_Call, int]], *, first: bool = False) -> None:
        """Has requests made, in their turn or next."""
        with self._changed:
            if self._closed:
                raise StoppedError
            (self._queue.extendleft if first else self._queue.extend)(work)
            self._changed.notify(len(work))
        self._start_threads()

    def _start_threads(self) -> None:
        """As many as requests may be under way, if there is work for them."""
        while True:
            with self._changed:
                if self._started >= min(self._pace.in_flight, self._running + len(self._queue)):
                    return
                self._started += 1
            try:
                threading.Thread(target=self._serve, name="penstock-fetch", daemon=True).start()
            except RuntimeError:  # the system has no more threads to give
                with self._changed:
                    self._started -= 1
                    if not self._started:
                        raise
                    return

    def _serve(self) -> None:
        while self._serve_one():
            self._start_threads()

    def _serve_one(self) -> bool:
        """Makes one request; False if there was none for long."""
        taken = self._take()
        if taken is None:
            return False
        call, request = taken
        try:
            call.make(request, self._attempt)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify(2)  # there may be room for one more than before
        return True

    def _take(self) -> tuple[_Call, int] | None:
        """The next request once there is room for it; None if there is nothing to do for long."""
        with self._changed:
            end = time.monotonic() + _IDLE_S
            while not (self._queue and self._running < self._pace.in_flight):
                left = end - time.monotonic()
                if left <= 0 or self._closed:
                    self._started -= 1
                    return None
                self._changed.wait(left)
            self._running += 1
            return self._queue.popleft()

    def _attempt(self, get: Get, place: tuple[int, int, int], stop: threading.Event) -> Any:
        """One request with its retries."""

        def once() -> Any:
            busy = self._running >= self._pace.in_flight
            began_at = time.monotonic()
            answer = get(*place)
            if len(answer) != place[2]:
                raise TransientError(f"{len(answer):,} bytes came instead of {place[2]:,}")
            self._pace.answered(time.monotonic() - began_at, place[2], busy=busy)
            return answer

        return with_retries(once, self._retry, stop, lambda error: self._pace.failed(slow_down=error.slow_down))

    def close(self, patience_s: float = 0.0) -> None:
        """Drops what was not begun, and waits for the rest, but not for long; not in the child of a fork."""
        if self._owner != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()
        end = time.monotonic() + patience_s
        while self._running and time.monotonic() < end:
            time.sleep(0.005)


class _Call:
    """One call of `fetch`: its requests, and which of them are done."""

    def __init__(self, get: Get, requests: Requests, out: Bytes) -> None:
        self._get, self._requests, self._out = get, requests, out
        self._places = list(
            zip(requests.shard.tolist(), requests.offset.tolist(), requests.length.tolist(), strict=True)
        )
        self._began_at: dict[int, float] = {}
        self._left = set(range(len(requests)))
        self._to_copy = len(requests)
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self.hedged: set[int] = set()
        if not len(requests):
            self._done.set()

    def make(self, request: int, attempt: Callable[[Get, tuple[int, int, int], threading.Event], Any]) -> None:
        """Makes a request and copies its answer, unless that is done already."""
        if self._stop.is_set() or request not in self._left:
            return
        self._began_at.setdefault(request, time.monotonic())

        def get(*place: int) -> Any:
            if request not in self._left:
                raise StoppedError  # the other of two was quicker
            return self._get(*place)

        try:
            answer = attempt(get, self._places[request], self._stop)
        except StoppedError:
            return
        except BaseException as error:
            if request in self._left:
                self._fail(error)
            return
        with self._lock:
            if self._stop.is_set() or request not in self._left:
                return  # the slower of two, or too late
            self._left.remove(request)
            del self._began_at[request]
        try:
            self._copy(request, answer)
        except BaseException as error:
            self._fail(error)
            return
        with self._lock:
            self._to_copy -= 1
            if not self._to_copy:
                self._done.set()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._error = self._error or error
        self._stop.set()
        self._done.set()

    def _copy(self, request: int, answer: Any) -> None:
        data = np.frombuffer(answer, dtype=np.uint8)
        planned = self._requests
        for copy in range(int(planned.first_copy[request]), int(planned.first_copy[request + 1])):
            source, at, size = int(planned.source[copy]), int(planned.at[copy]), int(planned.size[copy])
            self._out[at : at + size] = data[source : source + size]

    def wait(self, timeout_s: float) -> bool:
        """Whether everything is done."""
        return self._done.wait(timeout_s)

    def late(self, late_after_s: Callable[[int], float | None]) -> list[int]:
        """Requests that take unusually long, and were not made a second time."""
        now = time.monotonic()
        found = []
        limits: dict[int, float | None] = {}
        for request, began_at in list(self._began_at.items()):
            size = self._places[request][2]
            if size.bit_length() not in limits:
                limits[size.bit_length()] = late_after_s(size)
            limit_s = limits[size.bit_length()]
            if limit_s is not None and now - began_at > limit_s and request not in self.hedged:
                found.append(request)
        return found

    def end(self) -> None:
        """Nobody waits for it any more. Who is copying still, after an error elsewhere, writes to memory that the call holds."""
        self._stop.set()

    def check(self) -> None:
        """Raises what went wrong."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # else the error's traceback and this call would hold each other


@atexit.register
def _close_all() -> None:
    for threads in list(_all):
        threads.close(_PATIENCE_S)
