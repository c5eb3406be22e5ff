"""What random numbers of a batch come of."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.columns.spec import Ids


@dataclass(frozen=True, eq=False)
class DrawKeys:
    """Numbers by which a function draws.

    rows: of each row, as of no other row and draw. stage: of the function's place in the plan, in this epoch. step: of the batch, the same on all ranks;
    None where the rows are in no step yet.
    """

    rows: Ids
    stage: int
    step: int | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, low: int, high: int) -> DrawKeys:
        """Those of rows low … high - 1."""
        return DrawKeys(self.rows[low:high], self.stage, self.step)
