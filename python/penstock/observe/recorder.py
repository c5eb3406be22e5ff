"""What a loader keeps of what happened: the last events in a ring, and what the consumer waited and worked.

The ring has a place for each of the last events, and each event a number, by which its place follows. A thread that has something to tell draws a number and
writes one tuple into one place: it takes no lock, and waits for nobody.

    number 0 … 8191 ──► place 0 … 8191,    number 8192 ──► place 0 again

This is right with the interpreter's lock and without: `next` of a count and the assignment to an item of a list are each atomic in both, no two threads have the same
number, and a tuple is never seen half. What is read says its own number: a smaller one than expected is not written yet, a greater one took the place of one that nobody read.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from itertools import count
from typing import TypeAlias

from penstock.observe.events import Event
from penstock.observe.history import History
from penstock.observe.machine import MachineWatch
from penstock.observe.quantiles import TimeHistogram

#: Events that are kept, about 2 MB.
RING = 8192
#: An event that is not written when so many later ones are never will be.
_LATE = 256
#: A batch that was awaited for less was ready.
READY_S = 0.0005
#: One of so many items is looked at for the CPU time of its steps, since that is a call of the system.
_SAMPLED = 8
#: Shorter steps are timed together.
_LONG_STEP_S = 0.0001

#: As `Event`, with times in seconds of time.perf_counter().
RawEvent: TypeAlias = tuple[str, str, float, float, int, int, int, int, int, int]

_recorder: ContextVar[Recorder | None] = ContextVar("penstock_recorder", default=None)


class Recorder:
    """Of one loader. `add` is for any thread, the rest of the consumer's figures for its own. history: of its snapshots, which the reporter makes."""

    def __init__(self, size: int = RING) -> None:
        self._ring: list[tuple[int, RawEvent] | None] = [None] * size
        self._numbers = count()
        self.consumer, self.machine = ConsumerTimes(), MachineWatch()
        self.history = History()

    def add(self, event: RawEvent) -> None:
        """Something happened."""
        number = next(self._numbers)
        self._ring[number % len(self._ring)] = number, event

    def events_since(self, cursor: int) -> tuple[list[Event], int, int]:
        """What happened since a cursor, 0 for all that is kept, in the order in which it was told; the cursor for the next call; and how many were lost, since the ring was full."""
        found, cursor, lost = self.told_since(cursor)
        return [_event(one) for one in found], cursor, lost

    def told_since(self, cursor: int) -> tuple[list[RawEvent], int, int]:
        """The same as it was told."""
        ring, found, lost = self._ring, list[RawEvent](), 0
        while True:
            entry = ring[cursor % len(ring)]
            if entry is not None and entry[0] == cursor:
                found.append(entry[1])
                cursor += 1
            elif entry is not None and entry[0] > cursor:  # the ring went round
                lost, cursor = lost + entry[0] - len(ring) + 1 - cursor, entry[0] - len(ring) + 1
            elif self._is_left_out(cursor):
                lost, cursor = lost + 1, cursor + 1
            else:
                return found, cursor, lost

    def _is_left_out(self, number: int) -> bool:
        """Whether nobody writes this event any more: Ctrl-C came between number and event."""
        later = self._ring[(number + _LATE) % len(self._ring)]
        return later is not None and later[0] >= number + _LATE

    def begin_run(self) -> None:
        """Another pipeline begins; figures are of this one."""
        self.consumer.begin_run()
        self.machine.begin()

    def asks(self) -> None:
        """The consumer asks for an item."""
        now, consumer = time.perf_counter(), self.consumer
        if (last := consumer.last) is not None:
            began_at, epoch, first_step, steps, samples = last
            consumer.last = None
            if consumer.step_began_at is None:
                consumer.step.add(max(0.0, now - began_at) / steps, steps)
            else:
                consumer.step.add(max(0.0, now - consumer.step_began_at))
            if consumer.cpu_before_s is not None:
                consumer.cpu_s += max(0.0, time.thread_time() - consumer.cpu_before_s)
                consumer.sampled_s += max(0.0, now - began_at)
            self.add(("step", "consumer", began_at, now, consumer.thread, epoch, first_step, steps, samples, 0))
        consumer.asked_at = now

    @property
    def times_steps(self) -> bool:
        """Whether steps take so long that each may be timed, and not all of an item together."""
        step = self.consumer.step
        return step.count == 0 or step.sum_s > _LONG_STEP_S * step.count

    def begins_step(self) -> None:
        """Another step of the item that the consumer has; the one before is over."""
        now, consumer = time.perf_counter(), self.consumer
        if consumer.step_began_at is not None:
            consumer.step.add(max(0.0, now - consumer.step_began_at))
        consumer.step_began_at = now

    def gets(self, thread: int, epoch: int, first_step: int, steps: int, samples: int) -> None:
        """It has it."""
        now, consumer = time.perf_counter(), self.consumer
        asked_at, consumer.asked_at, consumer.thread = consumer.asked_at, None, thread
        consumer.step_began_at = None
        if asked_at is not None:
            consumer.waits(now - asked_at, steps, samples)
            self.add(("wait", "consumer", asked_at, now, thread, epoch, first_step, steps, samples, 0))
        consumer.last = now, epoch, first_step, steps, samples
        consumer.cpu_before_s = time.thread_time() if consumer.items % _SAMPLED == 0 else None

    def rests(self) -> None:
        """The pass is over, or nothing came: what comes before it asks again is no step."""
        consumer, now = self.consumer, time.perf_counter()
        if consumer.last is not None and consumer.asked_at is None:
            self.asks()  # the last step
        consumer.asked_at = consumer.last = None
        consumer.rests_since = now


class ConsumerTimes:
    """Waits for batches, and steps, of the pipeline that runs, after the first item."""

    def __init__(self) -> None:
        self.thread = 0
        self.asked_at: float | None = None
        #: When it got the last item: when, epoch, first step, steps, samples.
        self.last: tuple[float, int, int, int, int] | None = None
        self.rests_since: float | None = None
        #: When its last step began, where steps are timed.
        self.step_began_at: float | None = None
        self.begin_run()

    def begin_run(self) -> None:
        """Nothing was taken yet."""
        self.wait, self.step = TimeHistogram(), TimeHistogram()
        self.waited_s = self.first_wait_s = self.rested_s = self.cpu_s = self.sampled_s = 0.0
        self.cpu_before_s: float | None = None
        self.items = self.batches = self.steady_samples = self._ready = 0
        self.last = self.rests_since = None

    def waits(self, seconds: float, steps: int, samples: int) -> None:
        """It waited for an item of some steps."""
        if self.rests_since is not None and self.items:
            self.rested_s += max(0.0, time.perf_counter() - seconds - self.rests_since)
        self.rests_since = None
        self.waited_s += seconds
        if self.items:
            self.wait.add(seconds)
            self._ready += seconds < READY_S
            self.steady_samples += samples
            if steps > 1:  # the item's other batches are there
                self.wait.add(0.0, steps - 1)
                self._ready += steps - 1
        else:
            self.first_wait_s = seconds
        self.items += 1
        self.batches += steps

    @property
    def step_cpu(self) -> float:
        """The share of its steps in which its thread had a CPU."""
        return min(1.0, self.cpu_s / max(1e-9, self.sampled_s))

    @property
    def ready(self) -> float:
        """The share of batches that were ready."""
        return self._ready / max(1, self.wait.count)

    def rested_now_s(self) -> float:
        """Seconds between passes, also of the pause that goes on."""
        since = self.rests_since
        return self.rested_s + (0.0 if since is None else max(0.0, time.perf_counter() - since))

    def waited_now_s(self) -> float:
        """Seconds of all waits, also of the one that goes on."""
        asked_at = self.asked_at
        return self.waited_s + (0.0 if asked_at is None else max(0.0, time.perf_counter() - asked_at))


def record_for(recorder: Recorder | None) -> None:
    """What this thread runs, and threads that it starts, tells this recorder."""
    _recorder.set(recorder)


def recorder_here() -> Recorder | None:
    """The recorder of the run that this thread works for."""
    return _recorder.get()


def _event(event: RawEvent) -> Event:
    what, kind, began_at, ended_at, *others = event
    return Event(what, kind, int(began_at * 1e9), int(ended_at * 1e9), *others)
