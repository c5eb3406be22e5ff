"""How many rows each lane stage has given before a place of the order above them."""

from __future__ import annotations

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder
from penstock.order.rows.concat import ConcatRows
from penstock.order.rows.ends import BesideRows, CutRows
from penstock.order.rows.lane_rows import LaneRows
from penstock.order.rows.mixed import Mixed
from penstock.order.rows.zipped import Zipped


def rows_given(order: RowOrder, epoch: int, row: Ids) -> dict[int, Ids]:
    """How many rows each stage has given before row `row[lane]` of every lane, by the first id of its rows."""
    if isinstance(order, LaneRows):
        return {order.first_id: order.given(epoch, row)}
    if isinstance(order, Zipped):
        return rows_given(order.input, epoch, row)
    if isinstance(order, CutRows):
        return rows_given(order.input, epoch, order.begins + row)
    found: dict[int, Ids] = {}
    if isinstance(order, Mixed):
        for number, below in enumerate(order.inputs):
            found |= rows_given(below, 0, order.given(number, epoch, row))
    if isinstance(order, ConcatRows) and order.keeps_lanes:
        for number, below in enumerate(order.inputs):
            found |= rows_given(below, epoch, order.given(number, row))
    if isinstance(order, BesideRows):
        for below in order.inputs:
            found |= rows_given(below, epoch, row)
    return found
