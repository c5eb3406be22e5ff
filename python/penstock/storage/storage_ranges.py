"""Reads a storage of which some files were copied or decompressed to this machine."""

from __future__ import annotations

import numpy as np

from penstock.core.columns.spec import Bytes, Ids
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.files.traffic import Traffic
from penstock.storage import Storage
from penstock.storage.local import LocalStorage


class StorageRanges(ByteRanges):
    """A storage's ranges, but those of `Shards.copied` from the local disk."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._local = storage, LocalStorage()

    @property
    def storage(self) -> Storage:
        """The storage."""
        return self._storage

    @property
    def traffic(self) -> Traffic | None:
        """Requests and bytes so far."""
        return self._storage.traffic

    def forget(self, shards: Shards) -> None:
        """Evict files from the storage's cache."""
        self._storage.forget(shards)

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Read ranges."""
        if shards.copied is None:
            self._storage.read(shards, shard, offset, length, out, at)
            return
        here = shards.copied[shard]
        if shards.made_of is not None:
            for number in np.unique(shard[here]).tolist():
                shards.made_of.check_now(number)
        for read, some in ((self._local.read, np.flatnonzero(here)), (self._storage.read, np.flatnonzero(~here))):
            if some.size:
                read(shards, shard[some], offset[some], length[some], out, at[some])
