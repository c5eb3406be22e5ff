"""Native plans of what a dataset holds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.columns.picked_rows import RowNumbers
from penstock.core.columns.spec import Field
from penstock.core.errors import SourceError
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.dataset import Dataset, of_source
from penstock.format.media.folder import MediaFolder
from penstock.joining import concat
from penstock.open import from_arrays, from_dataset
from penstock.plan.nodes.picked import Subset
from penstock.source.manifest import Manifest
from penstock.storage.local import LocalStorage, listing
from penstock.storage.storage_ranges import StorageRanges
from penstock.torch.recognised.hugging_face import ItemTable
from penstock.torch.recognised.tables import TableRows
from penstock.torch.recognised.transforms import NotKnown
from penstock.torch.recognised.walk import ImageFiles, Leaf, Walk, walk


def from_torch(dataset: Any) -> Dataset:
    """See `penstock.from_torch`."""
    try:
        return plan_of(walk(dataset))
    except (NotKnown, SourceError):
        return from_dataset(dataset)


def plan_of(found: Walk) -> Dataset:
    """The plan of all rows in their order; SourceError for files that are not there, PlanError for what no column can hold."""
    plans = [_leaf_plan(leaf) for leaf in found.leaves]
    whole = plans[0] if len(plans) == 1 else concat(plans)
    if found.rows is None:
        return whole
    return Dataset(Subset(input=whole.root, picked=RowNumbers(found.rows, sum(map(len, found.leaves)))))


def leaves_plan(found: Walk) -> Dataset:
    """The plan of all rows of all leaves."""
    return plan_of(Walk(found.leaves))


def _leaf_plan(leaf: Leaf) -> Dataset:
    if isinstance(leaf, ImageFiles):
        return _files_plan(leaf)
    if isinstance(leaf, ItemTable):
        rows = TableRows([leaf])
        return from_dataset(rows, columns=rows.asked, name="datasets.Dataset")
    return from_arrays({str(place): tensor for place, tensor in enumerate(leaf.tensors)})


def _files_plan(leaf: ImageFiles) -> Dataset:
    paths = [os.path.abspath(path) for path, _ in leaf.samples]
    try:
        shards = listing(
            kernels.stat_files(paths),
            root=os.path.commonpath([os.path.dirname(path) for path in paths]).rstrip("/") + "/",
        )
    except (OSError, UnicodeEncodeError) as error:
        raise SourceError(f"{leaf.kind}: {error}") from None
    if len(shards) != len(paths):
        raise SourceError(f"{leaf.kind}: some of its files are no regular files")
    labels = np.array([label for _, label in leaf.samples], dtype=np.int64)
    source = _source(shards, labels)
    read = of_source(source, leaf.kind, None, StorageRanges(LocalStorage()), None, Options().limits)
    return read.transform(**{"0": list(leaf.ops)})


def _source(shards: Shards, labels: Any) -> MediaFolder:
    manifest = Manifest("image_folder", shards, np.arange(len(shards) + 1, dtype=np.int64))
    spec = {"0": Field("bytes"), "1": Field("int64")}
    return MediaFolder(manifest, spec, {"0": "image", "1": "label"}, (), {"label": labels})
