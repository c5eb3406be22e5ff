"""Makes many requests at once: paced, retried, and hedged when slow.

All calls share one queue: first come, first served. Transports take requests from it, or several adjacent ones as one job: a client
that suits the store makes first tries (see `native`), threads with the store's own client make retries, hedges, and whatever the
first cannot. Nothing waits for a cancelled request: the native client hangs up within a tenth of a second; in a thread it ends in its own time, and its response is dropped.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from penstock.core.cancel import LOOK_S, StoppedError, is_stopped
from penstock.core.columns.spec import Bytes
from penstock.storage.fetch.pace import Pace
from penstock.storage.fetch.plan import Requests, shared_bytes
from penstock.storage.fetch.queue import Get, Request, RequestQueue, UnansweredRequest
from penstock.storage.fetch.retry import MOST_WRONG_IN_TURN, Attempts, Retry, TransientError, WrongAnswerError
from penstock.storage.fetch.threads import Threads
from penstock.storage.fetch.transfer import FetchCall
from penstock.storage.fetch.transport import Job, Transport
from penstock.storage.forked import is_lost, renew_in_children

#: The share of requests that may be hedged.
_HEDGED_SHARE = 0.05
#: How long the end of the process waits for requests in flight.
_PATIENCE_S = 1.0

_all: weakref.WeakSet[Scheduler] = weakref.WeakSet()


class Scheduler:
    """Makes requests and puts the responses at their destinations. Thread-safe; `close` it.

    open_first: opens the transport of first tries; None if threads make all.
    """

    def __init__(self, pace: Pace, retry: Retry, open_first: Callable[[Scheduler], Transport] | None = None) -> None:
        self.pace, self._retry, self._open_first = pace, retry, open_first
        self._begin()
        _all.add(self)
        renew_in_children(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting, self._again = RequestQueue(), deque[Request]()
        self._wrong_in_turn, self._closed = 0, False
        self._calls = set[FetchCall]()
        self._threads = Threads(self)
        self._first: Transport = self._threads if self._open_first is None else self._open_first(self)

    def forked(self) -> None:
        """Begin anew in the child of a fork, where the threads are missing."""
        self.pace.forked()
        self._begin()

    def longest_bytes(self, size: int) -> int:
        """The longest request worth making for `size` bytes now: if nothing else is in flight, all connections share them."""
        is_idle = not (self._threads.in_flight or self._first.in_flight or self._waiting or self._again)
        longest = self.pace.longest_bytes
        return shared_bytes(size, self.pace.in_flight, longest) if is_idle else longest

    def fetch(self, get: Get, requests: Requests, out: Bytes) -> None:
        """Fill `out`. Raises the first final error, or the last transient one after the retries' deadline.

        StoppedError if the calling thread's work was cancelled.
        """
        call = FetchCall(get, requests, out)
        self._add(call.requests())
        self._calls.add(call)
        try:
            self._first.wake()
            while not call.wait(LOOK_S):
                if is_stopped():
                    raise StoppedError
                self._hedge(call)
        finally:
            self._calls.discard(call)
            call.end()
        call.check()

    def pending(self) -> list[UnansweredRequest]:
        """All requests that are not answered."""
        return [request for call in self._calls.copy() for request in call.pending()]

    def _add(self, requests: list[Request]) -> None:
        with self._lock:
            if self._closed:
                raise StoppedError
            self._waiting.add(requests)

    def _hedge(self, call: FetchCall) -> None:
        """Hedge late requests, as far as the budget allows; not by a client without threads after a fork."""
        if self._first is not self._threads and is_lost("obstore"):
            return
        traffic = self.pace.traffic
        for request in call.late(self.pace.late_after_s):
            if traffic.hedges > _HEDGED_SHARE * traffic.requests:
                return
            self.pace.hedged()
            self._make_again([request])

    def _make_again(self, requests: list[Request]) -> None:
        """Let threads make requests before all others, one by one."""
        with self._lock:
            if not self._closed:
                self._again.extend(requests)
        self._threads.wake()

    # For transports

    def take(self, transport: Transport) -> Job:
        """The next job; [] if none may start now."""
        with self._lock:
            limit = self.limit(transport)
            if transport.in_flight >= _most(transport, limit):
                return []
            job: Job = []
            if transport is self._threads:
                while self._again and not job:
                    request = self._again.popleft()
                    job = [request] if request.is_wanted else []
            if transport is self._first and not job:
                free = max(1, limit - transport.in_flight)
                job = self._waiting.take(-(-len(self._waiting) // free), self.pace.longest_bytes)
            transport.in_flight += bool(job)
            return job

    def startable(self, transport: Transport) -> int:
        """How many requests may start now."""
        waiting = len(self._again) if transport is self._threads else 0
        waiting += len(self._waiting) if transport is self._first else 0
        return min(waiting, max(0, _most(transport, self.limit(transport)) - transport.in_flight))

    def limit(self, transport: Transport) -> int:
        """How many jobs may be in flight: retries and hedges have room even if all first tries hang."""
        most = self.pace.in_flight
        return most if transport is self._threads else max(1, most - self._threads.in_flight)

    def answered(self, job: Job, seconds: float, *, busy: bool) -> None:
        """Count a good response. `busy`: the limit was reached when the job started."""
        self._wrong_in_turn = 0
        self.pace.answered(seconds, job[-1].end - job[0].offset, busy=busy)

    def failed(self, transport: Transport, job: Job, error: BaseException | None, seconds: float) -> None:
        """Retry a job that failed after so many seconds, or fail its calls. error: None if it was not the store's fault.

        Threads retry its requests one by one, so that each call receives its own error.
        """
        is_transient = isinstance(error, TransientError)
        if isinstance(error, TransientError):
            self.pace.failed(slow_down=error.slow_down)
        began_at = time.monotonic() - seconds
        if error is None or len(job) > 1 or transport is not self._threads:
            for one in job:
                one.attempts = Attempts(self._retry, time.monotonic(), failed=1) if is_transient else None
        elif not self._may_retry(job[0], error, began_at):
            if job[0].is_wanted:
                job[0].call.fail(error)
            return
        try:
            self._make_again(job)
        except RuntimeError as no_threads:
            for one in job:
                one.call.fail(no_threads)

    def _may_retry(self, request: Request, error: BaseException, began_at: float) -> bool:
        """Whether one more attempt may succeed; not if the store sends only wrong responses."""
        if not isinstance(error, TransientError):
            return False
        if isinstance(error, WrongAnswerError):
            self._wrong_in_turn += 1
        if request.attempts is None:
            request.attempts = Attempts(self._retry, began_at)
        return request.attempts.may_retry(error) and self._wrong_in_turn < MOST_WRONG_IN_TURN

    def ended(self, transport: Transport, jobs: int = 1) -> None:
        """Count jobs that are not in flight any more."""
        with self._lock:
            transport.in_flight -= jobs

    def close(self, patience_s: float = 0.0) -> None:
        """Drop what has not started, and wait briefly for the rest."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            self._again.clear()
        self._first.close()
        self._threads.close()
        end = time.monotonic() + patience_s
        while self._threads.in_flight and time.monotonic() < end:
            time.sleep(0.005)


def _most(transport: Transport, limit: int) -> int:
    return limit + math.ceil(transport.spare_share * limit)


def pending_requests() -> list[UnansweredRequest]:
    """The requests to stores, of the whole process, that are not answered; those made longest ago first."""
    found = [request for scheduler in list(_all) for request in scheduler.pending()]
    return sorted(found, key=lambda request: -request.since_s)


@atexit.register
def _close_all() -> None:
    for scheduler in list(_all):
        scheduler.close(_PATIENCE_S)
