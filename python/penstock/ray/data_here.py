"""Whether a machine has the data that a trainer opened on another one."""

from __future__ import annotations

import os
import stat

import numpy as np

from penstock.core.errors import ProcessError
from penstock.dataset import Dataset
from penstock.plan.tree import leaves
from penstock.source.manifest import Manifest

#: Files of a source that are looked at; readers look at each that they open.
_MOST = 64


def check_data(dataset: Dataset, node: str) -> None:
    """ProcessError, which names the node, where local files are missing or of other sizes than where the dataset was opened."""
    for leaf in leaves(dataset.root):
        manifest = leaf.opened.source.manifest
        if not len(manifest.shards) or not manifest.shards.is_local:
            continue
        for shard in np.unique(np.linspace(0, len(manifest.shards) - 1, _MOST).astype(int)).tolist():
            _check_file(manifest, shard, f"node {node}: ")


def _check_file(manifest: Manifest, shard: int, where: str) -> None:
    path, size_bytes = manifest.shards.path(shard), int(manifest.shards.sizes[shard])
    try:
        found = os.stat(path)
    except OSError as error:
        raise ProcessError(
            f"{where}{path}: {error.strerror or error}; give the machine the same data by the same path, or read it from a store that all machines reach"
        ) from None
    if stat.S_ISREG(found.st_mode) and found.st_size != size_bytes:
        raise ProcessError(
            f"{where}{path}: it has {found.st_size:,} bytes, and where the dataset was opened {size_bytes:,} (the dataset has the digest {manifest.digest}); give all machines the same data"
        )
