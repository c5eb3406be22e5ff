"""A cache of remote ranges on the local disk, shared by all processes of a user.

What is kept is exactly what was read: pieces, cut so that they never overlap, many of them in one pack (`cache_packs`). A journal
(`cache_journal`) says where each lies. A range is put together from the pieces that overlap it, so that another order, another
batch size or another loader finds what is there.

A killed process, a full disk or a flipped bit costs a request, never a wrong byte: bytes are written before the journal names
them, named as dropped before they go (`cache_index`), and a piece's checksum is compared when a process first uses it (`cache_pieces`).
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.spec import Bytes, Ids
from penstock.storage.cache_choice import FREED_SHARE, Choice, Expected, Forecast, choose
from penstock.storage.cache_files import Bases, Files, Ranges
from penstock.storage.cache_index import Found, Index
from penstock.storage.cache_locks import Claims
from penstock.storage.cache_packs import Packs
from penstock.storage.cache_pieces import Pieces
from penstock.storage.ranges import distinct

#: Left free on the disk.
RESERVE_BYTES = 1 << 30
#: Of the limit, what a pack takes; at most and at least so much.
_PACK_SHARE, _MOST_PACK_BYTES, _LEAST_PACK_BYTES = 16, 256 << 20, 1 << 16
#: The longest piece: what has to be read to check a part of it.
_PIECE_BYTES = 8 << 20
#: A range that nobody expects is worth as much as one that is needed after so long.
_UNEXPECTED_S = 3600.0
#: After a failed attempt to keep something, none is made for so long.
_PAUSE_S = 5.0
#: What shares the limit is looked at again after so long.
_ROOM_S = 1.0
_ATTEMPTS = 8


@dataclass(frozen=True)
class Contents:
    """What a cache holds.

    pieces, files: how many, of how many remote files. bytes: of all pieces; disk_bytes: what they take of the disk. used_at: when something was
    last read or kept, in seconds since 1970 to about a minute; 0 if there is nothing.
    """

    pieces: int
    files: int
    bytes: int
    disk_bytes: int
    used_at: int


class RangeCache:
    """Pieces of remote files below `folder`, which must belong to this user alone; `limit_bytes` of them at most."""

    def __init__(
        self, folder: str, limit_bytes: int, packs: Packs | None = None, pieces: Callable[[Index], Pieces] = Pieces
    ) -> None:
        self.folder, self._limit_bytes = folder, limit_bytes
        self._room: Callable[[], int] | None = None
        self._asked_at, self._left_bytes = -_ROOM_S, 0
        self.files = Files()
        self.evicted = self.stored_bytes = 0
        self._index = Index(folder, self.files, packs or Packs(folder))
        self._pieces = pieces(self._index)
        self._forecasts: list[Forecast] = []
        self._uncounted = self._read_bytes = 0
        self._until: float | None = None
        self._paused_until = 0.0
        self._process, self._writing = os.getpid(), threading.Lock()

    @property
    def limit_bytes(self) -> int:
        """The most that it holds, in bytes, as things are."""
        if self._room is None:
            return self._limit_bytes
        if time.monotonic() - self._asked_at > _ROOM_S:
            self._asked_at, self._left_bytes = time.monotonic(), self._room()
        return min(self._limit_bytes, self._left_bytes)

    def set_limit(self, limit_bytes: int, room: Callable[[], int] | None = None) -> None:
        """Another limit from now on. room: how many bytes others leave that share it; asked now and then."""
        self._limit_bytes, self._room, self._asked_at = limit_bytes, room, -_ROOM_S
        self.trim()

    def forget(self, files: Ranges) -> None:
        """Drops the pieces that lie in ranges."""
        self._after_fork()
        found = self._index.look_up(files.take(np.flatnonzero(files.length)))
        self._index.drop(distinct(found.number), found.generation)

    def read(self, wanted: Ranges, out: Bytes) -> Ranges:
        """Fills the places of what is there; gives the rest, as ranges that are to be fetched."""
        self._after_fork()
        wanted = wanted.take(np.flatnonzero(wanted.length))
        self._read_bytes += int(wanted.length.sum())
        for _ in range(_ATTEMPTS):
            found = self._index.look_up(wanted)
            if not len(found.number):
                return found.missing
            try:
                is_whole = self._pieces.read(found, out)
            except OSError:  # somebody removed a pack
                self._forget_lost(found)
                continue
            if is_whole and self._index.still(found.number, found.generation):
                return found.missing
        return wanted

    def read_whole(self, bases: Bases, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> bool:
        """Fills the places of ranges if all are there, each in one piece that was checked: as in every epoch but the first.

        If not, whatever is there is read by `read`.
        """
        self._after_fork()
        whole = self._index.find_whole(bases.known, shard, offset, length)
        if whole is None:
            return False
        try:
            self._index.packs.read(whole.pack, whole.position, length, out, at)
        except OSError:  # somebody removed a pack
            return False
        if not self._index.still(whole.number, whole.generation):
            return False
        self._read_bytes += int(length.sum())
        return True

    def lacks(self, wanted: Ranges) -> Ranges:
        """What is not there."""
        self._after_fork()
        return self._index.look_up(wanted.take(np.flatnonzero(wanted.length))).missing

    def claims(self) -> Claims:
        """Claims on what is to be fetched."""
        return Claims(os.path.join(self.folder, "claims"))

    def _forget_lost(self, found: Found) -> None:
        """Forgets what lay in packs that somebody removed."""
        lost = self._index.packs.lost(found.rows["pack"])
        number, generation, rows = self._index.live()
        self._index.drop(number[np.isin(rows["pack"], lost)], generation)

    # The whole

    @property
    def contents(self) -> Contents:
        """What is there."""
        _, _, rows = self._index.live()
        high, _, _, _ = self.files.owners(rows["begin"])
        packs = self._index.packs
        used_at = int(packs.used_at().max(initial=0))
        return Contents(
            pieces=len(rows),
            files=len(distinct(high)),
            bytes=int((rows["end"] - rows["begin"]).sum()),
            disk_bytes=packs.held_bytes(),
            used_at=used_at,
        )

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[int, int]:
        """Reads everything and drops what is damaged: pieces that were read, and pieces that were dropped."""
        return self._pieces.verify(progress)

    def clear(self) -> int:
        """Removes everything that the cache made, and nothing else; the bytes of the disk that became free."""
        before = self._index.packs.held_bytes()
        self._index.clear()
        return before - self._index.packs.held_bytes()

    def trim(self) -> None:
        """Makes the limit hold, which may have become lower."""
        if self._held(0) > self.limit_bytes:
            none = np.empty(0, dtype=np.int64)
            self._evict(Ranges(none, none, none, none, none), np.empty(0), self._held(0) - self.limit_bytes)

    # Keeping

    def expect(self, forecast: Forecast) -> Callable[[], None]:
        """Asks a forecast from now on; until the returned function is called."""
        self._forecasts = [*self._forecasts, forecast]
        self._until = None

        def forget() -> None:
            self._forecasts = [one for one in self._forecasts if one is not forecast]

        return forget

    def worth_fetching(self, ranges: Ranges) -> Ranges:
        """Those ranges that would be kept now, without dropping anything."""
        if int(ranges.length.sum()) > self.limit_bytes - self._held(0) or time.monotonic() < self._paused_until:
            return ranges.take(np.empty(0, dtype=np.int64))
        if self._until is None:
            return ranges
        return ranges.take(np.flatnonzero(self._expected(ranges.begin) < self._until - time.monotonic()))

    def keep(self, ranges: Ranges, out: Bytes) -> int:
        """Keeps what lies at the ranges' places in `out`, as far as it is worth it; the bytes kept."""
        self._after_fork()
        if time.monotonic() < self._paused_until:
            return 0
        with self._writing:
            try:
                self.trim()
                return self._store(self._worthy(ranges.pieces(_PIECE_BYTES)), out)
            except OSError:  # the disk is full, or the folder was removed: the data is there all the same
                self._index.packs.close()
                self._paused_until = time.monotonic() + _PAUSE_S
                return 0

    def _store(self, ranges: Ranges, out: Bytes) -> int:
        done = stored = 0
        packs = self._index.packs
        while done < len(ranges):
            if packs.room() < ranges.length[done]:
                wanted = min(_MOST_PACK_BYTES, max(_LEAST_PACK_BYTES, self.limit_bytes // _PACK_SHARE // 4096 * 4096))
                self._index.open_pack(wanted)
            fitting = int(np.searchsorted(np.cumsum(ranges.length[done:]), packs.room(), side="right"))
            if not fitting:
                return stored  # packs are smaller than this piece
            some = ranges.take(np.arange(done, done + fitting))
            places = zip(some.at.tolist(), some.length.tolist(), strict=True)
            pack, position = packs.write([out[at : at + length] for at, length in places])
            if self._index.add(some, pack, position, self._pieces.sums(out, some.at, some.length)):
                stored += int(some.length.sum())
            done += fitting
        self._uncounted += stored
        self.stored_bytes += stored
        return stored

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self.folder).free

    def _worthy(self, ranges: Ranges) -> Ranges:
        """Those ranges that shall be kept; room for them is made."""
        if self._free_bytes() < int(ranges.length.sum()) + RESERVE_BYTES:
            return ranges.take(np.empty(0, dtype=np.int64))
        is_settled = self._read_bytes <= FREED_SHARE * self.limit_bytes  # else what is worth a place has changed
        if self._until is not None and is_settled:
            ranges = ranges.take(np.flatnonzero(self._expected(ranges.begin) < self._until - time.monotonic()))
        size = int(ranges.length.sum())
        room = self.limit_bytes - self._held(size)
        if not size or (size <= room and (self._until is None or is_settled)):
            return ranges
        self._read_bytes = 0
        return ranges.take(self._evict(ranges, self._expected(ranges.begin), size - room).kept)

    def _held(self, coming: int) -> int:
        """Bytes on the disk, counted anew now and then, since pieces share pages."""
        index = self._index
        late = self._uncounted > 0.5 * FREED_SHARE * self.limit_bytes
        if index.held_bytes < 0 or late or index.held_bytes + coming > self.limit_bytes:
            index.held_bytes, self._uncounted = index.packs.held_bytes(), 0
        return index.held_bytes

    def _evict(self, ranges: Ranges, expected: Expected, excess: int) -> Choice:
        number, generation, rows = self._index.live()
        margin_s = max((forecast.margin_s for forecast in self._forecasts), default=0.0)
        held = self._expected(rows["begin"].copy(), rows["pack"]) - margin_s
        spare = int(FREED_SHARE * self.limit_bytes)
        choice = choose(held, rows["end"] - rows["begin"], expected, ranges.length, excess=excess, spare=spare)
        self._until = time.monotonic() + choice.until_s
        if len(choice.dropped):
            self.evicted += self._index.drop(number[choice.dropped], generation)
            self._index.held_bytes = -1
            if self._held(0) > self.limit_bytes:  # holes freed too little
                self._drop_packs(held, rows["pack"])
        return choice

    def _drop_packs(self, held: Expected, pack: Ids) -> None:
        """Drops whole packs, that whose piece is needed last first, until the limit holds."""
        turn = pack[np.argsort(-held, kind="stable")]
        _, first = np.unique(turn, return_index=True)
        self._index.packs.close()
        for one in turn[np.sort(first)].tolist():
            number, generation, rows = self._index.live()
            self.evicted += self._index.drop(number[rows["pack"] == one], generation)
            self._index.held_bytes = -1
            if self._held(0) <= self.limit_bytes:
                return

    def _expected(self, begin: Ids, pack: Ids | None = None) -> Expected:
        """Seconds until each is needed next. What is held and no forecast knows is expected back after as long as it was not used."""
        found = np.full(len(begin), np.nan)
        for forecast in self._forecasts:
            found = np.fmin(found, forecast(begin))
        unused = _UNEXPECTED_S if pack is None else (time.time() - self._index.packs.used_at())[pack]
        return np.where(np.isnan(found), unused, found)

    def _after_fork(self) -> None:
        """A child has its own locks, and a pack of its own."""
        if self._process != os.getpid():
            self._process, self._writing = os.getpid(), threading.Lock()
            self._index.packs.close()
            self._index.begin_anew()
