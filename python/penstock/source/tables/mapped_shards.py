"""Local shards in memory for pyarrow, each mapped once: what their files have no more is an error, not the end of the process."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core import kernels
from penstock.core.errors import DataError
from penstock.core.files.shards import Shards
from penstock.core.lru import Lru

#: Files that stay mapped; the operating system allows some 65,000 maps.
_MAPS = 8_192
#: All that may be asked for what was lost.
_KNOWN: weakref.WeakSet[MappedShards] = weakref.WeakSet()


@dataclass(frozen=True, eq=False)
class _Map:
    """Arrays that lie in `content` keep it, so that no memory is read that nobody watches."""

    path: str
    mapped: pa.Buffer
    watched: kernels.WatchedMemory

    @property
    def content(self) -> pa.Buffer:
        return pa.foreign_buffer(self.mapped.address, self.mapped.size, base=self)


class MappedShards:
    """Files by their numbers, as memory. Arrays that lie in it keep it mapped."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self._lock = threading.Lock()
        self._maps: Lru[int, _Map] = Lru(_MAPS)
        self._in_use: weakref.WeakSet[_Map] = weakref.WeakSet()
        _KNOWN.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process maps them itself."""
        return MappedShards, (self.shards,)

    def open(self, shard: int) -> pa.NativeFile:
        """A file that is not empty; DataError if it is not what it was when it was listed."""
        self.shards.check_now(shard)
        with self._lock:
            found = self._maps.get(shard) or self._maps.put(shard, self._map(shard))
        return pa.BufferReader(found.content)

    def _map(self, shard: int) -> _Map:
        path = self.shards.path(shard)
        try:
            mapped = pa.memory_map(path).read_buffer()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}; open the dataset again") from None
        found = _Map(path, mapped, kernels.WatchedMemory(mapped.address, mapped.size, mapped))
        self._in_use.add(found)
        return found

    def check(self, paths: Container[str]) -> None:
        """DataError for one of these files that was cut after it was mapped, and read behind the cut."""
        with self._lock:
            in_use = list(self._in_use)
        for found in in_use:
            if found.watched.is_lost and found.path in paths:
                raise DataError(f"{found.path}: cut while it was read, or its disk failed; copy or write it again")


def check_whole(shards: Shards) -> None:
    """DataError if what was read of mapped shards is not all their files': for everyone who copies out of them, after the copy."""
    if kernels.lost_memory():
        mine = set(shards.paths.to_pylist())
        for known in list(_KNOWN):
            known.check(mine)
