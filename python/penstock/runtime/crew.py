"""The threads of one stage, as many as are wanted at the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from penstock.observe.metrics import Meter
from penstock.runtime.channel import Channel, Gate, Joined
from penstock.runtime.stage import Stage
from penstock.runtime.thread_notes import WORKS, Doing

#: Makes the loop of a thread: (its number, what it does).
Serve = Callable[[int, Doing], Callable[[], None]]


class Crew:
    """Threads are started when they are first wanted. Those beyond `gate.limit` rest before they take an item, and keep what they hold of their own."""

    def __init__(self, stage: Stage, meter: Meter, outbox: Channel[Any], threads: Joined) -> None:
        self.stage, self.meter, self.doing = stage, meter, list[Doing]()
        self.gate = Gate(meter.threads)
        self._outbox, self._threads, self._began_at = outbox, threads, time.perf_counter()
        self._serve: Serve | None = None
        self._least_room = 0

    def begin(self, serve: Serve) -> None:
        """Starts the first threads."""
        self._serve, self._least_room = serve, self._outbox.capacity
        for _ in range(self.meter.threads):
            self._start()

    def _start(self) -> None:
        assert self._serve is not None
        doing = Doing()
        self._threads.start(f"penstock-{self.stage.name}-{len(self.doing)}", self._serve(len(self.doing), doing))
        self.doing.append(doing)

    def resize(self, threads: int) -> int:
        """So many work from now on; how many there are, if the system gives no more.

        Behind more threads than there were at first is room for what each has done, so that none waits for a slower one before it.
        """
        try:
            while len(self.doing) < threads:
                self._start()
        except RuntimeError:  # the system has no more threads to give
            threads = len(self.doing)
        self.meter.resize(threads, time.perf_counter() - self._began_at)
        if self.stage.kind == "python":
            self._outbox.capacity = max(self._least_room, threads if threads > self.stage.threads else 0)
        self.gate.open_for(threads)
        return threads

    @property
    def busy_s(self) -> float:
        """Seconds of work so far, of all threads."""
        return self.meter.busy_s

    @property
    def waiting_s(self) -> float:
        """Seconds of waiting for input so far."""
        return self.meter.waiting_for_input_s

    @property
    def threads(self) -> int:
        """How many work now."""
        return self.meter.threads

    @property
    def items(self) -> int:
        """Items so far."""
        return self.meter.items

    def is_at_work(self, since_s: float) -> bool:
        """Whether all threads that may work have worked on an item each for so long."""
        until = time.perf_counter() - since_s
        now = [doing.now for doing in self.doing[: self.gate.limit]]
        return all(what is WORKS and since <= until for what, _, since in now)
