"""A number for every row by what it is, and not by how many others there are: its file and its place there, or a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.kernels import crc32c_sums
from penstock.order.keys import mix_rows
from penstock.plan.nodes import Node, Read
from penstock.plan.tree import leaves
from penstock.resolve.resolved import resolve


def row_keys(root: Node) -> Ids:
    """Of every row: its source's number, the name of its file below the folder that was read, and its place there; in memory the row number."""
    rows, first_ids = resolve(root).natural, resolve(root).first_ids
    ids = rows.ids(np.arange(rows.rows))
    if len(first_ids) == 2:
        return _keys(leaves(root)[0], ids, 0)
    keys = np.empty(len(ids), dtype=np.int64)
    source = np.searchsorted(first_ids, ids, side="right") - 1
    for number, leaf in enumerate(leaves(root)):
        mine = np.flatnonzero(source == number)
        keys[mine] = _keys(leaf, ids[mine] - first_ids[number], number)
    return keys


def _keys(leaf: Read, samples: Ids, number: int) -> Ids:
    manifest, name = leaf.opened.source.manifest, np.zeros(1, dtype=np.int64)
    if len(manifest.shards):
        shard = manifest.shard_of(samples)
        samples, name = samples - manifest.first_sample[shard], _checksums(manifest.shards.names)[shard]
    return mix_rows(samples, name + (np.int64(number) << 32))


def value_keys(values: Any) -> Ids:
    """A number for every value; of text and bytes a checksum, so that a few values share one."""
    if isinstance(values, pa.Array):
        return _checksums(values)
    if values.dtype.kind == "f":
        return np.asarray(values.astype(np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
    return np.asarray(values).astype(np.int64)


def _checksums(texts: pa.Array) -> Ids:
    """The CRC-32C of every text."""
    edges = np.frombuffer(texts.buffers()[1] or bytes(8), dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    return crc32c_sums(data, edges[:-1].copy(), np.diff(edges), usable_cpus()).astype(np.int64)
