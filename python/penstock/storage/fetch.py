"""Many requests at once: paced, retried, and hedged when one takes unusually long."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from penstock.spec import Bytes
from penstock.storage.pace import MOST, Pace
from penstock.storage.ranges import Requests
from penstock.storage.retry import Retry, StoppedError, TransientError, with_retries

#: Makes one request, without retries: (shard, offset, length) -> the bytes. Raises TransientError, or the final error.
Get = Callable[[int, int, int], Any]

#: Of all requests, the share that may be made twice.
_HEDGED_SHARE = 0.05


class Fetcher:
    """Makes requests in threads of its own and copies their answers to where they belong. For several callers at once."""

    def __init__(self, pace: Pace, retry: Retry) -> None:
        self._pace, self._retry = pace, retry
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._owner = 0
        self._running = 0

    def fetch(self, get: Get, requests: Requests, out: Bytes) -> None:
        """Fills `out`; raises the first final error, or the last transient one after the retries' deadline."""
        _Call(self, get, requests, out).run()

    @property
    def pace(self) -> Pace:
        """How many requests may be in flight."""
        return self._pace

    def start(self, work: Callable[[], None]) -> None:
        """Runs `work` in a thread, now."""
        with self._lock:
            if self._threads is None or self._owner != os.getpid():  # threads do not survive a fork
                self._threads = ThreadPoolExecutor(2 * MOST, thread_name_prefix="penstock-fetch")
                self._owner, self._running = os.getpid(), 0
            self._running += 1
            self._threads.submit(self._run, work)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            with self._lock:
                self._running -= 1

    @property
    def has_room(self) -> bool:
        """Whether another request may be made now."""
        return self._running < self._pace.in_flight

    def attempt(self, get: Get, place: tuple[int, int, int], stop: threading.Event) -> Any:
        """One request with its retries."""

        def once() -> Any:
            began_at = time.monotonic()
            busy = not self.has_room
            answer = get(*place)
            if len(answer) != place[2]:
                raise TransientError(f"{len(answer):,} bytes came instead of {place[2]:,}")
            self._pace.answered(time.monotonic() - began_at, place[2], busy=busy)
            return answer

        return with_retries(once, self._retry, stop, lambda error: self._pace.failed(slow_down=error.slow_down))


class _Call:
    """One call of `fetch`: its requests, and what came back."""

    def __init__(self, fetcher: Fetcher, get: Get, requests: Requests, out: Bytes) -> None:
        self._fetcher, self._get, self._requests, self._out = fetcher, get, requests, out
        self._waiting = deque(range(len(requests)))
        self._began_at: dict[int, float] = {}
        self._stops: dict[int, threading.Event] = {}
        self._hedged: set[int] = set()
        self._answers: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()

    def run(self) -> None:
        try:
            while self._waiting or self._began_at:
                self._start_some()
                self._take_one()
        finally:
            for stop in self._stops.values():
                stop.set()

    def _start_some(self) -> None:
        # One request of this call is always under way, so that calls cannot starve each other.
        while self._waiting and (self._fetcher.has_room or not self._began_at):
            self._start(self._waiting.popleft())

    def _start(self, request: int) -> None:
        stop = self._stops.setdefault(request, threading.Event())
        self._began_at[request] = time.monotonic()
        columns = (self._requests.shard, self._requests.offset, self._requests.length)
        place = (int(columns[0][request]), int(columns[1][request]), int(columns[2][request]))

        def work() -> None:
            try:
                self._answers.put((request, self._fetcher.attempt(self._get, place, stop), None))
            except BaseException as error:
                self._answers.put((request, None, error))

        self._fetcher.start(work)

    def _take_one(self) -> None:
        """Waits for an answer, or until a request is late."""
        late_after_s = self._fetcher.pace.late_after_s()
        try:
            request, answer, error = self._answers.get(timeout=None if late_after_s is None else late_after_s / 4)
        except queue.Empty:
            self._hedge(late_after_s or 0.0)
            return
        if isinstance(error, StoppedError) or request not in self._began_at:
            return  # the slower of two
        if error is not None:
            raise error
        del self._began_at[request]
        self._stops.pop(request).set()
        self._copy(request, answer)

    def _hedge(self, late_after_s: float) -> None:
        """Makes late requests a second time, as far as the budget allows."""
        now = time.monotonic()
        traffic = self._fetcher.pace.traffic
        for request, began_at in list(self._began_at.items()):
            if traffic.hedges > _HEDGED_SHARE * traffic.requests:
                return
            if now - began_at > late_after_s and request not in self._hedged:
                self._hedged.add(request)
                self._fetcher.pace.hedged()
                self._start(request)

    def _copy(self, request: int, answer: Any) -> None:
        data = np.frombuffer(answer, dtype=np.uint8)
        planned = self._requests
        for copy in range(int(planned.first_copy[request]), int(planned.first_copy[request + 1])):
            source, at, size = int(planned.source[copy]), int(planned.at[copy]), int(planned.size[copy])
            self._out[at : at + size] = data[source : source + size]
