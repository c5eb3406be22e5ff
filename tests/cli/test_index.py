from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import penstock as ps
from support.cli_runner import invoke


def test_json_identifies_the_data(photos: Path) -> None:
    figures = json.loads(invoke("index", str(photos), "--json").stdout)
    assert figures["samples"] == figures["shards"] == 40
    assert figures["digest"] == ps.read(str(photos)).source.manifest.digest
    assert figures["seconds"] > 0


def test_several_paths_are_one_dataset(photos: Path) -> None:
    figures = json.loads(invoke("index", str(photos / "cats"), str(photos / "dogs"), "--json").stdout)
    assert figures["samples"] == 40


def test_text_tells_samples_and_digest(photos: Path) -> None:
    text = invoke("index", str(photos)).stdout
    assert text.startswith("40 samples in 40 files, ")
    assert "digest " in text


def test_checksums_are_made_once_and_checked_from_then_on(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = shutil.copytree(photos, tmp_path / "photos")
    size = sum(path.stat().st_size for path in root.rglob("*.jpg"))
    figures = json.loads(invoke("index", str(root), "--checksums", "--json").stdout)["checksums"]
    assert {name: figures[name] for name in ("files", "size_bytes", "read_files", "read_bytes")} == {
        "files": 40,
        "size_bytes": size,
        "read_files": 40,
        "read_bytes": size,
    }
    text = invoke("index", str(root), "--checksums").stdout
    assert "40 files have checksums, " in text
    assert "; read 0 bytes in 0.0" in text
    assert json.loads(invoke("inspect", str(root), "--json").stdout)["files_without_checksums"] == 0
    victim = root / "cats" / "007.jpg"
    found = victim.stat()
    victim.write_bytes(victim.read_bytes()[:-1] + b"!")
    os.utime(victim, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(ps.DataError, match=r"007\.jpg, bytes 0 to [\d,]+: their checksum is 0x"):
        list(ps.Loader(ps.read(root).batch(8)))


def test_a_filter_is_looked_at_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"n": row}) + "\n" for row in range(100)))
    (tmp_path / "filters_of_test_index.py").write_text("def even(batch):\n    return batch['n'] % 2 == 0\n")
    monkeypatch.chdir(tmp_path)
    figures = json.loads(invoke("index", "rows.jsonl", "--filter", "filters_of_test_index:even", "--json").stdout)
    assert (figures["filter"]["samples"], figures["filter"]["rows"]) == (100, 50)
    assert "50 of 100 rows pass" in invoke("index", "rows.jsonl", "--filter", "filters_of_test_index:even").stdout
    for wrong, message in (("even", "write module:name"), ("filters_of_test_index:odd", "has no attribute 'odd'")):
        result = invoke("index", "rows.jsonl", "--filter", wrong)
        assert result.exit_code == 1
        assert message in " ".join(result.output.split())
