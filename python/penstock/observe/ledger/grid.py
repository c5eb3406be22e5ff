"""The global batches of neighbouring steps, put together from what the ranks recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.observe.ledger.format import LedgerHeader, TakenSteps
from penstock.observe.ledger.reader import FoundRecord, LedgerFile

#: Rows that are looked at together.
_TOGETHER = 1 << 20


@dataclass(frozen=True)
class Conflict:
    """Two files that recorded different rows for the same places: how many places, in which step first."""

    files: tuple[str, str]
    step: int
    rows: int
    ids: tuple[int, int]


class Grid:
    """Places × steps [first, last) of an epoch: which row was taken in each."""

    def __init__(self, header: LedgerHeader, first: int, last: int) -> None:
        size = last - first, header.batch_size
        self.first = first
        self.ids: Ids = np.full(size, -1, dtype=np.int64)
        self._draws: Ids | None = None
        self._valid: Ids = np.ones(size, dtype=np.int64)
        self._by: npt.NDArray[np.int32] = np.full(size, -1, dtype=np.int32)
        self._names: list[str] = []

    def put(self, file: LedgerFile, steps: TakenSteps) -> Conflict | None:
        """Enters what a rank recorded; what differs from what was there before."""
        head, count = steps.head, len(self.ids)
        low, high = max(head.step, self.first), min(head.step + head.steps, self.first + count)
        rows, mine = slice(low - self.first, high - self.first), slice(low - head.step, high - head.step)
        places = slice(head.at, head.at + head.rows)
        ids, draws, valid = (_table(array, head.steps, mine) for array in (steps.ids, steps.draws, steps.valid))
        assert ids is not None
        if draws is not None and self._draws is None:
            self._draws = np.full(self.ids.shape, -1, dtype=np.int64)
        before, by = self.ids[rows, places], self._by[rows, places]
        differs = (before >= 0) & (before != ids)
        if self._draws is not None:
            same = self._draws[rows, places]
            differs |= (before >= 0) & (same != (-1 if draws is None else draws))
            self._draws[rows, places] = -1 if draws is None else draws
        found = None
        if differs.any():
            step, place = (int(axis[0]) for axis in np.nonzero(differs))
            first = self._names[int(by[step, place])]
            pair = int(before[step, place]), int(ids[step, place])
            found = Conflict((first, file.name), low + step, int(differs.sum()), pair)
        self.ids[rows, places] = ids
        self._valid[rows, places] = 1 if valid is None else valid
        self._by[rows, places] = len(self._names)
        self._names.append(file.name)
        return found

    @property
    def is_taken(self) -> npt.NDArray[np.bool_]:
        """In which steps somebody took a place."""
        return np.asarray((self.ids >= 0).any(axis=1))

    def is_missing(self, steps: int, last_rows: int) -> npt.NDArray[np.bool_]:
        """Which places nobody took, in so many steps at most; of these the last one has `last_rows` rows if it is here."""
        missing = (self.ids < 0)[:steps]
        if len(missing) == steps:
            missing[-1, last_rows:] = False
        return missing

    def rows(self) -> tuple[Ids, Ids | None]:
        """Ids and draws of all rows that were taken and are no padding."""
        taken = (self.ids >= 0) & (self._valid > 0)
        return self.ids[taken], None if self._draws is None else self._draws[taken]


def _table(array: Ids | None, steps: int, mine: slice) -> Ids | None:
    return None if array is None else array.reshape(steps, -1)[mine]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record of steps, and the number of its file."""

    step: int
    file: int
    found: FoundRecord

    @property
    def end(self) -> int:
        """The end of its steps."""
        assert self.found.head is not None
        return self.found.head.step + self.found.head.steps


def by_epoch(files: Sequence[LedgerFile]) -> dict[int, list[Recorded]]:
    """What files recorded of each epoch, by step."""
    found: dict[int, list[Recorded]] = {}
    for number, file in enumerate(files):
        for record in file.records:
            if record.head is not None:
                found.setdefault(record.head.epoch, []).append(Recorded(record.head.step, number, record))
    for records in found.values():
        records.sort(key=lambda one: (one.step, one.file))
    return found


def grids(
    header: LedgerHeader, files: Sequence[LedgerFile], records: Sequence[Recorded]
) -> Iterator[tuple[Grid, list[Conflict]]]:
    """All recorded steps of an epoch, some at a time, in order."""
    most, begin, step = max(1, _TOGETHER // header.batch_size), 0, 0
    here: list[Recorded] = []
    while begin < len(records) or here:
        if not here:
            step = max(step, records[begin].step)
        while begin < len(records) and records[begin].step < step + most:
            here.append(records[begin])
            begin += 1
        last = max(one.end for one in here)
        grid, conflicts = Grid(header, step, min(step + most, last)), list[Conflict]()
        of_file: dict[int, list[FoundRecord]] = {}
        for one in here:
            of_file.setdefault(one.file, []).append(one.found)
        for number, found in of_file.items():
            conflicts += filter(None, (grid.put(files[number], steps) for steps in files[number].steps(found)))
        step += most
        here = [one for one in here if one.end > step]
        yield grid, conflicts
