"""One cache, twelve processes, SIGKILL at any time: below its limit all the while, the right rows, and nothing left behind."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.columns.rows import Rows
from penstock.core.files.cache_dirs import cache_folder
from penstock.derived import decoded, lease
from penstock.derived.decoded import DecodedParts
from penstock.derived.lease import make_room
from support.tries import TRIES, tries

PROCESSES = 12
ROWS, PART_ROWS = 60_000, 10_000
#: What nine of the twelve tables need.
LIMIT = 9 * ROWS * 8
#: An hour in a long run.
SECONDS = 3_600 if TRIES >= 1_000 else tries(40, at_least=4)

#: Reads a table that is decoded to the cache, and one that is decompressed to it, again and again, and checks every row.
READER = """
import sys, warnings
import penstock as ps
from penstock.derived import decoded
decoded.MEMORY_BYTES = 1 << 16
warnings.simplefilter("ignore")
table, lines, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
while True:
    for path, column in ((table, "x"), (lines, "n")):
        with ps.Loader(ps.read(path, columns=[column]).shuffle(seed=1).batch(1_000, drop_last=False), epochs=1, cpus=1) as loader:
            seen = sorted(int(number) for batch in loader for number in batch[column])
        first = seen[0] // rows * rows
        if seen != list(range(first, first + (rows if column == "x" else 100))):
            sys.exit("wrong rows")
    print("read", flush=True)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", str(LIMIT))
    return tmp_path / "cache" / "penstock"


def write(folder: Path, number: int) -> tuple[Path, Path]:
    """A table of several row groups and 100 lines that are packed; what they hold says whose they are."""
    table, lines = folder / f"{number}.parquet", folder / f"{number}.jsonl.gz"
    pq.write_table(pa.table({"x": np.arange(ROWS) + number * ROWS}), table, row_group_size=PART_ROWS)
    lines.write_bytes(gzip.compress(b"".join(b'{"n": %d}\n' % (number * ROWS + row) for row in range(100))))
    return table, lines


def held_bytes(cache: Path) -> int:
    """Decoded columns, with those that are being written. Nothing makes room meanwhile, else what goes would count beside what comes."""
    found = 0
    with lease._locked(str(cache / "decoded")) as locked:
        assert locked
        for path in (cache / "decoded").rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                found += path.stat().st_size if path.is_file() else 0
    return found


def start(folder: Path, number: int) -> subprocess.Popen[str]:
    paths = [str(folder / f"{number}.parquet"), str(folder / f"{number}.jsonl.gz")]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", READER, *paths, str(ROWS)], env=environment, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
def test_killed_processes_leave_a_cache_below_its_limit(tmp_path: Path, cache: Path) -> None:
    seed = random.randrange(1 << 30)
    rng, most, kills = random.Random(seed), 0, 0
    for number in range(PROCESSES):
        write(tmp_path, number)
    readers = [start(tmp_path, number) for number in range(PROCESSES)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "read\n", f"seed {seed}"
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or kills <= SECONDS // 4:
            number = rng.randrange(PROCESSES)
            assert readers[number].poll() is None, f"seed {seed}: a reader failed"
            time.sleep(rng.random() * 0.4)
            most = max(most, held_bytes(cache))
            readers[number].kill()
            readers[number].communicate()
            kills += readers[number].returncode == -9
            readers[number] = start(tmp_path, number)
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()
    assert LIMIT // 2 < most <= LIMIT, f"seed {seed}"
    nothing_is_left(cache)


def nothing_is_left(cache: Path) -> None:
    """After the next opening, of what the killed processes were at."""
    for name in ("decoded", "unpacked", "index"):
        folder = cache_folder(name)
        assert folder is not None
        make_room(folder)
        assert [*Path(folder, "scratch").glob("*")] == []
        assert [path.name for path in Path(f"{folder}.leases").glob("*") if path.name != "lock"] == []
    assert held_bytes(cache) <= LIMIT


def parts_of(name: str, size_bytes: int, count: int) -> DecodedParts:
    """Parts of one column of numbers."""
    fixed = np.zeros((size_bytes // 8, 8), np.uint8)
    return DecodedParts(lambda _: Rows(fixed, {}), lambda part: f"{name}{part}", count, count * size_bytes)


def test_what_others_hold_counts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts in use are not evicted, so others go without a file where no room is left."""
    monkeypatch.setattr(decoded, "MEMORY_BYTES", 0)
    first, second = parts_of("a", LIMIT // 4, 3), parts_of("b", LIMIT // 4, 3)
    for part in range(3):
        first.part(part)
    held = held_bytes(cache)
    with pytest.warns(
        UserWarning, match=r"not cached .*in use fills the cache's limit of .* PENSTOCK_CACHE_BYTES sets it"
    ):
        [second.part(part) for part in range(3)]
    assert LIMIT // 4 * 3 <= held == held_bytes(cache) <= LIMIT
    assert len(second.part(0)[0]) == LIMIT // 4 // 8


def test_reserved_room_counts(cache: Path) -> None:
    """What a process is about to write is taken from what others may."""
    folder = cache_folder("decoded")
    assert folder is not None
    Path(folder, "scratch").mkdir()
    half, more = Path(folder, "scratch", "a"), Path(folder, "scratch", "b")
    for path in (half, more):
        path.touch()
    assert make_room(folder, LIMIT // 2, reserve=str(half))
    assert not make_room(folder, LIMIT // 2 + 1, reserve=str(more))
    assert more.stat().st_size == 0
    assert make_room(folder, LIMIT // 2, reserve=str(more))
