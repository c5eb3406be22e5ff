"""A transport that makes requests over HTTP by a native client, without the interpreter.

One Python thread submits jobs and receives results, many at once. What fails, threads retry.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.kernels import HttpLanding, HttpRunner
from penstock.storage.fetch.retry import ATTEMPT_TIMEOUT_S, PASSING, SLOW_DOWN, TransientError
from penstock.storage.fetch.transfer import FetchCall
from penstock.storage.fetch.transport import Job
from penstock.storage.stores.auth.signed_urls import SignedUrls
from penstock.storage.stores.http import MOST_REDIRECTS

if TYPE_CHECKING:
    from penstock.storage.fetch.scheduler import Scheduler

#: The thread ends after being idle for so long.
_IDLE_S = 5.0

#: (ticket, url, etag, bytes of the object, start, parts); a part is (landing, request, offset in the response, bytes).
_HttpJob: TypeAlias = tuple[int, str, str, int, int, list[tuple[HttpLanding, int, int, int]]]


@dataclass(slots=True)
class _Submitted:
    """A job in flight: its URL, and the redirects so far."""

    job: Job
    url: str = ""
    hops: int = 0


class NativeClient:
    """A transport that makes jobs by the native client. See `transport.Transport`."""

    spare_share = 1 / 8  # so that the client never waits for one

    def __init__(self, urls: SignedUrls, scheduler: Scheduler) -> None:
        self.in_flight = 0
        self._urls, self._scheduler = urls, scheduler
        self._native = HttpRunner(ATTEMPT_TIMEOUT_S, is_plain=urls.is_plain)
        self._submitted: dict[int, _Submitted] = {}
        self._redirected: list[_HttpJob] = []
        self._tickets = 0
        self._lock = threading.Lock()
        self._is_served = self._closed = False

    def wake(self) -> None:
        """Wake the thread, or start it; if the system has none to give, the store's own client makes the requests."""
        with self._lock:
            is_served, self._is_served = self._is_served, True
        if is_served:
            self._native.wake()
            return
        try:
            threading.Thread(target=self._serve, name="penstock-native", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._is_served = False
            while job := self._scheduler.take(self):
                self._decline(job)

    def close(self) -> None:
        """Abort jobs in flight."""
        with self._lock:
            self._closed = True
        self._native.close()
        self._native.wake()

    def _serve(self) -> None:
        try:
            until = time.monotonic() + _IDLE_S
            while self._serve_some(max(0.0, until - time.monotonic())):
                if self._submitted:
                    until = time.monotonic() + _IDLE_S
        except BaseException as error:  # none is known, but a hang would be worse
            self._fail_all(error)

    def _fail_all(self, error: BaseException) -> None:
        with self._lock:
            self._is_served = False
        jobs = [submitted.job for submitted in self._submitted.values()]
        self._submitted.clear()
        self._scheduler.ended(self, self.in_flight)
        while job := self._scheduler.take(self):
            jobs.append(job)
            self._scheduler.ended(self)
        for one in (one for job in jobs for one in job):
            one.call.fail(error)

    def _serve_some(self, timeout_s: float) -> bool:
        """Submit what may start, and wait for results; False if there is nothing more to do."""
        self._submit()
        for result in self._native.wait(timeout_s):
            self._receive(*result)
        self._scheduler.ended(self, self.in_flight - len(self._submitted))
        with self._lock:
            has_work = timeout_s > 0 or bool(self._submitted) or self._scheduler.startable(self) > 0
            self._is_served = has_work and not self._closed
            return self._is_served

    def _submit(self) -> None:
        """Submit as many jobs as may be in flight, and a few more."""
        jobs, self._redirected = self._redirected, []
        while taken := self._scheduler.take(self):
            job = self._first_hop(taken)
            if job is None:
                self._decline(taken)
            else:
                jobs.append(job)
        if jobs:
            try:
                self._native.submit(jobs, self._scheduler.limit(self))
            except OSError:  # the system has no more threads to give
                for ticket, *_ in jobs:
                    self._decline(self._submitted.pop(ticket).job)

    def _decline(self, job: Job) -> None:
        self._scheduler.failed(self, job, None, 0.0)
        self._scheduler.ended(self)

    def _first_hop(self, job: Job) -> _HttpJob | None:
        first, end = job[0], job[-1].end
        self._tickets += 1
        submitted = self._submitted[self._tickets] = _Submitted(job)
        name, _, size = first.get.target(first.shard)
        url = self._urls.url(name)
        if url is None or end > size:  # obstore has the error for bytes after the end
            del self._submitted[self._tickets]
            return None
        for one in job:
            one.call.submit(one.number, end - first.offset)
        submitted.url = url
        return self._http_job(self._tickets, submitted)

    def _http_job(self, ticket: int, submitted: _Submitted) -> _HttpJob:
        first = submitted.job[0]
        _, etag, size = first.get.target(first.shard)
        parts = [(_landing(one.call), one.number, one.offset - first.offset, one.length) for one in submitted.job]
        return ticket, submitted.url, etag, size, first.offset, parts

    def _receive(self, ticket: int, how: str, status: int, found: str, seconds: float, busy: bool) -> None:
        submitted = self._submitted.pop(ticket, None)
        if submitted is None or how == "dropped":
            return
        job = submitted.job
        if how == "landed":
            self._urls.worked()
            self._scheduler.answered(job, seconds, busy=busy)
            self._scheduler.ended(self)  # first, so that the caller's next call finds the connections free
            for one in job:
                one.call.landed(one.number)
        elif how == "moved" and self._follow(ticket, submitted, found):
            pass
        elif how in ("unreachable", "moved") or (how == "other" and status not in PASSING):
            self._urls.declined()
            self._scheduler.failed(self, job, None, seconds)
        else:
            # So many at once may be too many for the line.
            slow_down = how == "slow" or status in SLOW_DOWN
            self._scheduler.failed(self, job, TransientError(found or how, slow_down=slow_down), seconds)

    def _follow(self, ticket: int, submitted: _Submitted, location: str) -> bool:
        """Follow a redirect; False if that is not allowed."""
        url = None if submitted.hops >= MOST_REDIRECTS else self._urls.follow(submitted.url, location)
        if url is None:
            return False
        submitted.url, submitted.hops = url, submitted.hops + 1
        self._submitted[ticket] = submitted
        self._redirected.append(self._http_job(ticket, submitted))
        return True


def _landing(call: FetchCall) -> HttpLanding:
    """Where the client puts a call's responses."""
    if call.landing is None:
        out, planned = call.planned
        call.land_on(HttpLanding(out, planned.first_copy, planned.source, planned.at, planned.size))
    assert isinstance(call.landing, HttpLanding)
    return call.landing
