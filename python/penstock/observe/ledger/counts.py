"""How often each row came."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError
from penstock.observe.ledger.format import LedgerHeader

Counts = npt.NDArray[np.uint8]
_MOST = 255


class RowCounts:
    """Counts the rows of one epoch after the other, by id and draw: a byte a row of the data, and draw."""

    def __init__(self, header: LedgerHeader) -> None:
        self._header = header
        self._of_draw: dict[int, Counts] = {}
        self._touched: set[int] = set()
        self._of_epoch: Counts | None = None  # by id alone, where draws are not the epoch
        self._made: list[Ids] = []
        self._repeated: list[Ids] = []
        self.foreign: list[Ids] = []
        self.rows = 0

    def add(self, epoch: int, ids: Ids, draws: Ids | None) -> None:
        """Rows that came in an epoch."""
        self.rows += len(ids)
        if not self._header.sources:
            if self._header.has_ends:  # numbers of rows that a stage made, each of which comes once
                self._made.append(ids)
            return
        is_there = ids < self._header.samples
        if not is_there.all():
            self.foreign.append(ids[~is_there])
            ids, draws = ids[is_there], None if draws is None else draws[is_there]
        if draws is None:
            self._count(epoch, ids)
            return
        if self._of_epoch is None:
            self._of_epoch = self._empty()
        _add(self._of_epoch, ids)
        for draw in np.unique(draws).tolist():
            self._count(draw, ids[draws == draw])

    def _count(self, draw: int, ids: Ids) -> None:
        self._touched.add(draw)
        if draw not in self._of_draw:
            self._of_draw[draw] = self._empty()
        more = _add(self._of_draw[draw], ids)
        if self._header.unique and len(more):
            self._repeated.append(more)

    def _empty(self) -> Counts:
        try:
            return np.zeros(self._header.samples, dtype=np.uint8)
        except MemoryError:
            raise DataError(
                f"the ledgers are of {self._header.samples:,} rows, and each takes a byte here; verify where there is more memory"
            ) from None

    @property
    def repeated(self) -> Ids:
        """Rows of the epoch that came more often than the plan says."""
        made = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *self._made]))
        return np.concatenate([*self._repeated, made[1:][made[1:] == made[:-1]]])

    def lacking(self, epoch: int) -> Ids:
        """The ids that a whole epoch has and that did not come as often; none where the plan chooses among them."""
        runs, counts = self._header.runs, self._of_epoch if self._of_epoch is not None else self._of_draw.get(epoch)
        if runs is None or counts is None or sum(count * times for _, count, _, times in runs) != self._header.rows:
            return np.empty(0, dtype=np.int64)
        found = [
            first
            + distance * np.flatnonzero(counts[first : first + count * distance : distance][:count] < min(times, _MOST))
            for first, count, distance, times in runs
        ]
        return np.concatenate(found)

    def unknown(self, epoch: int) -> Ids:
        """Ids that came in an epoch and that the plan does not choose from."""
        counts = self._of_epoch if self._of_epoch is not None else self._of_draw.get(epoch)
        if self._header.runs is None or counts is None:
            return np.empty(0, dtype=np.int64)
        left = counts > 0
        for first, count, distance, _ in self._header.runs:
            left[first : first + count * distance : distance] = False
        return np.flatnonzero(left)

    def end_epoch(self) -> None:
        """Forgets what cannot be needed: draws that no row of the epoch had."""
        self._of_draw = {
            draw: counts
            for draw, counts in self._of_draw.items()
            if draw in self._touched and self._of_epoch is not None
        }
        self._touched, self._of_epoch, self._made, self._repeated = set(), None, [], []
        self.foreign, self.rows = [], 0


def _add(counts: Counts, ids: Ids) -> Ids:
    """Counts ids; those that came before, each as often as it comes again."""
    distinct, times = np.unique(ids, return_counts=True)
    before = counts[distinct].astype(np.int64)
    counts[distinct] = np.minimum(before + times, _MOST).astype(np.uint8)
    return np.repeat(distinct, times - (before == 0))
