"""The child of an isolated loader, as the parent sees it."""

from __future__ import annotations

import logging
import signal
import threading
import time
import warnings
from collections import deque
from contextlib import suppress
from typing import Any

from penstock.core.cancel import LOOK_S
from penstock.core.errors import ProcessError
from penstock.loader.child.messages import (
    AskFigures,
    BeginItems,
    EndedEpoch,
    FailedItem,
    HasLoader,
    ItemTaken,
    LoaderFigures,
    LoggedRecord,
    MadeItem,
    StopItems,
    WarningGiven,
)
from penstock.loader.child.sent import Setup, setup_dumps
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import Snapshot
from penstock.processes.process import Process, Purpose
from penstock.processes.raised import error_of
from penstock.processes.wire import EndedError

_log = logging.getLogger("penstock")

_LOADER = Purpose(
    module="penstock.loader.child.serve",
    option="isolation='process'",
    otherwise="leave isolation= out",
    is_one_of_many=False,
)
#: How long the child may take to end by itself, and to answer about its figures.
_ENDS_S, _ANSWERS_S = 1.0, 5.0
#: How long figures are waited for that nobody needs, and how often is looked for them.
_MOMENT_S, _PAUSE_S = 0.1, 0.002
#: The number of these figures.
_LATER = 0


class Child:
    """The process that makes items. Any thread may call; one at a time receives, for all."""

    def __init__(self, setup: Setup, recorder: Recorder) -> None:
        self._process, self._recorder = Process(_LOADER), recorder
        self._link = self._process.link
        self._receiving = threading.Lock()
        self._items = deque[MadeItem | EndedEpoch | FailedItem]()
        self._figures = dict[int, Snapshot]()
        self._latest: Snapshot | None = None  # of figures that nobody waits for
        self._is_asked = False
        self._notes = deque[LoggedRecord | WarningGiven]()
        self._number = 0
        try:
            self._link.send(setup, setup_dumps)
            answer = self._first_answer()
        except EndedError:
            raise self._died() from None
        except BaseException:
            self.kill()
            raise
        if isinstance(answer, FailedItem):
            self.kill()
            raise _error_of(answer)

    def _first_answer(self) -> Any:
        while True:
            answer = self._link.receive()
            if isinstance(answer, (HasLoader, FailedItem)):
                return answer
            self._take(answer)
            self._tell()

    @property
    def is_of_fork(self) -> bool:
        """Whether this process is a fork of the one that started it."""
        return self._process.is_of_fork

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_running

    # Items

    def begin(self, begin: BeginItems) -> None:
        """Items of this stream come next."""
        self._items.clear()
        try:
            self._link.send(begin)
        except EndedError:
            raise self._died() from None

    def stop(self) -> None:
        """No items are wanted; waits for nothing."""
        self._items.clear()
        with suppress(EndedError):
            self._link.send(StopItems())

    def next_item(self, number: int) -> MadeItem | EndedEpoch:
        """The next item of a stream, or that its epoch has none; raises what it failed by. ProcessError where the child has ended."""
        while True:
            while self._items:
                item = self._items.popleft()
                if item.number != number:
                    continue  # of a stream that was stopped
                if isinstance(item, FailedItem):
                    raise _error_of(item)
                with suppress(EndedError):  # what else it made comes first
                    self._link.send(ItemTaken(number))
                return item
            self._receive(until=time.monotonic() + LOOK_S)
            self._tell()

    def stats_at_once(self) -> Snapshot | None:
        """The figures now, or those that came last where the child takes longer to answer than a moment. None before the first."""
        if not self._is_asked:
            self._is_asked = True
            with suppress(EndedError):
                self._link.send(AskFigures(_LATER))
        until = time.monotonic() + _MOMENT_S
        while self._is_asked and time.monotonic() < until and self._take_what_came():
            time.sleep(_PAUSE_S)
        return self._latest

    def _take_what_came(self) -> bool:
        """Takes the messages that are there, without a wait, and so that no thread that awaits an item waits longer; False where the child has ended, which that thread tells.

        Items that come wait for it: no more of them than the child may send before one is taken.
        """
        while self._is_asked and self._receiving.acquire(blocking=False):
            try:
                if not self._link.wire.has_more(0.0):
                    break
                self._take(self._link.receive())
            except EndedError:
                return False
            except BaseException:  # as in _receive
                self.kill()
                raise
            finally:
                self._receiving.release()
        return self.is_running

    def stats(self) -> Snapshot | None:
        """The figures of the loader in the child; None where it does not answer."""
        self._number += 1
        number, until = self._number, time.monotonic() + _ANSWERS_S
        with suppress(EndedError, ProcessError):
            self._link.send(AskFigures(number))
            while number not in self._figures and time.monotonic() < until:
                self._receive(until)
        return self._figures.pop(number, None)

    def _receive(self, until: float) -> None:
        """Receives a message, for whichever thread it is, or lets another thread do so."""
        if not self._receiving.acquire(timeout=LOOK_S):
            return
        try:
            if self._link.wire.has_more(max(0.0, min(LOOK_S, until - time.monotonic()))):
                self._take(self._link.receive())
            elif not self.is_running and not self._link.wire.has_more(0.0):
                raise EndedError  # and what it started keeps its end of the socket open
        except EndedError:
            raise self._died() from None
        except BaseException:  # Ctrl-C, or no memory: part of a message may be lost
            self.kill()
            raise
        finally:
            self._receiving.release()

    def _take(self, message: Any) -> None:
        match message:
            case MadeItem() | EndedEpoch() | FailedItem():
                self._items.append(message)
            case LoaderFigures(number=number, figures=figures, events=events):
                for event in events:
                    self._recorder.add(event)
                self._latest = figures
                if number == _LATER:
                    self._is_asked = False
                else:
                    self._figures[number] = figures
            case LoggedRecord() | WarningGiven():
                self._notes.append(message)

    def _tell(self) -> None:
        """Warns and logs what the child had to say."""
        while self._notes:
            note = self._notes.popleft()
            if isinstance(note, LoggedRecord):
                _log.log(note.level, "%s", note.text)
            else:
                warnings.warn_explicit(note.text, note.category, note.filename, note.line)

    # The end

    def end(self) -> None:
        """Ends the process: by itself, or it is killed."""
        if self.is_of_fork:
            self._process.leave()
            return
        self._link.close()
        self._process.ends_within(_ENDS_S)
        self.kill()

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.close()

    def _died(self) -> ProcessError:
        if self._link.wire.is_closed:
            return ProcessError("the loader was closed while a batch was awaited; begin a new pass")
        is_over = self._process.ends_within(_ANSWERS_S)
        ended_by = self._process.end() if is_over else "closing its connection"
        self.kill()
        return ProcessError(
            f"isolation='process': the process that makes the batches ended by {ended_by}. {_advice(ended_by)} A new pass starts another process"
        )


def _error_of(item: FailedItem) -> BaseException:
    return error_of(item.raised, "the process of isolation='process'")


def _advice(ended_by: str) -> str:
    if signal.SIGKILL.name in ended_by:
        return "The system may have run out of memory: pass a smaller memory= or prefetch= to the Loader, or take smaller batches."
    if "signal" in ended_by:
        return "A library that a function of the plan calls may have crashed: run the plan without isolation under faulthandler to find out where."
    return "A function of the plan, or a library that it calls, may have ended it: let it raise an error in place of os._exit; what it said stands above."
