"""The caches of a plan: which rows each keeps, and where."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.derived.row_cache.disk import DiskRowCache
from penstock.derived.row_cache.rows import RowCache
from penstock.order.rows.zipped import FollowedRows
from penstock.plan.nodes import Cache, Node
from penstock.plan.tree import inputs_of
from penstock.runtime.free_memory import free_memory
from penstock.stages.cached.key import about, cache_key

_open: weakref.WeakValueDictionary[tuple[int, str, str], RowCache] = weakref.WeakValueDictionary()
_opening = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class CachedRows:
    """The rows that one cache keeps: those of sources [sources[0], sources[1]), whose ids are [ids[0], ids[1]), but for those that follow others among them.

    home: stands for sources in parts of items whose rows came out of the cache.
    """

    node: Cache
    rows: RowCache
    sources: tuple[int, int]
    ids: tuple[int, int]
    followers: tuple[tuple[int, int], ...]
    home: tuple[int, int]

    def leads(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which ids are of rows that the cache keeps."""
        found = self.holds(ids)
        for first, end in self.followers:
            found &= (ids < first) | (ids >= end)
        return found

    def holds(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which ids are of its sources, rows that follow others with them."""
        return np.asarray((ids >= self.ids[0]) & (ids < self.ids[1]))


def caches_of(
    root: Node, first_ids: Ids, links: tuple[FollowedRows, ...], seed: int, *, has_draws: bool, ranks: int
) -> list[CachedRows]:
    """All caches of a plan, the uppermost first: where that has a row, what is below need not. ranks: that share this machine's memory."""
    found, met = list[CachedRows](), 0

    def go(node: Node) -> None:
        nonlocal met
        first = met
        met += not node.below
        for below in inputs_of(node):
            go(below)
        if not isinstance(node, Cache):
            return
        begin, end = int(first_ids[first]), int(first_ids[met])
        inside = [link for link in links if begin <= link.leads[0] and link.follows[1] <= end]
        number = -1 - len(found)
        cached = CachedRows(
            node=node,
            rows=_opened(node, cache_key(node, seed, has_draws=has_draws), end - begin, ranks),
            sources=(first, met),
            ids=(begin, end),
            followers=tuple(link.follows for link in inside),
            home=(number, number),
        )
        found.append(cached)

    go(root)
    return found[::-1]


def _opened(node: Cache, key: str, rows: int, ranks: int) -> RowCache:
    if node.folder is None:

        def make() -> RowCache:
            return RowCache(
                rows, node.size_bytes if node.size_bytes is not None else free_memory() // 2 // max(1, ranks)
            )

        return node.in_memory.get(key, make)
    folder, limit = node.folder, node.size_bytes
    return _shared((folder, f"{key} {limit}"), lambda: DiskRowCache(folder, key, rows, limit, about(node)))


def _shared(place: tuple[str, str], make: Callable[[], RowCache]) -> RowCache:
    """What is open in this process already, or opened now."""
    import os

    with _opening:
        name = (os.getpid(), *place)
        if (found := _open.get(name)) is None or found.is_full:
            found = _open[name] = make()
        return found
