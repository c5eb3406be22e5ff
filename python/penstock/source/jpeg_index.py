"""The JPEG index: a file of entry points beside the user's other indexes, and a builder that can be interrupted.

A dataset's index is named by the manifest's digest and the column. It is made in parts of `PART_SAMPLES` samples, each of which
appears whole or not at all; what was made before an interruption is used again. The file holds, after the header, per sample the
length of its entry points (uint32) and the record's CRC-32C (uint32), then all entry points one after the other.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, EntryPoints, Ids, Spans
from penstock.core.errors import PlanError
from penstock.core.files.cache_dirs import cache_folder
from penstock.derived.file_indexes import load_checked, write_checked

#: Pixels of a row of MCUs between entry points: 8 MCUs where chroma is halved, as fast as every 4 at half the size.
EVERY_PIXELS = 128

#: Samples of a part of the index while it is built.
PART_SAMPLES = 4096

_MAGIC = b"PSTKJP01"
#: Samples, pixels between entry points.
_HEADER = struct.Struct("<qq")

Checksums = npt.NDArray[np.uint32]


def index_path(digest: str, column: str, part: int | None = None) -> str | None:
    """The path of the index of a dataset's column, or of a part of it while it is built; None without a cache."""
    folder = cache_folder("jpeg")
    name = hashlib.blake2b(column.encode(), digest_size=4).hexdigest()
    suffix = "entries" if part is None else f"part{part}"
    return None if folder is None else os.path.join(folder, f"{digest}-{name}.{suffix}")


def load(path: str | None) -> EntryPoints | None:
    """The index in a file; None if there is none that is whole."""
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return _load_version(path or "", found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=8)
def _load_version(path: str, _size: int, _modified_ns: int) -> EntryPoints | None:
    """As `load`, once for every version of a file."""
    found = load_checked(path, _MAGIC, _HEADER, mapped=True)
    if found is None:
        return None
    (samples, _), content = found
    if samples < 0 or len(content) < 8 * samples:
        return None
    length = np.frombuffer(content[: 4 * samples], "<u4").astype(np.int64)
    checksum = np.frombuffer(content[4 * samples : 8 * samples], "<u4").astype(np.uint32)
    data: Bytes = np.frombuffer(content[8 * samples :], dtype=np.uint8)
    return EntryPoints(np.cumsum(length) - length, length, checksum, data) if length.sum() == len(data) else None


def store(path: str | None, length: Ids, checksum: Checksums, data: Bytes) -> bool:
    """Writes an index whole or not at all; False if there is no place for it."""
    if path is None:
        return False
    header = _HEADER.pack(len(length), EVERY_PIXELS)
    return write_checked(
        path, _MAGIC, header, length.astype("<u4").tobytes(), checksum.astype("<u4").tobytes(), data.tobytes()
    )


class Growing:
    """An index that grows while a first epoch decodes. Many threads may add; what is there is used at once."""

    def __init__(self, samples: int, path: str | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._tried = np.zeros(samples, dtype=bool)
        self._offset = np.zeros(samples, dtype=np.int64)
        self._length = np.zeros(samples, dtype=np.int64)
        self._checksum = np.zeros(samples, dtype=np.uint32)
        self._data = np.empty(1 << 16, dtype=np.uint8)
        self._used = 0

    def missing(self, samples: Ids) -> Ids:
        """Places in `samples` whose entry points nobody has made yet."""
        return np.flatnonzero(~self._tried[samples])

    def view(self) -> EntryPoints:
        """What there is so far."""
        with self._lock:
            return EntryPoints(self._offset, self._length, self._checksum, self._data)

    def add(self, samples: Ids, length: Ids, checksum: Checksums, data: Bytes) -> None:
        """Adds the entry points of samples; once every sample was tried, the index is stored."""
        with self._lock:
            while self._used + len(data) > len(self._data):
                self._data = np.concatenate([self._data, np.empty_like(self._data)])
            self._data[self._used : self._used + len(data)] = data
            self._offset[samples] = self._used + np.cumsum(length) - length
            self._checksum[samples] = checksum
            self._length[samples] = length
            self._used += len(data)
            self._tried[samples] = True
            if self._tried.all():
                self._store()

    def _store(self) -> None:
        """Stores the index in the order of the sample ids."""
        spans = zip(self._offset.tolist(), self._length.tolist(), strict=True)
        data = np.concatenate([self._data[offset : offset + length] for offset, length in spans])
        store(self._path, self._length, self._checksum, data)


def entry_points_of(column: object, threads: int) -> tuple[Bytes, Ids, Checksums]:
    """Bytes, lengths (0: none) and checksums of the entry points of a column of images."""
    if not isinstance(column, Spans):
        raise PlanError(f"the JPEG index needs images as bytes, not {type(column).__name__}")
    return kernels.jpeg_entry_points(
        list(column.buffers), column.which, column.offset, column.length, EVERY_PIXELS, threads
    )
