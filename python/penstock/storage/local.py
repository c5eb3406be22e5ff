"""Local and mounted files; native threads list and read them."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns import compute as pc
from penstock.core.columns.plain import flags_of
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.errors import DataError, SourceError
from penstock.core.files.plain_file import kind_of
from penstock.core.files.shards import Shards
from penstock.storage.glob import WILDCARD, regex_of_glob

#: Threads that wait for files: the page cache needs few, a disk's queue several.
IO_THREADS = 8

#: Paths as the buffers of an Arrow array (offsets, names), sizes, stamps one after the other.
_Found = tuple[Ids, Bytes, Ids, Ids]


class LocalStorage:
    """Files that the operating system finds by a path."""

    root = ""
    traffic = None

    def forget(self, shards: Shards) -> None:
        """There is no cache."""

    def list(self, where: str) -> Shards:
        """The files of a folder (recursively), a glob (`*`, `?`, `[…]`, `**`) or one file, without hidden files."""
        path = _absolute(where)
        if WILDCARD.search(where) and not os.path.exists(path):
            return _list_glob(where, path)
        if not os.path.exists(path):
            raise SourceError(f"{where}: no such file or folder; the path was looked up as {path}")
        if os.path.isdir(path):
            shards = listing(_walk(path), root=path.rstrip("/") + "/")
            if len(shards) == 0:
                raise SourceError(f"{where}: the folder holds no files")
            return shards
        found = listing(_looked_up(lambda: kernels.stat_files([path])), root=os.path.dirname(path).rstrip("/") + "/")
        if len(found) == 0:
            raise SourceError(
                f"{where}: it is {kind_of(os.stat(path).st_mode)}, no regular file; penstock.read_stream reads named pipes and "
                "standard input"
            )
        return found

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Read ranges in native threads; see `core.files.byte_ranges.ByteRanges`."""
        offsets, names = shards.path_buffers
        try:
            stamps = None if shards.stamps is None else shards.stamps.reshape(-1)
            kernels.read_ranges(offsets, names, shards.sizes, shard, offset, length, out, at, IO_THREADS, stamps)
        except OSError as error:
            path, found = error.args
            raise DataError(f"{path}: {found}; {_advice(path)}") from None


def _absolute(where: str) -> str:
    """Where a path leads from the working folder, or from the home folder of `~`."""
    if "\0" in where:
        raise SourceError(f"{where}: no path has a zero byte; remove it")
    try:
        return os.path.abspath(os.path.expanduser(where))
    except FileNotFoundError:
        raise SourceError(
            f"{where}: the working folder, from which this path leads, was removed; change to another, or pass a whole path"
        ) from None


def _advice(path: str) -> str:
    if os.path.islink(path) and not os.path.exists(path):
        return f"it is a broken link, to {os.readlink(path)}; restore its target, or remove the link"
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return "make it readable for this user, or remove it"
    return "if the data was changed on purpose, open the dataset again"


def _walk(root: str) -> _Found:
    return _looked_up(lambda: kernels.walk_files(root, IO_THREADS))


def _looked_up(look: Callable[[], _Found]) -> _Found:
    try:
        return look()
    except OSError as error:
        path, found = error.args
        raise SourceError(f"{path}: {found}") from None
    except UnicodeEncodeError as error:
        raise SourceError(f"{error.object!r}: the name is not UTF-8; rename the file") from None


def _list_glob(where: str, path: str) -> Shards:
    root = path[: WILDCARD.search(path).start()].rpartition("/")[0]  # type: ignore[union-attr]
    if not os.path.isdir(root or "/"):
        raise SourceError(f"{where}: nothing matches; there is no folder {root}")
    listed = listing(_walk(root or "/"), root=root + "/")
    mask = pc.match_substring_regex(listed.paths, regex_of_glob(path))
    found = listed.take(np.flatnonzero(flags_of(mask)))
    if len(found) == 0:
        raise SourceError(f"{where}: nothing matches among the {len(listed):,} files below {root}")
    return found


def listing(found: _Found, root: str) -> Shards:
    """Files as `kernels.stat_files` found them."""
    offsets, names, sizes, flat = found
    paths = pa.LargeStringArray.from_buffers(len(sizes), pa.py_buffer(offsets), pa.py_buffer(names))
    stamps = flat.reshape(-1, 3)
    return Shards(paths, sizes, np.ascontiguousarray(stamps[:, 0]), root, stamps=stamps)
