"""Folders of sound and films: bytes, class and path, as for pictures."""

from __future__ import annotations

import contextlib
import shutil
import wave
from pathlib import Path

import pytest

import penstock as ps
from support.files import rows_of, through


def tone(path: Path, samples: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as out:
        out.setparams((1, 2, 16_000, samples, "NONE", "not compressed"))
        out.writeframes(bytes(2 * samples))
    return path


def test_sound_in_class_folders(tmp_path: Path) -> None:
    paths = [tone(tmp_path / name / f"{number}.WAV", 10 + number) for number in range(6) for name in ("no", "yes")]
    (tmp_path / "yes" / "notes.txt").write_text("no sound")
    dataset = ps.read(tmp_path)
    assert dataset.classes == ("no", "yes")
    found = through(dataset)
    assert list(found) == ["audio", "label", "path"]
    assert dict(zip(found["path"], found["audio"], strict=True)) == {str(path): path.read_bytes() for path in paths}
    assert found["label"] == [0] * 6 + [1] * 6


@pytest.mark.parametrize(
    ("head", "column"),
    [
        (b"fLaC", "audio"),
        (b"OggS", "audio"),
        (b"ID3\x04", "audio"),
        (b"\xff\xfb\x90\x00", "audio"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio"),
        (b"\0\0\0\x20ftypM4A ", "audio"),
        (b"\0\0\0\x20ftypisom", "video"),
        (b"\0\0\0\x14ftypqt  ", "video"),
        (b"\x1a\x45\xdf\xa3", "video"),
        (b"RIFF\0\0\0\0AVI LIST", "video"),
    ],
)
def test_files_without_a_suffix_are_known_by_their_beginning(tmp_path: Path, head: bytes, column: str) -> None:
    (tmp_path / "one").write_bytes(head + bytes(100))
    assert rows_of(ps.read(tmp_path)) == {column: [head + bytes(100)], "path": [str(tmp_path / "one")]}


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".webm", ".avi", ".mov"])
def test_films_by_suffix(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"one{suffix}").write_bytes(b"anything")
    assert list(ps.read(tmp_path).spec) == ["video", "path"]
    assert list(ps.read(tmp_path, columns={"clip": "video"}).spec) == ["clip"]
    with pytest.raises(ps.PlanError, match="no column 'audio'; there are video, path"):
        ps.read(tmp_path, columns=["audio"])
    shutil.copy(tmp_path / f"one{suffix}", tmp_path / f"two{suffix}")
    (tmp_path / f"two{suffix}").write_bytes(b"")
    with pytest.raises(ps.DataError, match=rf"two{suffix}: the file is empty; remove it, or write it again"):
        list(ps.Loader(ps.read(tmp_path).batch(1)))


@pytest.mark.parametrize(("suffix", "column"), [("wav", "audio"), ("mp4", "video")])
def test_lists_of_sound_and_films_keep_their_labels(tmp_path: Path, suffix: str, column: str) -> None:
    paths = [tmp_path / name for name in (f"no/1.{suffix}", f"yes/2.{suffix}", f"no/3.{suffix}")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(path.name.encode())
    for where in (paths, [tmp_path / "yes", tmp_path / "no"]):
        dataset = ps.read(where)
        assert dataset.classes == ("no", "yes")
        found = rows_of(dataset)
        assert dict(zip(found[column], found["label"], strict=True)) == {
            path.name.encode(): int(path.parent.name == "yes") for path in paths
        }
    assert ps.read(paths[:1], classes=["yes", "no"]).classes == ("yes", "no")


@pytest.mark.parametrize(
    ("chosen", "lost"),
    [
        ("a.jpg", ["b.tga", "c.exr"]),
        ("a.wav", ["b.aiff"]),
        ("a.mp4", ["b.mpg"]),
        ("a.jpg", ["b.wav"]),
        ("a.tar", ["b.parquet"]),
    ],
)
def test_samples_that_are_left_out_of_a_folder_are_named(tmp_path: Path, chosen: str, lost: list[str]) -> None:
    """Silence would train on a part of the data."""
    for name in ("1" + chosen, chosen, *lost):
        (tmp_path / name).write_bytes(b"" if name.endswith(".tar") else b"anything")
    for name in ("README.md", "labels.csv", "notes.txt", "meta.json", ".hidden.jp2", "LICENSE"):
        (tmp_path / name).write_bytes(b"beside")
    said = rf"{len(lost)} of \d+ files \(.*\) are left out, the first .*{lost[0]}"
    with pytest.warns(UserWarning, match=said), contextlib.suppress(ps.PenstockError):
        ps.read(tmp_path)
    for name in lost:
        (tmp_path / name).unlink()
    with contextlib.suppress(ps.PenstockError):
        ps.read(tmp_path)


def test_labels_of_files_that_are_too_large_are_read(tmp_path: Path) -> None:
    """Only what reads a file needs the memory for it."""
    for name in ("no", "yes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.mp4").write_bytes(bytes(2_000))
    limits = ps.Limits(record_bytes=1_000)
    with pytest.raises(ps.DataError, match=r"a\.mp4: video of 2,000 bytes, the limit is 1,000"):
        ps.read(tmp_path, limits=limits)
    assert rows_of(ps.read(tmp_path, columns=["label"], limits=limits)) == {"label": [0, 1]}
