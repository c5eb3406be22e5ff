"""penstock cache: what is kept of remote data."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

import penstock as ps
from support.cli_runner import invoke


@pytest.fixture
def folder(photos: Path, tmp_path: Path) -> Path:
    """A cache with the pieces of 40 files."""
    dataset = ps.read(str(photos), storage=fs.LocalFileSystem()).cache_local("1GB", tmp_path / "cache")
    for _ in ps.Loader(dataset.batch(8)):
        pass
    return tmp_path / "cache"


def test_the_users_own_cache_may_be_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_CACHE_BYTES", "5000000")
    told = invoke("cache", "ls").stdout
    assert str(tmp_path / "penstock" / "remote") in told
    assert "0 bytes of at most 5.0 MB: 0 pieces of 0 remote files" in told
    assert json.loads(invoke("cache", "rm", "--json").stdout)["freed_bytes"] == 0


def test_ls_tells_what_there_is(folder: Path) -> None:
    facts = json.loads(invoke("cache", "ls", "--path", str(folder), "--json").stdout)
    assert (facts["pieces"] >= 40, facts["files"], facts["bytes"] > 0) == (True, 40, True)
    told = invoke("cache", "ls", "--path", str(folder)).stdout
    assert f"{facts['pieces']} pieces of 40 remote files" in told
    assert "last used 20" in told


def test_verify_tells_and_drops_what_is_damaged(folder: Path) -> None:
    whole = invoke("cache", "verify", "--path", str(folder))
    assert (whole.exit_code, "all intact" in whole.stdout) == (0, True)
    (pack,) = folder.glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[10] ^= 1
    pack.write_bytes(content)
    damaged = invoke("cache", "verify", "--path", str(folder), "--json")
    assert (damaged.exit_code, json.loads(damaged.stdout)["damaged"]) == (1, 1)
    assert invoke("cache", "verify", "--path", str(folder)).exit_code == 0


def test_rm_tells_what_it_freed_and_removes_nothing_else(folder: Path) -> None:
    (folder / "mine").write_text("mine")
    told = json.loads(invoke("cache", "rm", "--path", str(folder), "--json").stdout)
    assert told["freed_bytes"] > 0
    assert told["pieces"] >= 40
    assert [path.name for path in folder.glob("*.pack")] == []
    assert (folder / "mine").read_text() == "mine"
    assert "0 bytes freed: 0 pieces" in invoke("cache", "rm", "--path", str(folder)).stdout


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = invoke("cache", "ls", "--path", str(tmp_path / "nowhere"))
    assert result.exit_code == 1
    assert "nowhere: no such folder; name the folder that was passed to cache_local" in result.stderr


def test_help_teaches() -> None:
    told = invoke("cache", "--help").stdout
    assert "penstock cache rm --path /nvme/cache" in told
    assert "PENSTOCK_CACHE_BYTES" in invoke("cache", "ls", "--help").stdout


def test_a_folder_without_a_cache_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "0123456789abcde.pack").write_text("mine")
    for command in ("ls", "rm", "verify"):
        told = invoke("cache", command, "--path", str(tmp_path))
        assert (told.exit_code, "holds no cache" in told.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["0123456789abcde.pack"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder with the rows of a cache."""
    for _ in ps.Loader(
        ps.from_arrays({"x": np.arange(1000), "text": ["a", "b"] * 500}).cache(tmp_path / "rows").batch(100)
    ):
        pass
    gc.collect()
    return tmp_path / "rows"


def test_rows_are_told_verified_and_removed(rows: Path) -> None:
    (rows / "mine").write_text("mine")
    (one,) = json.loads(invoke("cache", "ls", "--path", str(rows), "--json").stdout)["rows"]
    assert (one["rows"], one["held"], one["about"]) == (1000, 1000, "read memory")
    assert one["columns"] == ["x int64", "text large_string"]
    assert "1,000 of 1,000 rows: read memory" in invoke("cache", "ls", "--path", str(rows)).stdout
    assert "1,000 rows" in invoke("cache", "verify", "--path", str(rows)).stdout
    (path,) = rows.glob("*.rows")
    content = bytearray(path.read_bytes())
    content[content.index(np.arange(100).tobytes()) + 80] ^= 1
    path.write_bytes(content)
    damaged = invoke("cache", "verify", "--path", str(rows), "--json")
    assert (damaged.exit_code, json.loads(damaged.stdout)["damaged_rows"]) == (1, 1)
    assert json.loads(invoke("cache", "ls", "--path", str(rows), "--json").stdout)["rows"][0]["held"] == 999
    told = json.loads(invoke("cache", "rm", "--path", str(rows), "--json").stdout)
    assert (told["caches_of_rows"], told["freed_bytes"] > 0) == (1, True)
    assert [path.name for path in rows.iterdir() if path.is_file()] == ["mine"]


def test_a_table_that_was_cut_is_removed(rows: Path) -> None:
    (path,) = rows.glob("*.rows")
    os.truncate(path, path.stat().st_size // 2)
    assert json.loads(invoke("cache", "verify", "--path", str(rows), "--json").stdout)["damaged_rows"] == 1000
    assert not [*rows.glob("*.*")]


def test_rows_of_the_users_cache_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in ps.Loader(ps.from_arrays({"x": np.arange(100)}).cache(to="disk").batch(10)):
        pass
    told = invoke("cache", "ls").stdout
    assert "100 of 100 rows" in told
    assert json.loads(invoke("cache", "rm", "--json").stdout)["caches_of_rows"] == 1
    assert "100 rows" not in invoke("cache", "ls").stdout
