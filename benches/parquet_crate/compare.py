"""Penstock's Parquet reader beside the `parquet` crate: CPU milliseconds, the least of several passes of each in turn. Prints JSON.

    cargo build --release --manifest-path benches/parquet_crate/Cargo.toml
    python benches/parquet_crate/compare.py benches/parquet_crate/target/release/parquet-crate

Footers, 300 scattered rows of a row group by the page index, a twentieth of one, and whole row groups, of four files that pyarrow writes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.cli.console import print_json
from penstock.core.byte_ranges import ByteRanges
from penstock.core.kernels import ParquetFooter
from penstock.format.parquet.files import Files
from penstock.format.parquet.pages import PagedFiles
from penstock.storage.local import LocalStorage

_TURNS, _PASSES = 3, 5
_WIDE = [[f"column_{number:04}"] for number in range(2_000)]


def write(folder: Path) -> None:
    """Texts and bytes, lists, floats, and a file of many columns and row groups; each with a page index."""
    rng, rows = np.random.default_rng(0), 1_000_000
    ends = np.append(0, np.cumsum(rng.integers(20, 60, rows))).astype(np.int32)
    letters = rng.integers(97, 123, ends[-1], dtype=np.uint8)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    text = {
        "id": np.arange(rows),
        "x": rng.random(rows, dtype=np.float32),
        "k": rng.integers(0, 1_000, rows),
        "name": pa.Array.from_buffers(pa.string(), rows, buffers),
        "payload": pa.Array.from_buffers(pa.binary(), rows, buffers),
    }
    pq.write_table(
        pa.table(text), folder / "text.parquet", row_group_size=250_000, compression="zstd", write_page_index=True
    )
    ends = np.append(0, np.cumsum(rng.integers(8, 32, rows // 2))).astype(np.int32)
    tokens = pa.ListArray.from_arrays(ends, rng.integers(0, 50_000, ends[-1]).astype(np.int32))
    lists = pa.table({"label": rng.integers(0, 10, rows // 2), "tokens": tokens})
    pq.write_table(lists, folder / "list.parquet", row_group_size=250_000, compression="snappy", write_page_index=True)
    floats = pa.table({f"c{number:02}": rng.random(rows) for number in range(16)})
    pq.write_table(floats, folder / "floats.parquet", row_group_size=500_000, compression="lz4", write_page_index=True)
    wide = pa.table({name: rng.random(2_000, dtype=np.float32) for (name,) in _WIDE})
    pq.write_table(wide, folder / "wide.parquet", row_group_size=100, write_page_index=True)


def least(work: Callable[[], float]) -> tuple[float, float]:
    """CPU milliseconds of all threads, and what the work gave."""
    best = float("inf")
    for _ in range(_PASSES):
        before = time.process_time()
        check = work()
        best = min(best, time.process_time() - before)
    return best * 1e3, check


def compare(ours: Callable[[], float], path: Path, case: str, rows: np.ndarray) -> dict[str, float]:
    """Both sides, which have to give the same."""
    best = [float("inf")] * 2
    for _ in range(_TURNS):
        text = " ".join(map(str, rows.tolist()))
        command = [sys.argv[1], str(path), case, str(_PASSES)]
        told = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout.split()
        sides = least(ours), (float(told[0]), float(told[1]))
        if abs(sides[0][1] - sides[1][1]) > 1e-9 * abs(sides[0][1]):
            raise SystemExit(f"{path.name}, {case}: {sides[0][1]} here and {sides[1][1]} there")
        best = [min(known, side[0]) for known, side in zip(best, sides, strict=True)]
    return {"penstock_ms": round(best[0], 2), "crate_ms": round(best[1], 2), "ratio": round(best[1] / best[0], 2)}


def first_column_of(read: Callable[[], pa.Table]) -> float:
    """The sum of the first column, by which both sides are seen to give the same rows."""
    return float(sum(chunk.to_numpy().astype(np.float64).sum() for chunk in read().column(0).chunks))


def row_groups_of(footer: bytes, names: list[list[str]]) -> float:
    """The row groups of a footer."""
    return float(len(ParquetFooter(footer, names).rows))


def footers(path: Path) -> dict[str, dict[str, float]]:
    """The footer of a file of 2,000 columns and 20 row groups."""
    content = path.read_bytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    return {
        f"footer, {count:,} of 2,000 columns": compare(
            partial(row_groups_of, footer, _WIDE[:count]), path, "footer", np.arange(0)
        )
        for count in (2_000, 5)
    }


def groups(path: Path) -> dict[str, dict[str, float]]:
    """Rows of the first row group of a file, whose footer and page index are known."""
    shards = LocalStorage().list(str(path))
    files = Files(shards, ByteRanges(LocalStorage().read), ps.Limits(), verify=True)
    file = files.open(0)
    names = [(name,) for name in file.schema_arrow.names]
    paged, total = PagedFiles(files, file.schema_arrow, names), file.metadata.row_group(0).num_rows
    scattered = np.sort(np.random.default_rng(0).choice(total, 300, replace=False))
    near = np.arange(total // 2, total // 2 + total // 20)
    work: dict[str, tuple[Callable[[], pa.Table], str, np.ndarray]] = {
        "300 rows": (lambda: paged.table(0, 0, names, scattered), "rows", scattered),
        "a twentieth": (lambda: paged.table(0, 0, names, near), "rows", near),
        "all": (lambda: files.table(0, files.open(0), 0, names, total), "all", near[:0]),
    }
    return {
        f"{path.stem}, {name}": compare(partial(first_column_of, table), path, case, rows)
        for name, (table, case, rows) in work.items()
    }


def main() -> None:
    """Writes the files, measures, removes them."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write(folder)
        found = footers(folder / "wide.parquet")
        for name in ("text", "list", "floats"):
            found |= groups(folder / f"{name}.parquet")
    print_json(found)


if __name__ == "__main__":
    main()
