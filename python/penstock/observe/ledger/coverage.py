"""Which steps of an epoch were taken, and by all ranks or by some."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids


@dataclass(frozen=True)
class Gap:
    """Steps [begin, end) in which no rank took the places from `low` up to `high`; rows: how many rows these are together."""

    begin: int
    end: int
    low: int
    high: int
    rows: int


class Coverage:
    """Collects the steps of an epoch, in order. first: where the ledgers begin in it. steps, size, last_rows: of a whole epoch."""

    def __init__(self, *, first: int, steps: int, size: int, last_rows: int) -> None:
        self._first, self._steps, self._size, self._last_rows = first, steps, size, last_rows
        self._parts: list[Ids] = [np.empty((0, 4), dtype=np.int64)]

    def add(self, first: int, is_missing: npt.NDArray[np.bool_], is_taken: npt.NDArray[np.bool_]) -> None:
        """Neighbouring steps from `first` on: which of their places nobody took, (steps, places), and in which somebody took one."""
        count = is_missing.sum(axis=1)
        low, high = is_missing.argmax(axis=1), self._size - is_missing[:, ::-1].argmax(axis=1)
        table = np.stack([first + np.arange(len(count)), count, low, high], axis=1)
        self._parts.append(table[is_taken])

    @property
    def _table(self) -> Ids:
        """Of each step that somebody took: the step, how many places nobody took, the first of these, and the end of them."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    @property
    def complete(self) -> int:
        """How many steps all ranks took."""
        return int((self._table[:, 1] == 0).sum())

    @property
    def reached(self) -> int:
        """The end of the last step that all ranks took."""
        whole = self._table[self._table[:, 1] == 0, 0]
        return int(whole[-1]) + 1 if len(whole) else self._first

    @property
    def end(self) -> int:
        """The end of the last step that any rank took."""
        return int(self._table[-1, 0]) + 1 if len(self._table) else self._first

    def gaps(self, until: int) -> list[Gap]:
        """What is missing of the steps before `until`; neighbouring steps that lack the same places are one gap."""
        table = self._table[self._table[:, 0] < until]
        found = [Gap(step, step + 1, low, high, count) for step, count, low, high in table[table[:, 1] > 0].tolist()]
        edges = [self._first, *(table[:, 0] + 1).tolist()], [*table[:, 0].tolist(), until]
        found += [self._untaken(begin, end) for begin, end in zip(*edges, strict=True) if begin < end]
        joined: list[Gap] = []
        for gap in sorted(found, key=lambda one: one.begin):
            before = joined[-1] if joined else None
            if before is not None and (before.end, before.low, before.high) == (gap.begin, gap.low, gap.high):
                joined[-1] = Gap(before.begin, gap.end, gap.low, gap.high, before.rows + gap.rows)
            else:
                joined.append(gap)
        return joined

    def _untaken(self, begin: int, end: int) -> Gap:
        short = self._size - self._last_rows if end == self._steps else 0
        return Gap(begin, end, 0, self._size, (end - begin) * self._size - short)
