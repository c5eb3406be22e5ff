"""What every order answers: which row comes when. Numbers in, numbers out.

Reading, the cache's forecast, `simulate`, ranks and resuming are written against it and know no implementation: `natural`,
`shuffled`, `concat`, `slice`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.kernels import EpochOrder, Epochs, MixedOrder

#: A row that no lane reaches.
NEVER = int(np.iinfo(np.int64).max)

#: Ids or draws of rows: (epoch, lane, first, count) -> int64.
OfRows: TypeAlias = Callable[[int, int, int, int], Ids]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the epochs of an order have in common.

    rows_per_lane: rows that a full step takes from every lane. block_rows: rows that are read together; 1 where each is read by itself.
    window_blocks: blocks of a lane among which rows are mixed. is_shuffled: whether epochs differ.
    """

    lanes: int
    rows_per_lane: int
    block_rows: int = 1
    window_blocks: int = 1
    is_shuffled: bool = False


class RowOrder(ABC):
    """The rows of every epoch, dealt to lanes.

    A row's identity is three numbers: its source, its sample id there, and the draw. The first two travel as one
    number, the row's id: rows of source 0 have the ids 0 … n₀ - 1, those of source 1 the next n₁, and so on. So a plan of
    one source has its sample ids, and random keys are made of the same numbers whatever the sources are. The draw is the epoch, unless
    `draws` says another for each row.
    """

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """What the epochs have in common."""

    @property
    def words(self) -> str:
        """Which rows come when, for people: "shuffled: …" where epochs differ by chance, "natural: …" where step k is rows k × batch size and the following."""
        rows, blocks = self.shape.block_rows, self.shape.window_blocks
        if not self.shape.is_shuffled:
            return "the same steps in every epoch"
        block = f"blocks of {rows:,} sample{'' if rows == 1 else 's'}"
        return f"shuffled: {block}, windows of {blocks} block{'' if blocks == 1 else 's'}"

    def block_rows_at(self, row_id: int) -> int:
        """How many rows are read together of the source that a row belongs to: the same for all, where they have one order."""
        return self.shape.block_rows

    @abstractmethod
    def lane_rows(self) -> Ids:
        """How many rows each lane has: the same in every epoch, so that all epochs have equally many steps."""

    @abstractmethod
    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane; rows past its end start again at its first one."""

    @property
    def has_draws(self) -> bool:
        """Whether sources are in other epochs than the plan, so that `draws` says of each row in which one it is drawn."""
        return False

    @property
    def is_listed(self) -> bool:
        """Whether rows come only when they are asked for by their ids, so that most never come."""
        return False

    @property
    def has_copies(self) -> bool:
        """Whether a row may come several times in the epochs of the sources that an epoch is made of."""
        return False

    def draws(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """The epoch of its source in which each of these rows is drawn."""
        return np.full(count, epoch, dtype=np.int64)

    def with_followers(self, ids: Ids) -> tuple[Ids, Ids | None]:
        """Ids, then those of the rows that follow them from other sources (see `zipped`), and for each its number among `ids`; None without any."""
        return ids, None

    @abstractmethod
    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """The blocks that rows lie in, each of one source: their first ids and ends, and the block of each row."""

    @abstractmethod
    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When the blocks in which rows of lanes lie are done: the lane, -1 for all lanes, and its first row that needs them no more.

        last: the last ids of the blocks. Later uses of a block in the same epoch are ignored.
        """

    @abstractmethod
    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: the lane, and the rows [first, end) of it among which their blocks are mixed.

        after: a row of every lane; of several windows that a row has in an epoch, the one that ends behind it counts. Lane -1
        stands for all lanes; where first and end are equal the row is never needed.
        """

    def rows_of_lanes(self, epoch: int, lane: Ids, first: Ids, count: Ids, *, draws: bool = False) -> Ids:
        """Ids, or draws, of rows [first[i], first[i] + count[i]) of lane[i], one after the other."""
        of = self.draws if draws else self.ids
        found = [of(epoch, *one) for one in zip(lane.tolist(), first.tolist(), count.tolist(), strict=True)]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps from `step` on, of the places [share[0], share[1]) of each global batch."""
        self._write_steps(self.ids, epoch, share, step, out)

    def step_draws(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the draws of the same rows."""
        self._write_steps(self.draws, epoch, share, step, out)

    def _write_steps(self, of: OfRows, epoch: int, share: tuple[int, int], step: int, out: Ids) -> None:
        rows_per_lane, (begin, end) = self.shape.rows_per_lane, share
        steps = out.reshape(-1, end - begin)
        for lane in range(begin // rows_per_lane, -(-end // rows_per_lane)):
            first = lane * rows_per_lane
            low, high = max(begin, first), min(end, first + rows_per_lane)
            found = of(epoch, lane, step * rows_per_lane, len(steps) * rows_per_lane).reshape(-1, rows_per_lane)
            steps[:, low - begin : high - begin] = found[:, low - first : high - first]

    def native(self, epoch: int) -> EpochOrder | None:
        """The native order, where ids are its own: kernels gather whole steps by it."""
        return None

    def native_epochs(self) -> Epochs | MixedOrder | None:
        """The native order of all epochs, ids and draws: a mix takes its rows by it. None where there is none."""
        return None


def is_open(next_rows: Ids, lane: Ids, end: Ids) -> npt.NDArray[np.bool_]:
    """Which blocks may still be needed, by the next row of every lane, and by where they are done: see `RowOrder.until`."""
    return np.asarray(end > np.where(lane < 0, next_rows.min(), next_rows[lane]))
