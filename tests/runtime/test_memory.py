"""Memory does not grow with the number of threads, nor while the consumer is slow: what is held stays within the budget."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.runtime.slots import _size_class
from servers.s3 import served
from support.seams import lowered_of

MANY = 16
BATCH = 16
STEPS = 24
ITEM_BYTES = BATCH * 3 * 224 * 224 * 4
PREFETCH = 2


def plan(photos: Path) -> ps.Dataset:
    ops = [ps.image.Decode(), ps.image.RandomResizedCrop(224), ps.image.Normalize(ps.image.IMAGENET)]
    return ps.read(str(photos)).shuffle(seed=0).transform(image=ops).batch(BATCH, drop_last=True)


def made_bytes(loader: ps.Loader) -> int:
    """Bytes of all slots of finished batches that a loader ever made."""
    return lowered_of(loader).slots[0].made_bytes


def run(photos: Path, cpus: int) -> ps.Loader:
    loader = ps.Loader(plan(photos), cpus=cpus, prefetch=PREFETCH)
    for taken, _ in enumerate(batch for _ in range(STEPS) for batch in loader):
        if taken == STEPS:
            break
    loader.close()
    return loader


@pytest.mark.parametrize("cpus", [1, 2, MANY])
def test_slots_follow_from_stages_and_queues(photos: Path, cpus: int) -> None:
    loader = run(photos, cpus)
    stages = lowered_of(loader).stages
    transform = [stage.name for stage in stages].index("transform")
    # Each thread works on one, each queue before another stage holds one, the last one PREFETCH; the consumer holds one and asks
    # for the next.
    threads = sum(stage.threads for stage in stages[transform:])
    assert threads <= 4
    most = threads + (len(stages) - 1 - transform) + PREFETCH + 2
    assert 0 < made_bytes(loader) <= most * _size_class(ITEM_BYTES)


CHILD = """
import json, sys
from pathlib import Path
from runtime.test_memory import made_bytes, plan, run

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

photos, cpus = Path(sys.argv[1]), int(sys.argv[2])
before = peak()
loader = run(photos, cpus)
print(json.dumps({"grown": peak() - before, "made": made_bytes(loader)}))
"""


def figures(photos: Path, cpus: int) -> dict[str, int]:
    tests = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tests)!r})\n{CHILD}", str(photos), str(cpus)],
        capture_output=True,
        check=True,
        text=True,
        timeout=100,
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process stands in Linux's /proc only")
def test_threads_add_nothing_but_their_slots(photos: Path) -> None:
    """Sixteen threads decode into as few batches as one: their scratch is less than a batch for all of them together."""
    one, many = figures(photos, 1), figures(photos, MANY)
    beside_slots = (many["grown"] - many["made"]) - (one["grown"] - one["made"])
    assert beside_slots < ITEM_BYTES, (one, many)


# The budget

MIB = 1 << 20
SAMPLE_BYTES, LARGE_BYTES = 10_000, 20_000_000

#: Takes one batch and then none for a while: what is made ahead piles up. `warm` is what libraries and threads take beside the data.
STALLED = """
import gc, json, os, sys, time
from pathlib import Path
import penstock as ps

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()  # without files that are mapped, whose pages give way
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

def stall(loader):
    batches, most, end, before = iter(loader), 0, time.monotonic() + 20, -1
    batch = next(batches)
    while time.monotonic() < end:
        time.sleep(0.5)
        most, now = max(most, resident()), loader.stats()["memory"]["held_bytes"]
        if now == before and now:
            break
        before = now
    figures = loader.stats()["memory"]
    taken = sum(column.nbytes for column in batch.values())
    loader.close()
    return most, figures, taken

where, options, batch, memory, large = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:])
dataset = ps.read(where, **options)
if "://" in where:
    dataset = dataset.cache_local(0)
plan = dataset.shuffle(seed=0, **({} if large else {"block_rows": 100})).batch(batch)
gc.collect()
before = resident()
most, figures, taken = stall(ps.Loader(plan, prefetch=1, memory=memory))
print(json.dumps({"grown": most - before, "taken": taken, "threads": len(os.listdir("/proc/self/task")), **figures}))
"""


def stalled(where: str, options: dict[str, object], batch: int, memory: int) -> dict[str, int]:
    """What a process held whose consumer stands still."""
    arguments = [where, json.dumps(options), str(batch), str(memory), str(int(not options))]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", STALLED, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    small, large = rng.bytes(2000 * SAMPLE_BYTES), rng.bytes(LARGE_BYTES)
    found = {f"small/{number:02}.bin": small for number in range(20)}
    return found | {f"large/{number:02}.jpg": b"\xff\xd8\xff" + bytes([number]) + large for number in range(16)}


@pytest.fixture(scope="module", params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, files) -> Iterator[str]:
    if request.param == "remote":
        with served(files):
            yield "s3://data"
        return
    root = tmp_path_factory.mktemp("stalled")
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    yield str(root)


TOKENS = {"format": "tokens", "dtype": "uint16", "window": SAMPLE_BYTES // 2 - 1}
#: Beside the data: threads with their scratch, clients of stores, buffers of the system's calls.
OTHERS = 48 * MIB


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds stands in Linux's /proc only")
@pytest.mark.parametrize(
    ("name", "options", "batch", "memory"),
    [
        pytest.param("small", TOKENS, 8, 64 * MIB, id="10 KB"),
        pytest.param("large", {}, 1, 96 * MIB, id="20 MB"),
        pytest.param("large", {}, 2, 160 * MIB, id="two of 20 MB", marks=pytest.mark.long),
    ],
)
def test_a_slow_consumer_is_waited_for_within_the_budget(
    place: str, name: str, options, batch: int, memory: int
) -> None:
    found = stalled(f"{place}/{name}/", options, batch, memory)
    assert found["budget_bytes"] == memory
    assert 0 < found["held_bytes"] <= 1.1 * memory
    assert found["most_bytes"] <= 1.1 * memory
    assert found["grown"] <= 1.1 * memory + found["taken"] + OTHERS, found


def tokens(tmp_path: Path) -> ps.Dataset:
    (tmp_path / "0.jsonl").write_bytes(b'{"x": "%s"}\n' % (b"x" * SAMPLE_BYTES) * 4000)
    return ps.read(str(tmp_path))


def test_less_memory_than_open_windows_need_is_said_once_with_numbers(tmp_path: Path) -> None:
    plan = tokens(tmp_path).shuffle(seed=0, block_rows=100).batch(16)
    loader = ps.Loader(plan, memory=4 * MIB)
    with pytest.warns(
        UserWarning, match=r"memory=4,194,304 bytes is less than the [\d,]+ .*windows.*window_blocks="
    ) as warned:
        steps = sum(1 for _ in zip(range(9), loader, strict=False))
    assert [one.filename for one in warned if one.category is UserWarning] == [__file__]
    assert steps == 9
    assert sum(1 for _ in loader) == len(loader), "and it goes on, one batch at a time"
    enough = lowered_of(loader).window_bytes + lowered_of(loader).batch_bytes
    loader.close()
    with ps.Loader(plan, memory=2 * enough) as quiet:
        next(iter(quiet))


def test_the_report_says_what_is_held(tmp_path: Path) -> None:
    with ps.Loader(tokens(tmp_path).shuffle(seed=0).batch(16), memory=512 * MIB) as loader:
        assert loader.stats()["memory"]["budget_bytes"] == 0, "nothing ran yet"
        next(iter(loader))
        memory = loader.stats()["memory"]
        assert 0 < memory["held_bytes"] < 512 * MIB
        assert memory["budget_bytes"] == 512 * MIB
        assert f"of {512 * MIB / 1e6:,.1f} MB" in loader.report()


@pytest.mark.parametrize("grows", [1, 40])
def test_what_a_function_makes_larger_stays_within_the_budget(grows: int) -> None:
    """What it makes of an item is not known before; it is learnt from the first."""
    rows, memory = 64, 64 * MIB
    data = ps.from_arrays({"x": np.zeros((4096, 1000), dtype=np.float32)}).batch(rows)
    plan = data.map(lambda batch: {"x": np.tile(batch["x"], (1, grows))})
    with ps.Loader(plan, memory=memory, prefetch=50, cpus=4) as loader:
        for number, _ in enumerate(loader):
            if number % 8 == 0:
                time.sleep(0.1)
        assert loader.stats()["memory"]["most_bytes"] <= 1.1 * memory
