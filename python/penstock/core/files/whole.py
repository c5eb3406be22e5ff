"""Files that users asked for: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from penstock.core.errors import PlanError


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file beside its place and moves it there, so that who interrupts it finds the old one, or none; straight to what is no plain file, as /dev/stdout.

    Raises PlanError where it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _move_there(os.path.realpath(path), content)
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}; name a file that can be written") from None


class ReadyFile:
    """A file that is about to be written once, and soon: all that can be done before is done, so that two or three calls of the system are left for `write`.

    What it is written to has no name until then, so that a process that ends before leaves nothing. Where a file system has no such files, `write` does what `write_whole` does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place, self._descriptor = os.path.realpath(path), -1
        tmpfile = getattr(os, "O_TMPFILE", None)  # of Linux
        if tmpfile is None or (path.exists() and not path.is_file()):
            return
        self._beside = os.path.join(os.path.dirname(self._place), f".{os.path.basename(path)[:100]}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._descriptor = os.open(os.path.dirname(self._place), tmpfile | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            if path.exists():
                os.fchmod(self._descriptor, _mode_of(self._place))

    def write(self, content: bytes, *, at: Path) -> None:
        """As `write_whole`. at: where, should that be another place by now."""
        descriptor, self._descriptor = self._descriptor, -1
        try:
            is_written = descriptor >= 0 and at == self._path and self._write_ready(descriptor, content)
        except OSError:
            is_written = False  # what is wrong, the other way says
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if not is_written:
            write_whole(at, content)

    def _write_ready(self, descriptor: int, content: bytes) -> bool:
        if os.write(descriptor, content) < len(content):
            return False
        named = f"/proc/self/fd/{descriptor}"  # followed only where src_dir_fd is given, which counts for nothing else
        try:
            os.link(named, self._place, src_dir_fd=descriptor)
        except FileExistsError:
            os.link(named, self._beside, src_dir_fd=descriptor)
            try:
                os.replace(self._beside, self._place)
            except OSError:
                os.unlink(self._beside)
                raise
        return True

    def drop(self) -> None:
        """It is not written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _move_there(place: str, content: bytes) -> None:
    folder, name = os.path.split(place)
    handle, beside = tempfile.mkstemp(dir=folder, prefix=f".{name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), _mode_of(place))
        os.replace(beside, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _mode_of(place: str) -> int:
    """That of the file that is there, else what a new one gets."""
    with contextlib.suppress(OSError):
        return os.stat(place).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
