"""RecordIO files: MXNet's own, with one label, several and none; parts, .idx files, and what cannot be read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support.damage import load_all
from support.shards import MAGIC, part
from support.tfrecords import listed

GOLDEN = Path(__file__).parent.parent / "golden" / "recordio"


def wanted(name: str, feature: str) -> list:
    rows = json.loads((GOLDEN / f"{name}.json").read_text())
    return [bytes.fromhex(row["data"]) if feature == "data" else row[feature] for row in rows]


def headed(data: bytes, label: float = 0.0, number: int = 0) -> bytes:
    return struct.pack("<IfQQ", 0, label, number, 0) + data


@pytest.mark.parametrize("name", ["scalar", "vector", "ragged"])
def test_golden(name: str) -> None:
    columns = load_all(ps.read(str(GOLDEN / f"{name}.rec")))
    assert list(columns) == ["data", "label", "id", "id2"]
    for feature, column in columns.items():
        found, expected = listed(column), wanted(name, feature)
        if feature == "label" and name != "scalar":
            expected = [label if isinstance(label, list) else [label] for label in expected]
        if feature == "label":
            expected = json.loads(json.dumps(expected), parse_float=lambda text: float(np.float32(text)))
        assert found == expected, feature


def test_golden_plain() -> None:
    columns = load_all(ps.read(str(GOLDEN / "plain.rec"), header=False))
    assert list(columns) == ["data"]
    assert listed(columns["data"]) == wanted("plain", "data")
    with pytest.raises(ps.DataError, match=r"plain\.rec, record 0, .*header=False"):
        ps.read(str(GOLDEN / "plain.rec"))
    with pytest.raises(ps.PlanError, match="header='no'; it is True"):
        ps.read(str(GOLDEN / "plain.rec"), header="no")


def test_through_the_engine_several_files() -> None:
    files = [str(GOLDEN / name) for name in ("scalar.rec", "scalar.rec")]
    with ps.Loader(ps.read(files, columns={"bytes": "data", "n": "id2"}).shuffle(seed=1).batch(8)) as loader:
        rows = [pair for batch in loader for pair in zip(batch["n"].tolist(), batch["bytes"].to_pylist(), strict=True)]
    once = list(zip(wanted("scalar", "id2"), wanted("scalar", "data"), strict=True))
    assert sorted(rows) == sorted(once * 2)


def test_records_of_several_parts_among_others(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(part(b"one") + part(b"four", 1) + part(b"", 2) + part(b"x", 3) + part(b""))
    columns = load_all(ps.read(str(path), header=False))
    assert listed(columns["data"]) == [b"one", b"four" + MAGIC + MAGIC + b"x", b""]


def test_labels_as_they_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(b"".join(part(headed(b"x", number, number)) for number in range(4)))
    columns = {"label": ps.Column(feature="label", dtype="int64")}
    assert load_all(ps.read(str(path), columns=columns))["label"].tolist() == [0, 1, 2, 3]
    path.write_bytes(b"".join(part(headed(b"x", number / 2, number)) for number in range(4)))
    with pytest.raises(ps.DataError, match=r"record 1, .*the value 0\.5 does not fit int64"):
        next(iter(ps.Loader(ps.read(str(path), columns=columns).batch(4))))
    ragged = {"label": ps.Column(feature="label", shape=(None,))}
    found = load_all(ps.read(str(GOLDEN / "vector.rec"), columns=ragged))["label"]
    assert found.type == pa.large_list(pa.float32())
    assert found.to_pylist() == wanted("vector", "label")
    with pytest.raises(ps.PlanError, match=r"no column 'lable'; there are data, label, id, id2; did you mean 'label'"):
        ps.read(str(path), columns=["lable"])
    with pytest.raises(ps.PlanError, match="float32 cannot become string"):
        ps.read(str(path), columns={"label": ps.Column(feature="label", dtype="string")})


def test_a_record_with_other_labels_than_the_first(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    others = struct.pack("<IfQQ3f", 3, 0, 7, 0, 1, 2, 3)
    path.write_bytes(b"".join([part(headed(b"x"))] * 150) + part(others + b"x"))
    with pytest.raises(ps.DataError, match=r"a\.rec, record 150, .*12 bytes of values where the column takes 4"):
        list(ps.Loader(ps.read(str(path)).batch(151)))


def write_indexed(folder: Path, records: int = 300) -> tuple[Path, Path, list[int]]:
    """A file of records of several lengths, its .idx in another order, and where they begin."""
    parts = [part(headed(bytes(number % 50), number, number)) for number in range(records)]
    starts = np.cumsum([0, *map(len, parts[:-1])]).tolist()
    path, index = folder / "a.rec", folder / "a.idx"
    path.write_bytes(b"".join(parts))
    turn = np.random.default_rng(1).permutation(records).tolist()
    index.write_text("".join(f"{number}\t{starts[number]}\n" for number in turn))
    return path, index, starts


def test_positions_give_the_same_records(tmp_path: Path) -> None:
    path, index, starts = write_indexed(tmp_path)
    dataset = ps.read(str(path))
    assert dataset.source.manifest.offset.tolist() == starts
    assert load_all(dataset)["id"].tolist() == list(range(300))
    index.unlink()
    alone = ps.read(str(path))
    assert alone.source.manifest.digest == dataset.source.manifest.digest


@pytest.mark.parametrize("kind", ["other", "some", "odd", "beyond", "text", "empty", "many", "twice"])
def test_positions_that_disagree_are_left_out(tmp_path: Path, kind: str) -> None:
    path, index, starts = write_indexed(tmp_path)
    lines = index.read_text().splitlines(keepends=True)
    contents = {
        "other": "".join(f"{number}\t{40 * number}\n" for number in range(200)),
        "some": "".join(lines[::2]),
        "odd": "".join(lines) + "301\t3\n",
        "beyond": "".join(lines) + f"301\t{1 << 62}\n",
        "text": "these are no positions\n",
        "empty": "",
        "many": "".join(lines) + "\n" * 10_000_000,
        "twice": "".join(lines * 2),
    }
    index.write_text(contents[kind])
    assert ps.read(str(path)).source.manifest.offset.tolist() == starts


def test_one_wrong_position_is_told_when_it_is_read(tmp_path: Path) -> None:
    path, index, starts = write_indexed(tmp_path, 5_000)
    wrong = [start for number, start in enumerate(starts) if number != 1_234]
    index.write_text("".join(f"{number}\t{start}\n" for number, start in enumerate(wrong)))
    dataset = ps.read(str(path))
    assert len(dataset.source.manifest.length) == 4_999
    with pytest.raises(ps.DataError, match=r"record 1,233, byte .*\.idx file belongs to another"):
        list(ps.Loader(dataset.batch(5_000)))


def test_recognised_without_a_suffix(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes((GOLDEN / "scalar.rec").read_bytes())
    assert ps.read(str(path)).source.manifest.format == "recordio"


def test_nothing_to_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(b"")
    with pytest.raises(ps.SourceError, match="no records in 1 file"):
        ps.read(str(path))
