"""A cache that decides like the real one but stores no bytes: predicts what will be stored and evicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core.columns.spec import Bytes, Ids
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.index import FoundRanges
from penstock.storage.cache.packs import PAGE_BYTES, Packs
from penstock.storage.cache.pieces import CachedPieces


class SimulatedCache(RangeCache):
    """A simulated cache with its journal in `folder`; what it stored counts as read from the disk."""

    def __init__(self, folder: str, limit_bytes: int) -> None:
        super().__init__(folder, limit_bytes, SimulatedPacks(folder), SimulatedPieces)

    def _usable_bytes(self) -> int:
        return 1 << 62


class SimulatedPieces(CachedPieces):
    """Pieces without bytes."""

    def read(self, found: FoundRanges, out: Bytes) -> Ids:
        """The numbers of damaged pieces: none."""
        return np.empty(0, dtype=np.int64)

    def write(self, pack: int, first: int, out: Bytes, at: Ids, length: Ids) -> None:
        """Write nothing."""

    def sums(self, out: Bytes, at: Ids, length: Ids) -> Any:
        """Checksums of zero."""
        return np.zeros(len(at), dtype=np.uint32)


class SimulatedPacks(Packs):
    """Packs without files, with the bytes that each would take on the disk."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._held: dict[int, int] = {}

    def used_at(self) -> Ids:
        """When packs were last used: never, since forecasts cover all pieces."""
        return np.zeros(len(self._names), dtype=np.int64)

    def held_bytes(self) -> int:
        """The size on disk that all packs would have."""
        return sum(self._held.values())

    def lost(self, numbers: Ids) -> Ids:
        """The missing packs: none."""
        return np.empty(0, dtype=np.int64)

    def open(self, free: Sequence[tuple[int, int]]) -> None:
        """Continue a pack of which half is free, or start a new one."""
        half_empty = [one for one in free if one[1] < self._pack_bytes // 2]
        self._current, self._position = half_empty[0] if half_empty else (self._number_of(len(self._names)), 0)

    def reserve(self, sizes: Ids) -> tuple[int, Ids]:
        """Where pieces would be."""
        position = self._position + np.cumsum(sizes) - sizes
        self._position += int(sizes.sum())
        self._held[self._current] = self._held.get(self._current, 0) + int(sizes.sum())
        return self._current, position

    def cut(self, number: int, end: int) -> None:
        """Do nothing: no other process writes."""

    def punch(self, number: int, holes: Sequence[tuple[int, int]]) -> None:
        """Free whole pages."""
        pages = (last // PAGE_BYTES - -(-first // PAGE_BYTES) for first, last in holes)
        self._held[number] -= sum(count * PAGE_BYTES for count in pages if count > 0)

    def sweep(self, used: Ids) -> None:
        """Remove packs without pieces that no process writes."""
        for number in set(self._held) - {*used.tolist(), self._current}:
            del self._held[number]

    @property
    def is_current(self) -> bool:
        """Whether there is a current pack."""
        return self._current >= 0
