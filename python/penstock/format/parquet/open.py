"""What is looked for in each Parquet file when a dataset is opened: its row groups, the rows that a filter keeps, and the parts to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError
from penstock.format.parquet.files import DAMAGED, NO_PARQUET, ParquetFiles
from penstock.format.parquet.filter import kept_rows
from penstock.format.parquet.layout import Path, RowGroup
from penstock.format.parquet.nulls import Nulls, nulls_in
from penstock.format.parquet.pages import PagedFile, PagedFiles
from penstock.format.parquet.parts import GroupPart, Kept, edges_of, is_large
from penstock.format.parquet.pruning import Pruning
from penstock.source.tables.table import TableColumn, arrow_errors, check_same_columns, check_unpacked

_T = TypeVar("_T")

#: Bytes of a decoded value; of text that of its place.
_VALUE_BYTES = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12, "BYTE_ARRAY": 4}
#: Files that are looked at together.
TOGETHER = 8


@dataclass(frozen=True, eq=False)
class Look:
    """How files are looked at: all of them have the columns of `schema`; `filtered` is what the filter is about."""

    files: ParquetFiles
    paged: PagedFiles
    columns: tuple[TableColumn, ...]
    schema: pa.Schema
    fixed_bytes: int
    keep: pc.Expression | None
    filtered: Sequence[Path]
    pruning: Pruning | None

    def __call__(self, shard: int) -> tuple[list[GroupPart], list[Kept], Nulls]:
        """A file's parts, and the rows that pass the filter, of each row group that has some; and how many nulls each column has."""
        shards, place, opened = self.files.shards, self.files.shards.path(shard), self.files.bytes_of(shard)
        with arrow_errors(place, NO_PARQUET):  # before pyarrow does, so that what is read ahead of a store serves both
            paged = self.paged.look(shard, opened)
        file = self.files.open(shard, opened)
        check_same_columns(self.files.schema(file), self.schema, self.columns, place, shards.path(0))
        rows, sizes = self._rows(shard, file)
        if paged is not None and not np.array_equal(paged.footer.rows, rows):
            paged = None
        kept = [] if self.keep is None else self._kept(shard, file, paged, rows)
        parts = []
        for turn, group in enumerate(np.flatnonzero(rows).tolist()):
            its = kept[turn] if kept else None
            parts += self._parts(shard, paged, group, int(rows[group]), sizes[group], its)
        groups = list(dict.fromkeys(part.group for part in parts))
        with arrow_errors(place, DAMAGED):
            return parts, kept, nulls_in(file, paged, groups, self.columns)

    def _rows(self, shard: int, file: pq.ParquetFile) -> tuple[Ids, list[int]]:
        """The rows of each row group, and its decoded bytes."""
        place, count = self.files.shards.path(shard), file.metadata.num_rows
        with arrow_errors(place, DAMAGED):
            found = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        rows = np.array([group.num_rows for group in found], dtype=np.int64)
        if (rows < 0).any() or rows.sum() != count or (len(rows) and rows.max() >= 1 << 31):
            raise DataError(f"{place}: row groups of {rows.tolist()[:8]} rows, {count:,} in all; {DAMAGED}")
        sizes = [max(self.fixed_bytes * group.num_rows, group.total_byte_size) for group in found]
        widths = _widths(file.metadata.schema, [column.stored for column in self.columns])
        for number, (group, size) in enumerate(zip(found, sizes, strict=True)):
            packed = int(self.files.shards.sizes[shard])
            values_bytes = sum(width * group.column(leaf).num_values for leaf, width in widths.items())
            check_unpacked(max(size, values_bytes), packed, self.files.limits, self.files.place(shard, number))
        return rows, sizes

    def _parts(
        self, shard: int, paged: PagedFile | None, group: int, rows: int, size: int, kept: Kept | None
    ) -> list[GroupPart]:
        """The parts of a row group, whose columns are of `size` bytes together; none if no row passes the filter."""
        wanted = [column.stored for column in self.columns]
        edges, by_pages = np.array([0, rows]), False
        some = kept is not None and 0 < len(kept) < rows
        if paged is not None and (some or (is_large(size) and (kept is None or len(kept) == rows))):
            unpacked = paged.footer.chunks(group, paged.footer.leaves(wanted)).unpacked
            chosen = max(self.fixed_bytes * rows, int(unpacked.clip(0, 1 << 40).sum()))
            if (some or is_large(chosen)) and (pages := self.paged.pages(shard, group, wanted)):
                edges = edges_of(rows, chosen, pages)
                by_pages = some or len(edges) > 2
        cuts = edges.tolist()
        pieces = [None] * (len(cuts) - 1) if kept is None else np.split(kept, np.searchsorted(kept, cuts[1:-1]))
        return [
            GroupPart(shard, group, first, end - first, by_pages, its)
            for first, end, its in zip(cuts, cuts[1:], pieces, strict=False)
            if its is None or len(its)
        ]

    def _kept(self, shard: int, file: pq.ParquetFile, paged: PagedFile | None, rows: Ids) -> list[Kept]:
        """The rows that a filter keeps of each row group that has some."""
        known, schema = self.files.folders.known(shard), self.files.schema(file)
        possible = [True] * len(rows)
        if self.pruning is not None:
            nothing = [RowGroup(count, {}) for count in rows.tolist()]
            said = nothing if paged is None else paged.footer.row_groups(self.pruning.names)
            possible = self.pruning.possible(schema, said, known)
        kept = []
        for group in np.flatnonzero(rows).tolist():
            wanted = None
            if possible[group] and self.pruning is not None and paged is not None:
                said_of_pages = self.paged.bounds(shard, group, [(name,) for name in self.pruning.names])
                wanted = self.pruning.possible_rows(schema, said_of_pages, known)
            if not possible[group] or (wanted is not None and not len(wanted)):
                kept.append(np.empty(0, dtype=np.int32))
            else:
                kept.append(self._kept_of(shard, file, group, int(rows[group]), wanted))
        return kept

    def _kept_of(self, shard: int, file: pq.ParquetFile, group: int, rows: int, wanted: Ids | None) -> Kept:
        """The rows of a row group that pass the filter, all of them among `wanted`."""
        assert self.keep is not None
        with arrow_errors(f"{self.files.place(shard, group)}: filters={self.keep}", DAMAGED):
            if wanted is not None and self.paged.pages(shard, group, self.filtered):
                table = self.paged.table(shard, group, self.filtered, wanted)
                return wanted[kept_rows(table, self.keep)].astype(np.int32)
            return kept_rows(self.files.table(shard, file, group, self.filtered, rows), self.keep)


def _widths(schema: pq.ParquetSchema, wanted: Sequence[Path]) -> dict[int, int]:
    """Bytes of a decoded value of those of these columns, by leaf, whose values are not as many as rows, or have a width that no field says."""
    tops = {path[0] for path in wanted}
    leaves = ((number, schema.column(number)) for number in range(len(schema)))
    return {
        number: leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else _VALUE_BYTES.get(leaf.physical_type, 0)
        for number, leaf in leaves
        if leaf.path.partition(".")[0] in tops
        and (leaf.max_repetition_level or leaf.physical_type == "FIXED_LEN_BYTE_ARRAY")
    }


def for_each(items: range, look: Callable[[int], _T], progress: Callable[[int, int], None] | None) -> list[_T]:
    """look(item) for all items, several at once; stops at the first error."""
    if len(items) == 1 and progress is None:
        return [look(items[0])]
    found = []
    with ThreadPoolExecutor(min(TOGETHER, max(1, len(items))), thread_name_prefix="penstock-open") as threads:
        try:
            for result in threads.map(look, items):
                found.append(result)
                if progress is not None:
                    progress(len(found), len(items))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    return found
