"""Storages: where bytes lie. One file each; a URL's scheme chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.errors import SourceError
from penstock.shards import Shards
from penstock.spec import Bytes, Ids
from penstock.storage.local import LocalStorage


class Storage(Protocol):
    """Lists files and reads byte ranges of them."""

    def list(self, where: str) -> Shards:
        """The files that a path, folder or glob names, in the order of their names."""

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """See `format.protocol.ReadRanges`."""


STORAGES: dict[str, Callable[[], Storage]] = {"": LocalStorage, "file": LocalStorage}


def open_storage(url: str) -> tuple[Storage, str]:
    """The storage for a URL, and the path within it.

    open_storage("data/train") == (LocalStorage(), "data/train"); SourceError for a scheme that no storage serves.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "", url
    if scheme not in STORAGES:
        known = ", ".join(f"{name}://" if name else "a local path" for name in STORAGES)
        raise SourceError(f"{url}: no storage serves {scheme}://; what can be read: {known}")
    return STORAGES[scheme](), rest
