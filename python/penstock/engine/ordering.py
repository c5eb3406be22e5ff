"""The order that a plan asks for, and which part of it a rank holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from math import gcd, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.errors import PlanError
from penstock.core.lengths import Lengths
from penstock.core.spec import Ids
from penstock.engine.lanes.cut import cut
from penstock.order.batches import BatchOrder, Last
from penstock.order.blocks import WINDOW_BLOCKS, default_block_rows
from penstock.order.bucketed import Bucketed
from penstock.order.chosen import Chosen, ChosenRows, joined
from penstock.order.concat import Concat as ConcatOrder
from penstock.order.demand import DemandOrder
from penstock.order.keys import SHARD_KEY, SOURCE_KEY
from penstock.order.lane_rows import LANE_ROWS, LaneRows
from penstock.order.lanes import default_lanes, nearest_batches, nearest_ranks
from penstock.order.mixed import Mixed, Stop, mixed_rows
from penstock.order.natural import Natural
from penstock.order.protocol import RowOrder
from penstock.order.repeat import Repeat as RepeatOrder
from penstock.order.segments import Segments
from penstock.order.shuffled import Shuffled
from penstock.order.slice import Slice
from penstock.order.streamed import WINDOW_ROWS, Streamed
from penstock.order.token_batches import TokenBatches
from penstock.order.token_cut import Budget, default_token_lanes
from penstock.order.token_cut import cut as cut_by_length
from penstock.order.tokens import TokenRows
from penstock.order.zipped import Link, Zipped
from penstock.plan.nodes import (
    Batch,
    BatchTokens,
    Bucket,
    Concat,
    Every,
    LaneNode,
    Mix,
    Node,
    Read,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
    Zip,
)
from penstock.plan.picked_nodes import PICKED, REORDERING, Exclude, PickedRows
from penstock.plan.row_choice import RowChoice
from penstock.plan.tree import find, flow, inputs_of, leaves
from penstock.plan.weights import quotas_of
from penstock.source.protocol import Access, AnySource, BlockSource


@dataclass(frozen=True, kw_only=True)
class Where:
    """For whom a plan is lowered: this rank's share, on these CPUs."""

    rank: int = 0
    world_size: int = 1
    cpus: int = 1


def first_ids_of(root: Node) -> Ids:
    """The id of the first row of every source, and the end of all: see `order.protocol.RowOrder`."""
    samples = [leaf.opened.source.manifest.samples for leaf in leaves(cut(root))]
    return np.cumsum([0, *samples], dtype=np.int64)


def rows_of(root: Node) -> int:
    """Rows of an epoch; PlanError where only a lane stage knows."""
    if isinstance(root, LaneNode):
        raise PlanError(
            f"{root.verb}: how many rows it gives is known once they were made; batch(…, steps=…) says how long an epoch is"
        )
    if isinstance(root, Mix) and root.rows is not None:
        return root.rows
    if isinstance(root, Read):
        return root.opened.source.manifest.samples
    if isinstance(root, Zip):
        return rows_of(root.inputs[0])
    rows = sum(map(rows_of, inputs_of(root)))
    if isinstance(root, Repeat):
        return rows * root.times
    if isinstance(root, Mix):
        return mixed_rows(root.quotas, [rows_of(below) for below in inputs_of(root)], Stop(root.stop), root.rows)
    return root.rows(rows) if isinstance(root, RowChoice) else rows


def natural_rows(root: Node) -> ChosenRows:
    """The ids of a plan's rows in their natural order, of a plan in which nothing has another."""
    order = _RowOrders(root, 1, 1).rows
    assert isinstance(order, Natural)
    return order.segments


def links_of(root: Node, first_id: int = 0) -> tuple[Link, ...]:
    """How rows follow those of other sources, by the `zip`s of a plan that was cut; outer ones first. first_id: of its first source."""
    links, inner, begin, leader = list[Link](), list[Link](), first_id, None
    for below in inputs_of(root):
        ids = begin, begin + int(first_ids_of(below)[-1])
        if isinstance(root, Zip):
            if leader is None:
                leader = natural_rows(below), ids
            else:
                links.append(Link(leader=leader[0], follower=natural_rows(below), leads=leader[1], follows=ids))
        inner += links_of(below, begin)
        begin = ids[1]
    return (*links, *inner)


def _zipped(root: Node, rows: RowOrder) -> RowOrder:
    """The order of a plan that was cut, also of rows that follow others. Beside blocks of these, files of a row each are still read one by one."""
    links = links_of(root)
    if not links:
        return rows
    ranges = zip(leaves(root), pairwise(first_ids_of(root).tolist()), strict=True)
    single = tuple(ids for leaf, ids in ranges if _block_rows(leaf.opened.source) == 1)
    return Zipped(input=rows, links=links, single=single)


def seed_of(root: Node) -> int:
    """The seed of a plan's random ops: that of its first shuffle, else 0."""
    shuffle = find(root, Shuffle)
    return 0 if shuffle is None else shuffle.seed


def some_rank(root: Node, world_size: int | None = None) -> Where:
    """A rank that reads this source, of so many or as few as can be: to describe a plan, or to check it."""
    batch, shard = find(root, Batch), find(root, Shard)
    rows = 0 if shard is None else rows_of(root)
    samples = (rows,) if shard is None else shard.samples
    if world_size is None:
        world_size = len(samples)
        if batch is not None and batch.per_rank and batch.lanes is not None:
            world_size = lcm(world_size, batch.lanes // gcd(batch.lanes, batch.size))
    return Where(rank=samples.index(rows) * (world_size // len(samples)), world_size=world_size)


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """What a plan asks for: the order of one node's batches, the place among the ranks that share it, and the seed of random ops."""

    order: BatchOrder
    where: Where
    seed: int


def order_of(root: Node, where: Where) -> Ordered:
    """The order that a plan asks for, and the rank's place among those that share it; PlanError if it has no batch.

    All ranks share one order, unless nodes have files of their own (`Shard`): then the ranks of each node share one.
    """
    batch, shard = find(root, Batch), find(root, Shard)
    if batch is None:
        raise PlanError("the plan has no batch; end it with .batch(size)")
    batch = batch.of_all(where.world_size)
    if shard is None:
        if isinstance(batch, BatchTokens):
            return Ordered(order=_token_batches(root, batch), where=where, seed=seed_of(root))
        lanes = batch.lanes or default_lanes(batch.size)
        rows = _RowOrders(cut(root), lanes, batch.size).rows
        steps = _steps_of_buckets(rows, batch) if isinstance(rows, Bucketed) else None
        if batch.steps is not None:
            rows = _in_steps(rows, batch.steps * batch.size)
        order = BatchOrder(rows=_zipped(cut(root), rows), last=_last(batch), steps=steps)
        return Ordered(order=order, where=where, seed=seed_of(root))
    return _order_of_node(root, batch, shard, where)


def _token_batches(root: Node, batch: BatchTokens) -> TokenBatches:
    """The order of batches of a bounded number of tokens; PlanError where a row is longer than a lane's part."""
    budget = _budget(batch)
    tokens = _RowOrders(root, budget.lanes, budget.lanes, budget=budget).rows
    assert isinstance(tokens, TokenRows)
    return TokenBatches(rows=_zipped(root, tokens), last=_last(batch), tokens=tokens, budget=budget)


def _budget(batch: BatchTokens) -> Budget:
    """What each lane has room for; PlanError where that is not the longest row."""
    longest, length = int(batch.lengths.numbers.argmax()), batch.lengths.longest
    lanes = batch.lanes or default_token_lanes(batch.size, length)
    budget = Budget(
        lane_tokens=batch.size // lanes,
        lanes=lanes,
        is_padded=batch.is_padded,
        multiple_of=batch.multiple_of,
        fill=batch.fill,
        drop_last=batch.drop_last,
    )
    cost = int(budget.costs(batch.lengths.numbers[[longest]])[0])
    if cost > budget.lane_tokens:
        has = (
            f"and max_tokens={batch.size:,} over {lanes} lanes is {budget.lane_tokens:,} for each"
            if lanes > 1
            else f"and max_tokens={batch.size:,}"
        )
        raise PlanError(
            f"batch_tokens: row {longest:,} counts {cost:,} tokens, {has}; give at least max_tokens={cost * lanes:,}"
            f"{', fewer lanes=' if lanes > 1 else ''}, or leave long rows out with filter"
        )
    return budget


def _steps_of_buckets(rows: Bucketed, batch: Batch) -> int | None:
    """Steps whose batches have rows of one bucket each, with drop_last; else None, since those that hold what is left of all come last."""
    if batch.steps is not None:
        raise PlanError("batch_bucketed: how long an epoch is follows from the buckets; leave out steps=…")
    if not rows.even_steps:
        raise PlanError(
            f"batch_bucketed: none of the {len(rows.inputs)} buckets has rows for a batch of {batch.size:,}; take fewer buckets, or a smaller batch"
        )
    return rows.even_steps if batch.drop_last else None


def _in_steps(order: RowOrder, rows: int) -> RowOrder:
    """Epochs of so many rows, each of which goes on where the one before ended."""
    if not order.lane_rows().min():
        raise PlanError(
            f"batch: steps=… goes round and round, and some of the {order.shape.lanes} lanes have no row; use fewer lanes"
        )
    if isinstance(order, LaneRows):
        return replace(order, epoch_rows=rows // order.lanes)
    return Mixed(inputs=(order,), first_ids=(0,), quotas=((0, (1,)),), stop=Stop.ROWS, rows=rows)


def demand_order(root: Node, like: BatchOrder) -> DemandOrder:
    """The order of a lane stage's input, on the lanes of the order above: one epoch without an end; `root` is cut."""
    lanes = like.lanes
    rows = _RowOrders(root, lanes, like.batch_size).rows
    if not rows.lane_rows().min():
        raise PlanError(
            f"batch: {int(rows.lane_rows().sum()):,} rows are fewer than the {lanes} lanes that each need one; give batch(…, lanes=…) fewer lanes"
        )
    if rows.lane_rows().min() < LANE_ROWS:  # also a mix of so many rows, whatever is below it
        rows = _in_steps(rows, lanes * LANE_ROWS)
    return DemandOrder(rows=_zipped(root, rows), steps=1)


def _is_endless(root: Node) -> bool:
    return any(leaf.opened.source.access is Access.LANES for leaf in leaves(root))


def _order_of_node(root: Node, batch: Batch, shard: Shard, where: Where) -> Ordered:
    """A node's own order: its part of every batch, out of its own samples."""
    number, here = len(shard.samples), rows_of(root)
    if where.world_size % number:
        raise PlanError(f"world_size={where.world_size} is not a multiple of the {number} nodes of shard(…)")
    steps = _steps(batch, shard)
    ranks = where.world_size // number
    node, rank = divmod(where.rank, ranks)
    if shard.samples[node] != here:
        raise PlanError(
            f"shard: node {node} has {shard.samples[node]:,} samples by what was passed, and {here:,} lie here; pass "
            f"len(dataset) of every node, in the order of the nodes"
        )
    size = batch.size // number
    if ranks and size % ranks:
        raise PlanError(
            f"world_size={where.world_size} makes {ranks} ranks on each of the {number} nodes of shard(…), which cannot share its {size:,} "
            f"rows of a batch equally; they could with {nearest_ranks(size, ranks)} ranks a node"
        )
    if batch.steps is not None:
        raise PlanError(
            "batch: steps=… cannot go with shard(…), where the nodes' counts say how long an epoch is; leave it out"
        )
    if batch.lanes is not None and batch.lanes % number:
        raise PlanError(f"batch: lanes={batch.lanes} is not a multiple of the {number} nodes of shard(…)")
    lanes = batch.lanes // number if batch.lanes else default_lanes(size)

    def seed_here(seed: int) -> int:
        return kernels.mix([seed, node, SHARD_KEY])

    rows = _RowOrders(root, lanes, size, seed_here).rows
    shuffle = find(root, Shuffle)
    return Ordered(
        order=BatchOrder(rows=_zipped(root, rows), last=_last(batch), steps=steps),
        where=replace(where, rank=rank, world_size=ranks),
        seed=0 if shuffle is None else seed_here(shuffle.seed),
    )


def _last(batch: Batch) -> Last:
    named = {"drop_last": Last.DROP, "pad": Last.PAD, "wrap": Last.WRAP}
    return next((last for name, last in named.items() if getattr(batch, name)), Last.SHORT)


class _RowOrders:
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
        if shuffle is not None and _is_forward(node):
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
        if _is_endless(node) and rows is None:
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


def _steps(batch: Batch, shard: Shard) -> int:
    """Steps of an epoch, the same on all nodes: with drop_last as many as the smallest has, else as the largest needs."""
    number = len(shard.samples)
    if batch.size % number:
        raise PlanError(f"batch: size={batch.size} is not a multiple of the {number} nodes of shard(…)")
    rows = batch.size // number
    if batch.drop_last:
        if min(shard.samples) < rows:
            raise PlanError(
                f"batch: a node has {min(shard.samples):,} samples, fewer than its {rows} rows of a batch, and drop_last drops "
                f"them; use a smaller batch, or pad=True"
            )
        return min(shard.samples) // rows
    if not batch.pad and not batch.wrap:
        raise PlanError(
            "batch: nodes that have files of their own must end an epoch together; choose drop_last=True, pad=True or wrap=True"
        )
    return -(-max(shard.samples) // rows)


def check_order(root: Node) -> None:
    """PlanError where the sources cannot be read in the order that a verb asks for."""
    if isinstance(root, Shuffle):
        _check_shuffle(root)
    if isinstance(root, (Bucket, BatchTokens, *REORDERING)) and _is_forward(root):
        raise PlanError(
            f"{root.verb}: this source can only be read in one order, and nothing of it is stored; let from_iterable(…, spool=True) store the rows"
        )
    if isinstance(root, Shard):
        _check_shard(root)
    if isinstance(root, Zip):
        _check_pairs(root)
    if isinstance(root, Batch):
        order = order_of(root, some_rank(root)).order  # says if no batch can be made of so few samples
        for node in flow(root):
            if isinstance(node, LaneNode):
                (below,) = inputs_of(node)
                demand_order(cut(below), order)


def _is_forward(root: Node) -> bool:
    """Whether some rows can only be read in one order."""
    return any(leaf.opened.source.access is Access.FORWARD for leaf in leaves(root))


def _check_shuffle(node: Shuffle) -> None:
    """PlanError where rows can only be read in one order and are to come in any, or the other way round."""
    if not _is_forward(node):
        if node.window is not None:
            raise PlanError(
                f"shuffle: window={node.window:,} is for sources that can only be read in one order; the order covers all samples here, so there "
                f"is no buffer to size; leave it out"
            )
        return
    given = {"mode": "block", "block_rows": None, "window_blocks": None}
    for name, default in given.items():
        if (value := getattr(node, name)) != default:
            raise PlanError(
                f"shuffle: {name}={value!r}, and this source can only be read in one order; mix its rows within a window, "
                f"shuffle(seed=…, window={WINDOW_ROWS}), or let from_iterable(…, spool=True) store them"
            )


def _check_pairs(node: Zip) -> None:
    """PlanError where rows have no counterpart."""
    first, *others = map(rows_of, node.inputs)
    for number, rows in enumerate(others, 1):
        if rows != first:
            raise PlanError(
                f"zip: dataset 0 has {first:,} rows and dataset {number} has {rows:,}, so that some would have no counterpart; look whether rows are "
                f"missing, or cut all of them to the shortest with strict=False"
            )


def _check_shard(node: Shard) -> None:
    """PlanError where a node's own files cannot be trained on beside those of the others."""
    own = rows_of(node)
    if own not in node.samples:
        raise PlanError(
            f"shard: {own:,} samples lie here, which none of the {len(node.samples)} nodes has by samples=…; pass len(dataset) of "
            f"every node, in the order of the nodes"
        )
    for source in (leaf.opened.source for leaf in leaves(node)):
        if source.access is Access.FORWARD:
            raise PlanError(
                "shard: this source is drawn in one order, and every rank draws all of it; let each node read its own"
            )
        if getattr(source, "classes", ()) and not getattr(source, "classes_given", False):
            raise PlanError(
                "shard: another node may have other class folders, and number its classes differently; name all of them, in one "
                "order on every node: read(…, classes=[…])"
            )


def block_rows_of(root: Node) -> int:
    """Rows that are worth reading together: what suits the source, or the least of what suits several that are read."""
    sources = [leaf.opened.source for leaf in leaves(root)]
    read = [source for source in sources if source.access is not Access.MEMORY or len(source.manifest.shards)]
    rows = list(map(_block_rows, read or sources))
    if find(root, Zip) is not None:  # files of a row each are read one by one there, whatever others like
        rows = [some for some in rows if some > 1] or rows
    return min(rows)


def _block_rows(source: AnySource) -> int:
    if isinstance(source, BlockSource) and source.block_rows is not None:
        return source.block_rows
    manifest = source.manifest
    return default_block_rows(manifest.samples, manifest.size_bytes, len(manifest.shards))
