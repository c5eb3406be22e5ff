from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cli_runner import GOLDEN_PICTURES, invoke
from penstock.cli.inspect import _show_value


def test_json_says_what_a_folder_holds(photos: Path) -> None:
    facts = json.loads(invoke("inspect", str(photos), "--json").stdout)
    assert facts["format"] == "image_folder"
    assert facts["samples"] == 40
    assert facts["shards"]["count"] == 40
    assert facts["classes"] == {"cats": 20, "dogs": 20}
    assert facts["columns"]["image"] == {"dtype": "bytes", "shape": [], "holds": "pictures"}
    assert facts["columns"]["label"]["dtype"] == "int64"
    assert facts["first_samples"][0]["image"].startswith("picture 91 × 72, ")
    assert facts["warnings"] == []
    assert facts["bytes"] == sum(path.stat().st_size for path in photos.rglob("*.jpg"))


def test_text_names_columns_classes_and_samples(photos: Path) -> None:
    text = invoke("inspect", str(photos)).stdout
    assert "image_folder: 40 samples" in text
    assert all(word in text for word in ("pictures", "dogs", "50.0%", "First samples"))


def test_uneven_classes_are_told(photos: Path, tmp_path: Path) -> None:
    pictures = sorted(photos.rglob("*.jpg"))
    for number, picture in enumerate(pictures[:12]):
        place = tmp_path / ("rare" if number == 0 else "common") / picture.name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(picture.read_bytes())
    facts = json.loads(invoke("inspect", str(tmp_path), "--json").stdout)
    assert facts["classes"] == {"common": 11, "rare": 1}
    assert "classes are uneven: 'common' has 11 samples, 'rare' has 1" in facts["warnings"][0]


def test_names_with_brackets_are_printed_as_they_are(photos: Path, tmp_path: Path) -> None:
    place = tmp_path / "[bold]cats[/nothing]" / "a.jpg"
    place.parent.mkdir(parents=True)
    place.write_bytes(next(photos.rglob("*.jpg")).read_bytes())
    assert "[bold]cats[/nothing]" in invoke("inspect", str(tmp_path)).stdout


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (np.arange(6.0).reshape(1, 6), "[0, 1, 2, 3, …] float64(6,)"),
        (np.array([3]), "3"),
        (pa.array(["a" * 100]), "…" + "a" * 60),
        (pa.array([b"\x01\x02"]), r"b'\x01\x02' (2 bytes)"),
        (pa.array([[1.5, 2, 3]], pa.large_list(pa.float32())), "[1.5, 2, 3] float32(3,)"),
        (pa.array([b"\xff\xd8\xff\xe0"]), "a picture that cannot be read"),
    ],
)
def test_values_of_all_kinds_are_shown(column: Any, shown: str) -> None:
    assert _show_value(column, 0).startswith(shown)


def test_records_of_pictures() -> None:
    facts = json.loads(invoke("inspect", str(GOLDEN_PICTURES), "--json").stdout)
    assert facts["format"] == "tfrecord"
    assert facts["columns"]["image/encoded"]["holds"] == "pictures"
    assert facts["columns"]["image/object/bbox/xmin"] == {"dtype": "float32", "shape": [None], "holds": ""}
    assert facts["first_samples"][0]["image/encoded"].startswith("picture 40 × 30")


def test_a_file_far_larger_than_the_others_is_told(tmp_path: Path) -> None:
    records = GOLDEN_PICTURES.read_bytes()
    for number, times in enumerate((1, 1, 9)):
        (tmp_path / f"{number}.tfrecord").write_bytes(records * times)
    facts = json.loads(invoke("inspect", str(tmp_path), "--json").stdout)
    assert facts["samples"] == 88
    assert "2.tfrecord has" in facts["warnings"][0]
