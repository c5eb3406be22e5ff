"""Listings of a million objects: page after page to columns, and on from where it failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.shards import Shards, version_number
from penstock.storage.glob import Wanted
from penstock.storage.retry import Retry, TransientError

#: Failures one after the other, once some pages have come; before that the whole listing is asked for again.
_MOST_FAILURES = 8
_WAITS = Retry(longest_s=2.0)

#: Opens a listing behind a name (None: from the beginning): pages of objects with path, size, e_tag, last_modified.
OpenPages = Callable[[str | None], Iterator[Sequence[Any]]]


def listed_objects(open_pages: OpenPages, wanted: Wanted, root: str) -> Shards:
    """The wanted objects in the order of their names; TransientError where it does not come to an end."""
    return shards_of((_kept(page, wanted) for page in _pages(open_pages)), root, wanted.folder)


def _kept(page: Sequence[Any], wanted: Wanted) -> list[Any]:
    return [one for one in page if wanted.has(one["path"], one["size"])]


def _pages(open_pages: OpenPages) -> Iterator[Sequence[Any]]:
    """All pages; a listing that fails goes on behind the last name, as long as names ascend."""
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
    """The shards that pages of objects are; `folder` is where they were looked for."""
    paths, sizes, versions, etags = [], [], [], []
    for page in pages:
        tags = [one["e_tag"] or "" for one in page]
        told = [version_number(tag or str(one["last_modified"])) for tag, one in zip(tags, page, strict=True)]
        paths.append(pa.array([root + one["path"] for one in page], pa.large_string()))
        etags.append(pa.array(tags, pa.large_string()))
        sizes.append(np.array([one["size"] for one in page], dtype=np.int64))
        versions.append(np.array(told, dtype=np.int64))
    if not paths:
        none = np.empty(0, dtype=np.int64)
        return Shards(pa.array([], pa.large_string()), none, none)
    found = Shards(
        pa.concat_arrays(paths),
        np.concatenate(sizes),
        np.concatenate(versions),
        root + (folder.rstrip("/") + "/" if folder else ""),
        etags=pa.concat_arrays(etags),
    )
    turn = pc.sort_indices(found.paths).to_numpy().astype(np.int64)
    return found if (np.diff(turn) == 1).all() else found.take(turn)
