"""Counts the rows of lanes on all ranks of a process group together: each some lanes, and all know the rows of all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import ProcessError
from penstock.deliver.agreement import Members
from penstock.deliver.launchers import processes_here
from penstock.deliver.numpy import ToNumpy
from penstock.deliver.together import Together, meet
from penstock.derived.row_counts import drop_count, keep_count, kept_count
from penstock.lower import lower
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.plan.nodes import Node
from penstock.resolve.ordering import RankSettings
from penstock.runtime.free_memory import default_memory
from penstock.stages.bad_rows import Tolerance
from penstock.stages.lanes.all_feeds import LaneFeeds
from penstock.stages.lanes.ending_feed import EndingFeed
from penstock.stages.lanes.states import Place
from penstock.tools.count_lanes import CountReport, LanesCount, count_lanes
from penstock.tools.counted_epochs import CountedEpochs


class RanksCount:
    """One rank's part in counting. root: the plan as it runs; counted: what is kept of it."""

    def __init__(self, root: Node, tolerance: Tolerance | None, counted: CountedEpochs, members: Members) -> None:
        self._root, self._tolerance, self._counted, self._members = root, tolerance, counted, members
        self._waits = True

    def count(self, lanes: LaneFeeds, counted: CountedEpochs, epoch: int, number: int, report: CountReport) -> Ids:
        """How many rows each lane of a stage gives in an epoch; kept, and with where lanes stand when equal parts are over. ProcessError where a rank could not count its lanes."""
        order, key = lanes.order_of(epoch), counted.key(epoch, number)
        kept = kept_count(key)
        if kept is not None and kept.step is None and len(kept.ends) == order.lanes:
            return np.array([kept.ends[str(lane)] for lane in range(order.lanes)])
        if order.is_known:
            return np.asarray(order.ends[0])
        together = meet(self._members, f"count/{key}", None if self._waits else 0.0)
        self._waits = len(together.parts) > 1  # who counts alone need not wait for others again
        try:
            with together.working():
                return self._count(together, lanes, epoch, number, report)
        except ProcessError as error:
            raise ProcessError(f"count_rows: {error}") from error

    def _count(self, together: Together, lanes: LaneFeeds, epoch: int, number: int, report: CountReport) -> Ids:
        order, parts = lanes.order_of(epoch), len(together.parts)
        shares = [_share(order.lanes, part, parts) for part in range(parts)]
        mine = [] if together.part is None else shares[together.part]
        found = self._count_lanes(mine, parts, epoch, number, report) if mine else LanesCount(step=None, ends={})
        ends = np.full(order.lanes, LANE_ROWS, dtype=np.int64)
        for text in together.exchange("ends", json.dumps([*found.ends.items()])):
            for lane, rows in json.loads(text):
                ends[lane] = rows
        row = int(ends.min()) // order.rows_per_lane * order.rows_per_lane
        first = cast("EndingFeed", lanes.feeds[0]).first_place().saved()
        left = dict[int, list[Place]]()
        for text in together.exchange("left", json.dumps([*found.left(mine, row, first).items()])):
            left |= {lane: [place] for lane, place in json.loads(text)}
        self._counted.keep_stage(epoch, number, ends, left)
        if mine:
            drop_count(self._part_key(epoch, number, mine))
        return ends

    def _count_lanes(self, mine: Sequence[int], parts: int, epoch: int, number: int, report: CountReport) -> LanesCount:
        key = self._part_key(epoch, number, mine)
        kept = kept_count(key)
        begun = None if kept is None else LanesCount.of(kept)
        if begun is not None and begun.step is None:
            return begun
        here = min(parts, processes_here(len(self._members.ranks)))
        where = RankSettings(cpus=max(1, usable_cpus() // here))
        lowered = lower(
            self._root, ToNumpy(), where, memory_bytes=default_memory(here), tolerance=self._tolerance, lanes=mine
        )
        try:
            lanes = lowered.lanes.alone()[number]
            found = count_lanes(
                lanes, mine, epoch, begun, lambda count: _keep(key, count), lambda rows: report.at(rows * parts)
            )
        finally:
            lowered.lanes.close()
            lowered.workers.close()
        _keep(key, found)  # should another rank fail, this one has done its part
        report.end(lanes.input_rows)
        return found

    def _part_key(self, epoch: int, number: int, mine: Sequence[int]) -> str:
        return f"{self._counted.key(epoch, number)}-{mine[0]}-{mine[-1]}"


def _keep(key: str, count: LanesCount) -> None:
    keep_count(key, count.saved())


def _share(lanes: int, part: int, parts: int) -> list[int]:
    """The lanes of a part: neighbours, as equally many as can be."""
    return list(range(part * lanes // parts, (part + 1) * lanes // parts))
