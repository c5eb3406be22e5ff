"""What a format gives to the engine. A format sees byte ranges, never a storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from penstock.errors import PlanError
from penstock.format.manifest import Manifest
from penstock.kernels import EpochOrder
from penstock.limits import DEFAULT_LIMITS, Limits
from penstock.rows import Rows
from penstock.shards import Shards
from penstock.spec import Bytes, Columns, Field, Ids, Spans, Spec

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]

#: Finds single files by path or URL, wherever they lie: their listing, in the order given, and how to read them.
Locate = Callable[[Sequence[str]], tuple[Shards, "ReadRanges"]]

#: Reports work done so far: (done, total) in bytes or files.
Progress = Callable[[int, int], None]


class ReadRanges(Protocol):
    """Reads many byte ranges at once, in native threads, into one buffer."""

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Fills out[at[i] : at[i] + length[i]] with length[i] bytes of shards[shard[i]] from offset[i].

        Raises DataError naming the file if it is gone, shorter than the range, or no longer of the size in `shards`.
        """


def read_range(read: ReadRanges, shards: Shards, shard: int, offset: int, length: int) -> Bytes:
    """One byte range of one shard."""
    out = np.empty(length, dtype=np.uint8)
    number, begin, size, at = (np.array([one], dtype=np.int64) for one in (shard, offset, length, 0))
    read(shards, number, begin, size, out, at)
    return out


def forget(read: ReadRanges, shards: Shards) -> None:
    """Lets a cache behind `read` drop files that a format has made files of its own from, so that nothing is kept twice."""
    drop = getattr(read, "forget", None)
    if drop is not None:
        drop(shards)


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

    def __post_init__(self) -> None:
        axes = self.shape if isinstance(self.shape, (tuple, list)) else () if self.shape is None else (self.shape, "")
        if not all(axis is None or isinstance(axis, (int, np.integer)) for axis in axes):
            raise PlanError(
                f"Column: shape={self.shape!r}; write a tuple: () for one value, (3,) for three, (None,) for any"
            )


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked of `ps.read`, handed to the format as it is.

    columns: new name -> feature or `Column`; None takes every feature under its own name. own: the format's own options
    (see `Format.options`), as the user wrote them. locate: finds files that a file names, for formats whose samples lie
    elsewhere; such a source has `read_ranges` of its own.
    """

    columns: Mapping[str, str | Column] | Sequence[str] | None = None
    verify: bool = True
    limits: Limits = field(default=DEFAULT_LIMITS)
    progress: Progress | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    locate: Locate | None = None


@runtime_checkable
class Source(Protocol):
    """An opened dataset: its manifest, the columns that it offers, and how records become columns.

    `random_access` says that samples lie in memory, or are mapped into it: there is nothing to read before `parse`.
    """

    @property
    def manifest(self) -> Manifest:
        """Shards and records."""

    @property
    def spec(self) -> Spec:
        """The columns that `parse` gives."""

    @property
    def random_access(self) -> bool:
        """Whether samples lie in memory, so that nothing is read before `parse`."""

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """Columns of the records (one span a row, frame included), one a field of `spec`.

        `records` is empty where the samples lie in memory. Raises RowError (row, found, do) for the first bad row; the
        engine adds file and record.
        """


@runtime_checkable
class StepSource(Protocol):
    """A source in memory that gathers the rows of whole steps while it computes their order."""

    @property
    def spec(self) -> Spec:
        """The columns that `gather_steps` gives."""

    @property
    def gathers_steps(self) -> bool:
        """Whether that is faster than `parse`, for these columns."""

    def gather_steps(
        self,
        order: EpochOrder,
        share: tuple[int, int],
        step: int,
        rows: int,
        allocate: Allocate,
    ) -> Columns:
        """Columns of whole steps, `rows` in all, from `step` on, by the calling thread alone.

        share: the places [first, last) of every global batch that are wanted.
        """


@runtime_checkable
class BlockSource(Protocol):
    """An opened dataset whose rows lie in columns (Parquet, HDF5, a database): neighbouring rows are loaded together.

    block_rows: how many neighbouring rows are worth loading together, None for about 1 MiB of them.
    """

    @property
    def manifest(self) -> Manifest:
        """Shards and rows; no offsets."""

    @property
    def spec(self) -> Spec:
        """The columns that `load` gives."""

    @property
    def block_rows(self) -> int | None:
        """How many neighbouring rows are worth loading together."""

    def load(self, first: int, rows: int) -> Columns | Rows:
        """Rows [first, first + rows) of the dataset: NumPy or Arrow arrays, one a field of `spec`, or all of them as `Rows`.

        Called from several threads at once, for any rows in any order. Raises DataError with its own place for damaged
        data, RowError (row of these, found, do) for one bad row; the engine adds file and record.
        """


@runtime_checkable
class PartSource(Protocol):
    """A source of blocks that keeps parts of itself in memory, out of which single rows are picked."""

    def pick(self, samples: Ids) -> tuple[tuple[Rows, ...], Ids, Ids]:
        """Tables, and for each of `samples` which table holds it, and in which row (both int64)."""


@runtime_checkable
class Paced(Protocol):
    """A source that runs a user's code, which may be slow: it bounds how many rows are made together."""

    @property
    def rows_together(self) -> int:
        """How many rows are worth asking for at once."""


AnySource: TypeAlias = Source | BlockSource


def is_forward_only(source: AnySource) -> bool:
    """Whether a source of blocks says that it loads them in ascending order only, so that nothing can be shuffled."""
    return bool(getattr(source, "forward_only", False))


def always_false(_: Any) -> bool:
    """For formats that nothing but suffix or name tells."""
    return False


@dataclass(frozen=True, kw_only=True)
class Format:
    """A row of the registry.

    claims(shards): whether the files together are a dataset of this format (a folder with an index, say); asked first.
    suffixes: lower case, with the dot; asked next. matches(head): whether a file's first 512 bytes are of this format; asked
    last. options: names of `ps.read`'s further arguments that the format takes, with a line of explanation each. access,
    detects, extra: for the table of formats in the documentation: what a single sample costs to reach, what damage is
    seen without an index of checksums, and which extra to install.
    """

    name: str
    suffixes: tuple[str, ...] = ()
    matches: Callable[[bytes], bool] = always_false
    claims: Callable[[Shards], bool] = always_false
    options: Mapping[str, str] = field(default_factory=dict)
    access: str = ""
    detects: str = ""
    extra: str = ""
    open: Callable[[Shards, ReadRanges, Options], AnySource]
