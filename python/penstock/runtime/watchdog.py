"""The watchdog: tells what every stage does when none finishes anything while a batch is awaited.

No thread runs for it. The wait for a batch ends now and then, looks at the stages' counters, and continues. What the consumer does
between two batches is its own time.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

from penstock.core.errors import PlanError
from penstock.core.messages import printable_lines, quoted
from penstock.order.steps.cursor import Work
from penstock.runtime import run as run_module
from penstock.runtime.run import Run
from penstock.runtime.stage import Item
from penstock.runtime.thread_notes import Doing, StageNow

_log = logging.getLogger("penstock")

#: How often counters are looked at while the patience lasts, and the least seconds between two looks.
_LOOKS, _LEAST_S = 4, 0.01
#: Frames of a stack, and items of a queue, that are shown.
_FRAMES, _SHOWN = 30, 8
#: Frames that every thread of a stage has.
_OUTER = (threading.__file__, run_module.__file__)


class RunsBelow(Protocol):
    """A stage that runs others below it: its name, the run while there is one, and the same below that."""

    @property
    def name(self) -> str:
        """Of the stage, for people."""

    @property
    def run(self) -> Run | None:
        """What runs below it; None if nothing does."""

    @property
    def below(self) -> Sequence[RunsBelow]:
        """The stages of that run that run others."""


class Watchdog:
    """Waits for batches. patience_s: after so many seconds without progress it tells what every stage does; None for never.

    PlanError for another patience. stalls: how often it told so.
    """

    def __init__(self, patience_s: float | None) -> None:
        if patience_s is not None and not _is_patience(patience_s):
            raise PlanError(f"watchdog={quoted(patience_s)}; pass seconds above 0, or None for no reports of stalls")
        self._patience_s = None if patience_s is None else float(patience_s)
        self._every_s = None if patience_s is None else max(_LEAST_S, float(patience_s) / _LOOKS)
        self.stalls = 0

    def next_item(self, run: Run, below: Sequence[RunsBelow], about: Callable[[], str]) -> Item:
        """The run's next item. about: more to tell of a stall. below: lane stages that the run gets rows from."""
        if self._patience_s is None:
            return next(run)
        patience_s, wait = self._patience_s, None

        def look() -> None:
            nonlocal wait
            wait = wait or _ItemWait(patience_s, run, below)
            if wait.is_stalled():
                self.stalls += 1
                _log.warning("%s", _text(wait.patience_s, run, below, about))

        return run.take(self._every_s, look)


def _is_patience(value: Any) -> bool:
    is_number: bool = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and bool(0 < value <= threading.TIMEOUT_MAX)


@dataclass
class _ItemWait:
    """One wait for an item: how many items all stages had finished, and when that was first seen."""

    patience_s: float
    run: Run
    below: Sequence[RunsBelow]
    finished: int = -1
    since_s: float = 0.0
    is_told: bool = False

    def is_stalled(self) -> bool:
        """Whether nothing was finished for the whole patience; True once, until something is."""
        finished = sum(meter.items for run, _ in _runs(self.run, self.below) for meter in run.meters)
        now = time.monotonic()
        if finished != self.finished:
            self.finished, self.since_s, self.is_told = finished, now, False
        if self.is_told or now - self.since_s < self.patience_s:
            return False
        self.is_told = True
        return True


def _runs(run: Run, below: Sequence[RunsBelow], behind: str = "") -> Iterator[tuple[Run, str]]:
    """A run after those below it, each with the name of the lane stage that it ends with."""
    for feed in below:
        if (inner := feed.run) is not None:
            yield from _runs(inner, feed.below, feed.name)
    yield run, behind


def _text(patience_s: float, run: Run, below: Sequence[RunsBelow], about: Callable[[], str]) -> str:
    """All that is known of a stall. No mistake in it may end a training that would go on."""
    now = time.perf_counter()
    try:
        every = [(lane, stage) for one, lane in _runs(run, below) for stage in one.stages_now()]
        lines = [f"penstock: a batch is awaited, and no stage finished anything for {patience_s:g} s", ""]
        lines += [line for lane, stage in every for line in _lines(stage, lane, now)]
        lines += ["", about(), ""]
        lines += [
            line for lane, stage in every for doing in stage.threads for line in _stack(_named(stage, lane), doing)
        ]
        return printable_lines("\n".join(lines))
    except Exception as error:
        return f"penstock: a batch is awaited, and no stage finished anything for {patience_s:g} s ({quoted(error)})"


def _named(stage: StageNow, lane: str) -> str:
    """A stage's name, as reports have it: with that of the lane stage that it works for."""
    return f"{stage.name} -> {lane}" if lane and stage.name != lane else stage.name


def _lines(stage: StageNow, lane: str, now: float) -> list[str]:
    """What each thread of a stage does, and what waits behind it. What a lane stage asks for are pieces, and not steps."""
    steps = _piece if lane else _steps
    lines = []
    for doing in stage.threads:
        what, work, since = doing.now
        lines.append(
            f"  {_named(stage, lane)}: {what}{', ' + steps(work) if work is not None else ''}, for {now - since:.1f} s"
        )
    if stage.queue:
        shown = "; ".join("an error" if work is None else steps(work) for work in stage.queue[:_SHOWN])
        more = f"; and {len(stage.queue) - _SHOWN} more" if len(stage.queue) > _SHOWN else ""
        lines.append(f"    behind it wait: {shown}{more}")
    return lines


def _steps(work: Work) -> str:
    last = f" … {work.step + work.steps - 1}" if work.steps > 1 else ""
    return f"epoch {work.epoch}, step {work.step}{last}"


def _piece(work: Work) -> str:
    return f"piece {work.step}"


def _stack(name: str, doing: Doing) -> list[str]:
    frame: Any = None if doing.ident is None else sys._current_frames().get(doing.ident)  # noqa: SLF001  # documented
    if frame is None:
        return [f"stage {name!r}: its thread has ended"]
    frames = traceback.extract_stack(frame, limit=_FRAMES)
    del frame  # which holds what its thread works on
    inner = [one for one in frames if one.filename not in _OUTER]
    return [f"stage {name!r}, its stack, the latest call last:", *"".join(traceback.format_list(inner)).splitlines()]
