"""A Zarr store in a folder of this machine: files are checked before zarr sees them, and none that was listed may be gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from zarr.storage import LocalStore

from penstock.core.byte_ranges import ByteRanges
from penstock.core.errors import DataError
from penstock.core.shards import Shards


class CheckedStore(LocalStore):
    """A folder that is only read. files: what was listed of it, which lacks hidden files."""

    def __init__(self, root: str, files: Shards, read: ByteRanges) -> None:
        super().__init__(root, read_only=True)
        self._files, self._read = files, read
        self._number = {path: number for number, path in enumerate(files.paths.to_pylist())}
        self._hidden: dict[str, Shards] = {}

    def _check(self, key: str) -> None:
        """DataError for a file that is damaged."""
        path = os.path.join(self.root, key)
        if path in self._number:
            self._read.check_files(self._files, np.array([self._number[path]]))
        elif (files := self._hidden.get(path) or _one_file(path)) is not None:
            self._hidden[path] = files
            self._read.check_files(files)

    def _there(self, key: str, content: Any) -> Any:
        """What was found; DataError for a file that is gone, since zarr takes it for one of fill values."""
        path = os.path.join(self.root, key)
        if content is None and path in self._number:
            raise DataError(f"{path}: the file is gone since the store was opened; copy the store again")
        return content

    async def get(self, key: str, *args: Any, **named: Any) -> Any:
        """See zarr's Store."""
        await asyncio.to_thread(self._check, key)
        return self._there(key, await super().get(key, *args, **named))

    def get_sync(self, key: str, *args: Any, **named: Any) -> Any:
        """See zarr's Store."""
        self._check(key)
        return self._there(key, super().get_sync(key, *args, **named))

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> Any:
        """See zarr's Store."""
        wanted = list(key_ranges)
        for key, _ in wanted:
            await asyncio.to_thread(self._check, key)
        found = await super().get_partial_values(prototype, wanted)
        return [self._there(key, content) for (key, _), content in zip(wanted, found, strict=True)]


def _one_file(path: str) -> Shards | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not os.path.isfile(path):
        return None
    size, time = (np.array([number], dtype=np.int64) for number in (found.st_size, found.st_mtime_ns))
    return Shards(pa.array([path], pa.large_string()), size, time)
