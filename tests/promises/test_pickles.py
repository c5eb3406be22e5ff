"""Pickles in every place where a format could carry one: refused with the reason, or bytes; never opened."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import penstock as ps
from support import shards, tars
from support.files import rows_of
from support.tfrecords import example, texts, write

GOLDEN = Path(__file__).parents[1] / "golden"


class Evil:
    """What makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def evil_array(folder: Path) -> Any:
    return np.array([Evil(folder / "ran"), 1], dtype=object)


def npy(folder: Path, _: bytes) -> Path:
    np.save(folder / "x.npy", evil_array(folder), allow_pickle=True)
    return folder / "x.npy"


def npy_field(folder: Path, _: bytes) -> Path:
    array = np.zeros(2, dtype=[("a", "i4"), ("b", "O")])
    array["b"] = evil_array(folder)
    np.save(folder / "x.npy", array, allow_pickle=True)
    return folder / "x.npy"


def npz(folder: Path, _: bytes) -> Path:
    np.savez(folder / "x.npz", a=np.arange(2), b=evil_array(folder), allow_pickle=True)
    return folder / "x.npz"


def mds(folder: Path, data: bytes) -> Path:
    shards.mds(folder, {"a": "str", "b": "pkl"}, [{"a": b"x", "b": data}] * 2)
    return folder


def litdata(folder: Path, _: bytes) -> Path:
    shutil.copytree(GOLDEN / "litdata" / "pairs", folder, dirs_exist_ok=True)
    index = json.loads((folder / "index.json").read_text())
    index["config"]["data_format"] = ["int", "pickle"]
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def tar_npy(folder: Path, _: bytes) -> Path:
    out = io.BytesIO()
    np.save(out, evil_array(folder), allow_pickle=True)
    return tars.write(folder / "x.tar", [(f"{number}.npy", out.getvalue()) for number in range(2)])


def zarr_filter(folder: Path, data: bytes) -> Path:
    (folder / "x.zarr" / "a").mkdir(parents=True)
    (folder / "x.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    described = {"zarr_format": 2, "shape": [2], "chunks": [2], "fill_value": None, "order": "C"}
    described |= {"dtype": "|O", "compressor": None, "filters": [{"id": "pickle"}]}
    (folder / "x.zarr" / "a" / ".zarray").write_text(json.dumps(described))
    (folder / "x.zarr" / "a" / "0").write_bytes(numcodecs.Pickle().encode(evil_array(folder)) or data)
    return folder / "x.zarr"


def zarr_numbers(folder: Path, data: bytes) -> Path:
    path = zarr_filter(folder, data)
    described = json.loads((path / "a" / ".zarray").read_text())
    (path / "a" / ".zarray").write_text(json.dumps({**described, "dtype": "<i4", "fill_value": 0}))
    return path


def zarr_codec(folder: Path, data: bytes) -> Path:
    group = zarr.open_group(str(folder / "x.zarr"), mode="w")
    group.create_array("a", data=np.arange(4), compressors=None)
    described = json.loads((folder / "x.zarr" / "a" / "zarr.json").read_text())
    described["codecs"] = [{"name": "bytes"}, {"name": "numcodecs.pickle", "configuration": {"id": "pickle"}}]
    (folder / "x.zarr" / "a" / "zarr.json").write_text(json.dumps(described))
    (folder / "x.zarr" / "a" / "c" / "0").write_bytes(data)
    return folder / "x.zarr"


REFUSED: dict[str, tuple[Callable[[Path, bytes], Path], str]] = {
    "npy": (npy, "holds Python objects .* pickle can run any code and is never opened"),
    "npy field": (npy_field, "holds Python objects .* pickle can run any code and is never opened"),
    "npz": (npz, "holds Python objects .* pickle can run any code and is never opened"),
    "mds": (mds, r"column 'b': it is pickled, .*leave it out"),
    "litdata": (litdata, r"it is pickled, .*leave it out"),
    "tar npy": (tar_npy, "Python objects"),
    "zarr 2 objects": (zarr_filter, "its codec is pickle, which can run any code and is never opened"),
    "zarr 2 numbers": (zarr_numbers, "its codec is pickle, which can run any code and is never opened"),
    "zarr 3": (zarr_codec, "its codec is pickle, which can run any code and is never opened"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    make, message = REFUSED[name]
    with warnings.catch_warnings(action="ignore"):
        path = make(tmp_path, pickle.dumps(Evil(tmp_path / "ran")))
        with pytest.raises(ps.PenstockError, match=message):
            rows_of(ps.read(path))
    assert not (tmp_path / "ran").exists()


def hdf5(folder: Path, data: bytes) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = np.array([data] * 2, dtype=f"V{len(data)}")
        file["x"].attrs["pickled"] = np.void(data)
    return folder / "x.h5"


def database(folder: Path, data: bytes) -> Path:
    with lmdb.open(str(folder / "x.lmdb"), map_size=1 << 20, sync=False) as env, env.begin(write=True) as transaction:
        for key in (b"1", b"2"):
            transaction.put(key, data)
    return folder / "x.lmdb"


def members(folder: Path, data: bytes) -> Path:
    return tars.write(folder / "x.tar", [("0.pyd", data), ("1.pyd", data)])


def records(folder: Path, data: bytes) -> Path:
    return write(folder / "x.tfrecord", [example(x=texts(data))] * 2)


def recordio(folder: Path, data: bytes) -> Path:
    (folder / "x.rec").write_bytes(shards.recordio(struct.pack("<IfQQ", 0, 0, 0, 0) + data) * 2)
    return folder / "x.rec"


def extension(data: bytes) -> pa.Table:
    """What pyarrow once unpickled when it read a file: a type that was made in Python."""
    noted = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": data}
    return pa.table([pa.array([data] * 2)], schema=pa.schema([pa.field("x", pa.binary(), metadata=noted)]))


def arrow(folder: Path, data: bytes) -> Path:
    table = extension(data)
    with pa.ipc.new_file(str(folder / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    return folder / "x.arrow"


def parquet(folder: Path, data: bytes) -> Path:
    pq.write_table(extension(data), folder / "x.parquet")
    return folder / "x.parquet"


AS_BYTES = [hdf5, database, members, records, recordio, arrow, parquet]


@pytest.mark.parametrize("make", AS_BYTES, ids=lambda make: make.__name__)
def test_bytes_stay_bytes(make: Callable[[Path, bytes], Path], tmp_path: Path) -> None:
    data = pickle.dumps(Evil(tmp_path / "ran"))
    with warnings.catch_warnings(action="ignore"):
        columns: dict[str, Any] = {}
        for batch in ps.Loader(ps.read(make(tmp_path, data)).batch(2)):
            columns |= {name: column.to_pylist() for name, column in batch.items() if isinstance(column, pa.Array)}
    assert [data] * 2 in columns.values()
    assert not (tmp_path / "ran").exists()
    pickle.loads(data)
    assert (tmp_path / "ran").exists(), "the pickle does nothing, and proves nothing"
