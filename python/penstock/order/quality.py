"""How well an order mixes: measured on the ids of some steps, beside what a shuffle of all rows at once would give.

Nothing is read: ids are arithmetic. They stand for where rows lie in the data, so "sorted by class" means classes of equally many neighbouring ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, sqrt

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.epoch_contents import contents_of
from penstock.order.protocol import RowOrder
from penstock.order.steps.batches import BatchOrder

#: Classes that the data has if it is sorted by class; fewer where it has few rows.
_CLASSES = 1_000
#: Rows of a stretch: whole steps, at least so many rows. And rows of all that are looked at, about.
_STRETCH, _ROWS = 256, 16_384
_LANES = 16


@dataclass(frozen=True, kw_only=True)
class ShuffleQuality:
    """An order's figures, each beside that of a global shuffle of the same rows.

    rows: of the data; open_rows: of these, among how many the rows of a batch are chosen. score: a stretch of steps is as varied as if it came from a
    global shuffle over this share of the rows, 1 for all. stretch: its rows, a batch or several. classes: of so many in sorted data, classes_seen come
    in a stretch. adjacent: the share of rows that follow, in their lane, one that lay less than a block away in the data.
    """

    rows: int
    open_rows: int
    score: float
    stretch: int
    classes: int
    classes_seen: float
    classes_seen_global: float
    adjacent: float
    adjacent_global: float

    def __str__(self) -> str:
        return (
            f"mixes like a global shuffle over {self.score:.0%} of the rows: of {self.classes:,} classes in sorted data, {self.stretch:,} rows in a row "
            f"have {self.classes_seen:,.0f} (global: {self.classes_seen_global:,.0f}); they come from {self.open_rows:,} rows that are open at once; "
            f"{self.adjacent:.0%} follow a neighbour (global: {self.adjacent_global:.0%})"
        )


def quality_of(order: BatchOrder, ids: int) -> ShuffleQuality:
    """How well an order mixes its rows, by its first epoch; ids: how many ids all sources have."""
    places = _Places(order, ids)
    classes = max(1, min(_CLASSES, places.rows // 2))
    stretches = [places.of(stretch) * classes // places.rows for stretch in _stretches(order)]
    stretch = min(map(len, stretches))
    looked_at = np.stack([one[:stretch] for one in stretches])
    shape = order.rows.shape
    near, open_rows = max(2, shape.block_rows), shape.lanes * shape.window_blocks * shape.block_rows
    return ShuffleQuality(
        rows=places.rows,
        open_rows=min(places.rows, open_rows) if shape.block_rows > 1 else places.rows,
        score=_score(looked_at, classes, places.chance(classes)),
        stretch=stretch,
        classes=classes,
        classes_seen=float(np.mean([len(np.unique(one)) for one in looked_at])),
        classes_seen_global=_distinct(classes, places.rows, stretch),
        adjacent=_adjacent(order.rows, places, near),
        adjacent_global=min(1.0, (near - 1) * (2 * places.rows - near) / max(1, places.rows * (places.rows - 1))),
    )


class _Places:
    """Places of ids among those that an order chooses from: what `take` and `every` leave out is not there."""

    def __init__(self, order: BatchOrder, ids: int) -> None:
        contents = contents_of(order)
        runs = sorted(contents.runs or ((0, ids, 1, 0),))
        self._first, count, self._distance, times = np.array(runs, dtype=np.int64).reshape(-1, 4).T
        self._begin = np.cumsum(count) - count
        self.rows = int(count.sum())
        self._is_even = len({*times.tolist()}) == 1 and 0 < self.rows * int(times[0]) == order.samples

    def chance(self, classes: int) -> float | None:
        """How often two rows of an epoch are of one class; None where an epoch has some rows more often than others."""
        return max(0.0, self.rows / classes - 1) / max(1, self.rows - 1) if self._is_even else None

    def of(self, ids: Ids) -> Ids:
        """The place of each id."""
        run = np.searchsorted(self._first, ids, side="right") - 1
        return np.asarray(self._begin[run] + (ids - self._first[run]) // self._distance[run])


def _stretches(order: BatchOrder) -> list[Ids]:
    """Ids of some stretches at equal distances."""
    steps = order.steps_per_epoch
    together = min(steps, -(-_STRETCH // order.batch_size))
    count = max(2, _ROWS // (together * order.batch_size))
    begins = np.unique(np.linspace(0, max(0, min(steps, order.full_steps) - together), count).astype(np.int64))
    return [order.ids(0, begin, together, 0, 1) for begin in begins.tolist()]


def _score(stretches: Ids, classes: int, chance: float | None) -> float:
    """Of two rows in a stretch, how often they are of one class: by chance, divided by as it is. 1 where it is no more often than that.

    chance: None to take that of rows in two different stretches.
    """
    count, rows = stretches.shape
    by_class = np.bincount((stretches + classes * np.arange(count)[:, None]).ravel(), minlength=count * classes)
    by_class = by_class.reshape(count, classes)
    pairs, same = count * rows * (rows - 1), int((by_class * (by_class - 1)).sum())
    if chance is None:
        total = by_class.sum(axis=0)
        between = (count * rows) ** 2 - count * rows**2
        chance = int((total**2).sum() - (by_class**2).sum()) / between if between else 1.0
    noise = 2 / sqrt(max(1.0, chance * pairs / 2))  # two standard deviations of what is counted
    return 1.0 if same <= chance * pairs * (1 + noise) else chance * pairs / same


def _adjacent(order: RowOrder, places: _Places, near: int) -> float:
    """Of neighbouring rows in some lanes, the share that lay near each other."""
    lane_rows = order.lane_rows()
    found = [np.empty(0, dtype=bool)]
    for lane in np.unique(np.linspace(0, len(lane_rows) - 1, _LANES).astype(np.int64)).tolist():
        ids = order.ids(0, lane, 0, min(int(lane_rows[lane]), _ROWS // _LANES))
        found.append(np.abs(np.diff(places.of(ids[ids >= 0]))) < near)
    close = np.concatenate(found)
    return float(close.mean()) if len(close) else 0.0


def _distinct(classes: int, rows: int, drawn: int) -> float:
    """Of so many equal classes, how many come on average among rows drawn at random: round(_distinct(2, 4, 1), 9) == 1.0."""
    rest = rows - rows / classes  # rows of all the other classes
    if drawn > rest:
        return float(classes)
    none = lgamma(rest + 1) - lgamma(rest - drawn + 1) - lgamma(rows + 1) + lgamma(rows - drawn + 1)
    return classes * (1 - exp(none))
