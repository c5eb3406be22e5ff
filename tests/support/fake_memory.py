"""The memory of a device that is not there, given as PyTorch's allocator gives it.

What is freed is given again at once to whoever asks on the same stream, and to nobody else; where other streams used it (`record_stream`), not before they
have done what they had to do then. Memory is never returned, so that an address stays one.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class _Block:
    """A piece that is in use: whatever looks into it keeps this alive."""

    def __init__(self, room: Any) -> None:
        self.__array_interface__ = room.__array_interface__


class _Given:
    """What the allocator knows of a block."""

    def __init__(self, room: Any, stream: Any) -> None:
        self.room, self.stream = room, stream
        self.uses: set[Any] = set()
        self.ended: list[Any] = []  # what its users were to do when it was freed
        self.block: Any = None


class FakeMemory:
    def __init__(self, pending: Callable[[Any], list[Any]], is_done: Callable[[list[Any]], bool]) -> None:
        self._pending, self._is_done = pending, is_done
        self._free: dict[tuple[Any, int], list[Any]] = defaultdict(list)
        self._given: dict[int, _Given] = {}
        self._lock = threading.Lock()  # of _given: several threads take memory and say who uses it
        self._freed: deque[_Given] = deque()
        self._taking_back = threading.Lock()
        self.reserved: Counter[Any] = Counter()

    @property
    def alive(self) -> int:
        with self._lock:
            return sum(given.block() is not None for given in self._given.values())

    @property
    def reserved_bytes(self) -> int:
        """All that was ever asked of the device."""
        return sum(self.reserved.values())

    def allocate(self, size: int, stream: Any) -> Any:
        room_bytes = -(-size // 512) * 512
        self._take_back()
        try:
            room = self._free[stream, room_bytes].pop()
        except IndexError:
            self.reserved[stream] += room_bytes
            room = np.full(room_bytes, 0xAB, np.uint8)
        given, block = _Given(room, stream), _Block(room)
        given.block = weakref.ref(block, lambda _: self._end(given))
        with self._lock:
            self._given[room.ctypes.data] = given
        return np.asarray(block)[:size]

    def use(self, tensor: Any, stream: Any) -> None:
        if (given := self._of(tensor)) is not None:
            given.uses.add(stream)

    def seen(self, tensor: Any) -> Callable[[], Any]:
        """The tensor as the device sees it: an address, which keeps nothing."""
        given = self._of(tensor)
        if given is None:
            return lambda: tensor
        offset, room = tensor.data_ptr() - given.room.ctypes.data, given.room
        dtype, shape, strides = tensor.dtype, tensor.size(), tensor.stride()
        return lambda: torch.from_numpy(room)[offset:].view(torch.uint8)[: tensor_bytes(room, offset, dtype)].view(dtype).as_strided(shape, strides)  # fmt: skip

    def _of(self, tensor: Any) -> _Given | None:
        address = tensor.data_ptr()
        with self._lock:
            for begin, given in self._given.items():
                if begin <= address < begin + given.room.nbytes:
                    return given
        return None

    def _end(self, given: _Given) -> None:
        for stream in given.uses - {given.stream}:
            given.ended += self._pending(stream)
        self._freed.append(given)

    def _take_back(self) -> None:
        with self._taking_back:
            for _ in range(len(self._freed)):
                given = self._freed.popleft()
                if self._is_done(given.ended):
                    self._free[given.stream, given.room.nbytes].append(given.room)
                else:
                    self._freed.append(given)


def tensor_bytes(room: Any, offset: int, dtype: Any) -> int:
    return (room.nbytes - offset) // dtype.itemsize * dtype.itemsize
