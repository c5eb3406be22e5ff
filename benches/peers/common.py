"""What every side of the bench shares: its command line, the clock, the CPU account and the one line of JSON.

A side is a table of feeds: ``main("tf.data", version, {"a": {"antialias": make}, …}, write=…)``. A feed yields batches without end,
so that the clock runs in the steady state and no side pays for the short epochs of a small data set.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from work import BATCH, Data, data_folder

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SIZE = 224
CLASSES = 1_000
SLICES = 3


@dataclass(frozen=True, kw_only=True)
class Feed:
    """An endless run of batches, how it is set up, and where its first column is.

    samples: how many the data set has, where the sides of a workload differ in that; ratios are taken among equal ones.
    rows: of a batch, where a side would take too long with all that the workload has; its variant says so.
    is_pass: whether a batch is a pass over all the data. One that takes longer than a run is the measurement, with the start of its libraries in it.
    """

    batches: Iterable[Any]
    column: Callable[[Any], Any]
    settings: Mapping[str, object] = field(default_factory=dict)
    note: str = ""
    samples: int | None = None
    rows: int | None = None
    is_pass: bool = False


Make = Callable[[Data], Feed]
Table = Mapping[str, Mapping[str, Make]]


def endless(make: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """One pass after another: endless(lambda: loader)."""
    return chain.from_iterable(make() for _ in repeat(None))


def main(peer: str, version: str, table: Table, *, write: Mapping[str, Callable[[Data], None]] | None = None) -> None:
    """A side's command line: --list its feeds, --write its files, or measure one feed and print one line of JSON.

    write: by workload; those of (a), (b) and (c) are written together, under "a".
    """
    arguments = _arguments(peer)
    data = Data(arguments.data)
    if arguments.list:
        print(json.dumps({workload: list(feeds) for workload, feeds in table.items()}))
    elif arguments.write:
        (write or {})[arguments.workload](data)
    else:
        feeds = table[arguments.workload]
        variant = arguments.variant or next(iter(feeds))
        head = {"peer": peer, "version": version, "workload": arguments.workload, "variant": variant}
        figures = measure(lambda: feeds[variant](data), BATCH[arguments.workload], arguments.seconds, arguments.warmup)
        line = head | figures
        print(
            json.dumps(line) if arguments.json else f"{peer} {variant}: {line['samples_per_s']:,.0f} samples/s",
            flush=True,
        )
        os._exit(0)  # an endless feed has threads and workers in mid-batch, and some libraries wait for them


def _arguments(peer: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Measure {peer} on one workload of the bench.")
    parser.add_argument("--workload", choices=sorted(BATCH), default="a")
    parser.add_argument("--variant", help="which of the workload's feeds (--list names them); the first unless given")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--seconds", type=float, default=8.0, help="how long the clock runs")
    parser.add_argument("--warmup", type=float, default=6.0, help="how long it runs before the clock starts")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the workloads and their feeds")
    parser.add_argument("--write", action="store_true", help="write this peer's own files of the workload")
    return parser.parse_args()


def measure(make: Callable[[], Feed], batch_size: int, seconds: float, warmup: float) -> dict[str, object]:
    """Rates of one feed. samples_per_s is the best of three slices, samples_per_s_mean the whole timed part; CPU time is of all of it."""
    started, cpu_before = time.perf_counter(), cpu_seconds_by_process()
    feed = make()
    batches = iter(feed.batches)
    first = feed.column(next(batches))
    first_batch_s = time.perf_counter() - started
    batch_size = feed.rows or batch_size
    shape = tuple(first.shape)
    if shape[0] != batch_size:
        raise RuntimeError(f"a batch of {shape[0]} rows, the workload has {batch_size}")
    batch = f"{shape} {getattr(first.dtype, 'name', str(first.dtype)).removeprefix('torch.')}"
    del first  # all that a pass made may be gigabytes
    if feed.is_pass and first_batch_s > warmup + seconds:
        slices = [(1, first_batch_s)]
    else:
        run_for(batches, max(0.0, warmup - first_batch_s))
        cpu_before = cpu_seconds_by_process()
        slices = [run_for(batches, seconds / SLICES) for _ in range(SLICES)]
    cpu_s = cpu_seconds_by_process()
    cpu_s.subtract(cpu_before)
    samples = batch_size * sum(count for count, _ in slices)
    elapsed = sum(took for _, took in slices)
    return {
        "settings": dict(feed.settings),
        "batch": batch,
        "samples": samples,
        "samples_in_set": feed.samples,
        "seconds": round(elapsed, 3),
        "samples_per_s": round(max(batch_size * count / took for count, took in slices), 1),
        "samples_per_s_mean": round(samples / elapsed, 1),
        "cpu_s_per_1000": round(1000 * sum(cpu_s.values()) / samples, 6),
        "cpu_s_per_1000_by_process": {
            name: round(1000 * took / samples, 6) for name, took in cpu_s.items() if took > 0
        },
        "first_batch_s": round(first_batch_s, 3),
        "peak_mb": peak_mb(),
        "note": feed.note,
    }


def run_for(batches: Iterator[Any], seconds: float) -> tuple[int, float]:
    """Take batches for so long; returns how many, and the seconds from the call to the arrival of the last one."""
    count = 0
    started = now = time.perf_counter()
    while now - started < seconds:
        next(batches)
        count += 1
        now = time.perf_counter()
    return count, now - started


def peak_mb() -> int:
    """Most memory of this process at once, MB; not that of its children."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 1_000_000


def cpu_seconds() -> float:
    """User and system time of this process and of all its descendants, the living included where there is a /proc."""
    return sum(cpu_seconds_by_process().values())


def cpu_seconds_by_process() -> Counter[str]:
    """The same by the names of processes; this one's is "here"."""
    proc = Path("/proc")
    if not proc.is_dir():
        own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return Counter({"here": own.ru_utime + own.ru_stime, "children": children.ru_utime + children.ru_stime})
    found = {int(entry.name): one for entry in proc.iterdir() if entry.name.isdigit() and (one := _process(entry))}
    family = {os.getpid()}
    while grown := {pid for pid, one in found.items() if one.parent in family} - family:
        family |= grown
    seconds: Counter[str] = Counter()
    for pid in family & found.keys():
        seconds["here" if pid == os.getpid() else found[pid].name] += found[pid].ticks / os.sysconf("SC_CLK_TCK")
    return seconds


class _Process(NamedTuple):
    """What /proc tells of a process. ticks: user and system time, its own and its reaped children's."""

    name: str
    parent: int
    ticks: int


def _process(entry: Path) -> _Process | None:
    try:
        head, _, tail = (entry / "stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    return _Process(head.partition("(")[2], int(fields[1]), sum(int(value) for value in fields[11:15]))


def version_of(distribution: str) -> str:
    """The version of an installed distribution: version_of("litdata")."""
    return importlib.metadata.version(distribution)
