"""Local files: what is found, and what is said when it is not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError, SourceError
from penstock.storage import open_storage
from penstock.storage.local import LocalStorage

FILES = [
    "a.txt",
    "b/1.jpg",
    "b/2.JPG",
    "b/c/3.jpg",
    "b/c/d/4.png",
    "with space/ü ä/日本.jpg",
    "x[1]/5.jpg",
    "(p)+/q$.jpg",
    ".hidden/6.jpg",
    "b/.7.jpg",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, name in enumerate(FILES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number + 1))
    return tmp_path


def names(root: Path, where: str) -> list[str]:
    shards = LocalStorage().list(f"{root}/{where}" if where else str(root))
    return [path.removeprefix(f"{root}/") for path in shards.paths.to_pylist()]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (
            "",
            [
                "(p)+/q$.jpg",
                "a.txt",
                "b/1.jpg",
                "b/2.JPG",
                "b/c/3.jpg",
                "b/c/d/4.png",
                "with space/ü ä/日本.jpg",
                "x[1]/5.jpg",
            ],
        ),
        ("*.txt", ["a.txt"]),
        ("b/*.jpg", ["b/1.jpg"]),
        ("b/*.[jJ][pP][gG]", ["b/1.jpg", "b/2.JPG"]),
        ("b/**/*.jpg", ["b/1.jpg", "b/c/3.jpg"]),
        ("**/*.png", ["b/c/d/4.png"]),
        ("**/[!0-3].png", ["b/c/d/4.png"]),
        ("b/**", ["b/1.jpg", "b/2.JPG", "b/c/3.jpg", "b/c/d/4.png"]),
        ("b/?.jpg", ["b/1.jpg"]),
        ("*/c/?.jpg", ["b/c/3.jpg"]),
        ("with space/*/日*.jpg", ["with space/ü ä/日本.jpg"]),
        ("(p)+/*$.jpg", ["(p)+/q$.jpg"]),
        ("x[1]/5.jpg", ["x[1]/5.jpg"]),
        ("b/../b/*.jpg", ["b/1.jpg"]),
        ("b/c/", ["b/c/3.jpg", "b/c/d/4.png"]),
        ("b/1.jpg", ["b/1.jpg"]),
    ],
)
def test_what_a_path_names(root: Path, where: str, found: list[str]) -> None:
    assert names(root, where) == found


def test_links_are_followed_and_broken_ones_are_missed(root: Path) -> None:
    """A link that leads nowhere (not fetched yet, or moved) is listed, and an error when it is read."""
    (root / "b/link").symlink_to(root / "with space")
    (root / "b/file.jpg").symlink_to(root / "b/1.jpg")
    (root / "b/broken.jpg").symlink_to(root / "nowhere")
    assert names(root, "b") == [
        "b/1.jpg", "b/2.JPG", "b/broken.jpg", "b/c/3.jpg", "b/c/d/4.png", "b/file.jpg", "b/link/ü ä/日本.jpg"
    ]  # fmt: skip
    shards = LocalStorage().list(str(root / "b"))
    none = np.zeros(1, dtype=np.int64)
    with pytest.raises(
        DataError, match=r"broken\.jpg: No such file.*; it is a broken link, to .*/nowhere; restore its target"
    ):
        LocalStorage().read(shards, none + 2, none, none, np.empty(0, np.uint8), none)


def test_a_circle_of_links_is_walked_once(root: Path) -> None:
    wanted = names(root, "b")
    (root / "b/c/round").symlink_to(root / "b")
    assert names(root, "b") == wanted
    (root / "b/c/own").symlink_to(root / "b/c/own")
    with pytest.raises(SourceError, match=r"[Tt]oo many"):
        names(root, "b")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("gone", r"gone: no such file or folder; the path was looked up as /"),
        ("*.tif", r"\*\.tif: nothing matches among the 8 files below /"),
        ("gone/*.jpg", r"nothing matches; there is no folder /.*gone"),
        ("empty", "the folder holds no files"),
    ],
)
def test_what_is_not_there(root: Path, where: str, message: str) -> None:
    (root / "empty").mkdir()
    with pytest.raises(SourceError, match=message):
        names(root, where)


def test_no_regular_file() -> None:
    with pytest.raises(SourceError, match="/dev/null: it is a device, no regular file"):
        ps.read("/dev/null")


def test_names_that_are_not_utf8(root: Path) -> None:
    name = os.fsencode(root / "b") + b"/\xff.jpg"
    Path(os.fsdecode(name)).write_bytes(b"x")
    for where in (str(root / "b"), os.fsdecode(name)):
        with pytest.raises(SourceError, match="not UTF-8; rename the file"):
            LocalStorage().list(where)


def test_a_home_a_relative_path_and_a_url(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.chdir(root / "b")
    for where in ("~/b/1.jpg", "1.jpg", "./c/../1.jpg"):
        assert LocalStorage().list(where).paths.to_pylist() == [f"{root}/b/1.jpg"]
    storage, path = open_storage(f"file://{root}/b/1.jpg")
    assert storage.list(path).sizes.tolist() == [2]
    with pytest.raises(SourceError, match="no storage serves gopher://; use a local path, file://"):
        open_storage("gopher://x")


def read(shards, shard, offset, length) -> bytes:
    out = np.zeros(sum(length), dtype=np.uint8)
    at = np.cumsum(length) - length
    LocalStorage().read(shards, *(np.array(column, dtype=np.int64) for column in (shard, offset, length)), out, at)
    return out.tobytes()


def test_ranges(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"abcdef")
    shards = LocalStorage().list(str(tmp_path))
    assert read(shards, [1, 0, 0, 1], [2, 0, 9, 0], [3, 4, 1, 0]) == b"cde01239"
    with pytest.raises(DataError, match=r"/a: failed to fill whole buffer.*open the dataset again"):
        read(shards, [0], [8], [3])


def test_files_that_change_after_they_were_listed(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"12345")
    shards = LocalStorage().list(str(tmp_path))
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_bytes(b"123456")
    (tmp_path / "c").write_bytes(b"")
    for shard, message in enumerate(["No such file", "6 bytes now, 5 when it was indexed", "0 bytes now, 5 when"]):
        with pytest.raises(DataError, match=f"{tmp_path}/{'abc'[shard]}: {message}.*open the dataset again"):
            read(shards, [shard], [0], [5])


def test_taken_shards_read_their_own_files(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_bytes(name.encode() * 3)
    shards = LocalStorage().list(str(tmp_path)).take(np.array([3, 1]))
    assert read(shards, [0, 1], [0, 0], [3, 3]) == b"dddbbb"
