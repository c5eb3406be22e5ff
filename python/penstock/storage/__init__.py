"""Storages: local files and remote stores, one file each, chosen by a URL's scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from penstock.core.columns.spec import Bytes, Ids
from penstock.core.errors import PlanError, SourceError
from penstock.core.files.shards import Shards
from penstock.core.files.traffic import Traffic
from penstock.storage.local import LocalStorage
from penstock.storage.redact import check_url, hide
from penstock.storage.trust import NOBODY, Trust

if TYPE_CHECKING:
    from penstock.storage.fetch.remote import Store

#: Kinds of users' storages on this machine; they are cached only on request.
_NEAR = ("LocalStore", "MemoryStore", "LocalFileSystem", "MemoryFileSystem", "DirFileSystem")

#: One for all, so that datasets are seen to lie in the same place.
_LOCAL = LocalStorage()


@runtime_checkable
class OwnStorage(Protocol):
    """What a user's own storage does: lists files and reads byte ranges of them."""

    def list(self, where: str) -> Shards:
        """The files that a path, folder or glob names, in the order of their names."""

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """See `core.files.byte_ranges.ByteRanges`."""


class Storage(OwnStorage, Protocol):
    """A storage that was opened."""

    @property
    def root(self) -> str:
        """What the name of every file begins with: a bucket or server; "" for local files."""

    @property
    def traffic(self) -> Traffic | None:
        """Requests and bytes so far; None if they are not counted."""

    def forget(self, shards: Shards) -> None:
        """Evict files from the cache, if there is one."""


def _remote(url: str, trust: Trust) -> tuple[Storage, str]:
    from penstock.storage.stores.object import ObjectStore

    store, path = ObjectStore.open(url, trust=trust)
    return _cached(store, identity=store.endpoint), path


def _hdfs(url: str, _: Trust) -> tuple[Storage, str]:
    from penstock.storage.stores.hdfs import HdfsStore

    store, path = HdfsStore.open(url)
    return _cached(store), path


def _cached(store: Store, **options: Any) -> Storage:
    """Opens a store that is not on this machine. What that needs is imported by whoever reads from one."""
    from penstock.storage.cache.storage import CachedStorage
    from penstock.storage.fetch.remote import RemoteStorage

    return CachedStorage(RemoteStorage(store), **options)


def _local(url: str, _: Trust) -> tuple[Storage, str]:
    return _LOCAL, url.removeprefix("file://")


#: By a URL's scheme: a function that opens the storage, and returns it with the path within it.
STORAGES: dict[str, Callable[[str, Trust], tuple[Storage, str]]] = {
    "": _local,
    "file": _local,
    **dict.fromkeys(("hdfs", "viewfs"), _hdfs),
    **dict.fromkeys(("s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "http", "https"), _remote),
}


def open_storage(url: str, trust: Trust = NOBODY) -> tuple[Storage, str]:
    """The storage for a URL, and the path within it.

    open_storage("file:///data/train")[1] == "/data/train"; SourceError for a scheme that no storage serves; see `check_url`.
    """
    check_url(url)
    scheme, mark, _ = url.partition("://")
    if not mark:
        scheme = ""
    if scheme not in STORAGES:
        known = ", ".join(f"{name}://" if name else "a local path" for name in STORAGES)
        raise SourceError(
            f"{url}: no storage serves {scheme}://; use {known}, or pass an fsspec file system as storage="
        )
    return STORAGES[scheme](url, trust)


def open_storages(urls: Sequence[str], trust: Trust = NOBODY) -> list[tuple[Storage, str]]:
    """The storage of each URL and the path within it; URLs of one bucket or server share a storage."""
    known: dict[str, tuple[Storage, str]] = {}
    opened = []
    for url in urls:
        scheme, mark, rest = url.partition("://")
        root = f"{scheme}://{rest.partition('/')[0]}/" if mark and scheme != "file" else ""
        if not root or "?" in url or root not in known:
            known[root] = open_storage(url, trust)
            opened.append(known[root])
        else:
            opened.append((known[root][0], url[len(root) :]))
    return opened


def adopt_storage(given: Any) -> Storage:
    """The storage for what a user passes as `storage=`: one of ours, an obstore store, a pyarrow or an fsspec file system.

    Raises PlanError for anything else.
    """
    module = type(given).__module__.partition(".")[0]
    for said in ("storage_options", "config", "client_options"):
        if isinstance(settings := getattr(given, said, None), Mapping):
            hide(settings)
    if module == "obstore":
        from penstock.storage.stores.object import ObjectStore

        return _adopted(ObjectStore(given, ""), given)
    if module == "pyarrow" and hasattr(given, "type_name"):
        from penstock.storage.stores.arrow import ArrowStore

        return _adopted(ArrowStore(given), given)
    if hasattr(given, "cat_file") and hasattr(given, "find"):
        from penstock.storage.stores.fsspec import FsspecStore

        return _adopted(FsspecStore(given), given)
    from penstock.storage.cache.storage import CachedStorage

    if isinstance(given, (CachedStorage, LocalStorage)):
        return given
    if not isinstance(given, OwnStorage):
        raise PlanError(
            f"storage={type(given).__name__}: pass an obstore store, a pyarrow.fs or fsspec file system, or an object with "
            f"list(where) and read(…) (penstock.storage.OwnStorage)"
        )
    return CachedStorage(given, by_default=False, identity=f"{type(given).__module__}.{type(given).__qualname__} ")


def _adopted(store: Store, given: Any) -> Storage:
    near = type(given).__name__ in _NEAR
    endpoint = getattr(store, "endpoint", "")
    return _cached(store, by_default=not near, identity=f"{type(given).__name__} {endpoint} ")
