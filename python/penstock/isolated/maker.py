"""The loader in the child: makes items ahead of the one in the parent, which takes them."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.cancel import LOOK_S
from penstock.core.spec import Field
from penstock.deliver.numpy import ToNumpy
from penstock.deliver.ranks import Ranks
from penstock.isolated.messages import Begin, Column, Made, Places, failed
from penstock.isolated.sent import Setup
from penstock.loader import Loader
from penstock.order.cursor import Position
from penstock.processes.link import Link, sendable
from penstock.processes.memory import Regions
from penstock.processes.wire import EndedError

#: Items on their way beyond those that were taken: two of small ones, since an answer takes longer than they do.
_SMALL_BYTES, _FEW, _MORE = 4 << 20, 1, 2


class ToParent(ToNumpy):
    """Delivers columns as they are, with their fields: the parent makes the framework's types of them. Slots lie in memory that it can map."""

    def __init__(self, regions: Regions) -> None:
        self.new_memory = regions  # type: ignore[assignment]

    def convert(self, column: Any, field: Field) -> Column:
        """One column of an item, in a worker thread."""
        return Column(column, field)


class Maker(Loader[Any]):
    """Makes items of a stream, one after the other, in a thread of its own. with_ids: a ledger in the parent wants them."""

    def __init__(self, setup: Setup, link: Link, regions: Regions) -> None:
        self._link, self._to_parent = link, ToParent(regions)
        options = dict(setup.options)
        self._with_ids = options.pop("with_ids")
        super().__init__(setup.dataset, **options)
        self._number: int | None = None  # of the stream that is wanted
        self._room = 0  # how many more of its items may be sent
        self._wanted = threading.Condition()
        self._making = threading.Lock()
        threading.Thread(target=self._make, name="penstock-isolated", daemon=True).start()

    def _open_deliver(self, *_: Any, **__: Any) -> Any:
        return self._to_parent

    # What the parent says

    def begin(self, begin: Begin) -> None:
        """Items are made from here on."""
        self.stop()
        try:
            self._ranks = Ranks(rank=begin.ranks[0], world_size=begin.ranks[1])
            self._wants_equal_parts = begin.equal_parts
            self._share_now()
            self._use_weights(begin.weights)
            self._move(begin.position)
            self._lowered.lanes.begin(begin.position, begin.places)
        except Exception as error:
            self._link.send(failed(begin.number, error))
            return
        with self._wanted:
            self._number = begin.number
            self._room = _FEW if self._lowered.item_bytes * self._lowered.steps_per_item > _SMALL_BYTES else _MORE
            self._wanted.notify()

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
        self._stop()
        while not self._making.acquire(timeout=LOOK_S):
            with suppress(Exception):  # whoever makes one meets the same
                self._stop()
        self._making.release()

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
            if not isinstance(made, Made) or self._progress.epoch >= self._until:
                self._number = None  # the parent begins another stream, if it wants more
        try:
            self._link.send(made)
        except MemoryError as error:  # for a copy that others can map
            self._link.send(failed(number, error))

    def _made(self, number: int) -> Made:
        item = self._next_item()
        steps = range(item.step, item.step + item.steps + 1)
        lanes = self._lowered.lanes
        places: list[Places] = [lanes.places(Position(item.epoch, step)) for step in steps] if lanes else []
        ids, draws = item.planned if self._with_ids else (None, None)
        self._move(self._normal(Position(item.epoch, item.step + item.steps)))
        return Made(
            number=number,
            work=item.work,
            rows_per_step=item.rows_per_step,
            columns={name: _sendable(column) for name, column in item.columns.items()},
            ids=ids,
            draws=draws,
            places=places,
        )

    def _move(self, position: Position) -> None:
        self._progress.epoch, self._progress.step = position.epoch, position.step


def _sendable(column: Column) -> Column:
    if not isinstance(column.values, (np.ndarray, pa.Array)):
        return column
    return Column(sendable({"": column.values})[""], column.field)
