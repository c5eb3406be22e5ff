"""One thread a process, which tells what its loaders do: to files for `penstock top` and other ranks, and to exporters.

    a loader's pipeline ── counters, ring ──► snapshot ──► a file, twice a second        `folder`
                                                      └──► exporters, each in its thread  `outlets`

Nothing of this is in the way of a batch: the thread reads what the pipeline counts anyway. It begins with the first pass of a loader, and ends with the last
loader that runs. In a fork there is none, until a loader begins there.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple, Protocol, TypeAlias

from penstock.observe.events import Event
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.folder import read_snapshots, remove_leftovers, remove_snapshot, write_snapshot, writes_snapshots
from penstock.observe.gpu import gpus_now
from penstock.observe.machine import INTERPRETER
from penstock.observe.outlets import Outlet
from penstock.observe.ranks import other_ranks
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import RankFigures, Snapshot

_log = logging.getLogger("penstock")

#: How often snapshots are made; after an error of the folder it is left alone for so long.
EVERY_S, _FOLDER_RESTS_S = 0.5, 30.0
#: How often other ranks are looked at, and how many times as long as that took is waited for the next time.
_RANKS_S, _RANKS_SHARE = 2.0, 50
#: How long the end waits for the thread, and for what all exporters together still have to write.
_ENDS_S = 3.0


class Observed(Protocol):
    """A loader, as the reporter sees it. It must not hold what ends with the loader: `Watched.look` says why."""

    recorder: Recorder

    def snapshot(self) -> Snapshot:
        """Its figures now."""


#: Exporters that were opened, with their names.
Opened: TypeAlias = Sequence[tuple[str, Exporter]]


class Watched:
    """A loader that is observed. cursor: of its events that are handed over."""

    def __init__(self, observed: Observed, outlets: Sequence[Outlet]) -> None:
        self._get, self.recorder, self.outlets = weakref.ref(observed), observed.recorder, tuple(outlets)
        self.last: Snapshot | None = None
        #: The other ranks, and when they are looked for next.
        self.ranks: tuple[RankFigures, ...] = ()
        self.next_ranks_at = 0.0
        self.is_running = False
        self._cursor = self.lost_events = 0
        # The reporter and the loader's own thread may both look, and a finalizer in the midst of it.
        self._lock = threading.RLock()
        self._is_read = False

    def look(self, *, is_last: bool = False) -> Snapshot | None:
        """A snapshot, handed to exporters; None where the loader is gone. is_last: it does not run from now on.

        The loader's figures are held within the lock alone, and who frees the loader looks a last time: so it is freed in the thread that lets go of it,
        and there its pipeline has ended, rather than some time later in the reporter's thread.
        """
        if not self._lock.acquire(timeout=_ENDS_S):
            return None
        try:
            if not self.is_running:
                return None
            found = self._snapshot()
            if is_last:
                self.is_running = False
            self.last = found or self.last
            if found is not None:
                self.recorder.history.add(found)
            if self.outlets and self.last is not None:
                events = self._events()
                for outlet in self.outlets:
                    outlet.put(self.last, events)
            return found
        finally:
            self._lock.release()

    def _snapshot(self) -> Snapshot | None:
        """Its figures. None to a finalizer in the midst of reading them, in the same thread: what they are read of may be locked."""
        observed = None if self._is_read else self._get()
        if observed is None:
            return None
        self._is_read = True
        try:
            return observed.snapshot()
        finally:
            self._is_read = False

    def _events(self) -> list[Event]:
        events, self._cursor, lost = self.recorder.events_since(self._cursor)
        self.lost_events += lost
        return sorted(events, key=lambda event: event.end_ns)


class ReporterFigures(NamedTuple):
    """What a loader's snapshot says of what is told."""

    lost_events: int = 0
    ranks: tuple[RankFigures, ...] = ()


class Reporter:
    """Of a process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._watched: dict[int, Watched] = {}
        self._numbers = count()
        self._outlets: dict[int, tuple[Outlet, set[int]]] = {}  # by the exporter's id, which the outlet holds
        self._state = threading.Lock()
        self._thread: threading.Thread | None = None
        # A lock that somebody releases wakes the thread: unlike an Event, it may be released by a finalizer in any thread and at any time.
        self._wake = threading.Lock()
        self._wake.acquire()
        self._folder_rests_until = 0.0
        self._is_clean = self._is_registered = False
        self._unawaited: list[Outlet] = []

    def watch(self, observed: Observed, exporters: Opened) -> int:
        """Knows of a loader from now on, and tells of it once it runs; its number, for `go_on`, `pause` and `end`. Loaders that were given the same exporter share it."""
        number = next(self._numbers)
        with self._state:
            outlets = [self._outlet(number, name, exporter) for name, exporter in exporters]
            self._watched[number] = Watched(observed, outlets)
        return number

    def _outlet(self, number: int, name: str, exporter: Exporter) -> Outlet:
        found = self._outlets.get(id(exporter))
        outlet, users = (Outlet(name, exporter), set[int]()) if found is None else found
        users.add(number)
        self._outlets[id(exporter)] = outlet, users
        return outlet

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._serve, name="penstock-reporter", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the system has no more threads to give, or the interpreter ends
                self._thread = None

    def pause(self, number: int) -> None:
        """The loader's pipeline has stopped: its last figures are handed over, and its file is gone."""
        watched, thread = self._watched.get(number), self._thread  # which forgets itself once nothing runs
        if watched is None or not watched.is_running or os.getpid() != self._process:
            return
        with suppress(Exception):
            watched.look(is_last=True)
        watched.is_running = False
        if watched.last is not None:
            remove_snapshot(watched.last.loader)
        self._end_if_idle(thread)

    def go_on(self, number: int) -> bool:
        """It runs. False where it is not watched any more."""
        watched = self._watched.get(number)
        if os.getpid() != self._process:
            return False
        if watched is not None:
            watched.is_running = True
            with self._state:
                if not self._is_registered:
                    # Here, behind weakref's own: the last that was registered runs first, while what a loader's finalizers close still runs.
                    atexit.register(_end_all)
                    self._is_registered = True
                self._start()
        return watched is not None

    def is_running(self, number: int) -> bool:
        """Whether its pipeline runs."""
        watched = self._watched.get(number)
        return watched is not None and watched.is_running

    def end(self, *numbers: int, waits: bool = True) -> None:
        """Loaders end: from any thread. waits: for what their exporters still have to write, some seconds for all together; else the interpreter's end waits."""
        if os.getpid() != self._process:
            return  # a fork of its process
        for number in numbers:
            self.pause(number)
        ended = [number for number in numbers if self._watched.pop(number, None) is not None]
        outlets = []
        for key, (outlet, users) in [*self._outlets.items()] if ended else ():
            users.difference_update(ended)
            if not users and self._outlets.pop(key, None) is not None:
                outlet.begin_end()
                outlets.append(outlet)
        if waits:
            until = time.monotonic() + _ENDS_S
            for outlet in outlets:
                outlet.wait_for_end(until)
        else:
            self._unawaited = [outlet for outlet in self._unawaited if not outlet.has_ended] + outlets
        if ended:
            self._end_if_idle(self._thread)

    def _end_if_idle(self, thread: threading.Thread | None) -> None:
        """Where no loader runs any more, there is nothing to tell."""
        if any(watched.is_running for watched in [*self._watched.values()]):
            return
        with suppress(RuntimeError):
            self._wake.release()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_ENDS_S)

    def outlets(self, number: int) -> tuple[Outlet, ...]:
        """A loader's."""
        watched = self._watched.get(number)
        return () if watched is None else watched.outlets

    def figures(self, number: int) -> ReporterFigures:
        """How many events of a loader were lost, and what other ranks do."""
        watched = self._watched.get(number)
        if watched is None:
            return ReporterFigures()
        return ReporterFigures(watched.lost_events, watched.ranks)

    # In its thread

    def _serve(self) -> None:
        while True:
            self._wake.acquire(timeout=EVERY_S)
            with self._state:
                if not any(watched.is_running for watched in [*self._watched.values()]):
                    self._thread = None
                    return
            INTERPRETER.look()
            gpus_now()
            for watched in [*self._watched.values()]:
                if watched.is_running:
                    self._tell(watched)

    def _tell(self, watched: Watched) -> None:
        try:
            snapshot = watched.look()
        except Exception as error:  # figures that change while they are read; no training ends for them
            _log.debug("penstock: no snapshot was made (%r)", error)
            return
        if snapshot is None or time.monotonic() < self._folder_rests_until or not writes_snapshots():
            return
        try:
            write_snapshot(snapshot)  # first, since it looks whose folder it is
            if not self._is_clean:
                remove_leftovers()
                read_snapshots()  # which removes those of processes that have ended
                self._is_clean = True
            _look_at_ranks(watched, snapshot)
            if not watched.is_running:
                remove_snapshot(snapshot.loader)
        except Exception as error:  # full, read-only, somebody else's, or files that nobody thought of
            self._folder_rests_until = time.monotonic() + _FOLDER_RESTS_S
            _log.debug("penstock: no snapshot was written (%s)", error)

    def end_all(self) -> None:
        """The interpreter ends."""
        with suppress(Exception):
            self.end(*self._watched)
        until = time.monotonic() + _ENDS_S
        for outlet in self._unawaited:
            outlet.wait_for_end(until)


def _look_at_ranks(watched: Watched, snapshot: Snapshot) -> None:
    """Now and then: a thousand files take some time."""
    if snapshot.loader.world_size == 1 or time.monotonic() < watched.next_ranks_at:
        return
    began_at = time.monotonic()
    watched.ranks = other_ranks(snapshot.loader)
    now = time.monotonic()
    watched.next_ranks_at = now + max(_RANKS_S, _RANKS_SHARE * (now - began_at))


_of_process = Reporter()


def reporter() -> Reporter:
    """The reporter of this process."""
    return _of_process


def identity_number() -> int:
    """Another loader of this process."""
    return next(_loaders)


_loaders = count(1)


def _forget() -> None:
    """In a fork: what is observed belongs to the parent, and so do its files, threads and locks."""
    global _of_process
    _of_process = Reporter()


def _end_all() -> None:
    _of_process.end_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
