"""What a format gives to the engine. A format sees byte ranges, never a storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol, TypeAlias, runtime_checkable

from penstock.core.columns.categories import Categories
from penstock.core.columns.rows import Rows
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.kernels import EpochOrder
from penstock.core.verbs.options import Options
from penstock.source.manifest import Manifest

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]


class Access(Enum):
    """How the rows of a source are reached; each has its reader in `stages/read`.

    Attributes:
        RECORDS: byte ranges are read, and `parse` makes columns of them.
        MEMORY: rows lie in memory, or are mapped into it, and `parse` gets no records.
        BLOCKS: `load` gives neighbouring rows.
        PARTS: as BLOCKS, and `pick` gives single rows.
        FORWARD: `load` is called for ascending rows only, which are shuffled within windows.

    Example:
        from penstock.source import Access

        data.source.access == Access.MEMORY
    """

    RECORDS = auto()
    MEMORY = auto()
    BLOCKS = auto()
    PARTS = auto()
    FORWARD = auto()


class Resuming(Enum):
    """How rows that can only be read in one order come again after a restart.

    START: from any row on. AGAIN: from the first one on, so that those before are drawn once more. NEVER: what an iterator gave is gone.
    """

    START = "start"
    AGAIN = "again"
    NEVER = "never"


class OpenedDataset(Protocol):
    """An opened dataset."""

    @property
    def manifest(self) -> Manifest:
        """Shards and records; no offsets where rows lie in columns."""

    @property
    def spec(self) -> Spec:
        """The columns that it gives."""

    @property
    def access(self) -> Access:
        """How rows are reached."""


@runtime_checkable
class Source(OpenedDataset, Protocol):
    """An opened dataset of records, or of rows in memory: how records become columns. Its access is RECORDS or MEMORY.

    Example:
        from penstock.source.protocol import Source

        isinstance(ps.read("examples.tfrecord").source, Source) == True
    """

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """Columns of the records, one a field of `spec`; called from several threads, for any records in any order.

        Args:
            samples: int64, the sample ids.
            records: one span a row, frame included; empty where the samples lie in memory.
            allocate: makes the array of a fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
            threads: how many the parser may use. Default: 1.

        Returns:
            Arrays, Spans or Arrow arrays of one row a record, by name.

        Raises:
            RowError: row, found, do, for the first bad row; the engine adds file and record.

        Example:
            from penstock.core.columns.spec import Spans

            columns = data.source.parse(np.array([3, 1]), Spans((), *np.empty((3, 0), np.int64)), lambda _, field, rows: np.empty(rows, field.dtype))
            columns["x"] == [3, 1]
        """


@runtime_checkable
class Joinable(Protocol):
    """A source that can be read as one with others like it."""

    def joined(self, others: Sequence[Any]) -> Any | None:
        """The source's rows, and then those of the others; None where theirs do not lie alike."""


@runtime_checkable
class Parsing(Protocol):
    """A source of records that may be parsed as those of others are."""

    @property
    def parsing(self) -> object:
        """What the parser is made of: sources of which it is the same parse records alike. None where that is not known."""


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
class BlockSource(OpenedDataset, Protocol):
    """An opened dataset whose rows lie in columns (Parquet, HDF5, a database): neighbouring rows are loaded together.

    Its access is BLOCKS, PARTS or FORWARD.

    Attributes:
        block_rows: how many neighbouring rows are worth loading together, None for about 1 MiB of them.

    Example:
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"x": range(100)}), "rows.parquet")
        rows = ps.read("rows.parquet").source.load(10, 3)
    """

    @property
    def block_rows(self) -> int | None:
        """How many neighbouring rows are worth loading together."""

    def load(self, first: int, rows: int) -> Columns | Rows:
        """Neighbouring rows; called from several threads at once, for any rows in any order.

        Args:
            first: the first row.
            rows: how many.

        Returns:
            NumPy or Arrow arrays, one a field of `spec`, or all of them as `Rows`.

        Raises:
            DataError: with its own place, for damaged data.
            RowError: row of these, found, do, for one bad row; the engine adds file and record.

        Example:
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table({"x": range(100)}), "rows.parquet")
            rows = ps.read("rows.parquet").source.load(10, 3)
        """


@runtime_checkable
class ForwardSource(BlockSource, Protocol):
    """A source of blocks that are loaded in ascending order only. Its access is FORWARD."""

    @property
    def resuming(self) -> Resuming:
        """How its rows come again after a restart."""


@runtime_checkable
class PartSource(BlockSource, Protocol):
    """A source of blocks that keeps parts of itself, out of which single rows are picked.

    first_row: int64, the first row of each part, and the end of all.
    """

    first_row: Ids

    @property
    def stays_in_memory(self) -> bool:
        """Whether all parts stay in memory, so that blocks need not be opened."""

    def has_part(self, number: int) -> bool:
        """Whether a part is available."""

    def part(self, number: int) -> tuple[Rows, bool]:
        """A part, and whether it stays where it is: else what is wanted of it is to be copied."""


@runtime_checkable
class ScannedSource(Protocol):
    """A source whose parts can be had as columns, for whoever goes through all rows once: nothing is kept.

    first_row: int64, the first row of each part, and the end of all.
    """

    first_row: Ids

    def part_columns(self, number: int, *, keeps_repeated: bool = False) -> Columns:
        """The columns of a part, as `BlockSource.load` gives them. keeps_repeated: text that repeats may be an Arrow dictionary, with nulls where it has some."""


@runtime_checkable
class ColumnSource(Protocol):
    """A source of which some columns can be read without the others."""

    def only(self, names: Sequence[str]) -> AnySource:
        """The same rows, with the same manifest, and these of its columns alone, in this order; itself where that cannot be."""


@runtime_checkable
class StoringSource(Protocol):
    """A source of columns that stores what it decodes."""

    def once(self, names: Sequence[str]) -> AnySource:
        """As `ColumnSource.only`, for whoever goes through the rows once: nothing is written to the cache."""


@runtime_checkable
class DecodedSource(Protocol):
    """A source whose rows take more in batches than its manifest says: values that stand once for many rows are written out there."""

    @property
    def decoded_bytes(self) -> int:
        """Bytes of all rows in batches, about."""


@runtime_checkable
class CompressedSource(Protocol):
    """A source whose manifest counts compressed columns as they lie in its files: so blocks are cut, and orders stay what they were."""

    @property
    def unpacked_bytes(self) -> int:
        """Bytes of all rows where blocks of them are open."""


@runtime_checkable
class UnpackedSource(Protocol):
    """A source whose blocks are unpacked while they are loaded.

    unpacked_copies: how often a block lies in memory meanwhile, besides what comes of it. library_bytes: what a library keeps for the next one.
    """

    unpacked_copies: int
    library_bytes: int


@runtime_checkable
class KeepingSource(Protocol):
    """A source that keeps decoded parts of itself in memory, and takes more while it decodes one."""

    def keep_within(self, memory_bytes: int) -> int:
        """Keeps no more than suits a loader that may hold so much; how much that is at most, with what decoding takes."""

    def needed_within(self, memory_bytes: int) -> int:
        """How much that would be, if nothing was kept before."""


@runtime_checkable
class NullSource(Protocol):
    """A source that knows only of its first rows whether columns have nulls."""

    def seeing_nulls(self) -> AnySource:
        """The same rows, in which columns may have nulls wherever they can: what expressions look at."""


@runtime_checkable
class CategorySource(Protocol):
    """A source that knows the categories of columns that have some."""

    def categories(self, name: str) -> Iterable[Categories]:
        """Those of a column, part after part; nothing for a column of plain values."""


@dataclass(frozen=True)
class Bounds:
    """What a source says of some neighbouring rows without reading them: `of` has the least and the greatest value of some columns, or wider bounds.

    Values are those of a batch; NaN is none of them. Columns that are not named may hold anything.
    """

    first: int
    rows: int
    of: Mapping[str, tuple[Any, Any]]


@runtime_checkable
class BoundedSource(Protocol):
    """A source that knows bounds of its rows' values."""

    def bounds(self, names: Sequence[str]) -> Sequence[Bounds]:
        """Bounds of these columns, of runs of rows; rows of which nothing is known need not be there."""


@runtime_checkable
class Paced(Protocol):
    """A source that runs a user's code, which may be slow: it bounds how many rows are made together."""

    @property
    def rows_together(self) -> int:
        """How many rows are worth asking for at once."""


AnySource: TypeAlias = Source | BlockSource


def always_false(_: Any) -> bool:
    """For formats that nothing but suffix or name tells."""
    return False


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format: how its files are recognised and opened. docs/own_format.md builds one.

    `read` asks `claims` first, then looks at suffixes, then asks `matches`. It warns of what else is left out of a folder.

    Args:
        name: what `read(format=…)` calls it.
        suffixes: of its files: lower case, with the dot. Default: none.
        unread: suffixes of files of the same kind that cannot be read. Default: none.
        is_beside: whether its files often lie beside those of others, as labels do. Default: False.
        matches: whether a file's first 512 bytes are of this format. Default: never.
        claims: whether the files together are a dataset of this format (a folder with an index, say). Default: never.
        options: names of `ps.read`'s further arguments that the format takes, with a line of explanation each. Default: none.
        access: for the table of formats in the documentation: what a single sample costs to reach.
        detects: for that table: what damage is detected without checksums.
        extra: for that table: which extra to install.
        open: gets the files, what reads byte ranges of them, and the options; returns a `Source` or a `BlockSource`.

    Example:
        from penstock.source import Format

        temperatures = Format(name="temperatures", suffixes=(".temp",), matches=lambda head: head.startswith(b"TEMP"), open=print)
    """

    name: str
    suffixes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    is_beside: bool = False
    matches: Callable[[bytes], bool] = always_false
    claims: Callable[[Shards], bool] = always_false
    options: Mapping[str, str] = field(default_factory=dict)
    access: str = ""
    detects: str = ""
    extra: str = ""
    open: Callable[[Shards, ByteRanges, Options], AnySource]
