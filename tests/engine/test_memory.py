"""Memory does not grow with the number of threads: it is slots, and their number follows from the stages and their queues."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.slots import _size_class

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
    return loader._lowered.slots[0].made_bytes


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
    stages = loader._lowered.stages
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
from engine.test_memory import made_bytes, plan, run

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
        timeout=60,
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process stands in Linux's /proc only")
def test_threads_add_nothing_but_their_slots(photos: Path) -> None:
    """Sixteen threads decode into as few batches as one: their scratch is less than a batch for all of them together."""
    one, many = figures(photos, 1), figures(photos, MANY)
    beside_slots = (many["grown"] - many["made"]) - (one["grown"] - one["made"])
    assert beside_slots < ITEM_BYTES, (one, many)
