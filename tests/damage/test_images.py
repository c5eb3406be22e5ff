"""One bad file in a folder of pictures: an error when its sample is due, with everything before it delivered."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from conftest import jpeg

DECODE = [ps.image.Decode(), ps.image.Resize((32, 32))]


def folder(root: Path, count: int = 12) -> Path:
    for number in range(count):
        path = root / ("cats" if number < count // 2 else "dogs") / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))
    return root


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def _no_picture(path: Path) -> None:
    path.write_text("<html>404 Not Found</html>")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere/at.jpg")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_truncate, "the file ends inside the coefficients"),
        (_no_picture, "not an image: it begins with 3c 68 74 6d 6c"),
        (_empty, "the file is empty; remove it, or write it again"),
        (_dangling, "it is a broken link, to /nowhere/at.jpg; restore its target, or remove the link"),
    ],
)
@pytest.mark.parametrize("bad", [0, 7, 11])
def test_what_comes_before_the_bad_file_is_delivered(
    tmp_path: Path, harm: Callable[[Path], None], message: str, bad: int
) -> None:
    root = folder(tmp_path)
    path = sorted(root.rglob("*.jpg"))[bad]
    harm(path)
    dataset = ps.read(root)
    assert len(dataset) == 12
    assert dataset.classes == ("cats", "dogs")
    delivered: list[int] = []
    with (
        ps.Loader(dataset.transform(image=DECODE).batch(2)) as loader,
        pytest.raises(ps.DataError, match=f"{path.name}: .*{message}"),
    ):
        delivered.extend(len(batch["label"]) for batch in loader)
    assert delivered == [2] * (bad // 2)


@pytest.mark.parametrize(
    ("error", "message"),
    [(FileNotFoundError, "No such file or directory.*open the dataset again"), (PermissionError, "make it readable")],
)
def test_files_that_vanish_or_are_locked_after_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError], message: str
) -> None:
    """The tests run as root, who may read everything: what the kernel says is put in its place."""
    root = folder(tmp_path)
    path = root / "dogs/06.jpg"
    dataset = ps.read(root)
    if error is FileNotFoundError:
        path.unlink()
    else:
        _lock(path, monkeypatch)
    delivered: list[int] = []
    with (
        ps.Loader(dataset.transform(image=DECODE).batch(2)) as loader,
        pytest.raises(ps.DataError, match=rf"dogs/06\.jpg: .*{message}"),
    ):
        delivered.extend(len(batch["label"]) for batch in loader)
    assert delivered == [2, 2, 2]


def _lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.storage import local

    reading = local.kernels.read_ranges

    def read(offsets: Any, names: Any, sizes: Any, shard: Any, *rest: Any) -> None:
        paths = bytes(names)
        files = [paths[offsets[number] : offsets[number + 1]].decode() for number in shard.tolist()]
        if str(path) in files:
            raise OSError(str(path), "Permission denied (os error 13)")
        reading(offsets, names, sizes, shard, *rest)

    monkeypatch.setattr(local.kernels, "read_ranges", read)
    monkeypatch.setattr(os, "access", lambda where, _: str(where) != str(path))


def test_a_folder_named_like_a_picture_is_a_folder(tmp_path: Path) -> None:
    root = folder(tmp_path)
    (root / "cats/zz.jpg").mkdir()
    assert len(ps.read(root)) == 12
    (root / "cats/zz.jpg/deep.jpg").write_bytes(jpeg(1))
    dataset = ps.read(root)
    assert (len(dataset), dataset.classes) == (13, ("cats", "dogs"))
    (root / "empty.jpg").mkdir()
    with pytest.raises(ps.SourceError, match=r"empty\.jpg: the folder holds no files"):
        ps.read([root / "cats/00.jpg", root / "empty.jpg"])


@pytest.mark.parametrize("harm", [_truncate, _no_picture, _empty, _dangling])
def test_the_size_is_that_of_the_first_picture_that_can_be_read(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """A chain without a size of its own takes the first picture's; a bad first file spoils its own batch only."""
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(number, 50, 40))
    harm(tmp_path / "0.jpg")
    plan = ps.read(tmp_path).transform(image=ps.image.Decode()).batch(1)
    with ps.Loader(plan) as loader:
        assert loader.batch_at(0, 1)["image"].shape == (1, 3, 40, 50)
        with pytest.raises(ps.DataError, match=r"/0\.jpg: "):
            loader.batch_at(0, 0)


def test_where_no_picture_can_be_read_the_first_is_named(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(b"")
    plan = ps.read(tmp_path).transform(image=ps.image.Decode()).batch(1)
    with pytest.raises(ps.DataError, match=r"/0\.jpg: the file is empty"):
        ps.Loader(plan)


def test_other_formats_name_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "b.jsonl").symlink_to("/nowhere/b.jsonl")
    with pytest.raises(
        ps.SourceError, match=r"b\.jsonl: No such file.*; make it readable, or fetch what a link leads to"
    ):
        ps.read(tmp_path)


@pytest.mark.parametrize("after_a_function", [False, True])
def test_the_limit_of_pixels_that_read_was_given_holds(tmp_path: Path, after_a_function: bool) -> None:
    root = folder(tmp_path)
    for limits, is_allowed in ((ps.Limits(pixels=100 * 80), True), (ps.Limits(pixels=100 * 80 - 1), False)):
        dataset = ps.read(root, limits=limits)
        if after_a_function:
            dataset = dataset.map(lambda batch: batch)
        with ps.Loader(dataset.transform(image=DECODE).batch(4)) as loader:
            if is_allowed:
                assert len(list(loader)) == 3
                continue
            with pytest.raises(ps.DataError, match=r"8000 pixels, above the limit of 7999; raise Limits\(pixels=…\)"):
                next(iter(loader))


def test_limits_are_no_part_of_a_state(tmp_path: Path) -> None:
    root = folder(tmp_path)
    state = ps.Loader(ps.read(root).batch(4)).state_dict()
    ps.Loader(ps.read(root, limits=ps.Limits(pixels=100_000)).batch(4)).load_state_dict(state)
