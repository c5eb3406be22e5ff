from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import penstock as ps
from penstock.cli.inspect import _show_value, describe_dataset
from penstock.cli.opening import open_dataset, spread_rows
from penstock.cli.sheet import contact_sheet, png
from support.cli_runner import GOLDEN_PICTURES, invoke


def test_json_says_what_a_folder_holds(photos: Path) -> None:
    facts = json.loads(invoke("inspect", str(photos), "--json").stdout)
    assert facts["format"] == "image_folder"
    assert facts["samples"] == 40
    assert facts["shards"]["count"] == 40
    assert facts["classes"] == {"cats": 20, "dogs": 20}
    assert facts["columns"]["image"] == {"dtype": "bytes", "shape": [], "holds": "images"}
    assert facts["columns"]["label"]["dtype"] == "int64"
    assert facts["first_samples"][0]["image"].startswith("image 91 × 72, ")
    assert facts["warnings"] == []  # to have no checksums is usual, and no reason to be warned each time
    assert facts["files_without_checksums"] == 40
    assert facts["bytes"] == sum(path.stat().st_size for path in photos.rglob("*.jpg"))


def test_text_names_columns_classes_and_samples(photos: Path) -> None:
    text = invoke("inspect", str(photos)).stdout
    assert "image_folder: 40 samples" in text
    assert "; no checksums (penstock index --checksums makes them)" in text
    assert "Warning" not in text
    assert all(word in text for word in ("images", "dogs", "50.0%", "First samples"))


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
        (pa.array(["a b " * 30]), "a b " * 15 + "…"),
        (pa.array(["/a/" + "b" * 100]), "…" + "b" * 60),
        (pa.array([b"\x01\x02"]), r"b'\x01\x02' (2 bytes)"),
        (pa.array([[1.5, 2, 3]], pa.large_list(pa.float32())), "[1.5, 2, 3] float32(3,)"),
        (pa.array([b"\xff\xd8\xff\xe0"]), "unreadable image"),
    ],
)
def test_values_of_all_kinds_are_shown(column: Any, shown: str) -> None:
    assert _show_value(column, 0).startswith(shown)


def test_records_of_pictures() -> None:
    facts = json.loads(invoke("inspect", str(GOLDEN_PICTURES), "--json").stdout)
    assert facts["format"] == "tfrecord"
    assert facts["columns"]["image/encoded"]["holds"] == "images"
    assert facts["columns"]["image/object/bbox/xmin"] == {"dtype": "float32", "shape": [None], "holds": ""}
    assert facts["first_samples"][0]["image/encoded"].startswith("image 40 × 30")


def test_a_file_far_larger_than_the_others_is_told(tmp_path: Path) -> None:
    records = GOLDEN_PICTURES.read_bytes()
    for number, times in enumerate((1, 1, 9)):
        (tmp_path / f"{number}.tfrecord").write_bytes(records * times)
    facts = json.loads(invoke("inspect", str(tmp_path), "--json").stdout)
    assert facts["samples"] == 88
    assert "2.tfrecord has" in facts["warnings"][0]


def test_a_contact_sheet_is_a_picture_of_the_pictures(photos: Path, tmp_path: Path) -> None:
    invoke("inspect", str(photos), "--sheet", str(tmp_path / "sheet.png"))
    with Image.open(tmp_path / "sheet.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
        assert sheet.format == "PNG"
    assert pixels.shape == (5 * 132 + 4, 8 * 132 + 4, 3)
    tiles = [pixels[4 + 132 * row : 132 + 132 * row, 4:132] for row in range(5)]
    assert len({tile.tobytes() for tile in tiles}) == 5
    assert all(tile.std() > 3 for tile in tiles)
    assert (pixels[:4] == 255).all()


def test_a_damaged_picture_is_a_grey_tile(photos: Path, tmp_path: Path) -> None:
    for number, picture in enumerate(sorted(photos.rglob("*.jpg"))[:2]):
        (tmp_path / f"{number}.jpg").write_bytes(picture.read_bytes() if number else picture.read_bytes()[:100])
    sheet = contact_sheet(open_dataset([str(tmp_path)]))
    pixels = np.asarray(Image.open(io.BytesIO(sheet)))
    assert sum((pixels[4:132, left : left + 128] == 128).all() for left in (4, 136)) == 1


def test_png_is_read_by_others() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as found:
        assert np.array_equal(np.asarray(found), pixels)


def test_datasets_without_pictures_have_no_sheet(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes((GOLDEN_PICTURES.parent / "docs.tfrecord").read_bytes())
    result = invoke("inspect", str(tmp_path), "--sheet", str(tmp_path / "sheet.png"))
    assert result.exit_code == 1
    assert "no column holds images" in result.stderr
    assert not (tmp_path / "sheet.png").exists()
    invoke("inspect", str(tmp_path), "--html", str(tmp_path / "page.html"))
    assert "<img" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("option", ["--sheet", "--html"])
def test_a_file_that_cannot_be_written_is_a_message(photos: Path, tmp_path: Path, option: str) -> None:
    result = invoke("inspect", str(photos), option, str(tmp_path / "nowhere" / "file"))
    assert result.exit_code == 1
    assert "nowhere/file: No such file or directory; name a file that can be written" in result.stderr


@pytest.mark.parametrize("there_was", [b"the old page", None])
def test_a_page_that_is_interrupted_is_not_there_by_half(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_was: bytes | None
) -> None:
    page = tmp_path / "page.html"
    if there_was is not None:
        page.write_bytes(there_was)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("penstock.core.files.whole.os.fchmod", full)
        result = invoke("inspect", str(photos), "--html", str(page))
    assert (result.exit_code, "page.html: No space left on device" in result.stderr) == (1, True)
    assert (page.read_bytes() if page.exists() else None) == there_was
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"] * (there_was is not None)


def test_a_page_keeps_the_link_and_the_rights_of_the_file_that_was_there(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "page.html").chmod(0o640)
    (tmp_path / "link.html").symlink_to("page.html")
    assert invoke("inspect", str(photos), "--html", str(tmp_path / "link.html")).exit_code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_a_page_goes_to_what_is_no_plain_file(photos: Path) -> None:
    assert invoke("inspect", str(photos), "--html", "/dev/null").exit_code == 0
    assert not Path("/dev/null").is_file()


def test_the_page_needs_nothing_else(photos: Path, tmp_path: Path) -> None:
    place = tmp_path / "<script>alert(1)</script>" / "a.jpg"
    place.parent.mkdir(parents=True)
    place.write_bytes(next(photos.rglob("*.jpg")).read_bytes())
    invoke("inspect", str(tmp_path), "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert 'src="data:image/png;base64,' in page
    assert "http" not in page.replace("http-equiv", "")
    assert [line for line in page.splitlines() if "<h2>" in line] == [
        "<h2>Columns</h2>", "<h2>Classes</h2>", "<h2>First samples</h2>", "<h2>Images</h2>",
    ]  # fmt: skip


# Boxes, masks and steps on the page


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """Three photographs with masks, boxes and labels, of which some are wrong."""
    random = np.random.default_rng(0)

    def file(pixels: Any, kind: str) -> bytes:
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, kind)
        return out.getvalue()

    sizes = [(60, 80), (50, 40), (70, 30)]
    table = {
        "image": [file(random.integers(0, 255, (*size, 3), np.uint8), "JPEG") for size in sizes],
        "mask": [file(np.full(size, 7, np.uint8), "PNG") for size in [*sizes[:2], (9, 9)]],
        "boxes": [[[1.0, 2.0, 30.0, 20.0], [float("nan"), 1.0, 2.0, 3.0]], [], [[1.0, 2.0, 3.0]]],
        "label": [["<script>alert(1)</script>", "dog"], [], ["cat"]],
        "text": ["<b>", "", ""],
    }
    pq.write_table(pa.table(table), tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def test_the_page_draws_boxes_and_masks(annotated: Path, tmp_path: Path) -> None:
    options = ("--boxes", "boxes", "--box-format", "XYWH", "--labels", "label", "--mask", "mask")
    assert invoke("inspect", str(annotated), "--html", str(tmp_path / "page.html"), *options).exit_code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h2>First rows</h2>" in page
    assert '<rect x="1" y="2" width="30" height="20"' in page
    assert "boxes: 2 boxes, 1 not finite" in page
    assert "boxes: shape (1, 3), and not 4 numbers each; not drawn" in page
    assert "mask: a mask of 9 × 9 over a picture of 70 × 30 (height × width); not drawn" in page
    assert page.count("mask: 7<") == 2
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_page_shows_what_each_op_does(photos: Path, tmp_path: Path) -> None:
    assert invoke("inspect", str(photos), "--html", str(tmp_path / "page.html"), "--ops", "rrc224").exit_code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8").partition("<h2>What each op does</h2>")[2]
    names = ["0 Decode", "1 RandomResizedCrop", "2 RandomHorizontalFlip", "3 Normalize"]
    assert re.findall(r"<b>(.*?)</b>", page) == names * 3
    assert page.count("<img") == 12
    assert re.search(r"224 × 224 uint8  top \d+, left \d+, height \d+, width \d+", page)
    assert len(page) < 4_000_000


def test_what_the_page_cannot_show_is_told_there(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number, picture in enumerate(sorted(photos.rglob("*.jpg"))[:4]):
        (tmp_path / "data" / f"{number}.jpg").write_bytes(picture.read_bytes()[: None if number else 300])
    result = invoke("inspect", str(tmp_path / "data"), "--html", str(tmp_path / "page.html"), "--ops", "decode")
    assert result.exit_code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(r'class="warning">[^<]*0\.jpg: a damaged JPEG', page)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--boxes", "boxes"), "--boxes: is for the page that --html writes, which is missing; pass both"),
        (("--mask", "mask"), "--mask: is for the page that --html writes, which is missing"),
        (("--ops", "rrc224"), "--ops: is for the page that --html writes, which is missing"),
        (("--html", "PAGE", "--labels", "label"), "--labels: names what boxes are, and --boxes is missing"),
        (("--html", "PAGE", "--boxes", "box"), "--boxes box: no such column; there are image, mask, boxes, label"),
        (("--html", "PAGE", "--boxes", "boxes", "--labels", "x"), "--labels x: no such column"),
    ],
)
def test_options_that_do_nothing_are_refused(
    annotated: Path, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    page = tmp_path / "page.html"
    result = invoke("inspect", str(annotated), *(str(page) if option == "PAGE" else option for option in options))
    assert result.exit_code == 1
    assert told in result.stderr
    assert not page.exists()


def test_columns_that_are_no_boxes_are_told_on_the_page(annotated: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert invoke("inspect", str(annotated), "--html", str(page), "--boxes", "text", "--mask", "label").exit_code == 0
    assert "text: rows of unequal length, or no numbers; not drawn" in page.read_text(encoding="utf-8")


def test_data_without_images_has_nothing_to_draw_over(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "boxes": [[[1.0, 2, 3, 4]]] * 2}), tmp_path / "data.parquet")
    for option in (("--boxes", "boxes"), ("--mask", "boxes"), ("--ops", "decode")):
        result = invoke("inspect", str(tmp_path / "data.parquet"), "--html", str(tmp_path / "page.html"), *option)
        assert result.exit_code == 1
        assert f"{option[0]}: no column holds images (columns: x, boxes); leave {option[0]} out" in result.stderr


def test_sources_of_every_kind_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of columns, objects, streams; none has files."""
    rows = [{"id": number, "text": f"text {number}", "list": [number] * 3} for number in range(50)]
    for dataset in (
        ps.from_iterable(rows),
        ps.from_iterable(rows, spool=False),
        ps.from_dataset(rows),
        ps.from_arrays(
            {"id": np.arange(50), "text": [row["text"] for row in rows], "list": np.zeros((50, 3), np.int64)}
        ),
    ):
        facts = describe_dataset(dataset)
        assert facts["samples"] == 50
        assert facts["shards"] == {"count": 0}
        assert facts["columns"]["list"]["shape"] == [3]
        assert [sample["text"] for sample in facts["first_samples"]] == ["text 0", "text 1", "text 2"]
        assert len(spread_rows(dataset, 20)["id"]) == 20
    monkeypatch.setattr(sys.modules["penstock.cli.inspect"], "open_dataset", lambda paths: ps.from_dataset(rows))
    text = invoke("inspect", "somewhere").stdout
    assert "objects: 50 samples" in text
    assert "in 0 files" not in text


def test_many_tiny_files_are_told_with_their_cost(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.warnings._MANY_FILES", 10)
    facts = describe_dataset(open_dataset([str(photos)]))
    assert re.search(r"40 files with a median of .*: here each takes [\d,]+ µs to open and read", facts["warnings"][0])


def test_files_that_are_listed_twice_give_a_warning(photos: Path) -> None:
    pictures = sorted(map(str, photos.rglob("*.jpg")))
    facts = describe_dataset(open_dataset([*pictures[:5], *pictures[3:5]]))
    assert facts["samples"] == 7
    assert facts["warnings"][0].startswith(
        f"{pictures[3]} is listed 2 times, and so are 1 others; every epoch has its samples"
    )


def test_bad_samples_of_a_quarantine_file(photos: Path, tmp_path: Path) -> None:
    for path in photos.rglob("*.jpg"):
        copy = tmp_path / "photos" / path.relative_to(photos)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    damaged, empty = sorted((tmp_path / "photos" / "cats").iterdir())[3:5]
    damaged.write_bytes(b"no image at all")
    empty.write_bytes(b"")
    quarantine = tmp_path / "bad.jsonl"
    plan = ps.read(tmp_path / "photos").transform(image=[ps.image.Decode(), ps.image.Resize((16, 16))]).batch(8)
    with ps.Loader(plan, on_error="skip", quarantine=quarantine) as loader, pytest.warns(UserWarning, match="left out"):
        list(loader)
    facts = json.loads(invoke("inspect", str(tmp_path / "photos"), "--quarantine", str(quarantine), "--json").stdout)
    first, second = facts["quarantine"]["samples"]
    assert (first["where"], first["sample"]) == (str(damaged), 3)
    assert first["holds"]["image"] == "b'no image at all' (15 bytes)"
    assert (second["where"], second["holds"], second["found"]) == (str(empty), None, "the file is empty")
    assert facts["quarantine"]["elsewhere"] == 0
    text = invoke("inspect", str(tmp_path / "photos"), "--quarantine", str(quarantine)).stdout
    assert "Bad samples: 2" in text
    assert "cannot be read" in text
    elsewhere = invoke("inspect", str(photos), "--quarantine", str(quarantine), "--json").stdout
    assert json.loads(elsewhere)["quarantine"] == {"file": str(quarantine), "samples": [], "elsewhere": 2}


def test_nulls_are_shown_and_counted(tmp_path: Path) -> None:
    """A null is no error here, nor in the commands that measure and explain."""
    table = pa.table({"x": [1, None, None], "t": ["a", None, "c"], "y": [1, 2, 3], "b": [b"1", None, b"3"]})
    pq.write_table(table, tmp_path / "t.parquet")
    facts = json.loads(invoke("inspect", str(tmp_path), "--json").stdout)
    assert {name: column.get("nulls") for name, column in facts["columns"].items()} == {"x": 2, "t": 1, "y": None, "b": 1}  # fmt: skip
    assert [row["x"] for row in facts["first_samples"]] == ["1", "null", "null"]
    assert "nulls" in invoke("inspect", str(tmp_path)).stdout
    for to in ("numpy", "torch"):
        assert json.loads(invoke("bench", str(tmp_path), "--seconds", "0.1", "--to", to, "--json").stdout)["samples"]
