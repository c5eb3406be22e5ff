"""What the lanes of a plan whose epochs end with its data read of it in an epoch, as work for the run below its lane stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.lower.lowered import Lowered, Stages
from penstock.order.protocol import NEVER
from penstock.order.steps.asked import AskedOfLanes
from penstock.order.steps.cursor import Work
from penstock.order.steps.demand import DemandOrder

#: Rows that are asked for together, of all lanes.
_TOGETHER = 1024


def lowest_run(lowered: Lowered) -> Stages:
    """The stages that read the data, below the one lane stage and those that it stands on."""
    return lowered.runs[-1]


def works_of_lanes(lowered: Lowered, epoch: int) -> Iterator[Work]:
    """All rows that a rank's lanes are fed with in an epoch of which the ends are known: lanes go on side by side, and then what is left, lane after lane."""
    begin, middle, end = _rows_of_lanes(lowered, epoch)
    number = 0
    for first, last in ((begin, middle), (middle, end)):
        issued = first.copy()
        while (lanes := np.flatnonzero(issued < last)).size:
            count = np.minimum(last[lanes] - issued[lanes], max(1, _TOGETHER // len(lanes)))
            at = issued[lanes]
            issued[lanes] += count
            later = np.where(issued < end, issued, NEVER)
            yield Work(epoch, number, 1, AskedOfLanes(lane=lanes, first=at, count=count, later=later))
            number += 1


def _rows_of_lanes(lowered: Lowered, epoch: int) -> tuple[Ids, Ids, Ids]:
    """Of each lane the first row that this rank reads, where its equal parts are over, and the end of what it reads."""
    order, ranks = lowered.lanes.order_of(epoch), (lowered.where.rank, lowered.where.world_size)
    rows = cast("DemandOrder", lowest_run(lowered).context.order).epochs.lane_rows()
    has_rest = order.rows.lane_rows() > order.even_steps * order.rows_per_lane
    left = rows.copy()
    for lane, places in lowered.lanes.left.get(epoch, {}).items():
        left[lane] = _lowest_row(places[0]) if has_rest[lane] else rows[lane]
    takes_rest = np.zeros(order.lanes, dtype=bool)
    for step in range(order.even_steps, order.steps_per_epoch):
        takes_rest[order.parts(step, *ranks)[0]] = True
    begin, middle, end = left.copy(), left.copy(), left.copy()
    begin[lowered.lanes.mine] = 0
    goes_on = takes_rest & has_rest
    end[goes_on] = rows[goes_on]
    if not lowered.lanes.left.get(
        epoch
    ):  # where equal parts are over was not noted: such lanes are run from their first row on
        begin[goes_on] = 0
    return begin, np.maximum(middle, begin), end


def _lowest_row(place: list[Any]) -> int:
    """The row of the data at which a lane stands, by its place in the uppermost stage."""
    while place[3]:
        (place,) = place[3]
    return int(place[0])
