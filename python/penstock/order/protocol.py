"""The protocol of an order: which row comes when. Numbers in, numbers out.

Reading, the cache's forecast, `simulate`, ranks and resuming are written against it and know no implementation: `natural`,
`shuffled`, `concat`, `slice`.
"""

from __future__ import annotations

from typing import Protocol

from penstock.core.kernels import EpochOrder
from penstock.core.spec import Ids


class RowOrder(Protocol):
    """The rows of every epoch, dealt to lanes.

    A row's identity is three numbers: its source, its sample id there, and the draw, which is the epoch. The first two travel as one
    number, the row's id: rows of source 0 have the ids 0 … n₀ - 1, those of source 1 the next n₁, and so on. So a plan of
    one source has its sample ids, and random keys are made of the same numbers whatever the sources are.
    """

    @property
    def lanes(self) -> int:
        """Number of lanes."""

    @property
    def rows_per_lane(self) -> int:
        """Rows that a full step takes from every lane."""

    @property
    def is_shuffled(self) -> bool:
        """Whether epochs differ."""

    @property
    def block_rows(self) -> int:
        """Rows that are read together; 1 where every row is read by itself."""

    @property
    def window_blocks(self) -> int:
        """Blocks of a lane among which rows are mixed."""

    def lane_rows(self) -> Ids:
        """How many rows each lane has: the same in every epoch, so that all epochs have equally many steps."""

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane; rows past its end start again at its first one."""

    def step_ids(self, epoch: int, share: tuple[int, int], step: int, out: Ids, threads: int = 1) -> None:
        """Writes the ids of whole steps from `step` on, of the places [share[0], share[1]) of each global batch."""

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """The blocks that rows lie in, in ascending order, each of one source: their first ids and ends, and the block of each row."""

    def windows(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: the lane, and the rows [first, end) of it among which their blocks are mixed.

        Lane -1 stands for all lanes; where first == end the row is never needed.
        """

    def native(self, epoch: int) -> EpochOrder | None:
        """The native order, where ids are its own: kernels gather whole steps by it."""
