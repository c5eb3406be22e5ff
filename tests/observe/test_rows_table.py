"""The table of a few rows: everything is shortened, nothing reaches a terminal or a page raw, and images are pictures."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest

from penstock.observe.png import png
from penstock.observe.rows_table import RowsTable, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.arange(3), "[0, 1, 2]"),
        (np.arange(6).reshape(2, 3), "0 … 5 (2, 3)"),
        (np.zeros((0, 3)), "float64 (0, 3)"),
        (np.array([True, False, True, True, True]), "False … True (5,)"),
        (b"abc", "b'abc', 3 bytes"),
        (b"\xff\xd8\xff nothing", "unreadable image, 11 bytes"),
        (png(np.zeros((4, 5, 3), np.uint8)), f"image 5 × 4, {len(png(np.zeros((4, 5, 3), np.uint8)))} bytes"),
        (None, "None"),
    ],
)
def test_values_in_a_few_words(value: object, text: str) -> None:
    assert shown(value) == text


def test_text_is_cut_and_harmless() -> None:
    table = RowsTable([{"a\x1b[2J": "long " * 1000, "<b>": "<script>\n\x1b"}])
    assert "\x1b" not in str(table)
    assert max(map(len, str(table).splitlines())) < 100
    assert len(str(table).splitlines()) == 3
    page = table._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page


def test_shapes_that_differ_say_where() -> None:
    table = RowsTable([{"x": np.zeros((3, 4))}, {"x": np.zeros((3, 5))}])
    assert "float64 (3, ?)" in str(table)
    assert "float64\n" in str(RowsTable([{"x": np.zeros(3)}, {"x": np.zeros((3, 5))}]))
    assert str(RowsTable([])) == "\n"


@pytest.mark.parametrize("axes", [(12, 10, 3), (3, 12, 10), (12, 10, 1), (1, 12, 10)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
def test_arrays_like_images_are_pictures(axes: tuple[int, ...], dtype: type) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(np.prod(axes)).reshape(axes).astype(dtype)
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', RowsTable([{"image": pixels}])._repr_html_())
    picture = np.asarray(image.open(io.BytesIO(base64.b64decode(found[0]))))
    assert picture.shape == (12, 10, 3)
    if dtype == np.uint8:
        first = pixels if axes[2] in (1, 3) else np.moveaxis(pixels, 0, 2)
        assert np.array_equal(picture, np.broadcast_to(first, picture.shape))
    else:
        assert (picture.min(), picture.max()) == (0, 255)


def test_files_of_images_are_shown_as_they_are_and_others_not() -> None:
    file = png(np.zeros((4, 5, 3), np.uint8))
    page = RowsTable(
        [{"image": file, "not": b"\x00" * 30, "small": np.zeros((2, 2, 3)), "nan": np.full((9, 9, 3), np.nan)}]
    )
    assert page._repr_html_().count("<img") == 2
    assert base64.b64encode(file).decode() in page._repr_html_()
