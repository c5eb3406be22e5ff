"""Which cache a storage has: the user's own, or that of a folder that was named; one of each in a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from penstock.core.cache_dirs import cache_folder, limit_bytes, limit_is_said, make_private, room_bytes
from penstock.core.errors import PlanError
from penstock.storage.cache.cache import RangeCache

#: The name of the folder of this user's cache, and the most that it holds if nobody says a limit.
FOLDER, _MOST_BYTES = "remote", 100 << 30

_open: dict[str, RangeCache] = {}
_opening = threading.Lock()


def open_cache(folder: str, limit: int, room: Callable[[], int] | None = None) -> RangeCache:
    """The cache in a folder; one for all storages of this process."""
    with _opening:
        cache = _open.setdefault(os.path.realpath(folder), RangeCache(folder, limit))
    cache.set_limit(limit, room)
    return cache


def default_limit(folder: str) -> int:
    """The most that the user's own cache holds, in bytes, where nothing else takes of it."""
    limit = limit_bytes(folder)
    return limit if limit_is_said() else min(_MOST_BYTES, limit)


def default_cache() -> RangeCache | None:
    """The cache that remote data has by itself; None, with a warning, where there is no folder for it, or with a limit of 0."""
    folder = cache_folder(FOLDER)
    limit = 0 if folder is None else default_limit(folder)
    return None if folder is None or limit == 0 else open_cache(folder, limit, lambda: room_bytes(folder))


def chosen_cache(limit: int, folder: str | None) -> RangeCache | None:
    """The cache that a user asks for; PlanError if others could write into the folder."""
    if limit == 0:
        return None
    if folder is None:
        made = cache_folder(FOLDER)
        return None if made is None else open_cache(made, limit)
    if not folder:
        raise PlanError("cache_local: an empty path; name a folder, or leave it out for the user's own cache")
    path = os.path.abspath(os.path.expanduser(folder))
    try:
        make_private(path)
    except OSError as error:
        raise PlanError(
            f"cache_local: {path}: {error.strerror or error}; name a folder that is yours alone, or one that is yet to be made"
        ) from None
    return open_cache(path, limit)
