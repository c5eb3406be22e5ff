"""Makes jobs by the stores' own clients, each in a thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from penstock.core.cancel import StoppedError
from penstock.storage.fetch.retry import WrongAnswerError
from penstock.storage.fetch.transport import Job

if TYPE_CHECKING:
    from penstock.storage.fetch.scheduler import Scheduler

#: A thread without work ends after this.
_IDLE_S = 5.0


class Threads:
    """A transport of threads, as many as there are jobs in flight."""

    spare_share = 0.0

    def __init__(self, scheduler: Scheduler) -> None:
        self.in_flight = 0
        self._scheduler, self._started, self._closed = scheduler, 0, False
        self._changed = threading.Condition()

    def wake(self) -> None:
        """Wake threads, and start some if there are too few."""
        with self._changed:
            self._changed.notify(self._scheduler.startable(self))
        while self._may_start_thread():
            try:
                threading.Thread(target=self._serve, name="penstock-fetch", daemon=True).start()
            except RuntimeError:  # the system has no more threads to give
                with self._changed:
                    self._started -= 1
                    if not self._started:
                        raise
                    return

    def _may_start_thread(self) -> bool:
        with self._changed:
            is_needed = self._started < self.in_flight + self._scheduler.startable(self)
            self._started += is_needed
            return is_needed

    def close(self) -> None:
        """End the threads that wait; the others end with their requests."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _serve(self) -> None:
        while self._wait():
            while job := self._scheduler.take(self):
                try:
                    self._make(job)
                finally:
                    self._scheduler.ended(self)
                if self._scheduler.startable(self) > 1:  # this thread takes the next itself
                    self.wake()

    def _wait(self) -> bool:
        """Wait for a job; False after a long time without one."""
        end = time.monotonic() + _IDLE_S
        with self._changed:
            while not self._scheduler.startable(self):
                left = end - time.monotonic()
                if left <= 0 or self._closed:
                    self._started -= 1
                    return False
                self._changed.wait(left)
            return True

    def _make(self, job: Job) -> None:
        first, length = job[0], job[-1].end - job[0].offset
        began_at = time.monotonic()
        try:
            if first.attempts is not None and first.attempts.wait_s:
                first.call.stop.wait(first.attempts.wait_s)
                if not first.is_wanted:
                    return
                began_at = time.monotonic()
            for one in job:
                one.call.begin(one.number, length)
            busy = self.in_flight >= self._scheduler.limit(self)
            answer = first.get(first.shard, first.offset, length)
            if len(answer) != length:
                raise WrongAnswerError(f"{len(answer):,} bytes received instead of {length:,}; check the server")
            self._scheduler.answered(job, time.monotonic() - began_at, busy=busy)
            data = memoryview(answer)
        except StoppedError:
            return
        except BaseException as error:
            self._scheduler.failed(self, job, error, time.monotonic() - began_at)
            return
        for one in job:
            one.call.put(one.number, data[one.offset - first.offset : one.end - first.offset])
