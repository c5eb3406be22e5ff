"""A cache on a disk that is full, tiny or read-only: the right rows, or an error that names the cache and not the data."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from support import changing_files

TESTS = Path(__file__).parent.parent


def write_compressed_lines(path: Path, rows: np.ndarray) -> None:
    changing_files.write_jsonl(path, rows)
    path.write_bytes(gzip.compress(path.read_bytes(), 1))


#: Written to the cache before they can be read.
UNPACKED = {
    **{kind: changing_files.WRITERS[kind] for kind in ("npy turned", "npz packed", "tfrecord packed")},
    "jsonl.gz": ("jsonl.gz", write_compressed_lines, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("state", ["full", "tiny", "read-only"])
def test_the_cache_is_blamed_and_not_the_data(tmp_path: Path, state: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    size = "100k" if state == "tiny" else "1m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        if state == "full":
            fill(disk)
        if state == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        environment = os.environ | {"XDG_CACHE_HOME": str(disk), "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
        child = [sys.executable, __file__, str(tmp_path / "data")]
        ran = subprocess.run(child, env=environment, capture_output=True, text=True, check=False, timeout=300)
        scratch = list((disk / "penstock").rglob("scratch/*"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    found = dict(line.split(" | ", 1) for line in ran.stdout.splitlines())
    assert ran.returncode == 0, ran.stderr[-2_000:]
    assert {*found} == {*changing_files.WRITERS, *UNPACKED}
    for kind, outcome in found.items():
        if kind in UNPACKED:
            assert "Error: " in outcome, f"{kind}: {outcome}"
            assert "XDG_CACHE_HOME" in outcome, f"{kind}: {outcome}"
        else:
            assert outcome == "old", f"{kind}: {outcome}"
    assert not scratch


def fill(disk: Path) -> None:
    """All of a disk, to its last byte."""
    with (disk / "other").open("wb", buffering=0) as file:
        file.write(bytes(2 << 20))  # as many as there is room for
        with pytest.raises(OSError, match="No space left"):
            file.write(b"more")


def main() -> None:
    """Prints what came of each kind of files."""
    warnings.simplefilter("ignore")
    changing_files.WRITERS.update(UNPACKED)
    for kind in changing_files.WRITERS:
        folder = Path(sys.argv[1], kind)
        folder.mkdir(parents=True)
        files = changing_files.Files(kind, folder)
        print(
            kind, changing_files.verdict(changing_files.first_values(files), changing_files.ROWS * changing_files.FILES), sep=" | ", flush=True
        )  # fmt: skip


if __name__ == "__main__":
    main()
