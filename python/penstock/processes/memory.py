"""Memory that two processes share. It has no name: when both are gone, so is it, however they ended.

Whoever makes something in a region sends the place of it, and copies nothing. The other process maps the region when it first receives a place in it.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import tempfile
import weakref
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, Self

import numpy as np

from penstock.core.columns.spec import Bytes
from penstock.runtime.slots import aligned, room_of

#: This process, or the machine, has as many files open as it may.
NO_FILES = (errno.EMFILE, errno.ENFILE)
#: Smaller memory is not worth a mapping: it travels with the message.
LARGE_BYTES = 1 << 14

_FLAGS = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)  # one call of the system for all pages
#: Regions of a process, or one for so many files that it may open: each takes a descriptor, and another one until it was sent. And those that it holds of others'.
_MOST, _FILES_FOR_EACH = 200, 8
_MOST_HELD, _FILES_FOR_HELD = 16, 32


def few_regions() -> int:
    """How many regions an end holds views of where there are many links."""
    return _part_of_files(_MOST_HELD, _FILES_FOR_HELD)


def _part_of_files(most: int, part: int) -> int:
    """At most `most`, and no more than one for so many files that this process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files == resource.RLIM_INFINITY else min(most, files // part)


class Region:
    """A piece of memory with a number. descriptor: for the other process, -1 once it has it. is_lost: others may still look at it, so that nothing is made in it again."""

    def __init__(self, number: int, memory: mmap.mmap, descriptor: int) -> None:
        self.number, self.descriptor, self.is_lost = number, descriptor, False
        self.whole: Bytes = np.frombuffer(memory, dtype=np.uint8)
        self.__array_interface__ = self.whole.__array_interface__

    def close_descriptor(self) -> None:
        """The other process has it."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close_descriptor()


class Spot(NamedTuple):
    """Where bytes lie: in a region, from an offset on. array: keeps the memory."""

    region: Region
    offset: int
    array: Bytes


class Regions:
    """The regions of this process: memory for `runtime.slots`. Beyond what descriptors allow it is of the ordinary kind."""

    room_of = staticmethod(room_of)

    def __init__(self) -> None:
        self._most = _part_of_files(_MOST, _FILES_FOR_EACH)
        self._known = dict[int, tuple[int, int, LastUse]]()
        self._ended = deque[LastUse]()
        self._gone = deque[int]()
        self._numbers = count()

    def __call__(self, size: int) -> Any:
        """Memory of `size` bytes; MemoryError where there is not that much."""
        self._collect()
        if size < LARGE_BYTES or len(self._known) >= self._most:
            return aligned(size)
        try:
            descriptor, memory = _new_memory(size)
        except OSError as error:
            if error.errno not in NO_FILES:
                raise
            return aligned(size)
        region = Region(next(self._numbers), memory, descriptor)
        address = region.whole.ctypes.data
        self._known[region.number] = address, address + size, LastUse(region, self._ended.append, region.number)
        return region

    def spot(self, array: Bytes) -> Spot | None:
        """Where an array lies, None where that is in no region."""
        address = array.ctypes.data
        for first, end, known in list(self._known.values()):
            if first <= address < end and (region := known()) is not None:
                return Spot(region, address - first, array)
        return None

    def forgotten(self) -> list[int]:
        """The numbers of regions that are gone since the last call."""
        self._collect()
        return [self._gone.popleft() for _ in range(len(self._gone))]

    def _collect(self) -> None:
        while self._ended:
            number = self._ended.popleft().number
            self._known.pop(number, None)
            self._gone.append(number)


class LastUse(weakref.ref[Any]):
    """Knows something that others hold, by a number; `ended` is called with this when the last of them lets go.

    By native code: Python code at the end of a thing would swallow a Ctrl-C that reaches it (see `runtime.slots`). forks: of this process, before it was given.
    """

    __slots__ = ("forks", "number")

    def __new__(cls, thing: Any, ended: Callable[[LastUse], None], number: int, forks: int = 0) -> Self:  # noqa: D102  # see the class
        made = super().__new__(cls, thing, ended)
        made.number, made.forks = number, forks
        return made

    def __init__(self, thing: Any, ended: Callable[[LastUse], None], number: int, forks: int = 0) -> None:
        super().__init__(thing, ended)  # type: ignore[call-arg]  # the stub does not know weakref.ref's own

    number: int
    forks: int


def mapped(descriptor: int, size_bytes: int) -> mmap.mmap:
    """The memory behind a descriptor."""
    return mmap.mmap(descriptor, size_bytes, flags=_FLAGS)


def _new_memory(size_bytes: int) -> tuple[int, mmap.mmap]:
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
        raise MemoryError(f"{size_bytes:,} bytes to share with another process: {error}") from error


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):  # counts as memory, and not against the size of /dev/shm
        return os.memfd_create("penstock", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # it has no name from the beginning
        return os.dup(file.fileno())
