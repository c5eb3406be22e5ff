"""Work may carry the rows that it takes: orders hold nothing of what is asked of them."""

from __future__ import annotations

import numpy as np

from penstock.order.protocol import NEVER, is_open
from penstock.order.rows.by_id import ListedRows
from penstock.order.rows.lane_rows import LANE_ROWS, LaneRows
from penstock.order.rows.natural import Natural
from penstock.order.rows.segments import Segments
from penstock.order.steps.asked import AskedById, AskedOfLanes
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Cursor, Work


def natural(rows: int, lanes: int) -> Natural:
    return Natural(segments=Segments(((0, rows, 1),)), lanes=lanes, rows_per_lane=1)


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def test_rows_of_lanes_come_lane_after_lane() -> None:
    """Rows 2 and 3 of lane 1, then row 0 of lane 0."""
    order = BatchOrder(rows=LaneRows(first_id=100, lanes=3, rows_per_lane=2))
    asked = AskedOfLanes(lane=ids(1, 0), first=ids(2, 0), count=ids(2, 1), later=ids(1, 4, NEVER))
    cursor, work = Cursor(order, 0, 1), Work(0, 7, 1, asked)
    assert cursor.ids(work).tolist() == [100 + LANE_ROWS + 2, 100 + LANE_ROWS + 3, 100]
    assert cursor.draws(work) is None
    lane, row = cursor.place(work, ids(2, 0, 1))
    assert (lane.tolist(), row.tolist()) == ([0, 1, 1], [0, 2, 3])
    assert cursor.next_rows(work).tolist() == [0, 2, NEVER]
    assert cursor.next_rows(work, after=True).tolist() == [1, 4, NEVER]
    assert work.step_in_epoch is None


def test_rows_by_their_ids_take_the_place_of_those_of_a_step() -> None:
    cursor = Cursor(BatchOrder(rows=ListedRows(input=natural(90, 3))), 0, 1)
    work = Work(2, 0, 1, AskedById(row_ids=ids(5, 3, 5), row_draws=ids(2, 2, 3), step=8))
    assert cursor.ids(work).tolist() == [5, 3, 5]
    assert cursor.draws(work) is not None
    assert work.step_in_epoch == 8
    assert not cursor.is_open_after(work, ids(0), ids(1)).any(), "each is read by itself"


def test_other_work_is_steps_of_the_order() -> None:
    order = BatchOrder(rows=natural(90, 3))
    cursor, work = Cursor(order, 1, 3), Work(0, 4, 2)
    assert cursor.ids(work).tolist() == order.ids(0, 4, 2, 1, 3).tolist()
    assert cursor.next_rows(work).tolist() == order.next_rows(4, 1, 3).tolist()
    assert cursor.next_rows(work, after=True).tolist() == order.next_rows(6, 1, 3).tolist()
    assert work.step_in_epoch == 4


def test_what_work_carries_is_no_part_of_which_work_it_is() -> None:
    asked = AskedById(row_ids=ids(5))
    assert Work(0, 1, 1, asked) == Work(0, 1, 1)
    assert {Work(0, 1, 1): "here"}[Work(0, 1, 1, asked)] == "here"


def test_a_block_of_all_lanes_is_open_until_the_last_lane_is_there() -> None:
    assert is_open(ids(3, 9, NEVER), ids(0, 1, -1, -1), ids(3, 10, 4, 3)).tolist() == [False, True, True, False]
