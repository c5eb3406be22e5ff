"""Lines of text, against Python's own reading of lines."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError, RowError, SourceError
from support.damage import load_all


def lines_of(path: Path, **options) -> list[str]:
    return load_all(ps.read(str(path), **options))["text"].to_pylist()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_those_of_python(tmp_path: Path, end: str) -> None:
    rng = random.Random(1)
    lines = ["".join(rng.choices("aé😀 \t\u2028", k=rng.randrange(6))) for _ in range(200)]
    path = tmp_path / "some.txt"
    path.write_bytes(end.join(lines).encode())
    wanted = path.read_bytes().decode().replace("\r\n", "\n").split("\n")
    assert lines_of(path) == (wanted if wanted[-1] else wanted[:-1])
    path.write_bytes(b"\xef\xbb\xbf" + end.join([*lines, ""]).encode())
    assert lines_of(path) == lines


@pytest.mark.slow
def test_large_files_are_indexed_in_parts(tmp_path: Path) -> None:
    """A line crosses every edge between parts, one is longer than a part."""
    numbers = [*range(300_000), "x" * 5_000_000, *range(9)]
    path = tmp_path / "large.txt"
    path.write_text("".join(f"{number}\n" for number in numbers))
    dataset = ps.read(str(path))
    assert len(dataset) == len(numbers)
    assert dataset.source.manifest.length.sum() == path.stat().st_size
    assert lines_of(path) == list(map(str, numbers))


def test_paths_in_an_array(tmp_path: Path) -> None:
    """As a column of a table gives them."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(name)
    paths = [str(tmp_path / "b.txt"), str(tmp_path / "a.txt")]
    for given in (np.array(paths), np.array(paths)[0], np.array(paths, dtype=object)):
        rows = [text for batch in ps.Loader(ps.read(given).batch(1)) for text in batch["text"].to_pylist()]
        assert rows == (["b"] if isinstance(given, str) else ["b", "a"])


def test_several_files_and_a_shuffle(tmp_path: Path) -> None:
    for shard in range(3):
        (tmp_path / f"{shard}.txt").write_text("\n".join(f"{shard} {line}" for line in range(50)))
    batches = list(ps.Loader(ps.read(str(tmp_path)).shuffle(seed=1, mode="global").batch(16)))
    found = [text for batch in batches for text in batch["text"].to_pylist()]
    assert sorted(found) == sorted(f"{shard} {line}" for shard in range(3) for line in range(50))
    assert found != sorted(found)


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"fine\nba\xffd\n")
    with pytest.raises(RowError, match="byte 2 of the line is not UTF-8") as caught:
        lines_of(path)
    assert caught.value.row == 1
    with pytest.raises(DataError, match=r"bad\.txt, record 1, byte 5: byte 2 of the line is not UTF-8; convert"):
        list(ps.Loader(ps.read(str(path)).batch(2)))
    path.write_text("wide", encoding="utf-16")
    with pytest.raises(
        DataError, match=r"bad\.txt, byte 0: the byte order mark of UTF-16 or UTF-32; convert the file to UTF-8"
    ):
        ps.read(str(path))
    path.write_bytes(b"")
    with pytest.raises(SourceError, match=r"bad\.txt: no lines in 1 file"):
        ps.read(str(path))
    path.write_text("a" * 100)
    with pytest.raises(DataError, match="record 0, byte 0: a line of 100 bytes, the limit is 99; raise Limits"):
        ps.read(str(path), limits=ps.Limits(record_bytes=99))


def test_its_column_can_be_renamed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n")
    assert list(ps.read(str(path), columns={"sentence": "text"}).spec) == ["sentence"]
    with pytest.raises(PlanError, match="no column 'line'; there are text"):
        ps.read(str(path), columns=["line"])
    with pytest.raises(PlanError, match="columns a, b: a line is one column; take it once"):
        ps.read(str(path), columns={"a": "text", "b": "text"})


def test_every_kind_of_line_counts_once(tmp_path: Path) -> None:
    """Offsets and lengths cover a file without gaps."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n\r\n \nlast")
    manifest = ps.read(str(path)).source.manifest
    assert manifest.length.tolist() == [1, 2, 2, 4]
    assert np.array_equal(manifest.offset, [0, 1, 3, 5])
