"""One cache, several processes: each range fetched once, and nothing wrong whoever is killed when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from penstock.storage.cache.folder import open_cache
from support.caching import Remote, disk_bytes
from support.tries import tries

HERE = str(Path(__file__).parent)
#: How long threads and children meet each other.
SECONDS = tries(20, at_least=2)


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Runs code in a new interpreter, which finds `support.caching` and what this one finds."""
    path = os.pathsep.join([HERE, *sys.path])
    head = "import sys; from pathlib import Path; from support.caching import NextUses, Remote; remote = Remote(Path(sys.argv[1]));\n"
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

for turn in range(int(sys.argv[2]), int(sys.argv[3]), 2):
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


@pytest.mark.slow
def test_killed_processes_leave_nothing_wrong(tmp_path: Path) -> None:
    """Many times SIGKILL in the middle of reading, keeping and evicting; each child checks all it reads of what the killed ones left.

    Two are at it at any time.
    """
    remote = Remote(tmp_path)
    killers = [start(KILLER, tmp_path, first, tries(1_000, at_least=20)) for first in range(2)]
    assert [killer.wait(500) for killer in killers] == [0, 0]
    fresh = remote.storage()
    assert fresh.cache is not None
    assert fresh.cache.contents.pieces > 0
    assert fresh.cache.verify()[1] == 0
    remote.read_some(fresh, 1, rounds=50)


#: Runs `work(number)` in as many processes at once as its last argument says, which need not import anything again.
FORKS = """
import os

def child(number):
    status = 1
    try:
        work(number)
        status = 0
    finally:
        os._exit(status)

children = [os.fork() or child(number) for number in range(int(sys.argv[-1]))]
assert not any([os.waitpid(each, 0)[1] for each in children])
"""

ALL = """
import numpy as np

def work(number):
    storage = remote.storage(delay_s=0.002)
    shards = storage.list(str(remote.data))
    for some in np.random.default_rng(number).permutation(40).reshape(5, 8):
        remote.read(storage, some % 2, some // 2 * 2_000_000, [10_000] * 8, shards)
"""


@pytest.mark.slow
def test_several_processes_fetch_each_range_once(tmp_path: Path) -> None:
    """Ranges so far apart that each is a request of its own."""
    Remote(tmp_path, files=2, file_bytes=40_000_000)
    assert start(ALL + FORKS, tmp_path, 3).wait(110) == 0
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


@pytest.mark.slow
def test_readers_are_exact_while_others_evict(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    assert start(EVICTING + FORKS, tmp_path, 3).wait(100) == 0
    fresh = remote.storage()
    assert fresh.cache is not None
    assert fresh.cache.verify()[1] == 0


STUCK = """
import os, time
from penstock.storage.fetch.remote import RemoteStorage
storage = remote.storage()
def never(*_):
    (remote.data.parent / "began").touch()
    time.sleep(60)
storage.remote.read = never
remote.read(storage, 0, 0, 1000)
"""


@pytest.mark.slow
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


MANY = """
import threading, time
import numpy as np
np.unique([1])  # what it and a listing import (pyarrow: pandas) need not be imported in every child
remote.storage().list(str(remote.data))

def work(number):
    end = time.monotonic() + float(sys.argv[3])
    storage = remote.storage(limit=int(sys.argv[2]))
    shards = storage.list(str(remote.data))
    storage.expect(shards, NextUses(lambda shard, offset: (offset * 7919 + int(time.time()) * 131) % 1000))
    failed = []

    def read(seed):
        try:
            while time.monotonic() < end or (not storage.cache_traffic.evicted and time.monotonic() < end + 60):
                rng = np.random.default_rng(seed)
                seed += 1000
                length = rng.integers(1, [600, 6000, 90_000][seed % 3], 12)
                remote.read(storage, rng.integers(0, 4, 12), rng.integers(0, 300_000, 12), length, shards)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=read, args=(100 * number + thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    assert storage.cache_traffic.damaged == 0
    assert storage.cache_traffic.evicted > 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [400_000, 1_000_000])
def test_many_threads_of_many_processes_share_a_small_cache(tmp_path: Path, limit: int) -> None:
    """Ten processes of four threads each evict what the others read; each checks every byte, and the limit holds all the while.

    It holds for everything below the folder: packs, those in the making, the journal, and the folder's own page.
    """
    remote = Remote(tmp_path)
    readers = start(MANY + FORKS, tmp_path, limit, tries(30, at_least=3), 10)
    most = 0
    while readers.poll() is None:
        most = max(most, disk_bytes(remote.folder, "*"))
        time.sleep(0.005)
    assert readers.returncode == 0
    assert limit // 2 < most <= limit
    fresh = remote.storage(limit)
    assert fresh.cache is not None
    assert fresh.cache.verify()[1] == 0


PACK_AFTER_PACK = """
import threading, time
writer, storage = remote.storage(limit=1 << 20), remote.storage(limit=1 << 20)
shards = storage.list(str(remote.data))
sys.setswitchinterval(1e-6)
end, failed = time.monotonic() + float(sys.argv[2]), []

def read(seed):
    try:
        while time.monotonic() < end:
            remote.read_some(storage, seed, rounds=1, shards=shards)
            seed += 10
    except BaseException as error:
        failed.append(error)
        raise

threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
while time.monotonic() < end and not failed:
    for number in range(8):
        remote.read(writer, number % 4, number // 4 * 60_000, 60_000, shards)  # a pack each
    writer.cache.clear()
for thread in threads:
    thread.join()
assert not failed, failed
"""


@pytest.mark.slow
def test_packs_that_come_while_others_read_are_known_to_all_threads(tmp_path: Path) -> None:
    """A table of packs that one thread builds must not hide a pack that another has heard of meanwhile."""
    Remote(tmp_path)
    assert start(PACK_AFTER_PACK, tmp_path, SECONDS).wait(60 + SECONDS) == 0


FORKED = """
import os, signal, sys, time
storage = remote.storage()
shards = storage.list(str(remote.data))
import numpy as np
from penstock.storage.cache import locks
claims = storage.cache.claims()
assert len(claims.take(np.array([5]), np.array([10])))
with locks.locked(str(remote.folder / "lock")) as ours:
    assert ours
    child = os.fork()
    if child == 0:
        time.sleep(60)
claims.release()
try:
    with locks.locked(str(remote.folder / "lock")) as ours:
        assert ours, "the child of a fork holds the cache's lock"
    assert len(storage.cache.claims().take(np.array([5]), np.array([10]))), "the child of a fork holds a claim"
finally:
    os.kill(child, signal.SIGKILL)
    os.wait()
"""


@pytest.mark.slow
def test_the_child_of_a_fork_holds_no_lock(tmp_path: Path) -> None:
    """A worker that is forked while another thread writes or fetches has its files open as well."""
    Remote(tmp_path)
    assert start(FORKED, tmp_path).wait(110) == 0


FORKING = """
import faulthandler, os, threading, time
import numpy as np
storage = remote.storage(limit=400_000)
shards = storage.list(str(remote.data))
end = time.monotonic() + float(sys.argv[2])

def read(seed):
    while time.monotonic() < end:
        remote.read_some(storage, seed, rounds=1, shards=shards)
        seed += 10

threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
for thread in threads:
    thread.start()
while time.monotonic() < end:
    child = os.fork()
    if child == 0:
        status = 1
        faulthandler.dump_traceback_later(100, exit=True)
        try:
            storage.remote.read = lambda shards, shard, offset, length, out, at: [
                out.__setitem__(slice(a, a + n), np.frombuffer(remote.content[s][o : o + n], np.uint8))
                for s, o, n, a in zip(shard, offset, length, at)
            ]
            remote.read_some(storage, 77, rounds=2, shards=shards)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
def test_children_forked_in_the_midst_of_reading_are_exact(tmp_path: Path) -> None:
    Remote(tmp_path)
    assert start(FORKING, tmp_path, SECONDS).wait(100 + SECONDS) == 0


LEAVING = """
import os, signal
import numpy as np
storage = remote.storage()
remote.read_some(storage, 0)
what = sys.argv[2]
if what == "journal":
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    storage.cache.clear()
index = storage.cache._index
if what == "pack":
    index.packs.close()
    index.packs.open([])
    index.packs.reserve(np.array([50_000]))
if what == "tail":
    index.packs.reserve(np.array([50_000]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["journal", "pack", "tail"])
def test_what_killed_processes_leave_goes_when_the_cache_is_opened(tmp_path: Path, what: str) -> None:
    remote = Remote(tmp_path)
    assert start(LEAVING, tmp_path, what).wait(110) == -9
    held = disk_bytes(remote.folder, "*")
    living = remote.storage().cache
    assert living is not None
    living._index.packs.resize(1 << 20)
    living._index.packs.open([])
    living._index.packs.reserve(np.array([8192]))  # it has begun a pack of which the journal knows nothing yet
    open_cache(str(remote.folder), 1 << 30)
    assert not list(remote.folder.glob("*.tmp"))
    assert disk_bytes(remote.folder, "*") - 8192 <= held - (40_000 if what != "journal" else 1)
    assert living._index.packs.is_current
