"""What the names of files say, natively, as Python's own string methods say it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core import kernels
from penstock.core.files.shards import Shards

NAMES = st.lists(st.text("aAgGjJpP./é", max_size=12), min_size=1, max_size=30)


def shards_of(names: list[str], kind: pa.DataType, root: str = "") -> Shards:
    none = np.zeros(len(names), np.int64)
    return Shards(pa.array(names, kind), none, none, root)


@given(names=NAMES, endings=st.lists(st.text("ag.jé", max_size=4), max_size=3))
def test_endings_are_those_of_python(names: list[str], endings: list[str]) -> None:
    for kind in (pa.large_string(), pa.string()):
        shards = shards_of(names, kind)
        assert shards.ending_with(*endings).tolist() == [name.endswith(tuple(endings)) for name in names]


@given(names=NAMES)
def test_letters_of_either_case(names: list[str]) -> None:
    found = shards_of(names, pa.large_string()).ending_with(".jpg", "a", any_case=True)
    assert found.tolist() == [name.lower().endswith((".jpg", "a")) for name in names]


@given(names=NAMES, root=st.sampled_from(["", "/é/", "aé/"]))
def test_first_folders_are_those_of_python(names: list[str], root: str) -> None:
    folders, first = kernels.first_folders(
        *shards_of([root + name for name in names], pa.large_string()).path_buffers, len(root.encode())
    )
    parts = [name.partition("/") for name in names]
    assert [
        -1 if not slash else parts[first[folder]][0] for folder, (_, slash, _) in zip(folders, parts, strict=True)
    ] == [folder if slash else -1 for folder, slash, _ in parts]
    assert len({parts[number][0] for number in first.tolist()}) == len(first)


def test_part_of_a_listing() -> None:
    shards = shards_of(["a.x", "b.y", "c.x"], pa.large_string())
    assert Shards(shards.paths[1:], shards.sizes[1:], shards.versions[1:]).ending_with(".x").tolist() == [False, True]


def test_names_that_lie_outside_their_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="names outside their bytes"):
        kernels.names_end_with(np.array([0, 5]), np.zeros(3, np.uint8), [".x"], False)


def test_suffixes_of_any_case(tmp_path: Path) -> None:
    for name in ("cats/1.JPG", "cats/2.jpeg", "dögs/3.Png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff\xd8\xff")
    photos = ps.read(tmp_path)
    assert photos.classes == ("cats", "dögs")
    assert photos.select("label").head()["label"].tolist() == [0, 0, 1]
