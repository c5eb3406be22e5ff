"""Reads a storage of which some files were copied or decompressed to this machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.shards import Shards
from penstock.core.spec import Bytes, Ids
from penstock.storage import Storage
from penstock.storage.local import LocalStorage


class WithCopies:
    """Reads ranges of a storage, but those of `Shards.copied` from the local disk; see `core.byte_ranges.ReadRanges`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._local = LocalStorage()

    @property
    def traffic(self) -> Any:
        """The requests to the storage so far; None if it does not count them."""
        return getattr(self.storage, "traffic", None)

    def forget(self, shards: Shards) -> None:
        """Evict files from the storage's cache that are whole on this machine now."""
        drop = getattr(self.storage, "forget", None)
        if drop is not None:
            drop(shards)

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Read ranges; see `core.byte_ranges.ReadRanges`."""
        if shards.copied is None:
            self.storage.read(shards, shard, offset, length, out, at)
            return
        here = shards.copied[shard]
        for read, some in ((self._local.read, np.flatnonzero(here)), (self.storage.read, np.flatnonzero(~here))):
            if some.size:
                read(shards, shard[some], offset[some], length[some], out, at[some])
