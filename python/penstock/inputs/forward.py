"""Rows that come in one order only: iterables that are drawn while the training runs, and nothing is stored.

They come in their natural order, or mixed within windows. Each rank draws all rows and keeps its own; a new epoch makes a new iterator; resuming
draws the rows before again, unless the function takes the number of the first row as `start`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Protocol

from penstock.core.columns.spec import Columns, Spec
from penstock.core.errors import DataError, PlanError, ProcessError
from penstock.core.picklable_lock import PicklableLock
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Resuming

#: Rows that are drawn and stacked at once.
STREAM_ROWS = 64
#: Rows that are rather drawn than jumped over, where a function can begin at any row.
_FAR_ROWS = 4096


class Draw:
    """Items by number, ascending; an earlier one makes a new iterator. Used by one thread at a time.

    begun: an iterator at the first item; None if there is none yet. make: gives another that begins at the item of a number if it `skips`, else at the
    first; None if there can be no other.
    """

    def __init__(
        self, begun: Iterator[Any] | None, make: Callable[[int], Iterator[Any]] | None, *, skips: bool
    ) -> None:
        self._items = begun
        self._make, self._skips, self._position = make, skips, 0
        self.failed: BaseException | None = None  # what the iterator raised in place of the next item

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or another process, begins an iterator of its own."""
        if self._make is None:
            raise ProcessError(
                "a dataset of an iterator, which can be drawn only once, cannot be copied or sent to another process; pass a function that makes "
                "one, as from_iterable(lambda: …), or let spool=True keep the rows"
            )
        return partial(Draw, None, skips=self._skips), (self._make,)

    def take(self, first: int, rows: int) -> list[Any]:
        """Items [first, first + rows), fewer where they end, or where the iterator raises: the next call raises that, with the item's number."""
        if self.failed is not None and first >= self._position:
            raise self.failed
        far = self._skips and first - self._position > _FAR_ROWS
        if self._items is None or first < self._position or far:
            self._begin(first)
        assert self._items is not None
        drawn: list[Any] = []
        try:
            for _ in islice(self._items, first - self._position):
                self._position += 1
            if self._position == first:
                drawn.extend(islice(self._items, rows))
        except BaseException as error:
            error.add_note(f"penstock: sample {self._position + len(drawn)} of an iterable")
            self._items, self.failed = None, error
            if not drawn:
                raise
        self._position += len(drawn)
        return drawn

    def more(self) -> bool:
        """Whether there is another item after those that were taken."""
        ended = object()
        found = next(self._items, ended) is not ended if self._items is not None else False
        self._items = None
        return found

    @property
    def position(self) -> int:
        """The number of the next item."""
        return self._position

    def _begin(self, first: int) -> None:
        if self._make is None:
            raise PlanError(
                f"sample {first:,} is wanted, and this iterator, which can be drawn only once, is past it; pass a function "
                f"that makes a new one, as from_iterable(lambda: …), or let spool=True keep the rows"
            )
        self._position, self.failed = first if self._skips else 0, None
        self._items = self._make(self._position)


class AscendingRows(Protocol):
    """Rows by number, ascending. Used by one thread at a time."""

    @property
    def position(self) -> int:
        """The number of the next row."""

    @property
    def failed(self) -> BaseException | None:
        """What came in place of the next row, where rows before it were taken: the next call raises it."""

    def take(self, first: int, rows: int) -> Any:
        """Rows [first, first + rows), fewer where they end or fail; an earlier one than the next begins anew."""

    def more(self) -> bool:
        """Whether there is another row after those that were taken, as far as is known without waiting."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that are drawn, as a source of blocks that are loaded in ascending order.

    stack: makes columns of what was drawn. first: the first row as it is drawn. where, rows, hint: for messages, what begins them, what
    a row is called, and what else helps against too many. comes_once: what was drawn is gone, so that a training after a look would lack it. identity: tells what begins them from others, None if nothing does.
    """

    manifest: Manifest
    spec: Spec
    draw: AscendingRows = field(repr=False)
    stack: Callable[[Any], Columns] = field(repr=False)
    first: Any = field(repr=False)
    rows_together: int
    where: str = ""
    rows: str = "samples"
    hint: str = ""
    resuming: Resuming = Resuming.AGAIN
    comes_once: bool = False
    identity: str | None = None
    block_rows: int = STREAM_ROWS
    access: Access = Access.FORWARD
    _turn: PicklableLock = field(default_factory=PicklableLock, repr=False)

    def load(self, first: int, rows: int) -> Columns:
        """Rows [first, first + rows), fewer where the one after them cannot be drawn; DataError where the stream is shorter or longer than it should be."""
        with self._turn:
            is_look = (first, rows) == (0, 1) and self.draw.position > 0  # at the first, which need not be drawn again
            found = self.first if is_look else self._take(first, rows)
        return self.stack(found)

    def _take(self, first: int, rows: int) -> Any:
        found, samples, position = self.draw.take(first, rows), self.manifest.samples, self.draw.position
        if len(found) < rows and self.draw.failed is not None:
            return found
        if len(found) < rows:
            raise DataError(
                f"{self.where}the stream ended after {position:,} {self.rows}, and there should be {samples:,}; pass samples={position}"
            )
        if first + rows == samples and self.draw.more():
            raise DataError(
                f"{self.where}the stream continues after the {samples:,} {self.rows} that it should have; pass how many there are as "
                f"samples=…{self.hint}"
            )
        return found


def takes_start(make: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `start`."""
    try:
        return "start" in inspect.signature(make).parameters
    except (ValueError, TypeError):
        return False
