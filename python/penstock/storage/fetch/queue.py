"""Requests that wait to be made. Where more wait than may begin, those that follow on each other in a file leave as one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.storage.fetch.transfer import Call


class Get(Protocol):
    """How a request is made. Equal ones ask for the same files."""

    def __call__(self, shard: int, start: int, length: int) -> Any:
        """One request, without retries: its bytes. Raises TransientError, or the final error."""

    def target(self, shard: int) -> tuple[str, str, int]:
        """A file's name in its store, its ETag and its size in bytes."""


@dataclass(eq=False, slots=True)
class Request:
    """Bytes [offset, offset + length) of a shard, the `number`th request of a call. `alone`: not to be made together with others.

    tried: whether it was tried once already, and failed in a way that may pass.
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
        """Where its bytes end."""
        return self.offset + self.length


class Waiting:
    """A queue of requests. Not for several threads at once."""

    def __init__(self) -> None:
        self._turn: deque[Request] = deque()
        self._begins: dict[tuple[Get, int, int], Request] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, requests: list[Request], *, first: bool = False) -> None:
        """They leave after all others, or before them."""
        self._count += len(requests)
        (self._turn.extendleft if first else self._turn.extend)(requests)
        self._begins.update(((one.get, one.shard, one.offset), one) for one in requests if not one.alone)

    def take(self, most: int, longest_bytes: int) -> list[Request]:
        """The next request, and up to `most` in all that follow on each other, if they are no longer than `longest_bytes` together."""
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
        """Drops all."""
        self._turn.clear()
        self._begins.clear()
        self._count = 0

    def _leave(self, request: Request) -> None:
        request.left = True
        self._count -= 1
        place = request.get, request.shard, request.offset
        if self._begins.get(place) is request:
            del self._begins[place]
