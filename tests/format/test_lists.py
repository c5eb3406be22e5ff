"""Lists of files: plain ones, SageMaker's manifest and its augmented manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError, SourceError
from support.cases import MemoryStorage
from support.tfrecords import listed


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for number in range(7):
        path = tmp_path / "pictures" / f"{number}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes([number]) * number)
    return tmp_path


def read_all(path: Path, **options) -> dict[str, list]:
    batches = list(ps.Loader(ps.read(str(path), **options).batch(3)))
    return {name: [value for batch in batches for value in listed(batch[name])] for name in batches[0]}


def test_a_list_of_paths(files: Path) -> None:
    path = files / "train.manifest"
    path.write_text(f"pictures/3.bin\r\n\n{files}/pictures/0.bin\npictures/3.bin")
    found = read_all(path)
    assert found["data"] == [bytes([3]) * 3, b"", bytes([3]) * 3]
    assert found["path"] == [f"{files}/pictures/{number}.bin" for number in (3, 0, 3)]
    path.rename(files / "list.txt")
    assert read_all(files / "list.txt", format="manifest", columns={"image": "data"}) == {"image": found["data"]}


def test_sagemakers_manifest(files: Path) -> None:
    path = files / "train.manifest"
    path.write_text(json.dumps([{"prefix": f"{files}/pictures/"}, "1.bin", "2.bin"]))
    assert read_all(path)["data"] == [b"\1", b"\2\2"]
    path.write_text(json.dumps(["pictures/2.bin"]))
    assert read_all(path)["data"] == [b"\2\2"]


def test_the_augmented_manifest(files: Path) -> None:
    """As SageMaker Ground Truth writes it for image classification."""
    path = files / "output.manifest"
    rows = [
        {
            "source-ref": f"pictures/{number}.bin",
            "animal": number % 2,
            "boxes": [number] * number,
            "animal-metadata": {"class-name": "cat", "confidence": number / 8, "human-annotated": "yes"},
        }
        for number in range(7)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_all(path)
    assert found["data"] == [bytes([number]) * number for number in range(7)]
    assert found["animal"] == [row["animal"] for row in rows]
    assert found["boxes"] == [row["boxes"] for row in rows]
    assert found["animal-metadata.confidence"] == [number / 8 for number in range(7)]
    columns = {
        "image": "data",
        "label": ps.Column(feature="animal", dtype="uint8"),
        "name": "animal-metadata.class-name",
    }
    chosen = read_all(path, columns=columns)
    assert list(chosen) == ["image", "label", "name"]
    assert chosen["label"] == found["animal"]
    assert chosen["name"] == ["cat"] * 7
    shuffled = ps.read(str(path), columns=columns).shuffle(seed=1, mode="global").batch(7)
    batch = next(iter(ps.Loader(shuffled)))
    assert [len(data.as_py()) % 2 for data in batch["image"]] == batch["label"].tolist()


def test_labels_identify_the_data(files: Path) -> None:
    digests = []
    for label in (0, 1, 1):
        (files / "a.manifest").write_text(json.dumps({"source-ref": "pictures/1.bin", "label": label}))
        digests.append(ps.read(str(files / "a.manifest")).source.manifest.digest)
    assert digests[0] != digests[1] == digests[2]


def test_files_in_another_storage(files: Path) -> None:
    """Names are those of the storage that `read` was given."""
    storage = MemoryStorage({"data/list.manifest": b"a\nb", "data/a": b"one", "data/b": b"two"})
    dataset = ps.read("data/list.manifest", storage=storage)
    assert next(iter(ps.Loader(dataset.batch(2))))["data"].to_pylist() == [b"one", b"two"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"pictures/9.bin", "no such file"),
        (b"pictures", "is 7 files; a list of files names them one by one"),
        (b"pictures/1.bin\ns3://bucket/x", "lie in different storages"),
        (b"\xff\xfe", "byte 0: not UTF-8"),
        (b"a\n\xff", "byte 2: not UTF-8"),
        (b"a\0b", "is no name of a file"),
        (b"[1, 2]", "no manifest of SageMaker"),
        (b"[" * 100_000, "no JSON"),
        (b'{"image": "x"}', "lines without a name in 'source-ref' name no files"),
        (b'{"source-ref": 1}', "without a name in 'source-ref'"),
        (b"[]", "an empty list of files"),
        (b"\n\n", "an empty list of files"),
        (b"", "an empty list of files"),
    ],
)
def test_what_is_no_manifest(files: Path, content: bytes, message: str) -> None:
    (files / "a.manifest").write_bytes(content)
    with pytest.raises((SourceError, DataError, PlanError), match=message):
        ps.read(str(files / "a.manifest"))


def test_columns_that_are_not_there(files: Path) -> None:
    (files / "a.manifest").write_text("pictures/1.bin")
    with pytest.raises(PlanError, match="no column 'dato'; there are data, path; did you mean 'data'"):
        ps.read(str(files / "a.manifest"), columns=["dato"])
    (files / "b.manifest").write_text("pictures/1.bin")
    with pytest.raises(SourceError, match="2 manifests; a dataset is read from one"):
        ps.read(f"{files}/*.manifest")


def test_a_large_manifest_is_refused(files: Path) -> None:
    (files / "a.manifest").write_text("pictures/1.bin\n" * 100)
    with pytest.raises(DataError, match="a manifest of 1500 bytes, the limit is 1000; raise Limits"):
        ps.read(str(files / "a.manifest"), limits=ps.Limits(record_bytes=1_000))


def test_classes_add_the_label_of_the_folders(tmp_path: Path) -> None:
    names = ["dogs/2.jpg", "cats/1.jpg", "dogs/3.jpg"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    for content in ("\n".join(names), json.dumps([{"prefix": f"{tmp_path}/"}, *names])):
        path = tmp_path / "train.manifest"
        path.write_text(content)
        assert list(ps.read(path).spec) == ["data", "path"]
        assert read_all(path, columns={"x": "data", "y": "label"}) == {"x": [n.encode() for n in names], "y": [1, 0, 1]}
        dataset = ps.read(path, classes=["dogs", "ants", "cats"])
        assert dataset.classes == ("dogs", "ants", "cats")
        assert read_all(path, classes=["dogs", "ants", "cats"])["label"] == [0, 2, 0]
        with pytest.raises(PlanError, match="the class folder 'dogs', which is not among the 1 named"):
            ps.read(path, classes=["cats"])
    path.write_text("cats/1.jpg")
    with pytest.raises(PlanError, match="no column 'label'; there are data, path"):
        ps.read(path, columns=["label"])
    path.write_text(json.dumps({"source-ref": "cats/1.jpg", "label": 7}))
    with pytest.raises(PlanError, match="its lines say the label, which classes= cannot number"):
        ps.read(path, classes=["cats"])
    assert read_all(path)["label"] == [7]
