"""Room in the cache: a folder of files that can be made again is kept below a size, and what is in use stays.

Who uses files holds a lease: a file (in a folder beside) that lists their names and is locked as long as its process keeps it.
Files that no lease names are removed, those used least recently first. Everything happens under one lock, so that several
processes agree; where locks do not work (some network file systems), nothing is removed.
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

from penstock.core.cache_dirs import room_bytes
from penstock.core.scratch import FOLDER as SCRATCH
from penstock.core.scratch import unlock, usable_bytes

#: Earlier versions wrote here what they made. A file that is written is touched all the time; one that was not for so long is left over.
_STALE_S = 24 * 3600.0
_LOCK = "lock"


def hold(folder: str, names: Iterable[str]) -> Callable[[], None]:
    """Keeps files, there already or yet to come, from being removed until the returned function is called."""
    listed = list(names)
    with _locked(folder):
        try:
            path = os.path.join(_desk(folder), uuid.uuid4().hex)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno == errno.EROFS:  # nobody removes anything there
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
    """Where the leases of a folder lie."""
    desk = folder.rstrip("/") + ".leases"
    os.makedirs(desk, mode=0o700, exist_ok=True)
    return desk


def _release(path: str, handle: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        unlock(handle)


def make_room(folder: str, wanted_bytes: int = 0) -> None:
    """Removes files that nobody holds, the least recently used first, until `wanted_bytes` more fit into the folder's room and on its disk."""
    limit = room_bytes(folder)
    with _locked(folder) as locked:
        if not locked:
            return
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


def _files(folder: str) -> Iterator[tuple[float, int, str]]:
    """When it was last used, bytes, and name of every file of data."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    yield found.st_mtime, found.st_size, entry.name


def _held(folder: str) -> set[str]:
    """The names that leases of living processes list; leases of dead ones are removed."""
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
    """The folder's lock, and whether it could be had at all."""
    try:
        handle = os.open(os.path.join(_desk(folder), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False
        return
    try:
        yield _is_locked(handle)
    finally:
        unlock(handle)


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return False
    return True
