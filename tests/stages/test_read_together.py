"""Datasets that only the order works on are read as one: the same rows, by one reader, and errors that name the file."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.files.byte_ranges import FileRanges
from penstock.lower import reading
from penstock.source.checks.build import build_checksums
from penstock.stages.read.records import WindowedRecords
from support import tfrecords
from support.cases import MemoryStorage
from support.promises import assert_same, keep
from support.seams import lowered_of

pytestmark = pytest.mark.slow

ROWS = 300


def _parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=70)


def _arrow(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)


def _jsonl(path: Path, table: pa.Table) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def _tfrecord(path: Path, table: pa.Table) -> None:
    tfrecords.write(
        path,
        [
            tfrecords.example(id=tfrecords.integers(row["id"]), name=tfrecords.texts(row["name"].encode()))
            for row in table.to_pylist()
        ],
    )


def _rows(table: pa.Table) -> np.ndarray:
    return np.array([(row["id"], row["name"]) for row in table.to_pylist()], dtype=[("id", "i8"), ("name", "U16")])


def _npy(path: Path, table: pa.Table) -> None:
    np.save(path, _rows(table))


def _npz(path: Path, table: pa.Table) -> None:
    rows = _rows(table)
    np.savez(path, id=rows["id"], name=rows["name"])


def _tar(path: Path, table: pa.Table) -> None:
    with tarfile.open(path, "w") as file:
        for row in table.to_pylist():
            for kind, content in ("id", str(row["id"])), ("name", row["name"]):
                member = tarfile.TarInfo(f"{row['id']:05}.{kind}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content.encode()))


WRITE: dict[str, Callable[[Path, pa.Table], None]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "jsonl": _jsonl,
    "tfrecord": _tfrecord,
    "npy": _npy,
    "npz": _npz,
    "tar": _tar,
}
COLUMNS: dict[str, Any] = {"tar": {"id": ps.Column(feature="id", dtype="int64"), "name": "name"}}


def datasets(folder: Path, kind: str, number: int = 3) -> list[ps.Dataset]:
    """Each has two files, and every row an id of its own."""
    found = []
    for one in range(number):
        files = [folder / f"{one}-{part}.{kind}" for part in range(2)]
        for part, file in enumerate(files):
            ids = np.arange(ROWS) + (2 * one + part) * ROWS
            WRITE[kind](file, pa.table({"id": ids, "name": [f"row {row}" * (row % 3) for row in ids]}))
        found.append(ps.read(files, columns=COLUMNS.get(kind)))
    return found


def plans(parts: list[ps.Dataset]) -> dict[str, ps.Dataset]:
    """Orders of several datasets."""
    one, *others = parts
    weights = [3.0] + [1.0] * len(others)
    return {
        "concat": ps.concat(parts),
        "shuffled concat": ps.concat(parts).shuffle(seed=1, block_rows=20),
        "mix": ps.mix(parts, weights=weights).shuffle(seed=1, block_rows=20),
        "until all had their rows": ps.mix(parts, weights=weights, stop="all_exhausted").shuffle(seed=1, block_rows=20),
        "as many rows": ps.mix(parts, weights=weights, rows=320).shuffle(seed=1, block_rows=7),
        "as they lie": ps.mix(parts),
        "nested": ps.mix([ps.mix([one, *others[1:]]), others[0].repeat(2)]).shuffle(seed=2, block_rows=20),
        "chosen": ps.mix([one.filter(ps.col("id") % 3 == 0), *others]).shuffle(seed=2, block_rows=20),
    }


def batches(data: ps.Dataset, rank: int) -> list[dict[str, Any]]:
    with ps.Loader(data.batch(32, lanes=8, drop_last=True), rank=rank, world_size=2, epochs=2) as loader:
        return [keep(batch) for _ in range(2) for batch in loader]


@pytest.mark.parametrize("kind", WRITE)
def test_the_same_batches_as_read_one_by_one(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = datasets(tmp_path, kind)
    together = {name: batches(data, rank=1) for name, data in plans(parts).items()}
    with monkeypatch.context() as alone:
        alone.setattr(reading, "read_together", lambda *_: None)
        for name, data in plans(parts).items():
            assert together[name], name
            for one, other in zip(together[name], batches(data, rank=1), strict=True):
                assert_same(one, other, name)


@pytest.mark.parametrize("kind", WRITE)
def test_one_reader_and_nothing_to_merge(kind: str, tmp_path: Path) -> None:
    one, other, third = datasets(tmp_path, kind)
    data = ps.mix([one, ps.concat([other, third])]).shuffle(seed=1, block_rows=20)
    with ps.Loader(data.batch(32), rank=0, world_size=1) as loader:
        next(iter(loader))
        assert not {"mix", "concat"} & {stage.name for stage in lowered_of(loader).stages}


def test_a_transform_below_the_mix_keeps_its_dataset_apart(tmp_path: Path) -> None:
    one, other, third = datasets(tmp_path, "arrow")
    mapped = one.map(lambda batch: {"id": -batch["id"], "name": batch["name"]})
    data = ps.mix([mapped, ps.concat([other, third])]).shuffle(seed=1)
    with ps.Loader(data.batch(60, lanes=4), rank=0, world_size=1, epochs=1) as loader:
        names = [stage.name for stage in lowered_of(loader).stages]
        ids = np.concatenate([batch["id"] for batch in loader])
    assert "mix" in names
    assert "concat" not in names
    assert {-1, -ROWS} <= set(ids.tolist())
    assert ids.max() > 2 * ROWS


def test_a_bad_record_is_named_in_its_file(tmp_path: Path) -> None:
    parts = datasets(tmp_path, "jsonl")
    file = tmp_path / "2-1.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    lines[41] = lines[41].replace('"id"', '"ix"')
    file.write_text("".join(lines))
    parts[2] = ps.read([tmp_path / "2-0.jsonl", file])
    data = ps.mix(parts).shuffle(seed=1, block_rows=20)
    batched = data.batch(60, lanes=4)
    with (
        ps.Loader(batched, rank=0, world_size=1, epochs=1) as loader,
        pytest.raises(ps.DataError, match=r"2-1\.jsonl, record 41"),
    ):
        list(loader)


def test_every_byte_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of several datasets are opened together, and each once an epoch."""
    parts, opened = datasets(tmp_path, "tfrecord"), []
    make = WindowedRecords._open_together

    def counted(reader: WindowedRecords, edges: list[int], ranges: FileRanges) -> object:
        opened.append(int(ranges.length[edges[0] : edges[-1]].sum()))
        return make(reader, edges, ranges)

    monkeypatch.setattr(WindowedRecords, "_open_together", counted)
    data = ps.concat(parts).shuffle(seed=1, block_rows=20)
    with ps.Loader(data.batch(60, lanes=4), rank=0, world_size=1, epochs=1) as loader:
        assert sum(len(batch["id"]) for batch in loader) == 6 * ROWS
    assert sum(opened) == sum(file.stat().st_size for file in tmp_path.glob("*.tfrecord"))


def _folders(folder: Path) -> list[ps.Dataset]:
    for one in range(3):
        for row in range(40):
            file = folder / str(one) / f"class {row % 3}" / f"{row}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"\xff\xd8\xff" + f"{one} {row}".encode())
    columns = ["image", "label", "path"]
    return [ps.read(folder / str(one), format="image_folder", columns=columns) for one in range(3)]


def _tokens(folder: Path) -> list[ps.Dataset]:
    for one in range(3):
        (np.arange(400) + 400 * one).astype("<u2").tofile(folder / f"{one}.bin")
    return [ps.read(folder / f"{one}.bin", format="tokens", dtype="uint16", window=10, stride=7) for one in range(3)]


def _packed_lines(folder: Path) -> list[ps.Dataset]:
    for one in range(3):
        (folder / f"{one}.txt.gz").write_bytes(gzip.compress(b"".join(b"%d %d\n" % (one, row) for row in range(100))))
    return [ps.read(folder / f"{one}.txt.gz") for one in range(3)]


def _stored_lines(_: Path) -> list[ps.Dataset]:
    files = {f"{one}.txt": b"".join(b"%d %d\n" % (one, row) for row in range(100)) for one in range(3)}
    return [ps.read(name, storage=MemoryStorage(files)) for name in files]


OTHERS: dict[str, Callable[[Path], list[ps.Dataset]]] = {
    "folders": _folders,
    "tokens": _tokens,
    "packed lines": _packed_lines,
    "stored lines": _stored_lines,
}


@pytest.mark.parametrize("shuffled", [{}, {"mode": "global"}])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_sources_as_one_by_one(
    kind: str, shuffled: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = OTHERS[kind](tmp_path)
    data = ps.mix(parts, weights=[2, 1, 1]).shuffle(seed=1, **shuffled).batch(12, lanes=4)

    def found() -> tuple[list[str], list[dict[str, Any]]]:
        with ps.Loader(data, rank=0, world_size=1, epochs=1) as loader:
            return [stage.name for stage in lowered_of(loader).stages], [keep(batch) for batch in loader]

    stages, together = found()
    monkeypatch.setattr(reading, "read_together", lambda *_: None)
    stages_alone, alone = found()
    assert ("mix" in stages, "mix" in stages_alone) == (False, True)
    assert together
    for one, other in zip(together, alone, strict=True):
        assert_same(one, other, kind)


def test_files_with_checksums_are_checked(tmp_path: Path) -> None:
    def opened() -> list[ps.Dataset]:
        return [ps.read(tmp_path / f"{one}.bin", format="tokens", dtype="uint16", window=1_000) for one in range(3)]

    for one in range(3):
        (np.arange(100_000) + one).astype("<u2").tofile(tmp_path / f"{one}.bin")
    for dataset in opened():
        build_checksums(dataset.source.manifest, dataset.read_ranges)
    file = tmp_path / "1.bin"
    listed, content = file.stat(), bytearray(file.read_bytes())
    content[-70] ^= 1  # far from what is looked at when the file is opened
    file.write_bytes(content)
    os.utime(file, ns=(listed.st_atime_ns, listed.st_mtime_ns))
    plan = ps.mix(opened()).shuffle(seed=1).batch(12, lanes=4)
    with ps.Loader(plan) as loader, pytest.raises(ps.DataError, match=r"1\.bin.*checksum"):
        list(loader)


def test_folders_without_labels_may_have_any_names(tmp_path: Path) -> None:
    for one in range(2):
        (tmp_path / f"{one}" / f"class {one}").mkdir(parents=True)
        (tmp_path / f"{one}" / f"class {one}" / "x.jpg").write_bytes(b"\xff\xd8\xff%d" % one)
    with pytest.raises(ps.PlanError, match="the class folders differ"):
        ps.mix([ps.read(tmp_path / f"{one}") for one in range(2)])
    (batch,) = ps.Loader(
        ps.mix([ps.read(tmp_path / f"{one}", columns=["image"]) for one in range(2)]).batch(2, lanes=1)
    )
    assert sorted(batch["image"].to_pylist()) == [b"\xff\xd8\xff0", b"\xff\xd8\xff1"]
