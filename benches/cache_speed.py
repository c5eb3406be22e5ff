"""How fast the cache answers, against reading the same files from the local disk: the second epoch, and the first one of another process.

    python benches/cache_speed.py [--json]

Blocks of 1 MiB out of large files, and whole files of 5 KB, both in random order, 256 at a time. All is in the page cache; the local disk's own
speed is not measured. "Remote" files lie on the local disk as well, so that the first epoch tells what keeping them costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import fs

from penstock.core.shards import Shards
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.local import LocalStorage
from penstock.storage.stores.arrow import ArrowStore

TOGETHER, ROUNDS = 256, 5
#: Name: files, bytes of each, bytes of a block.
KINDS = {"1 MiB blocks": (8, 64 << 20, 1 << 20), "5 KB files": (20_000, 5000, 5000)}


def epoch(read: Callable[..., None], shards: Shards, block: int, seed: int) -> float:
    """Seconds to read all blocks once."""
    each = int(shards.sizes[0]) // block
    turn = np.random.default_rng(seed).permutation(len(shards) * each)
    out, at = np.empty(TOGETHER * block, dtype=np.uint8), np.arange(TOGETHER) * block
    out[:] = 0
    began_at = time.perf_counter()
    for first in range(0, len(turn), TOGETHER):
        some = turn[first : first + TOGETHER]
        read(shards, some // each, some % each * block, np.full(len(some), block), out, at[: len(some)])
    return time.perf_counter() - began_at


def measure(kind: str, folder: Path) -> dict[str, Any]:
    files, size, block = KINDS[kind]
    (folder / "data").mkdir(parents=True)
    (folder / "cache").mkdir(mode=0o700)
    content = np.random.default_rng(0).bytes(size)
    for number in range(files):
        (folder / "data" / f"{number:06}.bin").write_bytes(content)
    local = LocalStorage()
    near = local.list(str(folder / "data"))

    def opened() -> CachedStorage:
        return CachedStorage(
            RemoteStorage(ArrowStore(fs.LocalFileSystem())), RangeCache(str(folder / "cache"), 8 << 30)
        )

    storage = opened()
    far = storage.list(str(folder / "data"))
    first = epoch(storage.read, far, block, 0)
    seconds: dict[str, list[float]] = {"local files": [], "second epoch": [], "another process": []}
    for turn in range(ROUNDS):
        seconds["local files"].append(epoch(local.read, near, block, turn))
        seconds["second epoch"].append(epoch(storage.read, far, block, turn))
        seconds["another process"].append(epoch(opened().read, far, block, turn))
    if storage.cache_traffic.misses * block != files * size:
        raise SystemExit("the cache lacked something after the first epoch")
    rates = {name: files * size / statistics.median(found) / 1e6 for name, found in seconds.items()}
    return {"kind": kind, "first epoch": files * size / first / 1e6, **rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args()
    rows = []
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(kind, Path(folder)))
    if asked.json:
        print(json.dumps(rows, indent=2))
        return
    names = ["first epoch", "local files", "second epoch", "another process"]
    print(f"| MB/s | {' | '.join(names)} |\n| --- |{' ---: |' * len(names)}")
    for row in rows:
        print(f"| {row['kind']} | {' | '.join(f'{row[name]:,.0f}' for name in names)} |")


if __name__ == "__main__":
    main()
