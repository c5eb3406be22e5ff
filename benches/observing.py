"""What observing costs: the rate with everything on, by the rate with nothing, in turn.

    python benches/observing.py [--rounds 7] [--seconds 3] [--json FILE]

JPEGs that are decoded and cropped, and samples of one int64 in batches of 256. On: events, histograms, snapshots twice a second into a file, and an exporter that writes lines of JSON; off: no
event, no time of the consumer's, no thread. Rates are of wall time and of the process's CPU time; where other programs run, the second says more. Of the rounds, the median counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import penstock as ps
from bottleneck_pipelines import photos
from penstock.observe.events import Event
from penstock.observe.recorder import Recorder
from penstock.observe.reporter import Reporter
from penstock.observe.snapshot import Snapshot


class Lines:
    """An exporter that writes a line for each snapshot and each event."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Both as JSON."""
        self._file.write(json.dumps([snapshot.as_dict(), events]) + "\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


@contextlib.contextmanager
def nothing_observed() -> Iterator[None]:
    """Nothing is recorded, and nothing is told."""
    with contextlib.ExitStack() as stack:
        for name in ("add", "asks", "gets", "rests"):
            stack.enter_context(mock.patch.object(Recorder, name, return_value=None))
        stack.enter_context(mock.patch.object(Recorder, "times_steps", False))
        stack.enter_context(mock.patch.object(Reporter, "go_on", return_value=True))
        yield


def rates(dataset: ps.Dataset, seconds: float, folder: Path, *, is_on: bool) -> tuple[float, float]:
    """Samples a second, and a second of CPU."""
    options: dict[str, Any] = {"observe": [Lines(folder / "lines.json")]} if is_on else {}
    with contextlib.nullcontext() if is_on else nothing_observed(), ps.Loader(dataset, **options) as loader:
        next(iter(loader))
        began_at, cpu_s, samples = time.perf_counter(), time.process_time(), 0
        while (elapsed_s := time.perf_counter() - began_at) < seconds:
            for batch in loader:
                samples += len(next(iter(batch.values())))
                if time.perf_counter() - began_at > seconds:
                    break
        return samples / elapsed_s, samples / (time.process_time() - cpu_s)


def snapshot_s() -> float:
    """How long a snapshot takes: the median of a hundred."""
    with ps.Loader(ps.from_arrays({"x": np.arange(4096)}).map(lambda batch: batch).batch(16)) as loader:
        batches, took = iter(loader), []
        next(batches)
        for _ in range(100):
            began_at = time.thread_time()
            loader.stats().as_dict()
            took.append(time.thread_time() - began_at)
    return statistics.median(took)


def main() -> None:
    """Prints both ratios of both workloads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, crop = Path(name), [ps.image.Decode(), ps.image.RandomResizedCrop(224)]
        works = {
            "JPEG": ps.read(photos(folder)).shuffle(seed=0).transform(image=crop).batch(64),
            "one int64": ps.from_arrays({"x": np.arange(10_000_000)}).shuffle(seed=0).batch(256),
        }
        found: dict[str, Any] = {"snapshot_ms of CPU": 1000 * snapshot_s()}
        for work, dataset in works.items():
            rounds = [
                [rates(dataset, told.seconds, folder, is_on=is_on) for is_on in (True, False)]
                for _ in range(told.rounds)
            ]
            for place, kind in enumerate(("wall", "cpu")):
                pairs = [on[place] / off[place] for on, off in rounds]
                found[f"{work}, {kind}"] = statistics.median(pairs)
    for what, value in found.items():
        print(f"{what:<24}{value:.3f}")
    if told.json:
        Path(told.json).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
