"""One maker at a time: processes and threads that need the same derived files make them once, and the others wait.

Whoever makes them holds a lock on a file, writes its process number there, and touches it every second. Whoever waits for long says for
whom. A maker that does not touch its file any more is stopped (by a debugger, or a signal), and the others go on without it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator

from penstock.core.cancel import StoppedError, is_stopped
from penstock.core.files.scratch import FOLDER, unlock
from penstock.core.warnings import warn

#: Seconds between two tries to get a lock, and between two signs of life.
_LOOK_S, _ALIVE_S = 0.05, 1.0
#: Seconds after which a waiting process logs the lock's owner.
_WARN_S = 10.0
#: Seconds without a sign of life after which a maker is taken for stopped.
_GIVE_UP_S = 60.0


@contextlib.contextmanager
def one_maker(folder: str, names: Iterable[str]) -> Iterator[None]:
    """Let one process or thread at a time make the same files of a folder, so that ranks that start together make them once.

    After entering, check which files exist by now. Where files cannot be locked, nobody waits; for a stopped process, a minute at most.
    """
    key = hashlib.blake2b("\n".join(sorted(names)).encode(), digest_size=16).hexdigest()
    path = os.path.join(folder, FOLDER, f"{key}.lock")
    with contextlib.ExitStack() as left:
        with contextlib.suppress(OSError):  # a read-only folder; writing there raises a clear error
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            if (handle := _LockWait(path).lock()) is not None:
                left.callback(unlock, handle)
                left.callback(_unlink, path)
                left.enter_context(_alive(handle))
        yield


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextlib.contextmanager
def _alive(handle: int) -> Iterator[None]:
    """Say who makes the files, and touch the lock's file as long as this process runs."""
    os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    done = threading.Event()

    def touch() -> None:
        while not done.wait(_ALIVE_S):
            with contextlib.suppress(OSError):
                os.utime(handle)

    thread = threading.Thread(target=touch, name="penstock-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class _LockWait:
    """Waiting for a lock: who holds it, since when, and when that process last gave a sign of life."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begin = self._sign_at = time.monotonic()
        self._sign: tuple[int, int] | None = None
        self._has_warned = False

    def lock(self) -> int | None:
        """The locked file; None if its maker is stopped. Only opens it if the file system has no locks."""
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                try:
                    if self._is_over(handle):
                        return None
                finally:
                    os.close(handle)
                time.sleep(_LOOK_S)
                continue
            except OSError:
                return handle
            if os.fstat(handle).st_nlink:
                return handle
            os.close(handle)  # its last holder removed it before it was locked

    def _is_over(self, handle: int) -> bool:
        """Whether the maker shows no life any more; warns once if it takes long, StoppedError if nobody wants the files now."""
        if is_stopped():
            raise StoppedError
        now, found = time.monotonic(), os.fstat(handle)
        if (sign := (found.st_ino, found.st_mtime_ns)) != self._sign:
            self._sign, self._sign_at = sign, now
        is_over = now - self._sign_at > _GIVE_UP_S
        if is_over or (now - self._begin > _WARN_S and not self._has_warned):
            self._has_warned = True
            maker = os.pread(handle, 1000, 0).decode(errors="replace") or "another process"
            state = (
                f"stopped {_GIVE_UP_S:.0f} s ago while it made the same files; they are made here again"
                if is_over
                else "is making the same files; waiting for it"
            )
            warn(f"{os.path.dirname(os.path.dirname(self._path))}: {maker} {state}")
        return is_over
