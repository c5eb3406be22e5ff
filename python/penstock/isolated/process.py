"""The child of an isolated loader, as the parent sees it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

from penstock.core.cancel import LOOK_S
from penstock.core.errors import ProcessError
from penstock.isolated.link import Link
from penstock.isolated.messages import (
    AskStats,
    Begin,
    Failed,
    Logged,
    Made,
    Ready,
    Stats,
    Stop,
    Taken,
    Warned,
    error_of,
)
from penstock.isolated.regions import Regions
from penstock.isolated.sent import Setup, setup_dumps
from penstock.processes.process import ending, start
from penstock.processes.wire import EndedError

_log = logging.getLogger("penstock")

#: How long the child may take to end by itself, to end when it is killed, and to answer about its figures.
_ENDS_S, _KILLED_S, _ANSWERS_S = 1.0, 10.0, 5.0

_living: weakref.WeakSet[Child] = weakref.WeakSet()


class Child:
    """The process that makes items. Any thread may call; one at a time receives, for all."""

    def __init__(self, setup: Setup) -> None:
        self._owner = os.getpid()
        ours, theirs = socket.socketpair()
        with ours, theirs:  # closed, unless they are detached below
            self._process = start(theirs, "penstock.isolated.child", "isolation", os.environ)
            connection = socket.socket(fileno=ours.detach())
        self._link = Link(connection, Regions())
        self._finalizer = weakref.finalize(self, _kill, self._process, connection)
        self._receiving = threading.Lock()
        self._items = deque[Made | Failed]()
        self._stats = dict[int, dict[str, Any]]()
        self._notes = deque[Logged | Warned]()
        self._number = 0
        _living.add(self)
        try:
            self._link.send([*sys.argv])
            self._link.send(setup, setup_dumps)
            ready = self._first_answer()
        except EndedError:
            raise self._died() from None
        except BaseException:
            self.kill()
            raise
        if isinstance(ready, Failed):
            self.kill()
            raise error_of(ready)

    def _first_answer(self) -> Any:
        while True:
            while not self._link.wait(LOOK_S):
                pass
            answer = self._link.receive()
            if isinstance(answer, (Ready, Failed)):
                return answer
            self._take(answer)
            self._tell()

    @property
    def is_of_fork(self) -> bool:
        """Whether this process is a fork of the one that started it."""
        return self._owner != os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    # Items

    def begin(self, begin: Begin) -> None:
        """Items of this stream come next."""
        self._items.clear()
        self._say(begin)

    def stop(self) -> None:
        """No items are wanted; waits for nothing."""
        self._items.clear()
        with suppress(EndedError):
            self._link.send(Stop())

    def next_item(self, number: int) -> Made:
        """The next item of a stream, or raises what it failed by. ProcessError where the child has ended."""
        while True:
            while self._items:
                item = self._items.popleft()
                if item.number != number:
                    continue  # of a stream that was stopped
                if isinstance(item, Failed):
                    raise error_of(item)
                with suppress(EndedError):  # what else it made comes first
                    self._link.send(Taken(number))
                return item
            self._receive(until=time.monotonic() + LOOK_S)
            self._tell()

    def stats(self) -> dict[str, Any] | None:
        """The figures of the loader in the child; None where it does not answer."""
        self._number += 1
        number, until = self._number, time.monotonic() + _ANSWERS_S
        with suppress(EndedError, ProcessError):
            self._link.send(AskStats(number))
            while number not in self._stats and time.monotonic() < until:
                self._receive(until)
        return self._stats.pop(number, None)

    def _say(self, message: Any) -> None:
        try:
            self._link.send(message)
        except EndedError:
            raise self._died() from None

    def _receive(self, until: float) -> None:
        """Receives a message, for whichever thread it is, or lets another thread do so."""
        if not self._receiving.acquire(timeout=LOOK_S):
            return
        try:
            if self._link.wait(max(0.0, min(LOOK_S, until - time.monotonic()))):
                self._take(self._link.receive())
        except EndedError:
            raise self._died() from None
        except BaseException:  # Ctrl-C, or no memory: part of a message may be lost
            self.kill()
            raise
        finally:
            self._receiving.release()

    def _take(self, message: Any) -> None:
        match message:
            case Made() | Failed():
                self._items.append(message)
            case Stats(number=number, figures=figures):
                self._stats[number] = figures
            case Logged() | Warned():
                self._notes.append(message)

    def _tell(self) -> None:
        """Warns and logs what the child had to say."""
        while self._notes:
            note = self._notes.popleft()
            if isinstance(note, Logged):
                _log.log(note.level, "%s", note.text)
            else:
                warnings.warn_explicit(note.text, note.category, note.filename, note.line)

    # The end

    def end(self) -> None:
        """Ends the process: by itself, or it is killed."""
        if self.is_of_fork:
            self.leave()
            return
        self._link.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_S)
        self.kill()

    def kill(self) -> None:
        """Ends the process at once."""
        self._link.close()
        _living.discard(self)
        self._finalizer()

    def leave(self) -> None:
        """Lets go of a process that belongs to another one, of which this is a fork."""
        self._link.close()
        self._finalizer.detach()
        self._process.returncode = 0  # it is not ours to wait for

    def after_fork(self) -> None:
        """A fork has what views look at, so that it is not used again."""
        self._link.forks += 1

    def _died(self) -> ProcessError:
        if self._link.is_closed:
            return ProcessError("the loader was closed while a batch was awaited; begin a new pass")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ANSWERS_S)  # it may be ending just now; what it ends by is told
        ended_by = "closing its connection" if self.is_running else ending(self._process.returncode)
        self.kill()
        return ProcessError(
            f"isolation='process': the process that makes the batches ended by {ended_by}. {_advice(ended_by)} A new pass starts another process"
        )


def _kill(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    if process.returncode is None:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_S)


def _advice(ended_by: str) -> str:
    if signal.SIGKILL.name in ended_by:
        return "The system may have run out of memory: pass a smaller memory= or prefetch= to the Loader, or take smaller batches."
    if "signal" in ended_by:
        return "A library that a function of the plan calls may have crashed: run the plan without isolation under faulthandler to find out where."
    return "A function of the plan, or a library that it calls, may have ended it: let it raise an error in place of os._exit; what it said stands above."


def _leave_all() -> None:
    for child in list(_living):
        child.leave()
    _living.clear()


def _after_fork() -> None:
    for child in list(_living):
        child.after_fork()


os.register_at_fork(after_in_parent=_after_fork, after_in_child=_leave_all)
