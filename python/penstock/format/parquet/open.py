"""What is looked for in each Parquet file when a dataset is opened: its row groups, the rows that a filter keeps, and the parts to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.errors import DataError
from penstock.core.spec import Ids
from penstock.format.parquet.files import DAMAGED, NO_PARQUET, Files
from penstock.format.parquet.filter import kept_rows
from penstock.format.parquet.footer import Path, RowGroup, row_groups
from penstock.format.parquet.page_bounds import possible_rows
from penstock.format.parquet.pages import PagedFile, PagedFiles
from penstock.format.parquet.parts import Parts, edges_of, is_large
from penstock.format.parquet.pruning import Pruning
from penstock.source.tables.table import TableColumn, arrow_errors, check_same_columns, check_unpacked

_T = TypeVar("_T")
_Kept = npt.NDArray[np.int32]

#: Files that are looked at together.
TOGETHER = 8
_UNPACKED = 3


@dataclass(frozen=True, eq=False)
class Look:
    """How files are looked at: all of them have the columns of `schema`; `filtered` is what the filter is about."""

    files: Files
    paged: PagedFiles
    columns: tuple[TableColumn, ...]
    schema: pa.Schema
    fixed_bytes: int
    keep: pc.Expression | None
    filtered: Sequence[Path]
    pruning: Pruning | None

    def __call__(self, shard: int) -> tuple[Parts, list[_Kept]]:
        """A file's parts, and the rows that pass the filter, of each row group that has some."""
        shards, place, opened = self.files.shards, self.files.shards.path(shard), self.files.bytes_of(shard)
        with arrow_errors(place, NO_PARQUET):  # before pyarrow does, so that what is read ahead of a store serves both
            paged = self.paged.look(shard, opened)
        file = self.files.open(shard, opened)
        check_same_columns(self.files.schema(file), self.schema, self.columns, place, shards.path(0))
        with arrow_errors(place, DAMAGED):
            found = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        rows = np.array([group.num_rows for group in found], dtype=np.int64)
        if (rows < 0).any() or rows.sum() != file.metadata.num_rows or (len(rows) and rows.max() >= 1 << 31):
            raise DataError(
                f"{place}: row groups of {rows.tolist()[:8]} rows, {file.metadata.num_rows:,} in all; {DAMAGED}"
            )
        sizes: list[int] = []
        for group, count in enumerate(rows.tolist()):
            sizes.append(max(self.fixed_bytes * count, found[group].total_byte_size))
            check_unpacked(sizes[-1], int(shards.sizes[shard]), self.files.limits, f"{place}, row group {group}")
        if paged is not None and not np.array_equal(paged.footer.rows, rows):
            paged = None
        number = np.flatnonzero(rows)
        kept = [] if self.keep is None else self._kept(shard, file, paged, rows)
        parts = [
            self._parts(shard, paged, group, int(rows[group]), sizes[group], kept[turn] if kept else None)
            for turn, group in enumerate(number.tolist())
        ]
        return join_parts(parts, filtered=self.keep is not None), kept

    def _parts(
        self, shard: int, paged: PagedFile | None, group: int, rows: int, size: int, kept: _Kept | None
    ) -> Parts:
        """The parts of a row group, whose columns are of `size` bytes together; none if no row passes the filter."""
        wanted = [column.stored for column in self.columns]
        edges, by_pages = np.array([0, rows]), False
        some = kept is not None and 0 < len(kept) < rows
        if paged is not None and (some or (is_large(size) and (kept is None or len(kept) == rows))):
            numbers = paged.footer.chunks(group)[paged.leaves(wanted)]
            chosen = max(self.fixed_bytes * rows, int(numbers[:, _UNPACKED].clip(0, 1 << 40).sum()))
            if (some or is_large(chosen)) and (pages := self.paged.pages(shard, group, wanted)):
                edges = edges_of(rows, chosen, pages)
                by_pages = some or len(edges) > 2
        parts = [] if kept is None else np.split(kept, np.searchsorted(kept, edges[1:-1]))
        left = np.array([len(part) > 0 for part in parts] if kept is not None else [True] * (len(edges) - 1))
        count = int(left.sum())
        return Parts(
            np.full(count, shard),
            np.full(count, group),
            edges[:-1][left],
            np.diff(edges)[left],
            np.full(count, by_pages),
            None if kept is None else [part for part in parts if len(part)],
        )

    def _kept(self, shard: int, file: pq.ParquetFile, paged: PagedFile | None, rows: Ids) -> list[_Kept]:
        """The rows that a filter keeps of each row group that has some."""
        none = np.empty(0, dtype=np.int32)
        known, schema = self.files.folders.known(shard), self.files.schema(file)
        possible = [True] * len(rows)
        if self.pruning is not None:
            said: list[RowGroup] | None = None if paged is None else row_groups(paged.footer, self.pruning.names)
            possible = self.pruning.possible(schema, rows.tolist(), said, known)
        kept = []
        for group in np.flatnonzero(rows).tolist():
            wanted = None
            if possible[group] and self.pruning is not None and paged is not None:
                wanted = possible_rows(self.paged, paged, self.pruning, schema, shard, group, known)
            if not possible[group] or (wanted is not None and not len(wanted)):
                kept.append(none)
            else:
                kept.append(self._kept_of(shard, file, group, int(rows[group]), wanted))
        return kept

    def _kept_of(self, shard: int, file: pq.ParquetFile, group: int, rows: int, wanted: Ids | None) -> _Kept:
        """The rows of a row group that pass the filter, all of them among `wanted`."""
        assert self.keep is not None
        with arrow_errors(f"{self.files.place(shard, group)}: filters={self.keep}", DAMAGED):
            if wanted is not None and self.paged.pages(shard, group, self.filtered):
                table = self.paged.table(shard, group, self.filtered, wanted)
                return wanted[kept_rows(table, self.keep)].astype(np.int32)
            table = self.files.table(shard, file, group, self.filtered)
            if table.num_rows != rows:
                raise pa.ArrowInvalid(f"{table.num_rows:,} rows where the footer says {rows:,}")
            return kept_rows(table, self.keep)


def join_parts(parts: Sequence[Parts], *, filtered: bool) -> Parts:
    """The parts of all row groups, or of all files."""

    def joined(name: str) -> Ids:
        return np.concatenate([np.arange(0), *(getattr(part, name) for part in parts)])

    return Parts(
        joined("shard"),
        joined("group"),
        joined("first"),
        joined("rows"),
        joined("by_pages").astype(np.bool_),
        [rows for part in parts for rows in part.kept or ()] if filtered else None,
    )


def for_each(items: range, look: Callable[[int], _T], progress: Callable[[int, int], None] | None) -> list[_T]:
    """look(item) for all items, several at once; stops at the first error."""
    if len(items) == 1 and progress is None:
        return [look(items[0])]
    found = []
    with ThreadPoolExecutor(min(TOGETHER, max(1, len(items))), thread_name_prefix="penstock-open") as threads:
        futures = [threads.submit(look, item) for item in items]
        try:
            for done, future in enumerate(futures, 1):
                found.append(future.result())
                if progress is not None:
                    progress(done, len(items))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return found
