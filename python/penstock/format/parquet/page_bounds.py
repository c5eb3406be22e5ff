"""Which rows of a row group a filter may keep, by what the page index says of the pages of the filter's columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.spec import Ids
from penstock.format.parquet.layout import ColumnChunk, Path, RowGroup
from penstock.format.parquet.pages import PagedFile, PagedFiles
from penstock.format.parquet.pruning import Pruning


def possible_rows(
    files: PagedFiles,
    file: PagedFile,
    pruning: Pruning,
    schema: pa.Schema,
    shard: int,
    group: int,
    known: pc.Expression,
) -> Ids | None:
    """The rows, ascending, that could pass the filter; None if that may be all of them.

    schema: the file's own; known: what is true of all of its rows.
    """
    columns = _said_of_pages(files, file, shard, group, [(name,) for name in pruning.names])
    if not columns:
        return None
    edges = np.unique(np.concatenate([first for first, _ in columns.values()]))
    which = {path: np.searchsorted(first, edges[:-1], side="right") - 1 for path, (first, _) in columns.items()}
    segments = [
        RowGroup(count, {path: _said(columns[path][1][page[segment]], count) for path, page in which.items()})
        for segment, count in enumerate(np.diff(edges).tolist())
    ]
    possible = pruning.possible(schema, segments, known)
    if all(possible):
        return None
    return np.concatenate([np.arange(0), *(np.arange(*edges[at : at + 2]) for at in np.flatnonzero(possible))])


def _said_of_pages(
    files: PagedFiles, file: PagedFile, shard: int, group: int, wanted: list[Path]
) -> dict[Path, tuple[Ids, list[ColumnChunk]]]:
    """By column: the first rows of its pages with the number of all rows, and what is said of each page. Empty where no page can be told from others."""
    pages, leaves, footer = files.pages(shard, group, wanted), file.footer.leaves(wanted), file.footer
    if pages is None or all(len(column.offset) == 1 for column in pages):
        return {}
    chunks = footer.chunks(group, leaves)
    bounded = ~np.array(footer.repeated)[leaves] & (chunks.bounds_at > 0) & (chunks.bounds_bytes > 0)
    listed = np.flatnonzero(bounded).tolist()
    pieces = files.index_bytes(shard, chunks.bounds_at[listed], chunks.bounds_bytes[listed]) if listed else None
    found = {}
    for number, piece in zip(listed, pieces or (), strict=pieces is not None):
        leaf, its = leaves[number], pages[number]
        said = footer.page_bounds(leaf, int(chunks.nulls[number]), its, piece)
        if said is not None:
            found[footer.paths[leaf]] = (its.first_row, said)
    return found


def _said(page: ColumnChunk, rows: int) -> ColumnChunk:
    """What is true of some rows of a page."""
    if page.is_null:
        return ColumnChunk(page.type, rows, rows)
    nulls = 0 if page.nulls == 0 else None
    return ColumnChunk(page.type, rows, nulls, page.low, page.high, page.ordered)
