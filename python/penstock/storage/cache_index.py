"""What a cache holds, as all its processes agree on it: the journal, taken into a table that is looked up.

Always so: bytes are written before the journal names them, and named as dropped before they go. Whoever reads asks afterwards whether the
pieces were still there (`still`).
"""

from __future__ import annotations

import contextlib
import os
import threading
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from penstock.spec import Ids
from penstock.storage.cache_extents import EXTENT, Extents, gaps
from penstock.storage.cache_files import Files, Ranges
from penstock.storage.cache_journal import DROPPED, KEPT, RECORD, Journal, Records
from penstock.storage.cache_locks import locked
from penstock.storage.cache_packs import Packs
from penstock.storage.ranges import distinct

#: The journal is written anew when it has so many records more than there are pieces.
_OLD_RECORDS = 1 << 16
#: The file in a cache's folder that says what lies there.
JOURNAL = "journal"


class Found:
    """What was found of some ranges.

    number: pieces in the table, at `generation`. rows: what the table says of them. pieces: the parts of the ranges that they hold.
    missing: the rest.
    """

    def __init__(self, number: Ids, generation: int, rows: Any, pieces: Ranges, missing: Ranges) -> None:
        self.number, self.generation, self.rows = number, generation, rows
        self.pieces, self.missing = pieces, missing


class Whole(NamedTuple):
    """Ranges that are there, each in one checked piece: pieces in the table at `generation`, their packs, and where the ranges begin there."""

    number: Ids
    pack: Ids
    position: Ids
    generation: int


class Index:
    """The pieces of the cache in `folder`, whose bytes lie in `packs`."""

    def __init__(self, folder: str, files: Files, packs: Packs) -> None:
        self._folder, self._files, self.packs = folder, files, packs
        self.held_bytes = -1  # not counted yet
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets what was read of the journal."""
        self._lock = threading.RLock()
        self._journal = Journal(os.path.join(self._folder, JOURNAL))
        self._extents = Extents()
        self._records = 0

    def look_up(self, wanted: Ranges) -> Found:
        """What is there of ranges."""
        with self._lock:
            self._sync()
            end = np.where(wanted.begin < 0, wanted.begin, wanted.begin + wanted.length)
            which, number = self._extents.find(wanted.begin, end)
            rows, generation = self._extents.rows[number], self._extents.generation
        first = np.maximum(rows["begin"], wanted.begin[which]) - wanted.begin[which]
        last = np.minimum(rows["end"], end[which]) - wanted.begin[which]
        missing = gaps(np.zeros(len(wanted), dtype=np.int64), wanted.length, which, first, last)
        return Found(number, generation, rows, wanted.parts(which, first, last), wanted.parts(*missing))

    def find_whole(self, base: Ids, shard: Ids, offset: Ids, length: Ids) -> Whole | None:
        """Ranges that are there whole, as far as is known without asking whether the journal has news; None if not all are."""
        with self._lock:
            found = self._extents.find_whole(base, shard, offset, length)
            return None if found is None else Whole(*found, self._extents.generation)

    def still(self, number: Ids, generation: int) -> bool:
        """Whether none of the pieces was dropped since they were looked up."""
        with self._lock:
            if not self._journal.is_current:
                self._sync()
            return self._extents.generation == generation and bool(self._extents.rows["alive"][number].all())

    def checked(self, number: Ids, generation: int) -> None:
        """Says that pieces are whole."""
        with self._lock:
            if self._extents.generation == generation:
                self._extents.rows["checked"][number] = True

    def live(self) -> tuple[Ids, int, Any]:
        """All pieces: their numbers, the generation, and what the table says of them."""
        with self._lock:
            self._sync()
            number = self._extents.live()
            return number, self._extents.generation, self._extents.rows[number]

    def add(self, ranges: Ranges, pack: int, position: Ids, checksum: Any) -> bool:
        """Says in the journal where ranges lie; False if that could not be."""
        high, low, size, base = self._files.owners(ranges.begin)
        records = np.zeros(len(ranges), RECORD)
        records["kind"], records["checksum"], records["size"], records["length"] = KEPT, checksum, size, ranges.length
        records["file_high"], records["file_low"], records["offset"] = high, low, ranges.begin - base
        records["pack"], records["position"] = self.packs.names(np.array([pack])), position
        with self._locked() as ours:
            if not ours or not self.packs.is_current:
                return False
            self._sync()
            self._append(records, checked=True)
        return True

    def drop(self, number: Ids, generation: int) -> int:
        """Drops pieces for everybody, then gives their bytes back to the disk; how many were dropped."""
        if not len(number):
            return 0
        with self._locked() as ours:
            self._sync()
            if self._extents.generation != generation:
                return 0
            number = number[self._extents.rows["alive"][number]]
            gone = self._extents.rows[number]
            if ours and len(number):
                with contextlib.suppress(OSError):
                    self._append(self._records_of(number, DROPPED), checked=False)
            self._extents.drop(number)
            if ours:
                self._free(gone)
            return len(number)

    def open_pack(self, pack_bytes: int) -> None:
        """Opens a pack to write to; the journal is begun if there is none."""
        with self._locked() as ours:
            if not ours:
                raise OSError(11, "the cache is locked", self._folder)
            self._sync()
            if not self._journal.pack_bytes:
                self._journal.create(pack_bytes)
                self._sync()
            live = self._extents.rows[self._extents.live()]
            packs, which = np.unique(live["pack"], return_inverse=True)
            end = np.zeros(len(packs), dtype=np.int64)
            np.maximum.at(end, which, live["position"] + live["end"] - live["begin"])
            self.packs.close()
            self.packs.sweep(packs)
            self.packs.open(list(zip(packs.tolist(), end.tolist(), strict=True)))

    def clear(self) -> None:
        """Drops everything, and removes all packs."""
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
        """The lock of all processes, then that of this one's threads; whether the first could be had."""
        with locked(os.path.join(self._folder, "lock")) as ours, self._lock:
            yield ours

    def _sync(self) -> None:
        """Takes in what the journal says that is new."""
        if self._journal.is_current:
            return
        other, records = self._journal.news()
        if other:
            self._extents.clear()
            self.packs.resize(self._journal.pack_bytes)
            self._records, self.held_bytes = 0, -1
        self._apply(records, checked=False)

    def _append(self, records: Records, *, checked: bool) -> None:
        """Adds records, which are then known here as well; all earlier ones are."""
        self._journal.append(records)
        self._apply(self._journal.news()[1], checked=checked)
        if self._records > 2 * len(self._extents.live()) + _OLD_RECORDS:
            self._journal.create(self._journal.pack_bytes, self._records_of(self._extents.live(), KEPT))

    def _apply(self, records: Records, *, checked: bool) -> None:
        self._records += len(records)
        edges = np.flatnonzero(np.diff(records["kind"].astype(np.int64), prepend=0, append=0)).tolist()
        for first, last in pairwise(edges):
            some = records[first:last]
            base = self._files.bases(some["file_high"], some["file_low"], some["size"])
            some, base = some[base >= 0], base[base >= 0]
            rows = np.zeros(len(some), EXTENT)
            rows["begin"], rows["position"], rows["checksum"] = (
                base + some["offset"],
                some["position"],
                some["checksum"],
            )
            rows["end"], rows["checked"] = rows["begin"] + some["length"], checked
            rows["pack"] = self.packs.numbers(some["pack"])
            if records["kind"][first] == KEPT:
                self._extents.add(rows)
                self.held_bytes += int(some["length"].sum()) if self.held_bytes >= 0 else 0
            else:
                self._apply_drops(rows)

    def _apply_drops(self, rows: Any) -> None:
        which, number = self._extents.find(rows["begin"].copy(), rows["end"].copy())
        held = self._extents.rows[number]
        same = (held["pack"] == rows["pack"][which]) & (held["position"] == rows["position"][which])
        self._extents.drop(number[same])

    def _records_of(self, number: Ids, kind: int) -> Records:
        rows = self._extents.rows[number]
        high, low, size, base = self._files.owners(rows["begin"])
        records = np.zeros(len(rows), RECORD)
        records["kind"], records["checksum"], records["size"] = kind, rows["checksum"], size
        records["file_high"], records["file_low"], records["offset"] = high, low, rows["begin"] - base
        records["pack"], records["position"] = self.packs.names(rows["pack"]), rows["position"]
        records["length"] = rows["end"] - rows["begin"]
        return records

    def _free(self, gone: Any) -> None:
        """Gives the bytes of pieces that were dropped back to the disk."""
        live = self._extents.rows[self._extents.live()]
        for pack in distinct(gone["pack"]).tolist():
            self.packs.punch(pack, _holes(gone[gone["pack"] == pack], live[live["pack"] == pack]))
        self.packs.sweep(distinct(live["pack"]))


def _holes(gone: Any, live: Any) -> list[tuple[int, int]]:
    """The bytes of a pack that became free, up to the neighbours that are left."""
    begins = np.sort(live["position"])
    ends = np.sort(live["position"] + live["end"] - live["begin"])
    low = np.concatenate([[0], ends])[np.searchsorted(ends, gone["position"], side="right")]
    last = int((gone["position"] + gone["end"] - gone["begin"]).max())
    high = np.append(begins, last)[np.searchsorted(begins, gone["position"], side="left")]
    return sorted(set(zip(low.tolist(), high.tolist(), strict=True)))
