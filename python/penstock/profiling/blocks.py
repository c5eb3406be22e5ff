"""The rows of a dataset in blocks: as files have them, or behind verbs that change columns as batches have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import PlanError
from penstock.looking.blocks import Blocks, RowBlock
from penstock.looking.rows import digest
from penstock.plan.check import check_picking
from penstock.plan.columns import check_names
from penstock.plan.nodes import Batch, Node, Shuffle
from penstock.plan.tree import leaves
from penstock.resolve.resolved import resolve
from penstock.source.protocol import Access

#: Rows of a batch that is made to be looked at, those where nobody knows how long they are, and bytes of it.
_ROWS, _ROWS_OF_ANY_LENGTH, _BYTES = 1 << 13, 1 << 8, 16 << 20


def blocks_of(data: Any, names: Sequence[str]) -> StoredBlocks | BatchedBlocks:
    """What goes through the columns of a dataset, as often as it is asked to. Batches and shuffles at its end are looked through."""
    root: Node = data.root
    while isinstance(root, (Shuffle, Batch)):
        root = root.input
    check_names("profile", names, root)
    for leaf in leaves(root):
        if leaf.access is Access.FORWARD:
            raise PlanError(
                f"profile: {leaf.where} is drawn in one order, and nothing of it is kept for a second pass; let from_iterable(…, spool=True) keep the rows"
            )
    try:
        check_picking("profile", root)
    except PlanError:
        return BatchedBlocks(type(data)(root), names)
    return StoredBlocks(root, names)


class StoredBlocks:
    """Rows as files have them, with their nulls, whatever batches have in their place."""

    def __init__(self, root: Node, names: Sequence[str]) -> None:
        self._root = root
        whole = Blocks("profile", root, names, sees_nulls=True)
        self.rows, self.digest = whole.rows, whole.digest

    def __call__(self, names: Sequence[str]) -> Iterable[RowBlock]:
        """The blocks of some columns."""
        return Blocks("profile", self._root, names, sees_nulls=True)


@dataclass(frozen=True, eq=False)
class BatchBlock:
    """Some rows of a batch."""

    columns: Mapping[str, Any]
    ids: npt.NDArray[np.int64]

    def place(self, row: int) -> tuple[str, int]:
        """In words, and the row's number."""
        number = int(self.ids[row])
        return f"row {number:,}", number


class BatchedBlocks:
    """Rows as verbs make them, in epoch 0."""

    def __init__(self, data: Any, names: Sequence[str]) -> None:
        self._data = data.select([*names])
        self.rows = resolve(self._data.root).rows
        fields = self._data.spec.values()
        most = _ROWS if all(field.is_fixed for field in fields) else _ROWS_OF_ANY_LENGTH
        self._batch = max(1, min(most, _BYTES // max(1, sum(field.row_bytes for field in fields))))
        self.digest = digest(f"profile\0{resolve(self._data.root).digest}")

    def __call__(self, names: Sequence[str]) -> Iterator[BatchBlock]:
        """The blocks of some columns."""
        from penstock.loader import Loader

        done = 0
        with Loader(self._data.batch(self._batch), rank=0, world_size=1) as loader:
            for batch in loader:
                rows = len(next(iter(batch.values())))
                yield BatchBlock({name: batch[name] for name in names}, np.arange(done, done + rows))
                done += rows
