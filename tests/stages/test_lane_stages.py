"""The pieces of a lane stage alone: what is fed again, what waits to be taken, and where a lane stands."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from penstock.core.columns.spec import Columns, Field
from penstock.core.errors import DataError, PlanError
from penstock.order.steps.asked import AskedOfLanes
from penstock.order.steps.cursor import Work
from penstock.runtime.stage import Columned, ItemPart, LaneResult
from penstock.stages.lanes.feeder import Feeder
from penstock.stages.lanes.made_rows import MadeRows
from penstock.stages.lanes.stages import FedRows
from penstock.stages.lanes.states import LanePlace

SPEC = {"x": Field("int64")}


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def allocate(_: str, field: Field, rows: int) -> Any:
    return np.empty((rows, *field.shape), dtype=field.numpy_dtype)


def made(*rows: int, counts: tuple[int, ...], spec: dict[str, Field] = SPEC) -> LaneResult:
    columns: Columns = {"x": ids(*rows)}
    return LaneResult(
        columns=columns, spec=spec, rows=np.arange(len(rows)), counts=ids(*counts), used=ids(*counts), states=[]
    )


class Pairs:
    """Gives every two rows of a lane, and leaves the one that is over; its state counts pairs."""

    rows: int | None = None
    is_choice = False
    name = "pairs"

    def __init__(self) -> None:
        self.fed: list[tuple[list[int], list[int], list[Any]]] = []

    def feed(self, fed: FedRows) -> LaneResult:
        columns: dict[str, Any] = dict(fed.columns)
        self.fed.append((columns["x"].tolist(), fed.counts.tolist(), [*fed.states]))
        used = fed.counts // 2 * 2
        begins = fed.edges[:-1]
        rows = np.concatenate([np.arange(begin, begin + count) for begin, count in zip(begins, used, strict=True)])
        states = [(state or 0) + int(count) // 2 for state, count in zip(fed.states, used, strict=True)]
        return LaneResult(columns=fed.columns, spec=fed.spec, rows=rows, counts=used, used=used, states=states)


def item(number: int, rows: dict[int, list[int]]) -> Columned:
    """Rows of lanes, whose values are their ids."""
    lane, count = ids(*rows), ids(*map(len, rows.values()))
    values = ids(*(value for some in rows.values() for value in some))
    asked = AskedOfLanes(lane=lane, first=ids(*(some[0] for some in rows.values())), count=count, later=ids(0))
    part = ItemPart((0, 1), None, {"x": values}, SPEC)
    return Columned(work=Work(0, number, 1, asked), rows_per_step=len(values), find_ids=lambda: values, parts=[part])


def test_what_a_stage_leaves_is_fed_again_before_the_next_rows_of_its_lane() -> None:
    stage = Pairs()
    feeder = Feeder(stage, str, seed=0, states=[None, None], threads=1)
    first = feeder(item(0, {0: [1, 2, 3], 1: [11, 12]}))
    second = feeder(item(1, {1: [13, 14], 0: [4, 5]}))
    assert stage.fed == [([1, 2, 3, 11, 12], [3, 2], [None, None]), ([13, 14, 3, 4, 5], [2, 3], [1, 1])]
    assert first.states == [None, None]
    assert second.states == [1, 1], "those before its rows"
    assert second.made.used.tolist() == [2, 2]


def test_rows_are_taken_from_whichever_pieces_hold_them() -> None:
    rows = MadeRows("pairs", lambda _, __: None, threads=1)
    for one, first, end in ((made(1, 2, 11, counts=(2, 1)), ids(0, 0), ids(2, 1)), (made(3, 12, counts=(1, 1)), ids(2, 1), ids(3, 2))):  # fmt: skip
        rows.check(one)
        rows.keep(one, first, end, begin=np.cumsum(one.counts) - one.counts)
    taken = rows.take(ids(1, 0, 0, 1), ids(1, 2, 0, 0), allocate)
    assert dict[str, Any](taken)["x"].tolist() == [12, 3, 1, 11]
    rows.forget_before(ids(2, 1))
    assert dict[str, Any](rows.take(ids(0), ids(2), allocate))["x"].tolist() == [3]
    with pytest.raises(DataError, match="pairs: 1 rows that it gave are lost"):
        rows.take(ids(0), ids(1), allocate)


def test_all_rows_have_the_same_columns() -> None:
    rows = MadeRows("pairs", lambda _, __: None, threads=1)
    rows.check(made(1, counts=(1,)))
    rows.check(made(counts=(0,), spec={}))
    with pytest.raises(PlanError, match="pairs: gave x: float32, after x: int64; return the same columns"):
        rows.check(made(1, counts=(1,), spec={"x": Field("float32")}))


def test_a_place_is_the_same_list_in_a_state_as_ever() -> None:
    saved = [7, 2, None, [[40, 0, 16, []], [3, 1, {"a": 1}, []]]]
    place = LanePlace.of(saved)
    assert (place.row, place.used, place.below[0].state) == (7, 2, 16)
    assert json.dumps(place.saved()) == json.dumps(saved)
