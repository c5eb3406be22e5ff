"""Any fsspec file system as a store: pandas, Dask and Hugging Face users have one set up."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Never

from penstock.core.cancel import in_threads
from penstock.core.errors import not_to_be_sent
from penstock.core.files.shards import Shards, version_number
from penstock.storage.glob import WantedFiles
from penstock.storage.redact import check_url
from penstock.storage.stores.file_errors import changed, file_error, missing
from penstock.storage.stores.file_version import is_same_version, version_of
from penstock.storage.stores.listing import shards_of_files

#: How many files without a listed size are looked up at once.
_LOOKUPS = 16


class FsspecStore:
    """The files of an fsspec file system."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem, self._turn = filesystem, _turn_of(filesystem)

    def __reduce__(self) -> Never:
        """See `not_to_be_sent`."""
        raise not_to_be_sent(f"the {type(self._filesystem).__name__} passed as storage=")

    @property
    def root(self) -> str:
        """The prefix of every file's name."""
        protocol = self._filesystem.protocol
        root = f"{protocol if isinstance(protocol, str) else protocol[0]}://"
        return "" if self._name(f"{root}host/x").startswith(root) else root  # names of "http" are whole URLs

    def list(self, where: str) -> Shards:
        """The files below a folder, of a glob, or the one of that name, in the order of their names."""
        check_url(where)
        where = self._name(where)
        wanted = WantedFiles(where)
        try:
            found = self._found(wanted)
        except Exception as error:
            raise file_error(wanted.folder, error) from None
        files = (
            (name, one["size"], version_number(version), version)
            for name, one in found.items()
            if wanted.has(name, one["size"] or 0)
            for version in (version_of(one),)
        )
        return shards_of_files(files, self.root, where, wanted.folder)

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        """One read of `length` bytes from `start`; DataError if the file is missing or has changed since it was listed."""
        name, failed, data = path.removeprefix(self.root), None, None
        try:
            with self._turn:
                data = self._filesystem.cat_file(name, start=start, end=start + length)
        except FileNotFoundError:
            raise missing(path) from None
        except Exception as error:
            failed = file_error(path, error)
        try:
            self._filesystem.invalidate_cache(name)  # many cache listings
            now = self._filesystem.info(name)
        except FileNotFoundError:
            raise missing(path) from None
        except Exception as error:
            raise failed or file_error(path, error) from None
        # Checked after reading, so that it holds for what was read.
        if now["size"] != size or not is_same_version(etag, version_of(now)):
            raise changed(path)
        if failed is not None:
            raise failed
        return data

    def _name(self, where: str) -> str:
        return str(self._filesystem._strip_protocol(where))  # noqa: SLF001  # fsspec's own name for a path without scheme

    def _found(self, wanted: WantedFiles) -> Any:
        """Files by their names. A named file is only looked up, since some stores do not list."""
        if wanted.folder and not wanted.is_glob:
            self._filesystem.invalidate_cache(wanted.folder)
            try:
                one = self._filesystem.info(wanted.folder)
            except FileNotFoundError:
                return {}
            if one.get("type") == "file":
                return {wanted.folder: one}
        self._filesystem.invalidate_cache(wanted.folder)
        found = self._filesystem.find(wanted.folder, detail=True)
        unknown = [name for name, one in found.items() if one.get("size") is None and wanted.has(name, 1)]
        looked_up = in_threads(self._filesystem.info, unknown, most=_LOOKUPS, name="penstock-list")
        return found | dict(zip(unknown, looked_up, strict=True))


def _turn_of(filesystem: Any) -> AbstractContextManager[Any]:
    """One read at a time for fsspec's caching file systems, whose records of downloads are not thread-safe."""
    cached = sys.modules.get("fsspec.implementations.cached")
    return threading.Lock() if cached and issubclass(type(filesystem), cached.CachingFileSystem) else nullcontext()
