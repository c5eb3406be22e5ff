"""How rows become batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.arguments import check_flags, hold_as_int, is_whole
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.verbs.padding import Padding, columns_to_pad, lengths_name, mask_name
from penstock.plan.columns import spec_of
from penstock.plan.node import Known, Node, OrderVerb, Verb
from penstock.plan.nodes.rows import MOST_ROWS, Shard
from penstock.plan.nodes.words import said_of
from penstock.plan.tree import check_endless, ends_with_data, find, flow, is_column_unknown, lane_stage

if TYPE_CHECKING:
    from penstock.core.verbs.buckets import Buckets
    from penstock.core.verbs.lengths import Lengths


@dataclass(frozen=True, kw_only=True)
class Bucket(OrderVerb):
    """Every batch takes its rows of one bucket; the batch follows at once, or after `Pad`."""

    buckets: Buckets
    verb: str = "bucket"

    fixes_epoch = True
    reads_by_number = True

    @property
    def called(self) -> str:
        """The method that users call."""
        return "batch_bucketed"

    def check(self) -> None:
        """PlanError where rows below have no fixed places in the data."""
        _check_grouped(self)


@dataclass(frozen=True, kw_only=True)
class Pad(Verb, Padding):
    """Ragged columns become dense, in each batch for itself; the batch follows at once."""

    verb: str = "pad"

    row_effect = "reordered"  # in groups, of which each is padded for itself
    column_effect = "changed"
    keeps_order = True
    keeps_ends = True
    keeps_steps = True
    passes_pixels = True  # which are not ragged
    computes = True

    def known_of(self, below: Sequence[Known]) -> Known:
        """Beside each column that is padded, how long its rows are and what of it is no padding."""
        (known,) = below
        if known is None or (self.columns is None and is_column_unknown(self.input)):
            return None
        padded = self.columns or columns_to_pad(self, spec_of(self.input))
        return {
            made: "" if name in padded else kind
            for name, kind in known.items()
            for made in ((name, lengths_name(name), mask_name(name)) if name in padded else (name,))
        }

    def said(self) -> Iterator[tuple[str, str]]:
        """How rows are padded."""
        return said_of(self, Padding)

    def check(self) -> None:
        """PlanError where rows are in batches already, and for columns that cannot be padded."""
        if find(self.input, Batch):
            raise PlanError("batch_padded: the plan has a batch already; write batch_padded(…) in its place")
        if not is_column_unknown(self.input):  # a function may make other columns
            columns_to_pad(self, spec_of(self.input))


@dataclass(frozen=True, kw_only=True)
class Batch(OrderVerb):
    """The global batch: `size` rows over all ranks together; with per_rank, for each of them. steps: of an epoch, None for all rows."""

    size: int
    drop_last: bool = False
    pad: bool = False
    wrap: bool = False
    lanes: int | None = None
    per_rank: bool = False
    steps: int | None = None
    verb: str = "batch"

    is_batch = True
    has_equal_steps = True
    keeps_order = True
    keeps_steps = True

    def __post_init__(self) -> None:
        if self.steps is not None and (not is_whole(self.steps) or not 1 <= self.steps <= MOST_ROWS):
            raise PlanError(
                f"batch: steps={quoted(self.steps)}; an epoch has at least one step, and a whole number of them up to 2**40"
            )
        if not is_whole(self.size) or not 1 <= self.size <= MOST_ROWS:
            raise PlanError(
                f"batch: size={quoted(self.size)}; a batch has at least one row, and a whole number of them up to 2**40"
            )
        check_flags("batch", drop_last=self.drop_last, pad=self.pad, wrap=self.wrap, per_rank=self.per_rank)
        if bool(self.drop_last) + bool(self.pad) + bool(self.wrap) > 1:
            raise PlanError("batch: choose one of drop_last, pad and wrap")
        hold_as_int(self, "size", "steps")
        if self.lanes is None:
            return
        if not is_whole(self.lanes) or self.lanes < 1 or (self.size % self.lanes and not self.per_rank):
            raise PlanError(f"batch: lanes={quoted(self.lanes)} does not divide size={self.size}")
        hold_as_int(self, "lanes")

    @property
    def keeps_ends(self) -> bool:
        """Where nothing says how many steps an epoch has."""
        return self.steps is None

    def check(self) -> None:
        """PlanError where rows are in batches already, or nothing says when an epoch ends."""
        staged = lane_stage(self.input)
        if staged is not None and self.steps is None and not _has_end(self.input) and not ends_with_data(self.input):
            raise PlanError(
                f"batch: the number of rows that {staged.verb} gives is not known in advance, and what follows it asks for them before they came; say after how "
                f"many steps an epoch ends: batch({self.size}, steps=1000). The next epoch goes on from there"
            )
        if self.steps is not None:
            check_endless("batch(…, steps=…)", self.input)
        if find(self.input, Batch):
            raise PlanError("batch: the plan has a batch already; a plan has one")

    def of_all(self, world_size: int) -> Batch:
        """The same over all ranks: 64 rows for each of 4 ranks are 256."""
        if not self.per_rank:
            return self
        size = self.size * world_size
        if self.lanes is not None and size % self.lanes:
            raise PlanError(
                f"batch: lanes={self.lanes} does not divide the {size:,} rows of {world_size} ranks with {self.size} rows each"
            )
        return replace(self, size=size, per_rank=False)


@dataclass(frozen=True, kw_only=True)
class BatchTokens(Batch):
    """The global batch: as many rows of similar length as make at most `size` tokens over all ranks together.

    is_padded: whether rows count as padded to the longest. multiple_of: padded lengths are rounded up to this. fill: see `Dataset.batch_tokens`.
    """

    size: int = field(metadata={"word": "max_tokens"})
    lengths: Lengths
    is_padded: bool = True
    multiple_of: int = 1
    fill: float = 0.9
    verb: str = "batch_tokens"

    has_equal_steps = False
    reads_by_number = True

    def __post_init__(self) -> None:
        check_flags("batch_tokens", drop_last=self.drop_last)
        for name, value in (("max_tokens", self.size), ("lanes", self.lanes)):
            is_left_out = name == "lanes" and value is None
            if not is_left_out and (isinstance(value, bool) or not is_whole(value) or not 1 <= value <= MOST_ROWS):  # type: ignore[operator]  # a whole number
                raise PlanError(f"batch_tokens: {name}={quoted(value)}; at least 1, and a whole number")
        if isinstance(self.fill, bool) or not isinstance(self.fill, (float, int)) or not 0 < self.fill <= 1:
            raise PlanError(f"batch_tokens: fill={quoted(self.fill)}; it is a share above 0, and at most 1")
        hold_as_int(self, "size", "lanes")

    def check(self) -> None:
        """PlanError where rows below have no fixed places in the data."""
        _check_grouped(self)


def _check_grouped(new: Bucket | BatchTokens) -> None:
    for node in flow(new.input):
        if node.is_batch:
            raise PlanError(f"{new.called}: the plan has a batch already; write {new.called}(…) in its place")
        if node.row_effect == "counted" or node.own_epochs or isinstance(node, Shard):
            raise PlanError(
                f"{new.called}: cannot follow {node.verb}, whose rows have no fixed places in the data; bucket what is below it"
            )


def _has_end(node: Node) -> bool:
    """Whether a number of rows says where an epoch ends, above whatever has an end that nobody knows."""
    if node.epoch_rows is not None:
        return True
    goes_on = node.row_effect != "counted" and node.joins != "rows" and bool(node.below)
    return goes_on and all(map(_has_end, node.below))
