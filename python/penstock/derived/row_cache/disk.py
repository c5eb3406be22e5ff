"""Rows in files that processes share. Every row has a checksum, which a process compares before it first takes the row."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.spec import Ids
from penstock.core.files.cache_dirs import cache_folder, make_private, room_bytes
from penstock.core.files.scratch import sweep, usable_bytes
from penstock.core.warnings import warn
from penstock.derived.lease import hold, make_room
from penstock.derived.row_cache.columns import Held
from penstock.derived.row_cache.rows import Parts, RowCache
from penstock.derived.row_cache.spaces import FileSpace
from penstock.derived.row_cache.table import make_table, open_table, read_header

#: The folder of the user's cache.
FOLDER = "rows"
SUFFIX = ".rows"
#: Room is looked for in such steps, and in the user's cache in no larger part of its limit.
_STRIDE, _STRIDES = 64 << 20, 16
VERSION = 1


def files_of(key: str, header: dict[str, Any]) -> tuple[str, str]:
    """The names of the files with the bytes of rows."""
    return f"{key}-{header['made']}.fixed", f"{key}-{header['made']}.bytes"


class DiskRowCache(RowCache):
    """See `RowCache`. folder: "" for the user's cache. limit_bytes: None for what the folder's disk, or the user's cache, has room for. about: for people."""

    def __init__(self, folder: str, key: str, rows: int, limit_bytes: int | None, about: str) -> None:
        super().__init__(rows, 1 << 62 if limit_bytes is None else limit_bytes)
        self._key, self._about, self._is_users = key, about, not folder
        self.folder: str | None = None
        self.where = f"in {folder}" if folder else "in the user's cache"
        self._room = 0
        self._said_damaged = False
        self._ends = (0, 0)
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
        header = {
            "version": VERSION,
            "made": uuid.uuid4().hex[:12],
            "rows": self.rows,
            "columns": [one.as_json for one in held],
            "about": self._about,
        }
        others = sum(one.form != "fixed" for one in held)
        make_table(self._path, header, self.rows, others)
        self._remove_earlier()
        return self._found()

    def _remove_earlier(self) -> None:
        """Removes the bytes of tables that are no more."""
        assert self.folder is not None
        header = read_header(self._path)
        if header is None:
            return
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if name.startswith(f"{self._key}-") and name not in files_of(self._key, header):
                    os.unlink(os.path.join(self.folder, name))

    def _found(self) -> Parts | None:
        """What another process, or an earlier one, has begun; what is damaged is removed."""
        assert self.folder is not None
        path = self._path
        if not os.path.exists(path):
            return None
        header = read_header(path)
        try:
            if header is None or header["version"] != VERSION or header["rows"] != self.rows:
                raise OSError(errno.EIO, "its header is damaged, or of another version", path)
            held = tuple(map(Held.of_json, header["columns"]))
            table, watched = open_table(path, header, self.rows, sum(one.form != "fixed" for one in held))
            names = files_of(self._key, header)
            lease = hold(self.folder, [os.path.basename(path), *names]) if self._is_users else None
            assert table.file is not None
            fixed, others = (
                FileSpace(os.path.join(self.folder, name), table.file, number) for number, name in enumerate(names)
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise
            self._damaged(f"{error.strerror or error}" if isinstance(error, OSError) else "its header is damaged")
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        with contextlib.suppress(OSError):
            for name in (path, fixed.path, others.path):
                os.utime(name)
        seen = np.zeros(self.rows, dtype=np.uint8)
        parts = Parts(held=held, table=table, fixed=fixed, others=others, seen=seen, lease=(lease, watched))
        if lease is not None:
            weakref.finalize(self, lease)
        return parts

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
        ends = parts.fixed.end, parts.others.end
        if ends[0] < self._ends[0] or ends[1] < self._ends[1]:  # somebody cut a file: what was right may be gone
            parts.seen[:] = 0
        self._ends = ends
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
    table, good = parts.table, np.ones(len(rows), dtype=bool)
    if width := parts.row_bytes:
        good &= _are_whole(
            parts.fixed, table.place[rows], np.full(len(rows), width, dtype=np.int64), table.sum[rows], threads
        )
        good &= table.place[rows] % width == 0
    for number in range(table.start.shape[1]):
        good &= _are_whole(
            parts.others, table.start[rows, number], table.length[rows, number], table.sums[rows, number], threads
        )
    return np.asarray(good)


def _are_whole(
    space: Any, start: Ids, length: Ids, sums: npt.NDArray[np.uint32], threads: int
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
        found = kernels.crc32c_sums(
            data, np.ascontiguousarray(start[some]), np.ascontiguousarray(length[some]), threads
        )
        inside[some] = found == sums[some]
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
