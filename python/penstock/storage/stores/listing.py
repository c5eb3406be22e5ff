"""Listings of a million objects: page after page to columns, resumed after failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.spec import Ids
from penstock.core.errors import SourceError
from penstock.core.files.shards import Shards, version_number
from penstock.storage.fetch.retry import Retry, TransientError
from penstock.storage.glob import WantedFiles
from penstock.storage.stores.version import version_of

_T = TypeVar("_T")

#: Failures in a row, once some pages have arrived; before that the whole listing is retried.
_MOST_FAILURES = 8
_WAITS = Retry(longest_s=2.0)

#: The fewest objects of a full page.
_FULL = 1000
#: How many folders are listed at once, and up to how many folders: each costs a request.
_AT_ONCE, _MOST_FOLDERS = 16, 4096

#: Opens a listing of the objects below a folder, after a name (None: from the beginning): pages of objects with path, size, e_tag,
#: last_modified.
OpenPages = Callable[[str, str | None], Iterator[Sequence[Any]]]
#: The folders and the objects directly in a folder.
LookInto = Callable[[str], tuple[Sequence[str], Sequence[Any]]]
#: Columns of a page: paths, sizes, versions as numbers and as texts (see `version`).
Columns = tuple[pa.LargeStringArray, Ids, Ids, pa.LargeStringArray]


def listed_objects(open_pages: OpenPages, look_into: LookInto, wanted: WantedFiles, root: str) -> Shards:
    """The wanted objects in the order of their names; TransientError if the listing cannot be completed.

    A listing returns page after page. If the first page is in one of several folders, these are listed in parallel.
    """
    pages = _pages(lambda after: open_pages(wanted.folder, after))
    first = next(pages, [])
    folders, objects = _parts(first, look_into, wanted.folder)
    if not folders:
        return shards_of((_kept(page, wanted) for page in chain([first], pages)), root, wanted.folder)

    def below(folder: str) -> list[Columns]:
        found = _pages(lambda after: open_pages(folder, after))
        return [_columns(kept, root) for page in found if (kept := _kept(page, wanted))]

    listed = _at_once(below, folders)
    return _joined([_columns(_kept(objects, wanted), root), *chain.from_iterable(listed)], root, wanted.folder)


def _parts(first: Sequence[Any], look_into: LookInto, folder: str) -> tuple[Sequence[str], Sequence[Any]]:
    """The folders that hold all but some objects, if a full first page is in one of them; else none."""
    if len(first) < _FULL:
        return [], []
    begin, end = first[0]["path"].split("/")[:-1], first[-1]["path"].split("/")[:-1]
    depth = next((at for at, (one, other) in enumerate(zip(begin, end, strict=False)) if one != other), None)
    common = begin[: min(len(begin), len(end)) if depth is None else depth]
    for parts in range(len(folder.split("/")) if folder else 0, len(common)):
        folders, objects = look_into("/".join(common[:parts]))
        if len(folders) > 1:
            return (folders, objects) if len(folders) <= _MOST_FOLDERS else ([], [])
    return [], []


def _at_once(call: Callable[[str], _T], items: Sequence[str]) -> list[_T]:
    """The calls' results, from daemon threads; raises the first error."""
    left, found, errors, lock = iter(items), dict[str, _T](), list[BaseException](), threading.Lock()

    def work() -> None:
        while not errors:
            with lock:
                item = next(left, None)
            if item is None:
                return
            try:
                found[item] = call(item)
            except BaseException as error:
                errors.append(error)

    threads = [
        threading.Thread(target=work, name="penstock-list", daemon=True) for _ in range(min(_AT_ONCE, len(items)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [found[item] for item in items]


def _kept(page: Sequence[Any], wanted: WantedFiles) -> list[Any]:
    return [one for one in page if wanted.has(one["path"], one["size"])]


def _pages(open_pages: Callable[[str | None], Iterator[Sequence[Any]]]) -> Iterator[Sequence[Any]]:
    """All pages. A listing that fails resumes after the last name, as long as names ascend."""
    last, ascending, failures = "", True, 0
    pages = open_pages(None)
    while True:
        try:
            page = next(pages, None)
        except TransientError:
            failures += 1
            if not last or not ascending or failures > _MOST_FAILURES:
                raise
            time.sleep(_WAITS.wait_s(failures))
            pages = open_pages(last)
            continue
        if page is None:
            return
        if page:
            names = [one["path"] for one in page]
            ascending = ascending and names == sorted(names) and last < names[0]
            last, failures = names[-1], 0
        yield page


def shards_of(pages: Iterator[Sequence[Any]], root: str, folder: str) -> Shards:
    """The shards of pages of objects; `folder` is where they were listed."""
    return _joined([_columns(page, root) for page in pages], root, folder)


def shards_of_files(files: Iterable[tuple[str, int, int, str]], root: str, where: str, folder: str) -> Shards:
    """The shards of files below a folder, or of the one that it is: (name, bytes, version as a number and as a text) each.

    SourceError if there are none.
    """
    found = list(files)
    if not found:
        raise SourceError(f"{root}{where}: no such file, and none below it")
    names, sizes, versions, texts = zip(*found, strict=True)
    paths, etags = pa.array([root + name for name in names], pa.large_string()), pa.array(texts, pa.large_string())
    columns = paths, np.array(sizes, dtype=np.int64), np.array(versions, dtype=np.int64), etags
    return _joined([columns], root, folder.rpartition("/")[0] if names == (folder,) else folder)


def _columns(page: Sequence[Any], root: str) -> Columns:
    tags = [one["e_tag"] or "" for one in page]
    versions = [version_number(tag or str(one["last_modified"])) for tag, one in zip(tags, page, strict=True)]
    return (
        pa.array([root + one["path"] for one in page], pa.large_string()),
        np.array([one["size"] for one in page], dtype=np.int64),
        np.array(versions, dtype=np.int64),
        pa.array([version_of(one) for one in page], pa.large_string()),
    )


def _joined(parts: list[Columns], root: str, folder: str) -> Shards:
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Shards(pa.array([], pa.large_string()), none, none)
    paths, sizes, versions, etags = zip(*parts, strict=True)
    found = Shards(
        pa.concat_arrays(paths),
        np.concatenate(sizes),
        np.concatenate(versions),
        root + (folder.rstrip("/") + "/" if folder else ""),
        etags=pa.concat_arrays(etags),
    )
    turn = pc.sort_indices(found.paths).to_numpy().astype(np.int64)
    return found if (np.diff(turn) == 1).all() else found.take(turn)
