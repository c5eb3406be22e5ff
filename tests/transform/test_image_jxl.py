"""JPEG XL by libjxl's encoders (tests/golden/make_jxl.py): the pixels of its decoder, and what is said of files that are damaged or hold no such pixels."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import penstock as ps
from penstock.core import kernels
from penstock.core.errors import DataError, RowError
from penstock.format.media.folder import IMAGES
from penstock.transform import image as I  # noqa: N812
from penstock.transform.image.recipes.one_image import decoded
from support.files import through

with zipfile.ZipFile(Path(__file__).parent.parent / "golden" / "jxl.zip") as archive:
    FILES = {name: archive.read(name) for name in archive.namelist()}
NAMES = [name for name in FILES if name.endswith(".jxl") and not name.startswith("refused")]
REFUSED = (RowError, ValueError)
#: Samples of other than 8 and 16 bits, which libjxl's wrapper leaves as they are.
BITS = {"lossless-10-bits.jxl": 10, "lossless-grey-12-bits.jxl": 12}
#: The largest difference to libjxl, of 255, and the mean one: the two round floats otherwise, and libjxl dithers bytes.
LOSSY, LOSSY_MEAN = 1, 0.3


def by_libjxl(name: str) -> npt.NDArray[Any]:
    if png := FILES.get(f"{name}.png"):
        pixels = np.asarray(Image.open(io.BytesIO(png)))
    else:
        pixels = np.load(io.BytesIO(FILES[f"{name}.npy"]))
    if name in BITS:
        pixels = np.rint(pixels * (65_535 / ((1 << BITS[name]) - 1))).astype(np.uint16)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def wanted_as(pixels: npt.NDArray[Any], mode: str) -> npt.NDArray[Any]:
    """As `Decode` has it: of 16 bits the upper 8 count, alpha is dropped or added, grey repeated."""
    if mode == "I16":
        return pixels
    eight = pixels if pixels.itemsize == 1 else (pixels >> 8).astype(np.uint8)
    colours = eight[..., :-1] if eight.shape[2] in (2, 4) else eight
    alpha = eight[..., -1:] if eight.shape[2] in (2, 4) else np.full_like(eight[..., :1], 255)
    return np.dstack([np.broadcast_to(colours, (*eight.shape[:2], 3)), alpha][: 2 if mode == "RGBA" else 1])


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("name", [name for name in NAMES if "grey-1" not in name])
def test_pixels_are_libjxls(name: str, mode: Any) -> None:
    """Lossless files exactly, of other bits but for rounding; in lossy ones decoders differ by a level."""
    found, wanted = decoded(FILES[name], I.Decode(mode=mode)), wanted_as(by_libjxl(name), mode)
    assert found.shape == wanted.shape
    difference = np.abs(found.astype(int) - wanted)
    assert difference.max() <= (LOSSY if name.startswith("lossy") else name in BITS)
    assert difference.mean() <= LOSSY_MEAN
    assert found.std() > 10


@pytest.mark.parametrize("name", ["lossless-grey-16.jxl", "lossless-grey-12-bits.jxl", "lossy-grey-16.jxl"])
def test_grey_of_16_bits(name: str) -> None:
    """Of 12 bits it is scaled, as libjxl does it."""
    for mode in ("I16", "unchanged"):
        found, wanted = decoded(FILES[name], I.Decode(mode=mode)), by_libjxl(name)
        difference = np.abs(found.astype(int) - wanted)
        assert found.dtype == np.uint16
        assert difference.max() <= (2 if name.startswith("lossy") else name in BITS)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("lossless-rgb.jxl", "RGB"),
        ("lossy-rgba.jxl", "RGBA"),
        ("lossless-grey.jxl", "L"),
        ("lossy-grey-alpha.jxl", "LA"),
        ("lossless-boxes.jxl", "RGB"),
    ],
)
def test_unchanged_is_what_the_header_says(name: str, mode: str) -> None:
    assert kernels.image_mode(FILES[name]) == mode
    found = decoded(FILES[name], I.Decode(mode="unchanged"))
    assert found.shape[2] == by_libjxl(name).shape[2]
    assert np.abs(found.astype(int) - by_libjxl(name)).max() <= LOSSY


@pytest.mark.parametrize("name", ["lossless-rgb-16.jxl", "lossless-rgba-16.jxl", "lossless-grey-alpha-16.jxl"])
def test_no_mode_holds_colours_of_16_bits(name: str) -> None:
    with pytest.raises(DataError, match="16-bit colours or alpha, which no mode holds unchanged"):
        decoded(FILES[name], I.Decode(mode="unchanged"))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_turned_as_its_header_says(orientation: int) -> None:
    """Always, as libjxl does it; sizes are those of the turned image."""
    data = FILES[f"lossy-turned-{orientation}.jxl"]
    width, height, kind = kernels.image_info(data)
    assert (width, height, kind) == (*((67, 41) if orientation < 5 else (41, 67)), "JPEG XL")
    for apply_exif in (False, True):
        found = decoded(data, I.Decode("RGB", apply_exif=apply_exif))
        assert np.abs(found.astype(int) - by_libjxl(f"lossy-turned-{orientation}.jxl")).max() <= LOSSY


def test_a_folder_of_them(tmp_path: Path) -> None:
    for name in ("lossless-rgb.jxl", "lossless-boxes.jxl", "lossy-rgb.jxl"):
        (tmp_path / name).write_bytes(FILES[name])
        assert IMAGES.matches(FILES[name][:512])
    found = np.stack(through(ps.read(tmp_path).transform(image=[I.Decode("RGB"), I.CenterCrop(40)]))["image"])
    assert found.shape == (3, 3, 40, 40)
    assert np.array_equal(found[0], found[1])


def bits_of(*fields: tuple[int, int]) -> bytes:
    """Numbers of so many bits, the lowest first, as the codestream has them."""
    number = at = 0
    for value, bits in fields:
        number |= value << at
        at += bits
    return number.to_bytes((at + 7) // 8, "little")


#: The marker, and 8 × 8 pixels; then what is said of them up to the kind of number: not all is usual, no extra fields, whole numbers.
SQUARE = ((0x0AFF, 16), (1, 1), (0, 5), (1, 3))
WHOLE = ((0, 1), (0, 1), (0, 1))
#: 8 bits; 16-bit buffers suffice; one extra channel, which is no usual alpha but black, of 8 bits, not smaller, without a name.
BLACK = ((0, 2), (1, 1), (1, 2), (0, 1), (2, 2), (2, 4), (0, 1), (0, 2), (0, 2), (0, 2))
#: Not XYB, usual colours, no extensions, the usual transform; zeros behind.
END = ((0, 1), (1, 1), (0, 2), (1, 1), (0, 400))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bits_of(*SQUARE, *WHOLE, *BLACK, *END), r"a JPEG XL file of four inks \(CMYK\); convert it to RGB"),
        (bits_of(*SQUARE, *WHOLE, (3, 2), (23, 6), (1, 1), (0, 2), *END), "a JPEG XL file of 24 bits a sample"),
        (FILES["refused-floats.jxl"], "a JPEG XL file of floating-point numbers; store it as integers"),
        (FILES["lossless-rgb.jxl"][:-40], r"a JPEG XL file cut short \(3916 bytes of codestream\)"),
        (FILES["lossless-boxes.jxl"][:-40], r"a JPEG XL file cut short \(3916 bytes of codestream\)"),
        (FILES["lossless-animated.jxl"][:600], "a JPEG XL file cut short"),
        (b"\xff\x0a", "a JPEG XL header cut short or damaged"),
        (FILES["lossless-boxes.jxl"][:12] + bytes(40), "a JPEG XL header cut short or damaged"),
        (FILES["lossless-rgb.jxl"][:40] + bytes(900), "a damaged JPEG XL file|a JPEG XL file cut short"),
        # 2³⁰ × 2³⁰ pixels
        (
            bits_of((0x0AFF, 16), (0, 1), (3, 2), ((1 << 30) - 1, 30), (1, 3), (1, 1), (1, 1), (0, 80)),
            "above the limit of",
        ),
    ],
)
def test_what_is_damaged_or_not_held_is_said(data: bytes, message: str) -> None:
    with pytest.raises(REFUSED, match=message):
        kernels.decode_image(data)


def test_limits_are_checked_before_pixels_are_decoded() -> None:
    """The file holds a header and nothing else."""
    head = FILES["lossless-large.jxl"][:100]
    with pytest.raises(
        REFUSED, match=r"states 301 × 283 = 85183 pixels, above the limit of 80000; raise Limits\(pixels"
    ):
        kernels.decode_image(head, limits=(80_000, 1 << 30, 1_100))
    with pytest.raises(REFUSED, match=r"takes 255549 bytes decoded, above the limit of 200000"):
        kernels.decode_image(head, limits=(1 << 20, 200_000, 1_100))


def test_metadata_is_not_unpacked() -> None:
    """A box that is compressed, in a file that is read in spite of it: what it would unpack to is never looked at."""
    data = FILES["lossless-boxes.jxl"]
    first = data.index(b"jxlc") - 4
    brotli = b"\0\0\0\x14brobExif" + b"\xff" * 8
    assert np.array_equal(kernels.decode_image(data[:first] + brotli + data[first:]), by_libjxl("lossless-boxes.jxl"))


def test_the_codestream_may_lie_in_parts() -> None:
    data = FILES["lossless-boxes.jxl"]
    first = data.index(b"jxlc") + 4
    stream = FILES["lossless-rgb.jxl"]
    assert data[first : first + 2] == b"\xff\x0a"

    def parts() -> Iterator[bytes]:
        for number, begin in enumerate((0, 3, 200)):
            part = stream[begin : (3, 200, None)[number]]
            yield (len(part) + 12).to_bytes(4, "big") + b"jxlp" + number.to_bytes(4, "big") + part

    assert np.array_equal(kernels.decode_image(data[: first - 8] + b"".join(parts())), by_libjxl("lossless-rgb.jxl"))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    seed=st.sampled_from(
        [FILES[f"{name}.jxl"] for name in ("lossless-rgb", "lossy-rgb", "lossless-boxes", "lossy-patches")]
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
