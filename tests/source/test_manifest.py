"""A manifest names the data: the digest changes with it, and with nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.core.files.shards import Shards
from penstock.source.manifest import Manifest


def folder(root: Path) -> Path:
    for number in range(6):
        path = root / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff" * (number + 1))
    return root


def digest(root: Path) -> str:
    return ps.read(str(root)).source.manifest.digest


def test_the_digest_follows_the_data(tmp_path: Path) -> None:
    root = folder(tmp_path / "here")
    before = digest(root)
    os.utime(root / "a/0.jpg", (1, 1))
    assert digest(root) == before, "times do not count"
    assert digest(Path(shutil.copytree(root, tmp_path / "elsewhere" / "deep"))) == before, "the place does not count"
    (root / "a/0.jpg").write_bytes(b"\xff\xd8\xff longer")
    changed = digest(root)
    (root / "a/0.jpg").rename(root / "a/00.jpg")
    renamed = digest(root)
    (root / "a/8.jpg").write_bytes(b"\xff\xd8\xff")
    assert len({before, changed, renamed, digest(root)}) == 4


def shards(*names: str) -> Shards:
    sizes = np.full(len(names), 10, dtype=np.int64)
    return Shards(pa.array(names, pa.large_string()), sizes, sizes, "")


def test_names_cannot_run_into_each_other() -> None:
    first = np.arange(3)
    assert Manifest("f", shards("ab", "c"), first).digest != Manifest("f", shards("a", "bc"), first).digest


def test_places() -> None:
    lengths, offsets = np.array([4, 6, 10]), np.array([0, 4, 1200000])
    manifest = Manifest("f", shards("one", "none", "two"), np.array([0, 2, 2, 3]), offsets, lengths)
    assert manifest.samples == 3
    assert manifest.size_bytes == 30
    assert manifest.shard_of(np.arange(3)).tolist() == [0, 0, 2]
    assert [manifest.place(sample) for sample in range(3)] == [
        "one, record 0, byte 0",
        "one, record 1, byte 4",
        "two, record 0, byte 1,200,000",
    ]
