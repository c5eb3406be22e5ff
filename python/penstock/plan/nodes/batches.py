"""How rows become batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.buckets import Buckets
from penstock.core.errors import PlanError
from penstock.core.given import check_flags, hold_as_int, is_whole
from penstock.core.lengths import Lengths
from penstock.core.padding import Padding
from penstock.core.quoted import quoted
from penstock.plan.nodes.rows import MOST_ROWS

if TYPE_CHECKING:
    from penstock.plan.nodes import Node


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Every batch takes its rows of one bucket; the batch follows at once, or after `Pad`."""

    input: Node
    buckets: Buckets
    verb: str = "bucket"


@dataclass(frozen=True, kw_only=True)
class Pad(Padding):
    """Ragged columns become dense, in each batch for itself; the batch follows at once."""

    input: Node
    verb: str = "pad"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The global batch: `size` rows over all ranks together; with per_rank, for each of them. steps: of an epoch, None for all rows."""

    input: Node
    size: int
    drop_last: bool = False
    pad: bool = False
    wrap: bool = False
    lanes: int | None = None
    per_rank: bool = False
    steps: int | None = None
    verb: str = "batch"

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

    def __post_init__(self) -> None:
        check_flags("batch_tokens", drop_last=self.drop_last)
        for name, value in (("max_tokens", self.size), ("lanes", self.lanes)):
            is_left_out = name == "lanes" and value is None
            if not is_left_out and (isinstance(value, bool) or not is_whole(value) or not 1 <= value <= MOST_ROWS):  # type: ignore[operator]  # a whole number
                raise PlanError(f"batch_tokens: {name}={quoted(value)}; at least 1, and a whole number")
        if isinstance(self.fill, bool) or not isinstance(self.fill, (float, int)) or not 0 < self.fill <= 1:
            raise PlanError(f"batch_tokens: fill={quoted(self.fill)}; it is a share above 0, and at most 1")
        hold_as_int(self, "size", "lanes")
