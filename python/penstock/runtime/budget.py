"""The memory and the CPUs of a run: an item is begun when there is room for what it will hold, and its room is free once the consumer has it.

What counts: items on their way, from what is asked of a store to what waits for the consumer; blocks of open windows; memory of slots
that waits to be used again. What does not: batches that the consumer took, parts that a format keeps decoded, and what libraries and
users' functions hold beside their results.

    work that is drawn ──► due ──► admit: is it first, and is there room? ──► stages ──► finish ──► release: the consumer has it
                                                                               │ note, after each
    limit_bytes  ≥  kept (blocks, records)  +  reserved (every item: the most that it held, or may still grow to)

Work is admitted in the order in which it was drawn. Otherwise later items could take the room that the next one lacks, which the consumer waits for, and
nothing would ever be released. For the same reason an item that fits nowhere is admitted when no other is on its way.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from penstock.core.cancel import LOOK_S, StoppedError, is_stopped
from penstock.core.columns.spec import Bytes
from penstock.core.messages import counted
from penstock.core.warnings import warn
from penstock.order.steps.cursor import Work

#: What a function or a parser makes may be so much larger than what it is given; supposed until the first item is through.
_UNKNOWN_GROWTH = 8.0
#: What was learnt of growth is forgotten so fast.
_REMEMBERED = 0.9

#: So much more than the budget is not worth a word.
ALLOWED = 1.1

#: Bytes that an item's columns take in memory: (rows, bytes of their records; None if these are as long as all are in the mean).
ItemBytes = Callable[[int, int | None], int]


class Ring(Protocol):
    """A ring of memory (see `runtime.slots.Slots`). made_bytes: all that it ever made."""

    made_bytes: int

    def take_sized(self, size: int) -> tuple[Bytes, int]:
        """An array of `size` bytes, and how much memory it keeps."""

    @property
    def free_bytes(self) -> int:
        """Memory that waits to be used again."""

    def trim(self, free_bytes: int) -> int:
        """Releases all but so much; how much is left."""


@dataclass(eq=False)
class BudgetShare:
    """An item's part of the budget. asked_bytes: without what is supposed of growth; held_bytes: seen after the last stage."""

    reserved_bytes: int
    asked_bytes: int
    held_bytes: int = 0
    most_bytes: int = 0
    is_finished: bool = False


class LargeItemError(Exception):
    """Several steps that were to be made together take more than the budget: they are to be made one by one."""


class Budget:
    """Bytes that a loader's run may hold, and CPUs that its kernels may use.

    limit_bytes: the budget; memory_bytes: of all runs of the loader. rings: whose free memory counts. cpus: threads of one native call; asked at every call, so that it may change
    while a run lasts. Unless `is_exact` it is not known what items ask for, which is then multiplied
    by what earlier items grew by. Items are admitted in the order of their work, so that the next one that is
    needed always comes first; one that is too large is admitted alone.
    """

    def __init__(self, limit_bytes: int, rings: tuple[Ring, ...] = (), *, cpus: int = 1, is_exact: bool = True) -> None:
        self.limit_bytes, self.rings, self.cpus, self.is_exact = limit_bytes, rings, cpus, is_exact
        self.memory_bytes = limit_bytes
        self._growth: float | None = None
        #: What items of which nothing is asked for were seen to take, such as those of rows that a lane stage made; None before the first item is through.
        self._unasked_bytes: float | None = None
        #: Whether it was said that something is larger than the budget.
        self.has_warned = False
        self._kept: set[_Kept] = set()
        self._block_rings: set[Ring] = set()
        self._gone: deque[_Kept] = deque()
        self._kept_bytes = self.most_bytes = 0
        #: How long items waited for room, one after another.
        self.waited_s = 0.0
        #: What no item may have: others need it, as sources do that decode parts of files.
        self.aside_bytes = 0
        #: Of that, what such parts take, however blocks are cut; and what they would take of another limit.
        self.parts_bytes = 0
        self.parts_within: Callable[[int], int] = lambda _: 0
        #: Whether nothing follows the first item before it is known how much it grew, by functions or parsers: where the user chose how much may be held.
        self.learns_first = False
        self._begin()

    def _begin(self) -> None:
        self._due: deque[Work] = deque()
        self._shares: set[BudgetShare] = set()
        self._reserved_bytes = self._waiting = 0
        self._closed = False
        self._lock = threading.RLock()  # re-entrant: a loader that is collected meanwhile closes its run in this thread
        self._changed = threading.Condition(self._lock)

    def follow(self, works: Iterator[Work]) -> Iterator[Work]:
        """The same work, of a run that begins now; what is drawn is admitted in this order."""
        self._begin()
        return self._noted(works, self._due)

    @staticmethod
    def _noted(works: Iterator[Work], due: deque[Work]) -> Iterator[Work]:
        for work in works:
            due.append(work)
            yield work

    def figures(self) -> dict[str, int]:
        """What is held now with memory that waits to be used again, the most that was held at once, and the budget."""
        with self._lock:
            held = self._note_most()
            return {"held_bytes": held, "most_bytes": self.most_bytes, "budget_bytes": self.limit_bytes}

    @property
    def kept_bytes(self) -> int:
        """Bytes of blocks and records that are held now."""
        with self._lock:
            self._take_back()
            return self._kept_bytes

    # An item begins

    @contextmanager
    def turn(self, work: Work) -> Iterator[None]:
        """While this lasts `work` may be admitted, and nothing that was drawn after it."""
        try:
            yield
        finally:
            with self._lock:
                self._end_turn(work)

    def _end_turn(self, work: Work) -> None:
        if self._due and self._due[0] is work:
            self._due.popleft()
        elif work in self._due:
            self._due.remove(work)
        self._wake()

    def admit(self, work: Work, *, block_bytes: int = 0, asked_bytes: int, ends_turn: bool = False) -> BudgetShare:
        """Waits for room for an item, and for blocks that it opens and `keep` counts from then on; StoppedError if the run ends before.

        ends_turn: what was drawn after it may be admitted now.
        """
        if self.aside_bytes + block_bytes + asked_bytes > self.limit_bytes:
            self._warn_of_large(block_bytes + asked_bytes, f"epoch {work.epoch}, step {work.step}")
        with self._lock:
            while (waits := not self._is_next(work) or self._is_learning) or not self._fits(
                block_bytes + self._grown(asked_bytes)
            ):
                self._wait(for_room=not waits)
            share = BudgetShare(self._grown(asked_bytes), asked_bytes)
            self._shares.add(share)
            self._reserved_bytes += share.reserved_bytes
            if ends_turn:
                self._end_turn(work)
            return share

    def grow(self, share: BudgetShare, size_bytes: int, *, may_fail: bool) -> None:
        """Waits for room for an item that turns out to be larger than was asked for, before it is made.

        may_fail: LargeItemError if it fits nowhere, since its steps can be made one by one. Of items on their way, it is the last that was admitted.
        """
        if may_fail and size_bytes > self.limit_bytes - self.aside_bytes:
            raise LargeItemError
        with self._lock:
            while (more_bytes := size_bytes - share.reserved_bytes) > 0:
                if len(self._shares) == 1 or self._fits(more_bytes):
                    self._reserve(share, size_bytes)
                    break
                self._wait(for_room=True)
        share.asked_bytes = max(share.asked_bytes, size_bytes)

    def _wait(self, *, for_room: bool) -> None:
        if self._closed or is_stopped():
            raise StoppedError
        self._waiting += 1
        began_at = time.perf_counter()
        # Now and then, since a stop flag wakes nobody, nor does memory that is gone.
        self._changed.wait(LOOK_S)
        self._waiting -= 1
        if for_room:
            self.waited_s += time.perf_counter() - began_at

    @property
    def _supposed_growth(self) -> float:
        return self._growth if self._growth is not None else 1.0 if self.is_exact else _UNKNOWN_GROWTH

    def warn_of_waiting(self, size_bytes: int, name: str, lanes: int) -> None:
        """What a stage made, and nobody took yet, is more than a loader may hold."""
        if size_bytes <= ALLOWED * self.memory_bytes or self.has_warned:
            return
        self.has_warned = True
        warn(
            f"penstock: what {name} made takes {size_bytes:,} bytes until its rows are taken, in {counted(lanes, 'lane')}, and memory={self.memory_bytes:,} is less: that much is held; "
            f"take fewer lanes, batch(…, lanes=…), or fewer rows together, pack(…, window=…) or flat_map(…, rows=…), or pass a larger memory= to the Loader"
        )

    def _warn_of_large(self, size_bytes: int, what: str) -> None:
        if size_bytes <= ALLOWED * self.limit_bytes or self.has_warned:
            return
        self.has_warned = True
        warn(
            f"penstock: {what} takes {size_bytes:,} bytes, and memory={self.limit_bytes:,} is less: such a batch is made alone, with nothing ahead of it, "
            f"and holds that much; pass a larger memory= to the Loader, take smaller batches, or refuse large records with Limits(record_bytes=…)"
        )

    def _grown(self, asked_bytes: int) -> int:
        return int(asked_bytes * self._supposed_growth if asked_bytes else self._unasked_bytes or 0)

    def _is_next(self, work: Work) -> bool:
        return not self._due or self._due[0] is work or self._due[0] == work

    @property
    def _is_learning(self) -> bool:
        is_first = self.learns_first and self._unasked_bytes is None
        return is_first and not all(share.is_finished for share in self._shares)

    def _fits(self, size_bytes: int) -> bool:
        self._take_back()
        return not self._shares or size_bytes <= self._room

    # What is held

    def take(self, ring: Ring, size: int) -> Bytes:
        """Memory of a ring, counted until it is gone."""
        memory, room = ring.take_sized(size)
        self._block_rings.add(ring)
        self.keep(memory, room)
        return memory

    def keep(self, thing: Any, size_bytes: int) -> None:
        """Counts a block, or the memory of records, until it is gone; it must be nothing that the consumer gets."""
        with self._lock:
            # As in `slots`: Python code at the end of a thing would swallow a Ctrl-C that reaches it.
            self._kept.add(_Kept(thing, self._gone.append, size_bytes))
            self._kept_bytes += size_bytes
            self._note_most()

    def note(self, share: BudgetShare, size_bytes: int) -> None:
        """After a stage an item holds so much."""
        share.held_bytes, share.most_bytes = size_bytes, max(share.most_bytes, size_bytes)
        # Reserved bytes do not shrink before `finish`: the next stage may grow it again. The lock is taken where somebody could notice.
        if size_bytes > share.reserved_bytes or self._waiting:
            with self._lock:
                self._reserve(share, max(share.reserved_bytes, size_bytes))
                self._expect_as_much(share)

    def finish(self, share: BudgetShare, size_bytes: int) -> None:
        """An item is ready for the consumer, and grows no more. Those that come are supposed to grow alike."""
        share.held_bytes, share.most_bytes = size_bytes, max(share.most_bytes, size_bytes)
        share.is_finished = True
        if share.most_bytes > self.limit_bytes:
            self._warn_of_large(share.most_bytes, "a batch")
        with self._lock:
            self._unasked_bytes = _REMEMBERED * (self._unasked_bytes or 0.0)
            if share.asked_bytes:
                seen = share.most_bytes / share.asked_bytes
                self._growth = max(1.0, seen, _REMEMBERED * (self._growth or 0.0))
            else:
                self._unasked_bytes = max(self._unasked_bytes, share.most_bytes)
            self._reserve(share, size_bytes)
            self._note_most()

    def _expect_as_much(self, share: BudgetShare) -> None:
        """Items that are not finished are supposed to grow as much as one has: those that come, and those that are on their way."""
        if share.most_bytes <= share.asked_bytes * self._supposed_growth or not share.asked_bytes:
            return
        self._growth = share.most_bytes / share.asked_bytes
        for other in self._shares:
            if not other.is_finished:
                self._reserve(other, max(other.reserved_bytes, self._grown(other.asked_bytes)))

    def release(self, share: BudgetShare) -> None:
        """The consumer has the item."""
        with self._lock:
            if share in self._shares:
                self._shares.remove(share)
                self._reserved_bytes -= share.reserved_bytes
                self._wake()

    def trim(self) -> None:
        """Releases free memory for which there is no room.

        What columns lay in is used again by items, whose part of the budget counts it, unless it is more than all may have; what blocks lay in is used by blocks alone.
        """
        is_too_much = sum(ring.made_bytes for ring in self.rings) > self.limit_bytes
        rings = self.rings if is_too_much else [ring for ring in self._block_rings if ring.made_bytes > self._room]
        if not rings:
            return
        with self._lock:
            self._take_back()
            room = self._room
        if sum(ring.free_bytes for ring in rings) > room:
            for ring in rings:
                room -= ring.trim(max(0, room))

    @property
    def _room(self) -> int:
        return self.limit_bytes - self.aside_bytes - self._kept_bytes - self._reserved_bytes

    def close(self) -> None:
        """Whoever waits gets StoppedError."""
        with self._lock:
            self._closed = True
            self._wake()

    def _reserve(self, share: BudgetShare, size_bytes: int) -> None:
        if share in self._shares:
            self._reserved_bytes += size_bytes - share.reserved_bytes
            share.reserved_bytes = size_bytes
            self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._changed.notify_all()

    def _note_most(self) -> int:
        self._take_back()
        held = self._kept_bytes + sum([share.held_bytes for share in self._shares])
        held += sum([ring.free_bytes for ring in self.rings])
        self.most_bytes = max(self.most_bytes, held)
        return held

    def _take_back(self) -> None:
        while self._gone:
            kept = self._gone.popleft()
            self._kept.discard(kept)
            self._kept_bytes -= kept.size_bytes


class _Kept(weakref.ref[Any]):
    """Something that is counted until it is gone."""

    __slots__ = ("size_bytes",)
    __hash__, __eq__ = object.__hash__, object.__eq__  # arrays have neither
    size_bytes: int

    def __new__(cls, thing: Any, gone: Callable[[_Kept], None], size_bytes: int) -> Self:
        made = super().__new__(cls, thing, gone)
        made.size_bytes = size_bytes
        return made

    def __init__(self, thing: Any, gone: Callable[[_Kept], None], size_bytes: int) -> None:
        super().__init__(thing, gone)  # type: ignore[call-arg]  # the stub does not know weakref.ref's own
