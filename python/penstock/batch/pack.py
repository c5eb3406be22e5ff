"""Packs rows of tokens into sequences of one length: what a kernel plans, and then fills on all threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.batch.fill import SequencePieces, fill
from penstock.batch.stack import field_of
from penstock.core import kernels
from penstock.core.columns.ragged import Ragged, ragged_of
from penstock.core.columns.rows import new_rows
from penstock.core.columns.spec import Columns, Field, Ids
from penstock.core.errors import PlanError, RowError
from penstock.core.verbs.packing import LOSS_MASK, POSITION_IDS, SEGMENT_IDS, Packing
from penstock.core.verbs.padding import value_bytes

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Packed:
    """Sequences, and which rows they are made of.

    columns: the token columns (sequences, length), then segment_ids (int32: 1, 2, … in a sequence, 0 at padding), position_ids (int32, from
    0 on in every segment, 0 at padding) and loss_mask (bool, False at padding).
    sequences: how many each group gave. rows: the row of each segment; edges: the first segment of each sequence, and the end of all.
    used: how many rows of each group are used up. skip: how many tokens of its next row are. Rows from `used` on are packed again, with
    those that follow them and this `skip`.
    """

    columns: Columns
    spec: dict[str, Field]
    sequences: Ids
    rows: Ids
    edges: Ids
    used: Ids
    skip: Ids


def pack_window(
    columns: Columns,
    packing: Packing,
    groups: Sequence[int],
    *,
    skip: Sequence[int] | None = None,
    is_last: bool | Sequence[bool] = True,
    allocate: Allocate = new_rows,
    threads: int = 1,
) -> Packed:
    """Packs each group of rows for itself: groups=[3, 2] are the first three rows and the next two, which share no sequence.

    Best fit is best fit decreasing: the longest row first, into the sequence that has the least room for it. Sequences of a group come in the order of
    their first rows, and rows in a sequence in the order of the data. Best fit uses up all rows of a group.

    With "concat" a group begins with token `skip` of its first row, and what does not fill a sequence is left for another call, unless the
    group `is_last`: then it is padded.

    A piece of a row that is split or cut is a document of its own: its positions begin at 0, as Megatron's `reset_position_ids`, MaxText and
    TRL have it, so that no position is beyond `length`. loss_mask is True at every token. A model that shifts labels itself would learn each
    document's first token from the document before; `loss_mask & (position_ids > 0)` leaves it out.

    Empty rows are in no sequence. Raises RowError for a row that cannot be packed, PlanError for a column that cannot.
    """
    spec = packing.spec_of({name: field_of(column).required for name, column in columns.items()})
    ragged = {name: ragged_of(name, columns[name]) for name in packing.columns}
    lengths = _lengths_of(ragged, packing)
    segments, sequences, used, left = _plan(lengths, packing, groups, skip, is_last)
    count = len(segments.edges) - 1
    arrays = {name: allocate(name, field, count) for name, field in spec.items()}
    fill(
        segments,
        [
            (column, column.repeated(value_bytes("pack", name, spec[name], packing.padding_value)), arrays[name])
            for name, column in ragged.items()
        ],
        length=packing.length,
        segment_ids=arrays[SEGMENT_IDS],
        position_ids=arrays[POSITION_IDS],
        mask=arrays[LOSS_MASK],
        threads=threads,
    )
    return Packed(
        columns=arrays, spec=spec, sequences=sequences, rows=segments.rows, edges=segments.edges, used=used, skip=left
    )


def sequences_of(lengths: Ids, packing: Packing, groups: Sequence[int]) -> Ids:
    """How many sequences each group of rows of these lengths gives, each by itself and to its end: `pack_window` without its tokens."""
    _, sequences, _, _ = _plan(lengths, packing, groups, None, is_last=True)
    return sequences


def _lengths_of(ragged: dict[str, Ragged], packing: Packing) -> Ids:
    """Tokens of each row; RowError where columns differ, or a row is refused."""
    (first, column), *others = ragged.items()
    lengths = column.lengths
    for name, other in others:
        if len(other.lengths) != len(lengths):
            raise PlanError(f"pack: {len(lengths)} rows of {first!r} and {len(other.lengths)} of {name!r}")
        for row in np.flatnonzero(other.lengths != lengths)[:1].tolist():
            raise RowError(
                row,
                f"column {first!r} has {lengths[row]:,} tokens and column {name!r} {other.lengths[row]:,}",
                "columns that are packed side by side are equally long in every row",
            )
    if packing.over_long == "refuse":
        for row in np.flatnonzero(lengths > packing.length)[:1].tolist():
            raise RowError(
                row,
                f"column {first!r} has {lengths[row]:,} tokens, and a sequence {packing.length:,}",
                "pass a larger length=, or let pack(…, over_long=…) 'split' or 'truncate' such rows",
            )
    return lengths


def _plan(
    lengths: Ids, packing: Packing, groups: Sequence[int], skip: Sequence[int] | None, is_last: bool | Sequence[bool]
) -> tuple[SequencePieces, Ids, Ids, Ids]:
    """The segments, sequences of each group, rows that are used up, and tokens of the next."""
    truncate = packing.over_long == "truncate"
    rows = [int(count) for count in groups]
    if packing.strategy == "best_fit":
        *found, sequences = kernels.pack_best_fit(lengths, rows, packing.length, truncate)
        used = [(count, 0) for count in rows]
    else:
        skips = [0] * len(rows) if skip is None else [int(tokens) for tokens in skip]
        lasts = [is_last] * len(rows) if isinstance(is_last, bool) else [bool(last) for last in is_last]
        _check_skips(lengths, rows, skips)
        given = list(zip(rows, skips, lasts, strict=True))
        (*found, sequences), used = kernels.pack_concat(lengths, given, packing.length, truncate)
    left = np.array(used, dtype=np.int64).reshape(-1, 2)
    return SequencePieces(*found), sequences, left[:, 0].copy(), left[:, 1].copy()


def _check_skips(lengths: Ids, groups: Sequence[int], skips: Sequence[int]) -> None:
    first = 0
    for count, skip in zip(groups, skips, strict=True):
        if skip and (not count or skip > lengths[first]):
            found = f"{lengths[first]:,} tokens" if count else "no row"
            raise RowError(
                first,
                f"{skip:,} of its tokens are used already, and there are {found}",
                "resume with the data of before",
            )
        first += count
