"""What verification finds, as data: for `--json`, and for `words`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Wrong(StrEnum):
    """What can be wrong with a training run."""

    OTHER_PLAN = "other_plan"
    OTHER_PLACES = "other_places"
    OVERLAPPING_RANKS = "overlapping_ranks"
    MISSING_LEDGER = "missing_ledger"
    DIFFERENT_ROWS = "different_rows"
    MISSING_STEPS = "missing_steps"
    LOST_ROWS = "lost_rows"
    REPEATED_ROWS = "repeated_rows"
    FOREIGN_ROWS = "foreign_rows"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong, in words. rows: how many rows it is about, 0 where that is not what counts; ids: the first of them."""

    wrong: Wrong
    words: str
    epoch: int | None = None
    step: int | None = None
    rows: int = 0
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resume:
    """A start at a position, by so many ranks. steps_again: how many steps from there on had been taken before."""

    epoch: int
    step: int
    world_size: int
    is_loaded: bool
    steps_again: int


@dataclass(frozen=True, kw_only=True)
class EpochFound:
    """What was taken of an epoch. steps: it has, None where its data says so and nobody recorded it. complete_steps: by all ranks; first_step: where the ledgers begin in it; broken_off: by the training loop, after so many steps."""

    epoch: int
    steps: int | None
    complete_steps: int
    rows: int
    node: int | None = None
    first_step: int = 0
    broken_off: int | None = None


@dataclass
class Report:
    """All that was found. It is well if nothing is wrong. is_numbered: ids number what came out of a lane stage, whatever that was made of."""

    files: int = 0
    is_numbered: bool = False
    world_sizes: Sequence[int] = ()
    epochs: list[EpochFound] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)
    wrong: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def rows(self, *kinds: Wrong) -> int:
        """How many rows are wrong in these ways."""
        return sum(finding.rows for finding in self.wrong if finding.wrong in kinds)

    @property
    def lost(self) -> int:
        """Rows that should have been taken and were not."""
        return self.rows(Wrong.LOST_ROWS, Wrong.MISSING_STEPS)

    @property
    def repeated(self) -> int:
        """Rows that were taken more often than the plan says."""
        return self.rows(Wrong.REPEATED_ROWS)
