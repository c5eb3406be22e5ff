"""Running the stages.

    Tickets ──► crew of stage 0 ──► Channel ──► crew of stage 1 ──► Channel ──► … ──► Channel ──► take(), the consumer's thread
    work, each    threads that run    items or failures, which leave it in the                        raises a failure in its item's place
    numbered      `_server`           order of their numbers, whoever made them first

Every item has the number of its ticket all along, so that stages of many threads need no order among themselves. An error is an item like others
(`Failure`): it travels to the consumer in its place, behind everything that came before it.

The failure contract, each case a test of tests/runtime/test_run.py and tests/support/promises.py:

1. Success: items leave in order, each once; when the work ends, `next` raises StopIteration.
2. A stage fails: everything before the failed item is delivered first; then its own exception, with its own traceback and
   a note that says stage, epoch, step and sample ids, is raised where the batch was requested. The run is over.
   A lane stage makes the rows of a piece that fails again, in smaller ones, so that only steps that need the bad row fail (`lanes.feed`).
3. Cancelled (`close`, a broken loop, a dropped loader, an interrupt while waiting): every thread stops after the item
   it is working on, and waits for no store any more; nothing is left running. `close` may be called twice and from any thread; whoever waits in `next`
   meanwhile gets ProcessError.
4. Ctrl-C reaches the consumer, since workers never take signals; it leaves `next` as KeyboardInterrupt, and 3 applies. Kernels look for it between
   images and between pieces of files.
5. The process ends while a run continues: it is closed before the interpreter ends.
6. After a fork, the child's copy of a run has no threads: `next` raises ProcessError. New runs work.
7. A user's function that never returns cannot be stopped: `close` waits 10 s for it, then warns and leaves its thread,
   which does not keep the process alive. After KeyboardInterrupt or SystemExit it waits half a second and says nothing.
8. A tuner changes how many threads of a stage work: more are started, or some rest before they take an item. They end with the others.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from penstock.core.cancel import work_for
from penstock.core.errors import DataError, PlanError, ProcessError
from penstock.core.functions.global_generators import hold_consumer_with
from penstock.core.functions.tracebacks import users_part
from penstock.core.warnings import warn
from penstock.observe.metrics import Meter
from penstock.observe.recorder import Recorder, record_for, recorder_here
from penstock.observe.torch_profiler import profiled
from penstock.order.steps.cursor import Work
from penstock.runtime.budget import Budget, BudgetShare
from penstock.runtime.channel import Channel, Closed, Gate, Joined, NothingYet, Tickets
from penstock.runtime.controller import Decision
from penstock.runtime.crew import Crew
from penstock.runtime.stage import Item, Stage
from penstock.runtime.thread_notes import HANDS_ON, RESTS, WAITS, WORKS, Doing, StageNow
from penstock.runtime.tune import Depth
from penstock.runtime.tuner import LOOK_S, PREFETCH, Tuner

#: How long threads are waited for; whoever pressed Ctrl-C wants to leave.
_PATIENCE_S, _INTERRUPTED_PATIENCE_S = 10.0, 0.5
_SHOWN_IDS = 8
#: Of so many items of a stage one's CPU time is asked for.
_CPU_ASKED = 8

_running: weakref.WeakSet[Run] = weakref.WeakSet()


@dataclass(frozen=True)
class Failure:
    """An exception on its way to the consumer, in the place of the item that could not be made."""

    error: BaseException


Passed: TypeAlias = Item | Failure


@dataclass(frozen=True)
class ToldOfItems:
    """Who is told of a stage's items."""

    recorder: Recorder | None
    meter: Meter
    name: str


class Run:
    """Stages at work on a sequence of work; iterate to get the finished items in order. thread_setup: what each thread does first. wake: ends waits for work when the run is closed.

    recorder: what is told of every item; of a run that a stage of another run begins, it is that one's.
    """

    def __init__(
        self,
        stages: tuple[Stage, ...],
        work: Iterator[Any],
        depth: Depth,
        budget: Budget | None = None,
        tuner: Tuner | None = None,
        thread_setup: Callable[[], None] | None = None,
        wake: Callable[[], None] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._wake = wake
        self._recorder, self._below = (recorder_here(), stages[-1].name) if recorder is None else (recorder, "")
        self._budget = budget or Budget(sys.maxsize)
        self._tuner = tuner or Tuner((), (self._budget,), has_kernels=False)
        threads = [self._tuner.threads(number, stage) for number, stage in enumerate(stages)]
        self.meters = tuple(Meter(stage.name, stage.kind, count) for stage, count in zip(stages, threads, strict=True))
        self.started_at = time.perf_counter()
        self._waited_s = 0.0
        self._asked_at: float | None = None
        self._depth = depth
        self._process = os.getpid()
        self._tickets = Tickets(work)
        self._channels: list[Channel[Passed]] = [Channel(depth.between) for _ in stages[:-1]]
        # What is made ahead waits before the consumer; before a copy to a device, whose memory is not ours to fill.
        self._ahead = -2 if stages[-1].kind == "copy" else -1
        self._channels.append(Channel(depth.between))
        self._channels[self._ahead].capacity = depth.out
        self._threads = Joined()
        self._stop = threading.Event()
        self._is_left = False
        #: Whether a stage failed, and the consumer got its error.
        self.has_failed = False
        self._crews = tuple(
            Crew(stage, meter, outbox, self._threads)
            for stage, meter, outbox in zip(stages, self.meters, self._channels, strict=True)
        )
        self._tuner.begin()
        self._tuner.tell = None if self._recorder is None else partial(_tell_of, self._recorder)
        inboxes: list[Tickets[Any] | Channel[Passed]] = [self._tickets, *self._channels[:-1]]
        _running.add(self)
        try:
            for stage, crew, inbox, outbox in zip(stages, self._crews, inboxes, self._channels, strict=True):
                is_last, hold_consumer = outbox is self._channels[-1], self._channels[-1].hold_taker
                noted = _BudgetNotes(self._budget, is_last=is_last, is_copied=stage.kind == "copy")
                first = partial(_begin_thread, self._stop, hold_consumer, thread_setup, self._recorder)
                told = ToldOfItems(self._recorder, crew.meter, self._named(stage))
                crew.begin(partial(_server, stage, told, crew.gate, (inbox, outbox), first, noted))
        except BaseException:  # Ctrl-C, or the system has no more threads to give
            self.close()
            raise

    def _named(self, stage: Stage) -> str:
        """A stage's name in what is recorded: with that of the lane stage that it works for."""
        return stage.name if self._below in ("", stage.name) else f"{stage.name} -> {self._below}"

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return self.take()

    def take(self, every_s: float | None = None, look: Callable[[], None] | None = None) -> Item:
        """The next item; StopIteration after the last. look: called every so many seconds while the item is awaited."""
        if os.getpid() != self._process:
            raise ProcessError(
                "this loader was started before a fork, and its threads live in the parent; make a new Loader in the "
                "child, or start children with the 'spawn' method"
            )
        asked_at = self._asked_at = time.perf_counter()
        try:
            item = self._take(every_s, look)
        except Closed:
            if self._channels[-1].end is not None:
                raise StopIteration from None
            raise ProcessError("the loader was closed while a batch was awaited; begin a new pass") from None
        finally:
            self._asked_at = None
        waited_s = time.perf_counter() - asked_at
        self._waited_s += waited_s
        self._tune(waited_s)
        return item

    def _tune(self, waited_s: float) -> None:
        ahead, before = self._channels[self._ahead], self._depth.out
        is_full = len(ahead) >= ahead.capacity - 1
        ahead.capacity = self._depth.after_wait(waited_s, len(ahead))
        if self._depth.out != before:
            self._tuner.note_depth(before, self._depth.out)
        self._tuner.after_item(self._crews, waited_s, is_full=is_full)

    def tuning(self) -> dict[str, Any]:
        """What is tuned, and the last decisions: see `Loader.stats`."""
        figures, depth = self._tuner.figures(), self._depth
        figures["values"][PREFETCH] = {"value": depth.out, "most": depth.most, "unit": "items", "fixed": depth.fixed}
        return figures

    @property
    def waited_s(self) -> float:
        """Seconds that the consumer waited, with those of a wait that continues."""
        asked_at = self._asked_at
        return self._waited_s + (0.0 if asked_at is None else time.perf_counter() - asked_at)

    def _take(self, every_s: float | None, look: Callable[[], None] | None) -> Item:
        try:
            passed = self._awaited(every_s, look)
        except BaseException as error:
            if isinstance(error, Closed) and self._channels[-1].end is None:
                raise  # whoever closed it waits for the threads
            self.close()
            raise
        if isinstance(passed, Failure):
            self.has_failed = True
            self.close(passed.error)
            try:
                raise passed.error
            finally:
                del passed  # else the error's traceback and this frame would hold each other
        if passed.share is not None:
            self._budget.release(passed.share)
        return passed

    def _awaited(self, every_s: float | None, look: Callable[[], None] | None) -> Passed:
        while True:
            try:
                return self._channels[-1].take(LOOK_S if every_s is None else min(every_s, LOOK_S))[1]
            except NothingYet:
                self._tuner.while_waiting(self._crews)
                if look is not None:
                    look()

    def stages_now(self) -> list[StageNow]:
        """What every stage does at this moment, and what waits behind it."""
        return [
            StageNow(
                crew.meter.name,
                tuple(crew.doing),
                tuple(None if isinstance(one, Failure) else one.work for one in channel.waiting()),
            )
            for crew, channel in zip(self._crews, self._channels, strict=True)
        ]

    def close(self, ended_by: BaseException | None = None) -> None:
        """Stops all threads; see the contract. ended_by: why, if it is not the exception that is being handled."""
        if os.getpid() != self._process:
            return  # a thread of the parent may have held a lock at the fork; here nobody would ever release it
        _running.discard(self)
        self._stop.set()
        self._budget.close()
        self._tickets.close()
        if self._wake is not None:
            self._wake()
        for channel in self._channels:
            channel.close()
        for crew in self._crews:
            crew.gate.close()
        if self._is_left:
            return  # what did not stop by then is not waited for again
        is_interrupt = isinstance(ended_by or sys.exception(), (KeyboardInterrupt, SystemExit))
        patience_s = _INTERRUPTED_PATIENCE_S if is_interrupt else _PATIENCE_S
        left = self._threads.join(patience_s)
        self._is_left = bool(left)
        if left and not is_interrupt:
            warn(f"penstock: {', '.join(left)} did not stop within {patience_s:g} s")


class _BudgetNotes:
    """Tells the budget what an item holds after a stage. What was copied to a device holds nothing here any more."""

    def __init__(self, budget: Budget, *, is_last: bool, is_copied: bool) -> None:
        self._budget, self._is_last, self._is_copied = budget, is_last, is_copied

    def __call__(self, share: BudgetShare | None, size_bytes: int) -> None:
        if share is None:
            return
        if self._is_last:
            self._budget.finish(share, 0 if self._is_copied else size_bytes)
        else:
            self._budget.note(share, size_bytes)


def _tell_of(recorder: Recorder, decision: Decision) -> None:
    now, thread = time.perf_counter(), threading.get_native_id()
    change = f"{decision.knob} {decision.before} -> {decision.after}"
    recorder.add(("tune", change, now, now, thread, -1, -1, 0, 0, 0))


def _begin_thread(
    stop: threading.Event,
    hold_consumer: Callable[[], AbstractContextManager[None]],
    thread_setup: Callable[[], None] | None,
    recorder: Recorder | None,
) -> None:
    work_for(stop)
    record_for(recorder)
    hold_consumer_with(hold_consumer)
    if thread_setup is not None:
        thread_setup()


def _server(
    stage: Stage,
    told: ToldOfItems,
    gate: Gate,
    channels: tuple[Tickets[Any] | Channel[Passed], Channel[Passed]],
    first: Callable[[], None],
    noted: _BudgetNotes,
    number: int,
    doing: Doing,
) -> Callable[[], None]:
    """The loop of one thread of a stage. It holds no reference to the run, so that a dropped run can be collected."""
    inbox, outbox = channels

    def serve() -> None:
        doing.begin()
        thread = threading.get_native_id()
        try:
            first()
            while True:
                if number >= gate.limit:
                    doing.now = RESTS, None, time.perf_counter()
                    gate.wait(number)
                _serve_one(stage, (told, doing, thread), inbox, outbox, noted)
        except Closed:
            gate.close()
            if inbox.end is not None:  # the end of the work, and no cancelled run
                outbox.finish(inbox.end)
        except BaseException as error:  # unreachable as far as we know; fail rather than hang
            outbox.fail(error)

    return serve


def _serve_one(
    stage: Stage,
    figures: tuple[ToldOfItems, Doing, int],
    inbox: Tickets[Any] | Channel[Passed],
    outbox: Channel[Passed],
    noted: _BudgetNotes,
) -> None:
    told, doing, thread = figures
    asked_at = time.perf_counter()
    doing.now = WAITS, None, asked_at
    number, given = inbox.take()
    began_at = time.perf_counter()
    # A thread's CPU time is asked of the system, which takes longer than the rest of this.
    cpu_before_s = time.thread_time() if told.meter.items % _CPU_ASKED == 0 else None
    work = _work_of(given)
    doing.now = WORKS, work, began_at
    passed: Passed = given if isinstance(given, Failure) else _attempt(stage, given)
    ended_at = time.perf_counter()
    cpu_s = None if cpu_before_s is None else time.thread_time() - cpu_before_s
    doing.now = HANDS_ON, work, ended_at
    if isinstance(passed, Failure):
        try:
            outbox.put(number, passed)
        finally:
            del given, passed  # the error's traceback leads to this frame, which must not lead back
        return
    del given  # what it held is free while the next stage is waited for
    rows, size_bytes = passed.rows, passed.size_bytes  # once it is put, the item belongs to the next stage
    noted(passed.share, passed.counted_bytes)
    outbox.put(number, passed)
    told.meter.add(
        rows=rows,
        size_bytes=size_bytes,
        waited_s=began_at - asked_at,
        busy_s=ended_at - began_at,
        blocked_s=time.perf_counter() - ended_at,
        queue=len(outbox),
        limit=outbox.capacity,
        cpu_s=cpu_s,
    )
    if told.recorder is not None:
        place = (-1, -1, 0) if work is None else (work.epoch, work.step, work.steps)
        told.recorder.add((told.name, stage.kind, began_at, ended_at, thread, *place, rows, size_bytes))


def _work_of(given: Any) -> Work | None:
    """The steps of what a stage is given. Only these are noted, since an item holds memory."""
    return given.work if isinstance(given, Item) else given if isinstance(given, Work) else None


def _attempt(stage: Stage, given: Any) -> Passed:
    try:
        with profiled(stage.name):
            return stage.work(given)
    except BaseException as raised:  # the consumer raises it
        if stage.kind == "python":
            raised.__traceback__ = users_part(raised)
        ids = given.ids if isinstance(given, Item) else None
        place = f"stage {stage.name!r}, epoch {given.epoch}, step {given.step}"
        if given.steps > 1:
            place += f" … {given.step + given.steps - 1}"
        if ids is not None:
            shown = ", ".join(map(str, ids[:_SHOWN_IDS].tolist()))
            place += f", sample ids {shown}{', …' if len(ids) > _SHOWN_IDS else ''}"
        return Failure(
            _named(raised, stage, f"penstock: {place}")
        )  # in no variable: the traceback would hold it, and it the traceback


def _named(error: BaseException, stage: Stage, note: str) -> BaseException:
    """The error with a note; ours, for memory that a stage without functions of the user's could not have, and for a StopIteration."""
    made: BaseException
    if isinstance(error, StopIteration):
        made = PlanError(
            f"{stage.name} raised StopIteration, which would end the loop over batches as if there were no more; give next() a default, or catch it"
        )
    elif isinstance(error, MemoryError) and stage.kind != "python" and not hasattr(error, "__notes__"):
        made = DataError(
            f"{stage.name}: more memory than this process may have is asked for ({error}); give it more, take smaller batches or a smaller "
            "memory=, or refuse large records with Limits(record_bytes=…)"
        )
    else:  # a note says that a stage below named it
        error.add_note(note)
        return error
    made.__cause__ = error
    made.add_note(note)
    return made


@atexit.register
def _close_all() -> None:
    ended_by = getattr(sys, "last_value", None)  # what nobody caught
    for run in list(_running):
        run.close(ended_by)
