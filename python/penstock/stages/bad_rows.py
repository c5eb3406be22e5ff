"""Rows that cannot be made: the others of their item are made without them, and other rows take their places or none do.

A kernel names the first bad row that it meets, and what it made of the others is gone. Bad rows are few, so the others are made again: two
times where the stage names all of them or there is one, and else, for `b` of them, about 2 + log2(b) times: halves of the item are tried until each is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Columns, Ids, Spans
from penstock.core.errors import DataError
from penstock.plan.nodes import Origin
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.stage import Columned, Item, ItemPart, Loaded, Planned, SourceRows
from penstock.stages.read.null_rows import NullRows
from penstock.stages.read.reader import AnyReader

MadeT = TypeVar("MadeT")

#: After so many rows of which none was good, something else is wrong.
_MOST_TOGETHER = 1000

#: What can be made of some rows, by their numbers; None stands for all.
Make = Callable[[Ids | None], MadeT]

#: Puts other rows into places of an item that have none: (item, places, how many stages that may meet bad rows were before).
Fill = Callable[[Columned, Ids, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class BadRow:
    """A row that could not be made. origin, sample: where it comes from, and its id there. step: None where it belongs to none yet."""

    origin: Origin
    sample: int
    where: str
    found: str
    do: str
    epoch: int
    step: int | None
    error: DataError


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What is done about bad rows. note: is called with each, and raises where there are too many. count: with rows that were read.

    substitutes: whether other rows take their places; else they are left out, and what reads the item counts with that.
    """

    note: Callable[[BadRow], None]
    count: Callable[[int], None]
    substitutes: bool


class BadRows:
    """What a run's stages do when they meet bad rows."""

    def __init__(self, tolerance: Tolerance, places: RowPlaces, fill: Fill | None) -> None:
        self._tolerance, self._places, self._fill = tolerance, places, fill
        self._stages = 0
        #: How many rows were bad since the last good one, by stage.
        self._bad_together = Counter[int]()

    def reading(self, readers: Sequence[AnyReader], sources: Sequence[tuple[int, int]]) -> Callable[[Item], Columned]:
        """The stage of `read.begin.columns_with`, without the bad rows."""

        def columns(item: Planned | Loaded) -> Columned:
            self._tolerance.count(item.rows)
            parts, bad = list[ItemPart](), dict[int, DataError]()
            for rows in item.parts:
                if len(rows.samples):
                    reader = readers[rows.source]
                    made, kept, found = _read(reader, item, rows)
                    bad |= self._noted(item, 0, rows.at, rows.ids, found, are_all=made is None)
                    if made is not None:
                        parts.append(ItemPart(sources[rows.source], kept.at, made, dict(reader.spec), kept.ids))
                rows.held = None
            made_item = item.to(Columned, parts=_without(parts, bad))
            self._filled(made_item, bad, 0)
            return made_item

        return columns  # type: ignore[return-value]  # items are what the stage before made

    def stage(self, sources: tuple[int, int], work: Callable[[Columned], Columned]) -> Callable[[Columned], Columned]:
        """A stage that works on one part, without the bad rows; `work` changes nothing of an item in which it meets one."""
        self._stages += 1
        number = self._stages

        def good(item: Columned) -> Columned:
            part = item.part(sources)
            if part is None:
                return work(item)
            rows = item.rows if part.at is None else len(part.at)
            others = [other for other in item.parts if other is not part]
            made, found = _worked(work, item, part, rows)
            if not found:
                assert made is not None
                self._bad_together[number] = 0
                if made is not item:
                    item.parts = [*others, *made.parts]
                return item
            bad = self._noted(item, number, part.at, part.ids, found, are_all=made is None)
            item.parts = [*_without(others, bad), *(made.parts if made else [])]
            self._filled(item, bad, number)
            return item

        return good

    def _noted(
        self, item: Item, stage: int, at: Ids | None, ids: Ids | None, found: Mapping[int, DataError], *, are_all: bool
    ) -> dict[int, DataError]:
        """Bad rows by their places in the item, after note was taken of them. at, ids: of all that the stage worked on; are_all: whether these were bad."""
        bad = dict[int, DataError]()
        for row, error in sorted(found.items()):
            place = row if at is None else int(at[row])
            row_id = int(item.ids[place] if ids is None else ids[row])
            self._tolerance.note(self._named(item, place, row_id, error))
            bad[place] = error
        self._bad_together[stage] = self._bad_together[stage] + len(found) if are_all else 0
        if self._bad_together[stage] >= _MOST_TOGETHER:
            raise DataError(
                f"the last {self._bad_together[stage]:,} rows were all bad, which is no accident: {error}; look at the plan's functions, and at the data with "
                f"`penstock inspect`"
            )
        return bad

    def _named(self, item: Item, place: int, row_id: int, error: DataError) -> BadRow:
        origin, sample = self._places.of(row_id)
        draws = item.find_draws()
        return BadRow(
            origin=origin,
            sample=sample,
            where=error.where or self._places(row_id),
            found=error.found or str(error),
            do=error.do,
            epoch=item.epoch if draws is None else int(draws[place]),
            step=item.step + place // item.rows_per_step if item.work.asked is None else None,
            error=error,
        )

    def _filled(self, item: Columned, bad: Mapping[int, DataError], stages: int) -> None:
        if bad and self._fill is not None:
            self._fill(item, np.array(sorted(bad), dtype=np.int64), stages)


@runtime_checkable
class MakesGood(Protocol):
    """A stage that makes all good rows at once."""

    def good_rows(self, item: Columned, part: ItemPart) -> tuple[Columned | None, dict[int, DataError]]:
        """An item with the good rows of a part, None if there is none; and the bad ones, by their numbers. DataError where it cannot."""


def _worked(work: Any, item: Columned, part: ItemPart, rows: int) -> tuple[Columned | None, dict[int, DataError]]:
    if isinstance(work, MakesGood):
        try:
            return work.good_rows(item, part)
        except DataError:  # it looked at some rows only
            pass
    # A function may change its input in place, and is called again where it meets a bad row.
    return make_good(
        lambda some: work(item.to(Columned, parts=[_copy(part) if some is None else part.take(some)])), rows
    )


def _copy(part: ItemPart) -> ItemPart:
    columns = {
        name: column.copy() if isinstance(column, np.ndarray) else column for name, column in part.columns.items()
    }
    return ItemPart(part.sources, part.at, columns, part.spec, part.ids)


def _read(reader: AnyReader, item: Item, rows: SourceRows) -> tuple[Columns | None, SourceRows, dict[int, DataError]]:
    """The columns of rows but for the bad ones, the rows that these are, and what is wrong with the bad ones."""
    if isinstance(reader, NullRows):
        return _read_nulls(reader, item, rows)
    if not (rows.held is None or isinstance(rows.held, Spans)):  # of blocks, which are good or bad as a whole
        return reader.columns(item, rows, rows.held), rows, {}

    def make(some: Ids | None) -> Columns:
        few = rows if some is None else rows.take(some)
        return reader.columns(item, few, few.held)

    made, bad = make_good(make, len(rows.samples))
    return made, rows.take(_good(len(rows.samples), bad)) if bad else rows, bad


def _read_nulls(
    reader: NullRows[Any, Any, Any], item: Item, rows: SourceRows
) -> tuple[Columns | None, SourceRows, dict[int, DataError]]:
    """The same where nulls may be errors."""
    columns, left, bad = _read(reader.stored, item, rows)
    if columns is None:
        return None, left, bad
    every = range(len(left.samples))

    def make(some: Ids | None) -> Columns:
        if some is None:
            return reader.applied(columns, left.samples)
        return reader.applied({name: take_rows(column, some) for name, column in columns.items()}, left.samples[some])

    made, nulls = make_good(make, len(every))
    places = _good(len(rows.samples), bad)
    bad |= {int(places[row]): error for row, error in nulls.items()}
    return made, left.take(_good(len(every), nulls)) if nulls else left, bad


def _without(parts: Sequence[ItemPart], bad: Mapping[int, Any]) -> list[ItemPart]:
    """Parts without some places of the item."""
    if not bad:
        return [*parts]
    places, kept = np.array(list(bad)), list[ItemPart]()
    for part in parts:
        at = part.at if part.at is not None else np.arange(_length(part))
        rows = np.flatnonzero(~np.isin(at, places))
        if len(rows) == len(at):
            kept.append(part)
        elif len(rows):
            kept.append(part.take(rows))
    return kept


def _length(part: ItemPart) -> int:
    return len(next(iter(part.columns.values())))


def make_good(make: Make[MadeT], rows: int) -> tuple[MadeT | None, dict[int, DataError]]:
    """What can be made of all rows but the bad ones, None if none is good; and of the bad ones, by their numbers, what is wrong."""
    bad = dict[int, DataError]()
    for _ in range(2):
        good = _good(rows, bad)
        if not len(good):
            return None, bad
        try:
            return make(good if bad else None), bad
        except DataError as error:
            bad |= _blamed(error, good)
    _search(make, _good(rows, bad), bad)
    good = _good(rows, bad)
    return make(good) if len(good) else None, bad


def _search(make: Make[Any], rows: Ids, bad: dict[int, DataError]) -> None:
    """Finds all bad ones of some rows."""
    if not len(rows):
        return
    try:
        make(rows)
    except DataError as error:
        found = _blamed(error, rows)
        bad |= found
        for half in np.array_split(rows[~np.isin(rows, [*found])], 2):
            _search(make, half, bad)


def _good(rows: int, bad: Mapping[int, Any]) -> Ids:
    return np.delete(np.arange(rows), list(bad))


def _blamed(error: DataError, rows: Ids) -> dict[int, DataError]:
    """The rows that an error blames, by their numbers; the error itself is raised where it blames none."""
    if error.row is None:
        raise error
    found = dict[int, DataError]()
    for one in (error, *error.more):
        one.__traceback__ = one.__context__ = None  # their frames hold what was made of the other rows
        assert one.row is not None
        found[int(rows[one.row])] = one
    return found
