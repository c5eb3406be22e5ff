"""penstock inspect --decode finds every bad picture, whatever holds it."""

from __future__ import annotations

import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import penstock as ps
from conftest import jpeg
from penstock.tools.decode_check import find_bad
from support.cli_runner import GOLDEN_PICTURES, invoke
from support.shared import new_threads

BAD = {
    "cats/000.jpg": b"",
    "cats/003.jpg": b"hello, I am no picture",
    "dogs/004.jpg": jpeg(4)[:1500],
    "dogs/008.jpg": b"\xff\xd8\xff",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """30 images, five of them bad: empty, not an image, truncated, a header alone, a link that leads nowhere."""
    root = tmp_path / "photos"
    for number in range(30):
        name = f"{'dogs' if number % 2 == 0 else 'cats'}/{number:03d}.jpg"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(jpeg(number))
    for name, content in BAD.items():
        (root / name).write_bytes(content)
    (root / "cats/link.jpg").symlink_to("/nowhere/x.jpg")
    return root


def test_all_bad_files_of_a_folder_are_listed(folder: Path) -> None:
    result = invoke("inspect", str(folder), "--decode", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["decode"]
    assert found["samples"] == found["checked"] == 32
    assert found["complete"] is True
    reasons = {os.path.relpath(one["where"], folder): one["found"] for one in found["bad"]}
    assert sorted(reasons) == sorted([*BAD, "cats/link.jpg"])
    assert reasons["cats/000.jpg"] == "the file is empty; remove it, or write it again"
    assert reasons["cats/003.jpg"].startswith("not an image: it begins with 68 65 6c 6c 6f")
    assert "the file ends inside the coefficients" in reasons["dogs/004.jpg"]
    assert "it is a broken link, to /nowhere/x.jpg" in reasons["cats/link.jpg"]


def test_the_text_names_the_files_and_the_sum(folder: Path) -> None:
    result = invoke("inspect", str(folder), "--decode")
    assert result.exit_code == 1
    assert f"bad {folder}/cats/003.jpg: not an image: it begins with" in result.stdout
    assert "32 samples: read and decoded, in " in result.stdout
    assert "; 5 bad" in result.stdout


def test_a_whole_folder_ends_with_success(photos: Path) -> None:
    result = invoke("inspect", str(photos), "--decode", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["decode"]["bad"] == []


def test_inspect_itself_shows_what_can_be_read(folder: Path, tmp_path: Path) -> None:
    """The first sample is an empty file: neither facts nor sheet are refused for it."""
    result = invoke("inspect", str(folder), "--json", "--sheet", str(tmp_path / "sheet.png"))
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["samples"] == 32
    assert len(facts["first_samples"]) == 3
    assert any("2 of 32 files are empty or broken links" in warning for warning in facts["warnings"])
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width == 7 * 132 + 4


def test_records_of_every_kind(tmp_path: Path) -> None:
    good, bad = jpeg(1), jpeg(2)[:1200]
    table = pa.table({"id": [1, 2, 3], "picture": [good, bad, good], "mask": [good, good, b"x"]})
    pq.write_table(table, tmp_path / "some.parquet")
    with tarfile.open(tmp_path / "some.tar", "w") as archive:
        for number, content in enumerate([good, bad, good]):
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    damaged = bytearray(GOLDEN_PICTURES.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "some.tfrecord").write_bytes(GOLDEN_PICTURES.read_bytes() * 15 + damaged)  # columns are learnt from 100

    def bad_of(name: str, *options: str) -> list[tuple[int, str, str]]:
        result = invoke("inspect", str(tmp_path / name), "--decode", "--json", *options)
        assert result.exit_code == 1, result.stderr
        assert result.stdout, result.stderr
        found = json.loads(result.stdout)["decode"]
        return [(one["sample"], one["where"], one["column"]) for one in found["bad"]]

    assert [one[0] for one in bad_of("some.tar")] == [1]
    assert [one[2] for one in bad_of("some.tar")] == ["jpg"]
    ((_, where, column),) = bad_of("some.tfrecord")
    assert "some.tfrecord, record " in where
    assert column == ""
    assert bad_of("some.parquet", "--column", "picture") == [(1, f"{tmp_path}/some.parquet, record 1", "picture")]


def test_a_null_is_told_once_with_its_own_place(tmp_path: Path) -> None:
    """Parquet's values are decoded by row group: all rows of one share what is wrong with it."""
    table = pa.table({"picture": [jpeg(1)] * 20 + [None] + [jpeg(2)] * 20 + [b"x"]})
    pq.write_table(table, tmp_path / "some.parquet", row_group_size=41)
    found = json.loads(invoke("inspect", str(tmp_path), "--decode", "--column", "picture", "--json").stdout)["decode"]
    where = [(one["where"], one["found"]) for one in found["bad"]]
    assert len(where) == 2
    assert where[0][0] == f"{tmp_path}/some.parquet, row group 0, row 20"
    assert where[0][1].startswith("column 'picture' is null; give it a value")
    assert where[1][1].startswith("not an image")


def test_lists_of_pictures_and_several_columns(tmp_path: Path) -> None:
    good, bad = jpeg(1), b"nothing"
    table = pa.table({"frames": [[good, good], [], [good, bad]], "mask": [good, bad, good]})
    pq.write_table(table, tmp_path / "some.parquet")
    found = json.loads(invoke("inspect", str(tmp_path), "--decode", "--json").stdout)["decode"]
    assert found["columns"] == ["frames", "mask"]
    assert [(one["sample"], one["column"]) for one in found["bad"]] == [(1, "mask"), (2, "frames")]


def test_sound_is_read_and_not_decoded(tmp_path: Path) -> None:
    for name, content in (("1.wav", b"RIFF"), ("2.wav", b""), ("3.wav", b"x")):
        (tmp_path / name).write_bytes(content)
    result = invoke("inspect", str(tmp_path), "--decode")
    assert result.exit_code == 1
    assert f"bad {tmp_path}/2.wav: the file is empty" in result.stdout
    assert "3 samples: read; Penstock has no decoder for them" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--decode", "--column", "imag"],
            "--column imag: no such column; the columns are image, label, path",
        ),
        (["--decode", "--column", "label"], "--column label: int64 cannot be decoded"),
        (["--column", "image"], "--column: names the column for --decode, which is missing; pass both"),
    ],
)
def test_columns_that_cannot_be_decoded(photos: Path, options: list[str], message: str) -> None:
    result = invoke("inspect", str(photos), *options)
    assert result.exit_code == 1
    assert message in result.stderr


def test_datasets_without_pictures(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": [b"x", b"y"]}), tmp_path / "a.parquet")
    result = invoke("inspect", str(tmp_path), "--decode")
    assert result.exit_code == 1
    assert "--decode: no column holds images (columns: a, b); name one with --column" in result.stderr


def test_ctrl_c_says_what_was_found_so_far(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any, **named: Any) -> Iterator[Any]:
        yield from islice(find_bad(*given, **named), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.cli.decode.find_bad", interrupted)
    result = invoke("inspect", str(folder), "--decode", "--json")
    assert result.exit_code == 130
    found = json.loads(result.stdout)["decode"]
    assert found["complete"] is False
    assert [os.path.basename(one["where"]) for one in found["bad"]] == ["000.jpg", "003.jpg"]
    text = invoke("inspect", str(folder), "--decode").stdout
    assert "of 32, then interrupted: read and decoded" in text


def test_whoever_stops_asking_stops_the_threads(tmp_path: Path) -> None:
    """Hours of work are left; what is being decoded ends, and nothing else begins."""
    large = io.BytesIO()
    Image.new("RGB", (2000, 1500)).save(large, "PNG")
    (tmp_path / "0000.png").write_bytes(b"bad")
    (tmp_path / "0001.png").write_bytes(large.getvalue())
    for number in range(2, 4000):
        os.link(tmp_path / "0001.png", tmp_path / f"{number:04d}.png")
    dataset, told, before = ps.read(tmp_path), [], {*threading.enumerate()}
    found = find_bad(
        dataset.source, dataset.read_ranges, ["image"], threads=2, progress=lambda *done: told.append(done)
    )
    assert next(found).sample == 0
    found.close()
    assert told[-1:] <= [(64, 4000)]
    assert not [name for name in new_threads(before) if name.startswith("penstock-decode")]
