"""What a lane stage needs to go on: for each lane a few numbers, and no content."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import StateError
from penstock.core.spec import Ids
from penstock.order.lane_rows import LaneRows
from penstock.order.mixed import Mixed
from penstock.order.protocol import RowOrder

#: A lane's place in a stage: the first row of its input that still matters, how many of the rows that come of it and what follows are used,
#: the stage's own state before that row, and the places in the stages below, each of the same form.
Place = list[Any]

BEGIN: Place = [0, 0, None, []]


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a group was fed: the first row that it gave, the input's row at which it begins, the state then, and how many of its rows were left out."""

    first: int
    row: int
    state: Any
    left_out: int = 0


@dataclass
class Lane:
    """What is known of one lane while it runs.

    issued: the next row of the input to ask for. fed: rows of it that were fed. made: rows that came out, counted from the first of all. left_out: how many that
    come next are used already. unlucky: rows fed since one came out. state: the stage's. marks: where groups were fed that may be asked for.
    """

    issued: int = 0
    fed: int = 0
    made: int = 0
    left_out: int = 0
    unlucky: int = 0
    state: Any = None
    marks: deque[Mark] = field(default_factory=deque)

    def begin(self, made: int, place: Place) -> None:
        """Goes on at a place, with the row number `made`."""
        row, self.left_out, self.state, _ = place
        self.issued = self.fed = row
        self.made, self.unlucky = made, 0
        self.marks = deque([Mark(made, row, self.state, self.left_out)])

    def mark_at(self, row: int) -> Mark:
        """The last group that begins at an output row or before it."""
        return next(mark for mark in reversed(self.marks) if mark.first <= row)

    def forget_before(self, row: int) -> Mark:
        """Forgets groups whose rows are all before an output row; the first that is left."""
        while len(self.marks) > 1 and self.marks[1].first <= row:
            self.marks.popleft()
        return self.marks[0]


def rows_given(order: RowOrder, epoch: int, row: Ids) -> dict[int, Ids]:
    """How many rows each lane stage has given before row `row[lane]` of every lane, by the first id of its rows."""
    if isinstance(order, LaneRows):
        return {order.first_id: order.given(epoch, row)}
    found: dict[int, Ids] = {}
    if isinstance(order, Mixed):
        for number, below in enumerate(order.inputs):
            found |= rows_given(below, 0, order.given(number, epoch, row))
    return found


def merge_states(states: Sequence[Any]) -> dict[str, Any]:
    """One state out of those of all ranks, whose lane stages each know their own lanes: merge_states(parts).

    `load_state_dict` of any number of ranks takes what this returns. Parts may come in any order; each is what `state_dict()` of a rank returned
    at the same step. Raises StateError if steps or plans differ, or if two ranks say different things of one lane.
    """
    states = list(states)
    if not states or not all(isinstance(state, dict) for state in states):
        raise StateError("merge_states: pass the list of what state_dict() returned on every rank")
    first = {name: value for name, value in states[0].items() if name != "lanes"}
    lanes: dict[str, Any] = {}
    for number, state in enumerate(states):
        other = {name: value for name, value in state.items() if name != "lanes"}
        if differing := sorted(name for name in first.keys() | other.keys() if first.get(name) != other.get(name)):
            name = differing[0]
            raise StateError(
                f"merge_states: part {number} says {name}={other.get(name)!r} and part 0 {first.get(name)!r}; save all parts after the same step"
            )
        for lane, places in state.get("lanes", {}).items():
            if lanes.setdefault(lane, places) != places:
                raise StateError(
                    f"merge_states: part {number} has another place for lane {lane} than an earlier part; save all parts after the same step"
                )
    return first | ({"lanes": dict(sorted(lanes.items(), key=lambda one: int(one[0])))} if lanes else {})


def checked_lanes(lanes: Any, wanted: Sequence[int]) -> dict[int, list[Place]]:
    """The places of a saved state, by lane; StateError where one that is wanted is missing, or is no place."""
    if not isinstance(lanes, dict):
        raise StateError(f"the state's lanes are {type(lanes).__name__}; it was changed")
    if missing := [lane for lane in wanted if str(lane) not in lanes]:
        raise StateError(
            f"the state knows {len(lanes):,} lanes, and lane {missing[0]} is not among them; it is a part of one rank: pass all ranks' parts, "
            f"load_state_dict(penstock.merge_states([…]))"
        )
    found = {lane: lanes[str(lane)] for lane in wanted}
    for lane, places in found.items():
        if not isinstance(places, list) or not all(map(_is_place, places)):
            raise StateError(f"the state says {places!r} of lane {lane}; it was changed")
    return found


def _is_place(place: Any) -> bool:
    if not isinstance(place, list) or len(place) != 4 or not isinstance(place[3], list):
        return False
    return all(isinstance(number, int) and number >= 0 for number in place[:2]) and all(map(_is_place, place[3]))


def lanes_of(share: tuple[int, int], rows_per_lane: int) -> list[int]:
    """The lanes of which a share of the global batch has rows."""
    return list(range(share[0] // rows_per_lane, -(-share[1] // rows_per_lane)))
