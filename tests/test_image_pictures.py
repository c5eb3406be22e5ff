"""docs/images.md shows every image op as it is today."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import penstock as ps

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
pytest.importorskip("skimage", reason="scikit-image, which has the photographs, is not installed")

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "images.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / "images" / "ops"


@cache
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_image_ops", ROOT / "scripts" / "draw_image_ops.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["draw_image_ops"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ops() -> set[str]:
    """Every op of `ps.image`, by name."""
    found = {name: getattr(ps.image, name) for name in ps.image.__all__}
    base = ps.image.ImageOp
    return {name for name, op in found.items() if isinstance(op, type) and issubclass(op, base) and op is not base}


def test_every_op_has_a_picture_or_a_row() -> None:
    assert set(script().PICTURES) | script().UNSEEN == ops()
    assert {path.stem for path in PICTURES.glob("*.webp")} == set(script().PICTURES)


def test_every_op_has_a_line() -> None:
    assert sorted(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) == sorted(script().PICTURES)
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == script().UNSEEN
    for name in script().PICTURES:
        section = PAGE.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        assert re.search(r"\S\. torchvision: .+\. Modes: .+\. Pixels: .+\.$", section, re.MULTILINE), name
        assert f"](images/ops/{name}.webp)" in section


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < 1_500_000


@pytest.mark.parametrize("name", sorted(script().PICTURES))
def test_a_picture_shows_what_its_op_does(name: str) -> None:
    """WebP loses some; another draw, or an op that does something else, is far off."""
    with Image.open(PICTURES / f"{name}.webp") as stored:
        there = np.asarray(stored.convert("RGBA"), np.float32)
    here = np.asarray(script().strip(name), np.float32)
    assert there.shape == here.shape
    off = np.abs(there - here)[here[..., 3] > 0][:, :3].mean()
    assert off < (16 if name == "GaussianNoise" else 9)  # noise is what WebP keeps least of
