"""Files made from shards once and kept in the user's cache, so that they can be mapped: unpacked members, other layouts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

from penstock.core.cache_dirs import cache_folder
from penstock.core.errors import SourceError
from penstock.core.scratch import check_room, one_maker, room_errors, scratch_file
from penstock.core.shards import Shards
from penstock.derived.entries import entry_key
from penstock.derived.lease import hold, make_room


def unpacked_copy(shards: Shards, shard: int, kind: str, size_bytes: int, write: Callable[[BinaryIO], object]) -> str:
    """The path of the file of `size_bytes` that `write` makes of a shard; made once, and kept as long as this process runs. `kind` names what is made, and how.

    Raises SourceError where there is no cache, StorageError where it would fill the disk.
    """
    path = shards.path(shard)
    folder = cache_folder("unpacked")
    if folder is None:
        raise SourceError(f"{path}: {kind} is unpacked to the cache first, and there is no cache; set XDG_CACHE_HOME")
    key = entry_key(kind, 1, path, int(shards.sizes[shard]), int(shards.versions[shard]))
    target = os.path.join(folder, key)
    with room_errors(path, folder, size_bytes, kind):
        hold(folder, [key])
        with one_maker(folder, [key]):
            if os.path.isfile(target) and os.path.getsize(target) == size_bytes:
                return target
            make_room(folder, size_bytes)
            check_room(path, folder, size_bytes, kind)
            with scratch_file(target) as scratch:
                with open(scratch, "wb") as file:
                    write(file)
                os.replace(scratch, target)
    return target
