"""What an actor keeps of the items that it made, for other loaders that want the same."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

MadeT = TypeVar("MadeT")
#: What is left where items need more than there is room for; and what an item takes besides its columns.
_SHRINKS_TO, _LEAST_BYTES = 15 / 16, 1 << 10


@dataclass(eq=False)
class _KeptItem(Generic[MadeT]):
    """An item that is made, or was. of: whose steps; at: its first step, counted over epochs. nbytes: None as long as it is being made."""

    of: Hashable
    at: int
    made: Future[MadeT]
    nbytes: int | None = None


class KeptItems(Generic[MadeT]):
    """Items by their keys, up to `most_bytes`: those stay that a loader asks for soonest, as far as all go on at one pace. Then those made last.

    A loader that has an item's position behind it does not ask for it again. One that begins later may find what is left, or has it made again.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.held_bytes = most_bytes, 0
        self._kept: dict[Hashable, _KeptItem[MadeT]] = {}
        self._places: dict[tuple[str, Hashable], int] = {}  # of each loader, by whose steps it asks for
        self._lock = threading.Lock()
        #: Items that were there when they were asked for.
        self.found = 0

    def get(
        self,
        user: str,
        of: Hashable,
        at: int,
        key: Hashable,
        make: Callable[[], Future[MadeT]],
        size: Callable[[MadeT], int],
    ) -> Future[MadeT]:
        """The item that was made, or is, for any loader; else one that is made now. user: the loader that asks; of, at: see above."""
        with self._lock:
            self._places[user, of] = at
            kept = self._kept.get(key)
            if kept is not None:
                self.found += 1
                return kept.made
            kept = self._kept[key] = _KeptItem(of, at, make())
        made = kept.made
        # A callback that held `kept`, and thus the item, would make a cycle: memory would be free at the next collection only.
        made.add_done_callback(lambda made: self._note(key, made, size))
        return made

    def _note(self, key: Hashable, made: Future[MadeT], size: Callable[[MadeT], int]) -> None:
        """An item was made: it counts from now on, and others may have to go. What failed is made again when it is asked for again."""
        with self._lock:
            if made.cancelled() or made.exception() is not None:
                self._kept.pop(key, None)
                return
            kept = self._kept.get(key)
            if kept is None:
                return
            kept.nbytes = _LEAST_BYTES + size(made.result())
            self.held_bytes += kept.nbytes
            if self.held_bytes > self._most_bytes:
                self._shrink()

    def _shrink(self) -> None:
        """A part goes at a time, since all are looked at."""
        done = [(key, kept) for key, kept in self._kept.items() if kept.nbytes is not None]
        done.sort(
            key=lambda one: -self._steps_until_asked(one[1])
        )  # stable: among equals the one made first goes first
        for key, kept in done:
            if self.held_bytes <= _SHRINKS_TO * self._most_bytes:
                return
            del self._kept[key]
            self.held_bytes -= kept.nbytes or 0

    def _steps_until_asked(self, kept: _KeptItem[MadeT]) -> float:
        ahead = (kept.at - at for (_, of), at in self._places.items() if of == kept.of and at < kept.at)
        return min(ahead, default=math.inf)

    def forget(self, user: str) -> None:
        """A loader asks for nothing any more."""
        with self._lock:
            for place in [place for place in self._places if place[0] == user]:
                del self._places[place]
