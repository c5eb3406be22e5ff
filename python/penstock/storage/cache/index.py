"""The contents of a cache that all its processes agree on: the journal, loaded into a table.

Always: bytes are written before the journal names them, and an eviction is recorded before bytes are removed. After a read, `still`
says whether the pieces were still there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from penstock.core.columns.spec import Bytes, Ids
from penstock.storage.cache.extents import EXTENT, Extents, ends_in_pack, gaps
from penstock.storage.cache.files import KnownFiles, Ranges
from penstock.storage.cache.journal import DROPPED, KEPT, RECORD, Journal, Records
from penstock.storage.cache.locks import locked
from penstock.storage.cache.packs import PAGE_BYTES, Packs
from penstock.storage.fetch.plan import distinct

#: The journal is rewritten once it has so many more records than there are pieces; fewer with small packs.
_OLD_RECORDS, _FEW_RECORDS = 1 << 16, 256
#: The files in a cache's folder that record its contents, and that writers lock.
JOURNAL, LOCK = "journal", "lock"
#: The size on disk is measured at every write above this share of the limit, and always below limits of this size; else after
#: storing this share of the limit, since pieces share pages.
_NEAR, _SMALL_BYTES, _LATE = 0.75, 1 << 30, 0.01


class FoundRanges(NamedTuple):
    """The result of a look-up of ranges.

    number: pieces in the table, at `generation`. rows: their rows of the table. pieces: the parts of the ranges that they hold.
    missing: the rest.
    """

    number: Ids
    generation: int
    rows: Any
    pieces: Ranges
    missing: Ranges


class WholeRanges(NamedTuple):
    """Ranges that are each in one piece: the pieces in the table at `generation`, their rows as bytes, and the positions where ranges begin."""

    number: Ids
    rows: Bytes
    begin: Ids
    generation: int


class Index:
    """The pieces of the cache in `folder`, whose bytes are in `packs`."""

    def __init__(self, folder: str, files: KnownFiles, packs: Packs) -> None:
        self._folder, self._files, self.packs = folder, files, packs
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was read of the journal."""
        self._lock = threading.RLock()
        self._journal = Journal(os.path.join(self._folder, JOURNAL))
        self._extents = Extents()
        self._record_count = 0
        self._counted_bytes, self._uncounted_bytes = -1, 0  # not counted yet

    def look_up(self, wanted: Ranges) -> FoundRanges:
        """Look up ranges."""
        with self._lock:
            self._sync()
            end = np.where(wanted.begin < 0, wanted.begin, wanted.begin + wanted.length)
            which, number = self._extents.find(wanted.begin, end)
            rows, generation = self._extents.rows[number], self._extents.generation
        first = np.maximum(rows["begin"], wanted.begin[which]) - wanted.begin[which]
        last = np.minimum(rows["end"], end[which]) - wanted.begin[which]
        missing = gaps(np.zeros(len(wanted), dtype=np.int64), wanted.length, which, first, last)
        return FoundRanges(number, generation, rows, wanted.parts(which, first, last), wanted.parts(*missing))

    def find_whole(self, base: Ids, shard: Ids, offset: Ids, length: Ids) -> WholeRanges | None:
        """Ranges that are cached whole, without checking the journal for news; None if not all are."""
        with self._lock:
            found = self._extents.find_whole(base, shard, offset, length)
            return None if found is None else WholeRanges(*found, self._extents.generation)

    def still(self, number: Ids, generation: int) -> bool:
        """Whether none of the pieces was evicted since they were looked up."""
        with self._lock:
            if not self._journal.is_current:
                self._sync()
            return self._extents.generation == generation and bool(self._extents.rows["alive"][number].all())

    def live(self) -> tuple[Ids, int, Any]:
        """All pieces: their numbers, the generation, and their rows of the table."""
        with self._lock:
            self._sync()
            number = self._extents.live()
            return number, self._extents.generation, self._extents.rows[number]

    def add(self, ranges: Ranges, pack: int, position: Ids, checksum: Any) -> bool:
        """Record in the journal where ranges are; False if it could not be written."""
        records = self._records(KEPT, ranges.begin, np.array([pack]), position, checksum, ranges.length)
        with self._locked() as ours:
            if not ours or not self.packs.is_writing(pack):
                return False
            self._sync()
            self._append(records)
        return True

    def drop(self, number: Ids, generation: int) -> int:
        """Evict pieces for all processes, then free their bytes on the disk; returns how many were evicted."""
        if not len(number):
            return 0
        with self._locked() as ours:
            self._sync()
            if self._extents.generation != generation:
                return 0
            number = number[self._extents.rows["alive"][number]]
            gone = self._extents.rows[number]
            is_said = ours and len(number) > 0 and self._say_dropped(number)
            self._extents.drop(number)
            if is_said:  # else other processes still read there
                self._free(gone)
            return len(number)

    def _say_dropped(self, number: Ids) -> bool:
        try:
            self._append(self._records_of(number, DROPPED))
        except OSError:
            return False
        return True

    def reserve(self, sizes: Ids, pack_bytes: int, limit_bytes: int) -> tuple[int, Ids]:
        """Reserve room in a pack for the first pieces, as many as fit there and into the limit; returns the pack and their positions.

        The first pack has `pack_bytes`.
        """
        with self._locked() as ours:
            if not ours:
                raise self._why_not_locked()
            self._sync()
            if self.packs.room() < int(sizes[0]):
                self._open_pack(pack_bytes)
            held = self.held_bytes(limit_bytes, int(sizes.sum())) + 2 * PAGE_BYTES
            taken = np.cumsum(sizes)
            of_limit = np.searchsorted(taken + 2 * RECORD.itemsize * np.arange(1, len(sizes) + 1), limit_bytes - held)
            of_pack = np.searchsorted(taken, self.packs.room(), side="right")
            return self.packs.reserve(sizes[: min(int(of_limit), int(of_pack))])

    def _open_pack(self, pack_bytes: int) -> None:
        """Open a pack for writing; starts the journal if there is none."""
        if not self._journal.pack_bytes:
            self._journal.create(pack_bytes)
            self._sync()
        ends = self._ends()
        self.packs.close()
        self.packs.sweep(np.array(list(ends), dtype=np.int64))
        self.packs.open(list(ends.items()))

    def _ends(self) -> dict[int, int]:
        """The end of the pieces in each pack."""
        live = self._extents.rows[self._extents.live()]
        packs, which = np.unique(live["pack"], return_inverse=True)
        end = np.zeros(len(packs), dtype=np.int64)
        np.maximum.at(end, which, ends_in_pack(live))
        return dict(zip(packs.tolist(), end.tolist(), strict=True))

    def _why_not_locked(self) -> OSError:
        try:
            os.close(os.open(os.path.join(self._folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            return error
        return OSError(errno.EAGAIN, "the cache is locked", self._folder)

    def held_bytes(self, limit_bytes: int = 0, coming: int = 0) -> int:
        """The folder's size on disk; far below a large limit, the last measurement and what was stored since."""
        with self._lock:
            held = self._counted_bytes + self._uncounted_bytes
            is_far = held + coming < _NEAR * limit_bytes and limit_bytes > _SMALL_BYTES
            if self._counted_bytes >= 0 and is_far and self._uncounted_bytes < _LATE * limit_bytes:
                return held
            anew = len(self._extents.live()) * RECORD.itemsize  # a journal that is rewritten exists twice for a moment
            self._counted_bytes = self.packs.held_bytes() + self._journal.held_bytes() + anew
            self._uncounted_bytes = 0
            return self._counted_bytes

    def tidy(self) -> None:
        """Remove leftovers of killed processes: unfinished journals, packs without pieces, bytes after the last piece of others."""
        with self._locked() as ours:
            if not ours:
                return
            self._journal.remove_scratch()
            self._sync()
            ends = self._ends()
            self.packs.sweep(np.array(list(ends), dtype=np.int64))
            for pack, end in ends.items():
                self.packs.cut(pack, end)

    def clear(self) -> None:
        """Evict everything, and remove all packs."""
        with self._locked() as ours:
            if not ours:
                return
            self._sync()
            if self._journal.pack_bytes:
                self._journal.create(self._journal.pack_bytes)
            self._sync()
            self.packs.remove_all()

    @contextlib.contextmanager
    def _locked(self) -> Any:
        """Take the lock between processes, then the one between threads; yields whether the first was acquired."""
        with locked(os.path.join(self._folder, LOCK)) as ours, self._lock:
            yield ours

    def _sync(self) -> None:
        """Load new records of the journal."""
        if self._journal.is_current:
            return
        other, records = self._journal.news()
        if other:
            self._extents.clear()
            self.packs.resize(self._journal.pack_bytes)
            self._record_count, self._counted_bytes = 0, -1
        self._apply(records)

    def _append(self, records: Records) -> None:
        """Append records and load them; all earlier ones are loaded already."""
        self._journal.append(records)
        self._apply(self._journal.news()[1])
        old = min(_OLD_RECORDS, max(_FEW_RECORDS, self._journal.pack_bytes // 8 // RECORD.itemsize))
        if self._record_count > 2 * len(self._extents.live()) + old:
            with contextlib.suppress(OSError):  # the old one still works
                self._journal.create(self._journal.pack_bytes, self._records_of(self._extents.live(), KEPT))

    def _apply(self, records: Records) -> None:
        self._record_count += len(records)
        edges = np.flatnonzero(np.diff(records["kind"].astype(np.int64), prepend=0, append=0)).tolist()
        for first, last in pairwise(edges):
            some = records[first:last]
            base = self._files.bases(some["file_high"], some["file_low"], some["size"])
            some, base = some[base >= 0], base[base >= 0]
            rows = np.zeros(len(some), EXTENT)
            rows["begin"], rows["position"] = base + some["offset"], some["position"]
            rows["checksum"] = some["checksum"]
            rows["end"], rows["in_blocks"] = rows["begin"] + some["length"], some["in_blocks"] == 1
            rows["pack"] = self.packs.numbers(some["pack"])
            if records["kind"][first] == KEPT:
                self._extents.add(rows)
                self._uncounted_bytes += int(some["length"].sum())
            else:
                self._apply_drops(rows)

    def _apply_drops(self, rows: Any) -> None:
        which, number = self._extents.find(rows["begin"].copy(), rows["end"].copy())
        held = self._extents.rows[number]
        same = (held["pack"] == rows["pack"][which]) & (held["position"] == rows["position"][which])
        self._extents.drop(number[same])

    def _records_of(self, number: Ids, kind: int) -> Records:
        rows = self._extents.rows[number]
        length, in_blocks = rows["end"] - rows["begin"], rows["in_blocks"]
        return self._records(kind, rows["begin"], rows["pack"], rows["position"], rows["checksum"], length, in_blocks)

    def _records(
        self, kind: int, begin: Ids, pack: Ids, position: Ids, checksum: Any, length: Ids, in_blocks: Any = 1
    ) -> Records:
        """Records of the journal, of pieces in the table's columns."""
        high, low, size, base = self._files.owners(begin)
        records = np.zeros(len(begin), RECORD)
        records["kind"], records["checksum"], records["size"], records["length"] = kind, checksum, size, length
        records["file_high"], records["file_low"], records["offset"] = high, low, begin - base
        records["pack"], records["position"], records["in_blocks"] = self.packs.names(pack), position, in_blocks
        return records

    def _free(self, gone: Any) -> None:
        """Free the bytes of evicted pieces on the disk."""
        live = self._extents.rows[self._extents.live()]
        self._counted_bytes = -1
        for pack in distinct(gone["pack"]).tolist():
            self.packs.punch(pack, _holes(gone[gone["pack"] == pack], live[live["pack"] == pack]))
        self.packs.sweep(distinct(live["pack"]))


def _holes(gone: Any, live: Any) -> list[tuple[int, int]]:
    """The free bytes of a pack around evicted pieces, up to the remaining neighbours."""
    begins, ends = np.sort(live["position"]), np.sort(ends_in_pack(live))
    low = np.concatenate([[0], ends])[np.searchsorted(ends, gone["position"], side="right")]
    high = np.append(begins, int(ends_in_pack(gone).max()))[np.searchsorted(begins, gone["position"], side="left")]
    return sorted(set(zip(low.tolist(), high.tolist(), strict=True)))
