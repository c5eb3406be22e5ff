"""How many items may be on their way to a loader: so many bytes of Ray's object stores, and fewer once these were full."""

from __future__ import annotations

#: Which part of the stores' memory all loaders that share actors take together.
_SHARE = 0.3
#: Items after which one more is tried where a store was full.
_RECOVERS = 64


class LeaseWindow:
    """A number of items, from bytes: what an item takes is estimated by the plan, and then by those that came."""

    def __init__(self) -> None:
        self._item_bytes, self._room_bytes, self._local_bytes = 1, 1 << 30, 1 << 30
        self._most: int | None = None  # where a store was full
        self._now = self._since = 0

    def begin(self, item_bytes: int) -> None:
        """Items of about so many bytes come next."""
        self._item_bytes = max(1, item_bytes)

    def has_room(self, all_bytes: int, local_bytes: int, users: int) -> None:
        """What the stores of all nodes, and of this one, hold, and how many loaders share them."""
        self._room_bytes, self._local_bytes = (int(_SHARE * room / max(1, users)) for room in (all_bytes, local_bytes))

    def items(self, most: int) -> int:
        """Items that may be on their way, of `most` for which there are actors; one in any case."""
        by_bytes = self._room_bytes // self._item_bytes
        self._now = max(1, min(most, by_bytes, most if self._most is None else self._most))
        return self._now

    @property
    def here(self) -> int:
        """Of these, how many are brought to this node before they are due."""
        return max(1, self._local_bytes // self._item_bytes)

    def note(self, item_bytes: int) -> None:
        """An item came, and takes so many bytes."""
        self._item_bytes = max(1, item_bytes, int(0.9 * self._item_bytes))
        self._since += 1
        if self._most is not None and self._since >= _RECOVERS:
            self._most, self._since = self._most + 1, 0

    def shrink(self) -> bool:
        """A store was full: half as many from now on. False where it was one item already."""
        if self._now <= 1:
            return False
        self._most, self._since = max(1, self._now // 2), 0
        self._now = self._most
        return True
