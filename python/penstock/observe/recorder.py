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
from typing import NamedTuple, TypeAlias

from penstock.observe.events import Event
from penstock.observe.history import History
from penstock.observe.machine import MachineWatch
from penstock.observe.quantiles import TimeHistogram
from penstock.observe.snapshot import Times

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
#: Where the consumer stands: epoch, and step of its next batch.
Place: TypeAlias = tuple[int, int]

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

    def asks(self, here: Place) -> None:
        """The consumer asks for an item. here: the position of its next batch, which says how many batches of the item before it took."""
        now, consumer = time.perf_counter(), self.consumer
        if (item := consumer.item) is not None:
            steps = item.steps_before(here)
            samples = item.samples_in(steps)
            if steps and (step_began_at := consumer.step_began_at) is not None:
                consumer.step.add(max(0.0, now - step_began_at))
            elif steps:
                consumer.step.add(max(0.0, now - item.began_at) / steps, steps)
            if consumer.cpu_before_s is not None:
                consumer.cpu_s += max(0.0, time.thread_time() - consumer.cpu_before_s)
                consumer.sampled_s += max(0.0, now - item.began_at)
            consumer.ends_item(steps)
            if steps:
                told = consumer.thread, item.epoch, item.first_step, steps, samples, 0
                self.add(("step", "consumer", item.began_at, now, *told))
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
            consumer.waits(now - asked_at)
            self.add(("wait", "consumer", asked_at, now, thread, epoch, first_step, steps, samples, 0))
        consumer.begins_item(TakenItem(now, epoch, first_step, steps, samples, consumer.items == 1))
        consumer.cpu_before_s = time.thread_time() if consumer.items % _SAMPLED == 0 else None

    def rests(self, here: Place) -> None:
        """The pass is over, or nothing came: what comes before it asks again is no step. here: as `asks` has it."""
        consumer, now = self.consumer, time.perf_counter()
        if consumer.item is not None and consumer.asked_at is None:
            self.asks(here)  # the last step
        consumer.asked_at = None
        consumer.leaves_item()
        consumer.rests_since = now


class TakenItem(NamedTuple):
    """What the consumer has, and takes batch by batch."""

    began_at: float
    epoch: int
    first_step: int
    steps: int
    samples: int
    is_first: bool

    def steps_before(self, here: Place) -> int:
        """How many of its batches were taken where the consumer stands."""
        epoch, step = here
        if epoch != self.epoch:
            return self.steps if epoch > self.epoch else 0
        return min(self.steps, max(0, step - self.first_step))

    def samples_in(self, steps: int) -> int:
        """The samples of its first batches."""
        return self.samples * steps // max(1, self.steps)


class Taken(NamedTuple):
    """What the consumer took so far. steady_samples: without the first batch. there: batches that came with one that was awaited."""

    batches: int = 0
    samples: int = 0
    steady_samples: int = 0
    there: int = 0

    def and_of(self, item: TakenItem | None, steps: int) -> Taken:
        """With the first batches of an item."""
        if item is None or not steps:
            return self
        samples = item.samples_in(steps)
        steady = samples - item.samples_in(1) if item.is_first else samples
        return Taken(self.batches + steps, self.samples + samples, self.steady_samples + steady, self.there + steps - 1)


class ConsumerTimes:
    """Waits for batches, and steps, of the pipeline that runs, after the first item."""

    def __init__(self) -> None:
        self.thread = 0
        self.asked_at: float | None = None
        self.rests_since: float | None = None
        #: When its last step began, where steps are timed.
        self.step_began_at: float | None = None
        self.begin_run()

    def begin_run(self) -> None:
        """Nothing was taken yet."""
        self.wait, self.step = TimeHistogram(), TimeHistogram()
        self.waited_s = self.first_wait_s = self.rested_s = self.cpu_s = self.sampled_s = 0.0
        self.cpu_before_s: float | None = None
        self.items = self._ready = 0
        #: What it took, and the item that it has: one value, so that another thread never sees half of a change.
        self._taken: tuple[Taken, TakenItem | None] = Taken(), None
        self.rests_since = None

    def waits(self, seconds: float) -> None:
        """It waited for an item."""
        if self.rests_since is not None and self.items:
            self.rested_s += max(0.0, time.perf_counter() - seconds - self.rests_since)
        self.rests_since = None
        self.waited_s += seconds
        if self.items:
            self.wait.add(seconds)
            self._ready += seconds < READY_S
        else:
            self.first_wait_s = seconds
        self.items += 1

    @property
    def item(self) -> TakenItem | None:
        """The item that it has."""
        return self._taken[1]

    def begins_item(self, item: TakenItem) -> None:
        """It has another item, whose batches count as they are taken."""
        self._taken = self._taken[0], item

    def ends_item(self, steps: int) -> None:
        """It took so many batches of its item, and takes no more of it."""
        before, item = self._taken
        after = before.and_of(item, steps)
        if more := after.there - before.there:
            self.wait.add(0.0, more)
        self._taken = after, None

    def leaves_item(self) -> None:
        """It has none."""
        self._taken = self._taken[0], None

    def now(self, here: Place) -> ConsumerNow:
        """What it took up to a position, in any thread."""
        before, item = self._taken
        taken = before if item is None else before.and_of(item, item.steps_before(here))
        step_s = self.step.sum_s + self._going_on_s(item)
        return ConsumerNow(
            taken=taken,
            wait=self.wait.times(zeros=taken.there - before.there),
            ready=(self._ready + taken.there) / max(1, self.items - 1 + taken.there),
            steady_s=self.wait.sum_s + step_s,
            waited=min(1.0, self.waited_now_s() / max(1e-9, self.waited_now_s() + step_s)),
        )

    def _going_on_s(self, item: TakenItem | None) -> float:
        """How long its step goes on, or those of an item whose steps are not timed one by one."""
        if item is None:
            return 0.0
        began_at = self.step_began_at
        return max(0.0, time.perf_counter() - (item.began_at if began_at is None else began_at))

    @property
    def step_cpu(self) -> float:
        """The share of its steps in which its thread had a CPU."""
        return min(1.0, self.cpu_s / max(1e-9, self.sampled_s))

    def waited_now_s(self) -> float:
        """Seconds of all waits, also of the one that goes on."""
        asked_at = self.asked_at
        return self.waited_s + (0.0 if asked_at is None else max(0.0, time.perf_counter() - asked_at))


class ConsumerNow(NamedTuple):
    """The consumer's figures. wait: for batches after the first. steady_s: since the first came, without pauses. waited: the share of waits, the first one with them, in waits and steps."""

    taken: Taken
    wait: Times
    ready: float
    steady_s: float
    waited: float


def record_for(recorder: Recorder | None) -> None:
    """What this thread runs, and threads that it starts, tells this recorder."""
    _recorder.set(recorder)


def recorder_here() -> Recorder | None:
    """The recorder of the run that this thread works for."""
    return _recorder.get()


def _event(event: RawEvent) -> Event:
    what, kind, began_at, ended_at, *others = event
    return Event(what, kind, int(began_at * 1e9), int(ended_at * 1e9), *others)
