"""Training for a long time: python -m support.soak FOLDER SECONDS URL, where a server has the files of the folder at the URL.

Each round makes a loader of every kind, takes some epochs, breaks off, saves a state and goes on with it in another loader; a function fails now and then. One
loader of each kind lives all the time. After each round a line says what the process has: memory, threads, child processes and open files.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from conftest import jpeg

ROWS = 2_000
Plan = Callable[[Path, str], ps.Dataset]


def make_data(folder: Path) -> None:
    """Images, a table, lines, and arrays."""
    for number in range(64):
        (folder / "images" / str(number % 4)).mkdir(parents=True, exist_ok=True)
        (folder / "images" / str(number % 4) / f"{number}.jpg").write_bytes(jpeg(number))
    draw = np.random.default_rng(0)
    table = pa.table({"id": np.arange(ROWS), "x": draw.random(ROWS)})
    pq.write_table(table, folder / "t.parquet", row_group_size=250)
    lines = (json.dumps({"id": row, "text": "word " * (row % 5)}) for row in range(ROWS))
    (folder / "lines.jsonl").write_text("\n".join(lines) + "\n")
    np.save(folder / "x.npy", draw.random((ROWS, 64)))


def images(folder: Path, _: str) -> ps.Dataset:
    ops = [ps.image.Decode(), ps.image.RandomResizedCrop(32), ps.image.RandomHorizontalFlip()]
    return ps.read(folder / "images").shuffle(seed=0).transform(image=ops).batch(16)


def in_processes(folder: Path, _: str) -> ps.Dataset:
    return ps.read(folder / "x.npy").shuffle(seed=0).map(add_one, workers="process").batch(100)


def in_lanes(folder: Path, _: str) -> ps.Dataset:
    rows = ps.read(folder / "lines.jsonl").shuffle(seed=0).filter(is_chosen)
    return rows.map_rows(numbers_of).pack("tokens", length=128).batch(4, steps=20)


def mixed(folder: Path, _: str) -> ps.Dataset:
    table = ps.read(folder / "t.parquet").shuffle(seed=0)
    return ps.mix([table, table.repeat(3)], weights=[0.7, 0.3]).batch(64)


def from_server(_: Path, url: str) -> ps.Dataset:
    return ps.read(f"{url}/t.parquet").shuffle(seed=0).batch(64)


def failing(folder: Path, _: str) -> ps.Dataset:
    return ps.read(folder / "x.npy").map(fail_late).batch(100)


def add_one(batch: Any) -> Any:
    return {"x": next(iter(batch.values())) + 1}


def is_chosen(batch: Any) -> Any:
    return batch["id"] % 3 > 0


def numbers_of(row: Any) -> Any:
    return {"tokens": pa.array(range(len(str(row["text"])) + 1))}


def fail_late(batch: Any) -> Any:
    if np.random.default_rng().random() < 0.3:
        raise ValueError("now and then")
    return batch


PLANS: tuple[Plan, ...] = (images, in_processes, in_lanes, mixed, from_server, failing)


def endless(loader: ps.Loader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def round_of(plan: Plan, folder: Path, url: str, number: int) -> None:
    """A loader that ends, one that is broken off, and one that goes on where that was."""
    with contextlib.suppress(ValueError):
        dataset = plan(folder, url)
        with ps.Loader(dataset, epochs=2) as loader:
            for _ in range(2):
                for _ in loader:
                    pass
        loader = ps.Loader(dataset, to="torch")
        for step, _ in enumerate(loader):
            if step == 1 + number % 5:
                break
        state = loader.state_dict()
        with ps.Loader(dataset) as other:
            other.load_state_dict(state)
            for _ in other:
                pass
            other.report()


def run(folder: Path, seconds: float, url: str) -> None:
    living = [endless(ps.Loader(plan(folder, url))) for plan in PLANS if plan is not failing]
    process, ends_at, number = psutil.Process(), time.monotonic() + seconds, 0
    while time.monotonic() < ends_at or number < 3:
        for plan in PLANS:
            round_of(plan, folder, url, number)
            gc.collect()  # a loader that failed is in its error's traceback
        for batches in living:
            for _ in range(10):
                next(batches)
        number += 1
        held = {
            "rss": process.memory_info().rss,
            "threads": process.num_threads(),
            "processes": len(process.children(recursive=True)),
            "files": process.num_fds(),
        }
        print(json.dumps(held), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
