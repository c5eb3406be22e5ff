"""Files and folders that exporters write: checked when a loader is made, and never left with half a piece in them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.core.errors import PlanError
from penstock.core.files.plain_file import kind_of
from penstock.core.messages import quoted


def local_path(exporter: str, target: str, example: str) -> str:
    """The path that a target is; PlanError for none and for URLs."""
    if not target:
        raise PlanError(f"observe={exporter!r}: it needs a target; write {quoted(f'{exporter}:{example}')}")
    if "://" in target:
        raise PlanError(
            f"observe={exporter!r}: it writes to this machine's disk, not to URLs; name a path as in {quoted(f'{exporter}:{example}')}"
        )
    if "\0" in target:
        raise PlanError(f"observe={exporter!r}: {quoted(target)} is no path; name one as {quoted(example)}")
    return target


def cannot_be_written(exporter: str, path: str, error: OSError) -> PlanError:
    """The error for a path that cannot be used."""
    return PlanError(
        f"observe={exporter!r}: {path}: {error.strerror or error}; name a place on this machine that can be written"
    )


def open_file(exporter: str, path: str, *, append: bool) -> int:
    """The handle of a regular file, made if it is not there; PlanError for anything else."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_APPEND if append else 0)
    try:
        if folder := os.path.dirname(path):
            os.makedirs(folder, exist_ok=True)
        handle = os.open(path, flags, 0o644)
        kind = os.fstat(handle).st_mode
        if not stat.S_ISREG(kind):
            os.close(handle)
            raise OSError(errno.EINVAL, f"it is {kind_of(kind)}")
    except OSError as error:
        raise cannot_be_written(exporter, path, error) from error
    return handle


def usable_folder(exporter: str, path: str) -> str:
    """A folder, made if it is not there, in which files can be made; PlanError otherwise."""
    trial = os.path.join(path, f".penstock-{os.getpid()}")
    try:
        os.makedirs(path, exist_ok=True)
        with open(trial, "wb"):
            pass
        os.unlink(trial)
    except OSError as error:
        raise cannot_be_written(exporter, path, error) from error
    return path


def write_all(handle: int, piece: bytes, offset: int | None = None) -> None:
    """Writes a whole piece, at the end or at an offset."""
    view = memoryview(piece)
    while view:
        count = os.write(handle, view) if offset is None else os.pwrite(handle, view, offset)
        view, offset = view[count:], None if offset is None else offset + count


class AppendedFile:
    """A file to which several processes may add pieces. One that the disk has no room for is taken back."""

    def __init__(self, exporter: str, path: str) -> None:
        self._handle = open_file(exporter, path, append=True)

    def append(self, piece: bytes) -> None:
        """Adds a piece."""
        with self.locked() as handle:
            before = os.fstat(handle).st_size
            try:
                write_all(handle, piece)
            except OSError:
                os.ftruncate(handle, before)
                raise

    @contextmanager
    def locked(self) -> Iterator[int]:
        """The handle, while no other process adds anything, where the file system has locks."""
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            yield self._handle
        finally:
            with suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Closes it."""
        os.close(self._handle)
