"""A few rows of a plan, to look at: those of epoch 0, made in the calling thread where the plan lets it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa

from penstock.core.arguments import is_whole
from penstock.core.columns.op_step import OpStep
from penstock.core.columns.rows import join_columns
from penstock.core.columns.spec import Columns, Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted
from penstock.deliver.numpy import ToNumpy
from penstock.lower import lower
from penstock.order.steps.cursor import Position, Work
from penstock.plan.nodes import Batch, Node
from penstock.plan.tree import ends_with_data, find, lane_stage, leaves
from penstock.resolve.ordering import RankSettings
from penstock.resolve.resolved import resolve
from penstock.runtime.free_memory import default_memory
from penstock.runtime.run import Run
from penstock.runtime.stage import Delivered
from penstock.runtime.tune import Depth
from penstock.source.protocol import Access

#: Rows that are made together while somebody goes through all of them.
_TOGETHER = 16
#: Of an epoch that has no end of its own.
_ENDLESS_STEPS = 1 << 30

Row = dict[str, Any]


class FewRows:
    """The rows of a plan in epoch 0, on one rank, in their order; of a plan that ends in batches, the rows of its first one.

    A context manager, at whose end nothing runs any more.

    Raises PlanError where looking would take rows away from a training.
    """

    def __init__(self, root: Node) -> None:
        _check_stays(root)
        staged = lane_stage(root)
        self._is_batched = find(root, Batch) is not None
        self._rows = None if self._is_batched else _rows_or_none(root)
        steps = None if self._rows is not None or ends_with_data(root) else _ENDLESS_STEPS
        plan = root if self._is_batched else Batch(input=root, size=1, lanes=1, steps=steps)
        where = RankSettings(rank=0, world_size=1, cpus=usable_cpus())
        self._lowered = lower(plan, ToNumpy(), where, memory_bytes=default_memory(1))
        self._comes_in_order = staged is not None or any(leaf.access is Access.FORWARD for leaf in leaves(root))
        self._run: Run | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lowered = self._lowered
        lowered.lanes.close()
        if self._run is not None:
            self._run.close()
        lowered.workers.close()
        for slots in lowered.slots:
            slots.clear()

    def head(self, rows: int) -> Columns:
        """The first rows as columns, or all if they are fewer."""
        pieces, found = list[Columns](), 0
        for piece in self.pieces(max(rows, 1)):
            pieces.append(piece)
            found += length_of(piece)
            if found >= rows:
                break
        return {name: column[:rows] for name, column in dict[str, Any](join_columns(pieces)).items()}

    def head_in_steps(self, rows: int) -> tuple[dict[str, Any], list[dict[str, list[OpStep]]]]:
        """`head`, and for each row by column what each op did to it; PlanError where rows only come one after the other."""
        if self._comes_in_order:
            raise PlanError(
                "show(steps=True): rows of this plan come one after the other, and what each op does is seen where they are made one by one; write it before "
                "filter by a function, flat_map or pack, or on data that is no stream"
            )
        pieces, found = list[Columns](), list[dict[str, list[OpStep]]]()
        for first in range(1 if self._is_batched else min(max(rows, 1), cast("int", self._rows))):
            told: list[tuple[Ids, Mapping[str, Any]]] = []
            pieces.append(self._made(first, 1, (rows, told)))
            found += _by_row(told, length_of(pieces[-1]))
        return {name: column[:rows] for name, column in dict[str, Any](join_columns(pieces)).items()}, found[:rows]

    def row(self, number: int) -> Row:
        """One row; IndexError where it does not have so many."""
        if self._is_batched:
            columns = next(self.pieces(1))
            return row_of(columns, _place(number, length_of(columns), "its first batch"))
        if self._comes_in_order:
            raise PlanError(
                f"dataset[{number}]: rows of this plan come one after the other, and none is reached by its number; look at head({max(number, 0) + 1})"
            )
        return row_of(self._made(_place(number, cast("int", self._rows), "the dataset"), 1), 0)

    def __iter__(self) -> Iterator[Row]:
        for columns in self.pieces(_TOGETHER):
            for number in range(length_of(columns)):
                yield row_of(columns, number)

    def pieces(self, together: int) -> Iterator[Columns]:
        """Columns of so many neighbouring rows, or fewer."""
        if self._comes_in_order:
            yield from self._coming()
        elif self._is_batched:
            yield self._made(0, 1)
        else:
            rows, together = cast("int", self._rows), min(together, self._lowered.steps_per_item)
            for first in range(0, rows, together):
                yield self._made(first, min(together, rows - first))

    def _made(self, step: int, steps: int, watched: Any = None) -> Columns:
        made: Any = Work(0, step, steps, watched=watched)
        for stage in self._lowered.stages:
            made = stage.work(made)
        if made.share is not None:
            self._lowered.budget.release(made.share)
        return cast("Columns", made.columns)

    def _coming(self) -> Iterator[Columns]:
        lowered = self._lowered
        work = lowered.work_from(Position(), one_by_one=True, epochs=1)
        lowered.lanes.move(Position())
        depth = Depth(out=1, between=1, most=1, fixed=True)
        self._run = Run(lowered.stages, lowered.budget.follow(work), depth, lowered.budget, lowered.tuner)
        came = False
        for item in self._run:
            came = True
            yield cast("Delivered", item).columns
            if self._is_batched:
                return
        if not came and lowered.lanes.has_ends:
            raise DataError(
                f"{lowered.lanes.feeds[0].name} gives no row in epoch 0, so that there is nothing to look at"
            )


def _by_row(told: Sequence[tuple[Ids, Mapping[str, Any]]], rows: int) -> list[dict[str, list[OpStep]]]:
    """Steps of transforms one after another, as those of each row."""
    found: list[dict[str, list[OpStep]]] = [{} for _ in range(rows)]
    for at, columns in told:
        for name, of_rows in columns.items():
            for place, steps in zip(at.tolist(), of_rows, strict=True):
                found[place].setdefault(name, []).extend(steps)
    return found


def number_of(asked: Any) -> int:
    """What stands in dataset[…] as a number; PlanError for what is none."""
    if is_whole(asked) and not isinstance(asked, (bool, np.bool_)):
        return int(asked)
    if isinstance(asked, slice):
        instead = "rows are cut out by skip and take: dataset.skip(2).take(3); head(5) gives the first as columns"
    elif isinstance(asked, str) or (isinstance(asked, (list, tuple)) and asked and isinstance(asked[0], str)):
        instead = "columns are chosen by select, and head(5) gives their first rows"
    else:
        instead = "write the number of one row; a Loader gives batches"
    raise PlanError(f"dataset[{quoted(asked)}]: {instead}")


def row_of(columns: Columns, number: int) -> Row:
    """One row of columns: an array or a number of NumPy's; text, bytes and lists as Python's."""
    return {name: _value(column, number) for name, column in columns.items()}


def _value(column: Any, number: int) -> Any:
    if isinstance(column, pa.Array):
        return column[number].as_py()
    return column[number].copy()  # the other rows' memory is free


def _check_stays(root: Node) -> None:
    for leaf in leaves(root):
        if getattr(leaf.opened.source, "comes_once", False):
            raise PlanError(
                f"{leaf.where}: its rows come once, and training would lack those that you look at; look at the same data in files, or pass a function that "
                f"makes a new iterator, as from_iterable(lambda: …)"
            )


def _rows_or_none(root: Node) -> int | None:
    try:
        return resolve(root).rows
    except PlanError:  # only a lane stage knows
        return None


def is_empty(root: Node) -> bool:
    """Whether the plan has no row at all."""
    return find(root, Batch) is None and _rows_or_none(root) == 0


def length_of(columns: Columns) -> int:
    """How many rows columns have."""
    return len(next(iter(columns.values())))


def _place(number: int, rows: int, of: str) -> int:
    if not -rows <= number < rows:
        raise IndexError(f"dataset[{number}]: {of} has {rows:,} rows")
    return number % rows
