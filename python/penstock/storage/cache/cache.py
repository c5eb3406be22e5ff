"""A cache of remote ranges on the local disk, shared by all processes of a user.

It holds exactly what was read: pieces, cut so that they never overlap, many of them in one pack (`packs`). A journal
(`journal`) says where each is. A range is put together from the pieces that overlap it, so that another order, another
batch size or another loader finds the same pieces.

A killed process, a full disk or a flipped bit costs a request, never a wrong byte. Bytes are written before the journal names
them, an eviction is recorded before bytes are removed (`index`), and checksums are compared at every read (`pieces`).
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Bytes, Ids
from penstock.core.warnings import warn
from penstock.storage.cache.extents import stored_bytes
from penstock.storage.cache.files import Bases, KnownFiles, Ranges
from penstock.storage.cache.index import FoundRanges, Index
from penstock.storage.cache.locks import Claims
from penstock.storage.cache.packs import PAGE_BYTES, LostPackError, Packs
from penstock.storage.cache.pieces import CachedPieces
from penstock.storage.cache.policy import FREED_SHARE, Choice, Expected, Forecast, choose
from penstock.storage.fetch.plan import distinct
from penstock.storage.forked import renew_in_children

#: Bytes left free on the disk, but at most this share of it.
RESERVE_BYTES, _RESERVE_SHARE = 1 << 30, 0.1
#: A pack's share of the limit (1 / 16), and its largest and smallest size.
_PACK_SHARE, _MOST_PACK_BYTES, _LEAST_PACK_BYTES = 16, 256 << 20, 1 << 16
#: The longest piece: what must be read to check a part of it.
_PIECE_BYTES = 8 << 20
#: A range in no forecast counts as one that is needed after so long.
_UNEXPECTED_S = 3600.0
#: After a failed attempt to store something, none is made for so long.
_PAUSE_S = 5.0
#: How often the folders that share the limit are measured.
_ROOM_S = 1.0
_ATTEMPTS = 8


@dataclass(frozen=True)
class CacheContents:
    """What a cache holds.

    pieces, files: the number of pieces, and of remote files. bytes: of all pieces; disk_bytes: their size on disk. used_at: when
    something was last read or stored, in seconds since 1970 to about a minute; 0 if the cache is empty.
    """

    pieces: int
    files: int
    bytes: int
    disk_bytes: int
    used_at: int


class RangeCache:
    """Pieces of remote files below `folder`, which must belong to this user alone; at most `limit_bytes`.

    evicted, stored_bytes, damaged: pieces evicted, bytes stored, and pieces whose bytes had changed on the disk.
    """

    def __init__(
        self,
        folder: str,
        limit_bytes: int,
        packs: Packs | None = None,
        pieces: Callable[[Index], CachedPieces] = CachedPieces,
    ) -> None:
        self.folder, self._limit_bytes = folder, limit_bytes
        self._room: Callable[[], int] | None = None
        self._left = (-_ROOM_S, 0)  # when the room was measured, and the result
        self.files = KnownFiles()
        self.evicted = self.stored_bytes = self.damaged = 0
        self._index = Index(folder, self.files, packs or Packs(folder))
        self._pieces = pieces(self._index)
        self._forecasts: list[Forecast] = []
        self._read_bytes = 0
        self._until: float | None = None
        self._paused_until = 0.0
        self._is_tidy = self._has_warned = False
        self._writing, self._counting = threading.RLock(), threading.Lock()
        renew_in_children(self)

    def forked(self) -> None:
        """Give the child of a fork its own locks and its own pack."""
        self._writing, self._counting = threading.RLock(), threading.Lock()
        self.files.forked()
        self._index.packs.forked()
        self._index.begin_anew()

    @property
    def limit_bytes(self) -> int:
        """The current limit in bytes: less if the folders that share it leave less."""
        limit_bytes, room = self._limit_bytes, self._room
        if room is None:
            return limit_bytes
        asked_at, left_bytes = self._left
        if time.monotonic() - asked_at > _ROOM_S:
            left_bytes = room()
            self._left = time.monotonic(), left_bytes
        return min(limit_bytes, left_bytes)

    def set_limit(self, limit_bytes: int, room: Callable[[], int] | None = None) -> None:
        """Set another limit. room: returns how many bytes the folders that share it leave; called now and then."""
        self._limit_bytes, self._room, self._left = limit_bytes, room, (-_ROOM_S, 0)
        self.trim()

    def forget(self, files: Ranges) -> None:
        """Evict the pieces that lie in ranges."""
        found = self._index.look_up(files.take(np.flatnonzero(files.length)))
        self._index.drop(distinct(found.number), found.generation)

    def read(self, wanted: Ranges, out: Bytes) -> Ranges:
        """Fill the places of cached ranges; returns the missing ones, to be downloaded."""
        wanted = wanted.take(np.flatnonzero(wanted.length))
        self._count(read=int(wanted.length.sum()))
        for _ in range(_ATTEMPTS):
            found = self._index.look_up(wanted)
            if not len(found.number):
                return found.missing
            try:
                damaged = self._pieces.read(found, out)
            except OSError:  # another process removed a pack
                self._forget_lost(found)
                continue
            if len(damaged):
                self._drop_damaged(damaged, found.generation)
            elif self._index.still(found.number, found.generation):
                return found.missing
        return wanted

    def read_whole(self, bases: Bases, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> bool:
        """Fill the places of ranges if each is cached in one piece, as in every epoch but the first.

        If not, returns False; use `read`.
        """
        whole = self._index.find_whole(bases.known, shard, offset, length)
        if whole is None:
            return False
        try:
            damaged = self._index.packs.read(whole.rows, whole.begin, length, out, at)
        except OSError:  # another process removed a pack
            return False
        if len(damaged):
            self._drop_damaged(whole.number[damaged], whole.generation)
            return False
        if not self._index.still(whole.number, whole.generation):
            return False
        self._count(read=int(length.sum()))
        return True

    def _drop_damaged(self, number: Ids, generation: int) -> None:
        """Evict damaged pieces, unless they were evicted meanwhile and their bytes reused."""
        number = distinct(number)
        if self._index.still(number, generation):
            self._count(damaged=self._index.drop(number, generation))

    def _count(self, *, read: int = 0, stored: int = 0, evicted: int = 0, damaged: int = 0) -> None:
        with self._counting:
            self._read_bytes += read
            self.stored_bytes += stored
            self.evicted += evicted
            self.damaged += damaged

    def lacks(self, wanted: Ranges) -> Ranges:
        """The missing parts of the ranges."""
        return self._index.look_up(wanted.take(np.flatnonzero(wanted.length))).missing

    def claims(self) -> Claims:
        """Claims on ranges to download."""
        return Claims(os.path.join(self.folder, "claims"))

    def _forget_lost(self, found: FoundRanges) -> None:
        """Forget pieces in packs that another process removed."""
        lost = self._index.packs.lost(found.rows["pack"])
        number, generation, rows = self._index.live()
        self._index.drop(number[np.isin(rows["pack"], lost)], generation)

    # The whole

    @property
    def contents(self) -> CacheContents:
        """What the cache holds."""
        _, _, rows = self._index.live()
        high, _, _, _ = self.files.owners(rows["begin"])
        packs = self._index.packs
        used_at = int(packs.used_at().max(initial=0))
        return CacheContents(
            pieces=len(rows),
            files=len(distinct(high)),
            bytes=int((rows["end"] - rows["begin"]).sum()),
            disk_bytes=packs.held_bytes(),
            used_at=used_at,
        )

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[int, int]:
        """Read everything and evict what is damaged; returns the pieces read and the pieces evicted."""
        return self._pieces.verify(progress)

    def clear(self) -> int:
        """Remove everything that the cache made, and nothing else; returns the bytes freed on the disk."""
        before = self._index.packs.held_bytes()
        self._index.clear()
        return before - self._index.packs.held_bytes()

    def trim(self) -> None:
        """Enforce the limit, which may be lower now, and remove leftovers of killed processes."""
        with self._writing:
            if not self._is_tidy:
                self._is_tidy = True
                self._index.tidy()
            excess = self._held(0) - self.limit_bytes
            if excess > 0:
                none = np.empty(0, dtype=np.int64)
                self._evict(Ranges(none, none, none, none, none), np.empty(0), excess)

    # Storing

    def expect(self, forecast: Forecast) -> Callable[[], None]:
        """Use a forecast until the returned function is called."""
        with self._counting:
            self._forecasts = [*self._forecasts, forecast]
            self._until = None

        def forget() -> None:
            with self._counting:
                self._forecasts = [one for one in self._forecasts if one is not forecast]

        return forget

    def worth_fetching(self, ranges: Ranges) -> Ranges:
        """The ranges that would be stored now without an eviction."""
        if int(ranges.length.sum()) > self.limit_bytes - self._held(0) or time.monotonic() < self._paused_until:
            return ranges.take(np.empty(0, dtype=np.int64))
        until = self._until
        if until is None:
            return ranges
        return ranges.take(np.flatnonzero(self._expected(ranges.begin) < until - time.monotonic()))

    def keep(self, ranges: Ranges, out: Bytes) -> int:
        """Store what lies at the ranges' places in `out`, as far as it is worth it; returns the bytes stored."""
        if time.monotonic() < self._paused_until:
            return 0
        with self._writing:
            try:
                self.trim()
                return self._store(self._worthy(ranges.pieces(_PIECE_BYTES)), out)
            except LostPackError:
                return 0
            except OSError as error:  # the disk is full, or the folder was removed; the caller has the data
                self._index.packs.close()
                self._pause(error)
                return 0

    def _pause(self, error: OSError) -> None:
        """Store nothing for a while, and warn once."""
        self._paused_until = time.monotonic() + _PAUSE_S
        if not self._has_warned and error.errno != errno.EAGAIN:
            self._has_warned = True
            warn(
                f"{self.folder}: the cache of remote data stores nothing more for now: {error.strerror or error}. Missing data is "
                f"downloaded each time; make room on that disk, or name another: XDG_CACHE_HOME, or cache_local(…, path)"
            )

    def _store(self, ranges: Ranges, out: Bytes) -> int:
        done = stored = 0
        limit = self.limit_bytes
        pack_bytes = min(_MOST_PACK_BYTES, max(_LEAST_PACK_BYTES, limit // _PACK_SHARE // PAGE_BYTES * PAGE_BYTES))
        sizes = stored_bytes(ranges.length)
        while done < len(ranges):
            pack, position = self._index.reserve(sizes[done:], pack_bytes, limit)
            if not len(position):
                break  # packs are smaller than this piece, or other processes took the room
            some = ranges.take(np.arange(done, done + len(position)))
            self._pieces.write(pack, int(position[0]), out, some.at, some.length)
            if self._index.add(some, pack, position, self._pieces.sums(out, some.at, some.length)):
                stored += int(some.length.sum())
            done += len(position)
        self._count(stored=stored)
        return stored

    def _usable_bytes(self) -> int:
        """How many bytes may be written to the disk."""
        found = shutil.disk_usage(self.folder)
        return found.free - min(RESERVE_BYTES, int(_RESERVE_SHARE * found.total))

    def _worthy(self, ranges: Ranges) -> Ranges:
        """The ranges to store, once room for them is made."""
        usable = self._usable_bytes()
        if usable < int(ranges.length.sum()):
            raise OSError(
                errno.ENOSPC, f"the disk is full, apart from the reserve ({max(0, usable):,} bytes are usable)"
            )
        is_settled = self._read_bytes <= FREED_SHARE * self.limit_bytes  # else the threshold has changed
        until = self._until
        if until is not None and is_settled:
            ranges = ranges.take(np.flatnonzero(self._expected(ranges.begin) < until - time.monotonic()))
        size = int(stored_bytes(ranges.length).sum())
        room = self.limit_bytes - self._held(size) - 4 * PAGE_BYTES  # the journal, and pages at both ends
        if not size or (size <= room and (until is None or is_settled)):
            return ranges
        self._count(read=-self._read_bytes)
        return ranges.take(self._evict(ranges, self._expected(ranges.begin), size - room).kept)

    def _held(self, coming: int) -> int:
        """The folder's size on disk."""
        return self._index.held_bytes(self.limit_bytes, coming)

    def _evict(self, ranges: Ranges, expected: Expected, excess: int) -> Choice:
        number, generation, rows = self._index.live()
        margin_s = max((forecast.margin_s for forecast in self._forecasts), default=0.0)
        held = self._expected(rows["begin"].copy(), rows["pack"]) - margin_s
        spare = int(FREED_SHARE * self.limit_bytes)
        choice = choose(held, rows["end"] - rows["begin"], expected, ranges.length, excess=excess, spare=spare)
        self._until = time.monotonic() + choice.until_s
        if len(choice.dropped):
            self._count(evicted=self._index.drop(number[choice.dropped], generation))
            if self._held(0) > self.limit_bytes:  # holes freed too little
                self._drop_packs(held, rows["pack"])
        return choice

    def _drop_packs(self, held: Expected, pack: Ids) -> None:
        """Evict whole packs until the limit holds, first the one whose next use is latest."""
        turn = pack[np.argsort(-held, kind="stable")]
        _, first = np.unique(turn, return_index=True)
        self._index.packs.close()
        for one in turn[np.sort(first)].tolist():
            number, generation, rows = self._index.live()
            self._count(evicted=self._index.drop(number[rows["pack"] == one], generation))
            if self._held(0) <= self.limit_bytes:
                return

    def _expected(self, begin: Ids, pack: Ids | None = None) -> Expected:
        """Seconds until each is needed next. A piece in no forecast is expected again after as long as it was not used."""
        found = np.full(len(begin), np.nan)
        for forecast in self._forecasts:
            found = np.fmin(found, forecast(begin))
        unused = _UNEXPECTED_S if pack is None else (time.time() - self._index.packs.used_at())[pack]
        return np.where(np.isnan(found), unused, found)
