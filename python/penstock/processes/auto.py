"""`workers="auto"`: threads, unless they take turns and processes are measured to be faster.

The function begins on threads. Where it is at work all the time, and its threads together get about one CPU, as threads do that hold the interpreter,
processes start while threads go on, and each makes a batch that a thread made; if all are equal, processes get the next ones. They keep the work if they make at least a quarter more batches a second.
A function that draws from generators that it was not given runs one call at a time, and only while the loop waits: processes start after some calls, and a tenth is enough.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.cancel import LOOK_S, StoppedError, carried, check
from penstock.core.columns.spec import Columns
from penstock.core.draw_keys import DrawKeys
from penstock.stages.call import FunctionCalls, Rows
from penstock.stages.calls_together import calls_together
from penstock.transform.repeat_check import copied

#: A measurement takes at least so long, and so many calls for each CPU.
_SECONDS, _CALLS = 0.3, 4
#: Threads are at work for so much of the time, and get so many CPUs together, where they may be waiting for the interpreter.
_BUSY, _FEWEST_CPUS, _MOST_CPUS = 0.7, 0.5, 1.3
#: So many times the batches a second are worth the memory of processes.
_GAIN = 1.25
#: The same of functions whose calls hold up the training loop, and so many calls that show how fast they are there; the first is not counted.
_GAIN_OF_TURNS, _TURNS = 1.1, 3


@dataclass
class FunctionChoice:
    """Where a function runs, and why."""

    function: str
    workers: str = "thread"
    why: str = "nothing was measured yet"

    def figures(self) -> dict[str, str]:
        """As `Loader.stats()` has it."""
        return {"function": self.function, "workers": self.workers, "why": self.why}


def has_interpreter_lock() -> bool:
    """Whether threads take turns to run Python; free-threaded Python says no."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


@dataclass
class _Measurement:
    """Calls of one measurement. cpu_s: CPU time of the threads in them; active_s: when there was at least one.

    skip: so many calls, and those that begin before these have ended, are not counted: processes start in them.
    """

    skip: int = 0
    calls: int = 0
    cpu_s: float = 0.0
    active_s: float = 0.0
    now: int = 0
    began_at: float = field(default_factory=time.perf_counter)
    active_since: float = 0.0

    def enter(self) -> bool:
        """A call begins; whether it counts."""
        if not self.now:
            self.active_since = time.perf_counter()
        self.now += 1
        return not self.skip

    def leave(self, cpu_s: float, *, counts: bool) -> None:
        """A call ends. The measurement begins when the last that does not count has ended."""
        now = time.perf_counter()
        self.now -= 1
        self.active_s += now - self.active_since
        self.active_since = now
        self.calls, self.cpu_s = self.calls + 1, self.cpu_s + cpu_s
        if not counts:
            self.skip = max(0, self.skip - 1)
            self.calls, self.cpu_s, self.active_s, self.began_at = 0, 0.0, 0.0, now

    def is_enough(self, cpus: int, *, takes_turns: bool) -> bool:
        """Whether something can be said. takes_turns: one call runs at a time, however many CPUs there are."""
        if takes_turns:
            return self.calls >= _TURNS
        return self.calls >= _CALLS * cpus and self.active_s >= _SECONDS

    @property
    def rate(self) -> float:
        """Calls a second, while there were any."""
        return self.calls / max(self.active_s, 1e-9)


class CallAuto:
    """Calls a function on threads or in processes, whichever is faster.

    there: makes the way to processes, leave: ends them. takes_turns: whether calls on threads are known to run one at a time, while the loop waits.
    """

    def __init__(
        self,
        here: FunctionCalls,
        there: Callable[[], FunctionCalls],
        leave: Callable[[], None],
        cpus: int,
        choice: FunctionChoice,
        takes_turns: Callable[[], bool] = lambda: False,
    ) -> None:
        self._here, self._make_there, self._leave, self._cpus, self.choice = here, there, leave, cpus, choice
        self._takes_turns = takes_turns
        self._there: FunctionCalls | None = None
        self._lock, self._room = threading.Lock(), threading.Semaphore(cpus)
        self._window: _Measurement | None = _Measurement(skip=1)
        self._threads_rate = 0.0
        self._trial: threading.Thread | None = None
        if not has_interpreter_lock():
            self._decide("thread", "threads of this interpreter do not wait for each other")
        elif cpus < 2:
            self._decide("thread", "one CPU may be used")

    def __call__(self, columns: Columns, keys: DrawKeys) -> Columns:
        """What the function returned, or raises what it raised."""
        with self._lock:
            window, there = self._window, self._there
            if window is not None and there is None and self._is_enough(window):
                is_first = self._note_threads(window)
            else:
                is_first = False
        if is_first:
            return self._compared(columns, keys)
        if there is None:
            while not self._room.acquire(timeout=LOOK_S):
                check()
        try:
            return self._timed(there or self._here, window, (columns, keys))
        finally:
            if there is None:
                self._room.release()

    def many(self, calls: Sequence[Rows]) -> list[Columns]:
        """Several, at once where they go to processes."""
        return calls_together(lambda one: self(*one), calls, 1 if self._there is None else 2 * self._cpus)

    def _timed(self, call: FunctionCalls, window: _Measurement | None, rows: Rows) -> Columns:
        if window is None:
            return call(*rows)
        with self._lock:
            counts = window.enter()
        began_at = time.thread_time()
        try:
            return call(*rows)
        finally:
            with self._lock:
                window.leave(time.thread_time() - began_at, counts=counts)
                if self._window is window and self._there is not None and self._is_enough(window):
                    self._judge(window)

    def _is_enough(self, window: _Measurement) -> bool:
        turns = self._takes_turns() and (self._there is None or window.calls >= self._cpus)
        return window.is_enough(self._cpus, takes_turns=turns)

    def _note_threads(self, window: _Measurement) -> bool:
        """Whether processes are to be tried, after threads were measured; if not, they are measured again."""
        if self._takes_turns():
            self._threads_rate, self._window = window.rate, None
            return True
        cpus, busy = window.cpu_s / window.active_s, window.active_s / (time.perf_counter() - window.began_at)
        if busy >= _BUSY and _FEWEST_CPUS <= cpus <= _MOST_CPUS:
            self._threads_rate, self._window = window.rate, None
            return True
        self._window = _Measurement()
        if busy < _BUSY:
            self.choice.why = f"it is at work for {busy:.0%} of the time only"
        elif cpus > _MOST_CPUS:
            self.choice.why = f"its threads use {cpus:.1f} CPUs at once"
        else:
            self.choice.why = "it waits for something else than a CPU"
        return False

    def _compared(self, columns: Columns, keys: DrawKeys) -> Columns:
        """What the function returns here; meanwhile processes start, and if one returns the same, the next calls go there."""
        rows = copied(columns), keys
        try:
            made = self._here(columns, keys)
        except BaseException:
            self._window = _Measurement()  # it is the batch that is wrong, and another one is tried
            raise
        self.choice.why = "processes are starting, and each makes a batch that a thread made"
        self._trial = threading.Thread(
            target=carried(self._try), args=(rows, copied(made)), name="penstock-trial", daemon=True
        )
        self._trial.start()
        return made

    def _try(self, rows: Rows, made: Columns) -> None:
        """Every process makes what was made here: it starts, imports what the function needs, and is compared."""
        try:
            there = self._make_there()
            found = there.many([rows] * self._cpus)
        except StoppedError:
            self._window = _Measurement()
            return
        except BaseException as error:
            self._decide("thread", f"it fails in a process: {type(error).__name__}: {error}")
            return
        if not all(_are_equal(one, made) for one in found):
            self._decide("thread", "it returns something else in a process")
            return
        with self._lock:
            self._there, self._window = there, _Measurement(skip=(1 if self._takes_turns() else 2) * self._cpus)

    def wait(self) -> None:
        """Returns when no process is being tried any more; what tries one ends with the run that began it."""
        if self._trial is not None and self._trial is not threading.current_thread():
            self._trial.join()

    def _judge(self, window: _Measurement) -> None:
        gain = window.rate / self._threads_rate
        found = f"processes make {gain:.2f} times as many batches a second as threads"
        if gain >= (_GAIN_OF_TURNS if self._takes_turns() else _GAIN):
            self._decide("process", found)
        else:
            self._there = None
            self._decide("thread", found)

    def _decide(self, workers: str, why: str) -> None:
        self._window = None
        self.choice.workers, self.choice.why = workers, why
        if workers == "thread":
            self._leave()


def _are_equal(one: Columns, other: Columns) -> bool:
    return one.keys() == other.keys() and all(_is_equal(column, other[name]) for name, column in one.items())


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, pa.Array):
        return bool(isinstance(other, pa.Array) and one.equals(other))
    if not isinstance(other, np.ndarray) or one.dtype != other.dtype or one.shape != other.shape:
        return False
    return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
