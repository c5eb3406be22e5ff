"""Room in the cache: keeps a folder of derived files below its limit, without removing files in use.

A process that uses files holds a lease: a file (in a folder beside) that lists their names, and is locked as long as the process
holds it. Files in no lease are evicted, least recently used first. Everything happens under one lock, so that several processes
agree. Where locks do not work (some network file systems), nothing is evicted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator

from penstock.core.files.cache_dirs import room_bytes
from penstock.core.files.scratch import FOLDER as SCRATCH
from penstock.core.files.scratch import unlock, usable_bytes

#: Where earlier versions wrote unfinished files. One that was not written to for so long is a leftover.
_STALE_S = 24 * 3600.0
_LOCK = "lock"


def hold(folder: str, names: Iterable[str]) -> Callable[[], None]:
    """Protect files, existing or not, from eviction until the returned function is called."""
    listed = list(names)
    with _locked(folder):
        try:
            path = os.path.join(_desk(folder), uuid.uuid4().hex)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno == errno.EROFS:  # nothing is evicted there
                return lambda: None
            raise
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            os.write(handle, "\n".join(listed).encode())
        except OSError:
            _release(path, handle)
            raise
        for name in listed:
            with contextlib.suppress(OSError):
                os.utime(os.path.join(folder, name))
    return lambda: _release(path, handle)


def _desk(folder: str) -> str:
    """The folder of a folder's leases."""
    desk = folder.rstrip("/") + ".leases"
    os.makedirs(desk, mode=0o700, exist_ok=True)
    return desk


def _release(path: str, handle: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        unlock(handle)


def make_room(folder: str, wanted_bytes: int = 0, reserve: str = "") -> bool:
    """Evict files in no lease, least recently used first, until `wanted_bytes` more fit into the folder's limit and on its disk.

    Returns whether they fit now. reserve: the unfinished file that will take them; it gets that length at once if so, and other processes count it.
    """
    limit = room_bytes(folder)
    with _locked(folder) as locked:
        if not locked:
            return True
        held = _held(folder)
        files = sorted(_files(folder))
        excess = sum(size for _, size, _ in [*files, *_files(os.path.join(folder, SCRATCH))]) + wanted_bytes - limit
        excess = max(excess, wanted_bytes - usable_bytes(folder))
        for used, size, name in files:
            abandoned = name.endswith(".tmp") and time.time() - used > _STALE_S
            removable = abandoned or (excess > 0 and name not in held and not name.endswith(".tmp"))
            if removable:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
                    excess -= size
        if reserve and excess <= 0:
            os.truncate(reserve, wanted_bytes)
        return excess <= 0


def _files(folder: str) -> Iterator[tuple[float, int, str]]:
    """The time of last use, the size and the name of every file of data."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    yield found.st_mtime, found.st_size, entry.name


def _held(folder: str) -> set[str]:
    """The names in leases of living processes; leases of dead ones are removed."""
    held: set[str] = set()
    with os.scandir(_desk(folder)) as entries:
        leases = [entry.path for entry in entries if entry.name != _LOCK]
    for path in leases:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            except BlockingIOError:
                held.update(file.read().decode().split("\n"))
    return held


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[bool]:
    """Take the folder's lock; yields whether it was acquired."""
    with contextlib.ExitStack() as left:
        try:
            handle = os.open(os.path.join(_desk(folder), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            left.callback(unlock, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
            is_locked = True
        except OSError:
            is_locked = False
        yield is_locked
