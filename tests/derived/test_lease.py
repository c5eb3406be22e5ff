"""The cache's size: bounded, and nothing goes that somebody uses."""

from __future__ import annotations

import gc
import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock as ps
from penstock.core.errors import PlanError
from penstock.core.files.cache_dirs import limit_bytes
from penstock.derived.lease import hold, make_room


def fill(folder: Path, *names: str, size: int = 100) -> None:
    """Files, each used a second after the one before."""
    for number, name in enumerate(names):
        (folder / name).write_bytes(bytes(size))
        os.utime(folder / name, (1_000 + number, 1_000 + number))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "cache"
    path.mkdir()
    return path


def test_what_was_used_least_recently_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "250")
    fill(folder, "c", "a", "b")
    make_room(str(folder))
    assert names(folder) == ["a", "b"]
    make_room(str(folder), 100)
    assert names(folder) == ["b"]
    make_room(str(folder), 10_000)
    assert names(folder) == []


def test_held_files_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "0")
    fill(folder, "a", "b", "c")
    releases = [hold(str(folder), ["a", "to come"]), hold(str(folder), ["c"])]
    make_room(str(folder))
    assert names(folder) == ["a", "c"]
    releases[0]()
    make_room(str(folder))
    assert names(folder) == ["c"]
    releases[1]()
    make_room(str(folder))
    assert names(folder) == []


@pytest.mark.slow
def test_another_process_is_respected_until_it_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "0")
    fill(folder, "a", "b")
    code = (
        f"from penstock.derived.lease import hold; r = hold({str(folder)!r}, ['b']); print('held', flush=True); input()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    make_room(str(folder))
    assert names(folder) == ["b"]
    other.kill()
    other.wait()
    other.stdin.close()
    other.stdout.close()
    make_room(str(folder))
    assert names(folder) == []
    assert names(Path(f"{folder}.leases")) == ["lock"], "the lease of a dead process stays"


def test_what_is_being_written_stays_unless_it_was_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "0")
    fill(folder, "old.tmp")
    (folder / "new.tmp").write_bytes(b"x")
    make_room(str(folder))
    assert names(folder) == ["new.tmp"]


def test_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_CACHE_BYTES", raising=False)
    assert 0 < limit_bytes(str(folder)) < 1 << 60
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "20GB")
    with pytest.raises(PlanError, match="PENSTOCK_CACHE_BYTES='20GB': not a number of bytes; write"):
        make_room(str(folder))


def test_unpacked_files_stay_while_a_dataset_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "0")
    paths = [tmp_path / f"{name}.txt.gz" for name in "ab"]
    for path in paths:
        path.write_bytes(gzip.compress(path.name.encode()))
    unpacked = tmp_path / "cache" / "penstock" / "unpacked"
    first = ps.read(str(paths[0]))
    second = ps.read(str(paths[1]))
    again = ps.read(str(paths[0]))
    assert len(names(unpacked)) == 2
    for dataset, path in ((first, paths[0]), (second, paths[1]), (again, paths[0])):
        assert next(iter(ps.Loader(dataset.batch(1))))["text"].to_pylist() == [path.name]
    del first, second, dataset, path
    wait_for(lambda: make_room(str(unpacked)) or len(names(unpacked)) == 1)
    assert next(iter(ps.Loader(again.batch(1))))["text"].to_pylist() == [paths[0].name]
    del again
    wait_for(lambda: make_room(str(unpacked)) or names(unpacked) == [])
    assert len(ps.read(str(paths[0]))) == 1, "what is gone is unpacked again"


def wait_for(holds) -> None:
    """Threads of a loader may keep a dataset for a moment."""
    for _ in range(1_000):
        gc.collect()
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it never held")
