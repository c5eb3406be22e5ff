"""What orders of several inputs have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder, Shape


@dataclass(frozen=True, kw_only=True)
class Composed(RowOrder):
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
            is_shuffled=any(shape.is_shuffled for shape in shapes),
        )

    @property
    def has_draws(self) -> bool:
        """Whether an input has some."""
        return any(order.has_draws for order in self.inputs)

    def block_rows_at(self, row_id: int) -> int:
        """How many rows are read together, as the input of the row says."""
        number = int(np.searchsorted(np.array(self.first_ids[1:], dtype=np.int64), row_id, side="right"))
        return self.inputs[number].block_rows_at(row_id)

    def by_input(self, ids: Ids) -> Iterator[tuple[int, Ids]]:
        """The inputs that have some of these rows, and the places of theirs among them."""
        of = np.searchsorted(np.array(self.first_ids[1:], dtype=np.int64), ids, side="right")
        for number in np.flatnonzero(np.bincount(of)).tolist():
            yield number, np.flatnonzero(of == number)

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """First ids and ends of the blocks that rows lie in, and the block of each row."""
        which = np.empty(len(ids), dtype=np.int64)
        firsts, ends, known = [ids[:0]], [ids[:0]], 0
        for number, mine in self.by_input(ids):
            first, end, block = self.inputs[number].blocks(epoch, ids[mine])
            which[mine] = block + known
            firsts.append(first)
            ends.append(end)
            known += len(first)
        return np.concatenate(firsts), np.concatenate(ends), which
