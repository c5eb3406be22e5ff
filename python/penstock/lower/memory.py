"""What a plan holds in any case, in numbers: the open blocks of its lanes' windows, a batch, and what decoding takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from penstock.core.errors import PlanError
from penstock.order.lanes import divisors
from penstock.resolve.open_blocks import WindowBlocks
from penstock.runtime.budget import ALLOWED
from penstock.runtime.free_memory import LEAST_BYTES


@dataclass(frozen=True, kw_only=True)
class MemoryNeeds:
    """What a plan holds in any case. blocks: of the runs that read blocks; batch_bytes: a batch on its way; decoding_bytes: what decoding takes and keeps; parts_bytes: of that, what row groups and record batches take, however blocks are cut; parts_within: what these would take of another limit.

    batch_size, lanes: of the plan, on all ranks. blocks_with: rows of a block and blocks of a window, if the batch named so many lanes, and shuffles that name no window so many blocks; None where nodes have files of their own, and share the lanes.
    """

    blocks: tuple[WindowBlocks, ...]
    batch_bytes: int
    decoding_bytes: int
    parts_bytes: int
    parts_within: Callable[[int], int]
    batch_size: int
    lanes: int
    blocks_with: Callable[[int, int | None], tuple[int, int]] | None

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
        if least_bytes > max(ALLOWED * limit_bytes, LEAST_BYTES):
            raise PlanError(self.beyond(limit_bytes))

    def beyond(self, limit_bytes: int) -> str:
        """That this is more, with the arithmetic and what would fit."""
        is_parts = self.batch_bytes + self.parts_bytes > limit_bytes >= self.batch_bytes
        ways = [
            *self._dealt_within(limit_bytes),
            *([f"shuffle with a smaller {self._shuffled_in}"] if self._is_shuffled and not is_parts else []),
            *(["smaller batches"] if self.batch_bytes > limit_bytes // 2 else []),
            *(["files of smaller row groups or record batches"] if is_parts else []),
            f"memory={self._enough_bytes:,} for the Loader",
        ]
        return f"memory={limit_bytes:,} bytes is less than the {self.size_bytes:,} that this plan holds in any case: {', '.join(self.words())}; use {', or '.join(ways)}"

    @property
    def _enough_bytes(self) -> int:
        """A limit that is no less than what is held then: of a larger one, more is kept decoded."""
        others_bytes, found = self.size_bytes - self.parts_bytes, self.size_bytes
        while (needed := others_bytes + self.parts_within(found)) > found:  # which grows half as much as the limit
            found = needed
        return found

    @property
    def _is_shuffled(self) -> bool:
        return any(one.is_shuffled and one.size_bytes for one in self.blocks)

    @property
    def _shuffled_in(self) -> str:
        return "window_blocks= or block_rows=" if any(one.window > 1 for one in self.blocks) else "block_rows="

    def _dealt_within(self, limit_bytes: int) -> Iterator[str]:
        """The most lanes whose windows fit, or whose windows of one block do, in words; nothing if none do."""
        if lanes := self._lanes_within(limit_bytes, None):
            yield f"batch(…, lanes={lanes})"
        elif lanes := self._lanes_within(limit_bytes, 1):
            yield f"batch(…, lanes={lanes}) with shuffle(…, window_blocks=1)"

    def _lanes_within(self, limit_bytes: int, window_blocks: int | None) -> int:
        """The most lanes whose windows fit, 0 if none do, or the lanes are not what is too much."""
        large = max(self.blocks, key=lambda one: one.size_bytes, default=None)
        if large is None or not large.is_shuffled or not large.size_bytes or self.blocks_with is None:
            return 0
        blocks_with, of_blocks = self.blocks_with, self.decoding_bytes - self.parts_bytes
        others_bytes = self.size_bytes - large.size_bytes - of_blocks

        def needed_bytes(lanes: int) -> int:
            rows, window = blocks_with(lanes, window_blocks)  # where there are few blocks, as many as the lanes ask for
            blocks = replace(large, lanes=-(-large.lanes * lanes // self.lanes), rows=rows, window=window)
            return blocks.size_bytes + others_bytes + of_blocks * max(rows, large.rows) // large.rows

        fewer = (
            lanes for lanes in reversed(divisors(self.batch_size)) if lanes < self.lanes or window_blocks == lanes == 1
        )
        return next((lanes for lanes in fewer if needed_bytes(lanes) <= limit_bytes), 0)
