"""Lane stages side by side whose rows one order takes, in epochs that end where these do: a verb that joins them, or the one stage below another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError
from penstock.order.protocol import RowOrder
from penstock.order.rows.ends import BesideRows, below, with_ends
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.order.rows.rows_given import rows_given

if TYPE_CHECKING:
    from penstock.stages.lanes.ending_feed import EndingFeed


class EndingFeeds:
    """The stages, in the order in which `rows` has them. Which row of the order is which of a stage follows from the ends that are known by then, so it is asked of `rows` each time."""

    def __init__(self, feeds: Sequence[EndingFeed], rows: RowOrder) -> None:
        self.feeds, self._rows = tuple(feeds), rows
        self._known: Ids | None = None

    @property
    def ends(self) -> Ids:
        """How many rows lanes give in this epoch: int64 (stages, lanes), `LANE_ROWS` where that is not known."""
        return np.stack([feed.ends for feed in self.feeds])

    @property
    def rows(self) -> RowOrder:
        """The order, as far as ends are known now."""
        ends = self.ends
        if self._known is None or not np.array_equal(ends, self._known):
            self._rows, self._known = with_ends(self._rows, ends), ends
        return self._rows

    def given(self, row: Ids) -> list[Ids]:
        """How many rows of its lanes each stage gives before row `row[lane]` of every lane of the order."""
        found = rows_given(self.rows, 0, row)
        return [found[feed.first_id] for feed in self.feeds]

    def _wanted(self, wanted: Ids) -> list[Ids]:
        """What each stage must have made for so many rows of the order's lanes, as far as lanes have them; 0 of lanes of which none are wanted."""
        return [np.where(wanted > 0, rows, 0) for rows in self.given(np.minimum(wanted, self.rows.lane_rows()))]

    def ensure(self, wanted: Ids) -> None:
        """See `EndingFeed.ensure`: where a lane of one stage ends, more of another may be wanted."""
        while True:
            ends = self.ends
            for feed, rows in zip(self.feeds, self._wanted(wanted), strict=True):
                feed.ensure(rows)
            if np.array_equal(ends, self.ends):
                return

    def lacks(self, wanted: Ids) -> npt.NDArray[np.bool_]:
        """Which lanes have fewer rows than are wanted: they ended, or a stage did not make them."""
        found = wanted > self.rows.lane_rows()
        for feed, rows in zip(self.feeds, self._wanted(wanted), strict=True):
            found |= feed.made < rows
        return np.asarray(found)

    def cannot_go_on(self, lanes: Ids) -> bool:
        """Whether whoever takes further rows of these lanes gets an error."""
        return any(feed.is_broken or any(map(feed.has_failed, lanes.tolist())) for feed in self.feeds)

    @property
    def is_broken(self) -> bool:
        """Whether `ensure` met an error that is not of a lane."""
        return any(feed.is_broken for feed in self.feeds)

    def unequal(self, epoch: int) -> list[DataError]:
        """See `unequal`."""
        return unequal(self.rows, epoch)

    def turn_to(self, lanes: Ids, first: Ids) -> None:
        """See `EndingFeed.turn_to`."""
        for feed in self.feeds:
            feed.turn_to(lanes, first)


def unequal(rows: RowOrder, epoch: int) -> list[DataError]:
    """Errors for lanes in which rows that are paired are not equally many, as far as their ends are known."""
    found = [error for one in below(rows) for error in unequal(one, epoch)]
    if not isinstance(rows, BesideRows):
        return found
    every = np.stack([one.lane_rows() for one in rows.inputs])
    for lane in np.flatnonzero((every != every[0]).any(axis=0))[:1].tolist():
        number = int(np.flatnonzero(every[:, lane] != every[0, lane])[0])
        (total, first), (other, second) = ((int(every[one].sum()), int(every[one, lane])) for one in (0, number))
        found.append(
            DataError(
                f"zip: dataset 0 gave {_count(total)} rows in epoch {epoch:,}, and dataset {number} {_count(other)}; in lane {lane}, {_count(first)} and {_count(second)}, so that some have no counterpart. "
                f"Rows are paired lane by lane: make the stages give equally many of each lane's rows, or with batch(…, lanes=1) in all"
            )
        )
    return found


def _count(rows: int) -> str:
    return f"{rows:,}" if rows < LANE_ROWS else "more"
