"""Locks between the processes that share a cache: one for writing, and claims on ranges in download.

The system releases both when a process ends, however it ends. Every wait has a timeout: if locks do not work (some network file
systems) or their holder is stopped, nothing is stored, and a range may be downloaded twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator

import numpy as np

from penstock.core.cancel import StoppedError, is_stopped
from penstock.core.columns.spec import Ids
from penstock.core.files.scratch import unlock

#: A writer holds the lock for milliseconds; one that holds it longer has stopped.
_LOCK_PATIENCE_S = 10.0
#: How long to wait for a claim: as long as requests with their retries.
_CLAIM_PATIENCE_S = 150.0
#: struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi4x")
_SPACE = 1 << 61


@contextlib.contextmanager
def locked(path: str) -> Iterator[bool]:
    """Take the lock of a cache; yields whether it was acquired."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield False
        return
    try:
        yield _wait(handle)
    finally:
        unlock(handle)


def _wait(handle: int) -> bool:
    end = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        except OSError:
            return False
        else:
            return True


class Claims:
    """The right to download intervals of remote files: locks on the same bytes of an empty file."""

    def __init__(self, path: str) -> None:
        self._handle = -1
        if hasattr(fcntl, "F_OFD_SETLK"):
            with contextlib.suppress(OSError):
                self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, first: Ids, length: Ids) -> Ids:
        """Claim intervals; returns the numbers of those that were free."""
        pairs = zip((first % _SPACE).tolist(), length.tolist(), strict=True)
        return np.array([row for row, (start, size) in enumerate(pairs) if self._try(start, size)], dtype=np.int64)

    def wait(self, first: int, length: int) -> bool:
        """Wait until an interval is free and claim it; False after a timeout. StoppedError if this thread's work was cancelled."""
        end = time.monotonic() + _CLAIM_PATIENCE_S
        pause_s = 0.001
        while not self._try(first % _SPACE, length):
            if is_stopped():
                raise StoppedError
            if time.monotonic() > end:
                return False
            time.sleep(pause_s)
            pause_s = min(0.02, 1.5 * pause_s)
        return True

    def release(self) -> None:
        """Release all claims."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with contextlib.suppress(OSError):  # a child forked meanwhile has the file open, too
                fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
            os.close(handle)

    def _try(self, first: int, length: int) -> bool:
        if self._handle < 0:
            return True
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, length, 0)
        try:
            fcntl.fcntl(self._handle, fcntl.F_OFD_SETLK, wanted)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True  # no locks here
        return True
