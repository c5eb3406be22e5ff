"""How fast the order is: of one dataset and of mixes, of 10⁹ rows together. No data is read but in the last part.

    python benches/order.py [--rows 1000000000] [--seconds 1] [--json]

Ids a second of CPU time, in items of 256 steps and of single steps; the time to the first batch's ids, the order being made; the memory that it adds. Blocks of
1 row are shuffle(mode="global"), those of 4,000 about what Parquet has. Loaders: the rows a second of CPU time that a loader delivers of tiny rows in memory, of
Parquet files, of windows of 2,048 tokens and of decoded JPEGs, of one dataset and of mixes that have as many rows.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import penstock as ps
from penstock.cli.console import print_json
from penstock.order.protocol import RowOrder
from penstock.order.rows.mixed import Mixed, Stop
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.steps.batches import BatchOrder

PARTS, BLOCKS, STEPS = (1, 2, 100), (1, 100, 4_000), (256, 1)
_LANES, _ROWS_PER_LANE = 64, 16
#: Rows of a batch where it is not 512.
_BATCH = {"tokens": 64, "jpeg": 32}
_MEMORY_ROWS, _PARQUET_ROWS = 4_000_000, 1_000_000


def order_of(parts: int, rows: int, block_rows: int) -> RowOrder:
    """One dataset, or several that are mixed equally."""
    size = rows // parts
    inputs = tuple(
        Shuffled(
            segments=Segments(((number * size, size, 1),)),
            lanes=_LANES,
            rows_per_lane=_ROWS_PER_LANE,
            wanted_rows=block_rows,
            window_blocks=2,
            seed=number,
        )
        for number in range(parts)
    )
    if parts == 1:
        return inputs[0]
    first_ids = tuple(range(0, size * parts, size))
    return Mixed(inputs=inputs, first_ids=first_ids, quotas=((0, (1,) * parts),), stop=Stop.FIRST)


def measure_order(parts: int, rows: int, block_rows: int, seconds: float) -> dict[str, Any]:
    """Figures of one order."""
    before, began = psutil.Process().memory_info().rss, time.perf_counter()
    order = BatchOrder(rows=order_of(parts, rows, block_rows))
    order.ids(0, 0, 1, 0, 1)
    found: dict[str, Any] = {
        "datasets": parts,
        "rows": order.samples,
        "block_rows": block_rows,
        "first_batch_ms": (time.perf_counter() - began) * 1e3,
    }
    for steps in STEPS:
        found[f"ids_per_cpu_s_in_{steps}_steps"] = max(rate(order, steps, seconds / 3) for _ in range(3))
    found["bytes_added"] = psutil.Process().memory_info().rss - before
    return found


def rate(order: BatchOrder, steps: int, seconds: float) -> float:
    """Ids a second of CPU time, on one thread."""
    ids, step, began = 0, 0, time.process_time()
    while (taken := time.process_time() - began) < seconds:
        ids += len(order.ids(0, step % (order.even_steps - steps), steps, 0, 1))
        step += steps
    return ids / taken


def memory_parts(parts: int) -> list[ps.Dataset]:
    """Rows of 12 bytes in memory."""
    size = _MEMORY_ROWS // parts
    return [ps.from_arrays({"x": np.arange(size), "y": np.zeros(size, dtype=np.float32)}) for _ in range(parts)]


def parquet_parts(parts: int, folder: Path) -> list[ps.Dataset]:
    """Rows of 64 floats and a number, in a hundred files of ten thousand rows."""
    files = [folder / f"{number}.parquet" for number in range(100)]
    for number, file in enumerate(files):
        if not file.exists():
            values = np.random.default_rng(number).random(_PARQUET_ROWS // 100 * 64, dtype=np.float32)
            columns = {"id": np.arange(_PARQUET_ROWS // 100), "x": pa.FixedSizeListArray.from_arrays(values, 64)}
            pq.write_table(pa.table(columns), file)
    each = len(files) // parts
    return [ps.read(files[number * each : (number + 1) * each]) for number in range(parts)]


def token_parts(parts: int, folder: Path) -> list[ps.Dataset]:
    """Windows of 2,048 tokens of 2 bytes, in a hundred files of 400 windows."""
    files = [folder / f"{number}.bin" for number in range(100)]
    for number, file in enumerate(files):
        if not file.exists():
            np.random.default_rng(number).integers(0, 50_000, 400 * 2_048, dtype=np.uint16).tofile(file)
    each = len(files) // parts
    some = [files[number * each : (number + 1) * each] for number in range(parts)]
    return [ps.read(one, format="tokens", dtype="uint16", window=2_048) for one in some]


def jpeg_parts(parts: int, folder: Path) -> list[ps.Dataset]:
    """Photographs of 500 × 375 pixels of noise and gradients, in a hundred folders of 32."""
    for number in range(3_200):
        file = folder / f"{number % 100}" / f"{number}.jpg"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            coarse = np.random.default_rng(number).integers(0, 256, (12, 16, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(file)
    each = 100 // parts
    folders = [[folder / f"{number}" for number in range(one * each, (one + 1) * each)] for one in range(parts)]
    return [ps.read(one, columns=["image"]) for one in folders]


def decoded(data: ps.Dataset) -> ps.Dataset:
    """The usual training images."""
    crop = ps.image.RandomResizedCrop((224, 224))
    return data.transform(image=[ps.image.Decode(), crop, ps.image.RandomHorizontalFlip()])


def measure_loader(kind: str, datasets: list[ps.Dataset], seconds: float) -> dict[str, Any]:
    """Rows a second of CPU time over whole epochs, the best of three runs; the first epoch, which starts the threads, is not timed."""
    data, size = (datasets[0] if len(datasets) == 1 else ps.mix(datasets)).shuffle(seed=0), _BATCH.get(kind, 512)
    data = decoded(data) if kind == "jpeg" else data
    with ps.Loader(data.batch(size, drop_last=True), rank=0, world_size=1, cpus=2) as loader:
        for _ in loader:
            pass
        best = max(_rows_per_cpu_s(loader, size, seconds) for _ in range(3))
    return {"loader": kind, "datasets": len(datasets), "rows_per_cpu_s": best}


def _rows_per_cpu_s(loader: ps.Loader[dict[str, Any]], size: int, seconds: float) -> float:
    rows, began, until = 0, time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < until:
        rows += size * sum(1 for _ in loader)
    return rows / (time.process_time() - began)


def figures(rows: int, seconds: float) -> Iterator[dict[str, Any]]:
    """All of them, as they come."""
    for block_rows in BLOCKS:
        for parts in PARTS:
            yield measure_order(parts, rows, block_rows, seconds)
    with tempfile.TemporaryDirectory() as folder:
        for parts in PARTS:
            yield measure_loader("memory", memory_parts(parts), seconds)
            yield measure_loader("parquet", parquet_parts(parts, Path(folder)), seconds)
            yield measure_loader("tokens", token_parts(parts, Path(folder)), seconds)
            yield measure_loader("jpeg", jpeg_parts(parts, Path(folder, "jpeg")), seconds)


def shown(found: dict[str, Any]) -> str:
    """A line for people."""
    if "loader" in found:
        return f"{found['loader']:>8} loader, {found['datasets']:3} datasets: {found['rows_per_cpu_s'] / 1e3:10,.1f} thousand rows a CPU second"
    rates = ", ".join(f"{found[f'ids_per_cpu_s_in_{steps}_steps'] / 1e6:6.1f} in {steps} steps" for steps in STEPS)
    return (
        f"blocks of {found['block_rows']:5,}, {found['datasets']:3} datasets: million ids a CPU second: {rates}; first batch "
        f"{found['first_batch_ms']:5.1f} ms; {found['bytes_added'] / 2**20:5.1f} MiB added"
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**9, help="of all datasets together")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = []
    for some in figures(arguments.rows, arguments.seconds):
        found.append(some)
        if not arguments.json:
            print(shown(some), flush=True)
    if arguments.json:
        machine = {"cpus": psutil.cpu_count(), "platform": platform.platform(), "python": platform.python_version()}
        print_json({"command": " ".join(sys.argv), "penstock": ps.__version__, "machine": machine, "figures": found})


if __name__ == "__main__":
    main()
