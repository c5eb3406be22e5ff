"""The blocks that a plan holds open while it shuffles, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.core.messages import counted
from penstock.order.protocol import RowOrder
from penstock.plan.nodes import Origin
from penstock.resolve.resolved import Resolved
from penstock.source.protocol import Access


@dataclass(frozen=True, kw_only=True)
class WindowBlocks:
    """The blocks that lanes hold open, of `rows` rows and `row_bytes` bytes a row. all_rows: of the data, of which no more can be open.

    window: blocks of a lane among which rows are mixed. is_shuffled: else one block is read after the other, and two of them meet in a batch. is_crossed: whether a
    step takes several rows of a lane, of which the first may be the last of a window and the others of the next.
    """

    lanes: int
    window: int
    rows: int
    row_bytes: int
    all_rows: int
    is_shuffled: bool
    is_crossed: bool

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
        """Bytes of those that are open at every step; lanes that come to new windows wait until there is room, but not the only one, nor in the midst of a step."""
        if self.is_shuffled and (self.lanes == 1 or self.is_crossed):
            return self.size_bytes
        blocks = self.lanes * self.window if self.is_shuffled else 1
        return min(self.size_bytes, blocks * self.block_bytes)

    def __str__(self) -> str:
        if not self.is_shuffled:
            return f"{self.size_bytes:,} for blocks of {self.block_bytes:,} bytes"
        if self.size_bytes < self.lanes * self.window * self.block_bytes:
            more = "but no more than the data has"
        elif self.lanes > 1:
            more = "and half as many again where lanes come to new windows"
        else:
            more = "and as many again where it comes to a new one"
        return f"{self.size_bytes:,} for open blocks ({counted(self.lanes, 'lane')} × {self.window} of a window × {self.block_bytes:,} bytes, {more})"


def open_blocks(resolved: Resolved, rows: RowOrder, lanes: int) -> WindowBlocks:
    """The blocks that so many lanes of an order hold open. resolved: the plan of which it is, cut at its lane stages."""
    shape, all_rows = rows.shape, _leading_rows(resolved)
    return WindowBlocks(
        lanes=lanes,
        window=shape.window_blocks,
        rows=shape.block_rows,
        row_bytes=sum(_open_bytes(resolved, rows)) // max(1, all_rows),
        all_rows=all_rows,
        is_shuffled=shape.is_shuffled,
        is_crossed=shape.rows_per_lane > 1,
    )


def holds_blocks(origins: Iterable[Origin]) -> bool:
    """Whether some of the rows are read in blocks that stay open, if these have several rows: not those in memory, and not scattered records."""
    return any(map(_stays_open, origins))


def _stays_open(origin: Origin) -> bool:
    """Whatever memory a loader has: what is decoded may then lie there, and be picked row by row."""
    if origin.access is None or origin.access in (Access.MEMORY, Access.FORWARD):
        return False
    source = origin.opened.source
    if origin.access is Access.RECORDS:
        return not source.manifest.scattered
    return not getattr(source, "lies_across", False)


def _leading_rows(resolved: Resolved) -> int:
    """Rows of all sources, but those that follow others."""
    ids = resolved.first_ids.tolist()
    led = [not any(link.follows[0] <= first < link.follows[1] for link in resolved.links) for first in ids[:-1]]
    return sum(end - first for first, end, leads in zip(ids, ids[1:], led, strict=False) if leads)


def _open_bytes(resolved: Resolved, rows: RowOrder) -> Sequence[int]:
    """Bytes of each source in blocks: of all of them, but where a zip reads files of a row each one by one."""
    every = [origin.open_bytes for origin in resolved.origins]
    if not resolved.links:
        return every
    pairs = zip(every, resolved.first_ids.tolist(), strict=False)
    return [size for size, first_id in pairs if rows.block_rows_at(first_id) > 1]
