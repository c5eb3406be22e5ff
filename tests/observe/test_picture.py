"""Pictures in pages are small, whatever they are made of, and only files that browsers show go there as they are."""

from __future__ import annotations

import io

import numpy as np
import pytest

from penstock.observe.picture import file_kind, picture_of
from penstock.observe.png import png

Image = pytest.importorskip("PIL.Image")


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def file_of(size: tuple[int, int], kind: str) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF"])
def test_small_files_go_as_they_are(kind: str) -> None:
    picture = picture_of(file := file_of((40, 50), kind))
    assert picture is not None
    assert (picture.kind, picture.data, picture.size) == (kind.lower(), file, (40, 50))


def test_of_riff_only_webp_is_a_picture() -> None:
    wave = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(60)
    assert (file_kind(wave), picture_of(wave)) == ("", None)
    assert file_kind(b"RIFF\x24\x00\x00\x00WEBPVP8 ") == "webp"


@pytest.mark.parametrize("kind", ["PNG", "BMP", "JPEG"])
def test_large_files_are_made_small(kind: str) -> None:
    picture = picture_of(file := file_of((700, 900), kind))
    assert len(file) > 300_000
    assert picture is not None
    assert (picture.kind, picture.size, pixels(picture.data).shape) == ("png", (700, 900), (234, 300, 3))
    assert len(picture.data) < 300_000


def test_what_is_no_picture_is_none() -> None:
    huge = bytearray(file_of((700, 900), "BMP"))
    huge[18:26] = (60_000).to_bytes(4, "little") * 2
    for value in (
        b"",
        b"\xff\xd8\xff damaged",
        bytes(huge),
        None,
        3,
        "text",
        [[1.0]],
        np.zeros((3, 4)),
        np.zeros((0, 9, 3)),
    ):
        assert picture_of(value) is None


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_large_arrays_are_made_small(axes: tuple[int, ...], channels: int) -> None:
    picture = picture_of(np.zeros((2000, 20, channels), np.uint8).transpose(axes))
    assert picture is not None
    assert picture.size == (2000, 20)
    assert pixels(picture.data).shape == (286, 3, 3)


def test_floats_are_stretched_and_say_so() -> None:
    numbers = np.linspace(-2, 3, 300, dtype=np.float32).reshape(10, 10, 3)
    picture = picture_of(numbers)
    assert picture is not None
    assert picture.note == "-2 … 3 shown as 0 … 255"
    assert pixels(picture.data).ravel()[[0, -1]].tolist() == [0, 255]


@pytest.mark.parametrize(
    ("numbers", "note"),
    [([np.nan], "no finite number"), ([np.inf, 1, 2], "1 … 2"), ([-1.7e308, 1.7e308], "-1.7e+308 …"), ([5.0], "5 … 5")],
)
def test_numbers_of_all_kinds_are_pictures(numbers: list[float], note: str) -> None:
    picture = picture_of(np.resize(np.array(numbers), (9, 9, 3)))
    assert picture is not None
    assert picture.note.startswith(note)


def test_alpha_is_written() -> None:
    rgba = np.random.default_rng(0).integers(0, 256, (5, 4, 4), np.uint8)
    assert np.array_equal(pixels(png(rgba)), rgba)
