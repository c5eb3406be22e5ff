"""The one table that says which order a verb makes of its inputs' rows.

Until something shuffles, verbs choose ids (`order.rows.chosen`), so that the natural order stays exact and a shuffle above mixes all rows; above it they work lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.order.blocks import WINDOW_BLOCKS
from penstock.order.keys import SOURCE_KEY
from penstock.order.lanes import nearest_batches
from penstock.order.protocol import RowOrder
from penstock.order.rows.chosen import Chosen, ChosenRows, joined
from penstock.order.rows.concat import ConcatRows as ConcatOrder
from penstock.order.rows.ends import BesideRows, CutRows, lanes_of
from penstock.order.rows.lane_rows import LANE_ROWS, LaneRows
from penstock.order.rows.mixed import Mixed, Stop
from penstock.order.rows.natural import Natural
from penstock.order.rows.repeat import RepeatedRows as RepeatOrder
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.rows.slice import Slice
from penstock.order.rows.streamed import WINDOW_ROWS, Streamed
from penstock.order.steps.bucketed import Bucketed
from penstock.order.steps.token_cut import TokenBudget
from penstock.order.steps.tokens import TokenRows
from penstock.plan.nodes import (
    BatchTokens,
    Bucket,
    Concat,
    Every,
    Exclude,
    LaneOutput,
    Mix,
    Node,
    Read,
    Repeat,
    Shuffle,
    Skip,
    Take,
    Zip,
)
from penstock.plan.nodes.picked import PickedRows
from penstock.plan.nodes.rows import RowChoice
from penstock.plan.tree import find_where, lane_stage
from penstock.plan.weights import quotas_of
from penstock.resolve.groups import bucketed, in_tokens
from penstock.source.protocol import Access

if TYPE_CHECKING:
    from penstock.resolve.resolved import Resolved

#: Rows: ids before anything shuffles them, or an order.
Rows: TypeAlias = ChosenRows | RowOrder


class Below:
    """What is below a node. deal: on which lanes; None while ids are only chosen."""

    def __init__(self, of: Resolved, deal: Deal | None) -> None:
        self.of, self._deal = of, deal

    @property
    def deal(self) -> Deal:
        """On which lanes; only verbs that make orders ask."""
        assert self._deal is not None
        return self._deal

    @cached_property
    def _found(self) -> list[tuple[int, Rows]]:
        if self._deal is not None:
            return [(self._deal.next_id, self._deal.rows(one)) for one in self.of.inputs]
        inputs = zip(self.of.begins, self.of.inputs, strict=True)
        return [(begin, one.chosen.moved(begin)) for begin, one in inputs if one.chosen is not None]

    @property
    def rows(self) -> list[Rows]:
        """Those of each input."""
        return [rows for _, rows in self._found]

    @property
    def first_ids(self) -> tuple[int, ...]:
        """The first id of each input."""
        return tuple(first_id for first_id, _ in self._found)


class Deal:
    """Composes the order of a plan's rows, on so many lanes. next_id: of the next source that is met: they are met in flow order.

    has_ends: whether epochs end where lane stages do. shuffle: the one above what is met now; is_pushed: whether it shuffles several datasets, each with a seed of its own. grouped: what puts rows into groups above.
    """

    def __init__(
        self,
        root: Resolved,
        lanes: int,
        batch_size: int,
        seed_here: Callable[[int], int] = int,
        budget: TokenBudget | None = None,
        *,
        has_ends: bool = False,
    ) -> None:
        if batch_size % lanes:
            raise PlanError(f"lanes={lanes} does not divide the batch size {batch_size}")
        self.lanes, self.rows_per_lane, self.seed_here, self._budget = lanes, batch_size // lanes, seed_here, budget
        self._first_ids, self.next_id, self.has_ends = root.first_ids, 0, has_ends
        self.shuffle: Shuffle | None = None
        self.grouped: Bucket | BatchTokens | None = None
        self.is_pushed, self._shuffles = False, 0
        self.order = self.ordered(root, self.rows(root))

    def rows(self, of: Resolved) -> Rows:
        """The rows of a node."""
        if (chosen := of.chosen) is not None:
            first_id, self.next_id = self.next_id, self.next_id + of.ids
            return chosen.moved(first_id)
        return rows_of_kind(of.node, Below(of, self))

    def ordered(self, of: Resolved, found: Rows) -> RowOrder:
        """The order of a node's rows, shuffled where that was asked for above."""
        if isinstance(found, RowOrder):
            return found
        if not found.rows:
            raise PlanError(f"{of.node.verb}: there are no rows")
        if isinstance(self.grouped, Bucket):
            return bucketed(self.grouped.buckets.codes, found, self)
        if self.grouped is not None and self._budget is not None:
            return in_tokens(self.grouped.lengths, self._budget, found, self)
        shuffle, self._shuffles = self.shuffle, self._shuffles + 1
        if shuffle is not None and Access.FORWARD in of.access:
            return Streamed(
                segments=found,
                lanes=self.lanes,
                rows_per_lane=self.rows_per_lane,
                seed=self._own_seed(shuffle),
                window_rows=shuffle.window or WINDOW_ROWS,
            )
        block_rows = of.read_rows if shuffle is None else shuffle.block_rows or of.block_rows
        segments, lanes, rows_per_lane = found.read_by(block_rows, self._first_ids), self.lanes, self.rows_per_lane
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
        return self.seed_here(
            kernels.mix([shuffle.seed, self._shuffles, SOURCE_KEY]) if self.is_pushed else shuffle.seed
        )


# What verbs make of the rows below them


def _read(node: Read, _: Below) -> ChosenRows:
    return Segments(((0, node.samples, 1),))


def _lanes(node: LaneOutput, below: Below) -> RowOrder:
    deal = below.deal
    first_id, deal.next_id = deal.next_id, deal.next_id + node.samples
    return LaneRows(first_id=first_id, lanes=deal.lanes, rows_per_lane=deal.rows_per_lane)


def _joined(_: Concat, below: Below) -> Rows:
    segments = [one for one in below.rows if isinstance(one, Segments)]
    if len(segments) == len(below.rows):
        return reduce(Segments.joined, segments)
    rows = [one for one in below.rows if not isinstance(one, RowOrder)]
    if len(rows) == len(below.rows):
        return joined(rows)
    orders = tuple(one for one in below.rows if isinstance(one, RowOrder))
    return ConcatOrder(inputs=orders, first_ids=below.first_ids, keeps_lanes=any(map(lanes_of, orders)))


def _mixed(node: Mix, below: Below) -> RowOrder:
    deal, found = below.deal, below.rows
    orders = tuple(deal.ordered(of, one) for of, one in zip(below.of.inputs, found, strict=True))
    for number, order in enumerate(orders):
        if not order.lane_rows().min():
            raise PlanError(
                f"mix: dataset {number} has {int(order.lane_rows().sum()):,} rows, fewer than the {deal.lanes} lanes that each need one; "
                f"give batch(…, lanes=…) fewer lanes, or leave it out"
            )
    size = deal.lanes * deal.rows_per_lane
    if node.rows is not None and node.rows % size:
        raise PlanError(
            f"mix: rows={node.rows:,} is no whole number of batches of {size:,} rows; it would be with "
            f"{nearest_batches(node.rows, size)} rows"
        )
    stop, rows = Stop.ROWS if node.rows is not None else Stop(node.stop), node.rows
    if rows is None and lane_stage(node) is not None and not deal.has_ends:
        stop, rows = Stop.ROWS, deal.lanes * LANE_ROWS
    quotas = tuple((step * deal.rows_per_lane, quotas_of(weights)) for step, weights in node.schedule)
    return Mixed(inputs=orders, first_ids=below.first_ids, quotas=quotas, stop=stop, rows=rows)


def _repeated(node: Repeat, below: Below) -> RowOrder:
    return RepeatOrder(input=below.deal.ordered(below.of.inputs[0], below.rows[0]), times=node.times)


def _shuffled(node: Shuffle, below: Below) -> RowOrder:
    deal = below.deal
    deal.shuffle, deal.is_pushed = node, find_where(node, lambda one: one.own_epochs) is not None
    order = deal.ordered(below.of, below.rows[0])
    deal.shuffle, deal.is_pushed = None, False
    return order


def _grouped(node: Bucket | BatchTokens, below: Below) -> RowOrder:
    deal = below.deal
    deal.grouped = node
    order = deal.ordered(below.of, below.rows[0])
    deal.grouped = None
    if not isinstance(order, (Bucketed, TokenRows)):
        raise PlanError(
            f"{node.called}: what chooses rows must come before shuffle, so that each keeps its number; write take(…).shuffle(…)"
        )
    return order


def _sliced(node: Take | Skip, below: Below) -> Rows:
    (found,), count = below.rows, _rows_left(node, below)
    if isinstance(found, RowOrder) and lanes_of(found):
        if isinstance(node, Take):
            return CutRows(input=found, most=count)
        return CutRows(input=found, first=node.count)
    first = 0 if isinstance(node, Take) else node.count
    return Slice(input=found, first=first, count=count) if isinstance(found, RowOrder) else found.sliced(first, count)


def _beside(_: Zip, below: Below) -> Rows:
    orders = [one for one in below.rows if isinstance(one, RowOrder) and lanes_of(one)]
    return BesideRows(inputs=tuple(orders)) if orders else below.rows[0]


def _every(node: Every, below: Below) -> ChosenRows:
    (found,) = below.rows
    _rows_left(node, below)
    if isinstance(found, RowOrder):
        raise PlanError("every: must come before shuffle, which has no neighbours; write every(…).shuffle(…)")
    return found.every(node.count)


def _excluded(node: Exclude, below: Below) -> ChosenRows:
    (found,) = below.rows
    _rows_left(node, below)
    assert isinstance(found, Segments), "it is next to the source"
    return found.without(node.picked.numbers.astype(np.int64))


def _picked(node: PickedRows, below: Below) -> Chosen:
    (found,) = below.rows
    _rows_left(node, below)
    assert not isinstance(found, RowOrder), "the plan's checks say so before"
    return Chosen.of(found, node.picked)


def _rows_left(node: RowChoice, below: Below) -> int:
    """How many rows a verb chooses; PlanError if none is left."""
    (found,) = below.rows
    rows = int(found.lane_rows().sum()) if isinstance(found, RowOrder) else found.rows
    left = node.rows_of([rows])
    if not left:
        raise PlanError(node.none_left(rows))
    return left


#: What each kind of verb makes of its inputs' rows, and those that derive from it. Of all others, rows come as those of their first input.
ORDERS: dict[type[Node], Callable[[Any, Below], Rows]] = {
    Read: _read,
    LaneOutput: _lanes,
    Concat: _joined,
    Mix: _mixed,
    Zip: _beside,
    Repeat: _repeated,
    Take: _sliced,
    Skip: _sliced,
    Every: _every,
    Exclude: _excluded,
    PickedRows: _picked,
    Shuffle: _shuffled,
    Bucket: _grouped,
    BatchTokens: _grouped,
}


def rows_of_kind(node: Node, below: Below) -> Rows:
    """What a verb makes of the rows below it."""
    make = _maker(node)
    return below.rows[0] if make is None else make(node, below)


def chosen_of_kind(node: Node, below: Below) -> ChosenRows | None:
    """The same of ids, which no lanes have yet; None where a verb gives them an order."""
    if node.row_effect == "reordered" and _maker(node) is not None:
        return None
    found = rows_of_kind(node, below)
    return None if isinstance(found, RowOrder) else found


def _maker(node: Node) -> Callable[[Any, Below], Rows] | None:
    return next((ORDERS[kind] for kind in type(node).__mro__ if kind in ORDERS), None)
