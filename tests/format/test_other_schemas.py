"""A shard whose records have another schema than those of the first: told with its name, in every format that has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from support import shards, tars
from support.files import through
from support.tfrecords import example, floats, integers, write


def tfrecord(path: Path, kind: str) -> None:
    made = {"same": {"x": integers(1)}, "type": {"x": floats(1)}, "lacks": {"y": integers(1)}}
    write(path, [example(**made[kind])] * 3)


def mds(path: Path, kind: str) -> None:
    path.mkdir()
    columns = {"same": {"x": "str_int"}, "type": {"x": "str"}, "lacks": {"y": "str_int"}}[kind]
    shards.mds(path, columns, [{next(iter(columns)): b"1"}] * 3)


def tar(path: Path, kind: str) -> None:
    member = {"same": ("cls", b"1"), "type": ("cls", b"one"), "lacks": ("txt", b"1")}[kind]
    tars.write(path, [(f"{number}.{member[0]}", member[1]) for number in range(3)])


def table(kind: str) -> pa.Table:
    made = {"same": {"x": [1, 2, 3]}, "type": {"x": ["a", "b", "c"]}, "lacks": {"y": [1, 2, 3]}}
    return pa.table(made[kind])


def parquet(path: Path, kind: str) -> None:
    pq.write_table(table(kind), path)


def arrow(path: Path, kind: str) -> None:
    with pa.ipc.new_file(str(path), table(kind).schema) as writer:
        writer.write_table(table(kind))


def jsonl(path: Path, kind: str) -> None:
    line = {"same": {"x": 1}, "type": {"x": "one"}, "lacks": {"y": 1}}[kind]
    path.write_text((json.dumps(line) + "\n") * 3)


def csv(path: Path, kind: str) -> None:
    path.write_text("x,z\n" + {"same": "1,2\n", "type": "one,2\n", "lacks": "1\n"}[kind] * 3)


def npy(path: Path, kind: str) -> None:
    np.save(path, {"same": np.zeros((3, 2)), "type": np.zeros((3, 2), "i4"), "lacks": np.zeros((3, 4))}[kind])


def npz(path: Path, kind: str) -> None:
    np.savez(path, **{"same": {"x": np.zeros(3)}, "type": {"x": np.zeros(3, "i4")}, "lacks": {"y": np.zeros(3)}}[kind])


def hdf5(path: Path, kind: str) -> None:
    with h5py.File(path, "w") as file:
        file["y" if kind == "lacks" else "x"] = np.zeros(3, "i4" if kind == "type" else "f8")


MAKERS: dict[str, tuple[Callable[[Path, str], None], str]] = {
    "tfrecord": (tfrecord, ".tfrecord"),
    "mds": (mds, ""),
    "webdataset": (tar, ".tar"),
    "parquet": (parquet, ".parquet"),
    "arrow": (arrow, ".arrow"),
    "jsonl": (jsonl, ".jsonl"),
    "csv": (csv, ".csv"),
    "npy": (npy, ".npy"),
    "npz": (npz, ".npz"),
    "hdf5": (hdf5, ".h5"),
}


@pytest.mark.parametrize("kind", ["type", "lacks"])
@pytest.mark.parametrize("name", MAKERS)
def test_another_schema_is_told_with_its_shard(name: str, kind: str, tmp_path: Path) -> None:
    make, suffix = MAKERS[name]
    make(tmp_path / f"0{suffix}", "same")
    make(tmp_path / f"1{suffix}", kind)
    with pytest.raises(ps.PenstockError, match=rf"{tmp_path}/1"):
        through(ps.read(tmp_path))


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_schema_is_read(name: str, tmp_path: Path) -> None:
    make, suffix = MAKERS[name]
    for number in range(2):
        make(tmp_path / f"{number}{suffix}", "same")
    rows = through(ps.read(tmp_path))
    assert {len(values) for values in rows.values()} == {6}
