"""What a lane stage needs to continue: for each lane a few numbers, and no content.

A place names a row of the input, and how much of what comes from there on is used. In one lane of a stage that makes several rows of one, and is fed rows 0 to 2 together:

    rows of the input    0            1        2
    what comes of them   a   b   c    d   e    f
    taken                a   b   c    d               place: row 0, used 4
    after a restart     (a) (b) (c)  (d)  e    f      row 0 and what follows is fed again, and the first 4 that come of it are left out

So a state does not grow with what waits to be taken; a restart makes again what was used of the rows that were fed together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.core.arguments import is_whole
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, StateError
from penstock.core.messages import quoted
from penstock.order.rows.lane_rows import LANE_ROWS

#: A `LanePlace` as saved states have it, in JSON: [row, used, state, [places below]].
Place = list[Any]

#: A lane may be fed so many rows, and two epochs of its own, before one must come out; and never more than so many.
_PATIENCE_ROWS, _MOST_PATIENCE_ROWS = 10_000, 1_000_000

#: No place is so far.
_ROWS = 1 << 62


class LanePlace(NamedTuple):
    """A lane's place in a stage.

    row: the first row of its input that is still needed. used: how many of the rows that come of it and what follows are taken already. state: the
    stage's own before that row; of a stage that takes rows in groups, how many make one in this lane, None for as many as the plan says (as in states of
    before 2026-11-24, which so continue as they began). below: the places in the stages below. ends: of several, how many rows each gives in this lane, where that is behind it; else `LANE_ROWS`.
    """

    row: int
    used: int
    state: Any
    below: tuple[LanePlace, ...] = ()
    ends: tuple[int, ...] = ()

    @classmethod
    def of(cls, saved: Place) -> LanePlace:
        """The place that a state saved."""
        row, used, state, below, *ends = saved
        return cls(row, used, state, tuple(map(cls.of, below)), tuple(*ends))

    def saved(self) -> Place:
        """As states have it."""
        place = [self.row, self.used, self.state, [place.saved() for place in self.below]]
        return [*place, [*self.ends]] if self.ends else place


@dataclass(frozen=True, eq=False)
class _Mark:
    """Where rows were fed.

    of[lane]: the first of a lane's groups, -1 for none. first: the rows that lanes had given before. row: their rows of the input that were
    used up. left_out: how many that come next are used already. states: of the groups.
    """

    of: Ids
    first: Ids
    row: Ids
    left_out: Ids
    states: Sequence[Any]


class LaneProgress:
    """What is known of lanes while they run, a number each.

    fed: rows of the input that are used up. made: rows that came out, counted from the first of all. left_out: how many that
    come next are used already. unlucky: rows fed since one came out.
    """

    def __init__(self, made: Ids, places: Sequence[LanePlace]) -> None:
        self.made = made.copy()
        self.fed = np.array([place.row for place in places], dtype=np.int64)
        self.left_out = np.array([place.used for place in places], dtype=np.int64)
        if (self.left_out > made).any():  # so many rows would be read to be left out
            raise StateError(
                f"the state says that {self.left_out.max():,} rows of a lane are used, which has given {made.max():,}; it was changed"
            )
        self.unlucky = np.zeros_like(made)
        self.total_fed = self.total_made = 0
        self._states = [place.state for place in places]
        nothing = np.arange(len(made))
        self._marks: deque[_Mark] = deque([_Mark(nothing, self.made, self.fed, self.left_out, [*self._states])])

    def feed(
        self, lane: Ids, count: Ids, used: Ids, given: Ids, before: Sequence[Any], after: Sequence[Any]
    ) -> tuple[Ids, Ids]:
        """Takes note of groups of rows, those of a lane one after the other; where each lane's rows begin among what came out, and how many they are."""
        lanes = len(self.made)
        of = np.full(lanes, -1)
        of[lane[::-1]] = np.arange(len(lane))[::-1]  # backwards, so that the first of a lane's groups is what stays
        self._marks.append(_Mark(of, self.made, self.fed, self.left_out, before))
        rows, taken, came = (np.bincount(lane, one, lanes).astype(np.int64) for one in (count, used, given))
        begins = np.cumsum(given) - given
        left_out = np.minimum(self.left_out, came)
        self.left_out, self.made, self.fed = self.left_out - left_out, self.made + came - left_out, self.fed + taken
        self.unlucky = np.where(came > 0, 0, self.unlucky + rows)
        self.total_fed, self.total_made = self.total_fed + int(rows.sum()), self.total_made + int(came.sum())
        for one, state in zip(lane.tolist(), after, strict=True):
            self._states[one] = state
        return np.where(of >= 0, begins[of], 0), came

    def place(self, lane: int, row: int) -> LanePlace:
        """How to continue with an output row; what is below is not known here."""
        if row >= self.made[lane]:
            return LanePlace(int(self.fed[lane]), int(row - self.made[lane] + self.left_out[lane]), self._states[lane])
        mark = next(mark for mark in reversed(self._marks) if mark.of[lane] >= 0 and mark.first[lane] <= row)
        used = int(row - mark.first[lane] + mark.left_out[lane])
        return LanePlace(int(mark.row[lane]), used, mark.states[mark.of[lane]])

    @property
    def states(self) -> list[Any]:
        """The stage's state in each lane, behind what is used up."""
        return [*self._states]

    def check_luck(self, name: str, epoch_rows: Ids | None) -> None:
        """DataError where no row comes out of a lane for so long that none may ever do. name: of the stage; epoch_rows: of each lane of its input."""
        worst = int(self.unlucky.argmax())
        most = 0 if epoch_rows is None else 2 * int(epoch_rows.max())
        if self.unlucky[worst] >= min(_MOST_PATIENCE_ROWS, max(_PATIENCE_ROWS, most)):
            raise DataError(
                f"{name}: of the last {self.unlucky[worst]:,} rows of lane {worst} none came out, and of all {self.total_fed:,} rows so far "
                f"{self.total_made:,} did; look at what it does with a batch, and shuffle before it if such rows lie together"
            )

    def set(self, lane: int, place: LanePlace, row: int) -> None:
        """A lane of which nothing was fed stands at a place, with this row of its output."""
        self.made, self.fed, self.left_out = (
            self.made.copy(),
            self.fed.copy(),
            self.left_out.copy(),
        )  # marks hold those of before
        self.made[lane], self.fed[lane], self.left_out[lane] = row, place.row, place.used
        self._states[lane] = place.state

    def leave_out(self, lanes: Ids, row: Ids) -> None:
        """The next rows that are wanted of some lanes are these, one a lane: those before them are left out as they come."""
        more = np.maximum(row - self.made, 0)[lanes]
        self.made, self.left_out = self.made.copy(), self.left_out.copy()  # marks hold those of before
        self.made[lanes] += more
        self.left_out[lanes] += more

    def go_back(self, row: Ids) -> None:
        """Returns to an output row of each lane, from which on what came is made again."""
        places = [self.place(lane, at) for lane, at in enumerate(row.tolist())]
        # What is made again is noted anew, since it may be fed in other pieces.
        for mark in self._marks:
            mark.of[mark.first > row] = -1
        self.made, self._states = row.copy(), [place.state for place in places]
        self.fed = np.array([place.row for place in places], dtype=np.int64)
        self.left_out = np.array([place.used for place in places], dtype=np.int64)

    def forget_before(self, row: Ids) -> None:
        """Forgets what no output row from these on, one a lane, needs."""
        while len(self._marks) > 1 and (self._marks[1].first <= row).all():
            gone, next_one = self._marks.popleft(), self._marks.popleft()
            stays = next_one.of < 0  # what was fed before still says where these lanes stand
            states = [
                gone.states[lane] if old else next_one.states[next_one.of[lane]]
                for lane, old in enumerate(stays.tolist())
            ]
            of = np.arange(len(row))
            first, at, left_out = (
                np.where(stays, getattr(gone, name), getattr(next_one, name)) for name in ("first", "row", "left_out")
            )
            self._marks.appendleft(_Mark(of, first, at, left_out, states))

    @property
    def oldest(self) -> Ids:
        """The rows of the input that are still needed to say how to continue."""
        return self._marks[0].row


def merge_states(states: Sequence[Any]) -> dict[str, Any]:
    """One state out of those of all ranks, whose lane stages each know their own lanes.

    `load_state_dict` of any number of ranks takes what this returns.

    Args:
        states: what `state_dict()` of each rank returned at the same step, in any order.

    Returns:
        A state: plain JSON.

    Raises:
        StateError: if steps or plans differ.

    Example:
        parts = [ps.Loader(data.batch(4), rank=rank, world_size=2).state_dict() for rank in range(2)]
        ps.Loader(data.batch(4)).load_state_dict(ps.merge_states(parts))
    """
    states = tuple(states) if isinstance(states, (list, tuple, Iterator)) else ()
    if not states or not all(isinstance(state, dict) for state in states):
        raise StateError("merge_states: pass the list of what state_dict() returned on every rank")
    first = {name: value for name, value in states[0].items() if name != "lanes"}
    lanes: dict[str, Any] = {}
    for number, state in enumerate(states):
        other = {name: value for name, value in state.items() if name != "lanes"}
        if differing := sorted(name for name in first.keys() | other.keys() if first.get(name) != other.get(name)):
            name = differing[0]
            raise StateError(
                f"merge_states: part {number} says {name}={quoted(other.get(name))} and part 0 {quoted(first.get(name))}; save all parts after the same step"
            )
        found = state.get("lanes", {})
        if not isinstance(found, dict) or not all(
            isinstance(lane, str) and lane.isdecimal() and len(lane) < 20 for lane in found
        ):
            raise StateError(f"merge_states: part {number} has the lanes {quoted(found)}; it was changed")
        for lane, places in found.items():
            if not isinstance(places, list) or not all(map(_is_place, places)):
                raise StateError(f"merge_states: part {number} says {quoted(places)} of lane {lane}; it was changed")
            lanes[lane] = _further(lanes.get(lane, places), places)
    return first | ({"lanes": dict(sorted(lanes.items(), key=lambda one: int(one[0])))} if lanes else {})


def _further(one: list[Place], other: list[Place]) -> list[Place]:
    """Of two ranks' places of a lane, that from which fewer rows are read again: ranks that share a lane may have fed it in other pieces."""
    return max(one, other, key=lambda places: [place[0] for place in places])


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
            raise StateError(f"the state says {quoted(places)} of lane {lane}; it was changed")
    return found


def checked_group(state: Any, rows: int) -> int:
    """How many rows a stage takes together in a lane, `rows` where its state does not say; StateError if that cannot be."""
    if state is None:
        return rows
    if not is_whole(state) or not 1 <= state <= rows:
        raise StateError(
            f"the state says that a lane's rows are taken {quoted(state)} together, of {rows:,} at most; it was changed"
        )
    return int(state)


def _is_place(place: Any) -> bool:
    if not isinstance(place, list) or not 4 <= len(place) <= 5 or not isinstance(place[3], list):
        return False
    if len(place) == 5 and not (
        isinstance(place[4], list) and all(is_whole(rows) and 0 <= rows <= LANE_ROWS for rows in place[4])
    ):
        return False
    return all(isinstance(number, int) and 0 <= number < _ROWS for number in place[:2]) and all(
        map(_is_place, place[3])
    )


def lanes_of(share: tuple[int, int], rows_per_lane: int) -> list[int]:
    """The lanes of which a share of the global batch has rows."""
    return list(range(share[0] // rows_per_lane, -(-share[1] // rows_per_lane)))
