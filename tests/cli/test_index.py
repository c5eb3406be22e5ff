from __future__ import annotations

import json
from pathlib import Path

import penstock as ps
from cli_runner import invoke


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
