"""The last stage: columns become what the user's framework works with."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.core.rows import spans_to_arrow
from penstock.core.spec import Field, Spans
from penstock.deliver import Deliver
from penstock.engine.ordering import Where
from penstock.engine.slots import Slots
from penstock.engine.stage import Columned, Delivered, Item
from penstock.order.batches import BatchOrder, Last

#: The column that says which rows are padding, where a plan pads.
VALID = "valid"


class DeliverColumns:
    """Columns to what the user's framework works with."""

    def __init__(self, deliver: Deliver, order: BatchOrder, where: Where, slots: Slots) -> None:
        self._deliver, self._order, self._where, self._slots = deliver, order, where, slots

    def __call__(self, item: Columned) -> Delivered:
        """The item, ready for the consumer; with a column that says which rows are padding, where the plan pads."""
        (part,) = item.parts
        columns, spec = part.columns, part.spec
        if self._order.last is Last.PAD:
            if VALID in columns:
                raise PlanError(f"pad=True adds a column {VALID!r}, and there is one already; rename it")
            columns, spec = {**columns, VALID: self._valid(item)}, {**spec, VALID: Field("bool")}
        converted = {
            name: self._deliver.convert(
                spans_to_arrow(column, self._slots.take) if isinstance(column, Spans) else column, spec[name]
            )
            for name, column in columns.items()
        }
        return item.to(Delivered, columns=self._deliver.finish(converted, item.rows_per_step))

    def _valid(self, item: Item) -> Any:
        rank, world_size = self._where.rank, self._where.world_size
        steps = range(item.step, item.step + item.steps)
        return np.concatenate([self._order.valid(step, rank, world_size) for step in steps])
