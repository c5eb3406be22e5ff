"""From a plan's nodes to the order of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.core.lengths import Lengths
from penstock.order.blocks import WINDOW_BLOCKS
from penstock.order.bucketed import Bucketed
from penstock.order.chosen import Chosen, ChosenRows, joined
from penstock.order.concat import Concat as ConcatOrder
from penstock.order.keys import SOURCE_KEY
from penstock.order.lane_rows import LANE_ROWS, LaneRows
from penstock.order.lanes import nearest_batches
from penstock.order.mixed import Mixed, Stop
from penstock.order.natural import Natural
from penstock.order.protocol import RowOrder
from penstock.order.repeat import Repeat as RepeatOrder
from penstock.order.segments import Segments
from penstock.order.shuffled import Shuffled
from penstock.order.slice import Slice
from penstock.order.streamed import WINDOW_ROWS, Streamed
from penstock.order.token_cut import Budget
from penstock.order.token_cut import cut as cut_by_length
from penstock.order.tokens import TokenRows
from penstock.plan.nodes import (
    BatchTokens,
    Bucket,
    Concat,
    Every,
    Mix,
    Node,
    Read,
    Repeat,
    Shuffle,
    Skip,
    Take,
)
from penstock.plan.nodes.picked import PICKED, Exclude, PickedRows
from penstock.plan.row_choice import RowChoice
from penstock.plan.tree import find, inputs_of
from penstock.plan.weights import quotas_of
from penstock.resolve.row_counts import block_rows_of, first_ids_of, is_endless, is_forward
from penstock.source.protocol import Access


class RowOrders:
    """Goes through a plan's tree and composes the order of its rows, on so many lanes.

    Until something shuffles, `concat`, `take` and `skip` choose runs of ids, so that the natural order stays exact and a shuffle above
    them mixes all rows; above a shuffle they work lane by lane.
    """

    def __init__(
        self,
        root: Node,
        lanes: int,
        batch_size: int,
        seed_here: Callable[[int], int] = int,
        budget: Budget | None = None,
    ) -> None:
        if batch_size % lanes:
            raise PlanError(f"lanes={lanes} does not divide the batch size {batch_size}")
        self._lanes, self._rows_per_lane, self._seed_here = lanes, batch_size // lanes, seed_here
        self._first_ids = first_ids_of(root)
        self._next_id = 0  # of the next source that is met: they are met in flow order
        self._shuffle: Shuffle | None = None  # above what is met now
        self._grouped: Bucket | BatchTokens | None = None  # likewise
        self._budget = budget  # of what is batched by tokens
        self._is_pushed, self._shuffles = False, 0  # whether it shuffles several datasets, each with a seed of its own
        self.rows = self._order(root, self._of(root))

    def _order(self, node: Node, found: ChosenRows | RowOrder) -> RowOrder:
        """The order of a node's rows, shuffled where that was asked for above."""
        if isinstance(found, RowOrder):
            return found
        _check_rows(node, found.rows)
        if isinstance(self._grouped, Bucket):
            return self._bucketed(self._grouped.buckets.codes, found)
        if self._grouped is not None:
            return self._in_tokens(self._grouped.lengths, found)
        shuffle, self._shuffles = self._shuffle, self._shuffles + 1
        if shuffle is not None and is_forward(node):
            return Streamed(
                segments=found,
                lanes=self._lanes,
                rows_per_lane=self._rows_per_lane,
                seed=self._own_seed(shuffle),
                window_rows=shuffle.window or WINDOW_ROWS,
            )
        block_rows = (shuffle and shuffle.block_rows) or block_rows_of(node)
        segments, lanes, rows_per_lane = found.read_by(block_rows, self._first_ids), self._lanes, self._rows_per_lane
        wanted_rows = segments.rows_together(block_rows)
        if shuffle is None:
            return Natural(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane, wanted_rows=wanted_rows)
        return Shuffled(
            segments=segments,
            lanes=lanes,
            rows_per_lane=rows_per_lane,
            wanted_rows=1 if shuffle.mode == "global" else shuffle.block_rows or wanted_rows,
            window_blocks=shuffle.window_blocks or WINDOW_BLOCKS,
            seed=self._own_seed(shuffle),
        )

    def _own_seed(self, shuffle: Shuffle) -> int:
        """The seed of what is shuffled now: of its own, where one shuffle is for several datasets."""
        return self._seed_here(
            kernels.mix([shuffle.seed, self._shuffles, SOURCE_KEY]) if self._is_pushed else shuffle.seed
        )

    def _bucketed(self, codes: npt.NDArray[np.uint16], found: ChosenRows) -> Bucketed:
        """The rows in buckets, each in an order of its own."""
        _check_numbers("batch_bucketed", len(codes), found.rows)
        lanes, rows_per_lane, shuffle = self._lanes, self._rows_per_lane, self._shuffle
        ids, inputs = found.ids(np.arange(found.rows)), list[RowOrder]()
        for code in range(int(codes.max()) + 1):
            segments = Chosen.of_ids(ids[codes == code])
            if shuffle is None:
                inputs.append(Natural(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane))
                continue
            seed = self._seed_here(kernels.mix([shuffle.seed, code, SOURCE_KEY]))
            inputs.append(Shuffled(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane, seed=seed))
        bucket_of = np.zeros(int(ids.max()) + 1, dtype=np.uint16)
        bucket_of[ids] = codes
        return Bucketed(
            inputs=tuple(inputs),
            bucket_of=bucket_of,
            seed=None if shuffle is None else self._seed_here(shuffle.seed),
        )

    def _in_tokens(self, lengths: Lengths, found: ChosenRows) -> TokenRows:
        """The rows in groups of similar length."""
        _check_numbers("batch_tokens", len(lengths.numbers), found.rows)
        assert self._budget is not None
        turn, groups = cut_by_length(lengths, self._budget)
        return TokenRows(
            chosen=Chosen.of_ids(found.ids(turn)),
            lengths=lengths.numbers[turn],
            groups=groups,
            lanes=self._lanes,
            seed=None if self._shuffle is None else self._seed_here(self._shuffle.seed),
            drop_last=self._budget.drop_last,
        )

    def _mixed(self, node: Mix, found: Sequence[ChosenRows | RowOrder], first_ids: Sequence[int]) -> RowOrder:
        orders = tuple(self._order(below, one) for below, one in zip(node.inputs, found, strict=True))
        for number, order in enumerate(orders):
            if not order.lane_rows().min():
                raise PlanError(
                    f"mix: dataset {number} has {int(order.lane_rows().sum()):,} rows, fewer than the {self._lanes} lanes that each need one; "
                    f"give batch(…, lanes=…) fewer lanes, or leave it out"
                )
        size = self._lanes * self._rows_per_lane
        if node.rows is not None and node.rows % size:
            raise PlanError(
                f"mix: rows={node.rows:,} is no whole number of batches of {size:,} rows; it would be with "
                f"{nearest_batches(node.rows, size)} rows"
            )
        stop, rows = Stop.ROWS if node.rows is not None else Stop(node.stop), node.rows
        if is_endless(node) and rows is None:
            stop, rows = Stop.ROWS, self._lanes * LANE_ROWS
        quotas = tuple((step * self._rows_per_lane, quotas_of(weights)) for step, weights in node.schedule)
        return Mixed(inputs=orders, first_ids=tuple(first_ids), quotas=quotas, stop=stop, rows=rows)

    def _in_groups(self, node: Bucket | BatchTokens) -> RowOrder:
        self._grouped = node
        order = self._order(node, self._of(node.input))
        self._grouped = None
        if not isinstance(order, (Bucketed, TokenRows)):
            verb = "batch_bucketed" if isinstance(node, Bucket) else node.verb
            raise PlanError(
                f"{verb}: what chooses rows must come before shuffle, so that each keeps its number; write take(…).shuffle(…)"
            )
        return order

    def _of(self, node: Node) -> ChosenRows | RowOrder:
        if isinstance(node, Read):
            first_id, samples = self._next_id, node.opened.source.manifest.samples
            self._next_id += samples
            if node.opened.source.access is Access.LANES:
                return LaneRows(first_id=first_id, lanes=self._lanes, rows_per_lane=self._rows_per_lane)
            return Segments(((first_id, samples, 1),))
        if isinstance(node, Shuffle):
            self._shuffle, self._is_pushed = node, find(node, Mix) is not None or find(node, Repeat) is not None
        if isinstance(node, (Bucket, BatchTokens)):
            return self._in_groups(node)
        first_ids, found = [], []
        for below in inputs_of(node):
            first_ids.append(self._next_id)
            found.append(self._of(below))
        if isinstance(node, Concat):
            return _joined(found, first_ids)
        if isinstance(node, Mix):
            return self._mixed(node, found, first_ids)
        if isinstance(node, Repeat):
            return RepeatOrder(input=self._order(node.input, found[0]), times=node.times)
        if isinstance(node, RowChoice):
            return _chosen(node, found[0])
        if isinstance(node, Shuffle):
            order = self._order(node, found[0])
            self._shuffle, self._is_pushed = None, False
            return order
        return found[0]


def _check_numbers(verb: str, numbers: int, rows: int) -> None:
    if numbers != rows:
        raise PlanError(f"{verb}: by= has {numbers:,} numbers, and there are {rows:,} rows; give one for each")


def _joined(found: Sequence[ChosenRows | RowOrder], first_ids: Sequence[int]) -> ChosenRows | RowOrder:
    segments = [one for one in found if isinstance(one, Segments)]
    if len(segments) == len(found):
        return reduce(Segments.joined, segments)
    rows = [one for one in found if not isinstance(one, RowOrder)]
    if len(rows) == len(found):
        return joined(rows)
    orders = tuple(one for one in found if isinstance(one, RowOrder))
    return ConcatOrder(inputs=orders, first_ids=tuple(first_ids))


def _chosen(node: RowChoice, found: ChosenRows | RowOrder) -> ChosenRows | RowOrder:
    rows = int(found.lane_rows().sum()) if isinstance(found, RowOrder) else found.rows
    if not node.rows(rows):
        raise PlanError(node.none_left(rows))
    return CHOOSE[type(node)](node, found, rows)


def _sliced(node: Take | Skip, found: ChosenRows | RowOrder, rows: int) -> ChosenRows | RowOrder:
    first, count = 0 if isinstance(node, Take) else node.count, node.rows(rows)
    return Slice(input=found, first=first, count=count) if isinstance(found, RowOrder) else found.sliced(first, count)


def _every(node: Every, found: ChosenRows | RowOrder, _: int) -> ChosenRows:
    if isinstance(found, RowOrder):
        raise PlanError("every: must come before shuffle, which has no neighbours; write every(…).shuffle(…)")
    return found.every(node.count)


def _excluded(node: Exclude, found: ChosenRows | RowOrder, _: int) -> ChosenRows:
    assert isinstance(found, Segments), "it is next to the source"
    return found.without(node.picked.numbers.astype(np.int64))


def _picked(node: PickedRows, found: ChosenRows | RowOrder, _: int) -> Chosen:
    assert not isinstance(found, RowOrder), "plan.check says so before"
    return Chosen.of(found, node.picked)


#: How each verb that chooses rows does so: until something shuffles among runs of ids, after that lane by lane.
CHOOSE: dict[type, Callable[[Any, ChosenRows | RowOrder, int], ChosenRows | RowOrder]] = {
    Take: _sliced,
    Skip: _sliced,
    Every: _every,
    Exclude: _excluded,
    **dict.fromkeys(PICKED, _picked),
}


def _check_rows(node: Node, rows: int) -> None:
    if not rows:
        raise PlanError(f"{node.verb}: there are no rows")
