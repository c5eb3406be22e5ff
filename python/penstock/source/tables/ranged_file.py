"""A shard as a file, for libraries that want one: the path where there is one, ranges of the storage otherwise."""

from __future__ import annotations

import errno
import io
import os
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.cancel import carried, is_of_run
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges, read_range
from penstock.core.files.shards import Shards

#: Bytes that one read fetches at least: libraries ask for a footer or a header in many small reads.
_AHEAD_BYTES = 1 << 16


class RangedFile(io.RawIOBase):
    """A read-only file over the ranges of one shard. Not for several threads at once.

    Libraries read in threads of their own: these are cancelled with the work of the thread that opened the file.

    part: the first byte and the length of what of the shard is the file; all of it if not given. ahead_bytes: what a read brings at least.

    with RangedFile(shards, 3, read) as file: file.seek(-8, os.SEEK_END); file.read()
    """

    def __init__(
        self,
        shards: Shards,
        shard: int,
        read: ByteRanges,
        part: tuple[int, int] | None = None,
        ahead_bytes: int = _AHEAD_BYTES,
    ) -> None:
        super().__init__()
        self._shards, self._shard, self._read = shards, shard, read
        self._begin, self._size = part or (0, int(shards.sizes[shard]))
        self._ahead_bytes = ahead_bytes
        self._at = 0
        self._kept, self._kept_from = np.empty(0, dtype=np.uint8), 0
        self._read_for_opener = carried(read_range)

    @property
    def name(self) -> str:
        """The path of the shard."""
        return self._shards.path(self._shard)

    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def readable(self) -> bool:
        """True: any place can be read."""
        return True

    def seekable(self) -> bool:
        """True: any place can be read."""
        return True

    def tell(self) -> int:
        """The place of the next byte to be read."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to a place; one past the end is allowed, and nothing can be read there."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, f"seek to {start + offset:,}, before the file's beginning", self.name)
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer from here on; fewer bytes at the end of the file, 0 past it."""
        out = np.frombuffer(buffer, dtype=np.uint8)
        length = max(0, min(len(out), self._size - self._at))
        if length:
            out[:length] = self._bytes(self._at, length)
            self._at += length
        return length

    def read_buffer(self, size: int) -> pa.Buffer:
        """The next bytes, fewer at the end of the file, without a copy; what pyarrow asks for."""
        length = max(0, min(size, self._size - self._at))
        data = self._bytes(self._at, length) if length else b""
        self._at += length
        return pa.py_buffer(data)

    def _bytes(self, offset: int, length: int) -> Any:
        within = offset - self._kept_from
        if not 0 <= within <= len(self._kept) - length:
            if length >= self._ahead_bytes:
                return self._fetch(offset, length)
            start = max(0, min(offset, self._size - self._ahead_bytes))
            self._kept = self._fetch(start, min(self._ahead_bytes, self._size - start))
            self._kept_from = start  # only now, since reading may fail
            within = offset - start
        return self._kept[within : within + length]

    def _fetch(self, offset: int, length: int) -> Any:
        fetch = read_range if is_of_run() else self._read_for_opener
        return fetch(self._read, self._shards, self._shard, self._begin + offset, length)


def open_shard(shards: Shards, shard: int, read: ByteRanges) -> pa.NativeFile:
    """A shard for pyarrow: a local file by its path, another, or one with checksums, through ranges.

    Raises DataError if a local file is gone, or is not what it was when it was listed.
    """
    path = shards.path(shard)
    if not os.path.isabs(path) or read.has_checksums(shards, shard):
        return pa.PythonFile(RangedFile(shards, shard, read), mode="r")
    shards.check_now(shard)
    try:
        return pa.OSFile(path)
    except OSError as error:
        found = error.strerror or error
        raise DataError(f"{path}: {found}; if the data was changed on purpose, open the dataset again") from None
