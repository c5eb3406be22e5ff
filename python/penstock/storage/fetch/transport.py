"""What makes the scheduler's requests: a client that takes them from it, and reports how each ended."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from penstock.storage.fetch.queue import Request

#: Adjacent requests of a file, made as one.
Job: TypeAlias = list[Request]


class Transport(Protocol):
    """Makes jobs. It calls the scheduler's `take`, then `answered` or `failed`, and `ended`."""

    #: Jobs that were taken and have not ended; counted by the scheduler.
    in_flight: int
    #: It takes more jobs than may be in flight, by this share of the limit.
    spare_share: float

    def wake(self) -> None:
        """Take jobs if some may start."""

    def close(self) -> None:
        """Abort what can be aborted, and end all threads."""
