"""The manifest: which shards a dataset has, how many records, and where each record lies.

Sample ids are the records' numbers in manifest order: shard after shard, record after record.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

from penstock.shards import Shards
from penstock.spec import Ids


@dataclass(frozen=True, eq=False)
class Manifest:
    """Shards and records of a dataset.

    first_sample: int64, shards + 1 entries: shard s holds the sample ids first_sample[s] … first_sample[s + 1] - 1.
    offset, length: int64, one entry a record: the record's bytes (its frame included) in its shard. None for both where
    every shard is one record, and where records have no bytes of their own (in memory, in columns). unpacked: the files in which the records lie if
    the shards are packed as a whole, one a shard; they are made from the shards and no part of the data's identity.
    """

    format: str
    shards: Shards
    first_sample: Ids
    offset: Ids | None = None
    length: Ids | None = None
    unpacked: Shards | None = None

    @property
    def samples(self) -> int:
        """Number of records in the dataset."""
        return int(self.first_sample[-1])

    @property
    def stored(self) -> Shards:
        """The files to read: offset and length are places in them."""
        return self.shards if self.unpacked is None else self.unpacked

    @property
    def size_bytes(self) -> int:
        """Bytes of all records together."""
        return int(self.stored.sizes.sum())

    @cached_property
    def one_record_each(self) -> bool:
        """Whether every shard is one record, so that a sample's id is its shard's number."""
        if self.offset is not None or len(self.shards) != self.samples:
            return False
        return bool((np.diff(self.first_sample) == 1).all())

    def shard_of(self, samples: Ids) -> Ids:
        """The shard of each sample id."""
        if self.one_record_each:
            return samples
        return np.searchsorted(self.first_sample, samples, side="right") - 1

    def place(self, sample: int) -> str:
        """Where a record lies, for messages: "train-3.tfrecord, record 17, byte 120,413"."""
        if len(self.shards) == 0:
            return f"sample {sample}"
        shard = int(self.shard_of(np.array([sample]))[0])
        path = self.shards.path(shard)
        if self.one_record_each:
            return path
        record = f"{path}, record {sample - int(self.first_sample[shard]):,}"
        return record if self.offset is None else f"{record}, byte {int(self.offset[sample]):,}"

    @cached_property
    def digest(self) -> str:
        """32 hex digits that identify the data: names below the root, sizes, record counts and record lengths.

        Modification times are left out, so that a copy of the data on another machine is the same data.
        """
        state = hashlib.blake2b(digest_size=16)
        state.update(self.format.encode())
        below_root = pc.utf8_slice_codeunits(self.shards.paths, len(self.shards.root))
        for buffer in below_root.buffers()[1:]:
            state.update(buffer or b"")
        for numbers in (self.shards.sizes, self.first_sample, self.length):
            state.update(b"-" if numbers is None else np.ascontiguousarray(numbers).data)
        return state.hexdigest()
