"""Opening a file that a user names: a pipe, a socket or a device under its name is an error, and never waited for."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_plain(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, opened to be read; OSError for anything else."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, f"it is {kind_of(kind)}", os.fspath(path))


def kind_of(mode: int) -> str:
    """What a file is that is none, in words: kind_of(os.stat("/dev/null").st_mode) == "a device"."""
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a named pipe", stat.S_ISSOCK: "a socket"}
    return next((words for is_it, words in kinds.items() if is_it(mode)), "a device")
