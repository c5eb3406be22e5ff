"""The last stage of what runs below a lane stage: feeds it an item's rows, and keeps back what it does not use up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.batch.merge import gather_columns
from penstock.core import kernels
from penstock.core.columns.rows import new_rows
from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.order.keys import STAGE_KEY
from penstock.order.steps.asked import AskedOfLanes
from penstock.runtime.stage import Columned, ItemPart, LaneItem, LaneResult
from penstock.stages.lanes.stages import FedRows, LaneStage
from penstock.stages.read.parse import NamedRows

#: Of an item in which all rows are bad.
_NO_ROWS = ItemPart((0, 0), np.empty(0, dtype=np.int64), {}, {})


@dataclass(frozen=True, eq=False)
class _Left:
    """Rows of a lane that are fed again, before its next ones: `rows` of the columns, ids and keys."""

    columns: Columns
    spec: Spec
    rows: Ids
    ids: Ids
    keys: Ids


class Feeder:
    """Feeds one lane stage during one run. Items come in order, from one thread.

    place: names a row of the input by its id. seed: of the stage's own random numbers. states: of the stage in every lane, before the first item.
    """

    def __init__(
        self, stage: LaneStage, place: Callable[[int], str], seed: int, states: Sequence[Any], *, threads: int
    ) -> None:
        self._stage, self._place, self._key, self._threads = stage, place, kernels.mix([seed, STAGE_KEY]), threads
        self._states = [*states]
        self._left: dict[int, _Left] = {}

    def __call__(self, item: Columned) -> LaneItem:
        """What comes of an item."""
        asked = asked_of(item)
        fed = self._fed(item, asked)
        with NamedRows(self._place, fed.ids):
            made = self._stage.feed(fed) if len(fed.ids) else _nothing(fed)
        for number in np.flatnonzero(made.used < fed.counts).tolist():
            first, end = fed.edges[number : number + 2].tolist()
            rows = np.arange(first + int(made.used[number]), end)
            self._left[int(asked.lane[number])] = _Left(fed.columns, fed.spec, rows, fed.ids, fed.keys)
        for lane, state in zip(asked.lane.tolist(), made.states, strict=True):
            self._states[lane] = state
        return item.to(LaneItem, made=made, states=fed.states)

    def _fed(self, item: Columned, asked: AskedOfLanes) -> FedRows:
        """An item's rows by lane, each after what is left of those before it."""
        part = item.parts[0] if item.parts else _NO_ROWS
        lanes, spec = asked.lane.tolist(), part.spec
        columns, counts, ids, keys = part.columns, asked.count, item.ids_of(part), item.keys_of(part)
        left = [self._left.pop(lane, None) for lane in lanes] if self._left else []
        if some := [one for one in left if one is not None]:
            counts = counts + np.array([0 if one is None else len(one.rows) for one in left])
            which, row = _joined(left, np.split(np.arange(len(keys)), asked.edges[1:-1]))
            if not item.parts:  # lanes end, and nothing is fed but what was left
                columns, spec = some[0].columns, some[0].spec
            tables = [columns, *(one.columns for one in some)]
            columns = gather_columns(tables, which, row, spec, new_rows, threads=self._threads)
            first = np.cumsum([0, len(keys), *(len(one.keys) for one in some)])
            ids = np.concatenate([ids, *(one.ids for one in some)])[first[which] + row]
            keys = np.concatenate([keys, *(one.keys for one in some)])[first[which] + row]
        return FedRows(
            columns=columns,
            spec=spec,
            counts=counts,
            ids=ids,
            keys=keys,
            key=kernels.mix([self._key, item.epoch]) if item.epoch else self._key,
            states=[self._states[lane] for lane in lanes],
            at=part.at,
            is_last=asked.is_last,
        )


def _nothing(fed: FedRows) -> LaneResult:
    """What comes of no row at all; no function is called for it."""
    none, nothing = np.zeros(len(fed.counts), dtype=np.int64), np.empty(0, dtype=np.int64)
    return LaneResult(columns={}, spec={}, rows=nothing, counts=none, used=fed.counts, states=fed.states)


def _joined(left: Sequence[_Left | None], new: Sequence[Ids]) -> tuple[Ids, Ids]:
    """What is left of each lane, then its new rows: of which table each row is (0 for the new ones', then one for each that has any left), and which of it."""
    tables, turn = 0, list[tuple[int, Ids]]()
    for old, rows in zip(left, new, strict=True):
        if old is not None:
            tables += 1
            turn.append((tables, old.rows))
        turn.append((0, rows))
    which = np.concatenate([np.full(len(rows), table) for table, rows in turn])
    return which, np.concatenate([rows for _, rows in turn])


def asked_of(item: Columned | LaneItem) -> AskedOfLanes:
    """The rows of lanes that an item below a lane stage was asked for."""
    return cast("AskedOfLanes", item.work.asked)
