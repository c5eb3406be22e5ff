"""What the plan says an epoch holds, for the ledger: which ids, how often, and where a rank's rows stand in a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.spec import Ids
from penstock.order.batches import BatchOrder, Last
from penstock.order.composed import Composed
from penstock.order.concat import Concat
from penstock.order.mixed import Mixed, Stop
from penstock.order.natural import Natural
from penstock.order.protocol import RowOrder
from penstock.order.repeat import Repeat
from penstock.order.slice import Slice

#: Ids that an epoch chooses from: (first, count, distance, times), where 0 times are any number of times.
Run = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What every epoch holds.

    rows: without padding. last_rows: of the last step's global batch, padding included. runs: where its ids come from, and how often
    each comes at most; None where an order does not say. unique: whether no row comes twice in the same draw, ever.
    """

    steps: int
    rows: int
    last_rows: int
    runs: tuple[Run, ...] | None
    unique: bool = True


def contents_of(order: BatchOrder) -> Contents:
    """What the epochs of an order hold. Where runs hold as many rows as an epoch, each comes exactly so often."""
    steps, size = order.steps_per_epoch, order.batch_size
    if order.last in (Last.PAD, Last.WRAP):
        rows = int(np.minimum(order.rows.lane_rows(), steps * order.rows_per_lane).sum())
        last_rows = size
    else:
        rows = min(order.samples, steps * size)
        last_rows = rows - (steps - 1) * size
    return Contents(steps=steps, rows=rows, last_rows=last_rows, runs=runs_of(order.rows))


def runs_of(rows: RowOrder) -> tuple[Run, ...] | None:
    """Which ids an order's epochs choose from, and how often each comes at most; None if it does not say."""
    if isinstance(rows, Natural):
        return tuple((*run, 1) for run in rows.segments.runs)
    if isinstance(rows, Slice):
        return runs_of(rows.input)
    if isinstance(rows, Repeat):
        return _times(runs_of(rows.input), rows.times)
    if isinstance(rows, Mixed):
        return _times(_of_all(rows), 1 if rows.stop is Stop.FIRST else 0)
    return _of_all(rows) if isinstance(rows, Concat) else None


def _of_all(rows: Composed) -> tuple[Run, ...] | None:
    found: list[Run] = []
    for below in map(runs_of, rows.inputs):
        if below is None:
            return None
        found += below
    return tuple(found)


def _times(runs: tuple[Run, ...] | None, times: int) -> tuple[Run, ...] | None:
    return None if runs is None else tuple((*run[:3], run[3] * times) for run in runs)


def first_place(order: BatchOrder, step: int, rank: int, world_size: int) -> int:
    """The place in a step's global batch at which a rank's rows begin."""
    first, _ = order.share(rank, world_size)
    if order.last is not Last.SHORT or step < order.full_steps:
        return first
    return rank * (order.samples - step * order.batch_size) // world_size


def padding(order: BatchOrder, step: int, steps: int, rank: int, world_size: int) -> Ids | None:
    """1 for each of a rank's rows that is a sample, 0 for one that fills a batch, step after step; None where all are samples."""
    if order.last not in (Last.PAD, Last.WRAP) or step + steps <= order.full_steps:
        return None
    return np.concatenate([order.valid(one, rank, world_size) for one in range(step, step + steps)]).astype(np.int64)
