"""First stages whose items hold no more than their columns: they begin as there is room for these."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.budget import Budget, ItemBytes
from penstock.engine.stage import Item
from penstock.order.cursor import Work


class Admitted:
    """Makes items of work, as there is room for them. For several threads."""

    def __init__(self, budget: Budget, rows_per_step: int, item_bytes: ItemBytes, make: Callable[[Work], Item]) -> None:
        self._budget, self._rows_per_step, self._item_bytes, self._make = budget, rows_per_step, item_bytes, make

    def __call__(self, work: Work) -> Item:
        """What is made of the work."""
        asked_bytes = self._item_bytes(work.steps * self._rows_per_step, None)
        share = self._budget.admit(work, asked_bytes=asked_bytes, ends_turn=True)
        self._budget.trim()
        item = self._make(work)
        item.share = share
        return item
