"""Folders of pictures: classes, columns, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps


def make(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff" + name.encode())
    return root


def all_of(dataset: ps.Dataset) -> dict[str, object]:
    (batch,) = ps.Loader(dataset.batch(64))
    return batch


def test_classes_are_the_folders_in_sorted_order(tmp_path: Path) -> None:
    root = make(tmp_path, "zebra/1.jpg", "ant/2.JPEG", "ant/deep/3.png", "Bee/4.webp", "zebra/notes.txt")
    dataset = ps.read(str(root))
    assert dataset.classes == ("Bee", "ant", "zebra")
    assert len(dataset) == 4
    batch = all_of(dataset)
    named = {
        path.removeprefix(f"{root}/"): label
        for path, label in zip(batch["path"].to_pylist(), batch["label"], strict=True)
    }
    assert named == {"zebra/1.jpg": 2, "ant/2.JPEG": 1, "ant/deep/3.png": 1, "Bee/4.webp": 0}
    assert batch["label"].dtype == np.int64
    assert [data.as_py()[3:].decode() for data in batch["image"]] == [
        path.removeprefix(f"{root}/") for path in batch["path"].to_pylist()
    ]


def test_globs_keep_the_classes(tmp_path: Path) -> None:
    make(tmp_path, "cats/1.jpg", "dogs/2.jpg")
    assert ps.read(f"{tmp_path}/*/*.jpg").classes == ("cats", "dogs")
    assert ps.read(tmp_path).classes == ("cats", "dogs")


def test_without_folders_there_is_no_label(tmp_path: Path) -> None:
    dataset = ps.read(str(make(tmp_path, "1.jpg", "2.jpg")))
    assert dataset.classes == ()
    assert list(dataset.spec) == ["image", "path"]
    with pytest.raises(ps.PlanError, match="no 'label'; it has image, path"):
        ps.read(str(tmp_path), columns=["label"])


def test_columns_are_chosen_and_renamed(tmp_path: Path) -> None:
    make(tmp_path, "cats/1.jpg", "dogs/2.jpg")
    assert list(ps.read(str(tmp_path), columns={"x": "image", "y": "label"}).spec) == ["x", "y"]
    assert list(ps.read(str(tmp_path), columns=["label"]).spec) == ["label"]
    assert list(ps.read(str(tmp_path), columns={"y": ps.Column(feature="label")}).spec) == ["y"]
    with pytest.raises(ps.PlanError, match=r"no 'labels'; it has image, label, path; did you mean 'label'\?"):
        ps.read(str(tmp_path), columns=["labels"])
    with pytest.raises(ps.PlanError, match="columns='image': pass a list"):
        ps.read(str(tmp_path), columns="image")


def test_several_roots(tmp_path: Path) -> None:
    """Which folders are classes cannot be told then; a guess would be a silent wrong label."""
    make(tmp_path, "a/cats/1.jpg", "b/cats/2.jpg")
    dataset = ps.read([str(tmp_path / "a"), str(tmp_path / "b")])
    assert dataset.classes == ()
    assert len(dataset) == 2


def test_what_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path, "cats/1.jpg", "stray.jpg")
    with pytest.raises(ps.SourceError, match=r"stray\.jpg: lies beside the class folders"):
        ps.read(str(root))
    (root / "stray.jpg").unlink()
    (root / "cats/empty.jpg").touch()
    with pytest.raises(ps.SourceError, match=r"cats/empty\.jpg: the file is empty \(1 such files\); remove it"):
        ps.read(str(root))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.bin").write_bytes(b"nonsense")
    with pytest.raises(
        ps.SourceError, match=r"x\.bin begins with 6e 6f 6e 73 65 6e 73 65, which no format claims; formats: "
    ):
        ps.read(str(tmp_path / "other"))
    with pytest.raises(ps.SourceError, match="format='jpegs' is not known; formats: image_folder"):
        ps.read(str(root), format="jpegs")
