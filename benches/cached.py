"""Epochs out of `cache()`: in memory beside memcpy, on disk beside reading files that are in the page cache.

    python benches/cached.py [--rounds 5] [--mb 600] [--json FILE]

- images: JPEGs decoded and resized to 224x224x3, kept as uint8, in batches of 64.
- rows: uint8 rows of 4 KB, in batches of 256.

Each is shuffled. The first epoch keeps the rows; then epochs are timed, in turn with the yardsticks, each right after one that is not, which uses up what was made
ahead in between: memcpy of as many bytes, a batch at a time, from memory that
does not fit into the CPU's caches into memory that is used again; and `readinto` of a file that long, in the page cache, a batch at a time, by one thread. "reopened" is a
new process's first epoch, in which each row is compared with its checksum. peers: tf.data's `cache()`, where it is installed, by its own settings.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import penstock as ps

SIDE, IMAGES, ROW_BYTES, ROWS = 224, 64, 4096, 256
#: A loader makes some batches ahead after its epoch; nothing else is timed meanwhile.
_QUIET_S = 0.5
#: A rate is of at least so many seconds.
_SOME_S = 2.0


def rows_of(kind: str, megabytes: int) -> int:
    """How many rows make so many bytes."""
    row_bytes = SIDE * SIDE * 3 if kind == "images" else ROW_BYTES
    step = IMAGES if kind == "images" else ROWS
    return max(2, megabytes * 1_000_000 // row_bytes // step) * step


def jpegs(folder: Path, rows: int) -> None:
    """Few pictures under many names, since they are decoded once."""
    rng, pictures = np.random.default_rng(0), list[bytes]()
    for _ in range(16):
        out = io.BytesIO()
        small = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(small).resize((256, 256), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
        pictures.append(out.getvalue())
    (folder / "class").mkdir(parents=True, exist_ok=True)
    for number in range(rows):
        (folder / "class" / f"{number:06}.jpg").write_bytes(pictures[number % 16])


def plan(kind: str, data: Path, kept: Path | None) -> ps.Dataset:
    if kind == "images":
        ops = [ps.image.Decode(), ps.image.Resize((SIDE, SIDE)), ps.image.ToLayout("NHWC")]
        made, size = ps.read(data, columns=["image"]).transform(image=ops), IMAGES
    else:
        made, size = ps.read(data), ROWS
    return made.cache(kept).shuffle(seed=0).batch(size, drop_last=True)


def epoch_s(loader: ps.Loader[Any]) -> tuple[float, int]:
    """Seconds of an epoch, and its bytes."""
    began_at, size = time.perf_counter(), 0
    for batch in loader:
        size += sum(column.nbytes for column in batch.values())
    return time.perf_counter() - began_at, size


def epochs_s(loader: ps.Loader[Any]) -> tuple[float, int]:
    """The same of as many epochs as take some seconds."""
    took_s, size = epoch_s(loader)
    while took_s < _SOME_S:
        more_s, more = epoch_s(loader)
        took_s, size = took_s + more_s, size + more
    return took_s, size


def memcpy_s(size: int, step: int) -> float:
    """Seconds to copy so many bytes, `step` at a time."""
    source, out = np.ones(size, np.uint8), np.empty(step, np.uint8)
    out[:] = 0
    began_at = time.perf_counter()
    for first in range(0, size - step + 1, step):
        np.copyto(out, source[first : first + step])
    return time.perf_counter() - began_at


def page_cache_s(path: Path, size: int, step: int) -> float:
    """Seconds to read so many bytes of a file that was just read."""
    out = memoryview(bytearray(step))
    with path.open("rb", buffering=0) as file:
        while file.readinto(out):
            pass
        file.seek(0)
        began_at, left = time.perf_counter(), size
        while left >= step:
            left -= file.readinto(out)
        return time.perf_counter() - began_at


def sides(kind: str, work: Path, rows: int) -> Iterator[tuple[str, Callable[[], tuple[float, int]]]]:
    """What is timed, by name: each gives seconds and bytes."""
    data, step = work / kind, (IMAGES * SIDE * SIDE * 3 if kind == "images" else ROWS * ROW_BYTES)
    for name, kept in (("memory", None), ("disk", work / f"{kind}-kept")):
        loader = ps.Loader(plan(kind, data, kept), rank=0, world_size=1)
        _, size = epoch_s(loader)
        epoch_s(loader)
        yield name, lambda loader=loader: (epoch_s(loader), epochs_s(loader))[1]
    yield "disk, reopened", lambda: reopened(kind, data, work / f"{kind}-kept")
    yield "memcpy", lambda: (memcpy_s(size, step), size)
    (path,) = (work / f"{kind}-kept").glob("*.fixed")
    yield "page cache", lambda: (page_cache_s(path, size, step), size)
    if (peer := tf_data(kind, work, rows)) is not None:
        yield "tf.data, memory", peer


def reopened(kind: str, data: Path, kept: Path) -> tuple[float, int]:
    """The first epoch of a new process."""
    command = [sys.executable, __file__, "--side", kind, str(data), str(kept)]
    took_s, size = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(took_s), int(size)


def tf_data(kind: str, work: Path, rows: int) -> Callable[[], tuple[float, int]] | None:
    """tf.data's cache of the same bytes, after its first epoch; None where it is not installed."""
    try:
        import tensorflow as tf
    except ImportError:
        return None
    shape, size = ((SIDE, SIDE, 3), IMAGES) if kind == "images" else ((ROW_BYTES,), ROWS)
    made = tf.data.Dataset.range(rows).map(lambda _: tf.ones(shape, tf.uint8)).cache().shuffle(1000)
    made = made.repeat()  # one long epoch, since it reads ahead over no end of one
    data = made.batch(size, drop_remainder=True, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def epoch() -> tuple[float, int]:
        batches, found = data.as_numpy_iterator(), 0
        for _ in range(rows // size):  # the first one fills the cache
            next(batches)
        began_at = time.perf_counter()
        while (took_s := time.perf_counter() - began_at) < _SOME_S:
            found += next(batches).nbytes
        return took_s, found

    epoch()
    return epoch


def measure(kind: str, work: Path, megabytes: int, rounds: int) -> dict[str, Any]:
    rows = rows_of(kind, megabytes)
    if kind == "images":
        jpegs(work / kind, rows)
    else:
        (work / kind).mkdir()
        values = np.random.default_rng(0).integers(0, 256, (rows, ROW_BYTES), dtype=np.uint8)
        np.save(work / kind / "rows.npy", values)
    timed = list(sides(kind, work, rows))
    rates: dict[str, list[float]] = {name: [] for name, _ in timed}
    for _ in range(rounds):
        for name, run in timed:
            time.sleep(_QUIET_S)
            took_s, size = run()
            rates[name].append(size / took_s / 1e9)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "gb_per_s": medians,
        "all": rates,
        "memory / memcpy": medians["memory"] / medians["memcpy"],
        "disk / page cache": medians["disk"] / medians["page cache"],
        "disk, reopened / page cache": medians["disk, reopened"] / medians["page cache"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mb", type=int, default=600)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", type=Path, help="a folder on the disk to measure; a temporary one by default")
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        kind, data, kept = arguments.side
        with ps.Loader(plan(kind, Path(data), Path(kept)), rank=0, world_size=1) as loader:
            print(json.dumps(epoch_s(loader)))
        return
    found = {"machine": platform.machine(), "python": platform.python_version(), "command": " ".join(sys.argv)}
    for kind in ("images", "rows"):
        with tempfile.TemporaryDirectory(dir=arguments.work) as work:
            found[kind] = measure(kind, Path(work), arguments.mb, arguments.rounds)
        print(kind, {name: round(one, 2) for name, one in found[kind].items() if isinstance(one, float)})
        print("  GB/s", {name: round(one, 2) for name, one in found[kind]["gb_per_s"].items()})
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
