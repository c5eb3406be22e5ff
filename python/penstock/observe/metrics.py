"""The counters of a stage, measured from outside."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Meter:
    """Totals of one stage. Times are in seconds, summed over its threads.

    busy: inside the stage's function. waiting_for_input, waiting_for_output: blocked on the channels around it. threads: as many as work now.
    """

    name: str
    kind: str
    threads: int
    items: int = 0
    rows: int = 0
    size_bytes: int = 0
    busy_s: float = 0.0
    waiting_for_input_s: float = 0.0
    waiting_for_output_s: float = 0.0
    queue_depth: int = 0
    _more_s: float = 0.0  # thread-seconds that there were beyond those of as many threads as now
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, *, rows: int, size_bytes: int, waited_s: float, busy_s: float, blocked_s: float, queue: int) -> None:
        """Count one item."""
        with self._lock:
            self.items += 1
            self.rows += rows
            self.size_bytes += size_bytes
            self.busy_s += busy_s
            self.waiting_for_input_s += waited_s
            self.waiting_for_output_s += blocked_s
            self.queue_depth = queue

    def resize(self, threads: int, elapsed_s: float) -> None:
        """Other threads work from now on, `elapsed_s` after the beginning."""
        self._more_s += (self.threads - threads) * elapsed_s
        self.threads = threads

    def thread_s(self, elapsed_s: float) -> float:
        """Seconds of all threads that might have worked since the beginning."""
        return max(1e-9, self.threads * elapsed_s + self._more_s)

    def snapshot(self, elapsed_s: float) -> dict[str, float | int | str]:
        """The figures as plain values, with rates over `elapsed_s`."""
        over = max(elapsed_s, 1e-9)
        thread_s = self.thread_s(over)
        return {
            "name": self.name,
            "kind": self.kind,
            "threads": self.threads,
            "items": self.items,
            "samples": self.rows,
            "bytes": self.size_bytes,
            "samples_per_s": self.rows / over,
            "bytes_per_s": self.size_bytes / over,
            "busy": self.busy_s / thread_s,
            "waiting_for_input": self.waiting_for_input_s / thread_s,
            "waiting_for_output": self.waiting_for_output_s / thread_s,
            "queue_depth": self.queue_depth,
        }
