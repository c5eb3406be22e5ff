"""Which lanes of a stage have ended, where an epoch ends with its data, and how many rows each gives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError
from penstock.order.rows.lane_rows import LANE_ROWS


class LaneEnds:
    """The lanes of one stage in one epoch. name: of the stage. has_ended: lanes that give nothing more. known: how many rows they give, `LANE_ROWS` where that is not known."""

    def __init__(self, name: str, epoch: int, has_ended: npt.NDArray[np.bool_], known: Ids | None) -> None:
        self._name, self.epoch, self.has_ended = name, epoch, has_ended
        self.known = np.full(len(has_ended), LANE_ROWS) if known is None else known.copy()

    def found(self, made: Ids) -> Ids:
        """How many rows each lane gave that has ended, by what lanes gave so far; `LANE_ROWS` for others."""
        return np.where(self.has_ended, made, LANE_ROWS)

    def note(self, lanes: Ids, made: Ids) -> None:
        """These lanes have ended, after so many rows of each lane. DataError where others were counted."""
        self.has_ended[lanes] = True
        found = self.found(made)
        for lane in np.flatnonzero(self.has_ended & (self.known < LANE_ROWS) & (found != self.known))[:1].tolist():
            raise DataError(
                f"{self._name}: lane {lane} gave {found[lane]:,} rows in epoch {self.epoch:,}, and {self.known[lane]:,} when they were counted; what a "
                f"function looks at is another now, or lengths=… are not those of the rows: let functions depend on their rows alone, and count again with count_rows(again=True)"
            )
        self.know(found)

    def know(self, ends: Ids) -> None:
        """Lanes give so many rows, `LANE_ROWS` where that is not known."""
        self.known = np.minimum(self.known, ends)

    def go_back(self, row: Ids, made: Ids) -> None:
        """Lanes go on from earlier rows than these of what they gave."""
        self.has_ended &= row >= made
