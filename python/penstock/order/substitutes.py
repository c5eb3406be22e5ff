"""Which row takes the place of a bad one: arithmetic, so that it is the same on any number of ranks and after every restart."""

from __future__ import annotations

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.kernels import mix
from penstock.order.keys import SUBSTITUTE_KEY
from penstock.order.protocol import RowOrder
from penstock.order.rows.zipped import Zipped
from penstock.order.steps.bucketed import Bucketed

#: So many rows are drawn to find one of the same source; then one of any other will do.
_DRAWN = 256


def substitute(
    order: RowOrder, seed: int, epoch: int, row: tuple[int, int], attempt: int, first_ids: Ids
) -> tuple[int, int]:
    """The id and the draw of the row that takes the place of a row, given by its id and draw, at a given attempt.

    It is one of the epoch's rows, of the same source if one is found, and of the same bucket. first_ids: of the sources' rows.
    """
    order = _rows_alike(order, row[0])
    lane_rows = order.lane_rows()
    edges = np.cumsum(lane_rows)
    source = np.searchsorted(first_ids, row[0], side="right")
    word = mix([seed, SUBSTITUTE_KEY, epoch, row[0], row[1] % 2**64, attempt])
    found = row
    for number in range(_DRAWN):
        place = mix([word, number]) % int(edges[-1])
        lane = int(np.searchsorted(edges, place, side="right"))
        at = epoch, lane, place - int(edges[lane] - lane_rows[lane]), 1
        row_id = int(order.ids(*at)[0])
        if row_id != row[0]:
            found = row_id, int(order.draws(*at)[0])
            if np.searchsorted(first_ids, row_id, side="right") == source:
                break
    return found


def _rows_alike(order: RowOrder, row_id: int) -> RowOrder:
    """The rows of an order among which one may take the place of another."""
    while isinstance(order, Zipped):
        order = order.input
    return order.inputs[int(order.bucket_of[row_id])] if isinstance(order, Bucketed) else order
