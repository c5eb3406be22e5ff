"""Makes a loader's items by stages of this process."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

from penstock.core.errors import ProcessError, StorageError
from penstock.core.files.traffic import Traffic, sum_of
from penstock.core.finalizers import when_gone
from penstock.deliver import Deliver
from penstock.loader.item_source import LanePlaces, WokenError
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare
from penstock.observe.bad_samples import BadSamples
from penstock.observe.figure_groups import StorageFigures
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import Snapshot
from penstock.observe.stats import all_meters, all_tuning, run_stats
from penstock.observe.store import store_figures
from penstock.order.steps.cursor import Position
from penstock.plan.tree import leaves
from penstock.runtime.run import Run
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Delivered
from penstock.runtime.tune import Depth
from penstock.runtime.watchdog import Watchdog
from penstock.stages.lanes.all_feeds import LaneFeeds
from penstock.stages.read.ahead import Ahead

#: Items ahead of the consumer, at most, where memory would be enough for more.
_MOST_AHEAD = 8


class Here:
    """An `ItemSource`: at most one run, which continues from epoch to epoch as long as its items are what the consumer asks for.

    ── given to the user ──┬── items made ahead ──┬── to come ──►   epoch after epoch
                           │
                           the consumer's position; if that is elsewhere, this run stops and another begins there
    """

    _share: RankShare  # since `begin`

    def __init__(
        self, options: LoaderOptions, deliver: Deliver, bad_samples: BadSamples, recorder: Recorder | None = None
    ) -> None:
        self._options, self._deliver, self._bad_samples = options, deliver, bad_samples
        #: What is told of every item.
        self.recorder = recorder or Recorder()
        self._watchdog = Watchdog(options.watchdog)
        self._finalizer: weakref.finalize[Any, Here] | None = None
        self._ahead: list[Ahead] = []
        #: The run, if there is one, and where its next item begins.
        self.runs: list[tuple[Run, list[Position]]] = []
        #: The run's first epoch that it does not make.
        self.until = math.inf
        self._one_by_one = self._is_interrupted = False
        self._leave: tuple[BaseException, Position] | None = None
        self._first_batch_s = 0.0
        self._last_stats = Snapshot()
        self._traffic: Traffic | None = None

    def begin(self, share: RankShare) -> None:
        """See `ItemSource`; nothing may run of another share."""
        self._one_by_one, self._leave = False, None
        if self._finalizer is not None:
            if share is self._share:
                return
            self._finalizer.detach()
            self._share.lowered.workers.close()
        self._share, self._ahead = share, share.ahead(self._options.epochs)
        lowered = share.lowered
        self._finalizer = when_gone(
            self, _close_runs, self.runs, lowered.slots, self._ahead, lowered.lanes, lowered.workers.close
        )

    # One item

    def next_item(self, here: Position, about_stall: Callable[[], str]) -> Delivered | None:
        """See `ItemSource`."""
        self._leave_if_due(here)
        run, position = self._run(here)
        lowered = self._share.lowered
        try:
            item = cast("Delivered", self._watchdog.next_item(run, lowered.lanes.feeds, about_stall))
        except StopIteration:
            if self._is_interrupted:  # not the end of the epoch, which would leave out its rest
                raise WokenError from None
            if not lowered.lanes.has_ends:
                raise
            return None
        except BaseException as error:
            if self._is_interrupted and isinstance(error, ProcessError):
                raise WokenError from None
            is_final = self._one_by_one or lowered.steps_per_item == 1
            if not run.has_failed or is_final or isinstance(error, (StorageError, ProcessError)):
                raise
            # Steps that are made together fail together: again, one by one, so that all before the bad one come first.
            self.stop(here)
            self._one_by_one = True
            if not isinstance(error, Exception):  # whoever wants to leave may want it once
                self._leave = (
                    error,
                    Position(here.epoch, min(here.step + lowered.steps_per_item, self._share.steps)),
                )
            return self.next_item(here, about_stall)
        position[0] = Position(item.epoch, item.step + item.steps)
        lowered.lanes.forget_before(Position(item.epoch, item.step))
        if self._bad_samples.has_news:
            self._bad_samples.warn()
        if not self._first_batch_s:
            self._first_batch_s = time.perf_counter() - run.started_at
        return item

    def interrupt(self) -> None:
        """See `ItemSource`."""
        self._is_interrupted = True
        for run, _ in [*self.runs]:
            run.close()

    def end_pass(self, here: Position) -> None:
        """See `ItemSource`."""
        self._leave_if_due(here)

    def _leave_if_due(self, here: Position) -> None:
        """Raises the KeyboardInterrupt or SystemExit of a user's function, if it did not come again, behind the steps that it stopped."""
        left = self._leave
        if left is not None and here >= left[1]:
            self._leave = None
            raise left[0]

    def _run(self, here: Position) -> tuple[Run, list[Position]]:
        """The run that continues at a position; a new one if there is none."""
        if self.runs:
            run, position = self.runs[0]
            if not self._is_interrupted and self._share.normal(position[0]) == here and here.epoch < self.until:
                return run, position
            self.stop(here)
        self._is_interrupted = False
        lowered, epochs, depth = self._share.lowered, self._options.epochs, self._depth()
        if epochs is not None:
            self.until = max(epochs, here.epoch + 1)
        position = [here]
        work = lowered.work_from(here, lambda: position[0], one_by_one=self._one_by_one, epochs=epochs)
        self._traffic = self._traffic_now()
        for ahead in self._ahead:
            work = ahead.follow(work)
        lowered.check_memory()
        lowered.lanes.move(here)
        budget = lowered.budget
        self.recorder.begin_run()
        run = Run(
            lowered.stages,
            budget.follow(work),
            depth,
            budget,
            lowered.tuner,
            thread_setup=self._deliver.thread_setup(),
            recorder=self.recorder,
        )
        self._first_batch_s, self._watchdog.stalls = 0.0, 0
        self.runs.append((run, position))
        return self.runs[0]

    def _depth(self) -> Depth:
        lowered = self._share.lowered
        if self._options.prefetch is not None:
            items = max(1, -(-self._options.prefetch // lowered.steps_per_item))
            return Depth(out=items, between=1, most=items, fixed=True)
        item_bytes = max(1, lowered.item_bytes * lowered.steps_per_item)
        most = max(1, min(_MOST_AHEAD, lowered.budget.limit_bytes // item_bytes - len(lowered.stages)))
        return Depth(out=min(2, most), between=min(2, most), most=most)

    def places(self, here: Position) -> LanePlaces:
        """See `ItemSource`."""
        lanes = self._share.lowered.lanes
        return lanes.places(here) if lanes else {}

    # Reporting

    def stats(self) -> Snapshot:
        """See `ItemSource`."""
        running = self.runs[:1]  # another thread may close it meanwhile
        if not running:
            return self._last_stats
        run, lowered = running[0][0], self._share.lowered
        elapsed_s = time.perf_counter() - run.started_at
        return run_stats(
            all_meters(run.meters, lowered.lanes.feeds),
            elapsed_s=elapsed_s,
            waited_s=run.waited_s,
            room_waited_s=sum(budget.waited_s for budget in lowered.budgets),
            first_batch_s=self._first_batch_s,
            decoders=lowered.images(),
            storage=self._storage_figures(elapsed_s),
            memory=lowered.memory(),
            errors=self._bad_samples.figures(),
            stalls=self._watchdog.stalls,
            tuning=all_tuning(run, lowered.lanes.feeds),
            cache=[cached.rows.figures() for cached in lowered.caches],
            functions=[choice.figures() for choice in lowered.workers.choices.values()],
        )

    def stats_at_once(self) -> Snapshot:
        """See `ItemSource`."""
        return self.stats()

    def _storage_figures(self, elapsed_s: float) -> StorageFigures | None:
        """What the store did since the run began; other loaders' requests to the same dataset are counted too."""
        traffic = self._traffic_now()
        if traffic is None or self._traffic is None:
            return None
        shards = [leaf.opened.source.manifest.shards for leaf in leaves(self._share.dataset.root)]
        file_bytes = sum(float(some.sizes.sum()) for some in shards) / max(1, sum(map(len, shards)))
        return store_figures(traffic.since(self._traffic), elapsed_s, file_bytes)

    def _traffic_now(self) -> Traffic | None:
        """What was asked so far of the storages of all sources; None if they are local files and memory."""
        found = {
            id(traffic): traffic
            for leaf in leaves(self._share.dataset.root)
            if (traffic := leaf.opened.read_ranges.traffic) is not None
        }
        return sum_of(found.values()) if found else None

    # The end

    def stop(self, here: Position) -> None:
        """See `ItemSource`."""
        self._end(here, self._share.lowered.workers.rest)

    def close(self, here: Position) -> None:
        """See `ItemSource`."""
        self._end(here, self._share.lowered.workers.close)

    def _end(self, here: Position, end_processes: Callable[[], None]) -> None:
        self._last_stats = self.stats()
        lanes, was_running = self._share.lowered.lanes, bool(self.runs)
        places = lanes.places(here) if lanes and was_running else {}
        _close_runs(self.runs, (), self._ahead, lanes, end_processes)
        if was_running:
            lanes.begin(here, places)
        self._deliver.wait()
        for slots in self._share.lowered.slots:
            slots.drop()
        self._bad_samples.close()


def _close_runs(
    runs: list[tuple[Run, list[Position]]],
    slots: tuple[Slots, ...],
    prefetching: Sequence[Ahead],
    lanes: LaneFeeds,
    end_processes: Callable[[], None],
) -> None:
    lanes.close()
    for run, _ in [*runs]:
        run.close()
    end_processes()
    for ahead in prefetching:
        ahead.stop()
    runs.clear()
    for ring in slots:
        ring.clear()
