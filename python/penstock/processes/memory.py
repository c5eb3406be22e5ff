"""Memory that two processes share, which has no name: when both are gone, so is it, however they ended."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile

#: This process, or the machine, has as many files open as it may.
NO_FILES = (errno.EMFILE, errno.ENFILE)

_FLAGS = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)  # one call of the system for all pages
#: Regions grow in such steps, at least, and in quarters of their size, so that batches of about one size use the same ones.
_STEP_BYTES = 1 << 16


def rounded(size_bytes: int) -> int:
    """The size of a region for so many bytes: rounded(100_000) == 131_072."""
    step = max(_STEP_BYTES, 1 << max(0, size_bytes.bit_length() - 3))
    return -(-size_bytes // step) * step


def new_region(size_bytes: int) -> tuple[int, mmap.mmap]:
    """A file descriptor, which the other process gets, and the mapping here. MemoryError where there is not that much memory, OSError for files."""
    descriptor = _anonymous()
    try:
        os.ftruncate(descriptor, size_bytes)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size_bytes)  # memory that is lacking is an error here, and a signal later
        return descriptor, mapped(descriptor, size_bytes)
    except OSError as error:
        os.close(descriptor)
        if error.errno in NO_FILES:
            raise
        raise MemoryError(f"{size_bytes:,} bytes to share with a process of workers='process': {error}") from error


def mapped(descriptor: int, size_bytes: int) -> mmap.mmap:
    """The memory behind a descriptor."""
    return mmap.mmap(descriptor, size_bytes, flags=_FLAGS)


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):  # counts as memory, and not against the size of /dev/shm
        return os.memfd_create("penstock", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # it has no name from the beginning
        return os.dup(file.fileno())
