"""The last stage: columns become what the user's framework works with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import PlanError
from penstock.deliver import Deliver
from penstock.order.steps.batches import BatchOrder, Last
from penstock.resolve.ordering import RankSettings
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned, Delivered, Item, ItemPart
from penstock.stages.moved_ops import MovedOps

#: The column that says which rows are padding, where a plan pads.
VALID = "valid"


class DeliverColumns:
    """Columns to what the user's framework works with. copied_slots: memory from which copies to its device are fast; None where there is none."""

    def __init__(
        self,
        deliver: Deliver,
        order: BatchOrder,
        where: RankSettings,
        slots: Slots,
        on_device: Mapping[str, MovedOps],
        copied_slots: Slots | None = None,
    ) -> None:
        self._deliver, self._order, self._where, self._slots = deliver, order, where, slots
        self._on_device = on_device
        self._take = None if copied_slots is None else copied_slots.take

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
        self._leave_to_device(item, part, converted)
        return item.to(Delivered, columns=self._deliver.finish(converted, item.rows_per_step, self._take))

    def _leave_to_device(self, item: Columned, part: ItemPart, columns: dict[str, Any]) -> None:
        """Says of columns what the device is to make of them."""
        moved = {name: ops for name, ops in self._on_device.items() if name in columns}
        for name, ops in moved.items():
            assert self._deliver.on_device is not None  # or nothing would be left to it
            drawn = ops.drawn(item, part, tuple(columns[name].shape))
            columns[name] = self._deliver.on_device(columns[name], drawn, ops.kernel.pixels)

    def _valid(self, item: Item) -> Any:
        rank, world_size = self._where.rank, self._where.world_size
        steps = range(item.step, item.step + item.steps)
        order = item.work.order or self._order
        return np.concatenate([order.valid(step, rank, world_size) for step in steps])
