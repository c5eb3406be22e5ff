"""Mapped shards stay watched for as long as arrays lie in them, whoever else maps them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Reads what was cut: the process would end where nobody watches.
PROGRAM = """
import os, sys, threading
import numpy as np
import penstock as ps
from penstock.source.tables import mapped_shards
from penstock.storage.local import LocalStorage

how, folder = sys.argv[1:]
mapped_shards._MAPS = 1
shards = LocalStorage().list(folder)
mapped = mapped_shards.MappedShards(shards)

def opened(shard):
    return np.frombuffer(mapped.open(shard).read_buffer(), np.uint8)

if how == "evicted":
    arrays = [opened(0)]
    opened(1)
else:
    arrays, begin = [], threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (begin.wait(), arrays.append(opened(0)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({array.ctypes.data for array in arrays}) == 1
os.truncate(os.path.join(folder, "0"), 10)
assert [int(array[-1]) for array in arrays] == [0] * len(arrays)
try:
    mapped_shards.check_whole(shards)
except ps.DataError as error:
    print(error)
"""


@pytest.mark.parametrize("how", ["evicted", "together"])
def test_what_is_cut_is_told(how: str, tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / name).write_bytes(b"7" * 100_000)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2_000:]
    assert ran.stdout == f"{tmp_path}/0: cut while it was read, or its disk failed; copy or write it again\n"
