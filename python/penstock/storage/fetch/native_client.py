"""Makes first tries of requests over HTTP by a native client, without the interpreter.

One Python thread submits requests and receives results, many at once. Failed requests are retried elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.core.cancel import StoppedError
from penstock.core.kernels import HttpLanding, HttpLane
from penstock.storage.fetch.pace import Pace
from penstock.storage.fetch.queue import Request, Waiting
from penstock.storage.fetch.retry import TransientError
from penstock.storage.fetch.signed_urls import Direct
from penstock.storage.stores.http import MOST_REDIRECTS

#: The timeout of one attempt, connection and body together.
ATTEMPT_TIMEOUT_S = 30
#: For so many requests that may be in flight, one more is submitted, so that the client never waits for one.
_PER_READY = 8
#: The thread ends after being idle for so long.
_IDLE_S = 5.0
#: Statuses that are worth a retry, and those of them that mean slow down.
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
_SLOW_DOWN = frozenset((429, 503))

#: (ticket, url, etag, bytes of the object, start, parts); a part is (landing, request, offset in the response, bytes).
_Job: TypeAlias = tuple[int, str, str, int, int, list[tuple[HttpLanding, int, int, int]]]
#: Retries requests one by one after an error; None if the store is not known to be at fault.
Again = Callable[[list[Request], TransientError | None], None]


@dataclass(frozen=True, slots=True)
class _Sent:
    """Requests in flight as one: their URL, and the redirects so far."""

    requests: list[Request]
    url: str
    hops: int


class Lane:
    """A queue of requests and the native client that makes them.

    `elsewhere`: the requests that other clients have in flight, which count too.
    """

    def __init__(self, pace: Pace, direct: Direct, again: Again, elsewhere: Callable[[], int]) -> None:
        self._pace, self._direct, self._again, self._elsewhere = pace, direct, again, elsewhere
        self._native = HttpLane(ATTEMPT_TIMEOUT_S, is_plain=direct.is_plain)
        self._queue = Waiting()
        self._under_way: dict[int, _Sent] = {}
        self._moved: list[_Job] = []
        self._tickets = 0
        self._lock = threading.Lock()
        self._is_served = self._closed = False

    def __len__(self) -> int:
        """Requests that wait or are in flight."""
        return len(self._queue) + len(self._under_way)

    def add(self, requests: list[Request]) -> None:
        """Queue requests."""
        with self._lock:
            if self._closed:
                raise StoppedError
            self._queue.add(requests)
            is_served, self._is_served = self._is_served, True
        if is_served:
            self._native.wake()
            return
        try:
            threading.Thread(target=self._serve, name="penstock-lane", daemon=True).start()
        except RuntimeError:  # the system has no more threads to give
            with self._lock:
                self._is_served = False
                left = self._take_all()
            self._again(left, None)

    def close(self) -> None:
        """Drop waiting requests and abort those in flight."""
        with self._lock:
            self._closed = True
            self._queue.clear()
        self._native.close()
        self._native.wake()

    def _take_all(self) -> list[Request]:
        left = []
        while self._queue:
            left += self._queue.take(1, 0)
        return left

    def _serve(self) -> None:
        try:
            until = time.monotonic() + _IDLE_S
            while self._serve_some(max(0.0, until - time.monotonic())):
                if len(self):
                    until = time.monotonic() + _IDLE_S
        except BaseException as error:  # none is known, but a hang would be worse
            with self._lock:
                self._is_served = False
                left = self._take_all()
            for one in [*left, *(one for sent in self._under_way.values() for one in sent.requests)]:
                one.call.fail(error)
            self._under_way.clear()

    def _serve_some(self, timeout_s: float) -> bool:
        """Submit what may start, and wait for results; False if there is nothing more to do."""
        self._hand_over()
        for done in self._native.wait(timeout_s):
            self._ended(*done)
        with self._lock:
            self._is_served = not self._closed and (len(self) > 0 or timeout_s > 0)
            return self._is_served

    def _hand_over(self) -> None:
        """Submit as many requests as may be in flight, and a few more; adjacent ones as one."""
        limit = max(1, self._pace.in_flight - self._elsewhere())
        left: list[Request] = []
        jobs, self._moved = self._moved, []
        while True:
            with self._lock:
                room = limit + -(-limit // _PER_READY) - len(self._under_way)
                if not self._queue or room <= 0:
                    break
                free = max(1, limit - len(self._under_way))
                taken = self._queue.take(-(-len(self._queue) // free), self._pace.longest_bytes)
            size = taken[-1].end - taken[0].offset
            wanted = [one for one in taken if one.call.hand_over(one.number, size)]
            # A cancelled request would leave a gap.
            for some in [taken] if len(wanted) == len(taken) else [[one] for one in wanted]:
                job = self._job(some)
                if job is None:
                    left += some
                else:
                    jobs.append(job)
        if left:
            self._again(left, None)
        if jobs:
            try:
                self._native.submit(jobs, limit)
            except OSError:  # the system has no more threads to give
                for ticket, *_ in jobs:
                    self._again(self._under_way.pop(ticket).requests, None)

    def _job(self, requests: list[Request]) -> _Job | None:
        first = requests[0]
        name, _, size = first.get.target(first.shard)
        url = self._direct.url(name)
        if url is None or requests[-1].end > size:  # obstore has the error for bytes after the end
            return None
        return self._sent(requests, url, 0)

    def _sent(self, requests: list[Request], url: str, hops: int) -> _Job:
        first = requests[0]
        _, etag, size = first.get.target(first.shard)
        self._tickets += 1
        self._under_way[self._tickets] = _Sent(requests, url, hops)
        parts = [(one.call.landing, one.number, one.offset - first.offset, one.length) for one in requests]
        return self._tickets, url, etag, size, first.offset, parts

    def _ended(self, ticket: int, how: str, status: int, found: str, seconds: float, busy: bool) -> None:
        sent = self._under_way.pop(ticket, None)
        if sent is None or how == "dropped":
            return
        requests = sent.requests
        if how == "moved" and (url := self._next_place(sent, found)) is not None:
            self._moved.append(self._sent(requests, url, sent.hops + 1))
        elif how == "landed":
            self._direct.worked()
            self._pace.answered(seconds, requests[-1].end - requests[0].offset, busy=busy)
            for one in requests:
                one.call.landed(one.number)
        elif how in ("unreachable", "moved") or (how == "other" and status not in _PASSING):
            self._direct.left()
            self._again(requests, None)
        else:
            # So many at once may be too many for the line.
            self._again(requests, TransientError(found or how, slow_down=how == "slow" or status in _SLOW_DOWN))

    def _next_place(self, sent: _Sent, location: str) -> str | None:
        return None if sent.hops >= MOST_REDIRECTS else self._direct.follow(sent.url, location)
