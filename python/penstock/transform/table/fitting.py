"""Fitting: passes over the data, each of which gathers what ops that are next in their chains must know."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core import kernels
from penstock.core.columns.repeated_values import is_repeated
from penstock.core.columns.row_sources import RowSources
from penstock.core.columns.spec import Ids, Spec
from penstock.core.cpus import usable_cpus
from penstock.core.errors import DataError, RowError
from penstock.core.messages import quoted
from penstock.transform.table.lane import Lane
from penstock.transform.table.missing import FillMissing
from penstock.transform.table.op import ColumnOp
from penstock.transform.table.program import Input, Walked, native, plain, walk
from penstock.transform.table.statistics.moments import Moments
from penstock.transform.table.statistics.protocol import Block, Statistic
from penstock.transform.table.statistics.quantiles import Quantiles

Chains = Mapping[str, tuple[ColumnOp, ...]]


class ReadBlock(Protocol):
    """Some rows of a dataset: its columns by name, the rows' ids and what they are ids in, and where a row lies."""

    @property
    def columns(self) -> Mapping[str, Any]: ...  # noqa: D102

    @property
    def ids(self) -> Ids: ...  # noqa: D102

    @property
    def sources(self) -> RowSources: ...  # noqa: D102

    def place(self, row: int) -> tuple[str, int]:
        """In words, and the row's id in its source."""


@dataclass(eq=False)
class Search:
    """What the op at `place` of a column's chain must know. tap: the op before which the column is looked at. target: another column that it learns from. is_done: whether all was gathered."""

    column: str
    place: int
    tap: int
    statistic: Statistic
    target: str | None = None
    is_done: bool = False
    rows: int = field(default=0)


def searches_of(chains: Chains, fields: Spec, running: Sequence[Search] = ()) -> list[Search]:
    """What the next pass gathers: `running` searches go on, others begin, of every chain's first op that is not fitted.

    Sums behind FillMissing follow from those before it, so that both are fitted in the same passes.
    """
    found = {(one.column, one.place): one for one in running}
    for name, ops in chains.items():
        lane, first = ops[0].begin(name, fields), None
        for place, op in enumerate(ops):
            op.check_lane(name, lane)
            statistic = None if op.fitted is not None else op.statistic(lane)
            if statistic is not None:
                is_filled = isinstance(statistic, Moments) and isinstance(ops[place - 1], FillMissing)
                if first is not None and not (is_filled and first == place - 1):
                    break
                first = place if first is None else first
                found.setdefault((name, place), Search(name, place, first, statistic, op.learns_from))
            lane = op.after(lane)
    searched = [one.statistic for one in found.values() if isinstance(one.statistic, Quantiles)]
    for one in searched:
        one.share_room(len(searched))
    return [*found.values()]


def gathered(
    searches: Sequence[Search],
    chains: Chains,
    fields: Spec,
    blocks: Iterator[ReadBlock],
    progress: Callable[[int], None],
) -> list[Search]:
    """The searches with what is in some rows; those given stay as they are."""
    mine = [copy.deepcopy(one) for one in searches]
    taps: dict[tuple[str, int], list[Search]] = {}
    for one in mine:
        if not one.is_done:
            taps.setdefault((one.column, one.tap), []).append(one)
    tapped = [Tap(name, chains[name][:tap], fields, some) for (name, tap), some in taps.items()]
    cpus = usable_cpus()
    with ThreadPoolExecutor(cpus) as pool, ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, blocks, None)
            for done in [pool.submit(tap.take, block) for tap in tapped]:
                done.result()
            progress(len(block.ids))
    return mine


class Tap:
    """A column before one of its ops, and what is gathered there."""

    def __init__(self, name: str, ops: Sequence[ColumnOp], fields: Spec, searches: Sequence[Search]) -> None:
        self._name, self._searches = name, searches
        self._first = ops[0].begin(name, fields) if ops else Lane.of_any(name, fields[name])
        self._walked: Walked | None = walk(name, ops, fields) if ops else None
        lane = self._walked.lane if self._walked else self._first
        self._kind, self._column = lane.kind, self._walked.input.name if self._walked else name
        self._program = self._compiled()

    def _compiled(self) -> Any:
        if self._walked is None or not self._walked.steps:
            return None
        chain = {"name": self._name, "inputs": [0], "pairs": [], "array": 0, "offset": 0, "width": 1}
        steps = self._walked.steps
        kinds = [self._walked.input.kind]
        if self._walked.folds is not None:
            chain["inputs"], kinds = [0, 1], [*kinds, "int64"]
        return kernels.TableProgram(kinds, [{**chain, "steps": steps}], [("float64", 1)])

    def take(self, block: ReadBlock) -> None:
        """Takes the rows of a block; DataError for one that is wrong."""
        try:
            column = block.columns[self._column]
            floats = values = None
            for one in self._searches:
                if one.statistic.takes_floats:
                    floats = self._floats(column, block) if floats is None else floats
                    one.statistic.add(Block(floats, rows=block.ids))
                else:
                    values = self._values(column, block) if values is None else values
                    target = None if one.target is None else plain(block.columns[one.target])
                    one.statistic.add(Block(values, target, block.ids, block.sources))
                one.rows += len(block.ids)
        except RowError as error:
            place, sample = block.place(error.row)
            found = error.found if error.found.startswith("column ") else f"column '{self._name}' {error.found}"
            raise DataError.of_row(place, sample, RowError(error.row, found, error.do)) from None
        except DataError as error:
            raise DataError(f"fit: column {quoted(self._name)} {error}") from None

    def _floats(self, column: Any, block: ReadBlock) -> Any:
        """float64, with NaN where values are missing."""
        given = self._native(column)
        if self._program is not None:
            rows = len(given[0]) - (self._first.kind == "text") if isinstance(given, tuple) else len(given)
            out = np.empty(rows)
            folds = self._walked.folds if self._walked else None
            more = [] if folds is None else [(folds.versions(block.sources, block.ids), None)]
            self._program.run([given, *more], [out], 1)
            return out
        if isinstance(given, tuple):
            numbers, missing = given
            floats = numbers.astype(np.float64)
            if missing is not None:
                floats[missing] = np.nan
            return floats
        return given.astype(np.float64, copy=False)

    def _native(self, column: Any) -> Any:
        kind = {"float": self._first.dtype, "integer": "int64", "text": "string"}[self._first.kind]
        return native(column, Input(self._name, kind, self._walked.input.fill if self._walked else None))

    def _values(self, column: Any, block: ReadBlock) -> pa.Array:
        """An Arrow array of text, whole numbers or floats, with nulls where values are missing."""
        if self._kind == "text":
            fill = self._walked.input.fill if self._walked else None
            if fill is None:
                return column
            return (column.dictionary_decode() if is_repeated(column) else column).fill_null(fill)
        if self._kind == "integer" and self._program is None:
            numbers, missing = self._native(column)
            return pa.array(numbers, mask=missing)
        floats = pa.array(self._floats(column, block) + 0.0, from_pandas=True)
        return pc.cast(floats, pa.int64()) if self._kind == "integer" else floats


def advanced(
    searches: Sequence[Search], chains: Chains, fields: Spec, digest: str
) -> tuple[dict[str, tuple[ColumnOp, ...]], list[Search]]:
    """The chains with what was learnt, and the searches that go on."""
    made, going = dict(chains), list[Search]()
    for one in sorted(searches, key=lambda one: one.place):
        ops = list(made[one.column])
        try:
            if not one.is_done and one.statistic.next() is not None:
                going.append(one)
                continue
            one.is_done = True
            filling = ops[one.tap] if one.tap < one.place else None
            if isinstance(filling, FillMissing) and filling.fitted is None and filling.strategy != "constant":
                going.append(one)
                continue
            statistic: Any = one.statistic
            if isinstance(filling, FillMissing):
                statistic = statistic.filled(float(filling.fill))
            lane = _lane_at(one, ops, fields)
            ops[one.place] = ops[one.place].with_learnt(ops[one.place].learn(statistic, lane), digest)
        except DataError as error:
            raise DataError(f"fit: column {quoted(one.column)} {error}") from None
        made[one.column] = tuple(ops)
    return made, going


def _lane_at(one: Search, ops: Sequence[ColumnOp], fields: Spec) -> Lane:
    lane = ops[0].begin(one.column, fields)
    for op in ops[: one.place]:
        lane = op.after(lane)
    return lane


def merged(parts: Sequence[Sequence[Search]]) -> list[Search]:
    """What several parts of the data have, together."""
    first, *others = parts
    made = [copy.deepcopy(one) for one in first]
    for other in others:
        for one, more in zip(made, other, strict=True):
            if not one.is_done:
                one.statistic.merge(more.statistic)
                one.rows += more.rows
    return made
