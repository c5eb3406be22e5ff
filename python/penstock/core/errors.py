"""The errors of Penstock: one tree. Every message says where, what was found and what to do.

PenstockError
├── PlanError        the chain of verbs, or a Loader's arguments, cannot work     (also a ValueError)
├── SourceError      nothing there: missing path, empty dataset, unknown format   (also a FileNotFoundError)
├── StorageError     a store cannot be reached, refuses, or does not answer in time (also an OSError)
├── DataError        a record or shard is damaged, hostile or of another shape    (also a ValueError)
├── StateError       a saved state belongs to other data or another plan          (also a ValueError)
├── RowError         a kernel's error in one row of a batch; users see it as DataError
└── ProcessError     used where it cannot work: after fork, after close           (also a RuntimeError)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from penstock.core.quoted import in_bounds, printable


class PenstockError(Exception):
    """Every error that Penstock raises on purpose. Names in its text never reach a terminal raw."""

    def __str__(self) -> str:
        return in_bounds(printable(super().__str__()))


class PlanError(PenstockError, ValueError):
    """The chain of verbs, or a Loader's arguments, cannot work."""


class SourceError(PenstockError, FileNotFoundError):
    """There is nothing to read: a missing path, a glob without match, an empty dataset, an unknown format."""

    def __str__(self) -> str:
        return in_bounds(printable(str(self.args[0]))) if self.args else ""


class StorageError(PenstockError, OSError):
    """A store cannot be reached, refuses, or does not answer in time."""


class DataError(PenstockError, ValueError):
    """A record or shard is damaged, hostile, or not of the shape that the plan expects.

    Where one row is to blame, its parts are attributes: where ("b.jsonl, record 2"), sample (its id), found, do; row is its place among
    those that were worked on with it, and more are the errors of others of these, if they were looked at.
    """

    where: str = ""
    sample: int | None = None
    row: int | None = None
    more: Sequence[DataError] = ()
    found: str = ""
    do: str = ""

    @classmethod
    def of_row(cls, where: str, sample: int, error: RowError) -> Self:
        """A kernel's complaint about a row, with the row's place and id."""
        made = cls(f"{where}: {error.found}; {error.do}" if error.do else f"{where}: {error.found}")
        made.where, made.sample, made.found, made.do = where, sample, error.found, error.do
        made.row = error.row
        return made


class StateError(PenstockError, ValueError):
    """A saved state belongs to other data or to another plan."""


class ProcessError(PenstockError, RuntimeError):
    """Used where it cannot work: in a forked child, or after close."""


class RowError(PenstockError):
    """A kernel's error in one row of a batch; the engine turns it into a DataError that names file and record.

    every: the errors of all rows that failed, if the others were made all the same.
    """

    every: Sequence[RowError] = ()

    def __init__(self, row: int, found: str, do: str = "") -> None:
        super().__init__(f"row {row}: {found}" + (f"; {do}" if do else ""))
        self.row, self.found, self.do = row, found, do

    def __reduce__(self) -> tuple[Any, ...]:
        return RowError, (self.row, self.found, self.do), vars(self)


def not_to_be_sent(held: str) -> ProcessError:
    """The error for a dataset that would carry credentials in its pickle."""
    return ProcessError(
        f"this dataset cannot be pickled, since {held} may hold credentials, which would stand in the pickle; open it in the other process, "
        f"or by a URL, for which each process finds the credentials of its own environment"
    )
