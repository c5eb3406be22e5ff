"""First tries of requests over HTTP, made by a native client that takes nothing of the interpreter's time.

One thread of ours hands requests over and hears of those that ended, many at once. What did not end well is made again elsewhere.
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

#: One attempt of a request, connection and body together.
ATTEMPT_TIMEOUT_S = 30
#: One request more is handed over for so many that may be under way, so that none has to be waited for.
_PER_READY = 8
#: The thread ends when it had nothing to do for so long.
_IDLE_S = 5.0
#: What passes by itself, and which of it asks for less.
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
_SLOW_DOWN = frozenset((429, 503))

#: (ticket, url, etag, bytes of the object, start, parts); a part is (landing, request, offset in the answer, bytes).
_Job: TypeAlias = tuple[int, str, str, int, int, list[tuple[HttpLanding, int, int, int]]]
#: Makes requests again, one by one, after what went wrong; None if nothing is known to be wrong with the store.
Again = Callable[[list[Request], TransientError | None], None]


@dataclass(frozen=True, slots=True)
class _Sent:
    """Requests that are under way as one: where it was sent, and after how many redirects."""

    requests: list[Request]
    url: str
    hops: int


class Lane:
    """A queue of requests and the native client that makes them.

    `elsewhere` says how many requests others have under way, for which room is left.
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
        """Requests that wait or are under way."""
        return len(self._queue) + len(self._under_way)

    def add(self, requests: list[Request]) -> None:
        """Has requests made in their turn."""
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
        """Drops what waits and breaks off what is under way."""
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
        except BaseException as error:  # none is known that comes here, but a hang would be worse
            with self._lock:
                self._is_served = False
                left = self._take_all()
            for one in [*left, *(one for sent in self._under_way.values() for one in sent.requests)]:
                one.call.fail(error)
            self._under_way.clear()

    def _serve_some(self, timeout_s: float) -> bool:
        """Hands over what may begin, and waits for what ends; False if there is nothing more to do."""
        self._hand_over()
        for done in self._native.wait(timeout_s):
            self._ended(*done)
        with self._lock:
            self._is_served = not self._closed and (len(self) > 0 or timeout_s > 0)
            return self._is_served

    def _hand_over(self) -> None:
        """Gives the native client as much as it may do at once, and a little more; those that follow on each other as one."""
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
            # What is not wanted any more would leave a gap.
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
        if url is None or requests[-1].end > size:  # obstore tells what is wrong with bytes behind the end
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
            # So many at once may be more than the line carries.
            self._again(requests, TransientError(found or how, slow_down=how == "slow" or status in _SLOW_DOWN))

    def _next_place(self, sent: _Sent, location: str) -> str | None:
        return None if sent.hops >= MOST_REDIRECTS else self._direct.follow(sent.url, location)
