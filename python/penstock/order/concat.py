"""Orders one after another: in every lane the rows of the first, then those of the second, and so on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.core.spec import Ids
from penstock.order.protocol import RowOrder, Shape


@dataclass(frozen=True, kw_only=True)
class Concat(RowOrder):
    """See `protocol.RowOrder`. first_ids: where the ids of each input begin, in ascending order."""

    inputs: tuple[RowOrder, ...]
    first_ids: tuple[int, ...]

    @cached_property
    def shape(self) -> Shape:
        """What the epochs have in common; of blocks the largest."""
        shapes = [order.shape for order in self.inputs]
        return replace(
            shapes[0],
            block_rows=max(shape.block_rows for shape in shapes),
            window_blocks=max(shape.window_blocks for shape in shapes),
        )

    @cached_property
    def _edges(self) -> Ids:
        """Of every lane (columns) the row at which each input begins, and the lane's end: int64 (inputs + 1, lanes)."""
        rows = np.stack([order.lane_rows() for order in self.inputs])
        return np.concatenate([np.zeros((1, rows.shape[1]), dtype=np.int64), np.cumsum(rows, axis=0)])

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return np.asarray(self._edges[-1])

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        edges, parts = self._edges[:, lane].tolist(), []
        if not edges[-1]:
            return self.inputs[0].ids(epoch, lane, first, count)  # an empty lane borrows, only ever as padding
        while count:
            first %= edges[-1]
            number = int(np.searchsorted(edges, first, side="right")) - 1
            rows = min(count, edges[number + 1] - first)
            parts.append(self.inputs[number].ids(epoch, lane, first - edges[number], rows))
            first, count = first + rows, count - rows
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _input_of(self, ids: Ids) -> Ids:
        return np.searchsorted(np.array(self.first_ids[1:], dtype=np.int64), ids, side="right")

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row."""
        of, which = self._input_of(ids), np.empty(len(ids), dtype=np.int64)
        firsts, ends, known = [ids[:0]], [ids[:0]], 0
        for number in np.flatnonzero(np.bincount(of)).tolist():
            mine = np.flatnonzero(of == number)
            first, end, block = self.inputs[number].blocks(epoch, ids[mine])
            which[mine] = block + known
            firsts.append(first)
            ends.append(end)
            known += len(first)
        return np.concatenate(firsts), np.concatenate(ends), which

    def windows(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: lanes, and their rows [first, end)."""
        of = self._input_of(ids)
        lane, first, end = (np.zeros(len(ids), dtype=np.int64) for _ in range(3))
        for number in np.flatnonzero(np.bincount(of)).tolist():
            mine = np.flatnonzero(of == number)
            lane[mine], begin, stop = self.inputs[number].windows(epoch, ids[mine])
            shift = np.where(begin < stop, self._edges[number, lane[mine]], 0)
            first[mine], end[mine] = begin + shift, stop + shift
        return lane, first, end
