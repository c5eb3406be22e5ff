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

from penstock.core.messages import in_bounds, printable


class PenstockError(Exception):
    """Every error that Penstock raises on purpose. Names in its text never reach a terminal raw.

    Example:
        try:
            ps.read("nothing/here")
        except ps.PenstockError as error:
            print(error)
    """

    def __str__(self) -> str:
        return in_bounds(printable(super().__str__()))


class PlanError(PenstockError, ValueError):
    """The chain of verbs, or a Loader's arguments, cannot work. Also a ValueError.

    Example:
        try:
            data.select("picture")
        except ps.PlanError as error:
            print(error)
    """


class SourceError(PenstockError, FileNotFoundError):
    """There is nothing to read: a missing path, a glob without match, an empty dataset, an unknown format. Also a FileNotFoundError.

    Example:
        try:
            ps.read("missing-*.parquet")
        except ps.SourceError as error:
            print(error)
    """

    def __str__(self) -> str:
        return in_bounds(printable(str(self.args[0]))) if self.args else ""


class StorageError(PenstockError, OSError):
    """A store cannot be reached, refuses, or does not answer in time. Also an OSError.

    Example:
        def read_patiently(url):
            try:
                return ps.read(url)
            except ps.StorageError as error:
                print(f"try again later: {error}")
    """


class DataError(PenstockError, ValueError):
    """A record or shard is damaged, hostile, or not of the shape that the plan expects. Also a ValueError.

    Attributes:
        where: the place of the row to blame, "b.jsonl, record 2"; "" where no single row is.
        sample: the row's id, or None.
        row: its place among those that were worked on with it, or None.
        more: the errors of others of these, if they were looked at.
        found: what is wrong.
        do: what to do about it.

    Example:
        with open("broken.jsonl", "w") as file:
            print('{"a": 1}', file=file)
            print('{"a": }', file=file)
        try:
            [*ps.Loader(ps.read("broken.jsonl").batch(2))]
        except ps.DataError as error:
            print(error)
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
    """A saved state belongs to other data or to another plan. Also a ValueError.

    Example:
        state = ps.Loader(data.batch(2)).state_dict()
        try:
            ps.Loader(data.take(4).batch(2)).load_state_dict(state)
        except ps.StateError as error:
            print(error)
    """


class ProcessError(PenstockError, RuntimeError):
    """Used where it cannot work: in a forked child, or after close. Also a RuntimeError.

    Example:
        loader = ps.Loader(data.batch(2))
        loader.close()
        try:
            next(iter(loader))
        except ps.ProcessError as error:
            print(error)
    """


class RowError(PenstockError):
    """A kernel's or a format's error in one row of a batch; the engine turns it into a DataError that names file and record.

    Args:
        row: the row's place among those that were given.
        found: what is wrong.
        do: what to do about it.

    Attributes:
        every: the errors of all rows that failed, if the others were made all the same.

    Example:
        from penstock.source import RowError

        str(RowError(3, "-300 degrees", "measure again")) == "row 3: -300 degrees; measure again"
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
