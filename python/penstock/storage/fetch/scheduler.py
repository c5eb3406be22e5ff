"""Makes many requests at once: paced, retried, and hedged when slow.

All calls share one queue: first come, first served. A thread makes a request, or several adjacent ones, copies the response to its
destination and takes the next. If the native client makes the first tries (see `native_client`), threads make retries and hedges.
Nothing waits for a cancelled request: it ends in its own time, and its response is dropped.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from dataclasses import replace
from typing import Any

from penstock.core.cancel import LOOK_S, StoppedError, is_stopped
from penstock.core.spec import Bytes
from penstock.storage.fetch.native_client import Lane
from penstock.storage.fetch.pace import Pace
from penstock.storage.fetch.plan import Requests, shared_bytes
from penstock.storage.fetch.queue import Get, Request, Waiting
from penstock.storage.fetch.retry import MOST_WRONG_IN_TURN, Retry, TransientError, WrongAnswerError, with_retries
from penstock.storage.fetch.signed_urls import Direct
from penstock.storage.fetch.transfer import Call
from penstock.storage.stores.forked import is_lost

#: The share of requests that may be hedged.
_HEDGED_SHARE = 0.05
#: A thread without work ends after this.
_IDLE_S = 5.0
#: How long the end of the process waits for requests in flight.
_PATIENCE_S = 1.0

_all: weakref.WeakSet[_Threads] = weakref.WeakSet()


class Fetcher:
    """Makes requests in its own threads and copies the responses to their destinations. Thread-safe."""

    def __init__(self, pace: Pace, retry: Retry, direct: Direct | None = None) -> None:
        self.pace, self._retry, self._direct = pace, retry, direct
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._threads = _Threads(self.pace, self._retry, self._direct)
        weakref.finalize(self, self._threads.close)

    def longest_bytes(self, size: int) -> int:
        """The longest request worth making for `size` bytes now: if nothing else is in flight, all connections share them."""
        longest = self.pace.longest_bytes
        return shared_bytes(size, self.pace.in_flight, longest) if self._threads.is_idle else longest

    def fetch(self, get: Get, requests: Requests, out: Bytes) -> None:
        """Fill `out`. Raises the first final error, or the last transient one after the retries' deadline.

        StoppedError if the calling thread's work was cancelled.
        """
        if self._owner != os.getpid():  # threads do not survive a fork
            self.pace.forked()
            self._begin()
        call = Call(get, requests, out)
        self._threads.begin(call.requests())
        try:
            while not call.wait(LOOK_S):
                if is_stopped():
                    raise StoppedError
                self._hedge(call)
        finally:
            call.end()
        call.check()

    def _hedge(self, call: Call) -> None:
        """Hedge late requests, as far as the budget allows; not by a client without threads after a fork."""
        if self._direct is not None and is_lost("obstore"):
            return
        traffic = self.pace.traffic
        for request in call.late(self.pace.late_after_s):
            if traffic.hedges > _HEDGED_SHARE * traffic.requests:
                return
            self.pace.hedged()
            self._threads.add([request], first=True)


class _Threads:
    """A queue of requests, and threads that make them. They hold no reference to the fetcher, so that it can be collected."""

    def __init__(self, pace: Pace, retry: Retry, direct: Direct | None) -> None:
        self._pace, self._retry, self._owner = pace, retry, os.getpid()
        self._queue = Waiting()
        self._lane = None if direct is None else Lane(pace, direct, self._again, lambda: self._running)
        self._started = self._running = self._wrong_in_turn = 0
        self._closed = False
        self._changed = threading.Condition()
        _all.add(self)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is in flight."""
        return not self._running and not self._queue and not self._lane

    def begin(self, requests: list[Request]) -> None:
        """Queue requests for the first time."""
        if self._lane is None or self._closed:
            self.add(requests)
        else:
            self._lane.add(requests)

    def _again(self, requests: list[Request], error: TransientError | None) -> None:
        """Retry requests one by one, so that each call receives its own error."""
        if error is not None:
            self._pace.failed(slow_down=error.slow_down)
        with contextlib.suppress(StoppedError):
            self.add(
                [replace(one, alone=True, left=False, tried=error is not None) for one in reversed(requests)],
                first=True,
            )

    def add(self, requests: list[Request], *, first: bool = False) -> None:
        """Queue requests, behind the others or first."""
        with self._changed:
            if self._closed:
                raise StoppedError
            self._queue.add(requests, first=first)
            self._changed.notify(len(requests))
        self._start_threads()

    def _start_threads(self) -> None:
        """Start threads, up to the limit of requests in flight, if there is work for them."""
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
        while self._serve_some():
            self._start_threads()

    def _serve_some(self) -> bool:
        """Make one request, or several as one; False after a long idle time."""
        taken = self._take()
        if taken is None:
            return False
        try:
            size = taken[-1].end - taken[0].offset
            wanted = [one for one in taken if one.call.begin(one.number, size)]
            if len(wanted) == 1:
                self._make(wanted[0])
            elif wanted:
                self._make_together(wanted)
        finally:
            with self._changed:
                self._running -= 1
                room = min(len(self._queue), self._pace.in_flight - self._running)
                self._changed.notify(max(0, room - 1))  # this thread takes the next itself
        return True

    def _take(self) -> list[Request] | None:
        """The next request once there is room for it, with adjacent ones; None after a long idle time."""
        with self._changed:
            end = time.monotonic() + _IDLE_S
            while not (self._queue and self._running < self._pace.in_flight):
                left = end - time.monotonic()
                if left <= 0 or self._closed:
                    self._started -= 1
                    return None
                self._changed.wait(left)
            free = self._pace.in_flight - self._running
            self._running += 1
            return self._queue.take(-(-len(self._queue) // free), self._pace.longest_bytes)

    def _make(self, request: Request) -> None:
        """Make one request with its retries."""
        call = request.call

        def attempt() -> Any:
            if not call.wants(request.number):
                raise StoppedError  # the other of the two was faster
            return self._once(request.get, request.shard, request.offset, request.length)

        try:
            answer = with_retries(attempt, self._retry, call.stop, self._failed, before=int(request.tried))
        except StoppedError:
            return
        except BaseException as error:
            if call.wants(request.number):
                call.fail(error)
            return
        call.put(request.number, answer)

    def _make_together(self, requests: list[Request]) -> None:
        """Make adjacent requests as one."""
        first, last = requests[0], requests[-1]
        try:
            answer = memoryview(self._once(first.get, first.shard, first.offset, last.end - first.offset))
        except BaseException as error:
            self._again(requests, error if isinstance(error, TransientError) else None)
            return
        for one in requests:
            one.call.put(one.number, answer[one.offset - first.offset : one.end - first.offset])

    def _once(self, get: Get, shard: int, offset: int, length: int) -> Any:
        busy = self._running >= self._pace.in_flight
        began_at = time.monotonic()
        answer = get(shard, offset, length)
        if len(answer) != length:
            raise WrongAnswerError(f"{len(answer):,} bytes received instead of {length:,}; check the server")
        self._wrong_in_turn = 0
        self._pace.answered(time.monotonic() - began_at, length, busy=busy)
        return answer

    def _failed(self, error: TransientError) -> None:
        """Count a failure; raises it if the store sends only wrong responses."""
        self._pace.failed(slow_down=error.slow_down)
        if isinstance(error, WrongAnswerError):
            self._wrong_in_turn += 1
            if self._wrong_in_turn >= MOST_WRONG_IN_TURN:
                raise error

    def close(self, patience_s: float = 0.0) -> None:
        """Drop what has not started, and wait briefly for the rest; not in the child of a fork."""
        if self._owner != os.getpid():
            return
        if self._lane is not None:
            self._lane.close()
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()
        end = time.monotonic() + patience_s
        while self._running and time.monotonic() < end:
            time.sleep(0.005)


@atexit.register
def _close_all() -> None:
    for threads in list(_all):
        threads.close(_PATIENCE_S)
