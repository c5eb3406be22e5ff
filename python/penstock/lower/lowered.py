"""What lowering gives: the stages of a plan or of a piece of it, and a plan ready to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.core.columns.spec import Ids, Spec
from penstock.core.warnings import warn
from penstock.lower.branch import Branch
from penstock.lower.context import Context
from penstock.lower.memory import MemoryNeeds
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Position, Work, works
from penstock.processes.pool import Pool
from penstock.resolve.open_blocks import WindowBlocks
from penstock.resolve.ordering import RankSettings
from penstock.runtime.budget import ALLOWED, Budget
from penstock.runtime.item_bytes import ColumnBytes
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Stage
from penstock.runtime.tuner import Tuner
from penstock.source.protocol import Access
from penstock.stages.cached.caches import CachedRows
from penstock.stages.cached.find_cached import unkept
from penstock.stages.lanes.all_feeds import LaneFeeds
from penstock.stages.lanes.feed import LaneFeed


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The stages of a plan, or of what is below one of its lane stages. made: what comes out of them. after: how many there are up to each node, by its id.

    feeds: the lane stages that its rows come from; below: what runs below each of them. blocks: those that are open, None where none are.
    """

    context: Context
    stages: tuple[Stage, ...]
    made: Branch
    after: Mapping[int, int]
    feeds: tuple[LaneFeed, ...]
    below: tuple[Stages, ...]
    item_bytes: ColumnBytes
    blocks: WindowBlocks | None

    @property
    def window_bytes(self) -> int:
        """What blocks of open windows take, about."""
        return 0 if self.blocks is None else self.blocks.size_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row at its widest."""
        return max(1, self.context.sources.record_bytes, self.made.row_bytes)

    @property
    def read_row_bytes(self) -> int:
        """Bytes that are read for a row by itself."""
        return 0 if self.context.sources.access == {Access.MEMORY} else self.context.sources.record_bytes

    def every(self) -> Iterator[Stages]:
        """These, and all that run below lane stages."""
        yield self
        for below in self.below:
            yield from below.every()

    def images(self) -> Mapping[str, int]:
        """Images so far, by the decoder that did them (see `transform.image.kernel.DECODERS`)."""
        return sum((images() for each in self.every() for images in each.made.images), Counter())


def share_memory(runs: Sequence[Stages], memory_bytes: int) -> None:
    """Memory for runs above and below lane stages: each has the blocks of its open windows in any case, and an equal part of what is left.

    What else a run needs is not known yet, since a lane stage's columns are not: its items are estimated by what came. Windows count up to half of the memory.
    """
    windows = sum(each.window_bytes for each in runs)
    known = min(windows, memory_bytes // 2)
    for each in runs:
        of_windows = known * each.window_bytes // max(1, windows)
        each.context.budget.memory_bytes = memory_bytes
        each.context.budget.limit_bytes = of_windows + (memory_bytes - known) // len(runs)


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A plan ready to run: its order, this rank's place among those that share it, and stages that turn work into delivered items.

    columns: the fields of what is delivered, None where only a user's function knows them.
    budget: the memory that a run may hold; runs: its stages, and what runs below lane stages; needs: what is held in any case. lanes: the stages that run lane by lane, with a state of their own. workers: the processes
    that call users' functions, if any do. tuner: keeps what it learnt from run to run. caches: what `cache()` keeps, above lane stages;
    cacheable: where there is none, which dataset one could keep ("" for all rows), and the stages that would be below it. on_device: which ops the device does, in words.
    """

    order: BatchOrder
    where: RankSettings
    stages: tuple[Stage, ...]
    steps_per_item: int
    item_bytes: int
    images: Callable[[], Mapping[str, int]]
    slots: tuple[Slots, ...]
    columns: Spec | None
    budget: Budget
    needs: MemoryNeeds
    lanes: LaneFeeds
    workers: Pool
    tuner: Tuner
    caches: tuple[CachedRows, ...] = ()
    cacheable: tuple[tuple[str, tuple[str, ...]], ...] = ()
    runs: tuple[Stages, ...] = ()
    on_device: str = ""
    warned: list[int] = field(default_factory=list)

    def to_read(self, ids: Ids) -> Ids:
        """Of these rows, with those that follow them, the ids of what no `cache()` has."""
        whole, row = self.order.rows.with_followers(ids)
        return unkept(whole, row, len(ids), self.caches)

    @property
    def budgets(self) -> list[Budget]:
        """Of all that runs."""
        return [one.context.budget for one in self.runs]

    def memory(self) -> dict[str, int]:
        """What is held, the most that was, and what may be: see `Budget.figures`."""
        every = [budget.figures() for budget in self.budgets]
        return {name: sum(figures[name] for figures in every) for name in every[0]}

    @property
    def window_bytes(self) -> int:
        """What the blocks of open windows take, about."""
        return self.needs.window_bytes

    @property
    def batch_bytes(self) -> int:
        """What a batch on its way takes."""
        return self.needs.batch_bytes

    def check_memory(self) -> None:
        """Warns, once, if what is held in any case takes more memory than there may be held."""
        limit = sum(budget.limit_bytes for budget in self.budgets)
        needed = self.needs.size_bytes
        if needed > ALLOWED * limit and not self.warned:
            self.warned.append(needed)
            for budget in self.budgets:
                budget.has_warned = True
            warn(
                f"penstock: {self.needs.beyond(limit)}; until then batches are made one at a time, which is slow, and that much is held"
            )

    def work_from(
        self,
        start: Position,
        here: Callable[[], Position] | None = None,
        *,
        one_by_one: bool = False,
        epochs: int | None = None,
    ) -> Iterator[Work]:
        """All work from a position on; `one_by_one` makes every step alone. here: where the consumer is. For `epochs` see `works`.

        What a step costs is not known where lane stages make its rows, so that the first one comes alone. Where these say when an epoch ends, it is the work of one epoch.
        """
        if self.lanes.has_ends:
            return self.lanes.steps(
                start,
                (self.where.rank, self.where.world_size),
                1 if one_by_one else self.steps_per_item,
                (lambda: here().after(start, 0)) if here else None,
            )
        return works(
            start,
            steps_per_epoch=self.order.steps_per_epoch,
            full_steps=self.order.full_steps,
            steps_per_work=1 if one_by_one else self.steps_per_item,
            epochs=epochs,
            taken=(lambda: here().after(start, self.order.steps_per_epoch)) if here and self.lanes else None,
        )
