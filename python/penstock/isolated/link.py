"""How a loader and its child talk: pickled messages over a socket, large buffers in memory that both map.

What lies in a region of the sender (see `regions`) is not copied. The sender holds it until the other end says that nobody there looks at it any more.
What is unpickled comes from a process that this one started, or that started this one.
"""

from __future__ import annotations

import array
import mmap
import os
import pickle
import select
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from penstock.core.errors import ProcessError
from penstock.core.spec import Bytes
from penstock.isolated.regions import LARGE_BYTES, Place, Region, Regions
from penstock.processes.memory import mapped
from penstock.processes.wire import EndedError
from penstock.runtime.slots import Slots

#: Bytes of the envelope and of the message.
_HEADER = struct.Struct("<QQ")
_READ_BYTES, _MOST_READ_BYTES = 1 << 16, 1 << 20
_DESCRIPTOR_BYTES = array.array("i").itemsize
#: Linux takes no more with one message.
_MOST_DESCRIPTORS = 250

#: Pickles a thing; what the second argument returns False for travels beside it.
Dumps = Callable[[Any, Callable[[pickle.PickleBuffer], bool]], bytes]


class _Envelope(NamedTuple):
    """What goes before a message.

    places: a number, the sender's region, offset and length of each large buffer. regions: of these that are new, with their sizes; their descriptors come
    along. released: numbers that the receiver gave, of which nothing is held any more; lost: the same, but forks may still look at them. forgotten: regions
    of the sender that it uses no more.
    """

    places: list[tuple[int, int, int, int]]
    regions: list[tuple[int, int]]
    released: list[int]
    lost: list[int]
    forgotten: list[int]


class Link:
    """One end. Any thread may send, one at a time may receive; views may die on any."""

    def __init__(self, connection: socket.socket, regions: Regions) -> None:
        self._socket, self._regions = connection, regions
        self._copies = Slots(new_memory=regions)
        self._lent = dict[int, Place]()
        self._theirs = dict[int, mmap.mmap]()
        self._held = set[_Held]()
        self._ended = deque[_Held]()
        self._numbers = self.forks = 0
        self._read, self._descriptors = bytearray(), deque[int]()
        self._sending = threading.Lock()

    # Sending

    def send(self, message: Any, dumps: Dumps | None = None) -> None:
        """Sends a message, and holds its large buffers until they are released. EndedError where nobody is there."""
        places = list[Place]()

        def travels(buffer: pickle.PickleBuffer) -> bool:
            place = self._place(np.frombuffer(buffer.raw(), dtype=np.uint8))
            if place is None:
                return True
            places.append(place)
            return False

        body = plain_dumps(message, travels) if dumps is None else dumps(message, travels)
        del message
        with self._sending:
            try:
                self._put(body, places)
            except OSError as error:
                raise EndedError from error

    def _place(self, buffer: Bytes) -> Place | None:
        """Where a buffer lies, or a copy of it does; None for one that travels with the message."""
        if buffer.nbytes < LARGE_BYTES:
            return None
        if (place := self._regions.place(buffer)) is not None:
            return place
        copy = self._copies.take(buffer.nbytes)
        if (place := self._regions.place(copy)) is not None:
            np.copyto(copy, buffer)
        return place

    def _put(self, body: bytes, places: Sequence[Place]) -> None:
        numbers = range(self._numbers, self._numbers + len(places))
        self._numbers += len(places)
        self._lent.update(zip(numbers, places, strict=True))
        new = {place.region.number: place.region for place in places if place.region.descriptor >= 0}
        released, lost = self._drained()
        envelope = plain_dumps(
            _Envelope(
                places=[
                    (number, place.region.number, place.offset, place.array.nbytes)
                    for number, place in zip(numbers, places, strict=True)
                ],
                regions=[(number, region.whole.nbytes) for number, region in new.items()],
                released=released,
                lost=lost,
                forgotten=self._regions.forgotten(),
            )
        )
        regions = [*new.values()]
        first = _HEADER.pack(len(envelope), len(body)) + envelope
        first = first[self._put_regions(first, regions) :]
        self._socket.sendall(first)
        self._socket.sendall(body)

    def _put_regions(self, data: bytes, regions: Sequence[Region]) -> int:
        """Sends descriptors, and a byte of the data with each lot of them; how many bytes."""
        sent = 0
        for first in range(0, len(regions), _MOST_DESCRIPTORS):
            some = regions[first : first + _MOST_DESCRIPTORS]
            rights = array.array("i", [region.descriptor for region in some])
            sent += self._socket.sendmsg([data[sent : sent + 1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            for region in some:
                region.close_descriptor()
        return sent

    def _drained(self) -> tuple[list[int], list[int]]:
        """Numbers of which nothing is held here any more, and of these those that forks of this process may hold."""
        released, lost = list[int](), list[int]()
        while self._ended:
            held = self._ended.popleft()
            self._held.discard(held)
            (released if held.forks == self.forks else lost).append(held.number)
        return released, lost

    # Receiving

    def receive(self) -> Any:
        """The next message; EndedError where the other end is closed."""
        try:
            self._fill(_HEADER.size)
            envelope_bytes, body_bytes = _HEADER.unpack_from(self._read)
            end = _HEADER.size + envelope_bytes
            self._fill(end + body_bytes)
        except OSError as error:
            raise EndedError from error
        with memoryview(self._read) as read:
            envelope: _Envelope = pickle.loads(read[_HEADER.size : end])  # noqa: S301  # ours, here and below
            body = bytes(read[end : end + body_bytes])
        del self._read[: end + body_bytes]
        self._take_note(envelope)
        return pickle.loads(body, buffers=[self._view(*place) for place in envelope.places])  # noqa: S301

    def _take_note(self, envelope: _Envelope) -> None:
        for number in envelope.lost:
            self._lent[number].region.is_lost = True
        for number in (*envelope.released, *envelope.lost):
            del self._lent[number]
        for number in envelope.forgotten:
            self._theirs.pop(number, None)
        for number, size_bytes in envelope.regions:
            descriptor = self._descriptors.popleft()
            try:
                self._theirs[number] = mapped(descriptor, size_bytes)
            finally:
                os.close(descriptor)

    def _view(self, number: int, region: int, offset: int, length: int) -> Bytes:
        lease = _Lease(np.frombuffer(self._theirs[region], dtype=np.uint8, count=length, offset=offset))
        self._held.add(_Held(lease, self._ended.append, number, self.forks))
        return np.asarray(lease)

    def _fill(self, size_bytes: int) -> None:
        """Reads until so many bytes are there."""
        while (missing := size_bytes - len(self._read)) > 0:
            room, flags = socket.CMSG_LEN(_MOST_DESCRIPTORS * _DESCRIPTOR_BYTES), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            some, control, found, _ = self._socket.recvmsg(
                min(max(missing, _READ_BYTES), _MOST_READ_BYTES), room, flags
            )
            if not some:
                raise EndedError
            self._read += some
            for _, _, rights in control:
                whole = rights[: len(rights) - len(rights) % _DESCRIPTOR_BYTES]
                self._descriptors.extend(array.array("i", whole))
            if found & socket.MSG_CTRUNC:
                raise ProcessError(
                    "isolation='process': this process has no file descriptors left for memory that it shares with its child; allow more (ulimit -n), or "
                    "close files"
                )

    def wait(self, timeout_s: float) -> bool:
        """Whether there is something to receive, the end included, within a time."""
        if self._read or self.is_closed:  # more of it comes, or the end
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def wait_for_end(self) -> None:
        """Returns when the other end is closed."""
        poll = select.poll()
        poll.register(self._socket, 0)  # an end is told all the same
        poll.poll()

    @property
    def is_closed(self) -> bool:
        """Whether this end is closed."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Closes this end; views of memory stay valid."""
        self._socket.close()
        self._lent.clear()
        self._theirs.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft())


class _Lease:
    """Memory of the other end: NumPy keeps this object alive for as long as any view of the array lives."""

    def __init__(self, memory: Bytes) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__


class _Held(weakref.ref[_Lease]):
    """A lease as the link knows it, by its number; `ended` is called with this when it dies."""

    __slots__ = ("forks", "number")

    def __new__(cls, lease: _Lease, ended: Callable[[_Held], None], number: int, forks: int) -> Self:
        made = super().__new__(cls, lease, ended)
        made.number, made.forks = number, forks
        return made

    def __init__(self, lease: _Lease, ended: Callable[[_Held], None], number: int, forks: int) -> None:
        super().__init__(lease, ended)  # type: ignore[call-arg]  # the stub does not know weakref.ref's own

    number: int
    forks: int


def plain_dumps(message: Any, travels: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """The pickled message; what `travels` returns False for goes beside it."""
    return pickle.dumps(message, protocol=5, buffer_callback=travels)
