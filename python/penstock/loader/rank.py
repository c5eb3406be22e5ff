"""The rank that a loader works for: its share of the rows, for as long as that holds, and its position."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.core.arguments import is_whole
from penstock.core.errors import PlanError, ProcessError, StateError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.dataset import Dataset
from penstock.deliver import Deliver, open_deliver
from penstock.deliver.accelerate import is_at_work
from penstock.deliver.ranks import Ranks
from penstock.loader.changed_plan import ChangedPlan
from penstock.loader.item_source import MakesSource
from penstock.loader.observing import Observing
from penstock.loader.options import LoaderOptions
from penstock.loader.progress import Progress
from penstock.loader.reports import LoaderNow
from penstock.loader.share import RankShare, share_of
from penstock.loader.single_steps import SingleSteps
from penstock.observe.ledger.writer import Ledger
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import Snapshot
from penstock.order.steps.cursor import Position
from penstock.plan.between_ranks import PlanOfRank
from penstock.plan.changed_weights import ChangedWeights
from penstock.plan.nodes import Node
from penstock.plan.saved import SavedPlan
from penstock.plan.tree import leaves
from penstock.resolve.ordering import is_for_evaluation
from penstock.stages.lanes.states import Place, checked_lanes
from penstock.tools.counted_epochs import CountedEpochs
from penstock.tools.explain_dealt import shared_lanes
from penstock.tools.explain_lanes import ends_by_a_lane


class ThisRank:
    """A plan at work for one rank. Its share is made anew when the process group comes, goes or changes, and when weights are set."""

    share: RankShare  # since `take_first_share`

    def __init__(
        self, dataset: Dataset, options: LoaderOptions, deliver: Deliver, ranks: Ranks, item_source: MakesSource
    ) -> None:
        self.dataset, self.options, self.ranks = dataset, options, ranks
        self.saved_plan = SavedPlan.of(dataset.root)
        self.bad_samples, self.recorder = options.bad_samples(), Recorder()
        self.ledger = None if options.ledger is None or not ranks.records else Ledger(options.ledger)
        self.items = item_source(options, deliver, self.bad_samples, self.recorder, with_ids=self.ledger is not None)
        self._new_share = partial(share_of, dataset, options=options, deliver=deliver, bad_samples=self.bad_samples)
        self._single_steps = SingleSteps()
        #: Makes steps whose ops tell what they draw, and so does all of them on the host.
        self._told_steps = SingleSteps()
        self.progress = Progress()
        #: Tells what it does, from any thread.
        self.observing = Observing(weakref.ref(self), dataset, options, self.recorder, self.items, self.progress)
        #: Held while a step is taken, and by who reads what a state says: a thread that saves sees no half of a step.
        self.taking = threading.RLock()
        #: Whether it must be: a ledger has what is half a step, and `on_preempt` stops the loop between two. A lock takes longer than the rest of a tiny step.
        self.takes_locked = self.ledger is not None
        #: Set from any thread; then it is called before the next step is taken. See `preempt`.
        self.preempted: Callable[[], None] | None = None
        self.place, self._is_agreed = ranks.place(), False
        #: The places of all lanes, also of other ranks', as they were loaded; None from the first pass on.
        self.loaded_lanes: Any = None
        self.loaded_rows = 0  # of a step, when a state was loaded
        self._warned_of_lanes = False
        self._counted: tuple[RankShare, CountedEpochs] | None = None

    @property
    def here(self) -> Position:
        """The position of the next batch."""
        return self.progress.here

    def take_first_share(self) -> None:
        """Lowers the plan. PlanError if this rank cannot share it."""
        equal_parts = self._has_equal_parts(self.place.world_size)
        self._take(
            self._new_share(self.place[:2], changed=ChangedPlan.none(self.dataset.root), equal_parts=equal_parts)
        )

    def _take(self, share: RankShare) -> None:
        before: RankShare | None = getattr(self, "share", None)
        if share.lowered.lanes.has_ends and before is not None and before.dealt == share.dealt:
            share.lowered.lanes.know_as(before.lowered.lanes)
        self.share = self.observing.share = share
        self._warn_of_shared_lanes()
        if self.loaded_lanes is not None:
            share.lowered.lanes.begin(self.here, self.lanes_of(share, self.loaded_lanes))
        self.items.begin(share)

    def _warn_of_shared_lanes(self) -> None:
        """Says once, on the first rank, that there are fewer lanes than ranks since blocks are large."""
        share = self.share
        if self._warned_of_lanes or share.rank:
            return
        if words := shared_lanes(self.dataset.root, share.dealt, share.lowered.order, share.world_size):
            self._warned_of_lanes = True
            warn(f"penstock: blocks are large, so {words}")

    def share_now(self) -> RankShare:
        """The share of the rank as it is now; while a pass runs, as it was when that began."""
        if self.progress.is_running:
            return self.share
        place = self.ranks.place()
        equal_parts = self._has_equal_parts(place.world_size)
        if (place, equal_parts) == (self.place, self.share.equal_parts):
            return self.share
        if (place[:2], equal_parts) != (self.share.ranks, self.share.equal_parts):
            share = self._new_share(place[:2], changed=self.share.changed, equal_parts=equal_parts)
            if self.share.lowered.lanes and self.here != Position():
                self.loaded_lanes = {**(self.loaded_lanes or {}), **self.lane_places()}
            self.stop()
            self._take(share)
        self.place, self._is_agreed = place, False
        return self.share

    def use_weights(self, weights: ChangedWeights) -> None:
        """Mixes have other weights from the next batch on. PlanError for those that do not go; then nothing changes."""
        share = self.share_with(self.share.changed.with_weights(weights))
        if share is not self.share and self.share.lowered.lanes:
            self.loaded_lanes = self.lane_places()
        self.use_share(share)

    def use_share(self, share: RankShare) -> None:
        """Batches are of this share from the next one on; its lanes stand where `loaded_lanes` says."""
        if share is not self.share:
            self.stop()
            self._take(share)
            if self.progress.is_running:
                self.observing.begin(self.share.rank)

    def share_with(self, changed: ChangedPlan) -> RankShare:
        """The share of such a plan; that which is here, if it is of that. PlanError for what does not go."""
        if changed == self.share.changed:
            return self.share
        return self._new_share(self.share.ranks, changed=changed, equal_parts=self.share.equal_parts)

    @property
    def plan_now(self) -> Node:
        """The plan, with the lanes of the state that it goes on from, if these are others than the rule says."""
        changed, root = self.share.changed, self.dataset.root
        return root if changed.dealt is None else changed.dealt.applied(root)

    def _has_equal_parts(self, world_size: int) -> bool:
        """Whether ranks have equally many rows of a step that is not full, as passed, else where trainers gather them."""
        if self.options.equal_parts is not None:
            return self.options.equal_parts
        return is_at_work(world_size) and is_for_evaluation(self.dataset.root)

    def set_epoch(self, epoch: int, *, keep_later: bool = False) -> None:
        """The next pass is this epoch; see `Progress.set_epoch`."""
        if not is_whole(epoch) or epoch < 0:
            raise PlanError(f"set_epoch({quoted(epoch)}): epochs are counted from 0, in whole numbers")
        progress = self.progress
        following = progress.epoch + progress.is_broken_off
        lanes = self.share.lowered.lanes
        if lanes and not lanes.has_ends and epoch != following:
            raise PlanError(
                f"set_epoch({epoch}): this plan's lane stages go on from epoch to epoch, so where an epoch begins is known on the way only, and "
                f"the next one is {following}; load a state to begin elsewhere"
            )
        share = self.share_now()
        progress.set_epoch(epoch, steps=share.most_steps(epoch), keep_later=keep_later)

    # What all ranks do alike

    def open_exporters(self) -> None:
        """Those that the loader was told of."""
        self.observing.open(self.share.rank)

    def announce(self) -> None:
        """Tells the other ranks what this one will do."""
        self.ranks.announce(self._plan)

    def _plan(self) -> PlanOfRank:
        share = self.share
        return PlanOfRank(
            plan=self.saved_plan.on(share.world_size),
            data=None if share.node else (self.dataset.digest, share.lowered.order.samples),
            options={
                "world_size": share.world_size,
                "division of rows": self.ranks.shown,
                "equal_parts": share.equal_parts,
                "on_error": self.bad_samples.on_error,
                **share.entries,
            },
        )

    # Passes and single steps

    def begin_pass(self) -> None:
        """Begins a pass, for the rank as it is now. PlanError if ranks do not do the same, StateError if a loaded state is of other ranks."""
        share, progress = self.share_now(), self.progress
        self._is_agreed = self._is_agreed or self.ranks.agree(self._plan)
        rows = share.lowered.order.batch_size
        if progress.untouched and progress.step and self.loaded_rows != rows:
            raise StateError(
                f"the state was loaded for steps of {self.loaded_rows} rows, and {share.world_size} ranks take "
                f"{rows}; call load_state_dict after init_process_group"
            )
        if progress.is_broken_off:
            self.stop()  # where lanes stand counts from here
        self.items.begin(share)
        self.observing.begin(share.rank)
        with self.taking:
            progress.begin_pass()
            self.begin_epoch()
            self.loaded_lanes = None  # of lanes that other ranks have, they are out of date from now on
        if self.ledger is not None:
            here = share.normal(self.here)
            self.ledger.begin(share.ledger_header(self.saved_plan), here.epoch, here.step)

    def begin_epoch(self) -> None:
        """An epoch of this pass begins. PlanError where the data says how it ends, and ranks do not know that."""
        share, epoch = self.share, self.progress.epoch
        if share.lowered.lanes.has_ends and share.world_size > 1:
            if self.steps_of(epoch) is None:
                skips = self.bad_samples.on_error == "skip"
                words = [*([f"epochs={epoch + 1}"] if epoch else []), *(["on_error='skip'"] if skips else [])]
                raise PlanError(
                    f"epoch {epoch:,} ends where the data does, which {share.world_size} ranks must know before it begins: count ahead, once, with the dataset's "
                    f"count_rows({', '.join(words)}), which makes {share.lowered.lanes.input_rows:,} rows an epoch as training does and keeps only their number; or say how many steps "
                    f"an epoch has, batch(…, steps=…)"
                )
            share.order_of(epoch).check_ranks(share.world_size)
            share.lowered.lanes.check_ends(epoch)

    def steps_of(self, epoch: int) -> int | None:
        """Steps in an epoch; None where the data says how many, and nobody counted them here."""
        share = self.share_now()
        if share.steps_of(epoch) is None:
            self._counted_of(share).tell(epoch)
        return share.steps_of(epoch)

    def _counted_of(self, share: RankShare) -> CountedEpochs:
        if self._counted is None or self._counted[0] is not share:
            self._counted = share, CountedEpochs(share.dataset.root, share.lowered.lanes)
        return self._counted[1]

    def finish_pass(self) -> None:
        """All steps of an epoch were taken."""
        share, epoch = self.share, self.progress.epoch
        has_none = share.lowered.lanes.has_ends and self.here.step == 0
        with self.taking:
            if self.ledger is not None and (size := share.size_after(self.here)) is not None:
                self.ledger.end_epoch(size)
            self.progress.finish_pass()
        if share.lowered.lanes.found(epoch) and all(leaf.files for leaf in leaves(self.dataset.root)):
            self._counted_of(share).keep(epoch)  # not of data in memory, of which all would be read to name it
        if has_none:
            warn(f"epoch {epoch:,} has no batch: {self._none_in_words(epoch)}")

    def _none_in_words(self, epoch: int) -> str:
        """Why an epoch has no batch."""
        lanes = self.share.lowered.lanes
        order = lanes.order_of(epoch)
        is_some = 0 < order.samples < order.batch_size
        rows = f"{order.samples:,} rows, fewer than a batch of {order.batch_size:,}" if is_some else "no row"
        if ends_by_a_lane(order):
            return f"the mix ends where a lane has no row left of a dataset, and gave {rows}; fewer lanes, batch(…, lanes=…), take more"
        return f"{lanes.feeds[0].name} gave {rows}"

    def single_step(self, epoch: int, step: int) -> dict[str, Any]:
        """What is delivered of a step."""
        return self._single_steps.make(*self._known("batch_at", epoch, step), epoch, step)

    def drawn(self, epoch: int, step: int) -> dict[str, Any]:
        """What ops draw in a step: see `SingleSteps.drawn`."""
        on_host = open_deliver("numpy", None)
        return self._told_steps.drawn(*self._known("draws", epoch, step, deliver=on_host), epoch, step)

    def _known(
        self, asked: str, epoch: int, step: int, **other: Deliver
    ) -> tuple[Callable[[tuple[int, int]], RankShare], tuple[int, int]]:
        """What makes a share for a step whose rows are known, and its ranks. other: in place of the loader's `deliver`."""
        share = self.share_of_known_rows(asked, epoch, step)
        return partial(self._new_share, changed=share.changed, equal_parts=share.equal_parts, **other), share.ranks

    def share_of_known_rows(self, asked: str, epoch: int, step: int) -> RankShare:
        """The share, whose order says which rows a step holds; PlanError where there is no such step, or only the data says."""
        if not is_whole(epoch) or epoch < 0:
            raise PlanError(f"epoch {quoted(epoch)}: epochs are counted from 0, in whole numbers")
        steps = self.share_now().steps
        if not is_whole(step) or not 0 <= step < steps:
            raise PlanError(f"step {quoted(step)}: an epoch has the steps 0 … {steps - 1}")
        if self.share.lowered.lanes:
            raise PlanError(
                f"{asked}: what a step holds is not known in advance, since a stage of this plan gives rows by what the data says"
            )
        return self.share

    def taken_last(self, asked: str) -> tuple[int, int]:
        """Epoch and step of the batch that was taken last; ProcessError before a pass's first one."""
        here = self.here
        if not self.progress.is_broken_off:
            raise ProcessError(
                f"{asked} is of the batch that was taken last, and none was in this pass; ask inside the loop"
            )
        return here.epoch, here.step - 1

    # Where lanes stand

    def lane_places(self) -> dict[str, list[Place]]:
        """The places of this rank's lanes, as states have them."""
        return {str(lane): stages for lane, stages in self.items.places(self.here).items()}

    @staticmethod
    def lanes_of(share: RankShare, lanes: Any) -> dict[int, list[Place]]:
        """The places of a rank's lanes out of a state's; StateError where one is missing."""
        of_rank = share.lowered.lanes
        found = checked_lanes(lanes, of_rank.mine)
        if of_rank.has_ends:  # of other ranks' lanes this one may take what is left
            others = [int(lane) for lane in lanes if lane.isdecimal() and int(lane) not in found]
            found |= checked_lanes(lanes, [lane for lane in others if lane < share.lowered.order.lanes])
        return found

    # Reporting and the end

    def stats(self) -> Snapshot:
        """The figures."""
        return self.observing.whole(self.items.stats())

    def now(self) -> LoaderNow:
        """What reports say of it."""
        share = self.share if self.place == (0, 1, "") else self.share_now()
        return LoaderNow(
            dataset=self.dataset, options=self.options, share=share, here=self.here, origin=self.place.origin
        )

    def about_stall(self) -> str:
        """What the watchdog tells beside the stages."""
        return self.now().about_stall(self.stats())

    def stop(self) -> None:
        """Stops what makes batches; processes stay for the next pass."""
        self.items.stop(self.here)
        self.observing.pause()
        self._release()

    def close(self) -> None:
        """Stops what makes batches, and ends processes."""
        self.items.close(self.here)
        self.observing.end()
        self._release()

    def _release(self) -> None:
        self._single_steps.clear()
        self._told_steps.clear()
        if self.ledger is not None:
            self.ledger.flush()
