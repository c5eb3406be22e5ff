"""LitData folders: its own, of items, rows and tokens, packed in every way; indexes and chunks that are damaged or hostile."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import penstock as ps
from penstock.batch.stack import materialize
from penstock.core.limits import Limits
from penstock.source.protocol import UnpackedSource
from support.alone import alone
from support.damage import load_all
from support.tfrecords import listed
from support.tries import tries

GOLDEN = Path(__file__).parent.parent / "golden" / "litdata"
PACKED = ("packed-batch", "packed-chunk", "packed-sample")


def wanted(name: str) -> list[Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def flat(item: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """flat({"a": {"b": [1, 2]}}) == {"a.b.0": 1, "a.b.1": 2}, as penstock names leaves; arrays stay."""
    found = {}
    for key, value in item.items():
        inner = dict(enumerate(value)) if key == "b" and isinstance(value, list) else value
        found |= flat(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}": inner}
    return found


@pytest.mark.parametrize("name", ["items", *PACKED])
def test_golden_items(name: str) -> None:
    columns = load_all(ps.read(str(GOLDEN / name)))
    rows = [flat(row) for row in wanted(name)]
    assert list(columns) == list(rows[0])
    for feature, column in columns.items():
        assert listed(column) == [row[feature] for row in rows], feature
    assert columns["numpy"].dtype == np.float32
    assert columns["flags"].dtype == np.bool_


def test_golden_pictures() -> None:
    columns = load_all(ps.read(str(GOLDEN / "pictures")))
    rows = wanted("pictures")
    assert columns["pil"].tolist() == [row["pil"] for row in rows]
    found = [np.asarray(Image.open(io.BytesIO(data))).transpose(2, 0, 1).tolist() for data in listed(columns["image"])]
    assert found == [row["image"] for row in rows]
    assert [len(row) for row in columns["jpegs"].to_pylist()] == [1 + number % 2 for number in range(4)]
    assert all(data[:3] == b"\xff\xd8\xff" for row in columns["jpegs"].to_pylist() for data in row)


def test_golden_pairs() -> None:
    columns = load_all(ps.read(str(GOLDEN / "pairs")))
    assert list(zip(columns["0"].tolist(), columns["1"].to_pylist(), strict=True)) == list(map(tuple, wanted("pairs")))


@pytest.mark.parametrize("name", ["rows", "rows-packed"])
def test_golden_rows(name: str) -> None:
    dataset = ps.read(str(GOLDEN / name))
    columns = materialize(load_all(dataset))
    rows = wanted("rows")[: dataset.source.manifest.samples]
    assert len(rows) in (300, 600)
    assert columns["id"].tolist() == [row["id"] for row in rows]
    assert columns["text"].to_pylist() == [row["text"] for row in rows]
    assert columns["data"].to_pylist() == [bytes.fromhex(row["data"]) for row in rows]
    assert columns["list"].to_pylist() == [row["list"] for row in rows]
    for first, count in ((255, 2), (0, 1), (250, 50), (299, 1)):
        part = dataset.source.load(first, count)
        assert part["id"].tolist() == list(range(first, first + count))
    with ps.Loader(ps.read(str(GOLDEN / name), columns=["id"]).shuffle(seed=1).batch(32)) as loader:
        assert sorted(number for batch in loader for number in batch["id"].tolist()) == list(range(len(rows)))


def test_packed_rows_count_as_they_are_unpacked() -> None:
    """Blocks of them are, and lie in two record batches meanwhile: a loader's memory is counted by that."""
    source: Any = ps.read(str(GOLDEN / "rows-packed")).source
    rows = source.load(0, source.manifest.samples)
    unpacked = sum(column.nbytes for column in rows.values())
    assert unpacked > source.manifest.shards.sizes.sum()
    assert 0.9 * unpacked < source.manifest.size_bytes < 1.1 * unpacked
    assert isinstance(source, UnpackedSource)


def test_golden_tokens() -> None:
    items = load_all(ps.read(str(GOLDEN / "tokens")))["tokens"]
    assert items.to_pylist() == [list(range(100 * n, 100 * n + 37 * (n % 3 + 1))) for n in range(12)]
    windows = load_all(ps.read(str(GOLDEN / "tokens"), window=16))["tokens"]
    assert windows.shape == (len(wanted("tokens")), 16)
    assert windows.tolist() == wanted("tokens")
    wide = ps.read(str(GOLDEN / "tokens"), window=16, columns={"x": ps.Column(feature="tokens", dtype="int64")})
    assert load_all(wide)["x"].dtype == np.int64
    assert ps.read(str(GOLDEN / "tokens"), window=8).source.manifest.digest != wide.source.manifest.digest
    for window in (0, -1, "16", True):
        with pytest.raises(ps.PlanError, match="window="):
            ps.read(str(GOLDEN / "tokens"), window=window)
    with pytest.raises(ps.SourceError, match="no chunk has 100000 tokens"):
        ps.read(str(GOLDEN / "tokens"), window=100_000)
    for name in ("items", "rows"):
        with pytest.raises(ps.PlanError, match="window=… is for chunks of tokens"):
            ps.read(str(GOLDEN / name), window=16)


def test_pickles_are_refused_and_can_be_left_out() -> None:
    with pytest.raises(ps.PlanError, match=r"column 'what': it is pickled, .*leave it out with columns=\['id'\]"):
        ps.read(str(GOLDEN / "pickled"))
    assert load_all(ps.read(str(GOLDEN / "pickled"), columns=["id"]))["id"].tolist() == [0, 1, 2]


def test_packed_chunks_are_the_same_samples_each_time() -> None:
    for name in PACKED:
        first, again = ps.read(str(GOLDEN / name)), ps.read(str(GOLDEN / name))
        assert first.source.manifest.digest == again.source.manifest.digest
        assert len(first.source.manifest.stored) == 3


# What is damaged


def copy(name: str, to: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / name, to / name))


def change(folder: Path, edit: Any) -> None:
    index = json.loads((folder / "index.json").read_text())
    edit(index)
    (folder / "index.json").write_text(json.dumps(index))


LEAF = {"type": None, "context": None, "children_spec": []}
LIST = {"type": "builtins.list", "context": "null"}


def nested(depth: int) -> str:
    return '[1, {"type": "builtins.list", "context": "null", "children_spec": [' * depth


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda index: index.update(chunks=[]), "no list of chunks"),
        (lambda index: index.update(config=None), "no config"),
        (lambda index: index["chunks"][0].update(chunk_size=1 << 40), "the table of its .* records takes"),
        (lambda index: index["chunks"][0].update(chunk_size=3), "it says it holds .* its index 3"),
        (lambda index: index["chunks"][0].update(chunk_bytes=3), "its index says 3"),
        (lambda index: index["chunks"][0].update(filename="../chunk"), r"'\.\./chunk', which is not there"),
        (lambda index: index["config"].update(data_format=["int"]), "1 leaves in data_format and 12 in data_spec"),
        (lambda index: index["config"].update(data_spec="[1, 2]"), "data_spec is no tree"),
        (lambda index: index["config"].update(data_spec=nested(3)), "data_spec is no tree"),
        (lambda index: index["config"].update(data_spec=nested(90_000)), "data_spec is no tree"),
        (lambda index: index["config"].update(encryption={"level": "chunk"}), "encrypted"),
        (lambda index: index["config"].update(item_loader="ParquetLoader"), "format='parquet'"),
        (lambda index: index["config"].update(compression="lz4"), "compression 'lz4' is not known"),
        (lambda index: index["config"].update(compression="zstd", compression_level="x"), "'x' is not known"),
        (lambda index: index["config"].update(compression="zstd"), "compressed data that cannot be decompressed"),
    ],
)
def test_damaged_indexes(tmp_path: Path, edit: Any, found: str) -> None:
    folder = copy("items", tmp_path)
    change(folder, edit)
    with pytest.raises(ps.PenstockError, match=found):
        ps.read(str(folder))


def test_serializers_that_are_not_read(tmp_path: Path) -> None:
    folder = copy("items", tmp_path)
    for name, found in {
        "graph": "graphs hold pickles",
        "json": "compact form of nested values",
        "what": "its serializer 'what' is not known",
        "no_header_numpy:14": "dtype number '14'",
        "no_header_tensor:": "dtype number ''",
    }.items():
        change(folder, lambda index, name=name: index["config"]["data_format"].__setitem__(3, name))
        with pytest.raises(ps.PlanError, match=rf"column 'text': .*{found}"):
            ps.read(str(folder))
        assert load_all(ps.read(str(folder), columns=["id"]))["id"].tolist() == list(range(24))


def test_missing_files(tmp_path: Path) -> None:
    folder = copy("items", tmp_path)
    with pytest.raises(ps.SourceError, match=r"read through the index\.json beside them"):
        ps.read(f"{folder}/*.bin", format="litdata")
    (folder / "chunk-0-1.bin").unlink()
    with pytest.raises(ps.SourceError, match=r"names the chunk 'chunk-0-1\.bin', which is not there"):
        ps.read(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKED)
def test_packed_chunks_that_are_damaged(name: str, tmp_path: Path) -> None:
    folder = copy(name, tmp_path)
    victim = min(folder.glob("chunk-0-0.*"))
    whole, rows = victim.read_bytes(), load_all(ps.read(str(GOLDEN / name)))["id"].tolist()
    rng = np.random.default_rng(1)
    told = 0
    count = tries(2_500)
    for version in range(count):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        victim.write_bytes(content)
        os.utime(victim, ns=(version, version))
        try:
            assert len(load_all(ps.read(str(folder)))["id"]) == len(rows)
        except ps.PenstockError:
            told += 1
    assert told > count // 5
    for size in (0, 4, 20, 60, len(whole) // 2, len(whole) - 1):
        victim.write_bytes(whole[:size])
        change(folder, lambda index, size=size: "zstd" in victim.name or index["chunks"][0].update(chunk_bytes=size))
        with pytest.raises(ps.PenstockError, match=r"chunk-0-0\."):
            ps.read(str(folder))
    assert list(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.tmp")) == []


def most_addresses() -> int:
    """The most KiB of addresses that this process had so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmPeak"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the most addresses are told on Linux")
@alone
def test_an_item_takes_addresses_by_its_size_and_not_by_the_limit() -> None:
    # A gigabyte was asked for with every item, and the allocator kept them: no process that had read some dozens could fork any more.
    load_all(ps.read(str(GOLDEN / "items")))
    before = most_addresses()
    load_all(ps.read(str(GOLDEN / "packed-sample")))
    assert most_addresses() - before < 1 << 20


@pytest.mark.parametrize("name", PACKED)
def test_bombs_are_stopped(name: str, tmp_path: Path) -> None:
    folder = copy(name, tmp_path)
    with pytest.raises(ps.DataError, match=r"compressed bytes expand to more than 1,000; raise Limits\.unpacked_bytes"):
        ps.read(str(folder), limits=Limits(unpacked_bytes=1_000))


def test_rows_of_another_schema(tmp_path: Path) -> None:
    folder = copy("rows", tmp_path)
    other = copy("rows-packed", tmp_path)
    name = min(other.glob("chunk-0-0.*"))
    change(
        folder,
        lambda index: index["chunks"].append(
            {**index["chunks"][0], "chunk_size": 7, "filename": "chunk-9.bin", "chunk_bytes": name.stat().st_size}
        ),
    )
    shutil.copy(name, folder / "chunk-9.bin")
    with pytest.raises(ps.DataError, match=r"chunk-9\.bin, record batch 0: \d+ rows where 7 belong"):
        list(ps.Loader(ps.read(str(folder)).batch(607)))
