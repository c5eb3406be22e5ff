"""Rows in files that processes share. Every row has a checksum, which a process compares before it first takes the row."""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.files.cache_dirs import cache_folder, make_private, room_bytes
from penstock.core.files.scratch import sweep, usable_bytes
from penstock.core.warnings import warn
from penstock.derived.lease import hold, make_room
from penstock.derived.row_cache.columns import Held
from penstock.derived.row_cache.rows import Parts, RowCache
from penstock.derived.row_cache.spaces import FileSpace, Space
from penstock.derived.row_cache.table import Table, make_table
from penstock.derived.row_file import SUFFIX, sums_of

#: The folder of the user's cache.
FOLDER = "rows"
#: Room is looked for in such steps, and in the user's cache in no larger part of its limit.
_STRIDE, _STRIDES = 64 << 20, 16


def open_parts(path: str) -> tuple[Parts, dict[str, Any]]:
    """What a file holds, and what it says of itself. OSError (EIO) or ValueError where it is damaged."""
    file = FileSpace(path)
    held = tuple(map(Held.of_json, file.facts["columns"]))
    table = Table(file.facts["rows"], sum(one.form != "fixed" for one in held), file)
    return Parts(held=held, table=table, space=file), file.facts


def remove(folder: str, key: str) -> int:
    """Removes a cache, also one of an earlier version; how many bytes that freed. Processes that use it continue with what they have open."""
    freed = 0
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name == key + SUFFIX or name.startswith(f"{key}-"):
                size = os.stat(os.path.join(folder, name)).st_blocks * 512
                os.unlink(os.path.join(folder, name))
                freed += size
    return freed


class DiskRowCache(RowCache):
    """See `RowCache`. folder: "" for the user's cache. limit_bytes: None for what the folder's disk, or the user's cache, has room for. about: for people."""

    def __init__(self, folder: str, key: str, rows: int, limit_bytes: int | None, about: str) -> None:
        super().__init__(rows, 1 << 62 if limit_bytes is None else limit_bytes)
        self._key, self._about, self._is_users = key, about, not folder
        self.folder: str | None = None
        self.where = f"in {folder}" if folder else "in the user's cache"
        self._room = 0
        self._said_damaged = False
        self._end = 0
        try:
            self.folder = _folder(folder)
        except OSError as error:
            self.stop(f"{error.filename or folder}: {error.strerror or error}")
        if self.folder is not None:
            self.where = f"in {self.folder}"

    @property
    def _path(self) -> str:
        assert self.folder is not None
        return os.path.join(self.folder, self._key + SUFFIX)

    @property
    def parts(self) -> Parts | None:
        """What is open; another process may have begun meanwhile."""
        if self._parts is None and self.folder is not None and os.path.exists(self._path):
            with self._lock:
                if self._parts is None:
                    self._parts = self._found()
        return self._parts

    def _make(self, held: tuple[Held, ...]) -> Parts | None:
        if self.folder is None:
            return None
        if (found := self._found()) is not None:
            return found
        facts = {"rows": self.rows, "columns": [one.as_json for one in held], "about": self._about}
        make_table(self._path, facts, self.rows, sum(one.form != "fixed" for one in held))
        return self._found()

    def _found(self) -> Parts | None:
        """What another process, or an earlier one, has begun; what is damaged is removed."""
        assert self.folder is not None
        if not os.path.exists(self._path):
            return None
        try:
            parts, facts = open_parts(self._path)
            if facts["rows"] != self.rows:
                raise ValueError(f"it is of {facts['rows']:,} rows")
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise
            self._damaged(f"{error.strerror or error}" if isinstance(error, OSError) else f"{error}")
            remove(self.folder, self._key)
            return None
        with contextlib.suppress(OSError):
            os.utime(self._path)
        lease = hold(self.folder, [os.path.basename(self._path)]) if self._is_users else None
        if lease is not None:
            weakref.finalize(self, lease)
        return replace(parts, seen=np.zeros(self.rows, dtype=np.uint8))

    def _damaged(self, found: str) -> None:
        if not self._said_damaged:
            self._said_damaged = True
            warn(
                f"penstock: cache(): {self._path if self.folder else self.where}: {found}; what is damaged is made anew, and `penstock cache verify` looks at the rest"
            )

    def has(self, rows: Ids, threads: int = 1) -> npt.NDArray[np.bool_]:
        """Which of the rows can be had; each is compared with its checksum once, and what is damaged is not there any more."""
        found = super().has(rows)
        parts = self._parts
        if parts is None or parts.seen is None:
            return found
        if not parts.table.is_whole:
            self.stop("its table was cut")
            return np.zeros(len(rows), dtype=bool)
        if (end := parts.space.end) < self._end:  # somebody cut the file: what was right may be gone
            parts.seen[:] = 0
        self._end = end
        new = np.flatnonzero(found & (parts.seen[rows] == 0))
        if len(new):
            good = good_rows(parts, rows[new], threads)
            parts.seen[rows[new[good]]] = 1
            if not good.all():
                bad = new[~good]
                found[bad] = False
                if parts.table.writes:
                    parts.table.mark(rows[bad], 0)
                self._damaged(
                    f"{len(bad):,} rows are not as they were written, the first of them row {int(rows[bad[0]]):,}"
                )
        return found

    def room_bytes(self, wanted_bytes: int) -> int:
        """How many bytes may be appended now: by the limit, and by what the disk has."""
        assert self.folder is not None
        left = self.limit_bytes - self.size_bytes
        if wanted_bytes > self._room:
            share = room_bytes(self.folder) // _STRIDES if self._is_users else _STRIDE
            stride, usable = max(min(_STRIDE, share), wanted_bytes), usable_bytes(self.folder)
            if self._is_users and not make_room(self.folder, stride):
                self._room = 0
                self.stop(
                    'the limit of the user\'s cache is reached; PENSTOCK_CACHE_BYTES sets it, or name a folder: cache("/nvme/cache")'
                )
                return 0
            self._room = max(0, min(stride, usable))
            if self._room < wanted_bytes:
                self.stop("its disk is full; free some room, or name a folder on another disk")
                return min(left, self._room)
        self._room -= wanted_bytes
        return left


def good_rows(parts: Parts, rows: Ids, threads: int) -> npt.NDArray[np.bool_]:
    """Which rows have the bytes that were written."""
    table, good, width = parts.table, np.ones(len(rows), dtype=bool), parts.row_bytes
    for number in range(table.start.shape[1]):
        length = table.length[rows, number - 1] if number else np.full(len(rows), width, dtype=np.int64)
        good &= _are_whole(parts.space, table.start[rows, number], length, table.sum[rows, number], threads)
    return np.asarray(good & (table.start[rows, 0] % width == 0)) if width else good


def _are_whole(
    space: Space, start: Ids, length: Ids, sums: npt.NDArray[np.uint32], threads: int
) -> npt.NDArray[np.bool_]:
    end = space.end
    inside = (start >= 0) & (length >= 0) & (length <= end) & (start <= end - length)
    some = np.flatnonzero(inside)
    if not len(some):
        return np.asarray(inside)
    is_empty = length[some] == 0
    some = some[~is_empty]
    if len(some):
        ends = start[some] + length[some] - 1
        (data,), _, _ = space.find(np.array([int(ends.max())]))
        inside[some] = sums_of(data, start[some], length[some], threads) == sums[some]
        if space.is_lost:
            inside[some] = False
    return np.asarray(inside)


def _folder(folder: str) -> str | None:
    """The folder; None, with a warning, where there is no user's cache. OSError where it cannot be used."""
    if not folder:
        return cache_folder(FOLDER)
    make_private(folder)
    sweep(folder)
    return folder
