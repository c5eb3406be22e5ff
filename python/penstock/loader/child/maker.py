"""What makes items in the child, ahead of the loader in the parent, which takes them."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.cancel import LOOK_S
from penstock.core.columns.spec import Field
from penstock.deliver.numpy import ToNumpy
from penstock.loader.child.messages import BeginItems, EndedEpoch, LoaderFigures, MadeItem, SentColumn, failed
from penstock.loader.child.sent import Setup
from penstock.loader.here import Here
from penstock.loader.options import LoaderOptions
from penstock.loader.reports import LoaderNow
from penstock.loader.share import RankShare, share_of
from penstock.observe.verdict import judged
from penstock.order.steps.cursor import Position
from penstock.processes.link import Link, sendable
from penstock.processes.memory import Regions
from penstock.processes.wire import EndedError

#: Items on their way beyond those that were taken: two of small ones, since an answer takes longer than they do.
_SMALL_BYTES, _FEW, _MORE = 4 << 20, 1, 2


class ToParent(ToNumpy):
    """Delivers columns as they are, with their fields: the parent makes the framework's types of them. Slots lie in memory that it can map."""

    def __init__(self, regions: Regions) -> None:
        self.new_memory = regions  # type: ignore[assignment]

    def convert(self, column: Any, field: Field) -> SentColumn:
        """One column of an item, in a worker thread."""
        return SentColumn(column, field)


class Maker:
    """Makes items of a stream, one after the other, in a thread of its own."""

    def __init__(self, setup: Setup, link: Link, regions: Regions) -> None:
        given = dict(setup.options)
        self._with_ids = given.pop("with_ids")  # a ledger in the parent wants them
        self._dataset, self._options = setup.dataset, LoaderOptions(**given)
        options, deliver = self._options, ToParent(regions)
        bad_samples = options.bad_samples()
        self._link, self._items = link, Here(options, deliver, bad_samples)
        self._new_share = partial(share_of, setup.dataset, options=options, deliver=deliver, bad_samples=bad_samples)
        self._share: RankShare | None = None
        self._here = Position()  # of the next item
        self._number: int | None = None  # of the stream that is wanted
        self._told = 0  # events that the parent knows
        self._room = 0  # how many more of its items may be sent
        self._wanted = threading.Condition()
        self._making = threading.Lock()
        threading.Thread(target=self._make, name="penstock-isolated", daemon=True).start()

    # What the parent says

    def begin(self, begin: BeginItems) -> None:
        """Items are made from here on."""
        self.stop()
        try:
            share = self._share_for(begin)
            self._items.begin(share)
            if begin.ends is not None:
                share.lowered.lanes.know_ends(begin.position.epoch, begin.ends)
            share.lowered.lanes.begin(begin.position, begin.places)
        except Exception as error:
            self._link.send(failed(begin.number, error))
            return
        self._share, self._here = share, begin.position
        with self._wanted:
            self._number = begin.number
            lowered = share.lowered
            self._room = _FEW if lowered.item_bytes * lowered.steps_per_item > _SMALL_BYTES else _MORE
            self._wanted.notify()

    def _share_for(self, begin: BeginItems) -> RankShare:
        share, wanted = self._share, (begin.ranks, begin.equal_parts, begin.changed)
        if share is not None and (share.ranks, share.equal_parts, share.changed) == wanted:
            return share
        return self._new_share(begin.ranks, equal_parts=begin.equal_parts, changed=begin.changed)

    def taken(self, number: int) -> None:
        """One more may be sent."""
        with self._wanted:
            if number == self._number:
                self._room += 1
                self._wanted.notify()

    def stop(self) -> None:
        """Stops making items; returns when none is being made."""
        with self._wanted:
            self._number = None
        self.close()
        while not self._making.acquire(timeout=LOOK_S):
            with suppress(Exception):  # whoever makes one meets the same
                self.close()
        self._making.release()

    def close(self) -> None:
        """Ends threads, and the processes of functions; one item may still be under way."""
        if self._share is not None:
            self._items.close(self._here)

    def figures(self, number: int) -> LoaderFigures:
        """The figures so far, which were asked for by this number."""
        events, self._told, _ = self._items.recorder.told_since(self._told)
        return LoaderFigures(number=number, figures=self._items.stats(), events=events)

    # Making

    def _make(self) -> None:
        while True:
            with self._wanted:
                while self._number is None or not self._room:
                    self._wanted.wait()
                number = self._number
            with suppress(EndedError):  # the parent is gone, as the main thread learns
                self._make_one(number)

    def _make_one(self, number: int) -> None:
        made: Any = None
        with self._making:
            try:
                made = self._made(number)
            except BaseException as error:  # the parent raises it
                made = failed(number, error)
        with self._wanted:
            if number != self._number:
                return  # what failed was stopped, or nobody wants what was made
            self._room -= 1
            if not isinstance(made, MadeItem) or self._here.epoch >= self._items.until:
                self._number = None  # the parent begins another stream, if it wants more
        try:
            self._link.send(made)
        except MemoryError as error:  # for a copy that others can map
            self._link.send(failed(number, error))

    def _made(self, number: int) -> MadeItem | EndedEpoch:
        share = self._share
        assert share is not None  # or no stream would be wanted
        item = self._items.next_item(self._here, self._about_stall)
        if item is None:
            return EndedEpoch(number, share.lowered.lanes.ends_of(self._here.epoch))
        steps = range(item.step, item.step + item.steps + 1)
        places = [self._items.places(Position(item.epoch, step)) for step in steps] if share.lowered.lanes else []
        ids, draws = item.planned if self._with_ids else (None, None)
        self._here = share.normal(Position(item.epoch, item.step + item.steps))
        return MadeItem(
            number=number,
            work=item.work,
            rows_per_step=item.rows_per_step,
            columns={name: _sendable(column) for name, column in item.columns.items()},
            ids=ids,
            draws=draws,
            places=places,
        )

    def _about_stall(self) -> str:
        assert self._share is not None
        now = LoaderNow(dataset=self._dataset, options=self._options, share=self._share, here=self._here, origin="")
        return now.about_stall(judged(self._items.stats()))


def _sendable(column: SentColumn) -> SentColumn:
    if not isinstance(column.values, (np.ndarray, pa.Array)):
        return column
    return SentColumn(sendable({"": column.values})[""], column.field)
