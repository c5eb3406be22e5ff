"""All lane stages of a plan on one rank: where they stand at a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.rows.ends import lanes_of
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.rows.rows_given import rows_given
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Position, Work
from penstock.order.steps.natural import NaturalBatches
from penstock.stages.lanes.ending_feed import EndingFeed
from penstock.stages.lanes.ending_feeds import EndingFeeds, unequal
from penstock.stages.lanes.feed import LaneFeed
from penstock.stages.lanes.natural_steps import NaturalSteps
from penstock.stages.lanes.states import LanePlace, Place


class EpochEnds(NamedTuple):
    """What is known of where an epoch ends. ends: how many rows lanes give in it, int64 (stages, lanes), `LANE_ROWS` where that is not known; left: where lanes stand when equal parts of their stage are over."""

    ends: Ids
    left: Mapping[int, list[Place]]


#: By epoch, how many rows each lane of a stage gives in it, where that is arithmetic; None where only the data says.
Counts: TypeAlias = Callable[[int], Ids] | None


class LaneFeeds:
    """The topmost lane stages of a plan, each of which knows those below. mine: the lanes of which this rank has rows.

    counts: of each stage, where epochs end with them.
    """

    def __init__(
        self, feeds: Sequence[LaneFeed], order: BatchOrder, mine: Sequence[int], counts: Sequence[Counts] = ()
    ) -> None:
        self.feeds, self._order, self.mine, self._counts = tuple(feeds), order, list(mine), tuple(counts)
        self._begun = Position()
        #: By epoch, what is known of its ends, where epochs begin anew: see `EpochEnds`.
        self.ends = dict[int, Ids]()
        self.left = dict[int, dict[int, list[Place]]]()
        self._last_order: NaturalBatches | None = None
        if isinstance(order, NaturalBatches):
            self._ending = EndingFeeds(cast("tuple[EndingFeed, ...]", self.feeds), order.rows)
            self._tell(self._known(0))

    def __bool__(self) -> bool:
        return bool(self.feeds)

    def begin(self, position: Position, places: Mapping[int, list[Place]]) -> None:
        """Begins at a step, from a place for each stage in every lane; from the first row on where there is none."""
        ends = None
        if self.has_ends:
            self._keep_found()
            ends, self._begun = self._known(position.epoch), Position(-1)  # nothing runs of any epoch
            places = places if position.step else {}
        rows, self._begun = self._rows(position), position
        for number, feed in enumerate(self.feeds):
            mine = {lane: LanePlace.of(stages[number]) for lane, stages in places.items() if number < len(stages)}
            of_feed = None if ends is None else ends[number]
            feed.begin(mine, rows[feed.first_id], epoch=position.epoch if self.has_ends else 0, ends=of_feed)

    def move(self, position: Position) -> None:
        """Moves every stage to another step; call while nothing runs. The rest of an epoch that was broken off comes in the next one, unless epochs begin anew."""
        if self.feeds and position != self._begun:
            self.begin(position, {} if self.has_ends else self.places(self._begun))

    # Ends

    @property
    def has_ends(self) -> bool:
        """Whether each epoch ends where the rows of the stages do, and the next one begins anew."""
        return isinstance(self._order, NaturalBatches)

    def order_of(self, epoch: int) -> NaturalBatches:
        """The order of an epoch that ends, as far as it is known."""
        assert isinstance(self._order, NaturalBatches)
        ends = self._ending.ends if epoch == self._begun.epoch else self._known(epoch)
        if self._last_order is None or not np.array_equal(self._last_order.ends, ends):
            self._last_order = self._order.of(ends)
        return self._last_order

    def _known(self, epoch: int) -> Ids:
        """How many rows lanes are known to give in an epoch before it runs."""
        if epoch not in self.ends:
            unknown = np.full(self._order.lanes, LANE_ROWS, dtype=np.int64)
            self.ends[epoch] = np.stack([unknown if one is None else one(epoch) for one in self._counts])
        return self.ends[epoch]

    def _tell(self, ends: Ids) -> None:
        for feed, one in zip(self._ending.feeds, ends, strict=True):
            feed.know(one)

    def found(self, epoch: int) -> bool:
        """Whether this epoch just ran to its end on one rank, which nothing but the data could say."""
        return (
            self.has_ends
            and None in self._counts
            and len(self.mine) == self._order.lanes
            and bool((self.order_of(epoch).ends < LANE_ROWS).all())
        )

    def know(self, epoch: int, ends: Ids) -> None:
        """Lanes of each stage give so many rows in an epoch, `LANE_ROWS` where that is not known."""
        self.ends[epoch] = np.minimum(self._known(epoch), ends)
        if epoch == self._begun.epoch:
            self._tell(ends)

    def ends_of(self, epoch: int) -> EpochEnds:
        """What is known of where an epoch ends."""
        return EpochEnds(self.order_of(epoch).ends, self.left.get(epoch, {}))

    def know_ends(self, epoch: int, known: EpochEnds) -> None:
        """Another process knows this of where an epoch ends."""
        self.know(epoch, known.ends)
        self.left[epoch] = {**known.left}

    def check_ends(self, epoch: int) -> None:
        """DataError where rows that are paired are known to be not equally many."""
        for error in unequal(self.order_of(epoch).rows, epoch):
            raise error

    def know_as(self, other: LaneFeeds) -> None:
        """What the lanes of another share of the plan know, these know too."""
        if other.has_ends and other.order_of(0).lanes == self._order.lanes:
            other._keep_found()  # its own class
            self.left |= other.left
            for epoch, ends in other.ends.items():
                self.know(epoch, ends)

    def _keep_found(self) -> None:
        """What was found out of the epoch that ran stays known: where it goes on, steps are counted by it."""
        epoch, found = self._begun.epoch, self._ending.ends
        if epoch >= 0 and (found < LANE_ROWS).any():
            self.ends[epoch] = np.minimum(found, self._known(epoch))

    def steps(
        self, start: Position, ranks: tuple[int, int], steps_per_work: int, taken: Callable[[], int] | None
    ) -> Iterator[Work]:
        """The steps of an epoch from one on, to its end."""
        return NaturalSteps(self._ending, self.order_of, ranks, self.mine, self.left).works(
            start, steps_per_work, taken
        )

    def pass_over(self, position: Position) -> None:
        """Nobody takes the rows before a step; raises what they failed by."""
        rows = self._rows(position)
        for feed in self._ending.feeds:
            feed.pass_over(rows[feed.first_id])

    def alone(self) -> list[LaneFeeds]:
        """Each stage as if it were the only one: so it is counted."""
        assert isinstance(self._order, NaturalBatches)
        self._begun = Position(-1)  # they begin with epochs of their own
        orders = [replace(self._order, rows=leaf, steps=None) for leaf in lanes_of(self._order.rows)]
        each = zip(self.feeds, orders, self._counts, strict=True)
        return [LaneFeeds((feed,), order, self.mine, (count,)) for feed, order, count in each]

    @property
    def fed_rows(self) -> int:
        """How many rows of the data were used up in this epoch."""
        return sum(cast("EndingFeed", feed).fed_rows for feed in self._lowest)

    @property
    def input_rows(self) -> int:
        """How many rows of the data an epoch has."""
        return sum(int(feed.order.epochs.lane_rows().sum()) for feed in self._lowest)

    @property
    def _lowest(self) -> list[LaneFeed]:
        found = [*self.feeds]
        while any(feed.below for feed in found):
            found = [one for feed in found for one in (feed.below or (feed,))]
        return found

    # Where lanes stand

    def places(self, position: Position) -> dict[int, list[Place]]:
        """How to continue at a step that was begun, or that follows the last one that was."""
        if self.has_ends and position.epoch != self._begun.epoch:
            return {lane: [feed.first_place().saved() for feed in self._ending.feeds] for lane in self.mine}
        rows = self._rows(position) if self.feeds else {}
        return {
            lane: [feed.place(lane, int(rows[feed.first_id][lane])).saved() for feed in self.feeds]
            for lane in self.mine
        }

    def forget_before(self, position: Position) -> None:
        """Nobody asks any more how to continue at a step before this one."""
        if not self.feeds or (self.has_ends and position.epoch != self._begun.epoch):
            return
        rows = self._rows(position)
        for feed in self.feeds:
            feed.forget_before(rows[feed.first_id])

    def close(self) -> None:
        """Stops what runs."""
        for feed in self.feeds:
            feed.close()

    def _rows(self, position: Position) -> dict[int, Ids]:
        """The next row of each stage's output in every lane."""
        if self.has_ends:
            order = self.order_of(position.epoch)
            return rows_given(order.rows, 0, order.rows_before(position.step))
        row = np.full(self._order.lanes, position.step * self._order.rows_per_lane, dtype=np.int64)
        return rows_given(self._order.rows, position.epoch, row)
