"""Unfinished files: they become whole files or vanish, also if their process is killed, and a full disk is a clear error.

They are in a folder beside their targets, and each is locked by its process until it is finished. The system releases the
lock however the process ends, so the next one to open the folder can tell leftovers from work in progress.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator

from penstock.core.errors import StorageError

#: Name of the folder, beside the targets.
FOLDER = "scratch"
#: How much stays free on the disk, or half of what is free if that is less.
RESERVE_BYTES = 256 << 20
#: Errors of a full or read-only disk, and of missing permission.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_REFUSED = (errno.EACCES, errno.EPERM)
#: Where files cannot be locked, one that was not written to for so long is a leftover.
_STALE_S = 24 * 3600.0


def scratch_path(target: str) -> str:
    """A path for a file that its process locks, and later moves to `target`."""
    folder = os.path.join(os.path.dirname(target), FOLDER)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, uuid.uuid4().hex)


@contextlib.contextmanager
def scratch_file(target: str) -> Iterator[str]:
    """An empty file to fill and move to `target`. If it was not moved, it is removed when the context ends."""
    path, handle = _locked_file(target)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        unlock(handle)


@contextlib.contextmanager
def whole_file(target: str) -> Iterator[str]:
    """A path to write a file to, which becomes `target` if nothing fails meanwhile."""
    with scratch_file(target) as scratch:
        yield scratch
        os.replace(scratch, target)


def _locked_file(target: str) -> tuple[str, int]:
    while True:
        path = scratch_path(target)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return path, handle
        os.close(handle)  # removed before it was locked


def unlock(handle: int) -> None:
    """Release a file's lock and close it. Closing alone is not enough: a child forked meanwhile has it open too."""
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def sweep(folder: str) -> None:
    """Remove a folder's unfinished files whose processes have ended."""
    with contextlib.suppress(OSError), os.scandir(os.path.join(folder, FOLDER)) as entries:
        for entry in entries:
            _remove_if_left(entry.path)


def _remove_if_left(path: str) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        except BlockingIOError:
            pass  # in progress
        except OSError:
            if time.time() - os.fstat(handle).st_mtime > _STALE_S:
                os.unlink(path)
        finally:
            os.close(handle)


def usable_bytes(folder: str) -> int:
    """How many bytes may be written to a folder's disk."""
    free = shutil.disk_usage(folder).free
    return free - min(RESERVE_BYTES, free // 2)


def check_room(where: str, folder: str, needed_bytes: int, what: str) -> None:
    """Raise StorageError if a disk has no room for `what`, made from `where`."""
    if needed_bytes > usable_bytes(folder):
        raise no_room(where, folder, needed_bytes, what)


def no_room(where: str, folder: str, needed_bytes: int, what: str, found: str = "") -> StorageError:
    """The error that says where room is needed, how much, and what to do; `errno` is ENOSPC."""
    usable = usable_bytes(folder)
    error = StorageError(
        f"{where}: no room for {what} below {folder}: {found + ', ' if found else ''}at least {needed_bytes:,} bytes are needed, and "
        f"{max(0, usable):,} are usable on that disk; free some, or point XDG_CACHE_HOME to a larger disk"
    )
    error.errno = errno.ENOSPC
    return error


@contextlib.contextmanager
def room_errors(where: str, folder: str, needed_bytes: int, what: str) -> Iterator[None]:
    """Turn the system's error for a full or read-only disk into our StorageError. where: "" for the file that the error names."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        is_refused = error.errno in _REFUSED and str(error.filename or "").startswith(folder)
        if error.errno not in _FULL and not is_refused:
            raise
        raise no_room(where or str(error.filename), folder, needed_bytes, what, str(error.strerror)) from None
