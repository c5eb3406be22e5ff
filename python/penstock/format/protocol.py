"""What a format gives to the engine. A format sees byte ranges, never a storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from penstock.format.manifest import Manifest
from penstock.limits import DEFAULT_LIMITS, Limits
from penstock.shards import Shards
from penstock.spec import Bytes, Columns, Field, Ids, Spans, Spec

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]

#: Reports work done so far: (done, total) in bytes or files.
Progress = Callable[[int, int], None]


class ReadRanges(Protocol):
    """Reads many byte ranges at once, in native threads, into one buffer."""

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Fills out[at[i] : at[i] + length[i]] with length[i] bytes of shards[shard[i]] from offset[i].

        Raises DataError naming the file if it is gone, shorter than the range, or no longer of the size in `shards`.
        """


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one feature of a record becomes a column; what is None is inferred from the first records.

    feature: the name in the file. dtype, shape: as in `Field`; shape (None,) makes it ragged. default: used for every
    value of a record that lacks the feature; without it such a record is an error.
    """

    feature: str
    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None
    default: float | int | bytes | str | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked of `ps.read`, handed to the format as it is.

    columns: new name -> feature or `Column`; None takes every feature under its own name.
    """

    columns: Mapping[str, str | Column] | Sequence[str] | None = None
    verify: bool = True
    limits: Limits = field(default=DEFAULT_LIMITS)
    progress: Progress | None = None


@runtime_checkable
class Source(Protocol):
    """An opened dataset: its manifest, the columns that it offers, and how records become columns.

    `random_access` says that single records cost no more than neighbouring ones (memory), so that a block is one record.
    """

    @property
    def manifest(self) -> Manifest:
        """Shards and records."""

    @property
    def spec(self) -> Spec:
        """The columns that `parse` gives."""

    @property
    def random_access(self) -> bool:
        """Whether single records cost no more than neighbouring ones."""

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """Columns of the records (one span a row, frame included), one a field of `spec`.

        `records` is empty where the samples lie in memory. Raises RowError (row, found, do) for the first bad row; the
        engine adds file and record.
        """


@dataclass(frozen=True, kw_only=True)
class Format:
    """A row of the registry.

    suffixes: lower case, with the dot; matches(head): whether a file's first 64 bytes are of this format; open: see `Source`.
    """

    name: str
    suffixes: tuple[str, ...]
    matches: Callable[[bytes], bool]
    open: Callable[[Shards, ReadRanges, Options], Source]
