"""`loader.on_preempt`: what is saved when the job is about to end.

    a signal ──► SignalWatch's thread, at once: the ledger and the state's file are written, what is made ahead is stopped
                                                no loader takes a step from here on
             ──► the training's thread, when it asks for the next batch, or while it waits for one: save(state)
             ──► what handled the signal before; the system's default ends the process

`ThisRank.taking` is held while a step is taken and while a state is read, so that the thread sees no half of a step. It is not held while a batch is awaited, nor by the training
loop, so that a long step holds nothing up.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias

from penstock.core.arguments import path_of
from penstock.core.errors import PlanError
from penstock.core.files.whole import ReadyFile
from penstock.core.messages import quoted
from penstock.loader.rank import ThisRank
from penstock.loader.signals import SignalWatch
from penstock.loader.state import state_of

_log = logging.getLogger("penstock")

Save: TypeAlias = Callable[[dict[str, Any]], object]
#: What stands for the rank in the name of a state's file.
_RANK = "{rank}"


class Preemption:
    """What `Loader.on_preempt` returns: it holds until `close`, the end of a `with`, or the loader's `close`."""

    def __init__(
        self,
        rank: ThisRank,
        save: Save | None,
        state_file: str | PathLike[str] | None,
        signals: Sequence[str | int],
        *,
        ends: bool,
    ) -> None:
        if save is not None and not callable(save):
            raise PlanError(f"on_preempt({quoted(save)}): pass a function, which is called with the loader's state")
        self._rank, self.save, self.ends = weakref.ref(rank), save, ends
        self._file = None if state_file is None else _file_of(state_file, rank)
        self._ready = None if self._file is None else ReadyFile(_path_of(self._file, rank))
        self.signals = frozenset(map(_number, signals))
        #: Whether a signal came, or `request` was called.
        self.requested = False
        self._is_written = self._is_closed = False
        rank.takes_locked = True
        _preemptions.add(self)

    def request(self) -> None:
        """Does what a signal does, which nobody then handles: for what tells of the end in another way, as Ray Train or a cloud's metadata."""
        _preemptions.request([self], None)

    def close(self) -> None:
        """Signals are handled again as they were before."""
        if not self._is_closed:
            self._is_closed = True
            _preemptions.remove(self)
            if self._ready is not None:
                self._ready.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What the signal does

    @property
    def rank(self) -> ThisRank | None:
        """The rank; None where nobody holds the loader any more."""
        return self._rank()

    def mark(self) -> None:
        """From here on the loader takes no step before `reach_boundary`."""
        self.requested, self._is_written = True, False
        if (rank := self.rank) is not None:
            rank.preempted = _preemptions.reach_boundary

    def unmark(self) -> None:
        """It may take steps again."""
        if (rank := self.rank) is not None:
            rank.preempted = None

    def write(self) -> None:
        """Writes the ledger and the state's file, once a signal. What fails is logged: `save` meets it again."""
        rank = self.rank
        if rank is None:
            return
        with rank.taking:
            if self._is_written:
                return
            self._is_written = True
            try:
                content = json.dumps(state_of(rank)).encode()
                if self._file is not None and self._ready is not None:
                    self._ready.write(content, at=_path_of(self._file, rank))
            except Exception as error:
                _log.error("penstock: on_preempt: %s", error)

    def call_save(self) -> None:
        """Calls the user's function with the state, in the training's thread."""
        if self.save is not None and (rank := self.rank) is not None:
            self.save(state_of(rank))

    def interrupt(self) -> None:
        """Nothing more is made ahead."""
        if (rank := self.rank) is not None:
            try:
                rank.items.interrupt()
            except Exception as error:  # which must not end the thread that hears of signals
                _log.error("penstock: on_preempt: %s", error)


class _Preemptions:
    """Those of all loaders of this process, which the same signals are about."""

    def __init__(self) -> None:
        self._all: list[Preemption] = []
        self._pending: list[Preemption] = []
        self._signals: list[int] = []
        self._lock, self._saving = threading.Lock(), threading.RLock()
        self._watch = SignalWatch(self._come, self._look)
        os.register_at_fork(after_in_child=self._forget)

    def add(self, one: Preemption) -> None:
        """PlanError where its signals cannot be handled."""
        if one.signals:
            self._watch.begin(one.signals)
        with self._lock:
            self._all.append(one)

    def remove(self, one: Preemption) -> None:
        """Its signals are handled as before."""
        with self._lock:
            is_here = one in self._all  # and not in a fork
            if is_here:
                self._all.remove(one)
            if is_last := self._pending == [one]:
                numbers, self._signals = self._signals, []
            if one in self._pending:
                self._pending.remove(one)
                one.unmark()
        if is_last:  # a signal came, and no batch was asked for since: it is not lost
            for number in numbers:
                self._watch.pass_on(number, ends=one.ends)
        if is_here and one.signals:
            self._watch.end(one.signals)

    def _come(self, number: int) -> None:
        """In the thread that hears of signals."""
        with self._lock:
            asked = [one for one in self._all if number in one.signals]
        self.request([one for one in asked if one.rank is not None], number)
        for one in asked:
            if one.rank is None:
                one.close()

    def _look(self) -> bool:
        """Stops what was made ahead once more, since it may only have begun; whether anything waits for the next batch."""
        pending = [*self._pending]
        for one in pending:
            one.interrupt()
        return bool(pending)

    def request(self, asked: Sequence[Preemption], number: int | None) -> None:
        """Writes what can be written now; `save` waits for the next batch."""
        with self._lock:
            new = [one for one in asked if one not in self._pending]
            self._pending += new
            if number is not None and number not in self._signals:
                self._signals.append(number)
            for one in new:
                one.mark()
        for one in new:
            one.write()
        if not any(one.save is not None for one in self._pending):
            self.reach_boundary()
            return
        for one in new:
            one.interrupt()

    def reach_boundary(self) -> None:
        """The training asks for a batch: all of them save, then the signals are passed on. Who comes meanwhile waits."""
        with self._saving:
            with self._lock:
                due, self._pending = self._pending, []
                numbers, self._signals = self._signals, []
            for one in due:
                one.write()
            saving = [one for one in due if one.save is not None]
            if saving:  # users' functions may ask for batches
                _unmark(due)
            for one in saving:
                one.call_save()
            for number in numbers:
                self._watch.pass_on(number, ends=all(one.ends for one in due))
            if not saving:
                _unmark(due)

    def _forget(self) -> None:
        """In a fork, whose loaders are the parent's."""
        _unmark(self._pending)
        self._all, self._pending, self._signals = [], [], []
        self._lock, self._saving = threading.Lock(), threading.RLock()


_preemptions = _Preemptions()


def _unmark(some: Sequence[Preemption]) -> None:
    for one in some:
        one.unmark()


def _path_of(file: str, rank: ThisRank) -> Path:
    return Path(file.replace(_RANK, str(rank.place.rank)))


def _number(named: str | int) -> int:
    try:
        found = signal.Signals[named] if isinstance(named, str) else signal.Signals(named)
    except (KeyError, ValueError):
        raise PlanError(
            f"on_preempt: signals={quoted(named)} is no signal of this system; pass names such as 'SIGUSR2'"
        ) from None
    if found in (signal.SIGKILL, signal.SIGSTOP):
        raise PlanError(f"on_preempt: {found.name} ends or stops a process without asking it; leave it out of signals=")
    return int(found)


def _file_of(given: str | PathLike[str], rank: ThisRank) -> str:
    path = os.path.abspath(path_of("state_file", given))
    if not os.path.isdir(os.path.dirname(path)):
        raise PlanError(f"on_preempt: state_file={quoted(given)}: its folder is not there; make it before")
    if _RANK not in os.path.basename(path) and rank.share_now().world_size > 1:
        raise PlanError(
            f"on_preempt: every rank would write {quoted(given)}; put {{rank}} into state_file=, as in 'state-{{rank}}.json', and load the list of all states"
        )
    return path
