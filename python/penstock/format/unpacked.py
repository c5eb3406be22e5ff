"""Files made from shards once and kept in the user's cache, so that they can be mapped: unpacked members, other layouts."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import BinaryIO

from penstock.errors import SourceError
from penstock.folders import cache_folder
from penstock.format.index_cache import entry_key
from penstock.format.unpack import RESERVE_BYTES
from penstock.shards import Shards


def unpacked_copy(shards: Shards, shard: int, kind: str, size_bytes: int, write: Callable[[BinaryIO], object]) -> str:
    """The path of the file of `size_bytes` that `write` makes of a shard; made once. `kind` names what is made, and how.

    Raises SourceError where there is no cache, OSError (ENOSPC) where it would fill the disk.
    """
    path = shards.path(shard)
    folder = cache_folder("unpacked")
    if folder is None:
        raise SourceError(f"{path}: {kind} is unpacked to the cache first, and there is no cache; set XDG_CACHE_HOME")
    target = os.path.join(folder, entry_key(kind, 1, path, int(shards.sizes[shard]), int(shards.versions[shard])))
    if os.path.isfile(target) and os.path.getsize(target) == size_bytes:
        return target
    if size_bytes > shutil.disk_usage(folder).free - RESERVE_BYTES:
        raise OSError(errno.ENOSPC, f"no room for {size_bytes:,} bytes of {kind} below {folder}; free some", path)
    handle, scratch = tempfile.mkstemp(suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.replace(scratch, target)
    except BaseException:
        os.unlink(scratch)
        raise
    return target
