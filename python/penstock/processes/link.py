"""How two processes talk: messages over a socket, large buffers in memory that both map.

A message is pickled (protocol 5). Its large buffers go into a region, which belongs to the sender. The receiver gets views of it. When the last of
them is gone, its next message says so, and the sender uses the region again: nothing is mapped, or filled with zeros, twice.
Where the sender may open no more files, buffers travel with the message.
Both ends are the same program, and what is unpickled comes from a process that this one started, or that started this one.
"""

from __future__ import annotations

import mmap
import os
import pickle
import resource
import select
import socket
import struct
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import ProcessError
from penstock.core.spec import Bytes, Columns
from penstock.processes.memory import NO_FILES, mapped, new_region, rounded
from penstock.processes.wire import Wire

#: Shorter buffers travel with the message.
_LARGE_BYTES = 1 << 14
_ALIGNMENT = 64
#: A receiver holds views of no more regions, nor of more than one for so many files that it may open: each takes a descriptor. What comes then is copied.
_MOST_HELD, _FILES_FOR_EACH = 16, 32

#: Lengths of the notes and of the message, and whether a descriptor comes with them.
_HEADER = struct.Struct("<QQ?")


class Link:
    """One end. One thread at a time sends, and one receives; views may die on any.

    Notes go before a message that has any: (region of its buffers or None, its size, (offset, length) of each buffer, regions of the receiver of which
    the sender holds no more views, regions of the sender that it uses no more).
    """

    def __init__(self, connection: socket.socket, look: Callable[[], None] | None = None) -> None:
        self._wire = Wire(connection, look)
        # The sender's:
        self._mine = dict[int, mmap.mmap]()
        self._free = set[int]()
        self._forgotten = list[int]()
        self._next_region, self._told = 0, 0
        # The receiver's:
        self._theirs = dict[int, mmap.mmap]()
        self._lent = 0
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_held = _MOST_HELD if files == resource.RLIM_INFINITY else min(_MOST_HELD, files // _FILES_FOR_EACH)
        # From any thread to the sender:
        self._returned, self._released = deque[int](), deque[int]()

    def send(self, message: Any) -> None:
        """Sends a message, and holds nothing of it. EndedError where nobody is there."""
        head, buffers = _pickled(message)
        places, region, size_bytes, descriptor = _places(buffers), None, 0, -1
        if buffers:
            try:
                region, descriptor = self._region_of(sum(places[-1]))
            except OSError as error:
                if error.errno not in NO_FILES:
                    raise
                head, buffers, places = pickle.dumps(message, protocol=5), [], []
        del message
        if region is not None:
            size_bytes = len(self._mine[region])
            _copy(buffers, self._mine[region], places)
        del buffers  # views that the message alone held are gone with it
        released, forgotten, self._forgotten = self._drained(), self._forgotten, []
        notes = b""
        if region is not None or released or forgotten:
            notes = pickle.dumps((region, size_bytes, places, released, forgotten))
        try:
            self._wire.put([_HEADER.pack(len(notes), len(head), descriptor >= 0), notes, head], descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def receive(self) -> Any:
        """The next message; EndedError where the other end is closed, ProcessError where this process may open no more files."""
        notes_bytes, head_bytes, has_descriptor = _HEADER.unpack(self._wire.take(_HEADER.size))
        if not notes_bytes:
            return pickle.loads(self._wire.take(head_bytes))  # noqa: S301  # ours, here and below
        region, size_bytes, places, released, forgotten = pickle.loads(self._wire.take(notes_bytes))  # noqa: S301
        head = self._wire.take(head_bytes)
        self._returned.extend(released)
        for number in forgotten:
            self._theirs.pop(number, None)
        if has_descriptor:
            self._theirs[region] = _mapped(self._wire.descriptor(), size_bytes)
        return pickle.loads(head, buffers=[] if region is None else self._views(region, places))  # noqa: S301

    def wait_for_end(self) -> None:
        """Returns when the other end is closed."""
        poll = select.poll()
        poll.register(self._wire.socket, 0)  # an end is told all the same
        poll.poll()

    def end(self) -> None:
        """Ends the talk: both ends, in all threads, find that the other is gone."""
        self._wire.end()

    def close(self) -> None:
        """Closes this end, which nobody uses any more; views of memory stay valid."""
        self._wire.close()
        self._mine.clear()
        self._theirs.clear()

    # Regions

    def _region_of(self, size_bytes: int) -> tuple[int, int]:
        """A free region of at least so many bytes, and the descriptor of a new one, or -1."""
        while self._returned:
            self._free.add(self._returned.popleft())
        wide = [number for number in self._free if len(self._mine[number]) >= size_bytes]
        if wide:
            number = min(wide, key=lambda number: len(self._mine[number]))
            self._free.remove(number)
            return number, -1
        for number in self._free:  # too small, as the batches to come will be
            del self._mine[number]
        self._forgotten += self._free
        self._free = set()
        descriptor, memory = new_region(rounded(size_bytes))
        number, self._next_region = self._next_region, self._next_region + 1
        self._mine[number] = memory
        return number, descriptor

    def _views(self, region: int, places: Sequence[tuple[int, int]]) -> list[Any]:
        whole = np.frombuffer(self._theirs[region], dtype=np.uint8)  # lives as long as any view of it
        self._lent += 1
        weakref.finalize(whole, self._released.append, region).atexit = False
        views = [whole[first : first + length] for first, length in places]
        if self._lent - self._told - len(self._released) > self._most_held:
            return [view.copy() for view in views]
        return [*views]

    def _drained(self) -> list[int]:
        drained = list[int]()
        while self._released:
            drained.append(self._released.popleft())
        self._told += len(drained)
        return drained


def _mapped(descriptor: int, size_bytes: int) -> mmap.mmap:
    """The memory behind a descriptor of the other process's, -1 where there was no room for it; closes that."""
    try:
        if descriptor >= 0:
            return mapped(descriptor, size_bytes)
    except OSError as error:
        if error.errno not in NO_FILES:
            raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    raise ProcessError(
        "workers='process': this process may open no more files, and each batch that is shared with another one needs one; raise the limit (ulimit -n), hold "
        "fewer batches, or use workers='thread'"
    )


def _pickled(message: Any) -> tuple[bytes, list[Bytes]]:
    """A message, and its large buffers, which do not travel with it."""
    large = list[Bytes]()

    def travels(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE_BYTES:
            return True
        large.append(np.frombuffer(raw, dtype=np.uint8))
        return False

    return pickle.dumps(message, protocol=5, buffer_callback=travels), large


def _places(buffers: Sequence[Bytes]) -> list[tuple[int, int]]:
    places, end = list[tuple[int, int]](), 0
    for buffer in buffers:
        places.append((end, len(buffer)))
        end += -(-len(buffer) // _ALIGNMENT) * _ALIGNMENT
    return places


def _copy(buffers: Sequence[Bytes], memory: mmap.mmap, places: Sequence[tuple[int, int]]) -> None:
    whole = np.frombuffer(memory, dtype=np.uint8)
    for buffer, (first, length) in zip(buffers, places, strict=True):
        np.copyto(whole[first : first + length], buffer)  # without the interpreter's lock


def sendable(columns: Columns) -> Columns:
    """The columns with their values alone and side by side: what is pickled of a slice is all that it was cut from, and of a view a copy."""
    return {
        name: _compact(column) if isinstance(column, pa.Array) else np.ascontiguousarray(column)
        for name, column in columns.items()
    }


def _compact(column: pa.Array) -> pa.Array:
    if column.get_total_buffer_size() <= 2 * column.nbytes + _LARGE_BYTES:
        return column
    return column.take(pa.array(np.arange(len(column))))


def pickled_error(error: BaseException, dumps: Any) -> bytes | None:
    """An error as it can be unpickled elsewhere; None where it cannot. dumps: pickles what `pickle` does not."""
    for attempt in (pickle.dumps, dumps):
        with suppress(Exception):
            made: bytes = attempt(error)
            if type(unpickled(made)).__name__ == type(error).__name__:
                return made
    return None


def unpickled(pickled: bytes) -> Any:
    """What another process pickled."""
    return pickle.loads(pickled)  # noqa: S301
