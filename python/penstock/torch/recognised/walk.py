"""What a dataset of PyTorch, torchvision or Hugging Face holds, read anew from its attributes each time: two walks are equal if nothing was changed between them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from penstock.core.columns.spec import Ids
from penstock.torch.recognised.hugging_face import ItemTable, is_hugging_face, table_of
from penstock.torch.recognised.transforms import NotKnown, image_ops
from penstock.transform.image import ImageOp

#: Formats that the native decoders read; of what else torchvision lists, Pillow reads the rest.
_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif")
_LABELS = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class Tensors:
    """Rows of tensors of equal length. Two are equal if they are of the same tensors."""

    tensors: tuple[torch.Tensor, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensors) and [*map(id, self.tensors)] == [*map(id, other.tensors)]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.tensors)))

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __str__(self) -> str:
        shapes = ", ".join(f"{str(one.dtype).removeprefix('torch.')}{list(one.shape[1:])}" for one in self.tensors)
        return f"TensorDataset: {len(self):,} rows of {shapes}, gathered by one call a tensor"


@dataclass(frozen=True)
class ImageFiles:
    """Image files with labels, and what becomes of each image."""

    kind: str
    samples: list[tuple[str, int]]
    ops: tuple[ImageOp, ...]

    def __len__(self) -> int:
        return len(self.samples)

    def __str__(self) -> str:
        return f"{self.kind}: {len(self):,} files; {', '.join(map(str, self.ops))}"


Leaf: TypeAlias = Tensors | ImageFiles | ItemTable


@dataclass(frozen=True)
class Walk:
    """Leaves, one after the other, and which of their rows the dataset has; None for all. steps: of the ways from datasets to leaves, in words."""

    leaves: tuple[Leaf, ...]
    rows: Ids | None = None
    steps: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Walk) or (self.leaves, self.steps) != (other.leaves, other.steps):
            return False
        return self.rows is other.rows or np.array_equal(self.all_rows, other.all_rows)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return sum(map(len, self.leaves)) if self.rows is None else len(self.rows)

    @property
    def all_rows(self) -> Ids:
        """Which rows, as numbers (int64)."""
        return np.arange(len(self)) if self.rows is None else self.rows

    @property
    def counts_from_end(self) -> bool:
        """Whether -1 is the last row; Hugging Face says so of some datasets, and raises an error of others."""
        return not any(isinstance(leaf, ItemTable) for leaf in self.leaves)


def walk(dataset: Any) -> Walk:
    """What a dataset holds; NotKnown for one that may be anything else."""
    kind = type(dataset)
    if kind is TensorDataset:
        return Walk((_tensors(dataset.tensors),))
    if kind is Subset:
        return _subset(dataset)
    if kind is ConcatDataset:
        return _concat(dataset)
    if is_hugging_face(dataset):
        table, rows = table_of(dataset)
        return Walk((table,), rows, () if rows is None else (f"indices of {len(rows):,} rows",))
    folder = sys.modules.get("torchvision.datasets.folder")
    if folder is not None and kind in (folder.ImageFolder, folder.DatasetFolder):
        return Walk((_files(dataset, folder),))
    raise NotKnown(f"{kind.__module__}.{kind.__qualname__} is no dataset that is known")


def _tensors(tensors: Any) -> Tensors:
    if type(tensors) is not tuple or not tensors:
        raise NotKnown("TensorDataset without a tuple of tensors")
    for one in tensors:
        if type(one) is not torch.Tensor or one.layout is not torch.strided or one.is_quantized:
            raise NotKnown(f"TensorDataset of {type(one).__qualname__}; plain, dense tensors are known")
        if one.ndim == 0 or len(one) != len(tensors[0]):
            raise NotKnown("TensorDataset of tensors that differ in length")
        if one.device.type != "cpu":
            raise NotKnown(f"TensorDataset of tensors on {one.device}")
        if one.requires_grad:
            raise NotKnown("TensorDataset of tensors with gradients")
    return Tensors(tensors)


def wrapped(indices: Any, rows: int, *, counts_from_end: bool = True) -> Ids:
    """Indices from 0 on, where some may count from the end; IndexError for one that is out of range, TypeError or ValueError for what is none."""
    numbers = np.asarray(indices if isinstance(indices, (list, np.ndarray)) else list(indices))
    if numbers.size == 0:
        return np.zeros(0, dtype=np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise TypeError(f"indices of {numbers.dtype}{list(numbers.shape)}")
    ids: Ids = numbers.astype(np.int64)
    if ids.min() < (-rows if counts_from_end else 0) or ids.max() >= rows:
        raise IndexError(f"an index before or beyond the {rows:,} rows")
    return np.where(ids < 0, ids + rows, ids)


def _subset(dataset: Any) -> Walk:
    inner, indices = walk(dataset.dataset), dataset.indices
    if not isinstance(indices, (list, tuple, range, np.ndarray, torch.Tensor)):
        raise NotKnown(f"Subset whose indices are a {type(indices).__qualname__}")
    try:
        numbers = indices.numpy() if isinstance(indices, torch.Tensor) else indices
        chosen = wrapped(numbers, len(inner), counts_from_end=inner.counts_from_end)
    except (IndexError, TypeError, ValueError, OverflowError) as error:
        raise NotKnown(f"Subset: {error}") from None
    return Walk(inner.leaves, inner.all_rows[chosen], (f"Subset of {len(chosen):,} rows", *inner.steps))


def _concat(dataset: Any) -> Walk:
    parts = [walk(one) for one in dataset.datasets]
    if list(dataset.cumulative_sizes) != np.cumsum([len(part) for part in parts]).tolist():
        raise NotKnown("ConcatDataset whose datasets changed their lengths")
    found = [leaf for part in parts for leaf in part.leaves]
    leaves = tuple(leaf.one_by_one() if isinstance(leaf, ItemTable) else leaf for leaf in found)
    if len({_row_of(leaf) for leaf in leaves}) > 1:
        raise NotKnown("ConcatDataset of datasets whose rows are not alike")
    begins = np.cumsum([0, *(sum(map(len, part.leaves)) for part in parts)])
    is_whole = all(part.rows is None for part in parts)
    rows = [begin + part.all_rows for begin, part in zip(begins, parts, strict=False)]
    steps = tuple(step for part in parts for step in part.steps)
    return Walk(leaves, None if is_whole else np.concatenate(rows), (f"ConcatDataset of {len(parts)}", *steps))


def _row_of(leaf: Leaf) -> Any:
    """What rows of different leaves must have in common to be in one batch."""
    if isinstance(leaf, ImageFiles):
        return leaf.ops
    if isinstance(leaf, ItemTable):
        return leaf.columns
    return tuple((one.dtype, one.shape[1:]) for one in leaf.tensors)


def _files(dataset: Any, folder: Any) -> ImageFiles:
    kind = type(dataset).__name__
    if dataset.target_transform is not None:
        raise NotKnown(f"{kind} with a target_transform, which is a Python function")
    if not (dataset.loader is folder.pil_loader or dataset.loader is folder.default_loader):
        raise NotKnown(f"{kind} with a loader of its own")
    if sys.modules["torchvision"].get_image_backend() != "PIL":
        raise NotKnown("torchvision's image backend is not PIL")
    samples = dataset.samples
    if type(samples) is not list or not samples:
        raise NotKnown(f"{kind} whose samples are no list, or none")
    for sample in samples:
        if type(sample) is not tuple or len(sample) != 2 or type(sample[0]) is not str or type(sample[1]) is not int:
            raise NotKnown(f"{kind} whose samples are not (path, number)")
        if sample[1] not in _LABELS:
            raise NotKnown(f"{kind} with a class number beyond 64 bits")
        if not sample[0].lower().endswith(_SUFFIXES):
            raise NotKnown(f"{os.path.basename(sample[0])}: a format that is not decoded natively")
    try:
        return ImageFiles(kind, list(samples), image_ops(dataset.transform))
    except NotKnown as error:
        raise NotKnown(f"{kind}: {error}") from None
