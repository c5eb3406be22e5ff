"""What is asked for again after a failure: the same rows in smaller pieces, until the one that fails is a single group of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.steps.asked import AskedOfLanes

#: A piece that failed is made again in so many.
_PARTS = 8

#: Lanes, the first row and the number of rows of each.
RowsOfLanes = tuple[Ids, Ids, Ids]


@dataclass(frozen=True, eq=False)
class Again:
    """A piece that failed, with its error, in the pieces that are made in its place."""

    error: BaseException
    pieces: Sequence[RowsOfLanes]


def is_single(asked: AskedOfLanes, group: Ids | None) -> bool:
    """Whether a piece is one group, which cannot be smaller."""
    lane = int(asked.lane[0])
    return len(asked.lane) == 1 and int(asked.count[0]) <= (1 if group is None else int(group[lane]))


def smaller(asked: AskedOfLanes, fed: Ids, group: Ids | None) -> Iterator[RowsOfLanes]:
    """A piece in smaller ones, lane after lane, each from the first row `fed[lane]` that is not used up."""
    end, size = np.zeros_like(fed), np.ones_like(fed) if group is None else group
    np.maximum.at(end, asked.lane, asked.first + asked.count)
    lanes = np.unique(asked.lane)
    number = -(-(end - fed)[lanes] // size[lanes])  # the last group of an epoch may be smaller
    lane = np.repeat(lanes, number)
    first = fed[lane] + size[lane] * (np.arange(len(lane)) - np.repeat(np.cumsum(number) - number, number))
    together = max(1, -(-int((-(-asked.count // size[asked.lane])).sum()) // _PARTS))
    for begin in range(0, len(lane), together):
        some, at = lane[begin : begin + together], first[begin : begin + together]
        if group is None:
            some, index, count = np.unique(some, return_index=True, return_counts=True)
            yield some, at[index], count
        else:
            yield some, at, np.minimum(size[some], end[some] - at)
