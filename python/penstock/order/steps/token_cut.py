"""Which rows make steps of a bounded number of tokens, by their lengths alone: see `tokens`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.verbs.lengths import Lengths
from penstock.order.lanes import MAX_LANES

#: A lane of the usual number of lanes has room for so many of the longest rows: fewer would leave much of it empty.
_LONGEST_A_LANE = 4
#: A group has at least so many steps, so that epochs differ in which rows come together.
_FEWEST_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class TokenBudget:
    """What a lane has room for in a step. lane_tokens: so many. is_padded: rows count as padded to the longest, else as long as they are.

    multiple_of: padded lengths are rounded up to this. fill: a group's rows are at least so long, as a share of its longest. drop_last: whether
    rows that make no step are dropped.
    """

    lane_tokens: int
    lanes: int
    is_padded: bool = True
    multiple_of: int = 1
    fill: float = 0.9
    drop_last: bool = False

    def costs(self, lengths: npt.NDArray[np.integer]) -> Ids:
        """What rows cost; nothing is free, so that their number is bounded too."""
        return np.maximum(-(-lengths.astype(np.int64) // self.multiple_of) * self.multiple_of, 1)


@dataclass(frozen=True, kw_only=True)
class LengthGroup:
    """Neighbours in the rows sorted by length, longest first: [first, end). rows_per_lane: that each of its steps takes."""

    first: int
    end: int
    rows_per_lane: int


def default_token_lanes(max_tokens: int, longest: int) -> int:
    """The largest power of two up to 64 of which a lane holds some of the longest rows: default_token_lanes(32_768, 1_024) == 8."""
    lanes = MAX_LANES
    while lanes > 1 and max_tokens // lanes < _LONGEST_A_LANE * longest:
        lanes //= 2
    return lanes


@lru_cache(maxsize=2)
def cut(lengths: Lengths, budget: TokenBudget) -> tuple[Ids, tuple[LengthGroup, ...]]:
    """The rows, group after group from the longest on, and in each group as they lie in the data. All groups but the last are whole steps.

    For lengths [2, 9, 9, 9, 9, 2, 9, 9, 9, 9, 2] and two lanes of 10 tokens: rows [1, 2, 3, 4, 6, 7, 8, 9, 0, 5, 10], and the groups [0, 8) of 1 row
    a lane, which is four steps, and [8, 11) of up to 5, a short one.
    """
    costs = budget.costs(lengths.numbers)
    shorter = costs.max() - costs
    turn = np.argsort(shorter.astype(np.min_scalar_type(int(shorter.max()))), kind="stable")
    costs, groups, first = costs[turn], list[LengthGroup](), 0
    total = np.cumsum(costs)
    while first < len(costs):
        rows = _rows_per_lane(costs, total, first, budget)
        size = rows * budget.lanes
        steps = (len(costs) - first) // size
        if not steps:
            groups = _with_last(groups, costs, first, rows, budget)
            break
        similar = int(np.searchsorted(-costs, -budget.fill * costs[first], side="right")) - first
        end = first + min(steps, max(_FEWEST_STEPS, similar // size)) * size
        groups.append(LengthGroup(first=first, end=end, rows_per_lane=rows))
        first = end
    for group in groups:
        turn[group.first : group.end].sort()
    return turn, tuple(groups)


def _with_last(groups: list[LengthGroup], costs: Ids, first: int, rows: int, budget: TokenBudget) -> list[LengthGroup]:
    """The groups with the rows from one on, too few for a step: in the last group, if that costs little, so that each epoch leaves others over."""
    left = len(costs) - first
    if groups and (left < budget.lanes or costs[-1] >= budget.fill * costs[groups[-1].first]):
        *groups, last = groups
        return [*groups, LengthGroup(first=last.first, end=len(costs), rows_per_lane=last.rows_per_lane)]
    if budget.drop_last:  # a full step all the same, of fewer rows
        rows = max(1, left // budget.lanes)
    return [*groups, LengthGroup(first=first, end=len(costs), rows_per_lane=rows)]


def _rows_per_lane(costs: Ids, total: Ids, first: int, budget: TokenBudget) -> int:
    """How many of the rows from one on, the longest of them, a lane has room for."""
    if budget.is_padded:
        return budget.lane_tokens // int(costs[first])
    before = int(total[first] - costs[first])
    return int(np.searchsorted(total, before + budget.lane_tokens, side="right")) - first
