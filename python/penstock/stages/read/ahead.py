"""Reading ahead to the local cache: while nobody reads, what comes next is fetched, also over the end of the epoch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock.core.cancel import StoppedError, work_for
from penstock.core.columns.spec import Ids
from penstock.core.errors import PenstockError
from penstock.core.files.shards import Shards
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Cursor, Position, Work, works
from penstock.stages.read.records import Places
from penstock.stages.read.upcoming import Upcoming
from penstock.stages.read.windows import blocks_of

#: So far is looked ahead of what is being read.
_MOST_BYTES = 1 << 30
#: Reading has paused when nobody read for so long.
_QUIET_S = 0.1
_STOP_S = 5.0


class AheadStorage(Protocol):
    """A storage with a cache."""

    @property
    def is_caching(self) -> bool:
        """Whether the cache is switched on."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads right now."""

    def expect(self, shards: Shards, next_use: Upcoming) -> Callable[[], None]:
        """Tells the cache when bytes are needed next, until the returned function is called."""

    def read_ahead(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, go_on: Callable[[], bool]) -> None:
        """Fetches ranges to the cache."""


class Ahead:
    """Tells a storage's cache what one loader needs of a source when, and fetches what comes next while reading has paused.

    to_read: of an item's rows those that must be read, with what follows them.
    Rows in columns are not fetched ahead, since their sources choose the bytes themselves.
    """

    def __init__(
        self,
        storage: AheadStorage,
        manifest: Any,
        first_id: int,
        order: BatchOrder,
        ranks: tuple[int, int],
        here: tuple[int, int],
        epochs: int | None,
        to_read: Callable[[Ids], Ids],
    ) -> None:
        self._to_read = to_read
        self._storage, self._manifest, self._order, self._epochs = storage, manifest, order, epochs
        self._first_id = first_id
        share = order.share(here[0], ranks[1])[0], order.share(here[1] - 1, ranks[1])[1]
        self._upcoming = Upcoming(order, manifest, share, first_id)
        self._cursor = Cursor(order, *ranks)
        self._has_ranges = manifest.offset is not None or manifest.one_record_each
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._forget: Callable[[], None] | None = None

    def follow(self, work: Iterator[Work]) -> Iterator[Work]:
        """The same work; from the first of it on, the cache knows what is coming."""
        self.stop()
        if not self._storage.is_caching:
            return work
        self._forget = self._storage.expect(self._manifest.stored, self._upcoming)
        if self._has_ranges:
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._serve, args=(self._stop,), name="penstock-ahead", daemon=True)
            self._thread.start()
        return self._upcoming.follow(work)

    def stop(self) -> None:
        """Ends the thread after the request that it waits for."""
        if self._stop is not None:
            self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        if self._forget is not None:
            self._forget()
        self._stop = self._thread = self._forget = None

    def _serve(self, stop: threading.Event) -> None:
        work_for(stop)
        coming: Iterator[Work] = iter(())
        reached = Position(-1)
        done: deque[tuple[Position, int]] = deque()  # ends of works ahead of the reader, and their bytes
        while not stop.wait(_QUIET_S):
            while done and done[0][0] <= self._here:
                done.popleft()
            if not self._is_quiet(stop):
                continue
            if reached < self._here:  # reading was faster
                reached = self._here
                coming = self._from(reached)
            while not stop.is_set() and self._storage.is_idle and sum(size for _, size in done) < _MOST_BYTES:
                work = next(coming, None)
                if work is None:
                    break
                reached = Position(work.epoch, work.step + work.steps)
                try:
                    done.append((reached, self._fetch(work, lambda: not stop.is_set() and self._storage.is_idle)))
                except (PenstockError, StoppedError, OSError):
                    return  # the reader meets the same error, and reports it

    @property
    def _here(self) -> Position:
        now = self._upcoming.position
        return Position(now.epoch, now.step + now.steps)

    def _is_quiet(self, stop: threading.Event) -> bool:
        """Whether nobody reads for a while."""
        end = time.monotonic() + _QUIET_S
        before = self._here
        while time.monotonic() < end:
            if stop.wait(_QUIET_S / 10) or not self._storage.is_idle:
                return False
        return before == self._here and self._upcoming.position.steps > 0

    def _from(self, position: Position) -> Iterator[Work]:
        order = self._order
        if self._epochs is not None and position.epoch >= self._epochs:
            return iter(())
        steps, full = order.steps_per_epoch, order.full_steps
        return works(position, steps_per_epoch=steps, full_steps=full, steps_per_work=1, epochs=self._epochs)

    def _fetch(self, work: Work, go_on: Callable[[], bool]) -> int:
        """Fetches what a work needs and the cache lacks; the bytes that it needs."""
        samples = self._to_read(self._cursor.ids(work)) - self._first_id
        samples = samples[(samples >= 0) & (samples < self._manifest.samples)]
        places = Places(self._manifest)
        if self._order.rows.block_rows_at(self._first_id) == 1 or self._manifest.scattered or not len(samples):
            ranges = places.of(samples)
        else:
            first, end, _ = blocks_of(self._order.rows, work.epoch, self._first_id, samples)
            _, ranges = places.of_runs(first, end)
        self._storage.read_ahead(self._manifest.stored, ranges.shard, ranges.offset, ranges.length, go_on)
        return ranges.size_bytes
