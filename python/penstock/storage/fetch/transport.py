"""What the scheduler and those that make its requests know of each other."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from penstock.storage.fetch.queue import Request

#: Adjacent requests of a file, made as one.
Job: TypeAlias = list[Request]


class Jobs(Protocol):
    """The scheduler, as transports know it. Thread-safe."""

    def take(self, transport: Transport) -> Job:
        """The next job; [] if none may start now."""

    def startable(self, transport: Transport) -> int:
        """How many requests may start now."""

    def limit(self, transport: Transport) -> int:
        """How many jobs may be in flight."""

    def answered(self, job: Job, seconds: float, *, busy: bool) -> None:
        """Count a good response. `busy`: the limit was reached when the job started."""

    def failed(self, transport: Transport, job: Job, error: BaseException | None, seconds: float) -> None:
        """Retry a job that failed after so many seconds, or fail its calls. error: None if it was not the store's fault."""

    def ended(self, transport: Transport, jobs: int = 1) -> None:
        """Count jobs that are not in flight any more."""


class Transport(Protocol):
    """Makes jobs: takes them when it is woken or has finished others, and reports how each ended."""

    #: Jobs that were taken and have not ended; counted by the scheduler.
    in_flight: int

    def most(self, limit: int) -> int:
        """How many jobs it takes, if `limit` of them may be in flight."""

    def wake(self) -> None:
        """Take jobs if some may start."""

    def close(self) -> None:
        """Abort what can be aborted, and end all threads."""
