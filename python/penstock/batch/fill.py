"""Dense arrays filled with pieces of ragged rows: what packing and padding share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.ragged import Ragged
from penstock.core.columns.rows import bytes_of
from penstock.core.columns.spec import Bytes, Ids


@dataclass(frozen=True, eq=False)
class SequencePieces:
    """Pieces of rows, sequence after sequence.

    rows: the row of each; starts: how many of the row's values come before it; lengths: how many it has. edges: the first segment of each
    sequence, and the end of all.
    """

    rows: Ids
    starts: Ids
    lengths: Ids
    edges: Ids


def fill(
    segments: SequencePieces,
    columns: Sequence[tuple[Ragged, Bytes, npt.NDArray[Any]]],
    *,
    length: int,
    segment_ids: npt.NDArray[np.int32] | None = None,
    position_ids: npt.NDArray[np.int32] | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> None:
    """Fill arrays of (sequences, length): each column's, given as (rows, bytes of the padding value, array), and what says where tokens are."""
    kernels.fill_sequences(
        segments.rows,
        segments.starts,
        segments.lengths,
        segments.edges,
        length,
        [(bytes_of(column.values), column.edges, len(value), value, bytes_of(out)) for column, value, out in columns],
        threads,
        segment_ids=None if segment_ids is None else segment_ids.reshape(-1),
        position_ids=None if position_ids is None else position_ids.reshape(-1),
        mask=None if mask is None else mask.reshape(-1).view(np.uint8),
    )
