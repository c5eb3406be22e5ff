"""The cache's journal: which pieces are in which pack, as records of one size that are only appended.

A record says that a piece of a remote file was stored, or evicted. A writer holds the cache's lock; a reader remembers its position.
A killed writer leaves whole records, since a page holds a whole number of them; even so, each has its own checksum. Rewriting
the journal makes a new file, which readers recognise by its inode.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.spec import Ids

#: Rows of type `RECORD`.
Records: TypeAlias = npt.NDArray[np.void]

KEPT, DROPPED = 1, 2

#: file_high, file_low, size: the remote file (see `files`). offset, length: its bytes. pack, position: where they are. checksum: their
#: CRC-32C. proof: CRC-32C of the record before it. in_blocks: 1 if the checksums of the piece's blocks follow it (see `extents`).
RECORD = np.dtype(
    [
        ("kind", "<u4"),
        ("checksum", "<u4"),
        ("file_high", "<u8"),
        ("file_low", "<u8"),
        ("size", "<i8"),
        ("offset", "<i8"),
        ("pack", "<i8"),
        ("position", "<u4"),
        ("length", "<u4"),
        ("proof", "<u4"),
        ("in_blocks", "<u4"),
    ]
)
_PROVEN_BYTES = RECORD.fields["proof"][1]  # type: ignore[index]  # a structured type has fields

#: Magic, bytes of a pack; the rest of the first record is zero.
_HEADER = struct.Struct("<8sq")
_MAGIC = b"PSTKRC01"
_READ_RECORDS = 1 << 16


class Journal:
    """A journal as one process reads and writes it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._at = 0
        self.pack_bytes = 0
        self._stamp: tuple[int, int] | None = None

    def __del__(self) -> None:
        self._close()

    def stamp(self) -> tuple[int, int] | None:
        """The file's inode and size, which change with every record; None if there is no journal."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_size

    @property
    def is_current(self) -> bool:
        """Whether nothing was written since the last `news`."""
        return self._stamp is not None and self.stamp() == self._stamp

    def news(self) -> tuple[bool, Records]:
        """Whether the journal was rewritten (then forget its old records), and the new records."""
        stamp = self.stamp()
        if stamp is None:
            self._close()
            self.pack_bytes = 0
            return True, np.empty(0, RECORD)
        other = self._stamp is None or stamp[0] != self._stamp[0] or stamp[1] < self._at
        if other:
            self._close()
            stamp = self._open()
        records = self._read(stamp[1])
        self._stamp = stamp
        return other, records

    def create(self, pack_bytes: int, records: Records | None = None) -> None:
        """Replace the journal by a new one; the caller holds the cache's lock."""
        header = _HEADER.pack(_MAGIC, pack_bytes).ljust(RECORD.itemsize, b"\0")
        scratch = f"{self._path}.{os.getpid()}.tmp"
        try:
            with open(scratch, "wb", opener=_private) as file:
                file.write(header + (b"" if records is None else proven(records).tobytes()))
            os.replace(scratch, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
            raise

    def remove_scratch(self) -> None:
        """Remove unfinished journals of killed processes; the caller holds the cache's lock, so no other process is writing one."""
        folder, name = os.path.split(self._path)
        with contextlib.suppress(OSError):
            for found in os.listdir(folder):
                if found.startswith(f"{name}.") and found.endswith(".tmp"):
                    os.unlink(os.path.join(folder, found))

    def held_bytes(self) -> int:
        """The journal's size on disk."""
        try:
            return os.stat(self._path).st_blocks * 512
        except OSError:
            return 0

    def append(self, records: Records) -> None:
        """Append records; the caller holds the cache's lock. OSError if they do not fit: then none of them counts."""
        handle = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            end = os.fstat(handle).st_size // RECORD.itemsize * RECORD.itemsize
            content = proven(records).tobytes()
            if os.pwrite(handle, content, end) != len(content):
                os.ftruncate(handle, end)
                raise OSError(28, "no room for the cache's journal", self._path)
        finally:
            os.close(handle)

    def _open(self) -> tuple[int, int]:
        """Start to read; anything but a journal of this version counts as empty."""
        self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(self._file)
        magic, self.pack_bytes = _HEADER.unpack(os.pread(self._file, _HEADER.size, 0).ljust(_HEADER.size, b"\0"))
        self.pack_bytes = self.pack_bytes if magic == _MAGIC else 0
        self._at = RECORD.itemsize if self.pack_bytes else found.st_size
        return found.st_ino, found.st_size

    def _read(self, end: int) -> Records:
        parts = []
        while end - self._at >= RECORD.itemsize:
            count = min(_READ_RECORDS, (end - self._at) // RECORD.itemsize)
            content = os.pread(self._file, count * RECORD.itemsize, self._at)
            found = np.frombuffer(content[: len(content) // RECORD.itemsize * RECORD.itemsize], RECORD)
            if not len(found):
                break
            self._at += found.nbytes
            parts.append(found[proofs(found) == found["proof"]])
        return np.concatenate(parts) if parts else np.empty(0, RECORD)

    def _close(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file, self._at, self._stamp = -1, 0, None


def proofs(records: Records) -> Any:
    """The checksum of each record."""
    begin: Ids = np.arange(len(records), dtype=np.int64) * RECORD.itemsize
    content = np.ascontiguousarray(records).view(np.uint8)
    return kernels.crc32c_sums(content, begin, np.full(len(records), _PROVEN_BYTES), 1)


def proven(records: Records) -> Records:
    """The records with their checksums."""
    made = records.copy()
    made["proof"] = proofs(made)
    return made


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
