"""A Zarr store over ranges of files that were listed, for zarr-python; hidden files of version 2 are looked for one by one.

A file that was listed and is gone, or is empty, is an error; zarr by itself would take it for a chunk of fill values.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from penstock.core.columns.spec import Bytes
from penstock.core.errors import DataError, SourceError
from penstock.core.files.byte_ranges import ByteRanges, read_range
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options

#: What version 2 calls its metadata; no listing has them.
_HIDDEN = (".zgroup", ".zarray", ".zattrs", ".zmetadata")


class RangedStore(Store):
    """The files below `shards.root`, read-only."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, shards: Shards, read: ByteRanges, options: Options) -> None:
        super().__init__(read_only=True)
        self._shards, self._read, self._options = shards, read, options
        names = [path.removeprefix(shards.root) for path in shards.paths.to_pylist()]
        self._files = {name: shard for shard, name in enumerate(names)}
        self._found: dict[str, tuple[Shards, ByteRanges] | None] = {}
        is_second = shards.is_local and "zarr.json" not in self._files
        self._names = [*names, *(_hidden_below(shards.root) if is_second else ())]

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = Store.__hash__

    def __str__(self) -> str:
        return self._shards.root

    def _place(self, key: str) -> tuple[Shards, int, ByteRanges] | None:
        if key in self._files:
            return self._shards, self._files[key], self._read
        *folders, name = key.split("/")
        if (
            name not in _HIDDEN or ".." in folders or self._options.locate is None
        ):  # metadata names nothing outside of the store
            return None
        if key not in self._found:
            try:
                self._found[key] = self._options.locate([self._shards.root + key])
            except SourceError:
                self._found[key] = None
        found = self._found[key]
        return None if found is None else (found[0], 0, found[1])

    def _bytes(self, key: str, wanted: ByteRequest | None) -> Bytes | None:
        place = self._place(key)
        if place is None:
            return None
        shards, shard, read = place
        if not shards.sizes[shard]:
            raise DataError(
                f"{shards.path(shard)}: the file is empty, and its chunk would be the fill value; copy the store again"
            )
        begin, end = _span(wanted, int(shards.sizes[shard]))
        if end - begin > self._options.limits.record_bytes and key.rpartition("/")[2] not in (*_HIDDEN, "zarr.json"):
            raise DataError(
                f"{shards.path(shard)}: a chunk of {end - begin:,} bytes, the limit is {self._options.limits.record_bytes:,}; raise "
                f"Limits.record_bytes"
            )
        return read_range(read, shards, shard, begin, max(0, end - begin))

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The bytes of a file, or some of them; None if it is not there."""
        from zarr.core.buffer import default_buffer_prototype

        data = await asyncio.to_thread(self._bytes, key, byte_range)
        return None if data is None else (prototype or default_buffer_prototype()).buffer.from_array_like(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """The values of several keys."""
        return list(await asyncio.gather(*(self.get(key, prototype, wanted) for key, wanted in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        return await asyncio.to_thread(self._place, key) is not None

    async def set(self, key: str, value: Buffer) -> None:
        """Refused: the store is read-only."""
        raise PermissionError(f"{self}: the store is read-only")

    async def delete(self, key: str) -> None:
        """Refused: the store is read-only."""
        raise PermissionError(f"{self}: the store is read-only")

    async def list(self) -> AsyncIterator[str]:
        """The names of all files."""
        for name in self._names:
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Names that begin so."""
        for name in self._names:
            if name.startswith(prefix):
                yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """What lies directly in a folder."""
        folder = prefix.rstrip("/") + "/" if prefix else ""
        below = (name[len(folder) :] for name in self._names if name.startswith(folder))
        for name in dict.fromkeys(rest.partition("/")[0] for rest in below):
            yield name


def _hidden_below(root: str, below: str = "") -> Iterator[str]:
    """The hidden files of a local store, without a look into the folders of arrays, which may hold millions of chunks."""
    here = [name for name in _HIDDEN if os.path.isfile(f"{root}{below}{name}")]
    yield from (below + name for name in here)
    if ".zarray" not in here:
        with os.scandir(root + below) as entries:
            folders = [entry.name for entry in entries if entry.is_dir()]
        for folder in folders:
            yield from _hidden_below(root, f"{below}{folder}/")


def _span(wanted: Any, size: int) -> tuple[int, int]:
    if isinstance(wanted, RangeByteRequest):
        return min(wanted.start, size), min(wanted.end, size)
    if isinstance(wanted, OffsetByteRequest):
        return min(wanted.offset, size), size
    if isinstance(wanted, SuffixByteRequest):
        return max(0, size - wanted.suffix), size
    return 0, size
