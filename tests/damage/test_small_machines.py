"""An address space of a gigabyte, for the whole process, is enough to read ordinary data with default settings."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core import address_space
from penstock.runtime.free_memory import default_memory, free_memory
from support import tfrecords
from support.images import encoded, picture

CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
import numpy, pyarrow
import penstock as ps
for path in sys.argv[1:]:
    plan = ps.read(path)
    column = {"pictures": "image", "shard.tar": "jpg"}.get(path.rpartition("/")[2])
    if column:
        plan = plan.transform(**{column: [ps.image.Decode(), ps.image.RandomResizedCrop((64, 64))]})
    with ps.Loader(plan.shuffle().batch(16)) as loader:
        print(path.rpartition("/")[2], sum(len(next(iter(batch.values()))) for batch in loader))
"""
ROWS = 160


def write_pictures(folder: Path) -> None:
    (folder / "pictures/a").mkdir(parents=True)
    with tarfile.open(folder / "shard.tar", "w") as archive:
        for row in range(ROWS):
            content = encoded(picture(80, 60, mode="RGB"), "JPEG")
            (folder / "pictures/a" / f"{row}.jpg").write_bytes(content)
            for kind, data in (("jpg", content), ("cls", b"1")):
                member = tarfile.TarInfo(f"{row:04}.{kind}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def write_all(folder: Path) -> list[str]:
    """One small dataset of each kind; their paths."""
    write_pictures(folder)
    rows = [tfrecords.example(x=tfrecords.floats(*range(100)), y=tfrecords.integers(row)) for row in range(ROWS)]
    tfrecords.write(folder / "rows.tfrecord", rows)
    pq.write_table(pa.table({"x": range(ROWS), "t": [f"text {row}" for row in range(ROWS)]}), folder / "rows.parquet")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"x": row, "t": "t" * row}) + "\n" for row in range(ROWS)))
    np.save(folder / "rows.npy", np.arange(ROWS * 8.0).reshape(ROWS, 8))
    return [
        str(folder / name)
        for name in ("pictures", "shard.tar", "rows.tfrecord", "rows.parquet", "rows.jsonl", "rows.npy")
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold processes to RLIMIT_AS")
def test_a_gigabyte_of_addresses_is_enough(tmp_path: Path) -> None:
    paths = write_all(tmp_path)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, timeout=120, check=False
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines() == [f"{Path(path).name} {ROWS}" for path in paths]


def test_the_budget_is_a_part_of_the_addresses_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_space.resource, "getrlimit", lambda _: (address_space.resource.RLIM_INFINITY,) * 2)
    assert address_space.address_bytes_left() is None
    monkeypatch.setattr(address_space.resource, "getrlimit", lambda _: (1 << 62, 1 << 62))
    left = address_space.address_bytes_left()
    assert left is not None
    assert (1 << 62) - (1 << 50) < left < 1 << 62
    monkeypatch.setattr("penstock.runtime.free_memory.address_bytes_left", lambda: 1 << 30)
    assert free_memory() == 1 << 30
    assert default_memory(1) == 1 << 27


@pytest.mark.parametrize(("left", "asked"), [(None, []), (1 << 50, []), (1 << 28, [(-8, 2)])])
def test_threads_share_arenas_where_addresses_are_few(
    monkeypatch: pytest.MonkeyPatch, left: int | None, asked: list[tuple[int, int]]
) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        def __init__(self, _: None) -> None:
            self.mallopt: Callable[[int, int], None] = lambda what, value: calls.append((what, value))

    monkeypatch.setattr(address_space.ctypes, "CDLL", Library)
    monkeypatch.setattr(address_space, "address_bytes_left", lambda: left)
    address_space.spare_addresses()
    assert calls == asked
