"""JPEGs against libjpeg-turbo (Pillow): sampling × size × restart markers × quality, and other encoders' files."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from penstock.core import kernels
from support.images import as_pillow, encoded, picture

GOLDEN = Path(__file__).parent.parent / "golden" / "jpeg"
SIDES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 33, 47, 64, 67)
LARGE = ((200, 201), (333, 257), (799, 61), (63, 800), (1500, 211))
QUALITIES = (30, 50, 75, 90, 95, 100)
RESTART_MCUS = (0, 1, 3)

#: Kind -> Pillow's options, and the sampling factors of the luma that Pillow writes and that the file is to have.
KINDS = {
    "4:4:4": ({"subsampling": 0}, 0x11, 0x11),
    "4:2:2": ({"subsampling": 1}, 0x21, 0x21),
    "4:2:0": ({"subsampling": 2}, 0x22, 0x22),
    "4:4:0": ({"subsampling": 1}, 0x21, 0x12),
    "4:1:1": ({"subsampling": 2}, 0x22, 0x41),
    "1x4": ({"subsampling": 2}, 0x22, 0x14),
    "rgb": ({"keep_rgb": True}, 0x11, 0x11),
}


@cache
def made(width: int, height: int) -> Image.Image:
    return picture(width, height)


def with_sampling(data: bytes, was: int, to: int) -> bytes:
    """The same blocks under other sampling factors, with a size that makes it as many MCUs.

    Pillow writes no 4:4:0 and no 4:1:1. The picture is cut into stripes and put together in another way, which is as good a test.
    """
    if was == to:
        return data
    at = data.index(b"\xff\xc0\x00\x11\x08") + 5
    height, width = (int.from_bytes(data[at + k : at + k + 2], "big") for k in (0, 2))
    assert data[at + 6] == was
    width, height = {
        (0x21, 0x12): (height, width),
        (0x22, 0x41): (2 * width - 1, (height + 1) // 2),
        (0x22, 0x14): ((width + 1) // 2, 2 * height - 1),
    }[was, to]
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return data[:at] + size + data[at + 4 : at + 6] + bytes([to]) + data[at + 7 :]


def assert_equal(data: bytes, what: object) -> None:
    found, expected = kernels.decode_image(data), as_pillow(data)
    assert found.shape == expected.shape, what
    assert np.array_equal(found, expected), f"{what}: {int((found != expected).sum())} of {found.size} values differ"


@pytest.mark.parametrize("restart", RESTART_MCUS)
@pytest.mark.parametrize("kind", KINDS)
def test_color_equals_pillow(kind: str, restart: int) -> None:
    options, was, to = KINDS[kind]
    qualities = itertools.cycle(QUALITIES)
    for width, height in [*itertools.product(SIDES, SIDES), *LARGE]:
        quality = next(qualities)
        data = encoded(made(width, height), "JPEG", quality=quality, restart_marker_blocks=restart, **options)
        assert_equal(with_sampling(data, was, to), (kind, width, height, quality, restart))


@pytest.mark.parametrize("restart", RESTART_MCUS)
def test_grey_equals_pillow(restart: int) -> None:
    for width, height in [*itertools.product(SIDES, SIDES), *LARGE]:
        data = encoded(made(width, height).convert("L"), "JPEG", quality=85, restart_marker_blocks=restart)
        assert_equal(data, (width, height, restart))


@pytest.mark.parametrize("kind", ["4:4:4", "4:2:2", "4:2:0"])
def test_every_quality_equals_pillow(kind: str) -> None:
    for quality in range(1, 101):
        options = {"quality": quality, "optimize": quality % 2 == 0, **KINDS[kind][0]}
        assert_equal(encoded(made(67, 47), "JPEG", **options), (kind, quality))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("[!o]*.jpg")), ids=lambda path: path.stem)
def test_other_encoders_equal_pillow(path: Path) -> None:
    assert_equal(path.read_bytes(), path.stem)


#: What is not baseline -> the largest difference to Pillow, or the words of the error.
OTHERS: dict[str, int | str] = {
    "progressive": 3,
    "cmyk": 1,
    "arithmetic": "an arithmetic-coded JPEG",
    "12-bit": "a JPEG of 12 bits a sample",
    "lossless": "a lossless JPEG",
    "hierarchical": "a hierarchical JPEG",
}


@pytest.mark.parametrize("line", (GOLDEN / "other.txt").read_text().splitlines())
def test_what_is_not_baseline_goes_elsewhere(line: str) -> None:
    kind, name = line.split(" ")
    data, expected = (GOLDEN / name).read_bytes(), OTHERS[kind]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            kernels.decode_image(data)
    else:
        difference = np.abs(kernels.decode_image(data).astype(int) - as_pillow(data).astype(int))
        assert difference.max() <= expected
