"""What a plan holds in any case, in numbers: the open blocks of its lanes' windows, a batch, and what decoding takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.core.errors import PlanError
from penstock.core.messages import counted
from penstock.lower.context import Context
from penstock.order.lanes import divisors
from penstock.runtime.budget import ALLOWED
from penstock.runtime.free_memory import LEAST_BYTES


@dataclass(frozen=True, kw_only=True)
class WindowBlocks:
    """The blocks that this rank's lanes hold open, of `rows` rows and `row_bytes` bytes a row. all_rows: of the data, of which no more can be open.

    window: blocks of a lane among which rows are mixed. is_shuffled: else one block is read after the other, and two of them meet in a batch.
    """

    lanes: int
    window: int
    rows: int
    row_bytes: int
    all_rows: int
    is_shuffled: bool

    @property
    def block_bytes(self) -> int:
        """Bytes of one."""
        return self.rows * self.row_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of all: half of the lanes come to new windows together, and the only one does."""
        blocks = (self.lanes + (self.lanes + 1) // 2) * self.window if self.is_shuffled else 2
        return min(blocks * self.rows, max(self.rows, self.all_rows)) * self.row_bytes

    @property
    def least_bytes(self) -> int:
        """Bytes of those that are open at every step; lanes that come to new windows wait until there is room, but the only one cannot."""
        blocks = (self.lanes + (self.lanes == 1)) * self.window if self.is_shuffled else 1
        return min(self.size_bytes, blocks * self.block_bytes)

    def __str__(self) -> str:
        if self.size_bytes < self.lanes * self.window * self.block_bytes or not self.is_shuffled:
            return f"{self.size_bytes:,} for blocks of {self.block_bytes:,} bytes"
        more = (
            "half as many again where lanes come to new windows"
            if self.lanes > 1
            else "as many again where it comes to a new one"
        )
        return f"{self.size_bytes:,} for open blocks ({counted(self.lanes, 'lane')} × {self.window} of a window × {self.block_bytes:,} bytes, and {more})"


def open_blocks(context: Context) -> WindowBlocks:
    """The blocks of this rank's lanes."""
    order, (first, last) = context.order, context.cursor.share
    shape = order.rows.shape
    return WindowBlocks(
        lanes=-(-last // order.rows_per_lane) - first // order.rows_per_lane,
        window=shape.window_blocks,
        rows=shape.block_rows,
        row_bytes=_block_row_bytes(context),
        all_rows=context.sources.rows,
        is_shuffled=shape.is_shuffled,
    )


def _block_row_bytes(context: Context) -> int:
    """Bytes of a row in open blocks: of all sources, but where a zip reads files of a row each one by one."""
    sources, rows = context.sources, context.order.rows
    every: Sequence[int] = [origin.open_bytes for origin in sources.origins]
    if sources.links:
        pairs = zip(every, sources.first_ids.tolist(), strict=False)
        every = [size for size, first_id in pairs if rows.block_rows_at(first_id) > 1]
    return sum(every) // max(1, sources.rows)


@dataclass(frozen=True, kw_only=True)
class MemoryNeeds:
    """What a plan holds in any case. blocks: of the runs that read blocks; batch_bytes: a batch on its way; decoding_bytes: what decoding takes and keeps.

    batch_size, lanes: of the plan, on all ranks. block_rows: of a block, if the plan had so many lanes; None where nodes have files of their own, and share the lanes.
    """

    blocks: tuple[WindowBlocks, ...]
    batch_bytes: int
    decoding_bytes: int
    batch_size: int
    lanes: int
    block_rows: Callable[[int], int] | None

    @property
    def window_bytes(self) -> int:
        """What the blocks of open windows take, about."""
        return sum(one.size_bytes for one in self.blocks)

    @property
    def size_bytes(self) -> int:
        """All of it."""
        return self.window_bytes + self.batch_bytes + self.decoding_bytes

    def words(self) -> Iterator[str]:
        """Each of them with its bytes, for people."""
        yield from (str(one) for one in self.blocks if one.size_bytes)
        if self.decoding_bytes:
            yield f"{self.decoding_bytes:,} to decode parts of files"
        yield f"{self.batch_bytes:,} for a batch"

    def check(self, limit_bytes: int) -> None:
        """PlanError if this is more than a loader may hold, but for what is small anyway."""
        least_bytes = self.batch_bytes + self.decoding_bytes + sum(one.least_bytes for one in self.blocks)
        if least_bytes <= max(ALLOWED * limit_bytes, LEAST_BYTES):
            return
        lanes = self._lanes_within(limit_bytes)
        ways = [
            *([f"batch(…, lanes={lanes})"] if lanes else []),
            *(["shuffle with a smaller window_blocks= or block_rows="] if self._is_shuffled else []),
            *(["smaller batches"] if self.batch_bytes > limit_bytes // 2 else []),
            f"memory={self.size_bytes:,} for the Loader",
        ]
        raise PlanError(
            f"memory={limit_bytes:,} bytes is less than the {self.size_bytes:,} that this plan holds in any case: {', '.join(self.words())}; use {', or '.join(ways)}"
        )

    @property
    def _is_shuffled(self) -> bool:
        return any(one.is_shuffled and one.size_bytes for one in self.blocks)

    def _lanes_within(self, limit_bytes: int) -> int:
        """The most lanes whose windows fit, 0 if none do, or the lanes are not what is too much."""
        large = max(self.blocks, key=lambda one: one.size_bytes, default=None)
        if large is None or not large.is_shuffled or not large.size_bytes or self.block_rows is None:
            return 0
        block_rows, others_bytes = self.block_rows, self.size_bytes - large.size_bytes - self.decoding_bytes

        def needed_bytes(lanes: int) -> int:
            rows = block_rows(lanes)  # where there are few blocks, as many as the lanes ask for
            blocks = replace(large, lanes=-(-large.lanes * lanes // self.lanes), rows=rows)
            return blocks.size_bytes + others_bytes + self.decoding_bytes * max(rows, large.rows) // large.rows

        fewer = (lanes for lanes in reversed(divisors(self.batch_size)) if lanes < self.lanes)
        return next((lanes for lanes in fewer if needed_bytes(lanes) <= limit_bytes), 0)
