"""Hugging Face `datasets`: what the library left on the disk (tests/golden/make_huggingface.py), splits, features, indices."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.source.protocol import KeepingSource

GOLDEN = Path(__file__).parent.parent / "golden" / "huggingface"


def rows_of(dataset: ps.Dataset) -> dict[str, Any]:
    (batch,) = ps.Loader(dataset.batch(64))
    return batch


def check(batch: dict[str, Any], ids: Sequence[int]) -> None:
    """The rows of make_huggingface.py."""
    numbers = np.array(ids)
    np.testing.assert_array_equal(batch["id"], numbers)
    np.testing.assert_array_equal(batch["label"], numbers % 3)
    assert batch["text"].to_pylist() == [f"text {number}" * (number % 3) for number in ids]
    assert batch["image"].to_pylist() == [b"\xff\xd8\xff" + bytes([number]) for number in ids]
    np.testing.assert_array_equal(batch["grid"], np.arange(6.0).reshape(2, 3) + numbers[:, None, None])
    np.testing.assert_array_equal(batch["pair"], np.stack([numbers, -numbers], 1))
    assert batch["words"].to_pylist() == [["w"] * (number % 4) for number in ids]


def test_save_to_disk() -> None:
    dataset = ps.read(GOLDEN / "saved")
    assert dataset.source.manifest.format == "huggingface"
    assert dataset.classes == ("cat", "dog", "owl")
    assert dataset.spec == {
        "id": Field("int64"),
        "label": Field("int64"),
        "text": Field("string"),
        "image": Field("bytes"),
        "grid": Field("float32", (2, 3)),
        "pair": Field("int16", (2,)),
        "words": Field("string", (None,)),
    }
    check(rows_of(dataset), range(23))


@pytest.mark.parametrize("name", ["train", "test"])
def test_splits(name: str) -> None:
    check(rows_of(ps.read(GOLDEN / "splits", split=name)), {"train": range(9), "test": range(9, 13)}[name])
    check(
        rows_of(ps.read(GOLDEN / "exported", split=name)),
        {"train": [*range(5), *range(5, 9)], "test": range(9, 12)}[name],
    )


def test_memory_is_counted_as_of_the_files_inside() -> None:
    found: Any = ps.read(GOLDEN / "exported", split="test").source
    assert isinstance(found, KeepingSource)
    assert found.keep_within(1 << 26) == found.inner.keep_within(1 << 26) > 0
    assert found.decoded_bytes == found.inner.decoded_bytes > 0


def test_one_split_needs_no_name() -> None:
    check(rows_of(ps.read(GOLDEN / "splits" / "test")), range(9, 13))
    check(rows_of(ps.read(GOLDEN / "exported" / "data" / "test-*.parquet")), range(9, 12))


@pytest.mark.parametrize("folder", ["splits", "exported"])
@pytest.mark.parametrize("split", [{}, {"split": "dev"}])
def test_a_split_must_be_chosen(folder: str, split: dict[str, str]) -> None:
    with pytest.raises(ps.PlanError, match=r"there are the splits ('train', 'test'|'test', 'train'); choose one"):
        ps.read(GOLDEN / folder, **split)


def test_columns_are_chosen_by_feature() -> None:
    dataset = ps.read(GOLDEN / "saved", columns={"x": "image", "y": ps.Column(feature="grid", dtype="float64")})
    assert dataset.spec == {"x": Field("bytes"), "y": Field("float64", (2, 3))}
    assert dataset.classes == ()
    assert rows_of(dataset)["x"][7].as_py() == b"\xff\xd8\xff\x07"
    assert ps.read(GOLDEN / "exported", split="test", columns={"y": "label"}).classes == ("cat", "dog", "owl")
    with pytest.raises(ps.PlanError, match=r"no column 'labels'.*did you mean 'label'"):
        ps.read(GOLDEN / "saved", columns=["labels"])


def test_filters_are_for_parquet() -> None:
    check(rows_of(ps.read(GOLDEN / "exported", split="train", filters=[("id", ">", 6)])), [7, 8])
    with pytest.raises(ps.PlanError, match="filters=… is for Parquet files"):
        ps.read(GOLDEN / "saved", filters=[("id", ">", 6)])


def with_indices(folder: Path, indices: list[int]) -> Path:
    """The saved dataset as older versions left a shuffled or filtered one."""
    shutil.copytree(GOLDEN / "saved", folder)
    table = pa.table({"indices": pa.array(indices, pa.uint64())})
    with pa.ipc.new_stream(str(folder / "indices.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    state = json.loads((folder / "state.json").read_text())
    state["_indices_files"] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def test_indices(tmp_path: Path) -> None:
    wanted = [5, 6, 7, 22, 0, 11, 12, 1, 1]
    dataset = ps.read(with_indices(tmp_path / "a", wanted))
    check(rows_of(dataset), wanted)
    other = ps.read(with_indices(tmp_path / "b", wanted[::-1]))
    assert len(dataset) == len(other) == 9
    assert dataset.source.manifest.digest != other.source.manifest.digest
    with pytest.raises(ps.DataError, match=r"an index outside the 23 rows"):
        ps.read(with_indices(tmp_path / "c", [3, 23]))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (b"{", "no JSON"),
        (b"[1]", "list where an object belongs"),
        (b"{}", "lists no data files"),
        (b"[" * 100_000, "no JSON"),
        (b'{"_data_files": [{"filename": "../../etc/passwd"}]}', "'../../etc/passwd' is not in the folder"),
        (b'{"_data_files": [{"filename": 3}]}', "the data file None|the data file 3"),
        (b'{"_data_files": ["x"]}', "the data file None is not in the folder"),
    ],
)
def test_damaged_states(tmp_path: Path, state: bytes, message: str) -> None:
    shutil.copytree(GOLDEN / "saved", tmp_path / "saved")
    (tmp_path / "saved" / "state.json").write_bytes(state)
    with pytest.raises(ps.DataError, match=message):
        ps.read(tmp_path / "saved")


def test_a_missing_data_file(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "saved", tmp_path / "saved")
    (tmp_path / "saved" / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(ps.DataError, match=r"'data-00001-of-00002\.arrow' is not in the folder"):
        ps.read(tmp_path / "saved")


NESTED = {
    "id": Field("int64"),
    "pages": Field("bytes", (None,)),
    "meta.deep.label": Field("int64"),
    "meta.deep.when": Field("int64"),
    "meta.cover": Field("bytes"),
    "meta.grid": Field("int32", (2, 2)),
    "objects.box": Field("float32", (None, 4)),
    "objects.kind": Field("string", (None,)),
    "grids": Field("int16", (None, 1, 2)),
    "days": Field("int64", (None,)),
}


def nested(name: str, number: int) -> Any:
    """A value as make_huggingface.py made it."""
    return {
        "id": number,
        "pages": [bytes([number, n]) for n in range(number % 3)],
        "meta.deep.label": number % 2,
        "meta.deep.when": (19_723 + number) * 86_400_000_000,
        "meta.cover": bytes([number]),
        "meta.grid": [[number, 1], [2, 3]],
        "objects.box": [[n, 0, 1, number] for n in range(number % 4)],
        "objects.kind": [f"kind {n}" for n in range(number % 4)],
        "grids": [[[n, number]] for n in range(number % 3)],
        "days": [19_723 + n for n in range(number % 3)],
    }[name]


@pytest.mark.parametrize("folder", ["nested", "nested-exported"])
def test_structs_in_structs_and_lists_of_features(folder: str) -> None:
    dataset = ps.read(GOLDEN / folder)
    assert dataset.spec == NESTED
    for batch in (rows_of(dataset), rows_of(dataset.shuffle(seed=1))):
        for name in NESTED:
            assert batch[name].tolist() == [nested(name, number) for number in batch["id"].tolist()], name


@pytest.mark.parametrize("folder", ["nested", "nested-exported"])
def test_features_inside_others_are_chosen_by_name(folder: str) -> None:
    wish = {
        "pages": "pages",
        "cover": "meta.cover",
        "grid": ps.Column(feature="meta.grid", dtype="int64"),
        "kind": "objects.kind",
    }
    batch = rows_of(ps.read(GOLDEN / folder, columns=wish))
    for name, feature in (("pages", "pages"), ("cover", "meta.cover"), ("grid", "meta.grid"), ("kind", "objects.kind")):
        assert batch[name].tolist() == [nested(feature, number) for number in range(7)]
    assert rows_of(ps.read(GOLDEN / folder, columns=["meta.cover.path"]))["meta.cover.path"].to_pylist() == [
        f"{number}.png" for number in range(7)
    ]
