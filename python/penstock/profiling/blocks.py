"""The rows of a dataset in blocks: as files have them, or behind verbs that change columns as batches have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.batch.stack import field_of
from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.looking.blocks import Blocks, RowBlock
from penstock.looking.rows import digest
from penstock.plan.check import check_picking
from penstock.plan.columns import spec_of
from penstock.plan.nodes import Batch, Node, Shuffle
from penstock.plan.tree import leaves
from penstock.resolve.resolved import resolve
from penstock.source.protocol import Access

#: Rows of a batch that is made to be looked at, those where nobody knows how long they are, and bytes of it.
_ROWS, _ROWS_OF_ANY_LENGTH, _BYTES = 1 << 13, 1 << 8, 16 << 20


def blocks_of(data: Any, columns: Sequence[str] | str | None, label: str | None) -> StoredBlocks | BatchedBlocks:
    """What goes through the columns of a dataset, as often as it is asked to. Batches and shuffles at its end are looked through."""
    root: Node = data.root
    while isinstance(root, (Shuffle, Batch)):
        root = root.input
    for leaf in leaves(root):
        if leaf.access is Access.FORWARD:
            raise PlanError(
                f"profile: {leaf.where} is drawn in one order, and nothing of it is kept for a second pass; let from_iterable(…, spool=True) keep the rows"
            )
    try:
        check_picking("profile", root)
        Blocks("profile", root, spec_of(root), sees_nulls=True)
    except PlanError:
        return BatchedBlocks(type(data)(root), columns, label)
    return StoredBlocks(root, _wanted(spec_of(root), columns, label))


def _wanted(fields: Spec, columns: Sequence[str] | str | None, label: str | None) -> dict[str, Field]:
    """The columns that are looked at; PlanError for one that there is not."""
    names = [*fields] if columns is None else [columns] if isinstance(columns, str) else [*columns]
    if not names:
        raise PlanError(f"profile: columns=[]; name some of {', '.join(fields)}, or leave columns out")
    names = [*dict.fromkeys([*names, *([] if label is None else [label])])]
    for name in names:
        if name not in fields:
            raise PlanError(
                f"profile: no column {quoted(name)}; there are {', '.join(fields)}{did_you_mean(name, fields)}"
            )
    return {name: fields[name] for name in names}


def _rows_or_none(root: Node) -> int | None:
    """How many rows a plan gives; None where that is known once they were read."""
    try:
        return resolve(root).rows
    except PlanError:
        return None


class StoredBlocks:
    """Rows as files have them, with their nulls, whatever batches have in their place."""

    def __init__(self, root: Node, fields: Spec) -> None:
        self._root, self.fields = root, fields
        whole = Blocks("profile", root, [*fields], sees_nulls=True)
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

    def __init__(self, data: Any, columns: Sequence[str] | str | None, label: str | None) -> None:
        self._data = data
        first = {name: field_of(column) for name, column in data.head(1).items()}
        self.fields = _wanted(first, columns, label)
        self.rows = _rows_or_none(data.root) or 0
        most = _ROWS if all(field.is_fixed for field in first.values()) else _ROWS_OF_ANY_LENGTH
        self._batch = max(1, min(most, _BYTES // max(1, sum(field.row_bytes for field in first.values()))))
        self.digest = digest(f"profile\0{resolve(data.root).digest}")

    def __call__(self, names: Sequence[str]) -> Iterator[BatchBlock]:
        """The blocks of some columns."""
        from penstock.loader import Loader

        done = 0
        with Loader(self._data.batch(self._batch), rank=0, world_size=1) as loader:
            for batch in loader:
                rows = len(next(iter(batch.values())))
                yield BatchBlock({name: batch[name] for name in names}, np.arange(done, done + rows))
                done += rows
