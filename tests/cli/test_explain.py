from __future__ import annotations

from pathlib import Path

from support.cli_runner import invoke


def test_pictures_get_the_usual_augmentation(photos: Path) -> None:
    text = invoke("explain", str(photos), "--batch", "8").stdout
    assert "RandomResizedCrop" in text
    assert "5 steps an epoch, 8 rows each" in text


def test_ops_none_leaves_pictures_alone(photos: Path) -> None:
    assert "transform" not in invoke("explain", str(photos), "--ops", "none").stdout
