from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_runner import invoke


def test_pictures_get_the_usual_augmentation(photos: Path) -> None:
    text = invoke("explain", str(photos), "--batch", "8").stdout
    assert "RandomResizedCrop" in text
    assert "5 steps an epoch, 8 rows each" in text


def test_ops_none_leaves_pictures_alone(photos: Path) -> None:
    assert "transform" not in invoke("explain", str(photos), "--ops", "none").stdout


def test_json_says_the_same_to_programs(photos: Path) -> None:
    figures = json.loads(invoke("explain", str(photos), "--batch", "8", "--json").stdout)
    assert (figures["steps"], figures["batch"], figures["shuffled"]) == (5, 8, True)
    assert figures["plan"] == ["read", "shuffle", "transform", "batch"]
    assert figures["sources"][0] | {"where": ""} == {"where": "", "format": "image_folder", "samples": 40}
    text = invoke("explain", str(photos), "--batch", "8").stdout
    assert all(f"  {stage['name']} ({stage['kind']}, {stage['threads']} thread" in text for stage in figures["stages"])


def test_one_is_no_plural(photos: Path) -> None:
    text = invoke("explain", str(photos)).stdout
    assert "blocks of 1 sample, windows" in text
    assert not any(f" 1 {word}" in text.replace(",", "") for word in ("threads", "samples,", "blocks", "steps are"))


@pytest.mark.parametrize("command", ["inspect", "explain", "index", "bench", "simulate", "verify", "demo", "cache"])
def test_flags_take_no_value(command: str) -> None:
    assert "bool" not in invoke(command, "--help").stdout.lower()
