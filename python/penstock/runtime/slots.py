"""Slots: memory that is used again once everything that was made from it is gone.

A slot is handed out as an array. When the last array or tensor that looks into it is dropped, its memory returns to the
ring; a user who keeps batches simply owns them, and the ring allocates anew. Pinned memory that a ring releases stays with
whoever made it: PyTorch keeps it in a cache of the process, for the next that asks.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from penstock.core.columns.spec import Bytes, Field
from penstock.core.errors import ProcessError
from penstock.core.warnings import warn
from penstock.runtime.free_memory import allowed_memory, free_memory

#: Makes memory of a number of bytes: an object with `__array_interface__` or an array.
NewMemory = Callable[[int], Any]

_SMALLEST = 1 << 12
#: Where memory begins: at a multiple of this, a line of the cache, so that kernels can write whole lines.
_ALIGNMENT = 64

#: After so much new memory, whether any is left; and which parts of all of it are too much to hold, and too little to go on with.
_CHECKED_BYTES, _KEPT_SHARE, _LEFT_SHARE = 64 << 20, 3, 50

_all: weakref.WeakSet[Slots] = weakref.WeakSet()
#: Pinned memory of a parent, kept for good: its driver does not work in a child, not even to free memory.
_of_parent: list[Any] = []


class Slots:
    """A ring of buffers. Free memory is kept up to `keep_bytes`.

    new_memory: gives pinned memory and raises RuntimeError, or one that says "out of memory", when there is no more; the usual memory takes its place then.
    Another error, of a device that is lost, is raised. It may have a `room_of`, which
    says of how many bytes memory for so many is; and what it gives an `is_lost`: then nothing is made in it again.
    """

    def __init__(self, keep_bytes: int = 1 << 30, new_memory: NewMemory | None = None) -> None:
        self._new_memory = new_memory or aligned
        self._pinned = new_memory is not None
        self._room_of = getattr(new_memory, "room_of", _power_of_two) if self._pinned else _size_class
        self._keep_bytes = keep_bytes
        self._free: dict[int, list[Any]] = defaultdict(list)
        self._free_bytes = 0
        self._lent: set[_Lent] = set()
        self._ended: deque[_Lent] = deque()
        self._lock = threading.Lock()
        self.made_bytes = self._unchecked_bytes = 0
        _all.add(self)

    def take(self, size: int) -> Bytes:
        """An uninitialised uint8 array of `size` bytes whose memory returns here when it is dropped."""
        return self.take_sized(size)[0]

    def take_sized(self, size: int) -> tuple[Bytes, int]:
        """As `take`, with the bytes that the array keeps in all."""
        if size < _SMALLEST:
            return np.empty(size, dtype=np.uint8), size
        room = self._room_of(size)
        with self._lock:
            self._take_back()
            found, room = self._free_of(room)
            if found is not None:
                self._free_bytes -= room
        memory = self._make(room) if found is None else found
        lease = Lease(memory)
        # The end of a lease is noted by native code alone: Python code there would swallow a Ctrl-C that reaches it.
        self._lent.add(_Lent(lease, self._ended.append, memory, room))
        return np.asarray(lease)[:size], room

    def _make(self, room: int) -> Any:
        """New memory of `room` bytes."""
        self._unchecked_bytes += room
        if self._unchecked_bytes >= _CHECKED_BYTES:
            self._check_kept(room)
        try:
            memory = self._new_memory(room)
        except RuntimeError as error:
            if not _is_refusal(error):
                raise
            self.drop()
            memory = self._make_after_all(room)
        with self._lock:
            self.made_bytes += room
        return memory

    def _check_kept(self, room: int) -> None:
        """ProcessError where what is not given back leaves no memory: before the system ends the process without a word."""
        self._unchecked_bytes, allowed = 0, allowed_memory()
        with self._lock:
            self._take_back()
            kept = sum(lent.room for lent in self._lent)
        if kept > allowed // _KEPT_SHARE and free_memory() < max(room, allowed // _LEFT_SHARE):
            raise ProcessError(
                f"batches that are still held take {kept:,} bytes of memory, and next to none is left; release them, or keep copies of what you need alone: "
                'batch["x"][:4].copy()'
            )

    def _make_after_all(self, room: int) -> Any:
        """New memory now that none is free; if it is refused again, the usual from now on."""
        try:
            return self._new_memory(room)
        except RuntimeError as error:
            if not _is_refusal(error):
                raise
            self._new_memory = aligned
            warn(
                f"penstock: no more memory could be pinned ({error}); more of it is pageable, and copies to the device are "
                f"slower; pass a smaller prefetch= or memory= to the Loader"
            )
            return aligned(room)

    def _free_of(self, room: int) -> tuple[Any, int]:
        """Free memory of `room` bytes, or of up to twice as much rather than none, and its size."""
        free = self._free[room]
        if free:
            return free.pop(), room
        larger = min((size for size, free in self._free.items() if free and room < size <= 2 * room), default=0)
        return (self._free[larger].pop(), larger) if larger else (None, room)

    def array(self, field: Field, rows: int) -> np.ndarray[Any, np.dtype[Any]]:
        """An uninitialised array of shape (rows, *field.shape)."""
        shape = (rows, *(axis or 0 for axis in field.shape))
        return self.take(rows * field.row_bytes).view(field.numpy_dtype).reshape(shape)

    def _take_back(self) -> None:
        """Puts memory whose lease has ended among what is free."""
        while self._ended:
            lent = self._ended.popleft()
            self._lent.discard(lent)
            if self._free_bytes + lent.room <= self._keep_bytes and not getattr(lent.memory, "is_lost", False):
                self._free[lent.room].append(lent.memory)
                self._free_bytes += lent.room

    @property
    def free_bytes(self) -> int:
        """Memory that waits to be used again."""
        with self._lock:
            self._take_back()
            return self._free_bytes

    def drop(self) -> None:
        """Releases all free memory."""
        self.trim(0)

    def trim(self, free_bytes: int) -> int:
        """Releases free memory, the largest first, until no more than so much is left; how much is left."""
        with self._lock:
            self._take_back()
            for room in sorted(self._free, reverse=True):
                while self._free_bytes > free_bytes and self._free[room]:
                    self._free[room].pop()
                    self._free_bytes -= room
            return self._free_bytes

    def clear(self) -> None:
        """Releases all free memory, and what comes back from now on."""
        self._keep_bytes = 0
        self.drop()
        with self._lock:
            for lent in self._lent:
                lent.memory = None

    def after_fork(self) -> None:
        """In a child: a thread of the parent may have held the lock, and will never release it here."""
        self._lock = threading.Lock()
        if self._pinned:
            _of_parent.append((self._free, self._lent))
            self._free, self._free_bytes, self._lent = defaultdict(list), 0, set()


def _is_refusal(error: RuntimeError) -> bool:
    """Whether an error says that there is no more memory; those of a device are RuntimeErrors as well."""
    return type(error) is RuntimeError or "out of memory" in str(error)


def aligned(size: int) -> Bytes:
    """Memory of `size` bytes that begins at a multiple of 64."""
    room = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + size]


def room_of(size: int) -> int:
    """Bytes that an array of `size` bytes keeps in memory that is not pinned, if it is made anew."""
    return size if size < _SMALLEST else _size_class(size)


def _size_class(size: int) -> int:
    """Sizes are rounded up to a quarter of their power of two, so that nearly equal requests share memory."""
    step = max(_SMALLEST, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step


def _power_of_two(size: int) -> int:
    """The size class of pinned memory: PyTorch rounds it up to this in any case."""
    return 1 << (size - 1).bit_length()


class Lease:
    """Memory on loan: NumPy keeps this object alive for as long as any view of the array lives."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self.__array_interface__ = np.asarray(memory).__array_interface__


class _Lent(weakref.ref[Lease]):
    """A lease as the ring knows it: it does not keep it alive, and `ended` is called with this when it dies."""

    __slots__ = ("memory", "room")

    def __new__(cls, lease: Lease, ended: Callable[[_Lent], None], memory: Any, room: int) -> Self:
        made = super().__new__(cls, lease, ended)
        made.memory, made.room = memory, room
        return made

    def __init__(self, lease: Lease, ended: Callable[[_Lent], None], memory: Any, room: int) -> None:
        super().__init__(lease, ended)  # type: ignore[call-arg]  # the stub does not know weakref.ref's own

    memory: Any
    room: int


def _after_fork() -> None:
    for slots in list(_all):
        slots.after_fork()


os.register_at_fork(after_in_child=_after_fork)
