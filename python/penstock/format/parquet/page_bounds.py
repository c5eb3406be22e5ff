"""Which rows of a row group a filter may keep, by what the page index says of the pages of the filter's columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core import kernels
from penstock.core.spec import Ids
from penstock.format.parquet.footer import ColumnChunk, Path, RowGroup
from penstock.format.parquet.pages import PagedFile, PagedFiles
from penstock.format.parquet.parts import Pages
from penstock.format.parquet.pruning import Pruning

_NULLS, _AT, _LENGTH = 5, 9, 10


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
    wanted: list[Path] = [(name,) for name in pruning.names]
    pages = files.pages(shard, group, wanted)
    if pages is None or all(len(column.offset) == 1 for column in pages):
        return None
    columns = _said_of_pages(files, file, shard, group, file.leaves(wanted), pages)
    if not columns:
        return None
    edges = np.unique(np.concatenate([first for first, _ in columns.values()]))
    segments = []
    which = {path: np.searchsorted(first, edges[:-1], side="right") - 1 for path, (first, _) in columns.items()}
    for segment, rows in enumerate(np.diff(edges).tolist()):
        said = {path: _said(columns[path][1][page[segment]], rows) for path, page in which.items()}
        segments.append(RowGroup(rows, said))
    possible = pruning.possible(schema, [segment.rows for segment in segments], segments, known)
    if all(possible):
        return None
    return np.concatenate([np.arange(0), *(np.arange(*edges[at : at + 2]) for at in np.flatnonzero(possible))])


def _said_of_pages(
    files: PagedFiles, file: PagedFile, shard: int, group: int, leaves: Sequence[int], pages: Sequence[Pages]
) -> dict[Path, tuple[Ids, list[ColumnChunk]]]:
    """By column: the first rows of its pages with the number of all rows, and what is said of each page."""
    numbers = file.footer.chunks(group)
    listed = [
        (leaf, its)
        for leaf, its in zip(leaves, pages, strict=True)
        if not file.repeated[leaf] and numbers[leaf, _AT] > 0 and numbers[leaf, _LENGTH] > 0
    ]
    if not listed:
        return {}
    chosen = numbers[[leaf for leaf, _ in listed]]
    pieces = files.index_bytes(shard, chosen[:, _AT].copy(), chosen[:, _LENGTH].copy())
    found = {}
    for (leaf, its), piece in zip(listed, pieces or (), strict=pieces is not None):
        _, kind, _, ordered = file.footer.leaves[leaf]
        said = _bounds(piece, its, kind, int(numbers[leaf, _NULLS]), ordered=ordered)
        if said is not None:
            found[file.paths[leaf]] = (its.first_row, said)
    return found


def _bounds(piece: np.ndarray, pages: Pages, kind: int, nulls: int, *, ordered: bool) -> list[ColumnChunk] | None:
    """What a column index says of each page; None if it contradicts the footer, which says how many nulls there are (-1: not)."""
    try:
        null, low, high, counts = kernels.parquet_page_bounds(piece, len(pages.offset))
    except ValueError:
        return None
    rows = np.diff(pages.first_row)
    if counts is not None and ((nulls >= 0 and counts.sum() != nulls) or (null & (counts != rows)).any()):
        return None
    found = []
    for page in range(len(rows)):
        count = int(rows[page]) if null[page] else None if counts is None else int(counts[page])
        bounded = ordered and not null[page]
        least, greatest = (low[page], high[page]) if bounded else (None, None)
        found.append(ColumnChunk(kind, int(rows[page]), count, least, greatest, ordered))
    return found


def _said(page: ColumnChunk, rows: int) -> ColumnChunk:
    """What is true of some rows of a page."""
    if page.is_null:
        return ColumnChunk(page.type, rows, rows)
    nulls = 0 if page.nulls == 0 else None
    return ColumnChunk(page.type, rows, nulls, page.low, page.high, page.ordered)
