"""How two processes talk: messages over a socket, large buffers in memory that both map.

A message is pickled (protocol 5). Its large buffers go into a region, which belongs to the sender. The receiver gets views of it. When the last of
them is gone, its next message says so, and the sender uses the region again: nothing is mapped, or filled with zeros, twice.
Both ends are the same program, and what is unpickled comes from a process that this one started, or that started this one.
"""

from __future__ import annotations

import array
import mmap
import os
import pickle
import select
import socket
import struct
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.spec import Bytes, Columns
from penstock.engine.workers.memory import mapped, new_region, rounded

#: Shorter buffers travel with the message.
_LARGE_BYTES = 1 << 14
_ALIGNMENT = 64
#: A receiver holds views of no more regions: each takes a descriptor. What comes then is copied.
_MOST_HELD = 16

_HEADER = struct.Struct("<QQ?")
_DESCRIPTOR_BYTES = array.array("i").itemsize


class EndedError(Exception):
    """The other process is gone. ending: what ended it, where that is known."""

    ending = ""


@dataclass(frozen=True)
class _Envelope:
    """What goes before a message. region: that of its buffers, of so many bytes; None without any. places: (offset, length) of each buffer.

    released: regions of the receiver, of which the sender holds no more views. forgotten: regions of the sender, which it uses no more.
    """

    region: int | None
    size_bytes: int
    places: list[tuple[int, int]]
    released: list[int]
    forgotten: list[int]


class Link:
    """One end. Used by one thread at a time; views may die on any."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._mine = dict[int, mmap.mmap]()
        self._free = set[int]()
        self._theirs = dict[int, mmap.mmap]()
        self._held = 0
        self._released = deque[int]()
        self._forgotten = list[int]()
        self._next_region = 0

    def send(self, message: Any) -> None:
        """Sends a message, and holds nothing of it. EndedError where nobody is there."""
        head, buffers = _pickled(message)
        del message
        region, size_bytes, descriptor = None, 0, -1
        places = _places(buffers)
        if buffers:
            region, descriptor = self._region_of(sum(places[-1]))
            size_bytes = len(self._mine[region])
            _copy(buffers, self._mine[region], places)
        del buffers  # views that the message alone held are gone with it
        try:
            envelope = pickle.dumps(_Envelope(region, size_bytes, places, self._drained(), self._forgotten))
            self._forgotten = []
            self._put(envelope, head, descriptor)
        except OSError as error:
            raise EndedError from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def receive(self) -> Any:
        """The next message; EndedError where the other end is closed."""
        try:
            header, descriptor = self._take_header()
            envelope_bytes, head_bytes, _ = _HEADER.unpack(header)
            envelope: _Envelope = pickle.loads(self._take(envelope_bytes))  # noqa: S301  # ours, here and below
            head = self._take(head_bytes)
        except OSError as error:
            raise EndedError from error
        self._free |= {*envelope.released}
        for number in envelope.forgotten:
            self._theirs.pop(number, None)
        if descriptor >= 0:
            assert envelope.region is not None
            try:
                self._theirs[envelope.region] = mapped(descriptor, envelope.size_bytes)
            finally:
                os.close(descriptor)
        return pickle.loads(head, buffers=self._buffers(envelope))  # noqa: S301

    def wait(self, timeout_s: float) -> bool:
        """Whether there is something to receive, the end included, within a time."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def wait_for_end(self) -> None:
        """Returns when the other end is closed."""
        poll = select.poll()
        poll.register(self._socket, 0)  # an end is told all the same
        poll.poll()

    def close(self) -> None:
        """Closes this end; views of memory stay valid."""
        self._socket.close()
        self._mine.clear()
        self._theirs.clear()

    # Regions

    def _region_of(self, size_bytes: int) -> tuple[int, int]:
        """A free region of at least so many bytes, and the descriptor of a new one, or -1."""
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

    def _buffers(self, envelope: _Envelope) -> list[Any]:
        if envelope.region is None:
            return []
        whole = np.frombuffer(self._theirs[envelope.region], dtype=np.uint8)  # lives as long as any view of it
        self._held += 1
        weakref.finalize(whole, self._released.append, envelope.region).atexit = False
        views = [whole[first : first + length] for first, length in envelope.places]
        if self._held - len(self._released) > _MOST_HELD:
            return [view.copy() for view in views]
        return [*views]

    def _drained(self) -> list[int]:
        drained = list[int]()
        while self._released:
            drained.append(self._released.popleft())
        self._held -= len(drained)
        return drained

    # The socket

    def _put(self, envelope: bytes, head: bytes, descriptor: int) -> None:
        header = _HEADER.pack(len(envelope), len(head), descriptor >= 0)
        if descriptor >= 0:
            rights = array.array("i", [descriptor])
            sent = self._socket.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            self._socket.sendall(header[sent:] + envelope)
        else:
            self._socket.sendall(header + envelope)
        self._socket.sendall(head)

    def _take_header(self) -> tuple[bytes, int]:
        """The header, and the descriptor that came with it, or -1."""
        header, descriptor = b"", -1
        while len(header) < _HEADER.size:
            room, flags = socket.CMSG_LEN(_DESCRIPTOR_BYTES), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            some, control, _, _ = self._socket.recvmsg(_HEADER.size - len(header), room, flags)
            if not some:
                raise EndedError
            header += some
            for _, _, rights in control:
                descriptor = array.array("i", rights[:_DESCRIPTOR_BYTES])[0]
        return header, descriptor

    def _take(self, size_bytes: int) -> bytearray:
        taken, done = bytearray(size_bytes), 0
        with memoryview(taken) as view:
            while done < size_bytes:
                some = self._socket.recv_into(view[done:])
                if not some:
                    raise EndedError
                done += some
        return taken


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
