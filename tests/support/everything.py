"""One small dataset of each native format that is made of files, written below a folder."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

import penstock as ps
from conftest import jpeg
from support import shards, tars, tfrecords
from support.promises import assert_same

GOLDEN = Path(__file__).parent.parent / "golden"
ROWS = 50
TABLE = pa.table({"x": np.arange(ROWS), "text": [f"text {number}" for number in range(ROWS)]})

Options = dict[str, Any]


def _tfrecord(root: Path) -> Options:
    for shard in range(3):
        rows = range(shard * 20, shard * 20 + 20)
        messages = [tfrecords.example(id=tfrecords.integers(row), row=tfrecords.floats(row, row / 2)) for row in rows]
        tfrecords.write(root / f"{shard}.tfrecord", messages)
    packed = root / "3.tfrecord.gz"
    packed.write_bytes(gzip.compress((root / "0.tfrecord").read_bytes()))
    return {}


def _tar(root: Path) -> Options:
    for shard in range(3):
        rows = range(shard * 20, shard * 20 + 20)
        tars.write(
            root / f"{shard}.tar", [(f"{row:05}.{kind}", b"%d" % row) for row in rows for kind in ("cls", "txt")]
        )
    with tarfile.open(root / "3.tar.gz", "w:gz") as packed:
        (root / "000.cls").write_bytes(b"7")
        (root / "000.txt").write_bytes(b"seven")
        packed.add(root / "000.cls", "000.cls")
        packed.add(root / "000.txt", "000.txt")
    (root / "000.cls").unlink()
    (root / "000.txt").unlink()
    return {}


def _lines(root: Path) -> Options:
    lines = [b'{"id": %d, "text": "line %d"}\n' % (number, number) for number in range(60)]
    (root / "0.jsonl").write_bytes(b"".join(lines[:20]))
    (root / "1.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[20:40])))
    (root / "2.jsonl.xz").write_bytes(lzma.compress(b"".join(lines[40:])))
    return {}


def _csv(root: Path) -> Options:
    head, lines = b"id,text\n", [b'%d,"a\n%d"\n' % (number, number) for number in range(60)]
    (root / "0.csv").write_bytes(head + b"".join(lines[:30]))
    with pa.CompressedOutputStream(str(root / "1.csv.zst"), "zstd") as packed:
        packed.write(head + b"".join(lines[30:]))
    return {}


def _text(root: Path) -> Options:
    (root / "0.txt").write_bytes("Zeile äöü\n".encode() * 30)
    (root / "1.txt.bz2").write_bytes(bz2.compress(b"packed\n" * 30))
    return {}


def _recordio(root: Path) -> Options:
    for name in ("scalar.rec", "scalar.idx"):
        shutil.copy(GOLDEN / "recordio" / name, root)
    rows = [b"\0" * 4 + np.float32(row).tobytes() + bytes(16) + shards.MAGIC * (row % 3) for row in range(20)]
    (root / "x.rec").write_bytes(b"".join(map(shards.recordio, rows)))
    return {}


def _hdf5(root: Path) -> Options:
    for name in "ab":
        with h5py.File(root / f"{name}.h5", "w") as file:
            file.create_dataset("x", data=np.arange(ROWS), chunks=(8,), compression="gzip")
            file["text"] = [f"{name} {number}" for number in range(ROWS)]
    return {}


def _zarr(version: int) -> Callable[[Path], Options]:
    def write(root: Path) -> Options:
        group = zarr.open_group(str(root), mode="w", zarr_format=version)
        group.create_array("x", data=np.arange(ROWS), chunks=(9,))
        group.create_array("y", data=np.sqrt(np.arange(ROWS * 2)).reshape(ROWS, 2), chunks=(4, 1))
        return {"format": "zarr"}

    return write


def _lmdb(root: Path) -> Options:
    with lmdb.open(str(root), map_size=1 << 22, sync=False) as database, database.begin(write=True) as writing:
        for number in range(ROWS):
            writing.put(b"%06d" % number, b"x" * number * 200)
    return {}


def _images(root: Path) -> Options:
    for number in range(20):
        path = root / ("cats" if number % 2 else "big dogs") / f"{number} ü.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(number, 20 + number, 20))
    return {}


def _tokens(root: Path) -> Options:
    np.arange(3000, dtype=np.uint16).tofile(root / "a.bin")
    np.arange(999, dtype=np.uint16).tofile(root / "b.bin")
    return {"format": "tokens", "dtype": "uint16", "window": 10}


def _parquet(root: Path) -> Options:
    pq.write_table(TABLE, root / "a.parquet", row_group_size=16)
    pq.write_table(TABLE, root / "b.parquet", row_group_size=7)
    return {}


def _arrow(root: Path) -> Options:
    with pa.ipc.new_file(root / "a.arrow", TABLE.schema) as file:
        file.write_table(TABLE, max_chunksize=9)
    return {}


def _npy(root: Path) -> Options:
    np.save(root / "a.npy", np.arange(600).reshape(300, 2))
    np.save(root / "b.npy", np.arange(60).reshape(30, 2))
    return {}


def _npy_in_fortrans_order(root: Path) -> Options:
    np.save(root / "a.npy", np.asfortranarray(np.arange(600).reshape(300, 2)))
    return {}


def _npz(root: Path) -> Options:
    np.savez(root / "a.npz", x=np.arange(ROWS), y=np.ones((ROWS, 2)))
    np.savez_compressed(root / "b.npz", x=np.arange(ROWS), y=np.zeros((ROWS, 2)))
    return {}


def _golden(*name: str, **options: Any) -> Callable[[Path], Options]:
    def write(root: Path) -> Options:
        shutil.copytree(GOLDEN.joinpath(*name), root, dirs_exist_ok=True)
        return options

    return write


def _megatron(root: Path) -> Options:
    for name in ("text.bin", "text.idx"):
        shutil.copy(GOLDEN / "megatron" / name, root)
    return {"format": "tokens", "window": 5}


WRITERS: dict[str, Callable[[Path], Options]] = {
    "arrow": _arrow,
    "csv": _csv,
    "hdf5": _hdf5,
    "huggingface": _golden("huggingface", "saved"),
    "image_folder": _images,
    "jsonl": _lines,
    "litdata": _golden("litdata", "items"),
    "litdata packed": _golden("litdata", "packed-batch"),
    "litdata rows": _golden("litdata", "rows"),
    "lmdb": _lmdb,
    "mds": _golden("mds", "numbers"),
    "mds packed": _golden("mds", "packed-zstd"),
    "megatron": _megatron,
    "npy": _npy,
    "npy in fortran's order": _npy_in_fortrans_order,
    "npz": _npz,
    "parquet": _parquet,
    "recordio": _recordio,
    "text": _text,
    "tfrecord": _tfrecord,
    "tokens": _tokens,
    "webdataset": _tar,
    "zarr 2": _zarr(2),
    "zarr 3": _zarr(3),
}


def write_everything(root: Path) -> dict[str, Options]:
    """Writes all of them, each into the folder of its name; how each is read."""
    options = {}
    for name, write in WRITERS.items():
        (root / name).mkdir()
        options[name] = write(root / name)
    return options


def files_of(root: Path) -> dict[str, bytes]:
    """The files below a folder by their names in it."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def same(near: ps.Dataset, far: ps.Dataset) -> None:
    """Same digest, same columns, same shuffled epoch."""
    assert far.source.manifest.digest == near.source.manifest.digest
    assert far.spec == near.spec
    assert len(far) == len(near) >= 5
    plans = [dataset.shuffle(seed=3).batch(5) for dataset in (near, far)]
    with ps.Loader(plans[0]) as first, ps.Loader(plans[1]) as second:
        for step, (a, b) in enumerate(zip(first, second, strict=True)):
            drop = [name for name in ("path",) if name in a]  # it names the place
            assert_same({k: b[k] for k in b if k not in drop}, {k: a[k] for k in a if k not in drop}, f"step {step}")
