"""A pass over a loader: items cut into steps, and these given to the user, as long as no other pass begins."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic

from penstock.core.errors import ProcessError
from penstock.core.finalizers import let_end
from penstock.core.functions.tracebacks import users_part
from penstock.deliver import Deliver
from penstock.deliver.accelerate import Seen, is_at_work
from penstock.deliver.structure import Structure
from penstock.loader.item_source import WokenError
from penstock.loader.options import BatchT
from penstock.loader.rank import ThisRank
from penstock.observe.torch_profiler import profiled
from penstock.runtime.stage import Delivered


@dataclass(frozen=True, kw_only=True)
class EpochPass(Generic[BatchT]):
    """One pass. number: of this pass; a newer one ends it. seen: what Accelerate looks at meanwhile."""

    rank: ThisRank
    deliver: Deliver
    structure: Structure
    seen: Seen
    number: int
    thread: int = field(default_factory=threading.get_native_id)

    def batches(self) -> Iterator[BatchT]:
        """The batches of an epoch, from the position on that the loader has when the first is asked for."""
        rank, progress, ended = self.rank, self.rank.progress, False
        try:
            self._check()
            steps = self._begin()
            check_ranks = rank.ranks.watch(rank.place)
            has_ends, is_left = rank.share.lowered.lanes.has_ends, progress.step < steps or not steps
            while progress.step < steps or (has_ends and is_left):
                item = self._next_item()
                if item is None:  # also behind the last step: what was counted is compared with what came
                    if not self._goes_on():
                        break
                    continue
                share = rank.share
                steps = item.work.order.steps_per_epoch if item.work.order is not None else steps
                take, steps_here = self.structure.taking(self._split(item)), item.steps
                if rank.ledger is not None:
                    take = rank.ledger.recording(share.rows_of(item), take)
                del item
                taken, step = self._timed(self._taking(take, steps, check_ranks)), progress.step
                for _ in range(steps_here):
                    step += 1
                    # Nothing of it is held here: its memory is used again as soon as the consumer lets go.
                    yield taken(step)
                    if self.number != progress.newest_pass:
                        self._check()
                    if share is not rank.share:
                        break  # other weights were set: what is left of the item was made by those before
            rank.items.end_pass(rank.here)
            rank.finish_pass()
            ended = True
            if rank.preempted is not None:
                rank.preempted()
        finally:
            if self.number == progress.newest_pass:
                progress.is_running = False
                # At the interpreter's end modules are empty, and every run is closed.
                if users_part is not None and not sys.is_finalizing():
                    rank.recorder.rests((progress.epoch, progress.step))
                    self.seen.end()
                    if not ended:
                        let_end(self._stop)

    def _stop(self) -> None:
        if self.number == self.rank.progress.newest_pass:
            self.rank.stop()

    def _begin(self) -> int:
        """Begins the pass; the number of steps in its epoch."""
        rank = self.rank
        rank.begin_pass()
        share, epoch = rank.share, rank.progress.epoch
        steps = share.steps_of(epoch)
        steps = share.steps if steps is None else steps
        if share.equal_parts and is_at_work(share.world_size):
            self.seen.begin(share.real_rows(epoch, steps - 1) % share.lowered.order.batch_size)
        return steps

    def _goes_on(self) -> bool:
        """Whether an epoch that has no step left, as is known only now, is over since the state was saved, so that this pass is the next one."""
        rank = self.rank
        if not rank.progress.may_be_finished:
            return False
        rank.finish_pass()
        rank.begin_epoch()
        return True

    def _next_item(self) -> Delivered | None:
        rank = self.rank
        while True:
            self._save_if_preempted()
            try:
                rank.recorder.asks((rank.progress.epoch, rank.progress.step))
                with profiled("next batch"):
                    item = rank.items.next_item(rank.here, rank.about_stall)
            except WokenError:
                continue
            except Exception as error:
                if rank.preempted is not None:
                    continue  # what fails while a machine goes down is less than what is to be saved; it fails again
                error.__traceback__ = users_part(error)
                raise
            else:
                if item is not None:
                    rank.recorder.gets(self.thread, item.epoch, item.step, item.steps, item.rows_per_step * item.steps)
                return item

    def _taking(
        self, take: Callable[[], BatchT], steps: int, check_ranks: Callable[[], None] | None
    ) -> Callable[[int], BatchT]:
        """A function that gives the batch before a position; from then on a state says that it was taken. It runs every step, so it looks up little."""
        rank, progress, lock, seen = self.rank, self.rank.progress, self.rank.taking, self.seen

        def taken(step: int) -> BatchT:
            if check_ranks is not None:
                check_ranks()
            if step == steps:
                seen.take_last()
            while rank.takes_locked:
                with lock:
                    if rank.preempted is None:
                        progress.untouched, progress.step = False, step
                        return take()
                self._save_if_preempted()
            progress.untouched, progress.step = False, step
            return take()

        return taken

    def _timed(self, taken: Callable[[int], BatchT]) -> Callable[[int], BatchT]:
        """The same, and tells when each step begins where steps are not too short."""
        recorder = self.rank.recorder
        if not recorder.times_steps:
            return taken

        def begun(step: int) -> BatchT:
            recorder.begins_step()
            return taken(step)

        return begun

    def _save_if_preempted(self) -> None:
        if (save := self.rank.preempted) is not None:
            save()
            self._check()

    def _split(self, item: Delivered) -> list[tuple[str, Callable[[], Any]]]:
        """For each column what gives its part of one step after the other; nothing is cut where there is one step."""
        columns, rows = self.deliver.receive(item.columns), item.rows_per_step
        parts = self.deliver.parts if item.steps > 1 else lambda column, _: [column].pop
        return [(name, parts(column, rows)) for name, column in columns.items()]

    def _check(self) -> None:
        progress = self.rank.progress
        if self.number != progress.newest_pass:
            raise ProcessError(
                f"this iteration of the loader is over, since {progress.ended_by}; go on with a new `for batch in loader`"
            )
