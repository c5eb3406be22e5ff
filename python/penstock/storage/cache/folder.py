"""Chooses a storage's cache: the user's own, or that of a named folder; one of each per process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from penstock.core.errors import PlanError
from penstock.core.files.cache_dirs import cache_folder, limit_bytes, limit_is_said, make_private, room_bytes
from penstock.storage.cache.cache import RangeCache

#: The folder's name in this user's cache, and the most that it holds without an explicit limit.
FOLDER, _MOST_BYTES = "remote", 100 << 30

_open: dict[str, RangeCache] = {}
_opening = threading.Lock()


def open_cache(folder: str, limit: int, room: Callable[[], int] | None = None) -> RangeCache:
    """The cache in a folder, shared by all storages of this process."""
    with _opening:
        cache = _open.setdefault(os.path.realpath(folder), RangeCache(folder, limit))
    cache.set_limit(limit, room)
    return cache


def default_limit(folder: str) -> int:
    """The most that the user's own cache holds, in bytes, if the other folders are empty."""
    limit = limit_bytes(folder)
    return limit if limit_is_said() else min(_MOST_BYTES, limit)


def default_cache() -> RangeCache | None:
    """The default cache of remote data; None with a limit of 0, or, with a warning, without a usable folder."""
    folder = cache_folder(FOLDER)
    limit = 0 if folder is None else default_limit(folder)
    return None if folder is None or limit == 0 else open_cache(folder, limit, lambda: room_bytes(folder))


def chosen_cache(limit: int, folder: str | None) -> RangeCache | None:
    """The cache that a user requests; PlanError if others could write to the folder."""
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
            f"cache_local: {path}: {error.strerror or error}; name a folder that is yours alone, or a new one"
        ) from None
    return open_cache(path, limit)
