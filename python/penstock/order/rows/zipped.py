"""Rows of several sources side by side: the order is that of the first one's rows, and the others' rows follow theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.spec import Ids
from penstock.core.kernels import EpochOrder, Epochs, MixedOrder
from penstock.order.protocol import RowOrder, Shape
from penstock.order.rows.chosen import Chosen, ChosenRows

#: Ids [first, end).
Range: TypeAlias = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class FollowedRows:
    """Row i of `leader` and row i of `follower` are one row. leads, follows: the ids of their sources.

    Both hold ids counted from the first of their own sources. No row comes twice in either.
    """

    leader: ChosenRows
    follower: ChosenRows
    leads: Range
    follows: Range

    def follow(self, ids: Ids) -> Ids:
        """The follower's ids, by the leader's."""
        return self.follower.ids(self.places(ids)) + self.follows[0]

    def places(self, ids: Ids) -> Ids:
        """The places of the leader's ids."""
        return self.leader.places(ids - self.leads[0])

    def lead(self, ids: Ids, block_rows: int) -> Ids:
        """The leader's ids, by the follower's; -1 for those of no row. Rows between chosen ones are read with the one before them."""
        ids = ids - self.follows[0]
        if isinstance(self.follower, Chosen):
            places = self.follower.reading_places(ids, block_rows)
        else:
            places = self.follower.places(ids)
        found = self.leader.ids(np.maximum(places, 0)) + self.leads[0]
        return np.where(places >= 0, found, -1)


@dataclass(frozen=True, kw_only=True)
class Zipped(RowOrder):
    """See `protocol.RowOrder`. input: the order, which knows the leaders' rows alone; of followers it is answered here.

    links: outer ones first, so that a leader may itself follow by a link before. single: ids of sources that are read row by row.
    """

    input: RowOrder
    links: tuple[FollowedRows, ...]
    single: tuple[Range, ...] = ()

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return self.input.shape

    @property
    def words(self) -> str:
        """Which rows come when, as of the input."""
        return self.input.words

    def block_rows_at(self, row_id: int) -> int:
        """How many rows are read together of a source: as many as of its leader, or each by itself."""
        if any(first <= row_id < end for first, end in self.single):
            return 1
        return self._rows_of_block(row_id)

    def _rows_of_block(self, row_id: int) -> int:
        """How many rows a block has."""
        for link in reversed(self.links):
            if link.follows[0] <= row_id < link.follows[1]:
                return self._rows_of_block(link.leads[0]) if link.follower.has_neighbours else 1
        return self.input.block_rows_at(row_id)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return self.input.lane_rows()

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        return self.input.ids(epoch, lane, first, count)

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps."""
        self.input.step_ids(epoch, share, step, out, threads)

    @property
    def has_draws(self) -> bool:
        """Whether sources are in other epochs than the plan."""
        return self.input.has_draws

    @property
    def has_copies(self) -> bool:
        """Whether rows come several times."""
        return self.input.has_copies

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epochs in which rows are drawn."""
        return self.input.draws(epoch, lane, first, count)

    def step_draws(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the draws of the rows of whole steps."""
        self.input.step_draws(epoch, share, step, out, threads)

    def native(self, epoch: int) -> EpochOrder | None:
        """The native order, where ids are its own."""
        return self.input.native(epoch)

    def native_epochs(self) -> Epochs | MixedOrder | None:
        """The native order of all epochs."""
        return self.input.native_epochs()

    def with_followers(self, ids: Ids) -> tuple[Ids, Ids | None]:
        """Ids, then those of the rows that follow them, and for each its number among `ids`."""
        return followed(self.links, ids)

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row."""
        which = np.empty(len(ids), dtype=np.int64)
        firsts, ends, known = [ids[:0]], [ids[:0]], 0
        for link, mine in self._by_link(ids):
            first, end, block = (
                self.input.blocks(epoch, ids[mine]) if link is None else self._blocks_of(link, epoch, ids[mine])
            )
            which[mine] = block + known
            firsts.append(first)
            ends.append(end)
            known += len(first)
        return np.concatenate(firsts), np.concatenate(ends), which

    def _blocks_of(self, link: FollowedRows, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """A follower's blocks have the rows of its leader's, and end where its own runs do."""
        rows = link.follower
        if not rows.has_neighbours:
            first, which = distinct(ids)
            return first, first + 1, which
        leaders = link.lead(ids, self._rows_of_block(link.follows[0]))
        first, end, block = self.blocks(epoch, leaders)
        found, which = distinct(block * rows.run_count + rows.run_of(link.places(leaders)))
        block, run = np.divmod(found, rows.run_count)
        begin = np.maximum(link.places(first)[block], rows.edges[run])
        last = np.minimum(link.places(end - 1)[block], rows.edges[run + 1] - 1)
        return rows.ids(begin) + link.follows[0], rows.ids(last) + (link.follows[0] + 1), which

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: with those of their leaders."""
        return self.input.until(epoch, lane, row, self._leaders(last))

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: with their leaders."""
        leaders = self._leaders(ids)
        is_there = leaders >= 0
        lane, first, end = self.input.windows(epoch, np.maximum(leaders, 0), after)
        return lane, np.where(is_there, first, 0), np.where(is_there, end, 0)

    def _leaders(self, ids: Ids) -> Ids:
        """The ids that the order knows, -1 for those of no row; inner links first."""
        leaders = ids.copy()
        for link in reversed(self.links):
            mine = np.flatnonzero((leaders >= link.follows[0]) & (leaders < link.follows[1]))
            if len(mine):
                leaders[mine] = link.lead(leaders[mine], self._rows_of_block(link.follows[0]))
        return leaders

    def _by_link(self, ids: Ids) -> list[tuple[FollowedRows | None, Ids]]:
        """The links by which some of these rows follow, None for the order's own, and the places of theirs among them."""
        of = np.full(len(ids), -1, dtype=np.int64)
        for number, link in enumerate(self.links):
            # Of a follower that leads another one, the inner link's ids are a part of the outer one's.
            of[(ids >= link.follows[0]) & (ids < link.follows[1])] = number
        return [
            (None if number < 0 else self.links[number], np.flatnonzero(of == number))
            for number in np.unique(of).tolist()
        ]


def followed(links: tuple[FollowedRows, ...], ids: Ids) -> tuple[Ids, Ids]:
    """See `Zipped.with_followers`."""
    whole, at = [ids], [np.arange(len(ids))]
    for link in links:
        for some, places in list(zip(whole, at, strict=True)):
            mine = np.flatnonzero((some >= link.leads[0]) & (some < link.leads[1]))
            if len(mine):
                whole.append(link.follow(some[mine]))
                at.append(places[mine])
    return np.concatenate(whole), np.concatenate(at)
