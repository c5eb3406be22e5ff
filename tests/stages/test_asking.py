"""What lanes ask for where an epoch ends with its data."""

from __future__ import annotations

import numpy as np

from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.stages.lanes.asking import Asking
from penstock.stages.lanes.states import LanePlace, LaneProgress


def test_an_end_that_is_known_stays_known_where_the_input_runs_again() -> None:
    """A lane that was asked for to its end is not forgotten when another one turns out to end."""
    begun, ends = np.array([4, 6]), np.array([LANE_ROWS, 9])
    places = [LanePlace(int(row), 0, None) for row in begun]
    asking = Asking(
        LaneProgress(begun, places),
        np.arange(2),
        None,
        issued=begun.copy(),
        taken=begun.copy(),
        together=(100, 100),
        ends=ends,
    )
    asking.want(np.array([50, 50]))
    asked = asking.next_rows()
    assert asked is not None
    assert asked.is_last is not None
    assert asked.is_last.tolist() == [False, True]
    cut = asking.cut(np.array([8, LANE_ROWS]))  # the input went back behind the end of the second lane
    assert cut.is_last is not None
    assert (cut.lane.tolist(), cut.first.tolist(), cut.count.tolist()) == ([0, 1], [4, 6], [4, 3])
    assert cut.is_last.tolist() == [True, True]
