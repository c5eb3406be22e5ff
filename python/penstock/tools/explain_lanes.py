"""What lane stages do to a plan's order, and what its first batch costs, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.rows.ends import parts_of
from penstock.order.rows.mixed import Mixed
from penstock.order.rows.rows_given import rows_given
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.natural import NaturalBatches
from penstock.stages.lanes.feed import LaneFeed


def explain_lanes(order: BatchOrder, feeds: Sequence[LaneFeed]) -> list[str]:
    """Which rows come when, where `feeds` give some of them, and how many rows have to be read before the first batch."""
    every = [*_with_below(feeds)]
    is_shuffled = any(one.shape.is_shuffled for one in (order.rows, *(feed.order.epochs for feed in every)))
    word = "shuffled" if is_shuffled else "in the order of the data"
    first = np.full(order.lanes, order.rows_per_lane, dtype=np.int64)
    return [
        f"{word}, lane by lane: a step is known on the way there, and {_end(order, feeds)}",
        *(f"  before {feed.name}: {rows.words}" for feed in every if (rows := feed.order.epochs).shape.is_shuffled),
        *_first_batch(feeds, rows_given(order.rows, 0, first)),
    ]


def _end(order: BatchOrder, feeds: Sequence[LaneFeed]) -> str:
    """Where an epoch ends, and why."""
    if not isinstance(order, NaturalBatches):
        return "every epoch continues where the one before ended"
    return f"an epoch ends {where_it_ends(order, feeds)}: equal parts while all lanes have some, then what is left, lane after lane"


def where_it_ends(order: NaturalBatches, feeds: Sequence[LaneFeed]) -> str:
    """Where an epoch ends: "where filter(odd) has given all of its rows"."""
    names = [*dict.fromkeys(feed.name for feed in feeds)]
    if ends_by_a_lane(order):
        return f"where a lane of the first dataset has given all of its rows, of {', '.join(names)} (fewer lanes take more rows of one that is filtered strongly)"
    return f"where {' and '.join(names)} {'has' if len(names) == 1 else 'have'} given all of {'its' if len(names) == 1 else 'their'} rows"


def ends_by_a_lane(order: NaturalBatches) -> bool:
    """Whether an epoch ends where one lane has no row left of the dataset whose turn it is."""
    return any(isinstance(one, Mixed) for one in parts_of(order.rows))


def _with_below(feeds: Sequence[LaneFeed]) -> Iterator[LaneFeed]:
    for feed in feeds:
        yield feed
        yield from _with_below(feed.below)


def _first_batch(feeds: Sequence[LaneFeed], given: dict[int, Ids]) -> Iterator[str]:
    """given: how many rows of each lane of a stage's output the first batch needs."""
    for feed in feeds:
        wanted = given[feed.first_id]
        needed = np.where(wanted > 0, 1 if feed.groups is None else feed.groups, 0)
        if feed.is_choice:
            needed = wanted
            yield f"the first batch needs at least {needed.sum():,} rows before {feed.name}, and more where it leaves some out"
        elif feed.groups is None:
            yield f"the first batch needs as many rows before {feed.name} as fill {wanted.sum():,} sequences"
        else:
            yield f"the first batch needs at least {needed.sum():,} rows before {feed.name}: {_together(needed[wanted > 0])}"
        yield from _first_batch(feed.below, rows_given(feed.order.rows, 0, needed))


def _together(groups: Ids) -> str:
    if not len(groups):
        return "none of its rows is in it"
    low, high = int(groups.min()), int(groups.max())
    count = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{count} together in each of {len(groups)} lanes"
