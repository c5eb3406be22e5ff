"""Batches of a bounded number of tokens, and how well they are filled and balanced."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError
from penstock.order.lanes import nearest_ranks
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.token_cut import TokenBudget
from penstock.order.steps.tokens import TokenRows

#: Steps that are looked at, at equal distances.
_LOOKED_AT = 256


@dataclass(frozen=True, kw_only=True)
class TokenBatches(BatchOrder):
    """See `BatchOrder`, whose rows are places here: `batch_size` counts those of a step, and ids are of rows alone.

    tokens: the order, of which `rows` may be one with rows that follow. budget: what a lane has room for.
    """

    rows_vary = True

    tokens: TokenRows
    budget: TokenBudget

    def __post_init__(self) -> None:
        if not self.tokens.steps:
            raise PlanError(
                f"batch_tokens: all {self.samples:,} rows together do not fill a step of {self.max_tokens:,} tokens, and drop_last drops them; leave it out, "
                f"or give a smaller max_tokens="
            )

    def part_in_words(self, ranks: int) -> str:
        """See `BatchOrder`."""
        return f"up to {self.max_tokens // ranks:,} tokens"

    def in_words(self, world_size: int) -> list[str]:
        """See `BatchOrder`."""
        steps = f"{self.steps_per_epoch:,} steps an epoch, from {self.lanes} lanes"
        groups = f"{len(self.tokens.groups):,} groups of rows of similar length"
        order = f"shuffled: {groups}" if self.rows.shape.is_shuffled else f"{groups}, {self.rows.words}"
        return [steps, f"{self.figures(world_size)}", order]

    @property
    def max_tokens(self) -> int:
        """Of a step, over all ranks."""
        return self.budget.lane_tokens * self.lanes

    @cached_property
    def samples(self) -> int:
        """Rows of an epoch."""
        return self.tokens.chosen.rows

    @property
    def epoch_rows(self) -> int:
        """Rows of an epoch without those that are dropped."""
        return self.tokens.full_rows + self.tokens.rest

    @property
    def ranks_divide(self) -> int:
        """What a number of ranks must divide: each takes whole lanes."""
        return self.lanes

    @property
    def rows_per_step(self) -> int:
        """Rows of a step, on average."""
        return -(-self.epoch_rows // self.tokens.steps)

    @cached_property
    def full_steps(self) -> int:
        """All steps: each has all places."""
        return self.tokens.steps

    @cached_property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch."""
        return self.tokens.steps

    def share(self, rank: int, world_size: int) -> tuple[int, int]:
        """The places of every step that a rank takes: those of whole lanes."""
        if self.lanes % world_size:
            raise PlanError(
                f"world_size={world_size} does not divide the {self.lanes} lanes of batch_tokens, and every rank takes whole ones; it would with "
                f"{nearest_ranks(self.lanes, world_size)} ranks, or with lanes={world_size}"
            )
        return super().share(rank, world_size)

    def check_ranks(self, world_size: int) -> None:
        """PlanError if the ranks cannot share the lanes equally, or the last, short step leaves a rank without a row."""
        self.share(0, world_size)
        if 0 < self.tokens.rest < world_size:
            raise PlanError(
                f"the last global batch has {self.tokens.rest} rows, too few for {world_size} ranks; choose drop_last=True in batch_tokens(…)"
            )

    def ids(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids:
        """Ids of a rank's rows in some steps, step after step, lane after lane."""
        found = super().ids(epoch, step, steps, rank, world_size, threads)
        return found[found >= 0]

    def draws(self, epoch: int, step: int, steps: int, rank: int, world_size: int, threads: int = 1) -> Ids | None:
        """The draws of the same rows."""
        found = super().draws(epoch, step, steps, rank, world_size, threads)
        return None if found is None else found[found >= 0]

    def is_taken(self, epoch: int, step: int, steps: int, rank: int, world_size: int) -> npt.NDArray[np.bool_]:
        """At which of a rank's places there are rows."""
        return np.asarray(super().ids(epoch, step, steps, rank, world_size) >= 0)

    def place(self, step: int, steps: int, rank: int, world_size: int, index: Ids) -> tuple[Ids, Ids]:
        """Nobody asks: rows are read one by one, so that no window is open."""
        raise NotImplementedError

    def figures(self, world_size: int) -> TokenFigures:
        """How well steps are filled and balanced, by some of the first epoch."""
        steps = np.unique(np.linspace(0, self.tokens.steps - 1, _LOOKED_AT).astype(np.int64)).tolist()
        return _figures([self._of_ranks(step, world_size) for step in steps], self.max_tokens)

    def _of_ranks(self, step: int, world_size: int) -> tuple[int, Ids, Ids]:
        """Rows of a step, and for each rank its tokens, real ones and as they count."""
        rows = self.tokens.rows_at(0, step).reshape(world_size, -1)
        there = rows >= 0
        lengths = np.where(there, self.tokens.lengths[rows], 0)
        real, costs = lengths.sum(axis=1), self.budget.costs(lengths.max(axis=1))
        return int(there.sum()), real, there.sum(axis=1) * costs if self.budget.is_padded else real


@dataclass(frozen=True, kw_only=True)
class TokenFigures:
    """Of some steps of an epoch. rows: the fewest and the most of a step. most: tokens that a step counts at most.

    fill: of the tokens that are counted, how many are no padding. used: of `max_tokens`, how many are counted. balance: in a step, on average,
    the tokens of the rank with the most, by the mean of all ranks: 1 where they have equally many.
    """

    world_size: int
    rows: tuple[int, int]
    most: int
    max_tokens: int
    fill: float
    used: float
    balance: float

    def __str__(self) -> str:
        return (
            f"{self.rows[0]:,} to {self.rows[1]:,} rows and up to {self.most:,} tokens a step (at most {self.max_tokens:,}, of which {self.used:.1%} are used); "
            f"{self.fill:.1%} are no padding; of {self.world_size} ranks, the one with the most tokens has {self.balance - 1:.1%} more than the mean"
        )


def _figures(steps: list[tuple[int, Ids, Ids]], max_tokens: int) -> TokenFigures:
    rows = [count for count, _, _ in steps]
    real, counted = (np.stack([one[number] for one in steps]) for number in (1, 2))
    return TokenFigures(
        world_size=counted.shape[1],
        rows=(min(rows), max(rows)),
        most=int(counted.sum(axis=1).max()),
        max_tokens=max_tokens,
        fill=float(real.sum() / max(1, counted.sum())),
        used=float(counted.sum() / (len(steps) * max_tokens)),
        balance=float((counted.max(axis=1) / np.maximum(counted.mean(axis=1), 1e-9)).mean()),
    )
