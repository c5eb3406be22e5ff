"""An exporter with a thread and a queue of its own. Whatever it does, nobody waits for it but at its end, and not long."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress

from penstock.core.messages import printable
from penstock.observe.events import Event
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.figure_groups import ExporterFigures
from penstock.observe.snapshot import Snapshot

_log = logging.getLogger("penstock")

#: Snapshots that may wait for an exporter; with two a second, what a slow disk may need.
_QUEUED = 20
#: Events that wait with one snapshot, at most.
_MOST_EVENTS = 20_000
#: So many failures in a row, and it is given up.
_FAILURES = 3


class Outlet:
    """What goes to one exporter, which was opened before. name: as the user wrote it, for messages.

    With a full queue the oldest snapshot is left out; its events go with the next one. What raises three times in a row is given up: a warning in the log, and no
    more of it. All of this is counted.
    """

    def __init__(self, name: str, exporter: Exporter) -> None:
        self.name, self.exporter = name, exporter
        self._queue = deque[tuple[Snapshot, list[Event]]]()
        self._lock = (
            threading.RLock()
        )  # a finalizer that ends a loader may run wherever memory is asked for, also while it is held
        self._come = threading.Condition(self._lock)
        self._is_ending, self._is_over = False, False
        self.written = self.left_out = self.failures = 0
        self.error = ""
        self._thread = threading.Thread(target=self._serve, name=f"penstock-observe-{name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no more threads to give
            with suppress(Exception):
                exporter.close()
            self._give_up(f"no thread for it could be started ({error})")

    def put(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Hands over; returns at once."""
        with self._lock:
            if self._is_ending or self._is_over:
                return
            if len(self._queue) >= _QUEUED:
                _, unwritten = self._queue.popleft()
                self.left_out += 1
                after = self._queue[0]
                self._queue[0] = after[0], (unwritten + after[1])[-_MOST_EVENTS:]
            self._queue.append((snapshot, events))
            self._come.notify()

    def figures(self) -> ExporterFigures:
        """What became of what was handed over."""
        state = "dropped" if self._is_over and self.error else "ended" if self._is_over else "running"
        return ExporterFigures(
            state=state, written=self.written, left_out=self.left_out, failures=self.failures, error=self.error
        )

    @property
    def has_ended(self) -> bool:
        """Whether its thread has."""
        return not self._thread.is_alive()

    def begin_end(self) -> None:
        """Nothing more is handed over."""
        with self._lock:
            self._is_ending = True
            self._come.notify()

    def wait_for_end(self, until: float) -> None:
        """Waits for what is still to be written, up to a time of time.monotonic()."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, until - time.monotonic()))
            if self._thread.is_alive():
                self._give_up("did not end in time")

    # In its thread

    def _serve(self) -> None:
        exporter, in_a_row = self.exporter, 0
        while (next_one := self._next()) is not None:
            try:
                exporter.write(*next_one)
            except (Exception, SystemExit) as error:
                in_a_row, self.failures = in_a_row + 1, self.failures + 1
                self.error = _words(error)
                if in_a_row >= _FAILURES:
                    self._give_up(self.error)
                    break
            else:
                in_a_row, self.written, self.error = 0, self.written + 1, ""
        try:
            exporter.close()
        except BaseException as error:  # of its own thread, which ends
            self.failures += 1
            self._give_up(_words(error))
        self._is_over = True

    def _next(self) -> tuple[Snapshot, list[Event]] | None:
        with self._lock:
            while not self._queue and not self._is_ending:
                self._come.wait()
            return self._queue.popleft() if self._queue else None

    def _give_up(self, why: str) -> None:
        with self._lock:
            is_told, self._is_over, self.error = self._is_over, True, why
            self._queue.clear()
        if not is_told:
            _log.warning("penstock: the exporter %s is given up: %s; training goes on without it", self.name, why)


def _words(error: BaseException) -> str:
    return printable(f"{type(error).__name__}: {error}")
