"""How two processes talk: messages over a socket, large buffers in memory that both map.

    sender                                                receiver
    buffer in a region ───────────────► (hold, place) ──► a view of the region
    other large buffers ─ one copy ───► (hold, place) ──► a view of the region
    small ones ───────────────────────► in the message
    the region is used again    ◄────── (hold) ◄───────── the last view of a hold is gone

A message is pickled (protocol 5). What the last line says comes with the receiver's next message. Nothing is mapped, or filled with zeros, twice.
Where the sender may open no more files, buffers travel with the message. Where the receiver looks at so much already that files get scarce there, it copies.
Both ends are the same program, and what is unpickled comes from a process that this one started, or that started this one.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Bytes, Columns
from penstock.core.errors import ProcessError
from penstock.processes.memory import LARGE_BYTES, NO_FILES, LastUse, Regions, Spot, mapped
from penstock.processes.wire import Wire
from penstock.runtime.slots import Lease, Slots

#: Lengths of the envelope, 0 for none, and of the message.
_HEADER = struct.Struct("<QQ")
_ALIGNMENT = 64
_NOTHING = np.empty(0, dtype=np.uint8)

#: Pickles a thing; what the second argument returns False for travels beside it.
Dumps = Callable[[Any, Callable[[pickle.PickleBuffer], bool]], bytes]


class _Envelope(NamedTuple):
    """What goes before a message that has any of it.

    places: of each large buffer its hold, the sender's region, offset and length. regions: of these that are new, with their sizes; their descriptors come
    along. released: holds of the receiver of which nothing is left here; lost: the same, but forks may still look at it. forgotten: regions of the sender
    that it uses no more.
    """

    places: list[tuple[int, int, int, int]]
    regions: list[tuple[int, int]]
    released: list[int]
    lost: list[int]
    forgotten: list[int]


class Link:
    """One end. Any thread may send, one at a time may receive; views may die on any.

    look: called now and then while the other end is awaited; None to wait without a look. most_held: it holds views of so many regions, and copies what comes then.
    """

    def __init__(
        self,
        connection: socket.socket,
        regions: Regions,
        *,
        look: Callable[[], None] | None = None,
        most_held: int | None = None,
    ) -> None:
        self.wire = Wire(connection, look)
        self.forks = 0
        # The sender's: its regions, and what the other end holds of them
        self._regions, self._copies = regions, Slots(new_memory=regions)
        self._lent = dict[int, Spot]()
        self._holds = 0
        self._sending = threading.Lock()
        # The receiver's: regions of the other end, None where no file could be opened, and what is held of them here
        self._theirs = dict[int, mmap.mmap | None]()
        self._most_held = most_held
        self._held = set[LastUse]()
        self._ended = deque[LastUse]()

    # Sending

    def send(self, message: Any, dumps: Dumps | None = None) -> None:
        """Sends a message, and holds nothing of it but what lies in regions. EndedError where nobody is there."""
        body, spots = self._packed(message, dumps or plain_dumps)
        del message
        with self._sending:
            new = {spot.region.number: spot.region for spot in spots if spot.region.descriptor >= 0}
            sizes = [(number, region.whole.nbytes) for number, region in new.items()]
            envelope = _Envelope(self._lend(spots), sizes, *self._drained(), self._regions.forgotten())
            packed = plain_dumps(tuple(envelope)) if any(envelope) else b""
            head = _HEADER.pack(len(packed), len(body)) + packed
            self.wire.put([head, body], [region.descriptor for region in new.values()])
            for region in new.values():
                region.close_descriptor()

    def _packed(self, message: Any, dumps: Dumps, *, copies: bool = True) -> tuple[bytes, list[Spot]]:
        """The pickled message, and where its large buffers lie. copies: those that lie in no region are copied into one, if there is one to have."""
        found = list[Bytes | Spot]()

        def travels(buffer: pickle.PickleBuffer) -> bool:
            raw = np.frombuffer(buffer.raw(), dtype=np.uint8)
            if raw.nbytes < LARGE_BYTES:
                return True
            spot = self._regions.spot(raw)
            if spot is None and not copies:
                return True
            found.append(raw if spot is None else spot)
            return False

        body = dumps(message, travels)
        others = [one for one in found if not isinstance(one, Spot)]
        if not others:
            return body, [one for one in found if isinstance(one, Spot)]
        copied = self._copied(others)
        if copied is None:
            return self._packed(message, dumps, copies=False)
        copy = iter(copied)
        return body, [one if isinstance(one, Spot) else next(copy) for one in found]

    def _copied(self, buffers: Sequence[Bytes]) -> list[Spot] | None:
        """Copies of buffers, side by side in one region; None where there is none to have."""
        firsts, size_bytes = list[int](), 0
        for buffer in buffers:
            firsts.append(size_bytes)
            size_bytes += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
        whole = self._regions.spot(self._copies.take(size_bytes))
        if whole is None and self._copies.free_bytes:  # regions of other sizes
            self._copies.drop()
            whole = self._regions.spot(self._copies.take(size_bytes))
        if whole is None:
            return None
        for buffer, first in zip(buffers, firsts, strict=True):
            np.copyto(whole.array[first : first + buffer.nbytes], buffer)  # without the interpreter's lock
        return [
            Spot(whole.region, whole.offset + first, whole.array[first : first + buffer.nbytes])
            for buffer, first in zip(buffers, firsts, strict=True)
        ]

    def _lend(self, spots: Iterable[Spot]) -> list[tuple[int, int, int, int]]:
        """The places of these, which the other end holds from now on. What lies in one region is one hold."""
        holds, places = dict[int, int](), list[tuple[int, int, int, int]]()
        for spot in spots:
            number = spot.region.number
            if number not in holds:
                holds[number] = self._holds
                self._lent[self._holds] = spot
                self._holds += 1
            places.append((holds[number], number, spot.offset, spot.array.nbytes))
        return places

    def _drained(self) -> tuple[list[int], list[int]]:
        """Holds of which nothing is left here, and those of them that forks of this process may look at."""
        released, lost = list[int](), list[int]()
        while self._ended:
            held = self._ended.popleft()
            self._held.discard(held)
            (released if held.forks == self.forks else lost).append(held.number)
        return released, lost

    # Receiving

    def receive(self) -> Any:
        """The next message; EndedError where the other end is closed, ProcessError where this process may open no more files."""
        envelope_bytes, body_bytes = _HEADER.unpack(self.wire.take(_HEADER.size))
        if not envelope_bytes:
            return pickle.loads(self.wire.take(body_bytes))  # noqa: S301  # ours, here and below
        envelope = _Envelope(*pickle.loads(self.wire.take(envelope_bytes)))  # noqa: S301
        body = self.wire.take(body_bytes)
        self._take_note(envelope)
        return pickle.loads(body, buffers=self._views(envelope.places))  # noqa: S301

    def _take_note(self, envelope: _Envelope) -> None:
        for hold in envelope.lost:
            self._lent[hold].region.is_lost = True
        for hold in (*envelope.released, *envelope.lost):
            del self._lent[hold]
        for number in envelope.forgotten:
            self._theirs.pop(number, None)
        for number, size_bytes in envelope.regions:
            self._theirs[number] = _mapped(self.wire.descriptor(), size_bytes)

    def _views(self, places: Iterable[tuple[int, int, int, int]]) -> list[Bytes]:
        wholes, views = dict[int, Bytes](), list[Bytes]()
        is_lacking = False
        for hold, region, offset, length in places:
            if hold not in wholes:
                memory = self._theirs[region]
                is_lacking |= memory is None
                lease = Lease(_NOTHING if memory is None else np.frombuffer(memory, dtype=np.uint8))
                self._held.add(LastUse(lease, self._ended.append, hold, self.forks))
                wholes[hold] = np.asarray(lease)
            views.append(wholes[hold][offset : offset + length])
        if is_lacking:
            raise ProcessError(
                "this process may open no more files, and each batch that is shared with another process needs one; raise the limit (ulimit -n), hold fewer "
                "batches, or use no other processes"
            )
        if self._most_held is not None and len(self._held) - len(self._ended) > self._most_held:
            return [view.copy() for view in views]
        return views

    # The end

    def close(self) -> None:
        """Closes this end, which nobody uses any more; views of memory stay valid."""
        self.wire.close()
        self._copies.clear()
        self._lent.clear()
        self._theirs.clear()


def _mapped(descriptor: int, size_bytes: int) -> mmap.mmap | None:
    """The memory behind a descriptor of the other process's, None where there was no room for it; closes that."""
    if descriptor < 0:
        return None
    try:
        return mapped(descriptor, size_bytes)
    except OSError as error:
        if error.errno not in NO_FILES:
            raise
        return None
    finally:
        os.close(descriptor)


def sendable(columns: Columns) -> Columns:
    """The columns with their values alone and side by side: what is pickled of a slice is all that it was cut from, and of a view a copy."""
    return {
        name: _compact(column) if isinstance(column, pa.Array) else np.ascontiguousarray(column)
        for name, column in columns.items()
    }


def _compact(column: pa.Array) -> pa.Array:
    if column.get_total_buffer_size() <= 2 * column.nbytes + LARGE_BYTES:
        return column
    return column.take(pa.array(np.arange(len(column))))


def plain_dumps(message: Any, travels: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """The pickled message; what `travels` returns False for goes beside it."""
    return pickle.dumps(message, protocol=5, buffer_callback=travels)


def unpickled(pickled: bytes, beside: Iterable[Any] = ()) -> Any:
    """What another process pickled. beside: what travelled beside it."""
    return pickle.loads(pickled, buffers=beside)  # noqa: S301
