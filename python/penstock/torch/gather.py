"""Datasets that are tensors in memory: a batch is one copy, without a call for each sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset, default_collate

#: Indices of a batch → what `default_collate` makes of its samples.
Gather: TypeAlias = Callable[[Sequence[int]], list[torch.Tensor]]
_Rows: TypeAlias = Callable[[torch.Tensor], list[torch.Tensor]]


def gather_of(dataset: Any, collate: Any) -> Gather | None:
    """How batches of a dataset are gathered; None where it is of another kind, or may have changed what its samples are."""
    if collate is not default_collate or (rows := _rows_of(dataset)) is None:
        return None
    return lambda indices: rows(_as_tensor(indices))


def _as_tensor(indices: Sequence[int]) -> torch.Tensor:
    found = torch.from_numpy(np.asarray(indices))
    if found.dtype != torch.int64 or found.ndim != 1:
        raise IndexError(f"samples are chosen by whole numbers, and not by {indices!r}")
    return found


def _rows_of(dataset: Any) -> _Rows | None:
    if type(dataset) is TensorDataset:
        tensors = dataset.tensors
        if not all(type(one) is torch.Tensor and one.layout is torch.strided for one in tensors):
            return None
        return lambda rows: [one[rows] for one in tensors]
    if type(dataset) is Subset and (below := _rows_of(dataset.dataset)) is not None:
        chosen = np.asarray(dataset.indices)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            return None
        places = torch.from_numpy(chosen.astype(np.int64))
        return lambda rows: below(places[rows])
    if type(dataset) is ConcatDataset:
        return _rows_of_all(dataset)
    return None


def _rows_of_all(dataset: ConcatDataset[Any]) -> _Rows | None:
    parts = [_rows_of(part) for part in dataset.datasets]
    ends = torch.tensor(dataset.cumulative_sizes)
    if any(part is None for part in parts):
        return None

    def rows_of(rows: torch.Tensor) -> list[torch.Tensor]:
        rows = torch.where(rows < 0, rows + ends[-1], rows)
        if ((rows < 0) | (rows >= ends[-1])).any():
            raise IndexError("a sample is out of range")
        which = torch.searchsorted(ends, rows, right=True)
        order, found = [], []
        for number, part in enumerate(parts):
            mine = (which == number).nonzero()[:, 0]
            if part is not None and len(mine):
                order.append(mine)
                found.append(part(rows[mine] - (ends[number - 1] if number else 0)))
        back = torch.argsort(torch.cat(order))
        return [torch.cat(columns)[back] for columns in zip(*found, strict=True)]

    return rows_of
