"""The counters of a stage, measured from outside."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from penstock.observe.quantiles import TimeHistogram
from penstock.observe.snapshot import StageFigures


@dataclass
class Meter:
    """Totals of one stage. Times are in seconds, summed over its threads.

    busy: inside the stage's function. waiting_for_input, waiting_for_output: blocked on the channels around it. threads: as many as work now. item_times: of each item, inside the function. cpu_s: on a CPU, of the items whose cpu_of_s was asked for.
    """

    name: str
    kind: str
    threads: int
    items: int = 0
    rows: int = 0
    size_bytes: int = 0
    busy_s: float = 0.0
    cpu_s: float = 0.0
    cpu_of_s: float = 0.0
    waiting_for_input_s: float = 0.0
    waiting_for_output_s: float = 0.0
    queue_depth: int = 0
    queue_limit: int = 0
    item_times: TimeHistogram = field(default_factory=TimeHistogram, repr=False, compare=False)
    _more_s: float = 0.0  # thread-seconds that there were beyond those of as many threads as now
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(
        self,
        *,
        rows: int,
        size_bytes: int,
        waited_s: float,
        busy_s: float,
        blocked_s: float,
        queue: int,
        limit: int = 0,
        cpu_s: float | None = None,
    ) -> None:
        """Count one item. cpu_s: None where it was not asked for."""
        with self._lock:
            self.items += 1
            self.rows += rows
            self.size_bytes += size_bytes
            self.busy_s += busy_s
            if cpu_s is not None:
                self.cpu_s += cpu_s
                self.cpu_of_s += busy_s
            self.waiting_for_input_s += waited_s
            self.waiting_for_output_s += blocked_s
            self.queue_depth, self.queue_limit = queue, limit
            self.item_times.add(busy_s)

    def resize(self, threads: int, elapsed_s: float) -> None:
        """Other threads work from now on, `elapsed_s` after the beginning."""
        self._more_s += (self.threads - threads) * elapsed_s
        self.threads = threads

    def thread_s(self, elapsed_s: float) -> float:
        """Seconds of all threads that might have worked since the beginning."""
        return max(1e-9, self.threads * elapsed_s + self._more_s)

    def snapshot(self, elapsed_s: float) -> StageFigures:
        """The figures, with rates over `elapsed_s`."""
        over = max(elapsed_s, 1e-9)
        thread_s = self.thread_s(over)
        return StageFigures(
            name=self.name,
            kind=self.kind,
            threads=self.threads,
            items=self.items,
            samples=self.rows,
            bytes=self.size_bytes,
            samples_per_s=self.rows / over,
            bytes_per_s=self.size_bytes / over,
            busy=self.busy_s / thread_s,
            waiting_for_input=self.waiting_for_input_s / thread_s,
            waiting_for_output=self.waiting_for_output_s / thread_s,
            queue_depth=self.queue_depth,
            queue_limit=self.queue_limit,
            cpu=min(1.0, self.cpu_s / max(1e-9, self.cpu_of_s)),
            item_s=self.item_times.times(),
        )
