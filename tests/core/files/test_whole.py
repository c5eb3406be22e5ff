"""Files that are written whole, or not at all; and such that are ready to be."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from penstock.core.errors import PlanError
from penstock.core.files.whole import ReadyFile


@pytest.fixture(params=["ready", "on a file system that has no files without names"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a file that is not there, in a folder that nothing else is in."""
    if request.param != "ready":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return tmp_path / "state.json"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_nothing_is_there_before_and_the_file_alone_behind_it(path: Path) -> None:
    before = os.umask(0o027)
    try:
        ready = ReadyFile(path)
        assert [*path.parent.iterdir()] == []
        ready.write(b"one", at=path)
    finally:
        os.umask(before)
    assert [*path.parent.iterdir()] == [path]
    assert path.read_bytes() == b"one"
    assert mode(path) == 0o640


def test_a_file_that_is_there_is_replaced_and_keeps_its_mode(path: Path) -> None:
    path.write_bytes(b"a longer one")
    path.chmod(0o604)
    with path.open("rb") as before:
        ReadyFile(path).write(b"one", at=path)
        assert before.read() == b"a longer one"  # who reads it meanwhile reads all of it
    assert [*path.parent.iterdir()] == [path]
    assert path.read_bytes() == b"one"
    assert mode(path) == 0o604


def test_it_is_written_again_and_elsewhere(path: Path) -> None:
    ready, other = ReadyFile(path), path.with_name("state-1.json")
    ready.write(b"elsewhere", at=other)
    ready.write(b"one", at=path)
    ready.write(b"two", at=path)
    assert (path.read_bytes(), other.read_bytes()) == (b"two", b"elsewhere")
    assert sorted(path.parent.iterdir()) == [other, path]


def test_a_link_stays_and_what_it_points_at_is_replaced(path: Path) -> None:
    target = path.with_name("target.json")
    target.write_bytes(b"before")
    path.symlink_to(target)
    ReadyFile(path).write(b"one", at=path)
    assert path.is_symlink()
    assert target.read_bytes() == b"one"


def test_what_is_no_plain_file_is_written_to_and_stays(path: Path) -> None:
    ready = ReadyFile(Path(os.devnull))
    ready.write(b"one", at=Path(os.devnull))
    assert not Path(os.devnull).is_file()


def test_one_that_is_dropped_leaves_nothing_open(path: Path) -> None:
    ready = ReadyFile(path)
    assert len(open_below(path.parent)) <= 1
    ready.drop()
    ready.drop()
    assert open_below(path.parent) == []
    ready.write(b"one", at=path)
    assert path.read_bytes() == b"one"
    assert open_below(path.parent) == []


def open_below(folder: Path) -> list[str]:
    """This process's open files of a folder; threads of earlier tests may open and close others."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [name for name in found if name.startswith(f"{folder}/")]


def test_a_folder_that_is_gone_is_an_error_that_names_the_file(path: Path) -> None:
    ready = ReadyFile(path)
    path.parent.rmdir()
    with pytest.raises(PlanError, match=r"state\.json: No such file or directory; name a file that can be written"):
        ready.write(b"one", at=path)
