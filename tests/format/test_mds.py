"""MDS folders: MosaicML's own, in every encoding and packing; indexes and shards that are damaged or hostile."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import penstock as ps
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.limits import Limits
from penstock.core.verbs.options import Options
from penstock.dataset import of_source
from penstock.format import open_source
from penstock.storage import adopt_storage
from penstock.storage.storage_ranges import StorageRanges
from support.cases import MemoryStorage
from support.damage import load_all
from support.shards import mds
from support.tfrecords import listed

GOLDEN = Path(__file__).parent.parent / "golden" / "mds"


def wanted(name: str) -> list[dict[str, Any]]:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["numbers", "arrays", "shards"])
def test_golden_numbers(name: str) -> None:
    columns = load_all(ps.read(str(GOLDEN / name)))
    rows = wanted(name)
    assert list(columns) == list(rows[0])
    for feature, column in columns.items():
        assert listed(column) == [row[feature] for row in rows], feature


def test_golden_texts() -> None:
    columns = load_all(ps.read(str(GOLDEN / "texts")))
    rows = wanted("texts")
    assert listed(columns["b"]) == [bytes.fromhex(row["b"]) for row in rows]
    assert columns["d"].tolist() == [float(row["d"]) for row in rows]
    assert columns["f"].tolist() == [row["f"] for row in rows]
    assert columns["i"].tolist() == [row["i"] for row in rows]
    assert [json.loads(text) for text in columns["j"].to_pylist()] == [row["j"] for row in rows]
    assert columns["s"].to_pylist() == [row["s"] for row in rows]
    exact = load_all(ps.read(str(GOLDEN / "texts"), columns={"d": ps.Column(feature="d", dtype="string")}))
    assert exact["d"].to_pylist() == [row["d"] for row in rows]


def test_golden_pictures() -> None:
    columns = load_all(ps.read(str(GOLDEN / "pictures")))
    rows = wanted("pictures")
    assert columns["pil"].tolist() == [row["pil"]["pixels"] for row in rows]
    for feature in ("jpeg", "png"):
        assert [pixels(data) for data in listed(columns[feature])] == [row[feature]["pixels"] for row in rows]
    for feature in ("array", "jpegs", "pngs"):
        found = [[pixels(data) for data in row] for row in columns[feature].to_pylist()]
        assert found == [[picture["pixels"] for picture in row[feature]] for row in rows]
    raw = columns["pils"].to_pylist()[0][0]
    assert raw[:15] == struct.pack("<III", 2, 2, 3) + b"RGB"


def pixels(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data))).tolist()


@pytest.mark.parametrize("packing", ["br", "bz2", "gz", "snappy", "zstd"])
def test_golden_packed(packing: str) -> None:
    dataset = ps.read(str(GOLDEN / f"packed-{packing}"))
    plain = load_all(ps.read(str(GOLDEN / "shards")))
    for _ in range(2):
        columns = load_all(dataset)
        assert {name: listed(column) for name, column in columns.items()} == {
            name: listed(column) for name, column in plain.items()
        }
        again = ps.read(str(GOLDEN / f"packed-{packing}"))
        assert again.source.manifest.digest == dataset.source.manifest.digest
        dataset = again


def test_pickles_are_refused_and_can_be_left_out() -> None:
    with pytest.raises(ps.PlanError, match=r"column 'what': it is pickled, .*leave it out with columns=\['id'\]"):
        ps.read(str(GOLDEN / "pickled"))
    with pytest.raises(ps.PlanError, match="it is pickled"):
        ps.read(str(GOLDEN / "pickled"), columns=["what"])
    assert load_all(ps.read(str(GOLDEN / "pickled"), columns=["id"]))["id"].tolist() == [0, 1]


@pytest.mark.parametrize("where", ["mds/shards", "litdata/items", "litdata/rows", "litdata/tokens"])
def test_files_that_are_not_local(where: str) -> None:
    files = {f"s3://bucket/{path.name}": path.read_bytes() for path in (GOLDEN.parent / where).iterdir()}
    storage = MemoryStorage(files)
    source = open_source("s3://bucket", storage.list("s3://bucket"), ByteRanges(storage.read), Options())
    found = load_all(of_source(source, "s3://bucket", None, ByteRanges(storage.read)))
    local = load_all(ps.read(str(GOLDEN.parent / where)))
    assert {name: listed(column) for name, column in found.items()} == {
        name: listed(column) for name, column in local.items()
    }


def test_packed_shards_that_are_not_local() -> None:
    files = {f"s3://bucket/{path.name}": path.read_bytes() for path in (GOLDEN / "packed-gz").iterdir()}
    storage = MemoryStorage(files)
    read = StorageRanges(adopt_storage(storage))
    source = open_source("s3://bucket", storage.list("s3://bucket"), read, Options())
    found = load_all(of_source(source, "s3://bucket", None, read))
    local = load_all(ps.read(str(GOLDEN / "packed-gz")))
    assert {name: listed(column) for name, column in found.items()} == {
        name: listed(column) for name, column in local.items()
    }


def test_through_the_engine() -> None:
    columns = {"n": "id", "t": ps.Column(feature="text", dtype="bytes")}
    with ps.Loader(ps.read(str(GOLDEN / "packed-gz"), columns=columns).shuffle(seed=1).batch(8)) as loader:
        rows = [pair for batch in loader for pair in zip(batch["n"].tolist(), batch["t"].to_pylist(), strict=True)]
    assert sorted(rows) == [(number, f"text {number}".encode()) for number in range(40)]


def test_ragged_by_wish_and_arrays_of_another_shape() -> None:
    columns = {"x": ps.Column(feature="typed", shape=(None, 1, 2), dtype="float32")}
    found = load_all(ps.read(str(GOLDEN / "arrays"), columns=columns))["x"]
    assert found.to_pylist() == [row["typed"] for row in wanted("arrays")]
    with pytest.raises(ps.PlanError, match="cannot have the shape"):
        ps.read(str(GOLDEN / "arrays"), columns={"x": ps.Column(feature="typed", shape=(None, 7))})


def test_folders_of_folders(tmp_path: Path) -> None:
    for split in ("a", "b"):
        shutil.copytree(GOLDEN / "shards", tmp_path / split)
    assert load_all(ps.read(str(tmp_path)))["id"].tolist() == [*range(40), *range(40)]
    merged = json.loads((tmp_path / "a" / "index.json").read_text())
    for shard in merged["shards"]:
        shard["raw_data"]["basename"] = "a/" + shard["raw_data"]["basename"]
    (tmp_path / "index.json").write_text(json.dumps(merged))
    assert load_all(ps.read(str(tmp_path)))["id"].tolist() == [*range(40)]


def test_a_record_that_is_not_as_the_first(tmp_path: Path) -> None:
    rows = [{"x": b"\x08" + bytes([1 << 2, 3]) + b"abc"}] * 150 + [{"x": b"\x08" + bytes([1 << 2, 2]) + b"ab"}]
    mds(tmp_path, {"x": "ndarray"}, rows)
    with pytest.raises(ps.DataError, match=r"shard\.00000\.mds, record 150, .*the header .* where the first records"):
        list(ps.Loader(ps.read(str(tmp_path)).batch(151)))
    ragged = ps.read(str(tmp_path), columns={"x": ps.Column(feature="x", shape=(None,))})
    assert load_all(ragged)["x"].to_pylist()[-1] == [97, 98]


def test_text_and_numbers_that_are_none(tmp_path: Path) -> None:
    mds(
        tmp_path,
        {"s": "str", "i": "str_int"},
        [{"s": b"a", "i": b"7"}, {"s": b"\xff", "i": b"9"}, {"s": b"", "i": b"1e3"}],
    )
    with pytest.raises(ps.DataError, match=r"record 1, .*b'\\xff' is not UTF-8; .*dtype='bytes'"):
        list(ps.Loader(ps.read(str(tmp_path), columns=["s"]).batch(3)))
    with pytest.raises(ps.DataError, match=r"record 2, .*'1e3' is no int64; .*'string' takes any"):
        list(ps.Loader(ps.read(str(tmp_path), columns=["i"]).batch(3)))
    kept = ps.read(str(tmp_path), columns={"s": ps.Column(feature="s", dtype="bytes")})
    assert listed(load_all(kept)["s"]) == [b"a", b"\xff", b""]


# What is damaged


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "shards", tmp_path / "mds"))


def change(folder: Path, edit: Any) -> None:
    index = json.loads((folder / "index.json").read_text())
    edit(index)
    (folder / "index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda index: index.update(shards=[]), "no list of shards"),
        (lambda index: index.update(shards={}), "no list of shards"),
        (lambda index: index["shards"][0].update(samples=1 << 61), "'samples' is 2305843009213693952"),
        (lambda index: index["shards"][0].update(samples=1 << 40), "the table of its .* records takes"),
        (lambda index: index["shards"][0].update(samples=-1), "'samples' is -1"),
        (lambda index: index["shards"][0].update(samples=True), "'samples' is True where a number belongs"),
        (lambda index: index["shards"][0].update(samples=7), "it says it holds .* its index 7"),
        (lambda index: index["shards"][0].update(format="json"), "format 'json'.*format='jsonl'"),
        (lambda index: index["shards"][1].update(column_names=["id", "t"]), "where the first shard has"),
        (lambda index: [shard.update(column_sizes=[4, None]) for shard in index["shards"]], "has size 4, which is 8"),
        (lambda index: [shard.update(column_sizes=[8]) for shard in index["shards"]], "do not belong together"),
        (lambda index: [shard.update(column_encodings=["int", "x"]) for shard in index["shards"]], "'x' is not known"),
        (lambda index: index["shards"][0].update(raw_data=None), "a shard without raw_data"),
        (lambda index: index["shards"][0]["raw_data"].update(basename="../a"), r"'../a', which is not there"),
        (lambda index: index["shards"][0]["raw_data"].update(bytes=17), "its index says 17"),
    ],
)
def test_damaged_indexes(folder: Path, edit: Any, found: str) -> None:
    change(folder, edit)
    with pytest.raises(ps.PenstockError, match=found):
        ps.read(str(folder))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"[" * 100_000, b"\xff\xfe", b'{"shards": [1' + b"0" * 10_000 + b"]}"]
)
def test_indexes_that_are_none(folder: Path, text: bytes) -> None:
    (folder / "index.json").write_bytes(text)
    with pytest.raises(ps.DataError, match=r"index\.json: .*the index is damaged"):
        ps.read(str(folder))


def test_missing_files(folder: Path) -> None:
    with pytest.raises(ps.SourceError, match=r"read through the index\.json beside them"):
        ps.read(f"{folder}/*.mds")
    (folder / "shard.00001.mds").unlink()
    with pytest.raises(ps.SourceError, match=r"names the shard 'shard\.00001\.mds', which is not there"):
        ps.read(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["br", "bz2", "gz", "snappy", "zstd"])
def test_packed_shards_that_are_damaged(packing: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / f"packed-{packing}", tmp_path / "mds"))
    victim = next(folder.glob("shard.00000.mds.*"))
    whole = victim.read_bytes()
    rng = np.random.default_rng(1)
    for version in range(60):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        victim.write_bytes(content)
        os.utime(victim, ns=(version, version))
        with pytest.raises(ps.DataError, match=r"shard\.00000\.mds\..*: its sha1 is .*, its index says"):
            ps.read(str(folder))
    change(
        folder, lambda index: [shard.update(zip_data=shard["zip_data"] | {"hashes": {}}) for shard in index["shards"]]
    )
    for version in range(60):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        victim.write_bytes(content)
        os.utime(victim, ns=(1000 + version, 1000 + version))
        try:
            columns = load_all(ps.read(str(folder)))
        except ps.DataError:
            continue
        assert columns["id"].tolist() == list(range(40)), "damage that the packing does not mind"
    assert list(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.tmp")) == []


@pytest.mark.parametrize("packing", ["br", "bz2", "gz", "snappy", "zstd"])
def test_bombs_are_stopped(packing: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / f"packed-{packing}", tmp_path / "mds"))
    with pytest.raises(ps.DataError, match=r"compressed bytes expand to more than 100; raise Limits\.unpacked_bytes"):
        ps.read(str(folder), limits=Limits(unpacked_bytes=100))


def test_a_shard_that_says_it_is_larger_than_it_unpacks_to(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "packed-zstd", tmp_path / "mds"))
    for stated in (10, 100_000, 1 << 40):
        change(folder, lambda index, stated=stated: index["shards"][0]["raw_data"].update(bytes=stated, hashes={}))
        with pytest.raises(ps.DataError, match=r"it decompresses to|compressed bytes expand to more than"):
            ps.read(str(folder))
