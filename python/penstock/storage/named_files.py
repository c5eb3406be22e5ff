"""Files that are named beside those that are read, by the user or by a list of files: where they lie, and what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix

import numpy as np
import pyarrow as pa

from penstock.core.cancel import in_threads
from penstock.core.errors import SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.source.checks.ranges import CheckedRanges, Checks
from penstock.storage import Storage, open_storage
from penstock.storage.redact import check_url
from penstock.storage.storage_ranges import StorageRanges
from penstock.storage.trust import Trust

#: Requests for single files at once: stores answer many.
LOCATE_THREADS = 16


@dataclass(frozen=True)
class NamedFiles:
    """How files are found by their names. storage: the user's own; None where names say it. checks: of what is read; None for none."""

    storage: Storage | None
    checks: Checks | None
    trust: Trust

    def ranges(self, storage: Storage) -> ByteRanges:
        """What reads byte ranges of files in a storage."""
        read = StorageRanges(storage)
        return read if self.checks is None else CheckedRanges(read, self.checks)

    def find(self, where: str) -> tuple[Shards, ByteRanges]:
        """The files of a place that the user names; it may lie in another storage."""
        check_url(where)
        store, path = self._opened(where)
        return store.list(path), self.ranges(store)

    def locate(self, home: str, names: Sequence[str]) -> tuple[Shards, ByteRanges]:
        """See `core.files.byte_ranges.Locate`; all files must lie in one storage, and where a list at `home` may name them."""
        if not names:
            raise SourceError("read: an empty list of files; write some names into it")
        root = getattr(self.storage, "root", "")
        bare = "" if home.startswith(f"{root}/") else "/"  # what names of this storage do not begin with
        full = [name if "://" in name or not root else root + name.removeprefix(bare) for name in names]
        self.trust.check_named(full, home)
        for name in names:
            check_url(name)
        store, path = self._opened(names[0])
        base = names[0].removesuffix(path)
        for name in names:
            if not name.startswith(base) or ("://" in name) != ("://" in names[0]):
                raise SourceError(f"read: {names[0]} and {name} lie in different storages; read them apart")
        found = in_threads(
            lambda name: store.list(name.removeprefix(base)), names, most=LOCATE_THREADS, name="penstock-locate"
        )
        for name, shards in zip(names, found, strict=True):
            if len(shards) != 1:
                raise SourceError(f"read: {name} is {len(shards)} files; a list of files names them one by one")
        return joined_listings(found), self.ranges(store)

    def _opened(self, name: str) -> tuple[Storage, str]:
        return (self.storage, name) if self.storage is not None else open_storage(name, self.trust)


def joined_listings(parts: Sequence[Shards]) -> Shards:
    """Files of several listings, with the root of each."""
    if len(parts) == 1:
        return parts[0]
    paths = pa.concat_arrays([part.paths for part in parts])
    sizes = np.concatenate([part.sizes for part in parts])
    versions = np.concatenate([part.versions for part in parts])
    tags = [part.etags for part in parts if part.etags is not None]
    etags = pa.concat_arrays(tags) if len(tags) == len(parts) else None
    found = [part.stamps for part in parts if part.stamps is not None]
    stamps = np.concatenate(found) if len(found) == len(parts) else None
    roots = {part.root for part in parts}
    if len(roots) == 1:
        return Shards(paths, sizes, versions, roots.pop(), etags=etags, stamps=stamps)
    common = commonprefix(sorted(roots)).rpartition("/")[0] + "/" if all(roots) else ""  # noqa: RUF071  # cut at a slash right after
    root_lengths = np.repeat([len(part.root) for part in parts], [len(part) for part in parts])
    return Shards(paths, sizes, versions, common, root_lengths, etags=etags, stamps=stamps)
