"""One cache, several processes: each range fetched once, and nothing wrong whoever is killed when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from caching import Remote

HERE = str(Path(__file__).parent)


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Runs code in a new interpreter, which finds `caching` and what this one finds."""
    path = os.pathsep.join([HERE, *sys.path])
    head = "import sys; from pathlib import Path; from caching import NextUses, Remote; remote = Remote(Path(sys.argv[1]));\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *map(str, arguments)], env=os.environ | {"PYTHONPATH": path}
    )


KILLER = """
import os, random, signal, time
import numpy as np
np.unique([1])  # what it imports need not be imported in every child
shards = remote.storage().list(str(remote.data))

def from_memory(shards, shard, offset, length, out, at):
    for s, o, n, a in zip(shard, offset, length, at):
        out[a : a + n] = np.frombuffer(remote.content[s][o : o + n], dtype=np.uint8)

def write(turn, begun):
    storage, rng = remote.storage(limit=250_000), np.random.default_rng(turn)
    storage.remote.read = from_memory
    while True:
        shard, offset = rng.integers(0, 4, 8), rng.integers(0, 394_000, 8)
        remote.read(storage, shard, offset, rng.integers(1, 6000, 8), shards)
        os.write(begun, b".")

for turn in range(int(sys.argv[2]), 200, 2):
    begun, end = os.pipe()
    child = os.fork()
    if child == 0:
        write(turn, end)
    os.read(begun, 1)  # from its first read on, whenever that is
    time.sleep(random.Random(turn).random() * 0.01)
    gone, status = os.waitpid(child, os.WNOHANG)
    assert gone == 0, "a reader failed before it was killed"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(end)
"""


def test_killed_processes_leave_nothing_wrong(tmp_path: Path) -> None:
    """200 times SIGKILL in the middle of reading, keeping and evicting; each child checks all it reads of what the killed ones left.

    Two are at it at any time.
    """
    remote = Remote(tmp_path)
    killers = [start(KILLER, tmp_path, first) for first in range(2)]
    assert [killer.wait(100) for killer in killers] == [0, 0]
    fresh = remote.storage()
    assert fresh.cache is not None
    assert fresh.cache.contents.pieces > 0
    assert fresh.cache.verify()[1] == 0
    remote.read_some(fresh, 1, rounds=50)


#: Runs `work(number)` in three processes at once, which need not import anything again.
THREE = """
import os

def child(number):
    status = 1
    try:
        work(number)
        status = 0
    finally:
        os._exit(status)

children = [os.fork() or child(number) for number in range(3)]
assert [os.waitpid(each, 0)[1] for each in children] == [0, 0, 0]
"""

ALL = """
import numpy as np

def work(number):
    storage = remote.storage(delay_s=0.002)
    shards = storage.list(str(remote.data))
    for some in np.random.default_rng(number).permutation(40).reshape(5, 8):
        remote.read(storage, some % 2, some // 2 * 2_000_000, [10_000] * 8, shards)
"""


def test_several_processes_fetch_each_range_once(tmp_path: Path) -> None:
    """Ranges so far apart that each is a request of its own."""
    Remote(tmp_path, files=2, file_bytes=40_000_000)
    assert start(ALL + THREE, tmp_path).wait(60) == 0
    asked = (tmp_path / "log").read_text().splitlines()
    assert len(asked) == len(set(asked)) == 40


EVICTING = """
def work(number):
    storage = remote.storage(limit=300_000)
    shards = storage.list(str(remote.data))
    storage.expect(shards, NextUses(lambda shard, offset: offset * 7919 % 1000))
    for turn in range(15):
        remote.read_some(storage, turn % 7 + number, shards=shards)
    assert storage.cache_traffic.evicted > 0
"""


def test_readers_are_exact_while_others_evict(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    assert start(EVICTING + THREE, tmp_path).wait(100) == 0
    fresh = remote.storage()
    assert fresh.cache is not None
    assert fresh.cache.verify()[1] == 0


STUCK = """
import os, time
from penstock.storage.remote import RemoteStorage
storage = remote.storage()
def never(*_):
    (remote.data.parent / "began").touch()
    time.sleep(60)
storage.remote.read = never
remote.read(storage, 0, 0, 1000)
"""


def test_a_killed_process_lets_go_of_its_claims(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    stuck = start(STUCK, tmp_path)
    while not (tmp_path / "began").exists():
        assert stuck.poll() is None
        time.sleep(0.01)
    stuck.kill()
    stuck.wait()
    remote.read(remote.storage(), 0, 500, 1000)
    assert remote.requests() == 1
