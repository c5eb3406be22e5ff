"""Sources that come in one order: pieces of neighbouring rows are loaded one after another, each once a pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.columns.distinct_numbers import distinct
from penstock.core.columns.rows import Rows
from penstock.core.columns.spec import Columns, Ids
from penstock.inputs.forward import STREAM_ROWS
from penstock.order.protocol import NEVER, is_open
from penstock.order.steps.cursor import Work
from penstock.runtime.stage import Item, SourceRows
from penstock.source.protocol import BlockSource
from penstock.stages.read.blocks import load_block, pick_rows
from penstock.stages.read.parts import taken
from penstock.stages.read.reader import Needs, Picks, Reading

#: Rows of which it is computed at once which are to come.
_LOOK_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class _Held:
    """Rows that are held, or will be: their numbers, ascending; when they come no more: after row `end` of a lane, -1 for all lanes; and their rows in their pieces."""

    number: Ids
    lane: Ids
    end: Ids
    row: Ids

    @classmethod
    def none(cls) -> _Held:
        return cls(*(np.empty(0, dtype=np.int64) for _ in range(4)))

    @property
    def piece(self) -> Ids:
        return self.number // STREAM_ROWS

    def of(self, which: Ids | npt.NDArray[np.bool_]) -> _Held:
        return _Held(self.number[which], self.lane[which], self.end[which], self.row[which])

    def joined(self, other: _Held) -> _Held:
        """Both; of rows that are in both, those of `other`."""
        pairs = ((self.number, other.number), (self.lane, other.lane), (self.end, other.end), (self.row, other.row))
        both = _Held(*map(np.concatenate, pairs))
        if not len(self.number) or not len(other.number) or self.number[-1] < other.number[0]:
            return both
        turn = np.argsort(both.number, kind="stable")
        return both.of(turn[np.append(np.diff(both.number[turn]) > 0, True)])

    def is_open(self, next_rows: Ids) -> npt.NDArray[np.bool_]:
        """Which are to come, by the next row of every lane."""
        return is_open(next_rows, self.lane, self.end)

    def find(self, number: Ids) -> Ids:
        """Where some rows stand among them; whatever for those that are not there."""
        return np.minimum(np.searchsorted(self.number, number), max(0, len(self.number) - 1))

    def has(self, number: Ids) -> npt.NDArray[np.bool_]:
        """Which of some rows are among them."""
        if not len(self.number):
            return np.zeros(len(number), dtype=bool)
        return np.asarray(self.number[self.find(number)] == number)


@dataclass(frozen=True, eq=False)
class _Coming:
    """The numbers of an item's rows, and all rows of the pieces that must be loaded for them which this rank will take."""

    number: Ids
    new: _Held


class ForwardReader:
    """See `reader.Reader`. A row stays from when its piece is loaded until it was taken, however long its lane lags behind the others.

    Pieces are numbered over all passes through the source, and rows by their pieces: row r of piece p is number p · STREAM_ROWS + r.
    """

    in_order = plans = True
    threads = 1
    kind = "gather"

    def __init__(self, reading: Reading, source: BlockSource) -> None:
        self._reading, self._source, self.spec = reading, source, source.spec
        self._samples = source.manifest.samples
        self._pieces_a_pass = -(-self._samples // STREAM_ROWS)
        self._row_bytes = reading.row_bytes
        self._epoch = -1
        self._close()

    def _close(self) -> None:
        self._next: int | None = None  # the first piece of which nothing is known yet
        self._pieces: dict[int, Rows] = {}
        #: The piece behind some of whose rows nothing could be drawn, and how many these are.
        self._cut: tuple[int, int] | None = None
        self._held = _Held.none()

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, _Coming]:
        """The pieces that must be loaded, up to the last of the rows."""
        draws = item.find_draws()
        if item.epoch != self._epoch:
            self._begin_epoch(item.epoch, goes_on=draws is not None)
        if not len(rows.samples):
            return Needs(), _Coming(rows.samples, _Held.none())
        passes = item.epoch if draws is None else draws if rows.at is None else draws[rows.at]
        number = (passes * self._pieces_a_pass) * STREAM_ROWS + rows.samples
        first, last = int(number.min()) // STREAM_ROWS, int(number.max()) // STREAM_ROWS
        begin = first // self._pieces_a_pass * self._pieces_a_pass if self._next is None else self._next
        before, new = self._reading.cursor.next_rows(item.work), _Held.none()
        for some in self._in_passes(begin, last + 1):
            new = new.joined(self._coming(some, item.epoch, before))
        self._next = max(begin, last + 1)
        new = self._with_padding(number, new)
        return Needs(len(new.number) * self._row_bytes), _Coming(number, new)

    def _begin_epoch(self, epoch: int, *, goes_on: bool) -> None:
        """Nothing stays from one epoch to the next, unless the next one continues in the same pass."""
        self._epoch = epoch
        if not goes_on:
            self._close()
            return
        coming = self._coming(self._held.number, epoch, self._reading.cursor.next_rows(Work(epoch, 0, 0)))
        row = self._held.row[self._held.find(coming.number)] if len(coming.number) else coming.row
        self._held = _Held(coming.number, coming.lane, coming.end, row)

    def _in_passes(self, begin: int, end: int) -> Iterator[Ids]:
        """The numbers of all rows of pieces [begin, end), not too many at once."""
        while begin < end:
            stop = min(end, begin + _LOOK_ROWS // STREAM_ROWS, (begin // self._pieces_a_pass + 1) * self._pieces_a_pass)
            past = begin // self._pieces_a_pass * self._pieces_a_pass * STREAM_ROWS + self._samples
            yield np.arange(begin * STREAM_ROWS, min(stop * STREAM_ROWS, past))
            begin = stop

    def _coming(self, number: Ids, epoch: int, next_rows: Ids) -> _Held:
        """Those of some rows that are to come on this rank."""
        mine = next_rows != NEVER
        if not mine.any() or not len(number):
            return _Held.none()
        ids = number % (self._pieces_a_pass * STREAM_ROWS) + self._reading.first_id
        after = np.where(mine, next_rows, next_rows.min())
        lane, first, end = self._reading.cursor.order.rows.windows(epoch, ids, after)
        found = _Held(number, lane, end, number % STREAM_ROWS)
        return found.of((first < end) & found.is_open(next_rows))

    def _with_padding(self, number: Ids, new: _Held) -> _Held:
        """New rows, and those of an item that came before: they fill its last batch, and are done with it."""
        again = distinct(number[~(self._held.has(number) | new.has(number))])[0]
        if not len(again):
            return new
        done = np.zeros_like(again)
        return new.joined(_Held(again, done - 1, done, again % STREAM_ROWS))

    def open(self, item: Item, rows: SourceRows, plan: _Coming) -> Picks:
        """Loads them, and drops the rows that are to come no more."""
        number, new = plan.number, plan.new
        edges = np.flatnonzero(np.diff(new.piece, prepend=-1, append=-1))
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            new.row[low:high] = self._load(int(new.piece[low]), new.row[low:high])
        self._held = self._held.joined(new)
        self._check_drawn(number)
        at = self._held.find(number)
        piece, which = distinct(number // STREAM_ROWS)
        picks = Picks(tuple(self._pieces[one] for one in piece.tolist()), which, self._held.row[at])
        stay = self._held.is_open(self._reading.cursor.next_rows(item.work, after=True))
        if not stay.all():
            self._held = self._held.of(stay)
            left = {*distinct(self._held.piece)[0].tolist()}
            self._pieces = {number: piece for number, piece in self._pieces.items() if number in left}
        return picks

    def _load(self, number: int, wanted: Ids) -> Ids:
        """Loads a piece, of which only the rows that are wanted stay if they are less than half; which rows of it they are then."""
        first = number % self._pieces_a_pass * STREAM_ROWS
        rows = min(STREAM_ROWS, self._samples - first)
        piece = load_block(self._source, first, rows, threads=self._reading.budget.cpus, may_be_fewer=True)
        self._row_bytes = -(-piece.nbytes // len(piece))
        if len(piece) < rows:
            self._cut = number, len(piece)
        if number in self._pieces:  # some of its rows are held, and now they all are
            self._held.row[:] = np.where(self._held.piece == number, self._held.number % STREAM_ROWS, self._held.row)
        elif 2 * len(wanted) < rows == len(piece):
            piece, wanted = taken(piece, wanted), np.arange(len(wanted))
        self._pieces[number] = piece
        self._reading.budget.keep(piece, piece.nbytes)
        return wanted

    def _check_drawn(self, number: Ids) -> None:
        """Raises what came in place of one of these rows, once all before it were taken."""
        if self._cut is None:
            return
        piece, rows = self._cut
        if int(number.max()) >= piece * STREAM_ROWS + rows:
            self._source.load(piece % self._pieces_a_pass * STREAM_ROWS + rows, 1)

    def read(self, rows: SourceRows, opened: Picks) -> Picks:
        """All is loaded."""
        return opened

    def columns(self, item: Item, rows: SourceRows, held: Picks) -> Columns:
        """Picks the rows out of the pieces."""
        return pick_rows(self._reading, self._source, held)
