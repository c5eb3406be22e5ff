"""TIFF, PGM and PPM files: the pixels that Pillow decodes, from its own writer and tifffile's, and what is refused."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import penstock as ps
from penstock.core import kernels
from penstock.core.errors import RowError
from support.files import through
from support.images import as_pillow

NOISE = np.random.default_rng(0).integers(0, 256, (13, 17, 4), dtype=np.uint8)
RGB = Image.fromarray(NOISE[..., :3]).resize((37, 23), Image.Resampling.BICUBIC)
GREY16 = np.random.default_rng(1).integers(0, 65_536, (9, 11), dtype=np.uint16)
REFUSED = (RowError, ValueError)


def saved(image: Image.Image, kind: str = "TIFF", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def by_tifffile(array: np.ndarray[Any, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    tifffile.imwrite(out, array, **options)
    return out.getvalue()


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK"])
def test_tiffs_of_pillow(mode: str, compression: str) -> None:
    """Inks are multiplied with other rounding."""
    data = saved(RGB.convert(mode), compression=compression)
    difference = kernels.decode_image(data).astype(int) - as_pillow(data)
    assert np.abs(difference).max() <= (1 if mode == "CMYK" else 0)


@pytest.mark.parametrize(("mode", "compression"), [("1", "raw"), ("1", "group4"), ("L", "jpeg"), ("RGB", "jpeg")])
def test_tiffs_of_scanners(mode: str, compression: str) -> None:
    """Faxes, and JPEGs inside, which two decoders round otherwise."""
    data = saved(RGB.convert("L").convert(mode), compression=compression)
    difference = kernels.decode_image(data).astype(int) - as_pillow(data)
    assert np.abs(difference).max() <= (1 if compression == "jpeg" else 0)


def test_planes_apart_and_white_zeros() -> None:
    planes = by_tifffile(np.moveaxis(np.asarray(RGB), 2, 0), photometric="rgb", planarconfig="separate")
    assert np.array_equal(kernels.decode_image(planes), np.asarray(RGB))
    inverted = by_tifffile(np.asarray(RGB)[..., 0], photometric="miniswhite")
    assert np.array_equal(kernels.decode_image(inverted), as_pillow(inverted))


@pytest.mark.parametrize(
    "options",
    [
        {"byteorder": ">"},
        {"tile": (16, 16)},
        {"rowsperstrip": 5},
        {"compression": "zlib", "rowsperstrip": 7},
        {"compression": "zlib", "predictor": True, "tile": (32, 16)},
    ],
)
def test_tiffs_of_tifffile(options: dict[str, Any]) -> None:
    assert np.array_equal(
        kernels.decode_image(by_tifffile(np.asarray(RGB), photometric="rgb", **options)), np.asarray(RGB)
    )


def decoded(path: Path, mode: str) -> np.ndarray[Any, Any]:
    (batch,) = ps.Loader(ps.read(path).transform(image=ps.image.Decode(mode=mode)).batch(1))  # type: ignore[arg-type]
    return batch["image"][0, 0]


@pytest.mark.parametrize("mode", ["I16", "unchanged"])
@pytest.mark.parametrize("kind", ["little.tif", "big.tif", "deep.pgm"])
def test_grey_of_16_bits_is_as_the_file_has_it(tmp_path: Path, kind: str, mode: str) -> None:
    data = by_tifffile(GREY16, byteorder="<" if kind == "little.tif" else ">")
    if kind == "deep.pgm":
        data = b"P5 11 9 65535\n" + GREY16.astype(">u2").tobytes()
    (tmp_path / kind).write_bytes(data)
    assert np.array_equal(decoded(tmp_path, mode), GREY16)


@pytest.mark.parametrize("magic", [b"P5", b"P6"])
@pytest.mark.parametrize("most", [1, 3, 100, 255])
@pytest.mark.parametrize("header", [b"%b 7 5 %d\n", b"%b\n# by a camera\n7\t5 # size\n%d ", b"%b\n\n7\r\n5\n%d\r"])
def test_pgm_and_ppm_are_pillows(magic: bytes, most: int, header: bytes) -> None:
    """Numbers are scaled by what the file calls the most."""
    pixels = np.random.default_rng(2).integers(0, most + 1, 105, dtype=np.uint8)
    data = header % (magic, most) + pixels.tobytes()
    assert np.array_equal(kernels.decode_image(data), as_pillow(data))


@pytest.mark.parametrize("most", [256, 1023, 4095, 65_535])
def test_deep_pgm_and_ppm_are_pillows(tmp_path: Path, most: int) -> None:
    numbers = np.random.default_rng(3).integers(0, most + 1, 105).astype(">u2")
    data = b"P6 7 5 %d\n%b" % (most, numbers.tobytes())
    assert np.array_equal(kernels.decode_image(data), as_pillow(data))
    grey = b"P5 7 15 %d\n%b" % (most, numbers.tobytes())
    (tmp_path / "grey.pgm").write_bytes(grey)
    assert np.array_equal(decoded(tmp_path, "I16"), np.asarray(Image.open(io.BytesIO(grey))))


def test_a_folder_of_them_is_read_and_turned(tmp_path: Path) -> None:
    """EXIF's orientation is a tag of TIFF itself; without `apply_exif` pixels are as they are stored."""
    (tmp_path / "a.tif").write_bytes(
        by_tifffile(np.asarray(RGB), photometric="rgb", extratags=[(274, "H", 1, 6, True)])
    )
    (tmp_path / "b.ppm").write_bytes(saved(RGB.transpose(Image.Transpose.ROTATE_270), "PPM"))
    dataset = ps.read(tmp_path)
    assert len(dataset) == 2
    turned = through(dataset.transform(image=ps.image.Decode(apply_exif=True)))["image"]
    assert np.array_equal(turned[0], turned[1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"P5 7 5 255\n" + bytes(34), r"a PNM file cut short \(34 bytes of pixels, of 35\)"),
        (b"P5 7 5 255", "a PNM header cut short or damaged"),
        (b"P5 7 x 255\n", "a PNM header cut short or damaged"),
        (b"P5 7 5 0\n" + bytes(35), "a PNM header cut short or damaged"),
        (b"P5 7 5 65536\n" + bytes(99), "a PNM header cut short or damaged"),
        (b"P5 0 5 255\n", "a PNM header that states 0 × 5 pixels"),
        (b"P6 99999 99999 255\n", "above the limit of"),
        (saved(RGB)[:-900], "a damaged TIFF file|a TIFF header cut short or damaged"),
        (b"II*\0" + bytes(9), "a TIFF header cut short or damaged"),
        (by_tifffile(np.zeros((4, 5), "f4")), "a TIFF file of a kind that is not read|a TIFF file of unknown pixels"),
        (saved(RGB.quantize(9)), "a TIFF file of a kind that is not read .*; convert it to grey, RGB or RGBA"),
        (saved(RGB.convert("LA")), "a TIFF file of a kind that is not read"),
    ],
)
def test_what_is_damaged_or_not_held_is_said(data: bytes, message: str) -> None:
    with pytest.raises(REFUSED, match=message):
        kernels.decode_image(data)


@pytest.mark.slow
def test_bombs_are_refused_before_memory_is_taken() -> None:
    bomb = by_tifffile(np.zeros((12_000, 12_000), np.uint8), compression="zlib")
    with pytest.raises(REFUSED, match="above the limit"):
        kernels.decode_image(bomb, limits=(1 << 28, 1 << 20, 1_100))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    seed=st.sampled_from(
        [saved(RGB), saved(RGB, compression="tiff_lzw"), by_tifffile(GREY16, tile=(16, 16)), saved(RGB, "PPM")]
    ),
    at=st.integers(0, 400),
    more=st.binary(max_size=8),
    cut=st.integers(0, 8),
    from_end=st.booleans(),
)
def test_any_bytes_are_pixels_or_refused(seed: bytes, at: int, more: bytes, cut: int, from_end: bool) -> None:
    place = max(0, len(seed) - at) if from_end else at
    with contextlib.suppress(*REFUSED):
        kernels.decode_image(seed[:place] + more + seed[place + cut :], limits=(1 << 20, 1 << 24, 1_100))
