"""What lies over a picture is drawn where its numbers say, and what cannot be drawn is told; nothing from data is HTML."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import pytest

from penstock.core.columns.overlay import Overlay
from penstock.observe.drawn_over import DrawnOver, drawn_over
from penstock.observe.mask_colours import colour
from penstock.observe.png import png
from penstock.observe.rows_table import RowsTable

SIZE = (40, 60)
MARKS = '<script>alert("&")</script>\x1b'


def boxes(value: Any, box_format: str = "XYXY", classes: tuple[str, ...] = (), **labels: Any) -> DrawnOver:
    overlay = Overlay(kind="boxes", of="image", format=box_format, labels=tuple(labels))
    return drawn_over("boxes", overlay, {"boxes": value, **labels}, SIZE, classes)


def mask(value: Any) -> DrawnOver:
    return drawn_over("mask", Overlay(kind="mask", of="image"), {"mask": value}, SIZE)


def points(value: Any) -> DrawnOver:
    return drawn_over("points", Overlay(kind="points", of="image"), {"points": value}, SIZE)


def rectangles(html: str) -> list[tuple[float, ...]]:
    found = re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', html)
    return [tuple(map(float, numbers)) for numbers in found]


def laid_over(html: str) -> np.ndarray:
    """The pixels of a mask, RGBA."""
    image = pytest.importorskip("PIL.Image")
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return np.asarray(image.open(io.BytesIO(base64.b64decode(data))))


# Boxes


@pytest.mark.parametrize(
    ("box_format", "numbers"), [("XYXY", [10, 5, 30, 25]), ("XYWH", [10, 5, 20, 20]), ("CXCYWH", [20, 15, 20, 20])]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, list])
def test_a_box_is_where_its_format_says(box_format: str, numbers: list[int], dtype: Any) -> None:
    drawn = boxes([numbers] if dtype is list else np.array([numbers], dtype), box_format)
    assert rectangles(drawn.html) == [(10, 5, 20, 20)]
    assert 'viewBox="0 0 60 40"' in drawn.html
    assert drawn.note == "boxes: 1 box"


def test_labels_name_classes_and_give_them_a_colour() -> None:
    drawn = boxes([[1, 1, 9, 9]] * 3, label=[1, 0, 7], score=np.float32([0.5, 0.25, 1]), classes=("cat", "dog"))
    assert re.findall(r"<text[^>]*>([^<]*)</text>", drawn.html) == ["dog, score 0.5", "cat, score 0.25", "7, score 1"]
    assert re.findall(r'stroke="(#\w+)" stroke-width="2"', drawn.html) == [
        f"#{bytes(colour(of)).hex()}" for of in (1, 0, 7)
    ]


def test_labels_that_are_not_as_many_are_not_written() -> None:
    assert "<text" not in boxes([[1, 1, 9, 9]] * 3, label=[1, 2]).html
    assert "<text" not in boxes([[1, 1, 9, 9]], label=4).html
    assert ">a, b<" in boxes([[1, 1, 9, 9]], label=["a"], other=["b"]).html


def test_nothing_from_data_is_html() -> None:
    classes = (MARKS, MARKS)
    for drawn in (boxes([[1, 1, 9, 9]], label=[MARKS]), boxes([[1, 1, 9, 9]], label=[1], classes=classes)):
        assert "<script" not in drawn.html
        assert "\x1b" not in drawn.html
        assert "&lt;script&gt;" in drawn.html
    rows = [{MARKS: np.zeros((40, 60, 3), np.uint8), f"b{MARKS}": [[1, 1]], MARKS * 2: [[1, 1, 9, 9]], "l": [MARKS]}]
    overlays = {
        f"b{MARKS}": Overlay(kind="boxes", of=MARKS),
        MARKS * 2: Overlay(kind="boxes", of=MARKS, format=MARKS, labels=("l",)),
    }
    page = RowsTable(rows, overlays)._repr_html_()
    assert "<script" not in page
    assert "not drawn" in page


def test_boxes_that_cannot_be_drawn_are_told() -> None:
    drawn = boxes([[np.nan, 0, 1, 1], [np.inf, 0, 1, 1], [9, 9, 1, 1], [50, 30, 80, 35], [0, 0, 60, 40], [3, 3, 3, 3]])
    assert rectangles(drawn.html) == [(50, 30, 30, 5), (0, 0, 60, 40), (3, 3, 0, 0)]
    assert drawn.note == "boxes: 6 boxes, 2 not finite, 1 end before they begin, 1 reach beyond the picture"


@pytest.mark.parametrize(
    ("value", "note"),
    [
        ([], "boxes: 0 boxes"),
        (None, "boxes: 0 boxes"),
        (np.zeros((0, 4)), "boxes: 0 boxes"),
        (np.zeros((2, 5)), "boxes: shape (2, 5), and not 4 numbers each; not drawn"),
        ([1, 2, 3, 4], "boxes: shape (4,), and not 4 numbers each; not drawn"),
        ([[1, 2], [3]], "boxes: rows of unequal length, or no numbers; not drawn"),
        ("text", "boxes: rows of unequal length, or no numbers; not drawn"),
        ([[None] * 4], "boxes: 1 box, 1 not finite"),
    ],
)
def test_what_are_no_boxes_is_told(value: Any, note: str) -> None:
    assert boxes(value) == DrawnOver(note=note)


def test_numbers_far_away_draw_nothing_that_a_browser_cannot() -> None:
    drawn = boxes([[-1e300, 0, 1e300, 1], [1e308, 0, 1e308, 1]], "XYWH")
    assert rectangles(drawn.html)[0] == (-1e6, 0, 1e6, 1)
    assert "inf" not in drawn.html


def test_no_more_than_200_boxes_are_drawn() -> None:
    drawn = boxes(np.tile([1, 1, 9, 9], (5000, 1)))
    assert len(rectangles(drawn.html)) == 200
    assert drawn.note == "boxes: 5,000 boxes, the first 200 drawn"


# Masks


@pytest.mark.parametrize("axes", [(40, 60), (1, 40, 60), (40, 60, 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint16])
def test_classes_have_colours_and_the_background_none(axes: tuple[int, ...], dtype: type) -> None:
    classes = np.zeros(SIZE, dtype)
    classes[:, 30:], classes[30:] = 2, 255
    drawn = mask(classes.reshape(axes))
    pixels = laid_over(drawn.html)
    assert pixels[0, 0].tolist() == [0, 0, 0, 0]
    assert pixels[0, 59].tolist() == [*colour(2), 128]
    assert (pixels[39, 59].tolist() == [200, 200, 200, 128]) == (dtype == np.uint8)
    assert drawn.note == "mask: 0, 2, 255"


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, list])
def test_each_instance_has_a_colour(dtype: Any) -> None:
    instances = np.zeros((3, *SIZE), np.uint8)
    instances[0, :5], instances[1, 10:20], instances[2, 30:] = 1, 255, 1
    drawn = mask(instances.tolist() if dtype is list else instances.astype(dtype))
    pixels = laid_over(drawn.html)
    assert [pixels[row, 0].tolist() for row in (0, 15, 39)] == [[*colour(number), 128] for number in range(3)]
    assert pixels[25, 0, 3] == 0
    assert drawn.note == "mask: 3 instances"


def test_files_of_masks_are_in_the_colours_of_their_palette() -> None:
    own = np.zeros((*SIZE, 3), np.uint8)
    own[:20] = 0, 128, 64
    assert laid_over(mask(png(own)).html)[[0, 30], 0].tolist() == [[0, 128, 64, 128], [0, 0, 0, 0]]
    grey = np.zeros((*SIZE, 3), np.uint8)
    grey[:20] = 3
    assert laid_over(mask(png(grey)).html)[0, 0].tolist() == [*colour(3), 128]


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (np.zeros((41, 60), np.uint8), "a mask of 41 × 60 over a picture of 40 × 60 (height × width)"),
        (np.zeros(SIZE), "a mask of float64, which are no classes"),
        (np.zeros((2, 2, 40, 60), np.uint8), "a mask of 2 × 2 × 40 × 60 over"),
        (png(np.zeros((8, 8, 3), np.uint8)), "a mask of 8 × 8 over"),
        (b"\xff\xd8\xff nothing", ""),
        ("text", "a mask of <U4"),
    ],
)
def test_what_is_no_mask_is_told(value: Any, note: str) -> None:
    drawn = mask(value)
    assert drawn.html == ""
    assert drawn.note.startswith(f"mask: {note}")
    assert drawn.note.endswith("; not drawn")


def test_an_image_without_instances_has_an_empty_mask() -> None:
    assert not laid_over(mask(np.zeros((0, *SIZE), np.uint8)).html).any()
    assert mask([]).note == "mask: empty"


# Points


@pytest.mark.parametrize("shape", [(4, 2), (2, 2, 2)])
def test_points_are_dots_in_the_colour_of_their_object(shape: tuple[int, ...]) -> None:
    drawn = points(np.float32([[5, 6], [59, 39], [np.nan, 1], [900, 2]]).reshape(shape))
    found = re.findall(r'<circle cx="(\S+)" cy="(\S+)" r="3" fill="(#\w+)"', drawn.html)
    assert [(float(x), float(y)) for x, y, _ in found] == [(5, 6), (59, 39), (900, 2)]
    assert (found[0][2] == found[1][2]) == (len(shape) == 3)
    assert drawn.note == "points: 4 points, 1 not finite, 1 lie beyond the picture"


def test_points_that_are_none_are_told() -> None:
    assert points([]).note == "points: 0 points"
    assert points(np.zeros((3, 3))).note.endswith("and not 2 numbers each; not drawn")


# Cells


def test_a_picture_with_boxes_stays_as_it_is() -> None:
    file = png(np.zeros((40, 60, 3), np.uint8))
    overlays = {"boxes": Overlay(kind="boxes", of="image")}
    page = RowsTable([{"image": file, "boxes": [[1, 1, 9, 9]]}], overlays)._repr_html_()
    assert base64.b64encode(file).decode() in page
    assert page.count("<svg") == 1
    assert "<svg" not in RowsTable([{"image": file, "boxes": [[1, 1, 9, 9]]}])._repr_html_()
    assert "<svg" not in RowsTable([{"image": file}], overlays)._repr_html_()


def test_masks_of_classes_are_coloured_in_their_own_cell() -> None:
    classes = np.zeros((1, 40, 60), np.uint8)
    classes[:, 20:] = 1
    overlays = {"mask": Overlay(kind="mask", of="image")}
    page = RowsTable([{"mask": classes}], overlays)._repr_html_()
    assert laid_over(page)[[0, 39], 0].tolist() == [[0, 0, 0], [*colour(1)]]


def test_what_lies_over_pictures_is_no_picture_itself() -> None:
    overlays = {"points": Overlay(kind="points", of="image"), "mask": Overlay(kind="mask", of="image")}
    row = {"points": np.zeros((3, 20, 2)), "mask": np.zeros((3, 40, 60), np.uint8)}
    assert "<img" not in RowsTable([row], overlays)._repr_html_()


@pytest.mark.slow
def test_a_page_has_an_end() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (320, 320, 3), np.uint8)
    page = RowsTable([{"image": noise}] * 100)._repr_html_()
    assert len(page) < 17_000_000
    assert page.count("<img") + page.count("not shown: the page is large enough") == 100
