"""Remote files and their pieces as numbers, so that many ranges are looked up at once.

Every file of a process has its own stretch of one long line: its byte `offset` is position `base + offset`. A piece is then an
interval of that line, and a range is found by bisection.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.files.shards import Shards
from penstock.storage.fetch.plan import distinct

#: Instead of a base: not looked up yet; never cached, since versions of the file cannot be distinguished.
_UNKNOWN, NEVER = -1, -2


@dataclass(frozen=True, eq=False)
class Ranges:
    """Byte ranges of remote files and their destinations; all int64. begin: the position of the first byte; NEVER if it is not cached."""

    shard: Ids
    offset: Ids
    length: Ids
    at: Ids
    begin: Ids

    def __len__(self) -> int:
        return len(self.shard)

    def take(self, rows: Ids) -> Ranges:
        """The ranges of the given numbers."""
        return Ranges(self.shard[rows], self.offset[rows], self.length[rows], self.at[rows], self.begin[rows])

    def parts(self, which: Ids, first: Ids, last: Ids) -> Ranges:
        """Bytes [first[i], last[i]) of range which[i], counted from its begin."""
        whole = self.take(which)
        return Ranges(whole.shard, whole.offset + first, last - first, whole.at + first, whole.begin + first)

    def pieces(self, longest_bytes: int) -> Ranges:
        """What may be cached of them: each byte once, in pieces that are not too long."""
        ranges = self.take(np.flatnonzero((self.begin >= 0) & (self.length > 0)))
        ranges = ranges.take(np.argsort(ranges.begin, kind="stable"))
        reached = np.maximum.accumulate(np.append(-1, ranges.begin + ranges.length))[:-1]
        again = np.clip(reached - ranges.begin, 0, ranges.length)
        some = np.flatnonzero(again < ranges.length)
        ranges = ranges.parts(some, again[some], ranges.length[some])
        count = -(-ranges.length // longest_bytes)
        which = np.repeat(np.arange(len(ranges)), count)
        first = (np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)) * longest_bytes
        return ranges.parts(which, first, np.minimum(first + longest_bytes, ranges.length[which]))


def file_key(path: str, version: str, size: int) -> tuple[int, int]:
    """128 bits that identify this version of a remote file."""
    digest = hashlib.blake2b(f"{path}\0{version}\0{size}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


class KnownFiles:
    """All files known to this process, and where each one's stretch begins."""

    def __init__(self) -> None:
        self._number: dict[int, int] = {}
        #: high, low, size, base; appended to before the number is known, so that the child of a fork never finds half a file.
        self._files: list[tuple[int, int, int, int]] = []
        self._columns: tuple[Ids, Ids, Ids, Ids] | None = None
        self._lock = threading.Lock()

    def forked(self) -> None:
        """Renew the lock in the child of a fork, since another thread may have held it."""
        self._lock = threading.Lock()

    def base(self, high: int, low: int, size: int) -> int:
        """Where a file's stretch begins; NEVER for one of two files with the same half key."""
        with self._lock:
            number = self._number.get(high)
            if number is None:
                _, _, last_size, last_base = self._files[-1] if self._files else (0, 0, -1, 0)
                self._columns = None
                self._files.append((high, low, size, last_base + last_size + 1))
                number = self._number[high] = len(self._files) - 1
            _, known_low, known_size, base = self._files[number]
            return base if (known_low, known_size) == (low, size) else NEVER

    def bases(self, high: Ids, low: Ids, size: Ids) -> Ids:
        """The same for many files, which may repeat."""
        _, first, which = np.unique(high, return_index=True, return_inverse=True)
        one_each = zip(high[first].tolist(), low[first].tolist(), size[first].tolist(), strict=True)
        found = np.array([self.base(*one) for one in one_each], dtype=np.int64)[which]
        return np.where((low == low[first][which]) & (size == size[first][which]), found, NEVER)

    def owners(self, begin: Ids) -> tuple[Ids, Ids, Ids, Ids]:
        """The file of each position, all in known files: high, low (uint64), size, base (int64)."""
        with self._lock:
            if self._columns is None:
                high, low, size, base = zip(*self._files, strict=True) if self._files else ((),) * 4
                self._columns = (
                    np.array(high, dtype=np.uint64),
                    np.array(low, dtype=np.uint64),
                    np.array(size, dtype=np.int64),
                    np.array(base, dtype=np.int64),
                )
            columns = self._columns
        number = np.searchsorted(columns[3], begin, side="right") - 1
        highs, lows, sizes, bases = columns
        return highs[number], lows[number], sizes[number], bases[number]


class Bases:
    """Where the stretches of a listing's files begin, found on first use.

    known: one a file, negative for those that were not used yet, or are never cached.
    """

    def __init__(self, files: KnownFiles, shards: Shards, identity: str) -> None:
        self.files, self._shards, self._identity = files, shards, identity
        self.known = np.full(len(shards), _UNKNOWN, dtype=np.int64)

    def of(self, shard: Ids) -> Ids:
        """The bases of shards; NEVER for a file whose content has no version."""
        missing = distinct(shard[self.known[shard] == _UNKNOWN])
        if len(missing):
            self.known[missing] = self._look_up(self._shards.take(missing))
        return self.known[shard]

    def _look_up(self, shards: Shards) -> list[int]:
        etags = [""] * len(shards) if shards.etags is None else shards.etags.to_pylist()
        return [self._base_of(shards, shard, etag) for shard, etag in enumerate(etags)]

    def _base_of(self, shards: Shards, shard: int, etag: str) -> int:
        if not etag and (int(shards.versions[shard]) == 0 or not shards.has_version(shard)):
            return NEVER
        size = int(shards.sizes[shard])
        key = file_key(self._identity + shards.path(shard), etag or str(shards.versions[shard]), size)
        return self.files.base(*key, size)
