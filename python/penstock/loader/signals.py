"""Signals that say that a job is about to end: who hears of them, and what handled them before.

Python calls a handler between two of the main thread's instructions, so after a native call of seconds only. The system's own handler writes to a pipe
(`signal.set_wakeup_fd`), from which a thread reads, whatever the main thread does; but the system calls it in the main thread, when that has its turn on a CPU. Between many
processes that is tens of milliseconds later, so on Linux the thread waits for signals that are pending as well (`pending_signals`), and handles each once.

Handlers form a chain. One that was installed over ours calls it, and decides how the process ends; what was there before ours is called when the signal is passed on.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.kernels import pending_signals, take_short_turns

#: What Python's handler writes, besides the numbers that the system's writes; asyncio passes over it.
_NOTED = b"\0"
#: Seconds that the main thread may take to call a handler, since it may be in native code.
_PASSED_S = 10.0
#: Milliseconds between two looks.
_LOOK_MS = 50
#: Of the thread that hears of signals, where the system lets it have one.
_PRIORITY = -10
#: Signals that a thread cannot leave to others.
_FAULTS = {signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}


class SignalHandler:
    """Handles one signal, until it is released: then it is what was there before."""

    def __init__(self, number: int, noted: Callable[[int], None]) -> None:
        self._noted: Callable[[int], None] | None = noted
        #: How it is about to be passed on: whether the process may end by that, and what tells that it did not.
        self._to_pass = deque[tuple[bool, threading.Event]]()
        self._before: Any = signal.getsignal(number)
        signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """What Python calls, in the main thread."""
        if self._to_pass:
            ends, is_passed = self._to_pass.popleft()
            try:
                self._forward(number, frame, ends=ends)
            finally:
                is_passed.set()
        elif self._noted is None:
            self._forward(number, frame, ends=True)
        else:
            self._noted(number)

    def pass_on(self, number: int, *, ends: bool, sends: Callable[[int], None]) -> None:
        """Calls what was there before, in the main thread. ends: whether that may be the system's default, which ends the process. sends: called before a signal is sent there."""
        is_passed = threading.Event()
        self._to_pass.append((ends, is_passed))
        main = threading.main_thread()
        if threading.current_thread() is main:
            self(number, sys._getframe())  # noqa: SLF001  # what handlers are given
        elif main.ident is not None:
            sends(number)
            signal.pthread_kill(main.ident, number)
            is_passed.wait(_PASSED_S)

    def _forward(self, number: int, frame: FrameType | None, *, ends: bool) -> None:
        if callable(self._before):
            self._before(number, frame)
        elif self._before == signal.SIG_DFL and ends and _handler_of(number) is self:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def release(self, number: int) -> None:
        """Handles it no longer. In another thread than the main one, and below another handler, it stays and forwards."""
        self._noted = None
        if _handler_of(number) is self:
            with suppress(ValueError):  # not the main thread
                signal.signal(number, self._before)


class SignalWatch:
    """Calls `come(number)` in a thread of its own when a signal comes that somebody watches, and then `look()` again and again, as long as that says True."""

    def __init__(self, come: Callable[[int], None], look: Callable[[], bool]) -> None:
        self._come, self._look = come, look
        self._handlers: dict[int, SignalHandler] = {}
        self._watched = Counter[int]()
        self._noted = deque[int]()  # by Python's handlers
        self._heard = set[int]()  # of the system's, which Python's have not noted yet
        self._sent = Counter[int]()  # by ourselves, to reach the main thread
        self._reading, self._writing, self._fd_before, self._pending = -1, -1, -1, -1
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def begin(self, numbers: Iterable[int]) -> None:
        """Somebody watches these. PlanError where that cannot be."""
        if threading.current_thread() is not threading.main_thread():
            raise PlanError(
                "on_preempt: Python handles signals in the main thread only; call it there, or pass signals=() and call request() of what it returns"
            )
        for number in numbers:
            if signal.getsignal(number) is None:
                raise PlanError(
                    f"on_preempt: {signal.Signals(number).name} has a handler that is no function of Python's, which could not be called afterwards; leave it "
                    f"out of signals="
                )
        for number in numbers:
            if not self._watched[number]:
                self._handlers[number] = SignalHandler(number, self._note)
            self._watched[number] += 1
        if self._watched.total() and self._writing < 0:
            self._open()
        elif self._pending >= 0:
            pending_signals(self._pending, [*+self._watched])

    def end(self, numbers: Iterable[int]) -> None:
        """Somebody watches these no longer."""
        for number in numbers:
            self._watched[number] -= 1
            if not self._watched[number]:
                self._handlers.pop(number).release(number)
        if not self._watched.total():
            self._close()
        elif self._pending >= 0:
            pending_signals(self._pending, [*+self._watched])

    def pass_on(self, number: int, *, ends: bool) -> None:
        """Hands a signal to what handled it before; see `SignalHandler.pass_on`."""
        if (handler := self._handlers.get(number)) is not None:
            handler.pass_on(number, ends=ends, sends=self._sends)

    def _sends(self, number: int) -> None:
        self._sent[number] += 1

    # The pipe

    def _note(self, number: int) -> None:
        """From Python's handler: the system's does not reach us where others, such as asyncio, have set their own pipe since."""
        self._noted.append(number)
        with suppress(OSError):
            os.write(self._writing, _NOTED)

    def _open(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._fd_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        with suppress(OSError):  # then the pipe says all
            self._pending = pending_signals(-1, [*+self._watched])
        threading.Thread(
            target=self._listen, args=(self._reading, self._pending), name="penstock-signals", daemon=True
        ).start()

    def _listen(self, reading: int, pending: int) -> None:
        _goes_first()
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)  # `sigpending` tells of those only
        pipe, both = _polled(reading), _polled(reading, pending)
        # Heard of while they were pending, and not by the pipe yet: the other descriptor can be read until then.
        early = set[int]()
        while True:
            (pipe if early else both).poll(_LOOK_MS if self._look() else None)
            if not early:
                early.update(self._hear_early())
            while pipe.poll(0):
                if not (got := os.read(reading, 64)):
                    _close_all(reading, pending)
                    return
                self._hear(got, early)

    def _hear_early(self) -> list[int]:
        """Hears of signals that the main thread has not had its turn for."""
        numbers = [number for number in signal.sigpending() if self._watched[number]]
        for number in numbers:
            self._come(number)
        return numbers

    def _hear(self, got: bytes, early: set[int]) -> None:
        if self._fd_before >= 0:
            with suppress(OSError):
                os.write(self._fd_before, got)
        numbers = [number for number in got if number and self._watched[number] and not self._is_ours(number)]
        self._heard.update(numbers)
        while self._noted:
            if (number := self._noted.popleft()) not in self._heard:
                numbers.append(number)
            self._heard.discard(number)  # else it would be counted twice
        for number in dict.fromkeys(numbers):
            if number in early:
                early.remove(number)
            else:
                self._come(number)

    def _is_ours(self, number: int) -> bool:
        """Whether it is one that was sent to reach the main thread; then it is not counted again."""
        if not self._sent[number]:
            return False
        self._sent[number] -= 1
        return True

    def _close(self) -> None:
        """Closes the pipe, by which the thread ends."""
        if self._writing < 0:
            return
        try:
            others = signal.set_wakeup_fd(self._fd_before)
        except ValueError:
            return  # not the main thread, so that the system's handler still writes to it
        if others != self._writing:
            signal.set_wakeup_fd(others)
        os.close(self._writing)
        self._reading, self._writing, self._fd_before, self._pending = -1, -1, -1, -1

    def _leave_to_parent(self) -> None:
        """In a fork: signals of the child are no news for the parent, which holds the other end of the pipe."""
        for number, handler in self._handlers.items():
            handler.release(number)
        self._handlers, self._watched, self._sent, self._noted, self._heard = {}, Counter(), Counter(), deque(), set()
        _close_all(self._reading, self._pending)
        self._close()


def _polled(*descriptors: int) -> select.poll:
    poll = select.poll()
    for descriptor in descriptors:
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    return poll


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)


def _goes_first() -> None:
    """This thread gets its turn before others, as far as the system lets it: between 15 processes on two cores that is tens of milliseconds sooner."""
    if sys.platform == "linux":  # where a thread has a priority of its own
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PRIORITY)
    with suppress(OSError):
        take_short_turns()


def _handler_of(number: int) -> Any:
    return signal.getsignal(number)
