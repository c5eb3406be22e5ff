"""A cache of remote ranges on the local disk.

Every entry is a file of its own, `<folder>/<two hex digits>/<rest>`, named by a digest of the remote file's name, ETag and size and of
the range. It is written beside and renamed, so that a killed process leaves nothing half-written under an entry's name, and it
begins with a digest of its content, checked when a process first uses it. Several processes share a folder: a range is fetched
by whoever holds its claim, the others wait for the file.

Because the order is known ahead, whoever stores a range can say when it is needed next. When the limit is reached, what is
needed last goes first (Belady, 1966); what nobody said anything about goes by its last use. Only entries are ever deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.spec import Bytes

_MAGIC = b"PSTKBC01"
#: Magic, digest of what follows it, length of the content.
_HEADER = struct.Struct("<8s16sq")
#: Left free on the disk.
RESERVE_BYTES = 1 << 30
#: An entry that is being written is younger than this; older scratch files were left by killed processes.
_SCRATCH_S = 3600
#: When the limit is reached, this share of it is freed at once, so that not every store has to look for what to delete.
_FREED_SHARE = 0.02
#: The folder is counted again after this share of the limit was stored, since other processes store too.
_RECOUNT_SHARE = 0.05


@dataclass(frozen=True)
class Entry:
    """A file of the cache, as a listing tells it."""

    path: str
    size: int
    used_at: float


class Claim:
    """The right to fetch an entry."""

    def __init__(self, path: str, handle: int) -> None:
        self._path, self._handle = path, handle

    def release(self) -> None:
        """Lets others look for the entry, or fetch it."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._handle)


def entry_name(path: str, etag: str, size: int, offset: int, length: int) -> str:
    """64 hex digits for a range of a remote file as it is now."""
    text = f"{path}\0{etag}\0{size}\0{offset}\0{length}"
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


class RangeCache:
    """Ranges on the local disk, `limit_bytes` of them at most; `folder` must belong to this user alone."""

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self.folder, self.limit_bytes = folder, limit_bytes
        self._checked: set[str] = set()
        self._next_use: dict[str, int] = {}
        self._lock = threading.Lock()
        self._held_bytes = -1  # not counted yet
        self._stored_bytes = 0
        self.evicted = 0

    def get(self, name: str, length: int) -> Bytes | None:
        """The content of an entry; None if it is not there, or damaged (then it is removed)."""
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                content = np.fromfile(file, dtype=np.uint8)
        except OSError:
            return None
        data = content[_HEADER.size :]
        if name not in self._checked:
            if not _is_whole(content, length):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                return None
            self._checked.add(name)
        if len(data) != length:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return data

    def put(self, name: str, data: Bytes, next_use: int | None = None) -> bool:
        """Keeps a range; whether it was kept: not if everything else is needed sooner, nor without room on the disk."""
        size = _HEADER.size + len(data)
        if size > self.limit_bytes or not self._make_room(size, next_use):
            return False
        path = self._path(name)
        scratch = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(scratch, "wb") as file:
                file.write(_HEADER.pack(_MAGIC, _digest(data), len(data)))
                file.write(data.data)
            os.replace(scratch, path)
        except OSError:  # the disk is full, or the folder was removed: the data is there all the same
            with contextlib.suppress(OSError):
                os.unlink(scratch)
            return False
        with self._lock:
            self._checked.add(name)
            self._held_bytes += size
            self._stored_bytes += size
            if next_use is not None:
                self._next_use[name] = next_use
        return True

    def expect(self, name: str, next_use: int) -> None:
        """Says when an entry is needed next."""
        with self._lock:
            self._next_use[name] = next_use

    def claim(self, name: str, *, wait: bool) -> Claim | None:
        """The right to fetch an entry, None if another has it; with `wait`, as soon as the other has let go of it.

        Look again for the entry afterwards. A killed process lets go of its claims.
        """
        path = self._path(name) + ".claim"
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(handle)
            return None
        return Claim(path, handle)

    def entries(self) -> list[Entry]:
        """All entries, in no order."""
        return [entry for entry, is_scratch in self._files() if not is_scratch]

    def verify(self) -> list[str]:
        """Reads everything; removes what is damaged, and gives the paths of that."""
        damaged = []
        for entry in self.entries():
            content = np.fromfile(entry.path, dtype=np.uint8)
            if not _is_whole(content, len(content) - _HEADER.size):
                os.unlink(entry.path)
                damaged.append(entry.path)
        return damaged

    def clear(self) -> int:
        """Removes all entries, and nothing else; gives their bytes."""
        freed = 0
        for entry, _ in self._files():
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
                freed += entry.size
        with self._lock:
            self._held_bytes = -1
        return freed

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name[:2], name[2:])

    def _files(self) -> Iterator[tuple[Entry, bool]]:
        """Entries, and scratch files that are still being written (True)."""
        for first in range(256):
            try:
                inside = os.scandir(os.path.join(self.folder, f"{first:02x}"))
            except OSError:
                continue
            with inside:
                for found in inside:
                    with contextlib.suppress(OSError):
                        status = found.stat(follow_symlinks=False)
                        is_scratch = found.name.endswith((".tmp", ".claim"))
                        if is_scratch and time.time() - status.st_mtime > _SCRATCH_S:
                            os.unlink(found.path)
                        elif is_scratch or len(found.name) == 62:
                            yield Entry(found.path, status.st_size, status.st_mtime), is_scratch

    def _make_room(self, size: int, next_use: int | None) -> bool:
        """Whether `size` more bytes may be stored, after deleting what is needed later than this."""
        with self._lock:
            if self._held_bytes < 0 or self._stored_bytes > _RECOUNT_SHARE * self.limit_bytes:
                self._held_bytes, self._stored_bytes = sum(entry.size for entry in self.entries()), 0
            over = self._held_bytes + size - self.limit_bytes
            if over > 0:
                self._evict(over + int(_FREED_SHARE * self.limit_bytes), next_use)
            fits = self._held_bytes + size <= self.limit_bytes
        status = os.statvfs(self.folder) if os.path.isdir(self.folder) else None
        return fits and (status is None or status.f_bavail * status.f_frsize > size + RESERVE_BYTES)

    def _evict(self, wanted: int, next_use: int | None) -> None:
        """Deletes about `wanted` bytes: what nobody knows about, the longest unused first, then what is needed last first.

        What is needed before `next_use` stays.
        """
        found = self.entries()
        self._held_bytes = sum(entry.size for entry in found)
        known = {self._path(name): when for name, when in self._next_use.items()}
        unknown = sorted((entry for entry in found if entry.path not in known), key=lambda entry: entry.used_at)
        later = [entry for entry in found if entry.path in known and (next_use is None or known[entry.path] > next_use)]
        for entry in [*unknown, *sorted(later, key=lambda entry: -known[entry.path])]:
            if wanted <= 0:
                return
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
            name = "".join(entry.path.rsplit("/", 2)[1:])
            self._next_use.pop(name, None)
            self._checked.discard(name)
            self._held_bytes -= entry.size
            wanted -= entry.size
            self.evicted += 1


def _digest(data: Bytes) -> bytes:
    return hashlib.blake2b(data.data, digest_size=16).digest()


def _is_whole(content: Bytes, length: int) -> bool:
    if length < 0 or len(content) != _HEADER.size + length:
        return False
    magic, digest, size = _HEADER.unpack_from(content[: _HEADER.size].tobytes())
    return bool(magic == _MAGIC and size == length and digest == _digest(content[_HEADER.size :]))
