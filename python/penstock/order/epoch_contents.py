"""What the plan says an epoch holds, for the ledger: which ids, how often, and where a rank's rows stand in a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder
from penstock.order.rows.chosen import ChosenRows
from penstock.order.rows.concat import ConcatRows
from penstock.order.rows.mixed import Mixed, Stop
from penstock.order.rows.natural import Natural
from penstock.order.rows.repeat import RepeatedRows
from penstock.order.rows.segments import Segments
from penstock.order.rows.slice import Slice
from penstock.order.rows.zipped import Zipped
from penstock.order.steps.batches import BatchOrder, Last
from penstock.order.steps.bucketed import Bucketed
from penstock.order.steps.token_batches import TokenBatches
from penstock.order.steps.tokens import TokenRows

#: Ids that an epoch chooses from: (first, count, distance, times), where 0 times are any number of times.
Run = tuple[int, int, int, int]

#: More would make headers large: then verify counts rows, and finds those that come twice.
_MOST_RUNS = 4096


@dataclass(frozen=True, kw_only=True)
class EpochContents:
    """What every epoch holds.

    rows: without padding. last_rows: of the last step's global batch, padding included that fills it up, and not what only makes ranks' parts equal. runs: where its ids come from, and how often
    each comes at most; None where an order does not say. unique: whether no row comes twice in the same draw, ever.
    """

    steps: int
    rows: int
    last_rows: int
    runs: tuple[Run, ...] | None
    unique: bool = True


def contents_of(order: BatchOrder) -> EpochContents:
    """What the epochs of an order hold. Where runs hold as many rows as an epoch, each comes exactly so often."""
    steps, size = order.steps_per_epoch, order.batch_size
    if isinstance(order, TokenBatches):
        rows, last_rows = order.epoch_rows, size  # places that no row has are recorded as padding
    elif order.fills_lanes:
        rows = int(np.minimum(order.rows.lane_rows(), steps * order.rows_per_lane).sum())
        last_rows = size
    else:
        rows = min(order.samples, steps * size)
        last_rows = size if order.last in (Last.PAD, Last.WRAP) else rows - (steps - 1) * size
    return EpochContents(steps=steps, rows=rows, last_rows=last_rows, runs=runs_of(order.rows))


def runs_of(rows: RowOrder) -> tuple[Run, ...] | None:
    """Which ids an order's epochs choose from, and how often each comes at most; None if it does not say, or these are too many runs."""
    table = _table_of(rows)
    if table is None:
        return None
    table = table[np.argsort(table[:, 0], kind="stable")]
    first, count, distance, times = table.T
    goes_on = (first[:-1] + count[:-1] == first[1:]) & (times[:-1] == times[1:])
    goes_on &= (distance[:-1] == 1) & (distance[1:] == 1)
    begins = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    if len(begins) > _MOST_RUNS:
        return None
    joined = np.stack([first[begins], np.add.reduceat(count, begins), distance[begins], times[begins]], axis=1)
    return tuple((run[0], run[1], run[2], run[3]) for run in joined.tolist())


def _table_of(rows: RowOrder) -> Ids | None:
    """The same as int64 (runs, 4), as they come."""
    if isinstance(rows, Natural):
        return _of_chosen(rows.segments)
    if isinstance(rows, (Slice, Zipped)):
        return _table_of(rows.input)
    if isinstance(rows, RepeatedRows):
        return _of_all([rows.input], rows.times)
    if isinstance(rows, Mixed):
        return _of_all(rows.inputs, 1 if rows.stop is Stop.FIRST else 0)
    if isinstance(rows, TokenRows):
        return _of_chosen(rows.chosen)
    return _of_all(rows.inputs, 1) if isinstance(rows, (ConcatRows, Bucketed)) else None


def _of_chosen(chosen: ChosenRows) -> Ids | None:
    """Runs of ids that come equally often."""
    if isinstance(chosen, Segments):
        runs = np.array(chosen.runs, dtype=np.int64).reshape(-1, 3)
        return np.concatenate([runs, np.ones((len(runs), 1), dtype=np.int64)], axis=1)
    ids, times = np.unique(chosen.ids(np.arange(chosen.rows)), return_counts=True)
    begins = np.flatnonzero((np.diff(ids, prepend=-2) != 1) | (np.diff(times, prepend=0) != 0))
    if len(begins) > _MOST_RUNS:
        return None
    count = np.diff(begins, append=len(ids))
    return np.stack([ids[begins], count, np.ones_like(count), times[begins]], axis=1)


def _of_all(inputs: Sequence[RowOrder], times: int) -> Ids | None:
    tables = [table for table in map(_table_of, inputs) if table is not None]
    factors = np.array([1, 1, 1, times], dtype=np.int64)
    return np.concatenate(tables) * factors if len(tables) == len(inputs) else None


def padding(order: BatchOrder, step: int, steps: int, rank: int, world_size: int) -> Ids | None:
    """1 for each of a rank's rows that is a sample, 0 for one that fills a batch, step after step; None where all are samples."""
    is_filled = order.last in (Last.PAD, Last.WRAP) or order.equal_parts
    if not is_filled or step + steps <= order.full_steps:
        return None
    return np.concatenate([order.valid(one, rank, world_size) for one in range(step, step + steps)]).astype(np.int64)
