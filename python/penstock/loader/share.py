"""A rank's share of a dataset: the plan lowered for it, and what reads ahead for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PlanError, StateError
from penstock.core.unused_memory import PLENTY_BYTES, keep_no_large_pieces
from penstock.dataset import Dataset
from penstock.deliver import Deliver
from penstock.deliver.launchers import processes_here, ranks_here
from penstock.loader.changed_plan import ChangedPlan
from penstock.loader.options import LoaderOptions
from penstock.lower import lower
from penstock.lower.lowered import Lowered
from penstock.observe.bad_samples import BadSamples
from penstock.observe.ledger.format import EpochSize, LedgerHeader
from penstock.observe.ledger.writer import StepRows as LedgerRows
from penstock.observe.quarantine import BadSample
from penstock.order.epoch_contents import EpochContents, contents_of, padding
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.rows.rows_given import rows_given
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Position
from penstock.order.steps.natural import NaturalBatches
from penstock.order.steps.token_batches import TokenBatches
from penstock.plan.nodes import BatchTokens, Mix, Shard
from penstock.plan.plain_values import digest_of
from penstock.plan.rules import optimize
from penstock.plan.saved import SavedPlan
from penstock.plan.skipping import skipping
from penstock.plan.tree import find, flow, lane_stage, leaves
from penstock.resolve.cut import cut
from penstock.resolve.dealt import Dealt
from penstock.resolve.ordering import RankSettings, order_of, steps_of
from penstock.resolve.resolved import resolve
from penstock.runtime.free_memory import default_memory
from penstock.runtime.stage import Delivered
from penstock.source.protocol import Access
from penstock.stages.bad_rows import BadRow, Tolerance
from penstock.stages.lanes.states import Place
from penstock.stages.read.ahead import Ahead
from penstock.storage.cache.storage import CachedStorage

#: Threads that a stage has at most, whatever a user asks for: each costs memory and time to start.
_MOST_CPUS = 256


@dataclass(frozen=True, kw_only=True)
class RankShare:
    """What one rank of `world_size` gets. Made anew when the rank, or the weights of a mix, change.

    changed: in the plan that the loader was given. dealt: to how many lanes, where the batch does not say it.
    """

    dataset: Dataset
    rank: int
    world_size: int
    changed: ChangedPlan
    dealt: Dealt | None
    lowered: Lowered

    @property
    def told(self) -> ChangedPlan:
        """What differs from the dataset's plan, for who makes this share's items elsewhere: to how many lanes rows are dealt is decided once, here."""
        return replace(self.changed, dealt=self.dealt)

    @property
    def steps(self) -> int:
        """Steps in an epoch; where the data says how many, more than ever come."""
        return LANE_ROWS if self.lowered.lanes.has_ends else self.lowered.order.steps_per_epoch

    def order_of(self, epoch: int) -> BatchOrder:
        """The order of an epoch, as far as it is known where the data says how it ends."""
        lowered = self.lowered
        return lowered.lanes.order_of(epoch) if lowered.lanes.has_ends else lowered.order

    def steps_of(self, epoch: int) -> int | None:
        """Steps in an epoch; None where the data says how many, and that is not known yet."""
        order = self.order_of(epoch)
        return None if isinstance(order, NaturalBatches) and not order.is_known else order.steps_per_epoch

    def most_steps(self, epoch: int) -> int:
        """The same; where it is not known, or there are none, more than ever come: a position at step 0 is the beginning of its epoch, also of one without a step."""
        return self.steps_of(epoch) or self.steps

    @property
    def batch_size(self) -> int:
        """Rows of a full batch on this rank; with `batch_tokens`, the most of any batch."""
        return self.lowered.order.batch_size // self.place[1]

    def normal(self, position: Position) -> Position:
        """The same position; the end of an epoch is the beginning of the next one."""
        return position if position.step < self.steps else Position(position.epoch + 1)

    def places_at(self, position: Position, plain: Dataset, saved: str) -> dict[str, list[Place]]:
        """Where lanes stand, from which bad rows are left out from a position on; the position is one of the plan without that. saved: what was done about them before.

        StateError where other stages have places that are not known.
        """
        feeds, order = self.lowered.lanes.feeds, self.lowered.order
        plain_order = order_of(plain.root, RankSettings(rank=self.rank, world_size=self.world_size)).order
        if self.lowered.lanes.has_ends:
            if saved == "substitute" and position.step:
                raise StateError(
                    f"the state was saved with on_error='substitute' within epoch {position.epoch:,}, which has rows in the places of bad ones, and how many each lane has left without these is not known; load it with "
                    f"on_error='substitute', or begin the next epoch, set_epoch({position.epoch + 1})"
                )
            if position.step > plain_order.even_steps:
                raise StateError(
                    f"the state was saved without on_error='skip' at step {position.step:,}, where lanes have no equal parts any more, and how many rows each has without bad ones is not known; load "
                    f"it with the on_error that it was saved with, or begin the next epoch, set_epoch({position.epoch + 1})"
                )
            rows = rows_given(order.rows, 0, np.full(order.lanes, position.step * order.rows_per_lane))
        elif len(feeds) == 1:
            rows = {feeds[0].first_id: plain_order.lane_rows_before(position.epoch, position.step)}
        else:
            before = np.full(order.lanes, position.step * order.rows_per_lane)
            rows = rows_given(order.rows, position.epoch, before)
        is_known = (
            len(feeds) == 1
            or self.lowered.lanes.has_ends
            or not position.epoch
            or all(node.rows for node in flow(plain.root) if isinstance(node, Mix))
        )
        if any(feed.below for feed in feeds) or lane_stage(plain.root) is not None or not is_known:
            raise StateError(
                "the state was saved without on_error='skip', and where each of this plan's stages goes on with it is not known; load it with the "
                "on_error that it was saved with, or start anew"
            )
        return {
            str(lane): [[int(rows[feed.first_id][lane]), 0, None, []] for feed in feeds] for lane in range(order.lanes)
        }

    @cached_property
    def entries(self) -> dict[str, Any]:
        """What a state says of the plan besides its verbs, as JSON has it: weights that were set, and lanes that are not those of any batch of its size."""
        dealt = self.dealt
        is_usual = dealt is None or dealt == Dealt.usual(self.lowered.order.batch_size)
        return {**self.changed.weights.entries, **({} if dealt is None or is_usual else {"dealt": dealt.saved})}

    @property
    def ranks(self) -> tuple[int, int]:
        """Rank and world size."""
        return self.rank, self.world_size

    @property
    def equal_parts(self) -> bool:
        """Whether ranks have equally many rows of a step that is not full."""
        return self.lowered.where.equal_parts

    @property
    def place(self) -> tuple[int, int]:
        """The rank among those that share the order, and how many these are: all, or those of a node with files of its own."""
        return self.lowered.where.rank, self.lowered.where.world_size

    @property
    def node(self) -> dict[str, int]:
        """The number of this node, where nodes have files of their own."""
        if find(self.dataset.root, Shard) is None:
            return {}
        return {"node": self.rank // self.lowered.where.world_size}

    def is_real(self, epoch: int, step: int) -> npt.NDArray[np.bool_]:
        """Which of this rank's rows at a step do not only fill it up."""
        order = self.order_of(epoch)
        if isinstance(order, TokenBatches):
            return np.ones(len(order.ids(epoch, step, 1, *self.place)), dtype=bool)
        return order.valid(step, *self.place)

    def real_rows(self, epoch: int, step: int) -> int:
        """Rows of a step on all ranks, without those that only fill it up."""
        order = self.order_of(epoch)
        return len(order.ids(epoch, step, 1, 0, 1)) if isinstance(order, TokenBatches) else order.real_rows(step)

    @cached_property
    def _contents(self) -> EpochContents:
        if self.lowered.lanes.has_ends:  # each epoch's own is recorded with it
            return EpochContents(steps=0, rows=0, last_rows=0, runs=None)
        return contents_of(self.lowered.order)

    def size_after(self, here: Position) -> EpochSize | None:
        """What an epoch held of which all steps were taken, where it ends with its data; None for others."""
        order = self.order_of(here.epoch)
        return _size_of(replace(order, steps=here.step), here.epoch) if isinstance(order, NaturalBatches) else None

    def ledger_header(self, plan: SavedPlan) -> LedgerHeader:
        """What the ledger says of this share, and of what the plan says an epoch holds."""
        order, (place, places) = self.lowered.order, self.place
        sources = [leaf.samples for leaf in leaves(self.dataset.root)]
        return LedgerHeader(
            rank=self.rank,
            world_size=self.world_size,
            node=self.node.get("node"),
            place=place,
            places=places,
            batch_size=order.batch_size,
            sources=() if self.lowered.lanes else tuple(sources),  # rows of a lane stage are of no source
            plan=self._order_digest(plan),
            data=self.dataset.digest,
            **vars(self._contents),
        )

    def _order_digest(self, plan: SavedPlan) -> str:
        """32 hex digits of what decides which rows come when."""
        usual = plan.on(self.world_size).order_digest
        return (
            digest_of([usual.encode(), str(self.entries["dealt"]).encode()]).hex() if "dealt" in self.entries else usual
        )

    def rows_of(self, item: Delivered) -> LedgerRows:
        """What the ledger records of an item: its rows, and where they stand in the global batch."""
        order, (rank, ranks) = item.work.order or self.lowered.order, self.place
        if isinstance(order, TokenBatches):
            return self._in_places(item, order)
        ids, draws = item.planned
        return LedgerRows(
            epoch=item.epoch,
            step=item.step,
            steps=item.steps,
            at=order.places(item.step, rank, ranks)[0],
            ids=ids,
            draws=draws,
            valid=padding(order, item.step, item.steps, rank, ranks),
            size=_size_of(order, item.epoch),
        )

    def _in_places(self, item: Delivered, order: TokenBatches) -> LedgerRows:
        """The same where steps have places that no row has: these are recorded as padding, on all ranks alike."""
        taken, draws = order.is_taken(item.epoch, item.step, item.steps, *self.place), item.find_draws()

        def in_places(numbers: Ids) -> Ids:
            found = np.zeros(len(taken), dtype=np.int64)
            found[taken] = numbers
            return found

        return LedgerRows(
            epoch=item.epoch,
            step=item.step,
            steps=item.steps,
            at=order.share(*self.place)[0],
            ids=in_places(item.ids),
            draws=None if draws is None else in_places(draws),
            valid=taken.astype(np.int64),
        )

    def ahead(self, epochs: int | None) -> list[Ahead]:
        """What prefetches to the cache: one for every source whose storage has one."""
        rank, world_size = self.place
        here = (0, world_size) if self.node else ranks_here(rank, world_size)
        root = cut(optimize(self.dataset.root))
        return [
            Ahead(
                storage,
                leaf.opened.source.manifest,
                first_id,
                self.lowered.order,
                self.place,
                here,
                epochs,
                self.lowered.to_read,
            )
            for leaf, _, first_id in resolve(root).numbered_sources
            if isinstance(storage := leaf.opened.storage, CachedStorage)
            and leaf.access is not Access.MEMORY  # of files, as labels and paths are: no file is read
        ]


def share_of(
    dataset: Dataset,
    ranks: tuple[int, int],
    *,
    changed: ChangedPlan,
    equal_parts: bool,
    options: LoaderOptions,
    deliver: Deliver,
    bad_samples: BadSamples,
) -> RankShare:
    """The share of (rank, world size), with stages of its own; PlanError if so many ranks cannot share the plan.

    changed: what differs from the dataset's plan. equal_parts: see `order.steps.batches.BatchOrder`.
    """
    rank, world_size = ranks
    written = changed.weights.applied(dataset.root)
    root, dealt = changed.applied(dataset.root, world_size)
    dataset = Dataset(root)
    tolerance = None if bad_samples.on_error == "raise" else _tolerance(bad_samples, rank)
    if tolerance is not None and find(dataset.root, BatchTokens) is not None:
        raise PlanError(
            "on_error: with batch_tokens a batch has room for the rows that the plan says, and for no others; leave bad samples out by read(…, exclude=…)"
        )
    if tolerance is not None and not tolerance.substitutes:
        order = order_of(dataset.root, RankSettings(rank=rank, world_size=world_size)).order
        dataset = Dataset(skipping(dataset.root, partial(steps_of, order)))
    fixed = frozenset(name for name in ("cpus", "memory") if getattr(options, name))
    memory_bytes = options.memory_bytes or default_memory(processes_here(world_size))
    cpus = min(options.cpus or usable_cpus(), max(_MOST_CPUS, usable_cpus()))
    where = RankSettings(rank=rank, world_size=world_size, cpus=cpus, equal_parts=equal_parts)
    lowered = lower(
        dataset.root,
        deliver,
        where,
        memory_bytes=memory_bytes,
        tolerance=tolerance,
        fixed=fixed,
        written=written,
    )
    if options.memory_bytes:
        lowered.needs.check(options.memory_bytes)
        if options.memory_bytes < PLENTY_BYTES:
            keep_no_large_pieces()
    return RankShare(dataset=dataset, rank=rank, world_size=world_size, changed=changed, dealt=dealt, lowered=lowered)


def _size_of(order: BatchOrder, epoch: int) -> EpochSize | None:
    if not isinstance(order, NaturalBatches) or not order.is_known:
        return None
    found = contents_of(order)
    return EpochSize(epoch=epoch, steps=found.steps, rows=found.rows, last_rows=found.last_rows)


def _tolerance(bad_samples: BadSamples, rank: int) -> Tolerance:
    return Tolerance(
        note=lambda row: bad_samples.note(_in_words(row), row.error, rank),
        count=bad_samples.count,
        substitutes=bad_samples.substitutes,
    )


def _in_words(row: BadRow) -> BadSample:
    """A bad row by its file."""
    file, record = row.origin.file_of(row.sample)
    return BadSample(
        where=row.where,
        sample=row.sample,
        source=row.origin.where,
        data=row.origin.digest,
        found=row.found,
        do=row.do,
        file=file,
        record=record,
        epoch=row.epoch,
        step=row.step,
    )
