"""A remote storage with a cache on the local disk before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.shards import Shards
from penstock.spec import Bytes, Ids
from penstock.storage.cache import Claim, RangeCache, entry_name
from penstock.storage.remote import RemoteStorage
from penstock.traffic import Traffic

#: Ranges that are claimed at once; each claim is an open file.
_CLAIMED = 256

#: Says when sample ranges are needed next: (shard, offset) of each range -> int64, smaller is sooner.
NextUse = Callable[[Ids, Ids], Ids]


class CachedStorage:
    """Ranges come from the cache; what it lacks is fetched once for all processes that share it, and kept."""

    def __init__(self, remote: RemoteStorage, cache: RangeCache, next_use: NextUse | None = None) -> None:
        self.remote, self.cache, self._next_use = remote, cache, next_use
        self.hits = self.misses = 0

    @property
    def root(self) -> str:
        """What the name of every file begins with."""
        return self.remote.root

    @property
    def traffic(self) -> Traffic:
        """Requests and bytes so far, and what the cache spared."""
        return replace(self.remote.traffic, cache_hits=self.hits, cache_misses=self.misses)

    def list(self, where: str) -> Shards:
        """See `RemoteStorage.list`; listings are never cached."""
        return self.remote.list(where)

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """See `format.protocol.ReadRanges`."""
        for first in range(0, len(shard), _CLAIMED):
            part = slice(first, first + _CLAIMED)
            self._read_part(_Call(self, shards, (shard[part], offset[part], length[part], at[part]), out))

    def _read_part(self, call: _Call) -> None:
        missing = [number for number in range(len(call)) if not call.from_cache(number)]
        self.hits += len(call) - len(missing)
        self.misses += len(missing)
        claims = {number: self.cache.claim(call.name(number), wait=False) for number in missing}
        try:
            call.fetch([number for number, claim in claims.items() if claim is not None])
        finally:
            _release(claims)
        for number in [number for number, claim in claims.items() if claim is None]:
            claim = self.cache.claim(call.name(number), wait=True)
            try:
                if not call.from_cache(number):  # the other failed, or could not keep it
                    call.fetch([number])
            finally:
                _release({number: claim})

    def when(self, shard: Ids, offset: Ids) -> Ids | None:
        """When ranges are needed next, if anybody knows."""
        return None if self._next_use is None else self._next_use(shard, offset)


class _Call:
    """One call of `read`: its ranges and where they go."""

    def __init__(self, storage: CachedStorage, shards: Shards, ranges: tuple[Ids, Ids, Ids, Ids], out: Bytes) -> None:
        self._storage, self._shards, self._ranges, self._out = storage, shards, ranges, out

    def __len__(self) -> int:
        return len(self._ranges[0])

    def name(self, number: int) -> str:
        shard, offset, length, _ = self._ranges
        which, shards = int(shard[number]), self._shards
        etag = str(shards.versions[which]) if shards.etags is None else str(shards.etags[which])
        return entry_name(shards.path(which), etag, int(shards.sizes[which]), int(offset[number]), int(length[number]))

    def place(self, number: int) -> Bytes:
        at, length = int(self._ranges[3][number]), int(self._ranges[2][number])
        return self._out[at : at + length]

    def from_cache(self, number: int) -> bool:
        found = self._storage.cache.get(self.name(number), int(self._ranges[2][number]))
        if found is None:
            return False
        self.place(number)[:] = found
        return True

    def fetch(self, numbers: list[int]) -> None:
        """Fetches ranges and keeps them; another process may have stored some since they were looked for."""
        numbers = [number for number in numbers if not self.from_cache(number)]
        if not numbers:
            return
        rows = np.array(numbers, dtype=np.int64)
        shard, offset, length, at = (column[rows] for column in self._ranges)
        self._storage.remote.read(self._shards, shard, offset, length, self._out, at)
        when = self._storage.when(shard, offset)
        for place, number in enumerate(numbers):
            self._storage.cache.put(self.name(number), self.place(number), None if when is None else int(when[place]))


def _release(claims: dict[int, Claim | None]) -> None:
    for claim in claims.values():
        if claim is not None:
            claim.release()
