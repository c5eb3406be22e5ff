"""A queue of requests. If more wait than may start, adjacent ones of a file are merged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.storage.fetch.retry import Attempts
    from penstock.storage.fetch.transfer import FetchCall


class Get(Protocol):
    """How a request is made. Equal ones read the same files."""

    def __call__(self, shard: int, start: int, length: int) -> Any:
        """The bytes of one request, without retries. Raises TransientError, or the final error."""

    def target(self, shard: int) -> tuple[str, str, int]:
        """A file's name in its store, its ETag and its size in bytes."""


@dataclass(eq=False, slots=True)
class Request:
    """Bytes [offset, offset + length) of a shard, the `number`th request of a call.

    attempts: those that failed; None if none did. is_taken: whether it left its queue.
    """

    call: FetchCall
    number: int
    get: Get
    shard: int
    offset: int
    length: int
    attempts: Attempts | None = None
    is_taken: bool = False

    @property
    def end(self) -> int:
        """The end of its bytes in the shard."""
        return self.offset + self.length

    @property
    def is_wanted(self) -> bool:
        """Whether its response is still needed."""
        return self.call.wants(self.number)


@dataclass(frozen=True)
class UnansweredRequest:
    """A request that is not answered yet. since_s: seconds since it was first made, 0 if it waits for its turn."""

    file: str
    offset: int
    length: int
    since_s: float


class RequestQueue:
    """Waiting requests, first in first out. Not thread-safe."""

    def __init__(self) -> None:
        self._in_turn: deque[Request] = deque()
        self._begins: dict[tuple[Get, int, int], Request] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, requests: list[Request]) -> None:
        """Add requests behind all others."""
        self._count += len(requests)
        self._in_turn.extend(requests)
        self._begins.update(((one.get, one.shard, one.offset), one) for one in requests)

    def take(self, most: int, longest_bytes: int) -> list[Request]:
        """Take the next request with adjacent ones, up to `most` requests of `longest_bytes` in all.

        Drops those that are not needed any more; [] if no others are left.
        """
        found: list[Request] = []
        while self._in_turn and not found:
            first = self._in_turn.popleft()
            if not first.is_taken:
                self._remove(first)
                if first.is_wanted:
                    found.append(first)
        while found and len(found) < most:
            last = found[-1]
            follower = self._begins.get((last.get, last.shard, last.end))
            if follower is None or follower.end - found[0].offset > longest_bytes:
                break
            self._remove(follower)
            if not follower.is_wanted:
                break
            found.append(follower)
        while self._in_turn and self._in_turn[0].is_taken:
            self._in_turn.popleft()
        return found

    def clear(self) -> None:
        """Drop all requests."""
        self._in_turn.clear()
        self._begins.clear()
        self._count = 0

    def _remove(self, request: Request) -> None:
        request.is_taken = True
        self._count -= 1
        place = request.get, request.shard, request.offset
        if self._begins.get(place) is request:
            del self._begins[place]
