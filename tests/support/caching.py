"""What the tests of the cache share: files that count as remote, every request of which is noted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import fs

from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.stores.arrow import ArrowStore

FILE_BYTES = 400_000


class Noting(ArrowStore):
    """Notes what is asked for in a file, to which several processes append."""

    def __init__(self, log: Path, delay_s: float = 0.0) -> None:
        super().__init__(fs.LocalFileSystem())
        self._log, self._delay_s = log, delay_s

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        with self._log.open("a") as log:
            log.write(f"{path} {start} {length}\n")
        time.sleep(self._delay_s)
        return super().get(path, etag, size, start, length)


class Remote:
    """Four files of random bytes, and storages that read them through a cache."""

    def __init__(self, root: Path, *, files: int = 4, file_bytes: int = FILE_BYTES) -> None:
        self.data, self.log, self.folder = root / "data", root / "log", root / "cache"
        if not self.data.exists():
            self.data.mkdir()
            self.folder.mkdir(mode=0o700)
            self.log.touch()
            for number in range(files):
                (self.data / f"{number}.bin").write_bytes(np.random.default_rng(number).bytes(file_bytes))
        self.content = [path.read_bytes() for path in sorted(self.data.iterdir())]

    def storage(self, limit: int = 1 << 30, delay_s: float = 0.0) -> CachedStorage:
        """A storage that knows nothing of the others but by the folder."""
        remote = RemoteStorage(Noting(self.log, delay_s))
        remote._scheduler.pace.late_after_s = lambda *_: None  # type: ignore[method-assign]  # no request is made twice for being slow
        return CachedStorage(remote, RangeCache(str(self.folder), limit))

    def requests(self) -> int:
        return len(self.log.read_text().splitlines())

    def read(self, storage: CachedStorage, shard: Any, offset: Any, length: Any, shards: Any = None) -> None:
        """Reads ranges and checks every byte."""
        shard, offset, length = (
            np.atleast_1d(np.asarray(column, dtype=np.int64)) for column in (shard, offset, length)
        )
        shards = storage.list(str(self.data)) if shards is None else shards
        at = np.cumsum(length) - length
        out = np.zeros(int(length.sum()), dtype=np.uint8)
        storage.read(shards, shard, offset, length, out, at)
        ranges = zip(shard.tolist(), offset.tolist(), length.tolist(), strict=True)
        assert out.tobytes() == b"".join(self.content[s][o : o + n] for s, o, n in ranges)

    def read_some(
        self, storage: CachedStorage, seed: int, *, rounds: int = 5, most: int = 6000, shards: Any = None
    ) -> None:
        """Reads random ranges, 20 at a time."""
        rng = np.random.default_rng(seed)
        shards = storage.list(str(self.data)) if shards is None else shards
        for _ in range(rounds):
            shard, length = rng.integers(0, len(self.content), 20), rng.integers(0, most, 20)
            offset = rng.integers(0, len(self.content[0]) - most, 20)
            self.read(storage, shard, offset, length, shards)


class NextUses:
    """A forecast out of a function of (shard, offset)."""

    epoch_s = 0.0

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def __call__(self, shard: Any, offset: Any) -> Any:
        return self._function(shard, offset).astype(float)


def disk_bytes(folder: Path, names: str = "*.pack") -> int:
    """Bytes of the disk that the packs take, or other files."""
    found = 0
    for path in folder.glob(names):
        with contextlib.suppress(FileNotFoundError):
            found += path.stat().st_blocks * 512
    return found
