"""Reading where some of a storage's files have been copied or unpacked to this machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.shards import Shards
from penstock.core.spec import Bytes, Ids
from penstock.storage import Storage
from penstock.storage.local import LocalStorage


class WithCopies:
    """A storage's ranges, but those of `Shards.copied` from the local disk; called as `core.byte_ranges.ReadRanges`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._local = LocalStorage()

    @property
    def traffic(self) -> Any:
        """What was asked of the storage so far, if it counts that."""
        return getattr(self.storage, "traffic", None)

    def forget(self, shards: Shards) -> None:
        """Lets the storage's cache drop files that lie here whole now."""
        drop = getattr(self.storage, "forget", None)
        if drop is not None:
            drop(shards)

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Reads ranges; see `core.byte_ranges.ReadRanges`."""
        if shards.copied is None:
            self.storage.read(shards, shard, offset, length, out, at)
            return
        here = shards.copied[shard]
        for read, some in ((self._local.read, np.flatnonzero(here)), (self.storage.read, np.flatnonzero(~here))):
            if some.size:
                read(shards, shard[some], offset[some], length[some], out, at[some])
