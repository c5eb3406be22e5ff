"""What the threads of a run do right now: each writes it down, and nobody reads it before something seems to stand still."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from penstock.order.steps.cursor import Work

WAITS, WORKS, HANDS_ON = "waits for input", "works", "waits for room in the next queue"
#: Of a thread beyond those that keep up.
RESTS = "rests"


class Doing:
    """What one thread of a stage does. `now` is one tuple (what, on which work, since when), so that it is read whole."""

    __slots__ = ("ident", "now")

    def __init__(self) -> None:
        self.ident: int | None = None
        self.now: tuple[str, Work | None, float] = (WAITS, None, time.perf_counter())

    def begin(self) -> None:
        """The calling thread is the one."""
        self.ident = threading.get_ident()


@dataclass(frozen=True)
class StageNow:
    """A stage at a moment. queue: finished items that wait behind it, each by its steps; None for an error on its way."""

    name: str
    threads: tuple[Doing, ...]
    queue: tuple[Work | None, ...]
