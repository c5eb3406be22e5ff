"""A queue of requests. If more wait than may start, adjacent ones of a file are merged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.storage.fetch.transfer import Call


class Get(Protocol):
    """How a request is made. Equal ones read the same files."""

    def __call__(self, shard: int, start: int, length: int) -> Any:
        """The bytes of one request, without retries. Raises TransientError, or the final error."""

    def target(self, shard: int) -> tuple[str, str, int]:
        """A file's name in its store, its ETag and its size in bytes."""


@dataclass(eq=False, slots=True)
class Request:
    """Bytes [offset, offset + length) of a shard, the `number`th request of a call. `alone`: never merged with others.

    tried: whether it failed once already, in a way that is worth a retry.
    """

    call: Call
    number: int
    get: Get
    shard: int
    offset: int
    length: int
    alone: bool = False
    left: bool = False
    tried: bool = False

    @property
    def end(self) -> int:
        """The end of its bytes in the shard."""
        return self.offset + self.length


class Waiting:
    """Waiting requests, first in first out. Not thread-safe."""

    def __init__(self) -> None:
        self._turn: deque[Request] = deque()
        self._begins: dict[tuple[Get, int, int], Request] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, requests: list[Request], *, first: bool = False) -> None:
        """Add requests behind all others, or before them."""
        self._count += len(requests)
        (self._turn.extendleft if first else self._turn.extend)(requests)
        self._begins.update(((one.get, one.shard, one.offset), one) for one in requests if not one.alone)

    def take(self, most: int, longest_bytes: int) -> list[Request]:
        """Take the next request with adjacent ones, up to `most` requests of `longest_bytes` in all."""
        found = [self._turn.popleft()]
        self._leave(found[0])
        while len(found) < most and not found[0].alone:
            last = found[-1]
            follower = self._begins.get((last.get, last.shard, last.end))
            if follower is None or follower.end - found[0].offset > longest_bytes:
                break
            self._leave(follower)
            found.append(follower)
        while self._turn and self._turn[0].left:
            self._turn.popleft()
        return found

    def clear(self) -> None:
        """Drop all requests."""
        self._turn.clear()
        self._begins.clear()
        self._count = 0

    def _leave(self, request: Request) -> None:
        request.left = True
        self._count -= 1
        place = request.get, request.shard, request.offset
        if self._begins.get(place) is request:
            del self._begins[place]
