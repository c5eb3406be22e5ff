"""Decoded parts of tables (row groups, record batches), in memory or in the cache.

A shuffle takes a few rows of a part at a time, but a part can only be decoded whole. Small data stays in memory. Each part of
larger data is decoded once, written to the user's cache and mapped into memory: the operating system keeps what fits, and later
epochs decode nothing. `lease` has the cache's limits. Without room there, parts are decoded again whenever they are needed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from operator import attrgetter
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from penstock.core.columns.repeated_values import joined
from penstock.core.columns.rows import Rows
from penstock.core.errors import SourceError, StorageError
from penstock.core.files.cache_dirs import LIMIT_NAME, limit_bytes
from penstock.core.lru import Lru
from penstock.core.unused_memory import give_back_unused
from penstock.core.warnings import warn
from penstock.derived.files import DerivedFiles
from penstock.derived.lease import make_room
from penstock.derived.lock import one_maker
from penstock.derived.row_file import SUFFIX, BlockFile, BlockWriter, binary_column, bytes_of_binary

#: Data up to this size stays whole in memory; of larger data this much.
MEMORY_BYTES = 256 << 20
#: What of a loader's memory may be kept so, and what decoding may take, unless one part takes more.
_KEPT_PART = 4
#: How many parts are decoded at once: two, since several threads decode each, and more of small ones, which wait for a store.
_TOGETHER, _SMALL_TOGETHER = 2, 8
#: Parts up to this size are small.
_SMALL_BYTES = 32 << 20
#: How many parts are mapped at once; the operating system allows some 65,000 maps.
_MAPS = 8_192
#: The size of parts of which it is not known.
LARGE_PART = 1 << 63
#: What a file takes beside its rows, and beside each column of them.
_FILE_BYTES, _COLUMN_BYTES = 4_096, 1_024


class DecodedParts:
    """Parts 0 … count - 1: `decode(part)` makes one, `key(part)` names it in the cache. Thread-safe.

    part_bytes: the size of the largest in memory, if known.
    """

    def __init__(
        self,
        decode: Callable[[int], Rows],
        key: Callable[[int], str],
        count: int,
        total_bytes: int,
        part_bytes: int = LARGE_PART,
    ) -> None:
        self._decode, self._key, self._count, self._total_bytes = decode, key, count, total_bytes
        self._part_bytes = part_bytes
        self._kept_bytes, self._has_room = MEMORY_BYTES, True
        self._memory: Lru[int, Rows] = Lru(MEMORY_BYTES, weigh=attrgetter("nbytes"))
        self._mapped: Lru[int, Rows] = Lru(_MAPS)
        self._stored_bytes = 0
        self._files: DerivedFiles | None = None
        self._doing: dict[int, Future[Rows]] = {}
        self._lock = threading.Lock()
        self._together = self._most_together
        self._turn = threading.Semaphore(self._together)

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies in other processes start empty."""
        return DecodedParts, (self._decode, self._key, self._count, self._total_bytes, self._part_bytes)

    def keep_within(self, memory_bytes: int, working_bytes: int) -> int:
        """Keeps and decodes at once no more than suits a loader that may hold so much; how much that is at most.

        working_bytes: what decoding the largest part takes. Of several loaders the one that may hold least counts.
        """
        with self._lock:
            if memory_bytes // _KEPT_PART < self._kept_bytes:
                self._kept_bytes = memory_bytes // _KEPT_PART
                self._memory.bound(self._kept_bytes)
            if (fitting := max(1, memory_bytes // _KEPT_PART // max(1, working_bytes))) < self._together:
                self._together, self._turn = fitting, threading.Semaphore(fitting)
        return self._needed(self._kept_bytes, self._together, working_bytes)

    def needed_within(self, memory_bytes: int, working_bytes: int) -> int:
        """How much `keep_within` would say first of such a loader; nothing changes."""
        kept_bytes = min(MEMORY_BYTES, memory_bytes // _KEPT_PART)
        fitting = max(1, memory_bytes // _KEPT_PART // max(1, working_bytes))
        return self._needed(kept_bytes, min(self._most_together, fitting), working_bytes)

    def _needed(self, kept_bytes: int, together: int, working_bytes: int) -> int:
        stays = self._total_bytes <= kept_bytes
        return (self._total_bytes if stays else min(working_bytes, kept_bytes)) + together * working_bytes

    @property
    def _most_together(self) -> int:
        return _SMALL_TOGETHER if self._part_bytes <= _SMALL_BYTES else _TOGETHER

    def slice(self, number: int, first: int, rows: int) -> Rows:
        """Rows [first, first + rows) of a part; they keep nothing else in memory alive."""
        part = self._part(number).slice(first, rows)
        if self._is_kept(number):
            return part
        others = {name: joined([column, column.slice(0, 0)]) for name, column in part.others.items()}
        return Rows(part.fixed.copy(), others)

    def has(self, number: int) -> bool:
        """Whether a part can be had without decoding it."""
        return number in self._mapped or number in self._memory

    def part(self, number: int) -> tuple[Rows, bool]:
        """A whole part, and whether it stays where it is: else what is wanted of it is to be copied."""
        return self._part(number), self._is_kept(number)

    @property
    def stays_in_memory(self) -> bool:
        """Whether all parts do, each decoded once."""
        return self._total_bytes <= self._kept_bytes

    @property
    def _stores(self) -> bool:
        return self._has_room and not self.stays_in_memory

    def _is_kept(self, number: int) -> bool:
        return self.stays_in_memory or number in self._mapped

    def _part(self, number: int) -> Rows:
        """A whole part; a thread that requests it while it is being decoded waits for it."""
        with self._lock:
            for cached in (self._mapped, self._memory):
                if (found := cached.get(number)) is not None:
                    return found
            mine = number not in self._doing
            future = self._doing.setdefault(number, Future())
        if mine:
            try:
                with self._turn:
                    made = self._make(number)
                    self._give_back()
                future.set_result(made)
            except BaseException as error:
                future.set_exception(error)
                raise
            finally:
                with self._lock:
                    del self._doing[number]
        return future.result()

    def _give_back(self) -> None:
        """What Arrow's allocator keeps for the next part, where little may be held: as much again as decoding one took."""
        if self._kept_bytes < MEMORY_BYTES:
            give_back_unused()

    def _make(self, number: int) -> Rows:
        files = self._opened()
        if files is None:
            return self._memory.put(number, self._decode(number))
        name = self._name(number)
        path = files.path(name)
        if (found := _load(path)) is not None:
            return self._mapped.put(number, found)
        with one_maker(files.folder, [name]):
            if (found := _load(path)) is not None:  # another process was quicker
                return self._mapped.put(number, found)
            rows = self._decode(number)
            if self._store(files, name, rows) and (found := _load(path)) is not None:
                return self._mapped.put(number, found)
        return self._memory.put(number, rows)

    def _opened(self) -> DerivedFiles | None:
        """The parts' files, which stay as long as this is in use; None, with a warning, where there can be none."""
        with self._lock:
            if self._files is None and self._stores:
                try:
                    self._files = DerivedFiles(
                        "decoded", map(self._name, range(self._count)), "a part", "decoded columns"
                    )
                    weakref.finalize(self, self._files.release)
                except SourceError:
                    self._has_room = False
                except OSError as error:
                    self._without_room(f"{error.strerror or error}")
            return self._files if self._stores else None

    def _name(self, number: int) -> str:
        return self._key(number) + SUFFIX

    def _store(self, files: DerivedFiles, name: str, rows: Rows) -> bool:
        """Writes a part; False, with a warning, where this data would take more than the whole cache may, or the disk has no room."""
        folder, size = files.folder, rows.nbytes + _FILE_BYTES + _COLUMN_BYTES * len(rows.others)
        limit = limit_bytes(folder)
        with self._lock:
            self._stored_bytes += size
        try:
            if self._stored_bytes > limit:
                raise OSError(27, f"the cache's limit is {limit:,} bytes; {LIMIT_NAME} sets it", folder)
            with files.writing(name, size) as scratch:
                if not make_room(folder, size, reserve=scratch):
                    raise StorageError(
                        f"what is in use fills the cache's limit of {limit:,} bytes; {LIMIT_NAME} sets it"
                    )
                with open(scratch, "r+b") as file:  # as long as was reserved for it
                    _write(file, rows)
        except OSError as error:
            self._without_room(f"{error.filename or folder}: {error.strerror or error}")
            return False
        return True

    def _without_room(self, found: str) -> None:
        if self._stores:
            self._has_room = False
            warn(
                f"decoded columns are not cached ({found}); they are decoded again whenever they are needed, which is slow; "
                "free some room or point XDG_CACHE_HOME to a larger disk"
            )


def _write(file: BinaryIO, rows: Rows) -> None:
    width = rows.fixed.shape[1]
    columns = [binary_column(np.ascontiguousarray(rows.fixed), len(rows), width), *rows.others.values()]
    writer = BlockWriter(file)
    writer.add(pa.record_batch(columns, names=list(map(str, range(len(columns))))))
    writer.finish({"width": width, "names": list(rows.others)})


def _load(path: str) -> Rows | None:
    """A stored part, mapped; None if it is missing or damaged."""
    try:
        os.utime(path)
        if (found := BlockFile.open(path)) is None:
            return None
        fixed, *others = found.block(0).columns
        width = found.facts["width"]
        return Rows(
            bytes_of_binary(fixed, width).reshape(len(fixed), width),
            dict(zip(found.facts["names"], others, strict=True)),
        )
    except (OSError, pa.ArrowException):
        return None
