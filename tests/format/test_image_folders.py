"""Folders of pictures: classes, columns, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import obstore
import pytest
from obstore.store import MemoryStore

import penstock as ps
from servers.http import http_server
from support.cases import MemoryStorage


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
    with pytest.raises(ps.PlanError, match="no column 'label'; there are image, path"):
        ps.read(str(tmp_path), columns=["label"])


def test_columns_are_chosen_and_renamed(tmp_path: Path) -> None:
    make(tmp_path, "cats/1.jpg", "dogs/2.jpg")
    assert list(ps.read(str(tmp_path), columns={"x": "image", "y": "label"}).spec) == ["x", "y"]
    assert list(ps.read(str(tmp_path), columns=["label"]).spec) == ["label"]
    assert list(ps.read(str(tmp_path), columns={"y": ps.Column(feature="label")}).spec) == ["y"]
    with pytest.raises(ps.PlanError, match=r"no column 'labels'; there are image, label, path; did you mean 'label'\?"):
        ps.read(str(tmp_path), columns=["labels"])
    with pytest.raises(ps.PlanError, match="columns='image': pass a list"):
        ps.read(str(tmp_path), columns="image")


@pytest.mark.parametrize(
    "paths",
    [
        ["cats/1.jpg", "cats/2.jpg", "dogs/3.jpg"],
        ["dogs/3.jpg", "cats/1.jpg", "cats/2.jpg"],
        ["dogs", "cats"],
        ["{cats,dogs}/"],
        ["{dogs,cats}/*.jpg"],
        ["dogs/*.jpg", "cats/*"],
        ["cats", "dogs/3.jpg"],
    ],
)
def test_lists_keep_the_labels(tmp_path: Path, paths: list[str]) -> None:
    """The class is the folder that holds the file, in whatever way and order the files are named."""
    root = make(tmp_path, "cats/1.jpg", "cats/2.jpg", "dogs/3.jpg")
    dataset = ps.read([f"{root}/{path}" for path in paths])
    assert dataset.classes == ("cats", "dogs")
    assert by_name(dataset) == {"1.jpg": 0, "2.jpg": 0, "3.jpg": 1}


def by_name(dataset: ps.Dataset) -> dict[str, int]:
    batch = all_of(dataset)
    names = [path.rpartition("/")[2] for path in batch["path"].to_pylist()]
    return dict(zip(names, batch["label"].tolist(), strict=True))


def test_classes_of_several_roots_are_one_by_name(tmp_path: Path) -> None:
    make(tmp_path, "a/cats/1.jpg", "a/dogs/2.jpg", "b/cats/deep/3.jpg", "b/ants/4.jpg")
    dataset = ps.read([str(tmp_path / "a"), str(tmp_path / "b")])
    assert dataset.classes == ("ants", "cats", "dogs")
    assert by_name(dataset) == {"1.jpg": 1, "2.jpg": 2, "3.jpg": 1, "4.jpg": 0}


def test_two_lists_of_a_split_are_numbered_alike(tmp_path: Path) -> None:
    """A list without a file of some class would number the others otherwise: said, and prevented by the other list's classes."""
    root = make(tmp_path, "ants/1.jpg", "bees/2.jpg", "bees/3.jpg", "cats/4.jpg", "cats/5.jpg", ".hidden/6.jpg")
    train = ps.read([f"{root}/{path}" for path in ("ants/1.jpg", "bees/2.jpg", "cats/4.jpg")])
    held_out = [f"{root}/bees/3.jpg", f"{root}/cats/5.jpg"]
    with pytest.warns(
        UserWarning, match=r"bees: these sibling folders have no file in the list: ants.*classes=train\.classes"
    ):
        alone = ps.read(held_out)
    assert alone.classes == ("bees", "cats")
    val = ps.read(held_out, classes=train.classes)
    assert val.classes == train.classes == ("ants", "bees", "cats")
    assert by_name(val) == {"3.jpg": 1, "5.jpg": 2}
    assert by_name(ps.read(held_out[:1], classes=train.classes)) == {"3.jpg": 1}
    ps.read(held_out, columns=["image"])


def test_class_folders_without_files_are_told_for_globs_and_folders_too(tmp_path: Path) -> None:
    root = make(tmp_path, "ants/a1.jpg", "bees/b1.jpg")
    with pytest.warns(UserWarning, match="these sibling folders have no file in the list: bees"):
        ps.read(f"{root}/*/a*.jpg")
    (root / "wasps").mkdir()
    with pytest.warns(UserWarning, match="these sibling folders have no file in the list: wasps"):
        ps.read(root)


def test_files_of_one_folder_have_no_label_unless_classes_are_given(tmp_path: Path) -> None:
    root = make(tmp_path, "images/1.jpg", "images/2.jpg", "more/images/3.jpg")
    flat = [f"{root}/images/1.jpg", f"{root}/images/2.jpg"]
    for paths in (flat, flat[:1], [f"{root}/images"], [*flat, f"{root}/more/images/3.jpg"]):
        assert list(ps.read(paths).spec) == ["image", "path"]
    for where in (flat, f"{root}/images"):
        assert by_name(ps.read(where, classes=["other", "images"])) == {"1.jpg": 1, "2.jpg": 1}
        with pytest.raises(
            ps.PlanError, match=r"/images is the class folder 'images', which is not among the 2 named \(cats, dogs\)"
        ):
            ps.read(where, classes=("cats", "dogs"))


def test_classes_may_be_more_than_there_are_and_in_any_order(tmp_path: Path) -> None:
    root = make(tmp_path, "cats/1.jpg", "dogs/2.jpg")
    dataset = ps.read([root / "cats", root / "dogs"], classes=["zebra", "dogs", "cats"])
    assert dataset.classes == ("zebra", "dogs", "cats")
    assert by_name(dataset) == {"1.jpg": 2, "2.jpg": 1}
    assert ps.read(root, classes=np.array(["dogs", "cats"])).classes == ("dogs", "cats")


@pytest.mark.parametrize(
    "classes",
    ["cats", {"cats", "dogs"}, {"cats": 0, "dogs": 1}, ["cats", "cats", "dogs"], [0, 1], 7, [["cats"], "dogs"]],
)
def test_classes_that_are_no_list_of_names(tmp_path: Path, classes: object) -> None:
    make(tmp_path, "cats/1.jpg", "dogs/2.jpg")
    with pytest.raises(
        ps.PlanError, match="pass a list of the names of all class folders, each once, in the order of their"
    ):
        ps.read(tmp_path, classes=classes)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (
            ["photos", "extra"],
            r"extra: holds files itself, while others that were named hold class folders \(.*photos/cats\)",
        ),
        (["photos", "photos/cats"], "photos/cats: holds files itself"),
        (
            ["photos/cats/1.jpg", "photos/cats/persian/2.jpg"],
            "cats/persian: lies in .*/cats, and both would be classes",
        ),
    ],
)
def test_lists_that_can_be_read_in_two_ways(tmp_path: Path, paths: list[str], message: str) -> None:
    root = make(tmp_path, "photos/cats/1.jpg", "photos/cats/persian/2.jpg", "photos/dogs/3.jpg", "extra/4.jpg")
    where = [f"{root}/{path}" for path in paths]
    with pytest.raises(ps.SourceError, match=message):
        ps.read(where)
    assert list(ps.read(where, columns=["image", "path"]).spec) == ["image", "path"]
    named = ps.read(where, classes=["cats", "dogs", "extra", "persian"])
    assert "label" in named.spec


def test_a_list_in_a_bucket_keeps_the_labels() -> None:
    """Names at the top of a storage have no folder."""
    content = {f"data/{name}": b"\xff\xd8\xff" + name.encode() for name in ("cats/1.jpg", "dogs/2.jpg", "cats/3.jpg")}
    storage = MemoryStorage(content)
    dataset = ps.read(sorted(content, reverse=True), storage=storage)
    assert dataset.classes == ("cats", "dogs")
    assert by_name(dataset) == {"1.jpg": 0, "2.jpg": 1, "3.jpg": 0}
    assert ps.read(["data/cats", "data/dogs"], storage=storage).classes == ("cats", "dogs")
    assert ps.read(["a.jpg", "b.jpg"], storage=MemoryStorage({"a.jpg": b"x", "b.jpg": b"y"})).classes == ()


def test_a_file_that_is_listed_twice_comes_twice_with_its_label(tmp_path: Path) -> None:
    make(tmp_path, "cats/1.jpg", "dogs/2.jpg")
    batch = all_of(ps.read([f"{tmp_path}/{path}" for path in ("cats/1.jpg", "dogs/2.jpg", "cats/1.jpg")]))
    assert batch["label"].tolist() == [0, 1, 0]


def test_what_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path, "cats/1.jpg", "stray.jpg")
    with pytest.raises(ps.SourceError, match=r"stray\.jpg: lies beside the class folders"):
        ps.read(str(root))
    (root / "stray.jpg").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.bin").write_bytes(b"nonsense")
    with pytest.raises(
        ps.SourceError, match=r"x\.bin begins with 6e 6f 6e 73 65 6e 73 65, which no format claims; formats: "
    ):
        ps.read(str(tmp_path / "other"))
    with pytest.raises(ps.SourceError, match="format='jpegs' is not known; formats: image_folder"):
        ps.read(str(root), format="jpegs")


@pytest.mark.slow
def test_lists_of_urls_and_of_objects_keep_the_labels(tmp_path: Path, photos: Path) -> None:
    """A web server lists nothing; files at the top of a bucket have no folder."""
    paths = sorted(str(path.relative_to(photos)) for path in photos.rglob("*.jpg"))[::3]
    expected = {path.rpartition("/")[2]: int(path.startswith("dogs")) for path in paths}
    with http_server(photos) as url:
        dataset = ps.read([f"{url}/{path}" for path in paths])
        assert (dataset.classes, by_name(dataset)) == (("cats", "dogs"), expected)
    store = MemoryStore()
    for path in paths:
        obstore.put(store, f"data/{path}", (photos / path).read_bytes())
    for where in (["data/cats", "data/dogs"], [f"data/{path}" for path in paths], ["data/{dogs,cats}/*.jpg"]):
        dataset = ps.read(where, storage=store)
        assert (dataset.classes, by_name(dataset)) == (("cats", "dogs"), expected)
    assert "label" not in ps.read([f"data/{path}" for path in paths[:3]], storage=store).spec
