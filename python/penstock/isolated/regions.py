"""Memory that another process can map: slots are made of it, so that what lies in them travels as a place."""

from __future__ import annotations

import mmap
import os
import resource
import weakref
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, Self

import numpy as np

from penstock.core.spec import Bytes
from penstock.processes.memory import new_region
from penstock.runtime.slots import aligned, room_of

#: Smaller memory is not worth a mapping: it travels with the message.
LARGE_BYTES = 1 << 14
#: Each region takes a descriptor, and another one until it was sent.
_MOST, _PART_OF_DESCRIPTORS = 200, 8


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


class Place(NamedTuple):
    """Where bytes lie: in a region, from an offset on. array: keeps the memory."""

    region: Region
    offset: int
    array: Bytes


class Regions:
    """The regions of this process: memory for `runtime.slots`. Beyond what descriptors allow it is of the ordinary kind."""

    room_of = staticmethod(room_of)

    def __init__(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = _MOST if soft < 0 else min(_MOST, soft // _PART_OF_DESCRIPTORS)
        self._known = dict[int, tuple[int, int, _Known]]()
        self._ended = deque[_Known]()
        self._gone = deque[int]()
        self._numbers = count()

    def __call__(self, size: int) -> Any:
        """Memory of `size` bytes; MemoryError where there is not that much."""
        self._collect()
        if size < LARGE_BYTES or len(self._known) >= self._most:
            return aligned(size)
        descriptor, memory = new_region(size)
        region = Region(next(self._numbers), memory, descriptor)
        address = region.whole.ctypes.data
        # As in `runtime.slots`: Python code at the end of a thing would swallow a Ctrl-C that reaches it.
        self._known[region.number] = address, address + size, _Known(region, self._ended.append, region.number)
        return region

    def place(self, array: Bytes) -> Place | None:
        """Where an array lies, None where that is in no region."""
        address = array.ctypes.data
        for first, end, known in list(self._known.values()):
            if first <= address < end and (region := known()) is not None:
                return Place(region, address - first, array)
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


class _Known(weakref.ref[Region]):
    """A region that nobody is kept from letting go of; `ended` is called with this when it is gone."""

    __slots__ = ("number",)

    def __new__(cls, region: Region, ended: Callable[[_Known], None], number: int) -> Self:
        made = super().__new__(cls, region, ended)
        made.number = number
        return made

    def __init__(self, region: Region, ended: Callable[[_Known], None], number: int) -> None:
        super().__init__(region, ended)  # type: ignore[call-arg]  # the stub does not know weakref.ref's own

    number: int
