"""Bytes and file descriptors through a socket between two processes."""

from __future__ import annotations

import array
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from penstock.core.cancel import LOOK_S

#: What comes is read together, up to so many bytes.
_ROOM_BYTES = 1 << 16
_DESCRIPTOR_ROOM = socket.CMSG_LEN(array.array("i").itemsize)
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class EndedError(Exception):
    """The other process is gone. ending: what ended it, where that is known. is_first: whether it was at work on the message whose answer was awaited."""

    ending, is_first = "", True


class Wire:
    """One end. look: called now and then while the other one is awaited; None to wait without a look."""

    def __init__(self, connection: socket.socket, look: Callable[[], None] | None) -> None:
        self.socket, self._look = connection, look
        if look is not None:
            # Not settimeout(), which looks for bytes with a system call of its own, and before sending, too.
            seconds = struct.pack("ll", 0, round(1e6 * LOOK_S))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
        self._room = memoryview(bytearray(_ROOM_BYTES))
        self._first = self._end = 0  # of what has come, and was not taken
        self._descriptors = deque[int]()

    def put(self, parts: Sequence[bytes], descriptors: Sequence[int] = ()) -> None:
        """Sends these bytes, and descriptors: fewer than the first part has bytes. EndedError where nobody is there."""
        views = [memoryview(part) for part in parts]
        try:
            for descriptor in descriptors:  # each with a byte of its own: who has no room for one knows which that is
                self._sent(partial(self.socket.sendmsg, [views[0][:1]], _rights(descriptor)))
                views[0] = views[0][1:]
            sent = self._sent(partial(self.socket.sendmsg, views))
            for part in views:
                left = part[sent:]
                sent = max(0, sent - len(part))
                while left:
                    left = left[self._sent(partial(self.socket.send, left)) :]
        except OSError as error:
            raise EndedError from error

    def take(self, size_bytes: int) -> memoryview:
        """The next bytes, valid until the next call."""
        if size_bytes <= _ROOM_BYTES:
            while self._end - self._first < size_bytes:
                self._fill()
            self._first += size_bytes
            return self._room[self._first - size_bytes : self._first]
        taken = memoryview(bytearray(size_bytes))
        done = self._end - self._first
        taken[:done] = self._room[self._first : self._end]
        self._first = self._end = 0
        while done < size_bytes:
            done += self._received(taken[done:])
        return taken

    def descriptor(self) -> int:
        """The next one that came, -1 where this process may open no more files."""
        return self._descriptors.popleft()

    def has_more(self, timeout_s: float) -> bool:
        """Whether there is something to take, the end included, within a time."""
        if self._end > self._first or self.is_closed:
            return True
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    @property
    def is_closed(self) -> bool:
        """Whether this end is closed."""
        return self.socket.fileno() < 0

    def end(self) -> None:
        """Ends the talk; no descriptor is closed that another thread may be using."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes this end."""
        self.socket.close()
        while self._descriptors:
            if (descriptor := self._descriptors.popleft()) >= 0:
                os.close(descriptor)

    def _sent(self, send: Callable[[], int]) -> int:
        while True:
            try:
                return send()
            except BlockingIOError:
                assert self._look is not None
                self._look()

    def _fill(self) -> None:
        left = self._end - self._first
        if self._first:
            self._room[:left] = self._room[self._first : self._end]
            self._first, self._end = 0, left
        self._end += self._received(self._room[left:])

    def _received(self, room: memoryview) -> int:
        while True:
            try:
                count, control, found, _ = self.socket.recvmsg_into([room], _DESCRIPTOR_ROOM, _FLAGS)
            except BlockingIOError:
                assert self._look is not None
                self._look()
                continue
            except OSError as error:
                raise EndedError from error
            for _, _, rights in control:
                self._descriptors.extend(array.array("i", rights[: len(rights) // 4 * 4]))
            if found & socket.MSG_CTRUNC:
                self._descriptors.append(-1)
            if not count:
                raise EndedError
            return count


def _rights(descriptor: int) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
